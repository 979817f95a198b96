"""Layers of int16 codes on the cores that have kernels of their own for them, whatever window they have."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cortado.base.target import from_target_string
from cortado.ir.op import Operator
from cortado.ops import reach
from cortado.ops.conv.conv2d import CONV2D
from cortado.ops.conv.depthwise_conv2d import DEPTHWISE
from cortado.ops.recurrent.kinds import GRU, LSTM, RNN
from helpers import cases

pytestmark = pytest.mark.qemu
DRAWN = 40


def to_the_right(arguments: dict[str, Any]) -> dict[str, Any]:
    """As networks have them: sums are larger than codes."""
    return {**arguments, "requantize_shifts": arguments["requantize_shifts"].clamp(max=-1)}


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55"])
def test_any_window_gives_the_references_bits(target: str, tmp_path: Path) -> None:
    """Strides, dilations, groups, clamps, channels that fill no vector; hardly any of them on a portable kernel."""
    work = [
        (operator, to_the_right(arguments))
        for operator in (CONV2D, DEPTHWISE)
        for arguments in cases.drawn(operator, DRAWN)
        if arguments["input"].dtype == torch.int16
    ]
    core = from_target_string(target)
    functions = [
        op.kernel(cases.call_of(op, arguments), max(core.cores)).call.function for op, arguments in work if op.kernel
    ]
    assert sum("__" in function for function in functions) > len(work) // 2
    found = cases.run_cases(work, core, core.machine.value, tmp_path)
    for function, got, want in zip(functions, found, cases.references(work), strict=True):
        assert np.array_equal(got, want.numpy()), function


@dataclass(frozen=True)
class Recurrent:
    """A layer of a kind over a few steps; `extreme` codes and weights are the ends of their ranges, all alike."""

    operator: Operator
    inputs: int
    units: int
    path_shift: int = -9
    out_shift: int = -2
    cell_bits: int = 0
    large_biases: bool = False  # sums leave 32 bits
    extreme: bool = False
    small: bool = False  # codes and biases: gates are far from their ends, and each bit of their sums shows
    flag: bool = False  # the other direction, the last step alone, another activation

    @property
    def name(self) -> str:
        return self.operator.name.removeprefix("cortado::")

    def arguments(self, seed: int) -> dict[str, Any]:
        rng = torch.Generator().manual_seed(seed)
        gates, states = {"rnn": (1, 1), "gru": (3, 1), "lstm": (4, 2)}[self.name]

        def whole(low: int, high: int, *shape: int) -> torch.Tensor:
            return torch.randint(low, high + 1, shape, generator=rng)

        def codes(*shape: int) -> torch.Tensor:
            drawn = whole(-9, 9, *shape) if self.small else whole(-32768, 32767, *shape)
            return (torch.full(shape, -32768) if self.extreme else drawn).to(torch.int16)

        def factor(of: str, shift: int) -> dict[str, int]:
            return {f"{of}_multiplier": int(whole(2**30, 2**31 - 1, 1)), f"{of}_shift": shift, f"{of}_zero_point": 0}

        rows, most = gates * self.units, 2**31 - 1 if self.large_biases else 2**11 if self.small else 2**22
        found: dict[str, Any] = {"input": codes(2, 3, self.inputs), "start": [codes(2, self.units)] * states}
        for end, width in (("x", self.inputs), ("h", self.units)):
            weights = torch.full((rows, width), 127) if self.extreme else whole(-127, 127, rows, width)
            found |= {f"weight_{end}": weights.to(torch.int8), f"bias_{end}": whole(-most, most, rows).int()}
            found |= {f"multiplier_{end}": whole(2**30, 2**31 - 1, rows).int()}
            found |= {f"shift_{end}": whole(self.path_shift - 3, self.path_shift, rows).int()}
        found |= {**factor("start", -1), **factor("out", self.out_shift - 15 * (self.name == "lstm"))}
        found |= {"reverse": self.flag, "last": self.flag, "run": None}
        own: dict[str, dict[str, Any]] = {
            "rnn": {"relu": self.flag},
            "gru": {"cell_bits": self.cell_bits},
            "lstm": {"cell_bits": self.cell_bits, "last_cells": self.flag, **factor("cell", 0), **factor("given", 1)},
        }
        return found | own[self.name]


RECURRENT = [
    layer
    for kind in (RNN, GRU, LSTM)
    for layer in (
        Recurrent(kind, 1, 1),
        Recurrent(kind, 7, 5, out_shift=0),
        Recurrent(kind, 8, 4, flag=True),
        Recurrent(kind, 17, 9, cell_bits=4, out_shift=3),
        Recurrent(kind, 64, 16, path_shift=-14, cell_bits=2),
        Recurrent(kind, 3, 6, large_biases=True, path_shift=-15),
        Recurrent(kind, 700, 6, path_shift=-16, large_biases=True, flag=True),
        Recurrent(kind, 1100, 3, extreme=True, path_shift=-14),
        Recurrent(kind, 9, 3, extreme=True, path_shift=-1),
        Recurrent(kind, 5, 40, path_shift=-1, out_shift=0, small=True),
        Recurrent(kind, 1200, 12, path_shift=-1, out_shift=0, small=True),
        Recurrent(kind, 10, 7, path_shift=-20, out_shift=30),
        Recurrent(kind, 10, 7, path_shift=-28, out_shift=-16),
    )
]


def test_recurrent_layers_give_the_references_bits(tmp_path: Path) -> None:
    """With vector instructions: fours and vectors that are not full, sums beyond 32 bits, codes and weights at the ends
    of their ranges, every shift that they take; and the portable kernel for a shift that they don't."""
    left = [Recurrent(kind, 9, 5, path_shift=2) for kind in (RNN, GRU, LSTM)]
    layers = [*RECURRENT, *left]
    work = [(layer.operator, layer.arguments(seed)) for seed, layer in enumerate(layers)]
    core = from_target_string("cortex-m55")
    functions = [op.kernel(cases.call_of(op, given), max(core.cores)).call.function for op, given in work if op.kernel]
    names = [f"cortado_{layer.name}_s16{'' if layer in left else '__mve'}" for layer in layers]
    assert functions == names
    assert {reach.sum_shift(given["weight_x"], given["bias_x"]) for _, given in work} >= {0, 1, 2}
    found, wanted = cases.run_cases(work, core, core.machine.value, tmp_path), cases.references(work)
    for layer, got, want in zip(layers, found, wanted, strict=True):
        assert np.array_equal(got, want.numpy()), layer
    assert sum(len(want.unique()) > 4 for want in wanted) > len(work) // 2  # most of them are not saturated
