"""out = clamp(zero_point + sqrt(sum(d^2)) * factor), d = a * input_multiplier - b * other_multiplier + offset, per row.

a and b are codes without their zero points. The multipliers, of up to 12 bits, bring them to one step, in which the
offset is counted too.
"""

import math
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.base.numerics import Tensor, clamp_int8
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.functions import Functions
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.kernel import Kernel
from cortado.ir.op import Call, Lowering, Operator, Pattern, Place, Quantization, Rewrite
from cortado.ir.work import loops
from cortado.ops import _measures
from cortado.ops._float import add_view
from cortado.ops.reductions import reduce

aten = torch.ops.aten
MULTIPLIER_BITS = 12
LARGEST_OFFSET = 2**21
LARGEST_ROW = 2**16  # squares of 23 bits then sum to 62 bits

# ---- in the float graph --------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define("row_distance(Tensor input, Tensor other, float eps) -> Tensor")
_LIBRARY.impl(
    "row_distance",
    lambda input, other, eps: torch.linalg.vector_norm(input - other + eps, dim=-1, keepdim=True),
    "CompositeExplicitAutograd",
)
_LIBRARY.impl("row_distance", lambda input, *others: input.new_empty((input.shape[0], 1)), "Meta")

ROW_DISTANCE: OpOverload = torch.ops.cortado.row_distance.default


def _of_order(like: Node, left: Node, right: Node, order: float, eps: float) -> Node | None:
    """Distances along the last dimension of tensors that can be broadcast."""
    sizes = list(torch.broadcast_shapes(shape(left), shape(right)))
    last = len(sizes) - 1
    if order == 2.0:
        full = [
            one if list(shape(one)) == sizes else add_call(like, aten.expand.default, one, sizes)
            for one in (left, right)
        ]
        rows = [_measures.as_rows(like, one, [last]) for one in full]
        return add_view(like, add_call(like, ROW_DISTANCE, *rows, eps), shape(like))
    if order not in (1.0, math.inf):
        return None
    apart = add_call(like, aten.sub.Tensor, left, right)
    moved = apart if eps == 0.0 else add_call(like, aten.add.Tensor, apart, eps)
    kind = "sum" if order == 1.0 else "max"
    return reduce(like, add_call(like, aten.abs.default, moved), frozenset({last}), kind, shape(like))


def pairwise(bound: Bound) -> Node | None:
    return _of_order(bound.node, bound["x1"], bound["x2"], float(bound["p"]), float(bound["eps"]))


def each_to_each(bound: Bound) -> Node | None:
    """cdist: rows of one matrix from rows of another."""
    left, right = bound["x1"], bound["x2"]
    one = [*shape(left)[:-1], 1, shape(left)[-1]]
    other = [*shape(right)[:-2], 1, *shape(right)[-2:]]
    views = add_view(bound.node, left, one), add_view(bound.node, right, other)
    return _of_order(bound.node, *views, float(bound["p"]), 0.0)


# ---- what it computes ----------------------------------------------------------------------------------------


def reference(
    *,
    input: Tensor,
    input_zero_point: int,
    input_multiplier: int,
    other: Tensor,
    other_zero_point: int,
    other_multiplier: int,
    offset: int,
    output_zero_point: int,
    output_multiplier: int,
    output_shift: int,
) -> Tensor:
    a = (input.to(torch.int64) - input_zero_point) * input_multiplier
    b = (other.to(torch.int64) - other_zero_point) * other_multiplier
    wide, left = _measures.normalized((a - b + offset).square().sum(1, keepdim=True))
    size = _measures.rescaled(_measures.root(wide), output_multiplier, 31 + (left >> 1) - output_shift)
    return clamp_int8(size + output_zero_point).contiguous()


def match(bound: Bound) -> Quantization | Reject:
    return _measures.match_pair(bound, LARGEST_ROW)


def lower(lowering: Lowering) -> Node:
    scales = {name: lowering.q(name).scale for name in ("input", "other")}
    step = max(scales.values()) / (2**MULTIPLIER_BITS - 1)
    offset = round(lowering.bound["eps"] / step)
    return lowering.call(
        DISTANCE,
        input=lowering.node("input"),
        input_zero_point=lowering.q("input").zero_point,
        input_multiplier=round(scales["input"] / step),
        other=lowering.node("other"),
        other_zero_point=lowering.q("other").zero_point,
        other_multiplier=round(scales["other"] / step),
        offset=max(-LARGEST_OFFSET, min(LARGEST_OFFSET, offset)),
        output_zero_point=lowering.out.zero_point,
        **_measures.factor(lowering, step / lowering.out.scale),
    )


# ---- the C kernel --------------------------------------------------------------------------------------------


def kernel(call: Call, core: Core) -> Kernel:
    return Kernel(
        call=CCall("cortado_distance_s8", (Operand.LAYER, Row(0), Row(1), Operand.OUT, Operand.N)),
        sources=("distance_s8.c",),
        struct="cortado_distance_t",
        fields={
            "length": call.shape("input")[1],
            "a_zero": call["input_zero_point"],
            "a_multiplier": call["input_multiplier"],
            "b_zero": call["other_zero_point"],
            "b_multiplier": call["other_multiplier"],
            "offset": call["offset"],
            "out_zero": call["output_zero_point"],
            "out_multiplier": call["output_multiplier"],
            "out_shift": call["output_shift"],
        },
        work=loops("calls outputs outputs*length", length=call.shape("input")[1]),
    )


def samples() -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        most = 2**MULTIPLIER_BITS - 1
        multipliers = [most, draw(st.integers(0, most))]
        return {
            **_measures.draw_pair(draw),
            "input_multiplier": multipliers[0],
            "other_multiplier": multipliers[1],
            "offset": draw(st.sampled_from([0, 1, -70, LARGEST_OFFSET, -LARGEST_OFFSET])),
            "output_zero_point": draw(sampling.ZERO_POINTS),
            "output_multiplier": draw(st.integers(2**30, 2**31 - 1)),
            "output_shift": draw(st.integers(-30, -6)),
        }

    return draw_case()


DISTANCE = Operator(
    name="cortado::distance",
    summary="Euclidean distance between rows of two tensors",
    arguments=(
        "Tensor input, int input_zero_point, int input_multiplier, Tensor other, int other_zero_point, "
        "int other_multiplier, int offset, int output_zero_point, int output_multiplier, int output_shift"
    ),
    reference=reference,
    shape=_measures.output_shape,
    kernel=kernel,
    rows=lambda call: _measures.rows(2),
    tensors=("input", "other"),
    places=frozenset({Place.C}),
    constraints=(
        f"vectors of at most {LARGEST_ROW} values; C bundle only: the runtime has no integer operator for it, and "
        "squares in int8 would lose small distances"
    ),
    samples=samples,
)

DISTANCE_PATTERN = Pattern(aten=(ROW_DISTANCE,), match=match, lower=lower)
PAIRWISE_REWRITE = Rewrite(aten=(aten.pairwise_distance.default,), rewrite=pairwise)
CDIST_REWRITE = Rewrite(aten=(aten.cdist.default,), rewrite=each_to_each)
