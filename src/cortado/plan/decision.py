"""A classifier's decision over time as integer sums: what the C bundle computes, and its reference.

Codes of one output share one scale, so the mean score reaches a threshold exactly when the sum of codes reaches an
integer: scale * (sum / smooth - zero_point) >= threshold if and only if sum >= ceil(smooth * (threshold / scale +
zero_point)). Scores in float32 are summed from the oldest to the newest; their least sum is the smallest float32 not
below smooth * threshold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TypeVar

import numpy as np

from cortado.base import float32
from cortado.base.arrays import ArrayType
from cortado.base.decision import Decision
from cortado.base.element import Element, element_of
from cortado.base.errors import CortadoError

DECISION = "decision.kept"  # a buffer: the decision's state between outputs
NO_DECISION = -1
MOST_CLASSES = 4096
_LARGEST = float(np.finfo(np.float32).max)
T = TypeVar("T")


@dataclass(frozen=True)
class DecisionRule:
    """The rule applied after each output: the scores of the last `smooth` outputs are summed for each class. The class
    with the largest sum (the first, in case of a tie) is decided for if `smooth` outputs have come, its sum reaches its
    threshold (None: never), and it was not decided for at one of the last `holdoffs` outputs."""

    smooth: int
    thresholds: tuple[float | None, ...]  # by class; integers if scores are codes
    holdoffs: tuple[int, ...]
    names: tuple[str, ...] = ()  # of the classes; empty if they have only numbers

    @property
    def classes(self) -> int:
        return len(self.thresholds)

    def bytes(self, element: Element) -> int:
        """Returns the bytes of its state: sums and decision in 32 bits; position, count and hold-offs in 16, padded to
        the alignment of a score; the scores."""
        counts = -(-2 * (2 + self.classes) // element.bytes) * element.bytes
        return 4 * (self.classes + 1) + counts + element.bytes * self.smooth * self.classes

    def decisions(self, scores: ArrayType) -> ArrayType:
        """Returns the class decided for with each output, or NO_DECISION, given scores of [outputs, classes]."""
        rows = scores.reshape(-1, self.classes)
        found = np.full(len(rows), NO_DECISION, np.int32)
        free = [0] * self.classes  # the first output at which a class can be decided for again
        for number, sums in enumerate(self._sums(rows), start=self.smooth - 1):
            best = int(sums.argmax())
            threshold = self.thresholds[best]
            if threshold is not None and sums[best] >= threshold and number >= free[best]:
                found[number] = best
                free[best] = number + 1 + self.holdoffs[best]
        return found

    def _sums(self, rows: ArrayType) -> ArrayType:
        """Returns the sum over every window of `smooth` consecutive rows. NaN becomes minus infinity: it is below every
        sum."""
        if len(rows) < self.smooth:
            return rows[:0]
        windows = np.lib.stride_tricks.sliding_window_view(rows, self.smooth, axis=0)
        if not element_of(rows.dtype).floating:
            return np.asarray(windows.sum(axis=-1, dtype=np.int64))
        sums = float32.total(windows, axis=-1)
        return np.where(np.isnan(sums), -float32.INFINITY, sums)

    def least(self, element: Element) -> tuple[int | None, ...]:
        """Returns the thresholds as the C code has them: integers, or the bits of a float32."""
        return tuple(None if one is None else _word(one, element) for one in self.thresholds)

    def fits(self, element: Element) -> bool:
        """Whether its thresholds are representable as sums of scores of this element."""
        known = (one for one in self.thresholds if one is not None)
        if element.floating:
            return all(abs(one) <= _LARGEST and float(np.float32(one)) == one for one in known)
        return all(one == int(one) and -(2**31) <= one < 2**31 - 1 for one in known)


@dataclass(frozen=True)
class ClassScores:
    """A model's first output, as the rule reads it."""

    name: str
    shape: Sequence[int]
    element: Element
    scale: float | None  # None unless values are codes: integers, float32
    zero_point: int | None

    @property
    def classes(self) -> int:
        """The number of classes: the size of the only dimension longer than 1. Raises for anything but scores."""
        long = [size for size in self.shape if size > 1]
        is_scores = len(long) < 2 and self.element.real and (self.scale is not None or self.element.floating)
        classes = (long or [1])[0]
        alone = len(self.shape) < 2 or self.shape[0] == 1
        if not is_scores or not alone or classes > MOST_CLASSES:
            raise CortadoError(
                f"--decide: '{self.name}' is {self.element.name} of shape {list(self.shape)}, expected scores of "
                "classes, [1, classes], as float32 or as codes of 8 or 16 bits"
            )
        return classes


def check_names(decision: Decision, classes: int, names: Sequence[str] | None) -> None:
    """Raises for a class that is unknown, and if all are ignored."""
    for name in (*decision.ignore, *(name for name, _ in (*decision.thresholds, *decision.holdoffs))):
        class_number(name, classes, names)
    if len({class_number(name, classes, names) for name in decision.ignore}) == classes:
        raise CortadoError("--decide: every class is ignored, expected one that can be decided for")


def class_number(name: str, classes: int, names: Sequence[str] | None) -> int:
    """Returns the number of a class, given its label or its number."""
    known = names if names is not None and len(names) == classes else ()
    if name in known:
        return known.index(name)
    if name.isdecimal() and len(name) < 6 and int(name) < classes:
        return int(name)
    labels, hint = (f"one of {', '.join(known)}, or ", "") if known else ("", " (names need --labels)")
    raise CortadoError(f"there is no class '{name}'; expected {labels}a number from 0 to {classes - 1}{hint}")


def rule_of(decision: Decision, scores: ClassScores, names: Sequence[str] | None) -> DecisionRule:
    """Converts the user's decision rule to sums of scores."""
    classes = scores.classes
    check_names(decision, classes, names)
    thresholds = _of_classes(decision.threshold, decision.thresholds, classes, names)
    ignored = {class_number(name, classes, names) for name in decision.ignore}
    return DecisionRule(
        smooth=decision.smooth,
        thresholds=tuple(
            None if number in ignored else _least_sum(value, decision.smooth, scores)
            for number, value in enumerate(thresholds)
        ),
        holdoffs=tuple(_of_classes(decision.holdoff, decision.holdoffs, classes, names)),
        names=tuple(names) if names is not None and len(names) == classes else (),
    )


def _of_classes(usual: T, single: Sequence[tuple[str, T]], classes: int, names: Sequence[str] | None) -> list[T]:
    found = [usual] * classes
    for name, value in single:
        found[class_number(name, classes, names)] = value
    return found


def _least_sum(threshold: float, smooth: int, scores: ClassScores) -> float:
    """Returns the least sum of scores whose mean reaches the threshold, taken as the decimal number that the user
    wrote."""
    if scores.element.floating:
        return _least_float(smooth * Fraction(str(threshold)), scores.name)
    assert scores.scale is not None
    assert scores.zero_point is not None
    wanted, scale = Fraction(str(threshold)), Fraction(scores.scale)
    low, high = ((code - scores.zero_point) * scale for code in scores.element.codes)
    if not low < wanted <= high:
        raise CortadoError(
            f"--decide: a threshold of {threshold} is outside the range of the scores of '{scores.name}', expected one "
            f"above {float(low):.6g} and at most {float(high):.6g}"
        )
    return ceil(smooth * (wanted / scale + scores.zero_point))


def _least_float(wanted: Fraction, name: str) -> float:
    """Returns the smallest float32 that is not below `wanted`."""
    if abs(wanted) > Fraction(_LARGEST):
        raise CortadoError(
            f"--decide: a sum of {float(wanted):.6g} exceeds float32, the type of '{name}'; expected thresholds that, "
            f"times the number of averaged outputs, are at most {_LARGEST:.6g}"
        )
    near = np.float32(float(wanted))
    return float(near if Fraction(float(near)) >= wanted else np.nextafter(near, float32.INFINITY))


def _word(threshold: float, element: Element) -> int:
    return int(np.float32(threshold).view(np.int32)) if element.floating else int(threshold)
