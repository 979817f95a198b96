"""Shared parts of operators that reduce a row to one number: variances, distances, similarities.

Sums of squares of codes are exact, with up to 62 bits. Each is normalized to 61 or 62 bits by an even shift; its root
or its upper half then has 30 bits or more, whatever its size, so groups of small values lose nothing.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT8, Element
from cortado.base.errors import CortadoError, Reject
from cortado.base.numerics import Tensor
from cortado.ir import sampling
from cortado.ir.graph import Bound, describe, shape
from cortado.ir.kernel import ONE_ROW, Rows
from cortado.ir.op import Call, Lowering
from cortado.ir.roles import Activation, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ops.float_graph import add_permute, add_view

WIDE = 62
FURTHEST = 62  # a larger shift leaves nothing of a product


# ---- integers ------------------------------------------------------------------------------------------------


def root(value: Tensor) -> Tensor:
    """Returns the integer square root of numbers below 2^62: float64's, corrected."""
    found = value.to(torch.float64).sqrt().floor().to(torch.int64)
    found = found - (found * found > value).to(torch.int64)
    return found + ((found + 1) * (found + 1) <= value).to(torch.int64)


def normalized(value: Tensor) -> tuple[Tensor, Tensor]:
    """Returns value << left, which has 61 or 62 bits, and left, which is even; zeros stay 0."""
    left = torch.zeros_like(value)
    for step in (32, 16, 8, 4, 2):
        fits = value < (1 << (WIDE - step))
        value, left = torch.where(fits, value << step, value), left + step * fits.to(torch.int64)
    return value, left


def rescaled(mantissa: Tensor, multiplier: int, right: Tensor) -> Tensor:
    """Returns mantissa * multiplier / 2^right, rounded, ties up; both factors are below 2^31 and not negative."""
    product = mantissa * multiplier
    half = torch.where(right > 0, 1 << (right - 1).clamp(0, FURTHEST), 0)
    inside = (product + half) >> right.clamp(0, FURTHEST)
    return torch.where(right > FURTHEST, 0, inside)


def factor(lowering: Lowering, value: float) -> dict[str, int]:
    """Returns a factor as multiplier * 2^(shift - 31)."""
    mantissa, exponent = math.frexp(value)
    multiplier = min(round(mantissa * 2**31), 2**31 - 1)
    if exponent > 30:
        raise CortadoError(
            f"{describe(lowering.bound.node)}: an output scale of {lowering.out.scale:g} is too small for its input: "
            "the output is almost zero for every calibration input; calibrate with inputs for which it is not"
        )
    return {"output_multiplier": multiplier, "output_shift": max(exponent, -FURTHEST)}


# ---- shapes --------------------------------------------------------------------------------------------------


def as_rows(like: Node, source: Node, dims: Sequence[int]) -> Node:
    """Views a tensor as [rows, the values that one number is computed from]."""
    sizes = shape(source)
    kept = [dim for dim in range(len(sizes)) if dim not in dims]
    view = (math.prod(sizes[dim] for dim in kept), math.prod(sizes[dim] for dim in dims))
    return add_view(like, add_permute(like, source, [*kept, *sorted(dims)]), view)


def check_length(bound: Bound, most: int) -> Reject | None:
    length = shape(bound["input"])[1]
    return Reject(f"reduces {length} values to one; expected at most {most}") if length > most else None


def output_shape(call: Call) -> tuple[int, ...]:
    return call.shape("input")[0], 1


def rows(operands: int) -> Rows:
    """Returns the rows of operators in which every number needs only its own row."""
    return Rows((ONE_ROW,) * operands, pixelwise=True)


# ---- of two tensors ------------------------------------------------------------------------------------------


def match_pair(bound: Bound, most: int) -> Quantization | Reject:
    kind = Activation(bound.element)
    return check_length(bound, most) or Quantization({"input": kind, "other": kind}, kind)


def draw_ends(draw: CaseDraw, kind: Element = INT8) -> tuple[int, int]:
    """Draws the codes between which the values of a sample lie: all, or few."""
    found: tuple[int, int] = draw.pick([kind.codes, kind.codes, (-3, 3), (5, 6), (kind.low, kind.low)])
    return found


def draw_codes(draw: CaseDraw, sizes: tuple[int, ...], kind: Element) -> Tensor:
    return sampling.codes(draw.seed(), sizes, *draw_ends(draw, kind), kind.torch_dtype)


def draw_pair(draw: CaseDraw, kind: Element = INT8) -> dict[str, Any]:
    """Draws two tensors, sometimes equal, with many values or few, and their zero points."""
    sizes = (draw.whole(1, 9), draw.pick([draw.channels(), draw.pick([100, 1024])]))
    ends, seed = draw_ends(draw, kind), draw.seed()
    return {
        "input": sampling.codes(seed, sizes, *ends, kind.torch_dtype),
        "input_zero_point": draw.zero_point(kind),
        "other": sampling.codes(seed + draw.pick([0, 1]), sizes, *ends, kind.torch_dtype),
        "other_zero_point": draw.zero_point(kind),
    }
