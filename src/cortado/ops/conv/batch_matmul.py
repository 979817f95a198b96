"""acc = sum over k of (lhs[b, i, k] + lhs_zero_point) * (rhs[b, j, k] + rhs_zero_point).

out = clamp(requant(acc) + output_zero_point).

Both zero points are given negated and the right operand transposed. A constant matrix on the right is a linear layer
instead.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16, element_of
from cortado.base.errors import Reject
from cortado.base.numerics import Fixed, QParams, Tensor, requant
from cortado.base.target import Core
from cortado.ir import sampling
from cortado.ir.c_call import Operand, Row
from cortado.ir.graph import Bound, add_call, bind, is_call, shape
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, Rewrite
from cortado.ir.roles import Activation, InOffset, Multiplier, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Work, loops, nested
from cortado.ops.conv import packing
from cortado.ops.conv.convolution import check_sums
from cortado.ops.float_graph import add_constant, add_permute, add_view, constant_data, is_constant
from cortado.ops.move.embedding import layer_of_rows
from cortado.ops.reach import divided

aten = torch.ops.aten


def reference(
    *,
    lhs: Tensor,
    lhs_zero_point: InOffset,
    rhs_transposed: Tensor,
    rhs_zero_point: InOffset,
    output_zero_point: OutZeroPoint,
    output_multiplier: Multiplier,
    output_shift: int,
) -> Tensor:
    a, b = lhs.to(torch.float64) + lhs_zero_point, rhs_transposed.to(torch.float64) + rhs_zero_point
    acc = torch.bmm(a, b.transpose(1, 2)).to(torch.int64)
    kind = element_of(lhs.dtype)
    if kind.symmetric:
        acc = divided(acc, sum_shift(lhs.shape[2]))
    codes = requant(acc, output_multiplier, output_shift) + output_zero_point
    return codes.clamp(*kind.codes).to(lhs.dtype).contiguous()


def output_shape(call: Call) -> tuple[int, ...]:
    batches, rows, _ = call.shape("lhs")
    return batches, rows, call.shape("rhs_transposed")[1]


# ---- from aten -----------------------------------------------------------------------------------------------


def product(like: Node, lhs: Node, rhs: Node) -> Node:
    """Adds lhs @ rhs with all of matmul's broadcasting, as one linear layer or one aten.bmm between views."""
    sizes_a, sizes_b = list(shape(lhs)), list(shape(rhs))
    out = _product_shape(sizes_a, sizes_b)
    if is_constant(rhs) and len(sizes_b) <= 2:
        data = constant_data(rhs)
        weight = data.reshape(1, -1) if len(sizes_b) == 1 else data.T
        found = layer_of_rows(like, lhs, weight)
        if found is not None:
            return add_view(like, found, out)
        return add_view(like, add_call(like, aten.linear.default, lhs, add_constant(like, "weight", weight)), out)
    a = [1, *sizes_a] if len(sizes_a) == 1 else sizes_a
    b = [*sizes_b, 1] if len(sizes_b) == 1 else sizes_b
    (rows, depth), cols = a[-2:], b[-1]
    if math.prod(b[:-2]) == 1:  # a single right matrix: the batches are just more rows
        batches, rows = 1, math.prod(a[:-1])
    else:
        batch = list(torch.broadcast_shapes(a[:-2], b[:-2]))
        lhs, rhs = _expand(like, lhs, a, batch), _expand(like, rhs, b, batch)
        batches = math.prod(batch)
    left, right = _matrices(like, lhs, (batches, rows, depth)), _matrices(like, rhs, (batches, depth, cols))
    return add_view(like, add_call(like, aten.bmm.default, left, right), out)


def _matrices(like: Node, node: Node, sizes: tuple[int, int, int]) -> Node:
    """Views a node as [batch, rows, columns]; a transpose moves after the view, where it cancels with the one the
    kernel needs."""
    batches, rows, columns = sizes
    if is_constant(node):
        return add_constant(like, "matrices", constant_data(node).reshape(sizes))
    if _swaps_last_two(node):
        source = add_view(like, node.all_input_nodes[0], (batches, columns, rows))
        return add_permute(like, source, (0, 2, 1))
    return add_view(like, node, sizes)


def _swaps_last_two(node: Node) -> bool:
    rank = len(shape(node))
    if is_call(node, aten.transpose.int):
        return {bind(node)[name] % rank for name in ("dim0", "dim1")} == {rank - 2, rank - 1}
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    return is_call(node, aten.permute.default) and [dim % rank for dim in bind(node)["dims"]] == swapped


def _product_shape(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    return tuple(torch.matmul(torch.empty(a, device="meta"), torch.empty(b, device="meta")).shape)


def _expand(like: Node, node: Node, sizes: Sequence[int], batch: Sequence[int]) -> Node:
    """Expands a matrix of `sizes` to every entry of the batch."""
    wanted = [*batch, *sizes[-2:]]
    if math.prod(sizes) == math.prod(wanted):
        return node
    if is_constant(node):
        return add_constant(like, "expanded", constant_data(node).reshape(sizes).expand(wanted))
    return add_call(like, aten.expand.default, add_view(like, node, sizes), wanted)


def to_product(bound: Bound) -> Node | None:
    """Rewrites matmul, mm and bmm as a product. A bmm with several right matrices is already in that form."""
    names = ("self", "other") if bound.node.target == aten.matmul.default else ("self", "mat2")
    lhs, rhs = (bound[name] for name in names)
    if bound.node.target == aten.bmm.default and shape(rhs)[0] > 1:
        return None
    return product(bound.node, lhs, rhs)


def addmm_to_sum(bound: Bound) -> Node | None:
    """Rewrites addmm, beta * self + alpha * (mat1 @ mat2): a linear layer if both factors are 1 and bias and mat2 are
    constant."""
    like, bias, rhs = bound.node, bound["self"], bound["mat2"]
    if bound["alpha"] != 1 or bound["beta"] != 1:
        scaled = add_call(like, aten.mul.Tensor, product(like, bound["mat1"], rhs), bound["alpha"])
        return add_call(like, aten.add.Tensor, scaled, add_call(like, aten.mul.Tensor, bias, bound["beta"]))
    if is_constant(rhs) and is_constant(bias) and shape(bias) == (shape(rhs)[1],):
        rows = layer_of_rows(like, bound["mat1"], constant_data(rhs).T, constant_data(bias))
        if rows is not None:
            return rows
        weight = add_constant(like, "weight", constant_data(rhs).T)
        return add_call(like, aten.linear.default, bound["mat1"], weight, bias)
    return add_call(like, aten.add.Tensor, product(like, bound["mat1"], rhs), bias)


def computed_linear(bound: Bound) -> Node | None:
    """Rewrites a linear layer with computed weights as a product, and a bias that is not a constant row as an
    addition."""
    like, source, weight, bias = bound.node, bound["input"], bound["weight"], bound["bias"]
    row = bias is None or (is_constant(bias) and math.prod(shape(bias)) == shape(weight)[0])
    if is_constant(weight) and row:
        rows = layer_of_rows(like, source, constant_data(weight), None if bias is None else constant_data(bias))
        if rows is not None:
            return rows
        if bias is None or len(shape(bias)) == 1:
            return None
        flat = add_constant(like, "bias", constant_data(bias).reshape(-1))
        return add_view(like, add_call(like, aten.linear.default, source, weight, flat), shape(like))
    if is_constant(weight):
        result = add_call(like, aten.linear.default, source, weight)
    else:
        result = product(like, source, add_permute(like, weight, (1, 0)))
    return result if bias is None else add_call(like, aten.add.Tensor, result, bias)


def match(bound: Bound) -> Quantization | Reject:
    kind = Activation(bound.element)
    return Quantization({"self": kind, "mat2": kind}, kind)


def lower(lowering: Lowering) -> Node:
    left, right, out = lowering.q("self"), lowering.q("mat2"), lowering.out
    depth = shape(lowering.node("self"))[2]
    halved = sum_shift(depth) if out.element.symmetric else 0
    fixed = Fixed.of(left.scale * right.scale * 2.0**halved / out.scale)
    most = depth * _reach(left) * _reach(right) >> halved
    check_sums(lowering.bound.node, torch.tensor([-most]), torch.tensor([most]), torch.tensor([fixed.shift]))
    constant = lowering.data("mat2")
    return lowering.call(
        BATCH_MATMUL,
        lhs=lowering.node("self"),
        lhs_zero_point=-left.zero_point,
        rhs_transposed=(
            lowering.transpose(lowering.node("mat2"), (0, 2, 1))
            if constant is None
            else lowering.constant("rhs", constant.transpose(1, 2))
        ),
        rhs_zero_point=-right.zero_point,
        output_zero_point=out.zero_point,
        **fixed.arguments("output"),
    )


def _reach(qparams: QParams) -> int:
    """Returns the largest magnitude of a code minus its zero point."""
    low, high = qparams.element.codes
    return max(high - qparams.zero_point, qparams.zero_point - low)


def sum_shift(depth: int) -> int:
    """Returns by how many bits sums of int16 products are divided (to nearest, ties up) so that they fit 30 bits."""
    return (depth << 30).bit_length() - 30


# ---- the .pte and the C kernel -------------------------------------------------------------------------------


def pte_scratch(call: Call, backend: Any) -> tuple[int, ...]:
    from executorch.backends.cortex_m.library import cmsis_nn

    _, columns, depth = call.shape("rhs_transposed")
    size = cmsis_nn.fully_connected_buffer_size(backend, cmsis_nn.DataType.A8W8, filter_nhwc=[depth, 1, 1, columns])
    return (int(size),)


_DEPTHS = "depth fours depth%4 depth/16"
_LOOPS = nested(
    {
        "calls": "batches",
        "calls*batches*rows": _DEPTHS,
        "calls*batches*cols*rows/8": "",
        "calls*batches*cols*rows/8*summed": _DEPTHS,  # column sums, for a zero point of the first operand
        "outputs": _DEPTHS,
    }
)


_SUMMED = {
    "calls": "batches",
    "calls*batches*cols": "",
    "calls*batches*cols*summed": "fours depth%4 depth/16",
    "calls*batches*rows/2": "weighed weighed*fours weighed*depth%4 weighed*depth/16",
}
# Two rows and two columns at a time, or four.
_PAIR_LOOPS = nested({**_SUMMED, "calls*batches*rows/2*cols/2": "fours fours%2 depth%4"})
# Columns are packed, then two rows are unpacked for each run of columns, and multiplied with four of them at a time.
_LANE_LOOPS = nested(
    {
        "calls": "batches",
        "calls*batches*cols/4": "depth/4 depth%4 summed summed*fours",
        "calls*batches*runs*rows/2": "fours depth%4",
        "calls*batches*rows/2*cols/4": "depth/4 depth/16",
        "calls*batches*rows/2*cols%4": "",
    }
)
_VECTOR_LOOPS = nested({**_SUMMED, "calls*batches*rows/2*cols/4": "depth/16"})


def _sizes(call: Call) -> dict[str, int]:
    batches, rows, depth = call.shape("lhs")
    return {"batches": batches, "rows": rows, "cols": call.shape("rhs_transposed")[1], "depth": depth}


def _wide_fields(call: Call) -> dict[str, int]:
    sizes = _sizes(call)
    return {**sizes, "sum_shift": sum_shift(sizes["depth"])}


def _fields(call: Call) -> dict[str, int]:
    return {**_sizes(call), "lhs_zero": -call["lhs_zero_point"], "rhs_zero": -call["rhs_zero_point"]}


def _work_of(terms: tuple[str, ...], call: Call) -> Work:
    fields = _fields(call)
    sizes: dict[str, float] = {name: float(size) for name, size in _sizes(call).items()}
    sizes["runs"] = math.ceil(fields["cols"] / packing.columns_batch_matmul_lanes(fields["cols"], fields["depth"]))
    sizes |= {"fours": fields["depth"] // 4, "summed": fields["lhs_zero"] != 0, "weighed": fields["rhs_zero"] != 0}
    return Work(terms, lambda calls: sizes)


def _fits(isa: Core, call: Call) -> bool:
    fields = _fields(call)
    return packing.fits_batch_matmul(fields["rows"], fields["cols"], fields["depth"], call["output_shift"], isa)


def _fits_lanes(call: Call) -> bool:
    fields = _fields(call)
    return packing.fits_batch_matmul_lanes(fields["rows"], fields["cols"], fields["depth"], call["output_shift"])


def _lanes_scratch(call: Call) -> int:
    _, cols, depth = call.shape("rhs_transposed")
    return packing.scratch_batch_matmul_lanes(cols, depth)


def _wide_work(call: Call) -> Work:
    batches, rows, _ = call.shape("lhs")
    return loops("calls calls*rows outputs macs", rows=batches * rows)


_ROW = KernelRow(
    "batch_matmul_s8",
    INT8,
    arguments=(Operand.LAYER, Row(0), Row(1), Operand.OUT, Operand.SCRATCH),
    struct="cortado_batch_matmul_t",
    fields=_fields,
    work=partial(_work_of, _LOOPS),
)
_FAST = replace(_ROW, scratch=lambda call: 4 * call.shape("rhs_transposed")[1])
_PAIRS = replace(_FAST, symbol="batch_matmul_s8__dsp", cores=(Core.DSP, Core.MVE), fits=partial(_fits, Core.DSP),
                 work=partial(_work_of, _PAIR_LOOPS))  # fmt: skip
KERNELS = KernelTable(
    (
        replace(_FAST, symbol="batch_matmul_s8__mve", cores=(Core.MVE,), fits=partial(_fits, Core.MVE),
                work=partial(_work_of, _VECTOR_LOOPS)),
        replace(_ROW, symbol="batch_matmul_lanes_s8__dsp", cores=(Core.DSP,), fits=_fits_lanes, lean=_PAIRS,
                scratch=_lanes_scratch, work=partial(_work_of, _LANE_LOOPS)),
        _PAIRS,
        _ROW,
        replace(_ROW, symbol="batch_matmul_s16", reads=INT16, struct="cortado_batch_matmul_s16_t",
                fields=_wide_fields, work=_wide_work),
    )
)  # fmt: skip


def samples(draw: CaseDraw) -> dict[str, Any]:
    batches, rows, cols = (draw.whole(1, most) for most in (3, 9, 9))
    depth, seed = draw.channels(), draw.seed()
    kind = draw.element()
    multipliers, shifts = sampling.fixed_points(seed, 1, high=1 if kind.affine else 0)
    codes = (*kind.codes, kind.torch_dtype)
    return {
        "lhs": sampling.codes(seed + 1, (batches, rows, depth), *codes),
        "rhs_transposed": sampling.codes(seed + 2, (batches, cols, depth), *codes),
        "output_multiplier": int(multipliers[0]),
        "output_shift": int(shifts[0]),
    }


BATCH_MATMUL = Operator(
    name="cortex_m::quantized_batch_matmul",
    summary="product of two matrices, both computed, or the right one constant per batch entry",
    scratch=("scratch",),
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    macs=lambda call: math.prod(call.shape("lhs")) * call.shape("rhs_transposed")[1],
    pte_scratch=pte_scratch,
    element=ElementOf(("lhs",)),
    tensors=("lhs", "rhs_transposed"),
    constraints="sums that fit 32 bits",
    samples=samples,
)

BMM_PATTERN = Pattern(aten=(aten.bmm.default,), match=match, lower=lower, rounds_once=True)
PRODUCT_REWRITE = Rewrite(
    aten=(aten.matmul.default, aten.mm.default, aten.bmm.default), rewrite=to_product, any_element=True
)
ADDMM_REWRITE = Rewrite(aten=(aten.addmm.default,), rewrite=addmm_to_sum, any_element=True)
COMPUTED_LINEAR_REWRITE = Rewrite(aten=(aten.linear.default,), rewrite=computed_linear, any_element=True)
