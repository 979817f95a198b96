"""Results of a run: the bundle's codes, their real values, and the reference's expected values.

Also the layers of a traced run, which prints the output rows of every kernel call.
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
    """A run's results next to those expected by the reference."""

    result: RunResult
    expected: Samples
    values: Samples  # the outputs of each sample as real numbers, in the model's layout
    real: bool = False  # the run returned real numbers itself, as a .pte with float outputs does
    tolerance: float = 0.0  # relative to an output's largest magnitude; above zero only with float operators
    nones: tuple[int, ...] = ()  # positions among the outputs at which the model returns None
    compared: bool = True  # with the reference; without torch a board runs unchecked, and is never called bit-exact

    def __repr__(self) -> str:
        count = len(self.result.samples)
        exact = "bit-exact" if self.bit_exact else f"{self.exact_samples} of them bit-exact"
        exact = exact if self.compared else "not compared with the reference, which needs torch"
        counted = "" if self.result.instructions is None else f", {self.result.instructions:,} instructions"
        return f"<Checked: {count} sample{'s' if count != 1 else ''} on {self.result.on}, {exact}{counted}>"

    @property
    def outputs(self) -> tuple[Any, ...]:
        """Stacks each output over the samples, in the model's layout: real numbers, or integers and truth values where
        the model returns those. None where the model returns None."""
        found: list[ArrayType | None] = list(_by_output(self.values))
        for place in self.nones:
            found.insert(place, None)
        return tuple(found)

    @property
    def codes(self) -> tuple[ArrayType, ...]:
        """Stacks each output as the bundle stores it, in its own layout; empty for a .pte, which returns real
        numbers."""
        return () if self.real else _by_output(self.result.samples)

    @property
    def exact_samples(self) -> int:
        """Counts the samples with exactly the expected bits."""
        if not self.compared:
            return 0
        pairs = zip(self.result.samples, self.expected, strict=True)
        return sum(all(same_bits(a, b) for a, b in zip(got, want, strict=True)) for got, want in pairs)

    @property
    def bit_exact(self) -> bool:
        return self.compared and self.exact_samples == len(self.expected)

    @property
    def right(self) -> bool:
        """Returns whether the run is bit-exact, or within the tolerance of two float libraries."""
        return self.bit_exact or (self.tolerance > 0 and self.difference <= self.tolerance)

    @property
    def difference(self) -> float:
        """Returns the largest deviation of an output, relative to its largest magnitude."""
        samples = zip(self.result.samples, self.expected, strict=True)
        return max(_difference(a, b) for got, want in samples for a, b in zip(got, want, strict=True))


def _by_output(samples: Samples) -> tuple[ArrayType, ...]:
    return tuple(_joined(values) for values in zip(*samples, strict=True))


def _joined(values: Sequence[ArrayType]) -> ArrayType:
    """Joins the values of all samples along the first dimension, scalars along a new one; a single value stays as it
    is."""
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
    """Output rows of a layer's kernel calls, as recorded by a traced run. Rows that nothing reads are never made."""

    data: bytes
    at: int = 0  # the offset of the data in the layer's output: in a stream, rows of padding are never made

    def differing(self, value: ArrayType) -> int:
        """Counts the values that differ from the reference's; of each image, only the first rows may be present."""
        images = 1 if self.at or len(self.data) == value.nbytes else value.shape[0]
        found = np.frombuffer(self.data, dtype=value.dtype).reshape(images, -1)
        wanted = value.reshape(images, -1)[:, self.at // value.itemsize :]
        return int((found != wanted[:, : found.shape[1]]).sum())


def layers_in(trace: bytes, rules: StoreRules, graph: "LoweredGraph", where: str) -> dict[str, TracedLayer]:
    """Splits a trace, which has the rows in call order, into the output of every layer."""
    rows: dict[str, list[bytes]] = {name: [] for step in rules.steps for name in step.outputs}
    position = 0
    for call in rules.calls:
        outputs = rules.steps[call.step].outputs  # scratch comes after them
        for name, (low, high) in zip(outputs, call.ranges, strict=False):
            rows[name].append(trace[position : position + high - low])
            position += high - low
    if position != len(trace):
        raise CortadoError(
            f"a run of {where} returned {len(trace)} bytes of its layers' outputs, expected {position}; compile the "
            "model again with this version"
        )
    return {name: _layer(step, rows[name], graph.values[name].bytes) for step in rules.steps for name in step.outputs}


def _layer(step: StepName, rows: list[bytes], size: int) -> TracedLayer:
    """Joins a step's rows. Each call makes the next rows of the output, except that an accumulating step rewrites its
    only one."""
    if step.window is not None and rows:
        start, stop, at = step.window
        return TracedLayer(b"".join(rows[start:stop]), at * len(rows[0]))
    repeats = max(sum(map(len, rows)) // size, 1)
    return TracedLayer(b"".join(rows[repeats - 1 :: repeats]))
