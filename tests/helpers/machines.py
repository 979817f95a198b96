"""Where the batteries of kernels run, and what they draw.

Sizes equal to, below, above and a multiple of each kernel's tile; in place where that is allowed; extreme zero points,
factors, clamps and values; each output compared with an independent exact reference (kernel_reference.py). On boards,
every byte between two buffers has to stay as it was, and no load may touch it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from cortado.base.target import Core
from helpers import kernel_reference as ref
from helpers.kernel_board import run_watched
from helpers.kernel_layers import Requant
from helpers.kernels import Calls, Ref, run_host

Array = np.ndarray
Output = tuple[Ref, Array, str]
ZEROS = (-128, -1, 0, 127)
CLAMPS = ((-128, 127), (-128, 127), (-100, 90), (-128, 0), (5, 5))


@dataclass(frozen=True)
class Machine:
    """Where the battery runs. `suffixes` are the variants its core has beside the portable kernels."""

    name: str
    core: Core
    suffixes: tuple[str, ...]
    target: str | None = None
    clang: bool = False

    def run(self, calls: Calls) -> None:
        if self.target is None:
            run_host(calls, small_core=self.core is Core.SMALL)
        else:
            run_watched(calls, self.target, self.clang)

    def block_suffix(self) -> str:
        """The suffix of the kernels without vector instructions."""
        return self.suffixes[0]


HOSTS = [Machine("host", Core.LONG, ("__scalar",)), Machine("host-small", Core.SMALL, ("__scalar",))]
BOARDS = [
    Machine("m0", Core.SMALL, ("__scalar",), "cortex-m0"),
    Machine("m4", Core.DSP, ("__dsp",), "cortex-m4"),
    Machine("m55", Core.DSP, ("__dsp", "__mve"), "cortex-m55"),
]
MORE_BOARDS = [
    Machine("m3", Core.LONG, ("__scalar",), "cortex-m3"),
    Machine("m23", Core.SMALL, ("__scalar",), "cortex-m23"),
    Machine("m7", Core.DSP, ("__dsp",), "cortex-m7"),
    Machine("m33", Core.DSP, ("__dsp",), "cortex-m33"),
    Machine("m33-nodsp", Core.LONG, ("__scalar",), "cortex-m33+nodsp"),
    Machine("m85", Core.DSP, ("__dsp", "__mve"), "cortex-m85"),
    Machine("m0-clang", Core.SMALL, ("__scalar",), "cortex-m0", clang=True),
    Machine("m3-clang", Core.LONG, ("__scalar",), "cortex-m3", clang=True),
    Machine("m4-clang", Core.DSP, ("__dsp",), "cortex-m4", clang=True),
    Machine("m55-clang", Core.DSP, ("__dsp", "__mve"), "cortex-m55", clang=True),
]


def machines(wanted: Callable[[Machine], bool] = lambda machine: True) -> list[Any]:
    """Parameters of a test: every machine that is wanted."""
    kinds = (
        (HOSTS, [pytest.mark.host, pytest.mark.slow]),
        (BOARDS, [pytest.mark.qemu]),
        (MORE_BOARDS, [pytest.mark.qemu, pytest.mark.slow]),
    )
    return [
        pytest.param(machine, id=machine.name, marks=marks)
        for group, marks in kinds
        for machine in group
        if wanted(machine)
    ]


MACHINES = machines()


class Draw:
    """Random parameters, the same on every machine."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one(self, *choices: int) -> int:
        return int(choices[self.rng.integers(len(choices))])

    def bytes(self, *shape: int) -> Array:
        """Mostly random values, sometimes nothing but extremes."""
        if self.rng.random() < 0.25:
            return self.rng.choice(np.array([-128, 127], np.int8), shape)
        return self.rng.integers(-128, 128, shape, np.int8)

    def weights(self, *shape: int) -> Array:
        """Without -128, which the quantizer never makes."""
        if self.rng.random() < 0.25:
            return self.rng.choice(np.array([-127, 127], np.int8), shape)
        return self.rng.integers(-127, 128, shape, np.int8)

    def bias(self, channels: int) -> Array | None:
        size = self.one(0, 1000, 1_000_000)
        return None if size == 0 else self.rng.integers(-size, size, channels, np.int32)

    def multipliers(self, n: int) -> Array:
        """Of all sizes between 1/2 and 1, and both ends."""
        drawn = self.rng.integers(1 << 30, 1 << 31, n, np.int64)
        ends = self.rng.choice(np.array([1 << 30, (1 << 31) - 1, 0x7FFF8000, 0x40008000]), n)
        return np.where(self.rng.random(n) < 0.3, ends, drawn).astype(np.int32)

    def requant(self, sums: Array) -> Requant:
        """Factors that spread the sums (channels last) over the output's range; now and then none or far too small."""
        channels = sums.shape[-1]
        spread = np.maximum(np.abs(sums).reshape(-1, channels).max(0), 1)
        shift = 6 - np.ceil(np.log2(spread)).astype(np.int64) + self.rng.integers(-2, 3, channels)
        odd = self.rng.random(channels)
        shift = np.where(odd < 0.05, -31, np.where(odd < 0.1, 0, shift))
        shift = np.minimum(shift, 29 - np.ceil(np.log2(spread + 1)).astype(np.int64))
        return Requant(self.multipliers(channels), shift.astype(np.int32), self.one(*ZEROS), *self.clamp())

    def clamp(self) -> tuple[int, int]:
        return CLAMPS[self.rng.integers(len(CLAMPS))]


def right_shifts_only(requant: Requant) -> Requant:
    return Requant(
        requant.multiplier, np.minimum(requant.shift, -1), requant.out_zero, requant.act_min, requant.act_max
    )


def check(machine: Machine, calls: Calls, outputs: list[Output], *kernels: str) -> None:
    """Runs everything at once. Every kernel named has to have been called."""
    called = {symbol for symbol, _ in calls.calls}
    assert not set(kernels) - called, f"never called: {sorted(set(kernels) - called)}"
    machine.run(calls)
    for ref_, expected, what in outputs:
        np.testing.assert_array_equal(calls.read(ref_, expected.dtype, expected.shape), expected, err_msg=what)


def finished(sums: Array, requant: Requant) -> Array:
    return ref.finish(sums, requant.multiplier, requant.shift, requant.out_zero, requant.act_min, requant.act_max)


def mve(machine: Machine, *kernels: str) -> list[str]:
    return [f"cortado_{kernel}__mve" for kernel in kernels if "__mve" in machine.suffixes]


def with_vectors(machine: Machine) -> tuple[str, ...]:
    """The suffixes of a portable kernel and, where the core has it, of the one with vector instructions."""
    return ("", "__mve") if "__mve" in machine.suffixes else ("",)


Pair = tuple[int, int]


def in_turn(calls: Calls, a: Array, b: Array, where: int) -> tuple[Ref, Ref, Ref]:
    """Operands and output: apart, over a, over b, a little before a, a little before b."""
    lead = np.zeros(16, np.int8)
    fronts = [calls.array(np.concatenate([lead, values])) for values in (a, b)]
    left, right = (front + len(lead) for front in fronts)
    return left, right, (calls.space(len(a)), left, right, *fronts)[where]
