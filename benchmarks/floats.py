"""Layers, functions and a policy of float32 on the emulated boards: cycles, beside CMSIS-DSP's f32.

python benchmarks/floats.py [--targets m4,m7,m33,m55] [--only layers,codes,functions,policy] [--json]

Cycles are the model's at zero wait states: of a layer for each product, of a function for each number, of the policy
(32 inputs, two layers of 64, 4 outputs, tanh) for a call, with the bytes of its code. `bar` is what they are to stay
below; layers with int8 weights (`codes`) may take half as much again as with exact ones.
A run that differs from the reference is an error.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from _common import BASELINES, TARGETS, progress, table
from cortado.base.target import from_target_string
from cortado.exploring import Sketch, board_work, prepared, sketch
from cortado.options import Activations, Artifacts, Optimize, Options, Weights

PEERS = BASELINES["cmsis_dsp_f32"]["cycles_per_product"]
OPTIONS = Options(
    activations=Activations.FLOAT32, weights=Weights.FLOAT32, artifacts=Artifacts.C, optimize=Optimize.TIME
)
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(640, 128), (1, 640)),
    "conv1x1": (lambda: nn.Conv2d(64, 64, 1), (1, 64, 25, 5)),
    "conv3x3": (lambda: nn.Conv2d(16, 16, 3, padding=1), (1, 16, 32, 32)),
}
BARS = {
    "m4": {"linear": 4.0, "conv1x1": 4.0, "conv3x3": 3.8},
    "m7": {"linear": 3.2, "conv1x1": 3.2, "conv3x3": 3.0},
    "m33": {"linear": 4.0, "conv1x1": 4.0, "conv3x3": 3.8},
    "m55": {"linear": 1.0, "conv1x1": 1.0, "conv3x3": 1.1},
}
CODES = 1.5  # times the bar
COUNT = 512  # numbers
FUNCTION_BAR = {"m4": 80.0}
POLICY_BARS = {"m4": (34_000, 3072)}  # cycles, bytes of code


class Function(nn.Module):
    """One function over a row of numbers, or over two."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *x: torch.Tensor) -> torch.Tensor:
        return self.function(*x)


POWERS = "a ** b"  # each its own exponent, which is taken apart for every number
ONE: dict[str, Callable[..., torch.Tensor]] = {
    "abs": torch.abs,
    "exp": torch.exp,
    "log": torch.log,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "erf": torch.erf,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "atan": torch.atan,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "x ** 0.75": lambda x: x**0.75,
    "x * 0.5": lambda x: x * 0.5,
}
TWO: dict[str, Callable[..., torch.Tensor]] = {
    "a + b": torch.add,
    "a * b": torch.mul,
    "a / b": torch.div,
    "maximum": torch.maximum,
    "a < b": lambda a, b: (a < b).to(torch.float32),
    "atan2": torch.atan2,
    POWERS: torch.pow,
}


def compiled(module: nn.Module, example: tuple[torch.Tensor, ...], key: str, options: Options = OPTIONS) -> Sketch:
    return sketch(prepared(module.eval(), example, options), from_target_string(TARGETS[key]), options)


def cycles(found: Sketch) -> float:
    return board_work(found).total.cycles.typical


def layers(key: str) -> list[list[Any]]:
    return [[f"{name} {key}", found, BARS[key][name], PEERS[key].get(name)] for name, found in _products(key, OPTIONS)]


def codes(key: str) -> list[list[Any]]:
    options = replace(OPTIONS, weights=Weights.INT8)
    return [[f"{name}, int8 {key}", found, CODES * BARS[key][name], None] for name, found in _products(key, options)]


def _products(key: str, options: Options) -> Iterator[tuple[str, float]]:
    """The cycles of a product in each of the layers."""
    for name, (build, shape) in LAYERS.items():
        progress(f"{key} {name}")
        torch.manual_seed(0)
        found = compiled(build(), (torch.randn(shape),), key, options)
        yield name, cycles(found) / sum(step.macs for step in found.planned.program.steps)


def functions(key: str) -> list[list[Any]]:
    rows = []
    for count, group in ((1, ONE), (2, TWO)):
        for name, function in group.items():
            progress(f"{key} {name}")
            torch.manual_seed(1)
            example = tuple(torch.rand(1, COUNT) * 2 + 0.1 for _ in range(count))
            found = compiled(Function(function), example, key)
            bar = None if name == POWERS else FUNCTION_BAR.get(key)
            rows.append([f"{name} {key}", cycles(found) / COUNT, bar, None])
    return rows


def policy(key: str) -> list[list[Any]]:
    progress(f"{key} policy")
    torch.manual_seed(2)
    sizes = (32, 64, 64, 4)
    parts = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.Tanh())]
    found = compiled(nn.Sequential(*parts), (torch.randn(1, 32),), key)
    bars = POLICY_BARS.get(key, (None, None))
    taken = (("cycles", cycles(found)), ("bytes of code", found.code_bytes))
    return [[f"policy, {what} {key}", number, bar, None] for (what, number), bar in zip(taken, bars, strict=True)]


MEASURES = {"layers": layers, "codes": codes, "functions": functions, "policy": policy}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=",".join(BARS))
    parser.add_argument("--only", default=",".join(MEASURES))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = [
        row for only in arguments.only.split(",") for key in arguments.targets.split(",") for row in MEASURES[only](key)
    ]
    if arguments.json:
        print(json.dumps([dict(zip(("what", "ours", "bar", "peer"), row, strict=True)) for row in rows], indent=2))
        return
    met = ["" if bar is None else "yes" if ours <= bar else "no" for _, ours, bar, _ in rows]
    print(table(["", "ours", "bar", "CMSIS-DSP", "met"], [[*row, one] for row, one in zip(rows, met, strict=True)]))


if __name__ == "__main__":
    main()
