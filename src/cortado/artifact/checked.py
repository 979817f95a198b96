"""Results of a run: the bundle's codes, the real numbers they stand for, and the reference's values for them.

The layers of a run that showed the output row of every kernel call.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cortado.base.arrays import ArrayType, same_bits
from cortado.base.errors import CortadoError
from cortado.run.bundle_info import StepName, StoreRules
from cortado.run.runner import RunResult

if TYPE_CHECKING:
    from cortado.plan.lowered import LoweredGraph


# ---- checked ---------------------------------------------------------------------------------------------

Samples = list[list[ArrayType]]


@dataclass(frozen=True, repr=False)
class Checked:
    """A run and what the reference says it must give."""

    result: RunResult
    expected: Samples
    values: Samples  # the outputs of each sample as real numbers, in the model's layout
    real: bool = False  # the run gave real numbers itself: the .pte, whose outputs are float
    tolerance: float = 0.0  # as part of an output's largest magnitude; above zero only with float operators
    nones: tuple[int, ...] = ()  # where among the outputs the model returns None
    compared: bool = True  # with the reference; without torch a board runs alone, and nothing is said to be bit-exact

    def __repr__(self) -> str:
        count = len(self.result.samples)
        exact = "bit-exact" if self.bit_exact else f"{self.exact_samples} of them bit-exact"
        exact = exact if self.compared else "not compared with the reference, which needs torch"
        counted = "" if self.result.instructions is None else f", {self.result.instructions:,} instructions"
        return f"<Checked: {count} sample{'s' if count != 1 else ''} on {self.result.on}, {exact}{counted}>"

    @property
    def outputs(self) -> tuple[Any, ...]:
        """An array for each of the model's outputs, in its own layout, samples along the first dimension: real numbers,
        and integers and truth values where the model gives these. None where the model returns None."""
        found: list[ArrayType | None] = list(_by_output(self.values))
        for place in self.nones:
            found.insert(place, None)
        return tuple(found)

    @property
    def codes(self) -> tuple[ArrayType, ...]:
        """The outputs as the bundle holds them, in its own layout; those of a .pte are real numbers, and no codes."""
        return () if self.real else _by_output(self.result.samples)

    @property
    def exact_samples(self) -> int:
        """How many samples gave just the expected bits."""
        if not self.compared:
            return 0
        pairs = zip(self.result.samples, self.expected, strict=True)
        return sum(all(same_bits(a, b) for a, b in zip(got, want, strict=True)) for got, want in pairs)

    @property
    def bit_exact(self) -> bool:
        return self.compared and self.exact_samples == len(self.expected)

    @property
    def right(self) -> bool:
        """Bit-exact, or as close as two float libraries are."""
        return self.bit_exact or (self.tolerance > 0 and self.difference <= self.tolerance)

    @property
    def difference(self) -> float:
        """The largest difference of an output, as part of its largest magnitude."""
        samples = zip(self.result.samples, self.expected, strict=True)
        return max(_difference(a, b) for got, want in samples for a, b in zip(got, want, strict=True))


def _by_output(samples: Samples) -> tuple[ArrayType, ...]:
    return tuple(_joined(values) for values in zip(*samples, strict=True))


def _joined(values: Sequence[ArrayType]) -> ArrayType:
    """One sample's value as it is; those of several along the first dimension, numbers along a new one."""
    if len(values) == 1:
        return values[0]
    return np.concatenate(values) if values[0].ndim else np.stack(values)


def _difference(got: ArrayType, want: ArrayType) -> float:
    apart = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
    largest = np.abs(want.astype(np.float64)).max()
    return float(apart / largest) if largest > 0 else float(apart > 0)


# ---- traced ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TracedLayer:
    """Output rows of a layer's kernel calls, as a traced run showed them. Rows that nothing reads are never made."""

    data: bytes
    at: int = 0  # the byte of the layer's output that it begins with: in a stream, rows of padding are never made

    def differing(self, value: ArrayType) -> int:
        """How many values are not those of the reference: of each image the first ones are there."""
        images = 1 if self.at or len(self.data) == value.nbytes else value.shape[0]
        found = np.frombuffer(self.data, dtype=value.dtype).reshape(images, -1)
        wanted = value.reshape(images, -1)[:, self.at // value.itemsize :]
        return int((found != wanted[:, : found.shape[1]]).sum())


def layers_in(trace: bytes, rules: StoreRules, graph: "LoweredGraph", where: str) -> dict[str, TracedLayer]:
    """Every layer's output, from the rows in the order of the calls."""
    rows: dict[str, list[bytes]] = {name: [] for step in rules.steps for name in step.outputs}
    position = 0
    for call in rules.calls:
        outputs = rules.steps[call.step].outputs  # scratch is behind them
        for name, (low, high) in zip(outputs, call.ranges, strict=False):
            rows[name].append(trace[position : position + high - low])
            position += high - low
    if position != len(trace):
        raise CortadoError(
            f"a run of {where} showed {len(trace)} bytes of its layers, expected {position}; "
            "compile the model again with this version"
        )
    return {name: _layer(step, rows[name], graph.values[name].bytes) for step in rules.steps for name in step.outputs}


def _layer(step: StepName, rows: list[bytes], size: int) -> TracedLayer:
    """A step makes the rows of its output one after the other; one that sums up makes the same one each time."""
    if step.window is not None and rows:
        start, stop, at = step.window
        return TracedLayer(b"".join(rows[start:stop]), at * len(rows[0]))
    repeats = max(sum(map(len, rows)) // size, 1)
    return TracedLayer(b"".join(rows[repeats - 1 :: repeats]))
