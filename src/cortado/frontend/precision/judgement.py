"""Judgement of outputs: which samples are looked at, and what a quantized model keeps of the float model's outputs.

All that is said of accuracy, and all that is decided by it, asks here. Samples are all there are; where that is too
much work, a part that is drawn from all of them, always the same one: data may be sorted by class, or begin with
silence. Of a model with state whole sequences are drawn, since errors add up from step to step.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from cortado.base.numerics import Tensor
from cortado.frontend.capture.inputs import Inputs

GOLDEN = 2_654_435_769  # 2**32 times the golden ratio: multiples of it lie far from one another
CALL = 500  # values that take as long as one call of torch, however small
PIECES = 8  # of a single sequence, that it is divided into
FOLDS = 4  # into which samples are divided to say what new ones will give
BEGINNINGS = 4  # of sequences that are too long to be run whole


@dataclass(frozen=True)
class FloatRun:
    """A calibration input and what the float model makes of it."""

    inputs: Inputs
    outputs: tuple[Tensor, ...]
    number: int = 0  # of the sample, among all
    begins: bool = True  # state has its initial values; of a model without state, always
    usual: bool = True  # or it is unlike all others, and taken for a mistake


# ---- which samples ---------------------------------------------------------------------------------------------------


def drawn(count: int, most: int) -> list[int]:
    """Returns the numbers of at most `most` of `count` samples: one from a random place of each of that many parts."""
    if count <= most:
        return list(range(count))
    edges = [part * count // most for part in range(most + 1)]
    return [
        start + ((stop - start) * (part * GOLDEN % 2**32) >> 32)
        for part, (start, stop) in enumerate(pairwise(edges), start=1)
    ]


def drawn_runs(begins: Sequence[bool], most: int) -> list[int]:
    """The same of samples that belong together: whole sequences, each from where it begins; where none is so short,
    the beginnings of some."""
    if len(begins) <= most:
        return list(range(len(begins)))
    starts = [number for number, first in enumerate(begins) if first]
    ends = [*starts[1:], len(begins)]
    longest = max(end - start for start, end in zip(starts, ends, strict=True))
    count = most // longest or min(BEGINNINGS, len(starts), most)
    chosen = drawn(len(starts), count)
    return [number for one in chosen for number in range(starts[one], ends[one])[: most // len(chosen)]]


def folds(begins: Sequence[bool], most: int = FOLDS) -> list[frozenset[int]]:
    """Parts of the samples, to fit to one and judge by the others: sequences, or samples, in turn; of a single sequence
    pieces of it."""
    starts = [number for number, first in enumerate(begins) if first]
    if len(starts) == 1:
        starts = sorted({piece * len(begins) // PIECES for piece in range(PIECES)})
    ends = [*starts[1:], len(begins)]
    parts = [set[int]() for _ in range(min(most, len(starts)))]
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        parts[place % len(parts)].update(range(start, end))
    return [frozenset(part) for part in parts]


# ---- what is kept ----------------------------------------------------------------------------------------------------

Pairs = Sequence[tuple[Tensor, Tensor]]  # of the float model, and of the quantized one


def decibels(pairs: Pairs) -> float:
    """Signal to noise over (float, int8) outputs; values that are not finite in float have no signal."""
    signal = noise = 0.0
    for wanted, found in pairs:
        finite = torch.isfinite(wanted)
        wanted, found = wanted.to(torch.float64)[finite], found.to(torch.float64)[finite]
        signal += float(wanted.square().sum())
        noise += float((wanted - found).square().sum())
    if noise == 0.0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0.0 else -math.inf


def agreement(pairs: Pairs) -> float:
    """The part of integers or truth values that are the float model's."""
    same = sum(int((wanted.to(torch.int64) == found.to(torch.int64)).sum()) for wanted, found in pairs)
    return same / max(sum(wanted.numel() for wanted, _ in pairs), 1)


@dataclass(frozen=True)
class TruthAgreement:
    """How often one of two truth values is given: by the float model, by the quantized one, and by both at a time."""

    value: bool
    wanted: int
    found: int
    both: int

    @property
    def part(self) -> float:
        return self.both / max(self.wanted, self.found, 1)

    @property
    def others(self) -> int:
        return max(self.wanted, self.found) - self.both


def truth_agreement(pairs: Pairs) -> TruthAgreement | None:
    """The truth value that agrees least; None where neither is ever given. A rare event counts as much as silence."""
    found = []
    for value in (True, False):
        wanted = sum(int((one.bool() == value).sum()) for one, _ in pairs)
        given = sum(int((other.bool() == value).sum()) for _, other in pairs)
        both = sum(int(((one.bool() == value) & (other.bool() == value)).sum()) for one, other in pairs)
        found += [TruthAgreement(value, wanted, given, both)] if wanted or given else []
    return min(found, key=lambda one: one.part, default=None)


@dataclass(frozen=True)
class Measure:
    """A measure that outputs are judged by, and how much of it is worth a change."""

    of: Callable[[Pairs], float]
    helps: Callable[[float, float], bool]  # whether a cure does, that gives the second instead of the first
    in_words: Callable[[float], str]


def _rounded(kept: float) -> str:
    return f"{max(kept, 0.0):.0f} dB" if kept < math.inf else "all of its signal"


def _agrees(pairs: Pairs) -> float:
    """Counts, of truth values, the one that agrees least."""
    truth = truth_agreement(pairs) if pairs[0][0].dtype is torch.bool else None
    return agreement(pairs) if truth is None else truth.part


GAIN = 3.0  # dB, that a cure must give
SIGNAL = Measure(decibels, lambda now, then: then >= now + GAIN, lambda kept: f"keeps {_rounded(kept)}")
AGREES = Measure(_agrees, lambda now, then: 1 - then <= (1 - now) / 2, lambda kept: f"agrees in {kept:.1%}")
DECIDES = replace(AGREES, of=lambda pairs: _agrees(decided(pairs)))


# ---- classes ---------------------------------------------------------------------------------------------------------

CLEAR = 0.05  # from 0.5: a score that is further away is clear
UNLIKELY, HALVINGS = 0.1, 40  # a chance, and the halvings by which a part with it is found
MANY = 100  # changes: they say enough of new samples
SUM = 1e-3  # that probabilities may be away from 1, added up


def decided(pairs: Pairs) -> list[tuple[Tensor, Tensor]]:
    """Whether scores from 0 to 1 are above one half, where the float model's clearly are or are not."""
    clear = [((wanted - 0.5).abs() > CLEAR) & torch.isfinite(wanted) for wanted, _ in pairs]
    return [(wanted[one] > 0.5, found[one] > 0.5) for one, (wanted, found) in zip(clear, pairs, strict=True)]


def class_dim(values: Sequence[Tensor]) -> int | None:
    """The dimension along which values are probabilities of classes, or logarithms of them: they add up to 1."""
    first = values[0]
    for dim in reversed(range(first.dim())):
        if first.shape[dim] > 1 and any(
            all(bool(((as_part(one).sum(dim) - 1).abs() < SUM).all()) for one in values)
            for as_part in (torch.Tensor.double, _exp)
        ):
            return dim
    return None


def _exp(values: Tensor) -> Tensor:
    return values.double().exp()


@dataclass(frozen=True)
class Flips:
    """Choices among classes, and how many are others than the float model's."""

    changed: int
    choices: int

    @property
    def part(self) -> float:
        return self.changed / max(self.choices, 1)

    @property
    def at_most(self) -> float:
        """The part of new samples that it may be: with more, so few of these would have changed in one of ten cases."""
        if not self.choices - self.changed > 0 or self.changed > MANY:
            return self.part
        low, high = self.part, 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._chance(middle) > UNLIKELY else (low, middle)
        return high

    def _chance(self, part: float) -> float:
        """The chance that no more change, where each does with a chance of its own: the binomial distribution."""
        terms = [
            math.lgamma(self.choices + 1)
            - math.lgamma(count + 1)
            - math.lgamma(self.choices - count + 1)
            + count * math.log(part)
            + (self.choices - count) * math.log1p(-part)
            for count in range(self.changed + 1)
        ]
        return sum(map(math.exp, terms))


def flips(pairs: Pairs, dim: int) -> Flips:
    changed = [(wanted.argmax(dim) != found.argmax(dim)) for wanted, found in pairs]
    return Flips(sum(int(one.sum()) for one in changed), sum(one.numel() for one in changed))
