"""How good a model's outputs are: accuracy, confusion, the area under the ROC curve, signal to noise."""

import math
from dataclasses import dataclass

import numpy as np

from cortado.base.arrays import ArrayType


def ranks(scores: ArrayType, labels: ArrayType) -> ArrayType:
    """How many classes come before the right one, in each row of scores: 0 where it is the best.

    Of equal scores, which int8 makes often, the lower class comes first, as for argmax. NaN is below every number.
    """
    known = np.where(np.isnan(scores), -np.inf, scores)
    right = np.take_along_axis(known, labels[:, None], axis=1)
    before = np.arange(scores.shape[1])[None, :] < labels[:, None]
    above = (known > right) | ((known == right) & before)
    counts: ArrayType = above.sum(axis=1)
    return counts


def top_k(scores: ArrayType, labels: ArrayType, k: int = 1) -> float:
    """The part of the rows whose right class is among the best k."""
    return float((ranks(scores, labels) < k).mean())


def best(scores: ArrayType) -> ArrayType:
    """The best class of each row."""
    classes: ArrayType = np.where(np.isnan(scores), -np.inf, scores).argmax(axis=1)
    return classes


def confusion(predicted: ArrayType, labels: ArrayType, classes: int) -> ArrayType:
    """How often each class (row) was taken for each (column)."""
    return np.bincount(labels * classes + predicted, minlength=classes * classes).reshape(classes, classes)


def auc(scores: ArrayType, labels: ArrayType) -> float:
    """The area under the ROC curve: how likely a sample of label 1 has a higher score than one of label 0.

    Of labels 0 and 1, both must be there. Equal scores count half, which mean ranks do.
    """
    _, which, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean_rank = (last - (counts - 1) / 2)[which]  # ranks begin at 1
    positive = labels == 1
    ones, zeros = int(positive.sum()), int((~positive).sum())
    return float((mean_rank[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


@dataclass
class Error:
    """How far outputs are from the float model's, summed up over samples. What is not finite there has no signal."""

    signal: float = 0.0
    noise: float = 0.0
    worst: float = 0.0  # the largest difference of a value

    def add(self, wanted: ArrayType, found: ArrayType) -> None:
        finite = np.isfinite(wanted)
        exact = wanted[finite].astype(np.float64)
        apart = exact - found[finite].astype(np.float64)
        self.signal += float((exact**2).sum())
        self.noise += float((apart**2).sum())
        self.worst = max(self.worst, float(np.abs(apart).max(initial=0.0)))

    @property
    def decibels(self) -> float | None:
        """The ratio of signal to quantization noise; None without any signal, infinite without noise."""
        if not self.signal:
            return None
        return 10 * math.log10(self.signal / self.noise) if self.noise else math.inf


@dataclass
class Agreement:
    """How many integers and truth values are the float model's, which have no signal: they are right or wrong."""

    same: int = 0
    count: int = 0

    def add(self, wanted: ArrayType, found: ArrayType) -> None:
        self.same += int((wanted.astype(np.int64) == found.astype(np.int64)).sum())
        self.count += wanted.size

    @property
    def part(self) -> float | None:
        """The part that is the same; None without any."""
        return self.same / self.count if self.count else None
