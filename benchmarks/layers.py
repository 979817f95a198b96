"""Every layer of baselines.json as a bundle on the emulated boards: instructions, on the M4 modelled cycles too, and
their ratio to CMSIS-NN's.

python benchmarks/layers.py [--targets m4,m55] [--layers NAME,...] [--json] [--history FILE]
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from _common import BASELINES, NOTE, TARGETS, geometric_mean, profiled, progress, ratio, remember, table
from cortado import api
from cortado.base.target import from_target_string
from cortado.options import Optimize

LAYERS: dict[str, Any] = BASELINES["cmsis_nn_layers"]


class Add(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b


def _depthwise(channels: int, stride: int) -> nn.Module:
    return nn.Conv2d(channels, channels, 3, stride=stride, padding=1, groups=channels)


Shapes = list[tuple[int, ...]]
DEFINITIONS: dict[str, tuple[Callable[[], nn.Module], Shapes]] = {
    "conv1x1_96_24_14x14": (lambda: nn.Conv2d(96, 24, 1), [(1, 96, 14, 14)]),
    "conv1x1_144_24_56x56": (lambda: nn.Conv2d(144, 24, 1), [(1, 144, 56, 56)]),
    "conv3x3_3_32_s2_224": (lambda: nn.Conv2d(3, 32, 3, stride=2, padding=1), [(1, 3, 224, 224)]),
    "conv3x3_16_16_32x32": (lambda: nn.Conv2d(16, 16, 3, padding=1), [(1, 16, 32, 32)]),
    "dw3x3_96_28_s1": (lambda: _depthwise(96, 1), [(1, 96, 28, 28)]),
    "dw3x3_96_28_s2": (lambda: _depthwise(96, 2), [(1, 96, 28, 28)]),
    "conv10x4_1_64_s2_49x10": (lambda: nn.Conv2d(1, 64, (10, 4), stride=2, padding=(5, 1)), [(1, 1, 49, 10)]),
    "dw3x3_64_25x5": (lambda: _depthwise(64, 1), [(1, 64, 25, 5)]),
    "conv1x1_64_64_25x5": (lambda: nn.Conv2d(64, 64, 1), [(1, 64, 25, 5)]),
    "fc_640_128": (lambda: nn.Linear(640, 128), [(1, 640)]),
    "fc_640_128_perch": (lambda: nn.Linear(640, 128), [(1, 640)]),
    "fc_1280_1000": (lambda: nn.Linear(1280, 1000), [(1, 1280)]),
    "add_24_56x56": (Add, [(1, 24, 56, 56)] * 2),
    "avgpool_7x7_1280": (lambda: nn.AvgPool2d(7), [(1, 1280, 7, 7)]),
    "softmax_1000": (lambda: nn.Softmax(dim=-1), [(1, 1000)]),
}
assert set(DEFINITIONS) == set(LAYERS)


CYCLES = "m4 cycles"


def columns(targets: list[str]) -> list[str]:
    """Instructions on every target; cycles where CMSIS-NN's were modelled too."""
    return [*targets, *([CYCLES] if "m4" in targets else [])]


def peer(name: str, column: str) -> int:
    """What CMSIS-NN needs."""
    layer = LAYERS[name]
    return int(layer["m4_model_cycles"] if column == CYCLES else layer["instructions"][column])


def measure(name: str, targets: list[str]) -> dict[str, int]:
    """Instructions of one layer on each target, and cycles on the M4; the run is checked against the reference."""
    build, shapes = DEFINITIONS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = build().eval()
        batches = [tuple(torch.randn(shape) for shape in shapes) for _ in range(2)]
    model = api.prepare(module, batches[0], batches, name=name)
    found = {}
    for key in targets:
        compiled = model.compile(from_target_string(TARGETS[key]), api.Options(optimize=Optimize.TIME))
        done = profiled(compiled)
        found[key] = done.timing.total.instructions
        if key == "m4":
            found[CYCLES] = round(done.timing.total.cycles.typical)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="m0,m3,m4,m33,m55")
    parser.add_argument("--layers", default=",".join(LAYERS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--history", type=Path)
    arguments = parser.parse_args()
    targets, names = arguments.targets.split(","), arguments.layers.split(",")
    results = {}
    for name in names:
        progress(name)
        results[name] = measure(name, targets)
    remember("layers", results, arguments.history)
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    shown = columns(targets)
    rows = []
    for name in names:
        row: list[Any] = [name]
        for column in shown:
            row += [results[name][column], ratio(results[name][column], peer(name, column))]
        rows.append(row)
    means: list[Any] = ["geometric mean"]
    for position in range(len(shown)):
        means += ["", geometric_mean(row[2 + 2 * position] for row in rows)]
    print(table(["layer", *(text for column in shown for text in (column, "ratio"))], [*rows, means]))
    print(f"\nratio: to CMSIS-NN (baselines.json), below 1 is fewer; {NOTE}")
    print("cycles: a model at zero wait states (docs/time.md); CMSIS-NN's by a simpler one (`m4_cycle_model`).")


if __name__ == "__main__":
    main()
