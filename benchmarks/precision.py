"""Layers of int16 codes beside the same layers of int8 codes on the emulated boards: instructions, and their ratio.

python benchmarks/precision.py [--targets m0,m4,m55] [--layers conv1x1,...] [--json]

`bar` is what the ratio is to stay below: what the inner loops alone were found to need, with a little room.
"""

import argparse
import json
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from _common import NOTE, TARGETS, progress, ratio, table
from cortado.base.target import from_target_string
from cortado.exploring.sketch import board_work, prepared, sketch
from cortado.options import Activations, Optimize, Options

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "conv1x1": (lambda: nn.Conv2d(64, 64, 1), (1, 64, 25, 5)),
    "conv3x3": (lambda: nn.Conv2d(16, 16, 3, padding=1), (1, 16, 32, 32)),
    "linear": (lambda: nn.Linear(640, 128), (1, 640)),
    "depthwise": (lambda: nn.Conv2d(64, 64, 3, padding=1, groups=64), (1, 64, 25, 5)),
}
BARS = {
    "m0": {"conv1x1": 1.15, "conv3x3": 1.15, "linear": 1.05, "depthwise": 1.05},
    "m4": {"conv1x1": 1.15, "conv3x3": 1.12, "linear": 1.20, "depthwise": 0.90},
    "m55": {"conv1x1": 1.55, "conv3x3": 1.65, "linear": 1.95, "depthwise": 1.05},
}


def measure(name: str, targets: list[str]) -> dict[str, dict[str, int]]:
    """By target: instructions of a layer with each kind of codes. A run that differs from the reference is an error."""
    build, shape = LAYERS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module, example = build().eval(), torch.randn(shape)
    found: dict[str, dict[str, int]] = {target: {} for target in targets}
    for kind in Activations:
        options = Options(activations=kind, optimize=Optimize.TIME)
        model = prepared(module, (example,), options)
        for target in targets:
            work = board_work(sketch(model, from_target_string(TARGETS[target]), options))
            found[target][kind.value] = work.total.instructions
    return found


def shown(results: dict[str, dict[str, dict[str, int]]]) -> str:
    rows = []
    for name, by_target in results.items():
        for target, counts in by_target.items():
            share, bar = ratio(counts["int16"], counts["int8"]), BARS[target][name]
            met = "yes" if share is not None and share <= bar else "no"
            rows.append([name, target, counts["int8"], counts["int16"], share, bar, met])
    return table(["layer", "core", "int8", "int16", "ratio", "bar", "met"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(BARS))
    parser.add_argument("--layers", default=",".join(LAYERS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    for name in arguments.layers.split(","):
        progress(name)
        results[name] = measure(name, arguments.targets.split(","))
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    print(shown(results))
    print(f"\n{NOTE}")


if __name__ == "__main__":
    main()
