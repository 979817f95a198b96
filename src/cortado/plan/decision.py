"""The decision of a classifier over time in integers: what the C bundle computes, and the reference of it.

Codes of one output have one scale, so a mean of scores is at a threshold where the sum of their codes is at an integer:
scale * (sum / smooth - zero_point) >= threshold where sum >= ceil(smooth * (threshold / scale + zero_point)).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TypeVar

import numpy as np

from cortado.base.arrays import ArrayType
from cortado.base.decision import Decision
from cortado.base.element import Element
from cortado.base.errors import CortadoError

DECISION = "decision.kept"  # a buffer: what is kept from output to output
NO_DECISION = -1
MOST_CLASSES = 4096
T = TypeVar("T")


@dataclass(frozen=True)
class DecisionRule:
    """After each output: every class's sum of the last `smooth` codes. The class with the largest (of several, the
    first) is decided for if `smooth` outputs came, its sum is at its threshold or above (None: never), and it was not
    decided for at one of the last `holdoffs` outputs."""

    smooth: int
    thresholds: tuple[int | None, ...]  # by class
    holdoffs: tuple[int, ...]
    names: tuple[str, ...] = ()  # of the classes; none where they have only numbers

    @property
    def classes(self) -> int:
        return len(self.thresholds)

    def bytes(self, element: Element) -> int:
        """Returns the bytes that are kept: sums and the decision in 32 bits; place, count and hold-offs in 16; the
        codes."""
        return 4 * (self.classes + 1) + 2 * (2 + self.classes) + element.bytes * self.smooth * self.classes

    def decisions(self, scores: ArrayType) -> ArrayType:
        """For codes of [outputs, classes]: the class decided for with each output, or NO_DECISION."""
        codes = scores.reshape(-1, self.classes).astype(np.int64)
        before = np.zeros((1, self.classes), np.int64)
        running = np.concatenate([before, codes.cumsum(axis=0)])
        found = np.full(len(codes), NO_DECISION, np.int32)
        free = [0] * self.classes  # the first output at which a class may be decided for again
        for number in range(self.smooth - 1, len(codes)):
            sums = running[number + 1] - running[number + 1 - self.smooth]
            best = int(sums.argmax())
            threshold = self.thresholds[best]
            if threshold is not None and sums[best] >= threshold and number >= free[best]:
                found[number] = best
                free[best] = number + 1 + self.holdoffs[best]
        return found


@dataclass(frozen=True)
class ClassScores:
    """A model's first output, as the rule sees it."""

    name: str
    shape: Sequence[int]
    element: Element
    scale: float | None  # None where values are no codes
    zero_point: int | None

    @property
    def classes(self) -> int:
        """Along the only dimension that is longer than 1; anything else has no classes."""
        long = [size for size in self.shape if size > 1]
        is_scores = len(long) < 2 and self.scale is not None and self.element.real
        classes = (long or [1])[0]
        alone = len(self.shape) < 2 or self.shape[0] == 1
        if not is_scores or not alone or classes > MOST_CLASSES:
            raise CortadoError(
                f"--decide: '{self.name}' is {self.element.name} of shape {list(self.shape)}, expected scores of "
                "classes, [1, classes], as int8 or int16 codes (--io int8)"
            )
        return classes


def check_names(decision: Decision, classes: int, names: Sequence[str] | None) -> None:
    """Raises for a class that is unknown."""
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
    """The user's decision rule in integers."""
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


def _least_sum(threshold: float, smooth: int, scores: ClassScores) -> int:
    """The least sum of codes whose mean is at the threshold, which is the decimal number that was written."""
    assert scores.scale is not None
    assert scores.zero_point is not None
    wanted, scale = Fraction(str(threshold)), Fraction(scores.scale)
    low, high = ((code - scores.zero_point) * scale for code in scores.element.codes)
    if not low < wanted <= high:
        raise CortadoError(
            f"--decide: a threshold of {threshold} is not within the scores of '{scores.name}', expected one above "
            f"{float(low):.6g} and at most {float(high):.6g}"
        )
    return ceil(smooth * (wanted / scale + scores.zero_point))
