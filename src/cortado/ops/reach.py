"""Ranges that values can reach: the results of a call, from its operands, and sums of int16 codes with int8 weights.

int16 codes are symmetric, so a sum is bias + sum(x * w). If it could exceed 32 bits, it is first divided by 2^shift,
rounded to nearest, ties up; requantization makes up for that.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import product

import torch
from torch.fx import Node

from cortado.base.element import INT16
from cortado.base.numerics import QParams, Tensor, requant
from cortado.ir.graph import computed_call
from cortado.ir.sampling import CaseDraw
from cortado.ops.elementwise.pointwise import is_table
from cortado.ops.float_graph import constant_data
from cortado.ops.meaning import MEANS, CallKind, means

# ---- reach -----------------------------------------------------------------------------------------------

Span = tuple[float, float]
aten = torch.ops.aten
# Monotone in each operand alone, so the extremes of the result are at extremes of the operands.
_MONOTONE = (CallKind.SUM, CallKind.PRODUCT, CallKind.MAXIMUM, CallKind.MINIMUM)


def reach(node: Node, operands: Mapping[Node, QParams]) -> Span | None:
    """Returns the least and the largest value that a call can give for any codes of its operands; None if unknown."""
    if is_table(node):
        (operand, qparams), *others = operands.items()
        return None if others else _ends(_given(node, {operand: every_value(qparams)}))
    if means(node, *_MONOTONE):
        ends = [every_value(qparams)[[0, -1]] for qparams in operands.values()]
        corners = [dict(zip(operands, corner, strict=True)) for corner in product(*ends)]
        return _ends(torch.stack([_given(node, corner) for corner in corners]))
    if means(node, *MEANS) and len(operands) == 1:
        return hull(operands.values())
    return None


def hull(several: Iterable[QParams]) -> Span:
    """Returns the interval of all values that tensors with these parameters can hold."""
    values = torch.cat([every_value(qparams)[[0, -1]] for qparams in several])
    return float(values.min()), float(values.max())


def every_value(qparams: QParams) -> Tensor:
    """Returns the real values of the codes of an 8-bit tensor, in ascending order of codes."""
    low, high = qparams.element.codes
    return (torch.arange(low, high + 1, dtype=torch.float32) - qparams.zero_point) * qparams.scale


def _given(node: Node, values: Mapping[Node, Tensor]) -> Tensor:
    result: Tensor = computed_call(node, lambda one: values[one] if one in values else constant_data(one))
    return result


def _ends(values: Tensor) -> Span | None:
    if not bool(torch.isfinite(values).all()):
        return None
    return float(values.min()), float(values.max())


# ---- wide ------------------------------------------------------------------------------------------------

LONGEST_ROW = 512  # taps of a depthwise window that are summed up in 32 bits


def sum_shift(weight: Tensor, bias: Tensor | None) -> int:
    """Returns by how many bits the sums of a layer are divided; weight is [out_c, ...]."""
    most = weight.reshape(len(weight), -1).to(torch.int64).abs().sum(1) * -INT16.low
    if bias is not None:
        most = most + bias.to(torch.int64).abs()
    return max(0, int(most.max()).bit_length() - 31)


def divided(total: Tensor, shift: int) -> Tensor:
    return total if shift == 0 else (total + (1 << (shift - 1))) >> shift


def finish(
    acc: Tensor, weight: Tensor, bias: Tensor | None, factors: tuple[Tensor, Tensor], bounds: tuple[int, int]
) -> Tensor:
    """Returns sums (without their bias, channels last) as codes; weight is [out_c, ...]."""
    total = acc if bias is None else acc + bias
    scaled = requant(divided(total, sum_shift(weight, bias)), factors[0].to(torch.int64), factors[1])
    return scaled.clamp(*bounds).to(INT16.torch_dtype).contiguous()


# ---- integers as codes, rounded once ---------------------------------------------------------------------------------

LEAST_SHIFT, MOST_SHIFT = -31, 30  # of a factor: a product of two 31-bit numbers is then divided by 2 to 2^62


def once(factor: float) -> tuple[int, int]:
    """Returns a nonnegative factor as multiplier * 2^(shift - 31). A factor too large for that becomes the largest one
    that fits: every code but 0 saturates with either."""
    mantissa, exponent = math.frexp(factor)
    if exponent > MOST_SHIFT:
        return 2**31 - 1, MOST_SHIFT
    multiplier = min(round(math.ldexp(mantissa, 31 + min(exponent - LEAST_SHIFT, 0))), 2**31 - 1)
    return multiplier, max(exponent, LEAST_SHIFT)


def rounded(value: Tensor, multiplier: Tensor | int, shift: Tensor | int) -> Tensor:
    """Returns value * multiplier * 2^(shift - 31), rounded to nearest, ties up; value has 32 bits."""
    right = 31 - torch.as_tensor(shift, dtype=torch.int64)
    return (value.to(torch.int64) * multiplier + (1 << (right - 1))) >> right


def to_codes(value: Tensor) -> Tensor:
    return value.clamp(*INT16.codes).to(INT16.torch_dtype).contiguous()


def draw_once(draw: CaseDraw, low: int, high: int) -> dict[str, int]:
    """Draws the factor of a sample, now and then one with the least or the largest shift."""
    shift = draw.pick([draw.whole(low, high), draw.pick([LEAST_SHIFT, MOST_SHIFT])])
    return {"output_multiplier": draw.whole(2**30, 2**31 - 1), "output_shift": shift}
