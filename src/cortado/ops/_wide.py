"""Layers of int16 codes and int8 weights: how their sums stay within what is rescaled.

Codes are symmetric, so a sum is bias + sum(x * w). Where it may leave 32 bits it is divided by 2^shift first, to
nearest, ties up; the rescaling makes up for it.
"""

import torch

from cortado.base.element import INT16, Element
from cortado.base.numerics import Tensor, requant

LONGEST_ROW = 512  # taps of a depthwise window that are summed up in 32 bits


def sum_shift(weight: Tensor, bias: Tensor | None) -> int:
    """By how many bits the sums of a layer are divided; weight is [out_c, ...]."""
    most = weight.reshape(len(weight), -1).to(torch.int64).abs().sum(1) * -INT16.low
    if bias is not None:
        most = most + bias.to(torch.int64).abs()
    return max(0, int(most.max()).bit_length() - 31)


def divided(total: Tensor, shift: int) -> Tensor:
    return total if shift == 0 else (total + (1 << (shift - 1))) >> shift


def finish(
    acc: Tensor, weight: Tensor, bias: Tensor | None, factors: tuple[Tensor, Tensor], bounds: tuple[int, int]
) -> Tensor:
    """Sums without their bias, channels last, as codes; weight is [out_c, ...]."""
    total = acc if bias is None else acc + bias
    scaled = requant(divided(total, sum_shift(weight, bias)), factors[0].to(torch.int64), factors[1])
    return scaled.clamp(*bounds).to(INT16.torch_dtype).contiguous()


def is_wide(element: Element) -> bool:
    return element.bits == INT16.bits
