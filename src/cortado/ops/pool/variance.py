"""out = clamp(zero_point + spread * factor): variance and standard deviation of every row.

n^2 times the variance of n codes is exact: v = n * sum(q^2) - sum^2. With `root` its square root is taken; the divisor
(n^2, or n * (n - 1) with Bessel's correction), the scales and the output's step are in the factor.
"""

import math
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import element_of
from cortado.base.errors import Reject
from cortado.base.numerics import LEAST_SHIFT, Tensor, clamp_int8
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.kernel_table import by_element
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, Rewrite
from cortado.ir.roles import Activation, Multiplier, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.schemas import Functions
from cortado.ir.work import Work, loops
from cortado.ops import reach
from cortado.ops.float_graph import add_view, parts_of, replace_result
from cortado.ops.pool import measures
from cortado.ops.pool.reductions import Reduction, dims_of, reduce

aten = torch.ops.aten
LARGEST_ROW = 2**22  # n^2 * 2^14 then has 58 bits
LARGEST_WIDE_ROW = 2**16  # n^2 * 2^30 then has 62 bits

# ---- in the float graph --------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define("row_variance(Tensor input, float correction, bool root) -> Tensor")


def _in_float(input: Tensor, correction: float, root: bool) -> Tensor:
    function = torch.std if root else torch.var
    return function(input, -1, correction=correction, keepdim=True)


_LIBRARY.impl("row_variance", _in_float, "CompositeExplicitAutograd")
_LIBRARY.impl("row_variance", lambda input, *others: input.new_empty((input.shape[0], 1)), "Meta")

ROW_VARIANCE: OpOverload = torch.ops.cortado.row_variance.default


def _correction(bound: Bound) -> float:
    """Returns the correction that is subtracted from the divisor."""
    if "unbiased" in bound.values:
        return 1.0 if bound["unbiased"] else 0.0
    given = bound.get("correction")
    return 1.0 if given is None else float(given)


def to_rows(bound: Bound) -> Node | None:
    source, target = bound["self"], bound.node.target
    dims = dims_of(bound, len(shape(source)))
    if math.prod(shape(source)[dim] for dim in dims) <= _correction(bound):
        return None  # torch gives NaN or infinity
    return _spread(bound, dims, "std" in str(target), shape(bound.node))


def _spread(bound: Bound, dims: frozenset[int], root: bool, out: tuple[int, ...]) -> Node:
    rows = measures.as_rows(bound.node, bound["self"], sorted(dims))
    return add_view(bound.node, add_call(bound.node, ROW_VARIANCE, rows, _correction(bound), root), out)


def with_mean(bound: Bound) -> None:
    """Rewrites var_mean and std_mean as two separate reductions."""
    like, source = bound.node, bound["self"]
    dims = dims_of(bound, len(shape(source)))
    parts = [parts_of(like, position) for position in (0, 1)]
    if parts[0]:
        replace_result(like, 0, _spread(bound, dims, "std" in str(like.target), shape(parts[0][0])))
    mean = reduce(like, source, dims, Reduction.MEAN, shape(parts[1][0])) if parts[1] else None
    if mean is not None:
        replace_result(like, 1, mean)


# ---- what it computes ----------------------------------------------------------------------------------------


def reference(
    *, input: Tensor, root: bool, output_zero_point: OutZeroPoint, output_multiplier: Multiplier, output_shift: int
) -> Tensor:
    codes = input.to(torch.int64)
    total, squares = codes.sum(1, keepdim=True), codes.square().sum(1, keepdim=True)
    wide, left = measures.normalized(codes.shape[1] * squares - total.square())
    mantissa, right = (measures.root(wide), 31 + (left >> 1)) if root else (wide >> 31, left)
    size = measures.rescaled(mantissa, output_multiplier, right - output_shift)
    return reach.to_codes(size) if element_of(input.dtype).symmetric else clamp_int8(size + output_zero_point)


def match(bound: Bound) -> Quantization | Reject:
    kind = bound.element
    refused = measures.check_length(bound, LARGEST_WIDE_ROW if kind.symmetric else LARGEST_ROW)
    return refused or Quantization({"input": Activation(kind)}, Activation(kind))


def lower(lowering: Lowering) -> Node:
    source, scale = lowering.node("input"), lowering.q("input").scale
    count, root = shape(source)[1], bool(lowering.bound["root"])
    variance = scale**2 / (count * (count - lowering.bound["correction"]))
    return lowering.call(
        VARIANCE,
        input=source,
        root=root,
        output_zero_point=lowering.out.zero_point,
        **measures.factor(lowering, (math.sqrt(variance) if root else variance) / lowering.out.scale),
    )


# ---- the C kernel --------------------------------------------------------------------------------------------


def _fields(call: Call) -> dict[str, int]:
    return {"length": call.shape("input")[1]}


def _work(call: Call) -> Work:
    return loops("calls outputs outputs*length outputs*root", length=call.shape("input")[1], root=call["root"])


KERNELS = by_element("variance", struct="cortado_variance_t", fields=_fields, work=_work)


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws rows of any spread, and factors around those that fill the range of codes."""
    sizes = (draw.whole(1, 9), draw.pick([draw.channels(), draw.pick([100, 1024])]))
    kind = draw.element()
    codes = measures.draw_codes(draw, sizes, kind)
    root = draw.flag()
    usual = -math.log2(sizes[1]) * (1 if root else 2)
    return {
        "input": codes,
        "root": root,
        "output_shift": max(round(usual) + draw.whole(-12, 6), LEAST_SHIFT),
    }


VARIANCE = Operator(
    name="cortado::variance",
    summary="variance or standard deviation of every row",
    reference=reference,
    shape=measures.output_shape,
    kernel=KERNELS,
    rows=lambda call: measures.rows(1),
    element=ElementOf(("input",)),
    constraints=f"rows of at most {LARGEST_ROW} values, {LARGEST_WIDE_ROW} in int16",
    no_pte="the runtime has no integer operator for it, and int8 squares would lose small variances",
    samples=samples,
)

VARIANCE_PATTERN = Pattern(aten=(ROW_VARIANCE,), match=match, lower=lower)
VARIANCE_REWRITE = Rewrite(
    aten=(
        aten.var.default,
        aten.var.dim,
        aten.var.correction,
        aten.std.default,
        aten.std.dim,
        aten.std.correction,
    ),
    rewrite=to_rows,
)
WITH_MEAN_REWRITE = Rewrite(
    aten=(
        aten.var_mean.default,
        aten.var_mean.dim,
        aten.var_mean.correction,
        aten.std_mean.default,
        aten.std_mean.dim,
        aten.std_mean.correction,
    ),
    rewrite=with_mean,
)
