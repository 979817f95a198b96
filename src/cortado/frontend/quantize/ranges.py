"""The choice of a tensor's range, from statistics of the calibration samples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from cortado.base.arrays import ArrayType
from cortado.base.element import Element
from cortado.options import CalibrationMethod

BINS = 512  # in one sample's histogram
ALL_BINS = 1024  # in the histogram of all samples
MOST_VALUES = 1 << 16  # of one sample's tensor that are examined; of a larger one, evenly spaced values
PERCENTILE = 99.99
ODD = 2.5  # times the range of nine out of ten samples
TYPICAL = 0.9
FEWEST_CODES = 16  # of 256, that a tensor should spread over
LONE = 4.0  # times the 99.9th percentile of the other samples' values
ALONE = 0.5  # of the largest value, which no other sample reaches
NEARLY_ALL = 0.999
LARGE, SMALLER = 2.0**100, 2.0**-40
ROOM = 4.0  # the headroom factor for codes with bits to spare
INPUT_ROOM = 1.5  # the least one for an input, whose level differs between samples
TOLD_APART = 8  # samples that suffice to estimate it
SHRINKS = np.linspace(0.2, 1.0, 33)  # factors of each end of a range that are tried


@dataclass(frozen=True)
class Seen:
    """The statistics of one sample in a tensor: smallest and largest value, and a histogram between them."""

    sample: int
    place: str  # the tensor, if several share one range
    low: float
    high: float
    counts: ArrayType

    @staticmethod
    def of(sample: int, place: str, values: torch.Tensor, low: float, high: float) -> "Seen":
        flat = values.reshape(-1)
        flat = flat[:: max(1, flat.numel() // MOST_VALUES) | 1]
        spread = _counts(flat.to(torch.float32).numpy(), low, high) if high > low else np.array([flat.numel()])
        return Seen(sample, place, low, high, spread.astype(np.int32))

    @property
    def range(self) -> float:
        """The width of the range, which always includes zero."""
        return max(self.high, 0.0) - min(self.low, 0.0)

    @property
    def largest(self) -> float:
        return max(abs(self.low), abs(self.high))

    @property
    def centers(self) -> ArrayType:
        width = (self.high - self.low) / len(self.counts)
        return self.low + width * (np.arange(len(self.counts)) + 0.5)


def _counts(values: ArrayType, low: float, high: float) -> ArrayType:
    """Returns the number of values in each bin from `low` to `high`, like torch.histc but faster. Large values are
    first divided by a power of two, which keeps them in their bins but avoids overflow of float32 products."""
    if max(-low, high) > LARGE:
        values, low, high = values * np.float32(SMALLER), low * SMALLER, high * SMALLER
    places = values - np.float32(low)
    places *= np.float32(BINS)
    places /= np.float32(high) - np.float32(low)
    counts = np.bincount(places.astype(np.intp), minlength=BINS + 1)
    counts[BINS - 1] += counts[BINS]  # the largest value itself
    return counts[:BINS]


def odd_samples(seen: Sequence[Seen]) -> dict[int, float]:
    """Returns the samples whose own range in this tensor is far wider than the others', with the ratio."""
    ranges: dict[int, float] = {}
    for one in seen:
        ranges[one.sample] = max(ranges.get(one.sample, 0.0), one.range)
    usual = float(np.quantile(list(ranges.values()), TYPICAL))
    return {sample: size / usual for sample, size in ranges.items() if usual > 0.0 and size > ODD * usual}


@dataclass(frozen=True)
class Lone:
    """A sample that determines a range alone: it reaches `times` as far as 99.9 % of the others' values."""

    sample: int
    times: float


def lone_sample(seen: Sequence[Seen], low: float, high: float) -> Lone | None:
    """Returns the sample without which the range from `low` to `high` would be far smaller."""
    largest: dict[int, float] = {}
    for one in seen:
        largest[one.sample] = max(largest.get(one.sample, 0.0), one.largest)
    first, *others = sorted(largest, key=lambda sample: -largest[sample])
    if not others or largest[others[0]] > ALONE * largest[first]:
        return None
    rest = [one for one in seen if one.sample != first]
    values, weights = np.concatenate([abs(one.centers) for one in rest]), np.concatenate([one.counts for one in rest])
    order = values.argsort()
    share = weights[order].cumsum() / weights.sum()
    usual = float(values[order][np.searchsorted(share, NEARLY_ALL)])
    reached = min(largest[first], max(-low, high))  # values beyond the range saturate
    return Lone(first, reached / usual) if usual > 0.0 and reached > LONE * usual else None


def used_codes(seen: Sequence[Seen], scale: float) -> int | None:
    """Returns the number of codes from the smallest to the largest that a tensor uses, if that is too few; None if it
    is enough, or if there are no more distinct values than codes, as in a mask."""
    span = round((max(one.high for one in seen) - min(one.low for one in seen)) / scale) + 1
    if span >= FEWEST_CODES:
        return None
    values = np.unique(np.concatenate([one.centers[one.counts > 0] for one in seen]))
    return span if len(values) >= FEWEST_CODES else None


def left_out(seen: Sequence[Seen], method: CalibrationMethod, element: Element) -> dict[int, float]:
    """Returns the samples that are left out of a range, with the ratio of their range to the others'; none for codes
    with bits to spare."""
    return {} if method is CalibrationMethod.MINMAX or not element.affine else odd_samples(seen)


def room_of_input(seen: Sequence[Seen]) -> float:
    """Returns headroom for a sample that exceeds all others by as much as the largest exceeds the second. Quiet parts
    of an input are lost at once if its steps are coarse, and can't be recovered later: it has no bits to spare."""
    largest: dict[int, float] = {}
    for one in seen:
        largest[one.sample] = max(largest.get(one.sample, 0.0), one.largest)
    first, second = sorted((0.0, 0.0, *largest.values()), reverse=True)[:2]
    if len(largest) < TOLD_APART or second == 0.0:
        return ROOM
    return min(max(first / second, INPUT_ROOM), ROOM)


def choose_range(
    seen: Sequence[Seen], method: CalibrationMethod, element: Element, room: float = ROOM
) -> tuple[float, float]:
    """Returns the ends of the range, which includes zero. `room` is the headroom factor for codes with bits to
    spare."""
    low, high = min(0.0, *(one.low for one in seen)), max(0.0, *(one.high for one in seen))
    if not element.affine:
        return room * low, room * high
    if method is CalibrationMethod.MINMAX or low == high:
        return low, high
    centers, counts = _histogram(seen, low, high)
    if method is CalibrationMethod.PERCENTILE:
        return _percentiles(centers, counts)
    return _least_error(centers, counts, low, high, element.steps)


def _histogram(seen: Sequence[Seen], low: float, high: float) -> tuple[ArrayType, ArrayType]:
    """Returns one histogram of all samples: each bin's values are assumed to be at its centre."""
    values = np.concatenate([one.centers for one in seen])
    weights = np.concatenate([one.counts for one in seen])
    counts, edges = np.histogram(values, ALL_BINS, (low, high), weights=weights)
    return (edges[1:] + edges[:-1]) / 2, counts


def _percentiles(centers: ArrayType, counts: ArrayType) -> tuple[float, float]:
    share = np.cumsum(counts) / counts.sum()
    last = len(centers) - 1
    low = centers[min(last, int(np.searchsorted(share, 1 - PERCENTILE / 100)))]
    high = centers[min(last, int(np.searchsorted(share, PERCENTILE / 100)))]
    return min(0.0, float(low)), max(0.0, float(high))


def _least_error(centers: ArrayType, counts: ArrayType, low: float, high: float, codes: int) -> tuple[float, float]:
    """Returns the ends with the least squared error: a narrower range has finer steps and saturates more values.

    Both ends are scaled together first, then each alone.
    """
    filled = counts > 0
    values, weights = centers[filled], counts[filled]
    best = _best(values, weights, codes, [(low * shrink, high * shrink) for shrink in SHRINKS])
    best = _best(values, weights, codes, [best, *((best[0], high * shrink) for shrink in SHRINKS)])
    return _best(values, weights, codes, [best, *((low * shrink, best[1]) for shrink in SHRINKS)])


def _best(values: ArrayType, weights: ArrayType, most: int, ends: Sequence[tuple[float, float]]) -> tuple[float, float]:
    lows, highs = np.array(ends).T[:, :, None]
    steps = (highs - lows) / most
    zeros = np.round(-lows / steps)
    codes = np.clip(np.round(values / steps) + zeros, 0, most)
    errors = (((codes - zeros) * steps - values) ** 2 * weights).sum(axis=1)
    low, high = ends[int(errors.argmin())]
    return float(low), float(high)
