"""Judgement of outputs: which samples are looked at, and what a quantized model keeps of the float model's outputs.

All that is said of accuracy, and all that is decided by it, asks here. Samples are all there are; where that is too
much work, a part that is drawn from all of them, always the same one: data may be sorted by class, or begin with
silence. Of a model with state whole sequences are drawn, since errors add up from step to step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from cortado.base.numerics import Tensor
from cortado.frontend.capture.inputs import Inputs

GOLDEN = 2_654_435_769  # 2**32 times the golden ratio: multiples of it lie far from one another
PIECES = 8  # of a single sequence, that it is divided into
BEGINNINGS = 4  # of sequences that are too long to be run whole


@dataclass(frozen=True)
class FloatRun:
    """A calibration input and what the float model makes of it."""

    inputs: Inputs
    outputs: tuple[Tensor, ...]
    number: int = 0  # of the sample, among all
    begins: bool = True  # state has its initial values; of a model without state, always


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


def halves(begins: Sequence[bool]) -> tuple[frozenset[int], frozenset[int]]:
    """Two parts of the samples, to fit to one and judge by the other: every other sequence, or sample; of a single
    sequence every other of its pieces."""
    starts = [number for number, first in enumerate(begins) if first]
    if len(starts) == 1:
        starts = sorted({piece * len(begins) // PIECES for piece in range(PIECES)})
    ends = [*starts[1:], len(begins)]
    parts = [set[int](), set[int]()]
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        parts[place % 2].update(range(start, end))
    return frozenset(parts[0]), frozenset(parts[1])


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
