"""out = clamp(zero_point + requant(c)), c = sum(a * b) / sqrt(sum(a^2) * sum(b^2)) with 24 fractional bits, per row.

a and b are codes minus their zero points; the scales cancel. The sums are exact; sums of squares are at least
`input_least` and `other_least`, which are eps^2 in steps of the operands and never 0. For int16 codes, the root of each
sum has 31 bits, and the divisor is the upper half of their product.
"""

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import INT32, element_of
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor, clamp_int8, divide_round_away, requant
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.kernel_table import PAIR, by_element
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, Rewrite
from cortado.ir.roles import InZeroPoint, Multiplier, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.schemas import Functions
from cortado.ir.work import loops
from cortado.ops import reach
from cortado.ops.float_graph import add_view
from cortado.ops.pool import measures

aten = torch.ops.aten
LARGEST_ROW = 2**15  # the sum of that many 255^2 fits 31 bits
FRACTION_BITS = 24

# ---- in the float graph --------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define("row_cosine(Tensor input, Tensor other, float eps) -> Tensor")
_LIBRARY.impl(
    "row_cosine",
    lambda input, other, eps: torch.nn.functional.cosine_similarity(input, other, -1, eps)[:, None],
    "CompositeExplicitAutograd",
)
_LIBRARY.impl("row_cosine", lambda input, *others: input.new_empty((input.shape[0], 1)), "Meta")

ROW_COSINE: OpOverload = torch.ops.cortado.row_cosine.default


def to_rows(bound: Bound) -> Node:
    like = bound.node
    sizes = torch.broadcast_shapes(shape(bound["x1"]), shape(bound["x2"]))
    operands = [
        bound[name] if shape(bound[name]) == sizes else add_call(like, aten.expand.default, bound[name], list(sizes))
        for name in ("x1", "x2")
    ]
    rows = [measures.as_rows(like, operand, [bound["dim"] % len(sizes)]) for operand in operands]
    return add_view(like, add_call(like, ROW_COSINE, *rows, float(bound["eps"])), shape(like))


# ---- what it computes ----------------------------------------------------------------------------------------


def reference(
    *,
    input: Tensor,
    input_zero_point: InZeroPoint,
    input_least: int,
    other: Tensor,
    other_zero_point: InZeroPoint,
    other_least: int,
    output_zero_point: OutZeroPoint,
    output_multiplier: Multiplier,
    output_shift: int,
) -> Tensor:
    a, b = input.to(torch.int64) - input_zero_point, other.to(torch.int64) - other_zero_point
    first = a.square().sum(1, keepdim=True).clamp(min=input_least)
    second = b.square().sum(1, keepdim=True).clamp(min=other_least)
    dot = (a * b).sum(1, keepdim=True)
    if element_of(input.dtype).symmetric:
        return reach.to_codes(reach.rounded(_of_wide(dot, first, second), output_multiplier, output_shift))
    wide, left = measures.normalized(first * second)
    cosine = divide_round_away(dot << ((left >> 1) + FRACTION_BITS), measures.root(wide))
    return clamp_int8(requant(cosine, output_multiplier, output_shift) + output_zero_point).contiguous()


def _of_wide(dot: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Returns the cosine with 24 fractional bits."""
    sizes, lefts = zip(*(measures.normalized(squares) for squares in (first, second)), strict=True)
    size = (measures.root(sizes[0]) * measures.root(sizes[1])) >> 31
    left = (lefts[0] >> 1) + (lefts[1] >> 1) + FRACTION_BITS - 31
    far = torch.where(left < 0, dot.abs() >> (-left).clamp(min=0), dot.abs() << left.clamp(min=0))
    return divide_round_away(far, size) * dot.sign()


def match(bound: Bound) -> Quantization | Reject:
    return measures.match_pair(bound, LARGEST_ROW)


def _factor(lowering: Lowering) -> dict[str, int]:
    factor = 2.0**-FRACTION_BITS / lowering.out.scale
    if not lowering.out.element.symmetric:
        return measures.factor(lowering, factor)
    return dict(zip(("output_multiplier", "output_shift"), reach.once(factor), strict=True))


def lower(lowering: Lowering) -> Node:
    least = {
        f"{name}_least": min(max(1, round((lowering.bound["eps"] / lowering.q(name).scale) ** 2)), INT32.high)
        for name in ("input", "other")
    }
    return lowering.call(
        COSINE_SIMILARITY,
        input=lowering.node("input"),
        input_zero_point=lowering.q("input").zero_point,
        other=lowering.node("other"),
        other_zero_point=lowering.q("other").zero_point,
        **least,
        output_zero_point=lowering.out.zero_point,
        **_factor(lowering),
    )


# ---- the C kernel --------------------------------------------------------------------------------------------


def _fields(call: Call) -> dict[str, int]:
    return {"length": call.shape("input")[1], "a_zero": call["input_zero_point"], "a_least": call["input_least"]}


KERNELS = by_element(
    "cosine_similarity",
    arguments=PAIR,
    struct="cortado_cosine_similarity_t",
    fields=_fields,
    work=lambda call: loops("calls outputs outputs*length", length=call.shape("input")[1]),
)


def samples(draw: CaseDraw) -> dict[str, Any]:
    kind, least = draw.element(), [1, 1, 1000, INT32.high]
    given = {**measures.draw_pair(draw, kind), "input_least": draw.pick(least), "other_least": draw.pick(least)}
    if kind.symmetric:
        return {**given, "output_zero_point": 0, **reach.draw_once(draw, -12, -4)}
    return {
        **given,
        "output_shift": draw.whole(-20, -10),
    }


COSINE_SIMILARITY = Operator(
    name="cortado::cosine_similarity",
    summary="cosine of the angle between rows of two tensors",
    reference=reference,
    shape=measures.output_shape,
    kernel=KERNELS,
    rows=lambda call: measures.rows(2),
    element=ElementOf(("input",)),
    tensors=("input", "other"),
    constraints=f"vectors of at most {LARGEST_ROW} values",
    no_pte="the runtime has no integer operator for it, and int8 norms would lose small vectors",
    samples=samples,
)

COSINE_PATTERN = Pattern(aten=(ROW_COSINE,), match=match, lower=lower)
COSINE_REWRITE = Rewrite(aten=(aten.cosine_similarity.default,), rewrite=to_rows)
