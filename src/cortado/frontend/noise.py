"""How far numbers are from those of the float model."""

import math
from collections.abc import Sequence

import torch

Tensor = torch.Tensor
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
