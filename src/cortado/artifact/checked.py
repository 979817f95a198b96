"""Results of a run: the bundle's codes, the real numbers they stand for, and the reference's values for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cortado.base.arrays import ArrayType
from cortado.run.runner import RunResult

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
        return sum(all(np.array_equal(a, b) for a, b in zip(got, want, strict=True)) for got, want in pairs)

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
