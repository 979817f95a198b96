"""The judgement of outputs: which samples are examined, and how well a quantized model keeps the float model's outputs.

All statements and decisions about accuracy use this module. It uses all samples or, where that is too much work, a
deterministic selection from all of them, as data can be sorted by class, or begin with silence. For a model with state,
whole sequences are selected, since errors accumulate from step to step.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from cortado.base.arrays import ratio_in_decibels
from cortado.base.numerics import Tensor
from cortado.frontend.capture.inputs import Inputs

GOLDEN = 2_654_435_769  # 2**32 times the golden ratio: its multiples are far apart
CALL = 500  # the overhead of a call of torch, in values computed
PIECES = 8  # into which a single sequence is divided
FOLDS = 4  # into which samples are divided to predict the quality on new ones
BEGINNINGS = 4  # of sequences that are too long to be run whole


@dataclass(frozen=True)
class FloatRun:
    """A calibration input and the float model's outputs."""

    inputs: Inputs
    outputs: tuple[Tensor, ...]
    number: int = 0  # of the sample, among all
    begins: bool = True  # state has its initial values; always True without state
    usual: bool = True  # False: an outlier, considered a mistake


# ---- which samples ---------------------------------------------------------------------------------------------------


def drawn(count: int, most: int) -> list[int]:
    """Returns the numbers of at most `most` of `count` samples: `most` equal parts, one from a pseudorandom place in
    each."""
    if count <= most:
        return list(range(count))
    edges = [part * count // most for part in range(most + 1)]
    return [
        start + ((stop - start) * (part * GOLDEN % 2**32) >> 32)
        for part, (start, stop) in enumerate(pairwise(edges), start=1)
    ]


def drawn_runs(begins: Sequence[bool], most: int) -> list[int]:
    """Selects samples in whole sequences, each from its beginning; if all are too long, the beginnings of some."""
    if len(begins) <= most:
        return list(range(len(begins)))
    starts = [number for number, first in enumerate(begins) if first]
    ends = [*starts[1:], len(begins)]
    longest = max(end - start for start, end in zip(starts, ends, strict=True))
    count = most // longest or min(BEGINNINGS, len(starts), most)
    chosen = drawn(len(starts), count)
    return [number for one in chosen for number in range(starts[one], ends[one])[: most // len(chosen)]]


def folds(begins: Sequence[bool], most: int = FOLDS) -> list[frozenset[int]]:
    """Divides samples into parts, to fit on one and judge by the others: sequences, or samples, alternately; a single
    sequence is cut into pieces."""
    starts = [number for number, first in enumerate(begins) if first]
    if len(starts) == 1:
        starts = sorted({piece * len(begins) // PIECES for piece in range(PIECES)})
    ends = [*starts[1:], len(begins)]
    parts = [set[int]() for _ in range(min(most, len(starts)))]
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        parts[place % len(parts)].update(range(start, end))
    return [frozenset(part) for part in parts]


# ---- what is kept ----------------------------------------------------------------------------------------------------

Pairs = Sequence[tuple[Tensor, Tensor]]  # outputs of the float model, and of the quantized one


def decibels(pairs: Pairs) -> float:
    """Returns the signal-to-noise ratio over (float, int8) outputs; values that are not finite in float are ignored."""
    signal = noise = 0.0
    for wanted, found in pairs:
        finite = torch.isfinite(wanted)
        wanted, found = wanted.to(torch.float64)[finite], found.to(torch.float64)[finite]
        signal += float(wanted.square().sum())
        noise += float((wanted - found).square().sum())
    return ratio_in_decibels(signal, noise)


def agreement(pairs: Pairs) -> float:
    """Returns the share of integers or truth values that equal the float model's."""
    same = sum(int((wanted.to(torch.int64) == found.to(torch.int64)).sum()) for wanted, found in pairs)
    return same / max(sum(wanted.numel() for wanted, _ in pairs), 1)


@dataclass(frozen=True)
class TruthAgreement:
    """How often one of the two truth values is given: by the float model, by the quantized one, and by both at once."""

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
    """Returns the truth value that agrees least; None if neither is ever given. A rare event counts as much as
    silence."""
    found = []
    for value in (True, False):
        wanted = sum(int((one.bool() == value).sum()) for one, _ in pairs)
        given = sum(int((other.bool() == value).sum()) for _, other in pairs)
        both = sum(int(((one.bool() == value) & (other.bool() == value)).sum()) for one, other in pairs)
        found += [TruthAgreement(value, wanted, given, both)] if wanted or given else []
    return min(found, key=lambda one: one.part, default=None)


@dataclass(frozen=True)
class Measure:
    """A measure of outputs, and the improvement that makes a change worthwhile."""

    of: Callable[[Pairs], float]
    helps: Callable[[float, float], bool]  # whether a remedy is worthwhile that gives the second instead of the first
    in_words: Callable[[float], str]
    enough: float  # from which on nothing needs to be better
    gap: float  # by which new samples have to be worse to be told


def _rounded(kept: float) -> str:
    return f"{max(kept, 0.0):.0f} dB" if kept < math.inf else "all of its signal"


def _agrees(pairs: Pairs) -> float:
    """Returns the agreement; for truth values, that of the one that agrees least."""
    truth = truth_agreement(pairs) if pairs[0][0].dtype is torch.bool else None
    return agreement(pairs) if truth is None else truth.part


GAIN = 3.0  # dB, that a remedy must give
ENOUGH = 20.0  # decibels: below it, the noise has more than a hundredth of the signal's power
ALIKE = 0.95  # the fraction of an output's integers or truth values below which it is reported
SIGNAL = Measure(
    decibels,
    lambda now, then: then >= now + GAIN,
    lambda kept: f"keeps {_rounded(kept)}",
    ENOUGH,
    2.0,
)
AGREES = Measure(
    _agrees,
    lambda now, then: 1 - then <= (1 - now) / 2,
    lambda kept: f"agrees in {kept:.1%}",
    ALIKE,
    0.01,
)
DECIDES = replace(AGREES, of=lambda pairs: _agrees(decided(pairs)))


# ---- classes ---------------------------------------------------------------------------------------------------------

CLEAR = 0.05  # the distance from 0.5 beyond which a score is clear
UNLIKELY, HALVINGS = 0.1, 40  # a probability, and the bisection steps to find a share with it
MANY = 100  # changes that suffice to predict new samples
ALIKE_ERRORS = 16  # samples whose errors a lead is compared with
CERTAIN = 0.99  # a lead: if all samples have more, nothing is known of the errors of a doubtful one
SUM = 1e-3  # the tolerance of a sum of probabilities around 1


def decided(pairs: Pairs) -> list[tuple[Tensor, Tensor]]:
    """Returns whether scores from 0 to 1 are above one half, for those that are clear in the float model."""
    clear = [((wanted - 0.5).abs() > CLEAR) & torch.isfinite(wanted) for wanted, _ in pairs]
    return [(wanted[one] > 0.5, found[one] > 0.5) for one, (wanted, found) in zip(clear, pairs, strict=True)]


def class_dim(values: Sequence[Tensor]) -> int | None:
    """Returns the dimension along which values are probabilities of classes, or their logarithms: they sum to 1."""
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
    """Choices among classes, and how many differ from the float model's."""

    changed: int
    choices: int
    likely: float = 0.0  # the share of new samples that would change, by the distances of scores and their errors
    nearest: float = 0.0  # the least lead, as a probability; 0 if values are no probabilities

    @property
    def is_untried(self) -> bool:
        """Whether no choice was ever in doubt, so that `likely` says nothing about choices that will be."""
        return not self.changed and self.nearest > CERTAIN

    @property
    def part(self) -> float:
        return self.changed / max(self.choices, 1)

    @property
    def at_most(self) -> float:
        """The upper bound of the share of changes in new samples: with a larger share, so few of these would change in
        only one of ten cases."""
        if not self.choices - self.changed > 0 or self.changed > MANY:
            return self.part
        low, high = self.part, 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._chance(middle) > UNLIKELY else (low, middle)
        return high

    def _chance(self, part: float) -> float:
        """Returns the probability of at most this many changes, if each choice changes with probability `part`: the
        binomial distribution."""
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
    """Counts the samples, or positions, whose best class differs."""
    changed = [(wanted.argmax(dim) != found.argmax(dim)) for wanted, found in pairs]
    leads = [_lead(wanted, found, dim) for wanted, found in pairs]
    return Flips(
        sum(int(one.sum()) for one in changed),
        sum(one.numel() for one in changed),
        likely_changes(torch.cat([one for one, _ in leads]), torch.cat([other for _, other in leads])),
        _least_lead([wanted for wanted, _ in pairs], dim),
    )


def decisions(pairs: Pairs) -> Flips:
    """Counts the scores on the opposite side of one half."""
    wanted, found = (torch.cat([pair[side].reshape(-1).double() for pair in pairs]) for side in (0, 1))
    changed, leads = int(((wanted > 0.5) != (found > 0.5)).sum()), (wanted - 0.5).abs()
    return Flips(changed, wanted.numel(), likely_changes(leads, wanted - found), 2 * float(leads.min()))


def _least_lead(values: Sequence[Tensor], dim: int) -> float:
    """Returns the least distance between the probabilities of the two best classes; 0 for other values."""
    if class_dim(values) != dim % values[0].dim():
        return 0.0
    as_part = torch.Tensor.double if float(values[0].max()) > 0.0 else _exp
    best = [torch.topk(as_part(one), 2, dim).values for one in values]
    return min(float((one.select(dim, 0) - one.select(dim, 1)).min()) for one in best)


def _lead(wanted: Tensor, found: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Returns by how much the float model's best class leads, and how much of it the quantized model takes away."""
    wanted, found = (one.movedim(dim, -1).flatten(0, -2).double() for one in (wanted, found))
    best = wanted.argmax(-1, keepdim=True)
    before, after = (
        (one.gather(-1, best) - one.scatter(-1, best, -math.inf).amax(-1, keepdim=True)).flatten()
        for one in (wanted, found)
    )
    return before, before - after


def likely_changes(leads: Tensor, errors: Tensor) -> float:
    """Estimates the share of samples whose decision changes: each lead is compared with the errors of the samples whose
    leads are most similar, in both directions. So a change is expected where none of a few samples has happened to
    change."""
    known = torch.isfinite(leads) & torch.isfinite(errors)
    leads, order = leads[known].sort()
    errors = errors[known][order].abs()
    count = len(leads)
    if count < ALIKE_ERRORS:
        return 0.0
    first = (torch.arange(count) - ALIKE_ERRORS // 2).clamp(0, count - ALIKE_ERRORS)
    around = errors[first[:, None] + torch.arange(ALIKE_ERRORS)]
    return float((around > leads[:, None]).double().mean() / 2)
