"""Quality metrics of a model's outputs: accuracy, confusion matrix, area under the ROC curve, SQNR."""

from dataclasses import dataclass

import numpy as np

from cortado.base.arrays import ArrayType, ratio_in_decibels


def ranks(scores: ArrayType, labels: ArrayType) -> ArrayType:
    """Returns the number of classes ranked above the correct one in each row of scores: 0 if it is the best.

    Among equal scores, which are frequent in int8, the lower class comes first, as with argmax. NaN ranks below every
    number.
    """
    known = np.where(np.isnan(scores), -np.inf, scores)
    right = np.take_along_axis(known, labels[:, None], axis=1)
    before = np.arange(scores.shape[1])[None, :] < labels[:, None]
    above = (known > right) | ((known == right) & before)
    counts: ArrayType = above.sum(axis=1)
    return counts


def top_k(scores: ArrayType, labels: ArrayType, k: int = 1) -> float:
    """Returns the fraction of rows whose correct class is among the best k."""
    return float((ranks(scores, labels) < k).mean())


def best(scores: ArrayType) -> ArrayType:
    """Returns the best class of each row."""
    classes: ArrayType = np.where(np.isnan(scores), -np.inf, scores).argmax(axis=1)
    return classes


def confusion(predicted: ArrayType, labels: ArrayType, classes: int) -> ArrayType:
    """Counts how often each class (row) was classified as each (column)."""
    return np.bincount(labels * classes + predicted, minlength=classes * classes).reshape(classes, classes)


def auc(scores: ArrayType, labels: ArrayType) -> float:
    """Returns the area under the ROC curve: the probability that a sample of label 1 scores higher than one of label 0.

    Both labels must occur. Ties count half, which mean ranks achieve.
    """
    _, which, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean_rank = (last - (counts - 1) / 2)[which]  # ranks start at 1
    positive = labels == 1
    ones, zeros = int(positive.sum()), int((~positive).sum())
    return float((mean_rank[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


@dataclass
class Error:
    """The accumulated error of outputs against the float model's. Values that are not finite there are ignored."""

    signal: float = 0.0
    noise: float = 0.0
    worst: float = 0.0  # the largest absolute difference

    def add(self, wanted: ArrayType, found: ArrayType) -> None:
        finite = np.isfinite(wanted)
        exact = wanted[finite].astype(np.float64)
        apart = exact - found[finite].astype(np.float64)
        self.signal += float((exact**2).sum())
        self.noise += float((apart**2).sum())
        self.worst = max(self.worst, float(np.abs(apart).max(initial=0.0)))

    @property
    def decibels(self) -> float | None:
        """Returns the signal-to-quantization-noise ratio; None without signal, infinite without noise."""
        return ratio_in_decibels(self.signal, self.noise) if self.signal else None


@dataclass
class Agreement:
    """Counts of integers and truth values that equal the float model's: they have no signal, and are right or wrong."""

    same: int = 0
    count: int = 0

    def add(self, wanted: ArrayType, found: ArrayType) -> None:
        self.same += int((wanted.astype(np.int64) == found.astype(np.int64)).sum())
        self.count += wanted.size

    @property
    def part(self) -> float | None:
        """Returns the fraction that agrees; None without any values."""
        return self.same / self.count if self.count else None
