"""Layers of int16 codes, and layers with int4 weights, beside the same layers of int8 on the emulated boards:
instructions, and their ratio; of int4 weights also the flash.

python benchmarks/precision.py [--targets m0,m4,m55] [--layers conv1x1,...] [--kinds int16,int4,int4/32] [--json]

`bar` is what the ratio is to stay below: what the inner loops alone were found to need, with a little room. int4/32 has
a factor for each 32 weights, which no bar is for.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from _common import NOTE, TARGETS, progress, ratio, table
from cortado.base.target import from_target_string
from cortado.exploring import Sketch, board_work, prepared, sketch
from cortado.ir.kernel import Array
from cortado.options import Activations, Optimize, Options, Weights

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "conv1x1": (lambda: nn.Conv2d(64, 64, 1), (1, 64, 25, 5)),
    "conv3x3": (lambda: nn.Conv2d(16, 16, 3, padding=1), (1, 16, 32, 32)),
    "linear": (lambda: nn.Linear(640, 128), (1, 640)),
    "depthwise": (lambda: nn.Conv2d(64, 64, 3, padding=1, groups=64), (1, 64, 25, 5)),
    "gru": (lambda: nn.GRU(64, 64, batch_first=True), (1, 10, 64)),
    "lstm": (lambda: nn.LSTM(64, 64, batch_first=True), (1, 10, 64)),
}
PATHS = {"gru": 6, "lstm": 8}  # two in each gate
BARS = {
    "m0": {"conv1x1": 1.15, "conv3x3": 1.15, "linear": 1.05, "depthwise": 1.05},
    "m4": {"conv1x1": 1.15, "conv3x3": 1.12, "linear": 1.20, "depthwise": 0.90},
    "m55": {"conv1x1": 1.55, "conv3x3": 1.65, "linear": 1.95, "depthwise": 1.05, "gru": 1.50, "lstm": 1.50},
}
INT4_BARS = {
    "m0": {"conv1x1": 0.82, "linear": 0.85},
    "m4": {"conv1x1": 1.08, "linear": 1.02},
    "m55": {"conv1x1": 1.05, "linear": 1.00},
}
FLASH_BAR = 0.53  # of the weights alone
KINDS = {
    "int8": Options(optimize=Optimize.TIME),
    "int16": Options(activations=Activations.INT16, optimize=Optimize.TIME),
    "int4": Options(weights=Weights.INT4, optimize=Optimize.TIME),
    "int4/32": Options(weights=Weights.INT4, weight_group=32, optimize=Optimize.TIME),
}
PARAMETERS = 12  # bytes of bias, multiplier and shift, which every output channel has beside its weights


@dataclass(frozen=True)
class Measured:
    """A layer of one kind on one core."""

    instructions: int
    weights_bytes: int  # without biases and factors of channels


def measure(name: str, targets: list[str], kinds: list[str]) -> dict[str, dict[str, Measured]]:
    """By target: a layer of each kind. A run that differs from the reference is an error."""
    build, shape = LAYERS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module, example = build().eval(), torch.randn(shape)
    found: dict[str, dict[str, Measured]] = {target: {} for target in targets}
    for kind in ("int8", *kinds):
        if kind.startswith("int4") and name == "depthwise":
            continue  # its weights stay int8
        options = KINDS[kind]
        model = prepared(module, (example,), options)
        for target in targets:
            layer = sketch(model, from_target_string(TARGETS[target]), options)
            found[target][kind] = Measured(
                board_work(layer).total.instructions, _weights_bytes(layer, PATHS.get(name, 0))
            )
    return found


def _weights_bytes(layer: Sketch, paths: int) -> int:
    """Of the one step that has some."""
    step = max(layer.planned.program.steps, key=lambda one: one.macs)
    kernel = step.kernels[max(layer.planned.program.cores)]
    arrays = [value.data for key, value in kernel.fields.items() if isinstance(value, Array) and key != "zero"]
    units, channels = (kernel.fields.get(name, 0) for name in ("units", "out_c"))
    assert isinstance(units, int)
    assert isinstance(channels, int)
    return sum(array.nbytes for array in arrays) - PARAMETERS * (channels + paths * units)


def shown(results: dict[str, dict[str, dict[str, Measured]]]) -> str:
    rows = []
    for name, by_target in results.items():
        for target, found in by_target.items():
            for kind in [kind for kind in found if kind != "int8"]:
                rows.append(_row(name, target, kind, found))
    return table(["layer", "core", "kind", "int8", "this", "ratio", "bar", "met", "flash"], rows)


def _row(name: str, target: str, kind: str, found: dict[str, Measured]) -> list[Any]:
    base, this = found["int8"], found[kind]
    share = ratio(this.instructions, base.instructions)
    bars = {"int16": BARS, "int4": INT4_BARS}.get(kind, {})
    bar = bars.get(target, {}).get(name)
    flash = ratio(this.weights_bytes, base.weights_bytes) if kind.startswith("int4") else None
    within = flash is None or flash <= FLASH_BAR
    met = "" if bar is None else "yes" if share is not None and share <= bar and within else "no"
    return [name, target, kind, base.instructions, this.instructions, share, bar, met, flash]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(BARS))
    parser.add_argument("--layers", default=",".join(LAYERS))
    parser.add_argument("--kinds", default="int16,int4,int4/32")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    for name in arguments.layers.split(","):
        progress(name)
        results[name] = measure(name, arguments.targets.split(","), arguments.kinds.split(","))
    if arguments.json:
        print(json.dumps(results, indent=2, default=vars))
        return
    print(shown(results))
    print(f"\n{NOTE}")


if __name__ == "__main__":
    main()
