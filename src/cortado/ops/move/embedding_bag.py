"""out = clamp(requant(sum over the ids of a bag of (table[id] - table_zero_point)) + output_zero_point).

Ids that equal padding_idx are skipped. The factor contains the scales, and for a mean the division by the number of ids
that were not skipped: there is a factor for each possible number, so nothing is divided at run time. A bag with only
padding gives zero. Ids outside the table count as its first or last row, as in an embedding. int16 codes are rounded
once.
"""

from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16, INT32, element_of
from cortado.base.errors import Reject
from cortado.base.numerics import Fixed, Tensor, clamp_int8, requant
from cortado.ir import sampling
from cortado.ir.c_call import Operand, Row
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.kernel import Array, Field
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import Call, Decomposition, ElementOf, Lowering, Operator, Pattern, Rewrite
from cortado.ir.roles import Activation, InZeroPoint, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.schemas import Functions
from cortado.ir.work import Work, loops
from cortado.ops import reach
from cortado.ops.conv.convolution import check_sums
from cortado.ops.float_graph import add_constant, add_view, constant_data, is_constant, parts_of, replace_result
from cortado.ops.io.widen import as_words
from cortado.ops.move.embedding import CONSTRAINTS, NO_PTE, check, draw_ids, within

aten = torch.ops.aten

NO_PADDING = -1
LARGEST_WIDE_BAG = 2**15
_SUM, _MEAN, _MAX = 0, 1, 2  # torch's modes


def reference(
    *,
    weight: Tensor,
    indices: Tensor,
    padding_idx: int,
    weight_zero_point: InZeroPoint,
    output_zero_point: OutZeroPoint,
    multipliers: Tensor,
    shifts: Tensor,
) -> Tensor:
    kept = (indices != padding_idx) if padding_idx != NO_PADDING else torch.ones_like(indices, dtype=torch.bool)
    rows = weight[within(indices, len(weight))].to(torch.int64) - weight_zero_point
    sums = (rows * kept[..., None]).sum(1)
    count = kept.sum(1) if len(multipliers) > 1 else torch.zeros(len(indices), dtype=torch.int64)
    factors, moves = (table.to(torch.int64)[count][:, None] for table in (multipliers, shifts))
    if element_of(weight.dtype).symmetric:
        return reach.to_codes(reach.rounded(sums, factors, moves))
    return clamp_int8(requant(sums, factors, moves) + output_zero_point).contiguous()


def output_shape(call: Call) -> tuple[int, ...]:
    return (call.shape("indices")[0], call.shape("weight")[1])


# ---- from aten -----------------------------------------------------------------------------------------------

_LIBRARY = Functions(portable=False)
_LIBRARY.define("bags(Tensor weight, Tensor indices, bool mean, int padding_idx) -> Tensor")


def _bags(weight: Tensor, indices: Tensor, mean: bool, padding_idx: int) -> Tensor:
    mode = "mean" if mean else "sum"
    padding = None if padding_idx == NO_PADDING else padding_idx
    return torch.nn.functional.embedding_bag(indices, weight, mode=mode, padding_idx=padding)


def _no_bags(weight: Tensor, indices: Tensor, mean: bool, padding_idx: int) -> Tensor:
    return weight.new_empty((indices.shape[0], weight.shape[1]))


_LIBRARY.impl("bags", _bags, "CompositeExplicitAutograd")
_LIBRARY.impl("bags", _no_bags, "Meta")
BAGS = torch.ops.cortado.bags.default


def to_bags(bound: Bound) -> None:
    """Rewrites embedding_bag. torch has all ids in one list, with the position where each bag begins. Bags of equal
    size are one call, [bags, ids]; others are concatenated. A maximum is that of an embedding."""
    node, ends = bound.node, _ends(bound)
    if ends is None:
        return
    padding = NO_PADDING if bound.get("padding_idx") is None else int(bound["padding_idx"])
    sizes = {end - start for start, end in zip([0, *ends], ends, strict=False)}
    if len(sizes) == 1 and ends[0] > 0:
        replace_result(node, 0, _made(bound, 0, ends[-1], ends[0], padding))
        return
    bags = [_made(bound, start, end, end - start, padding) for start, end in zip([0, *ends], ends, strict=False)]
    replace_result(node, 0, add_call(node, aten.cat.default, bags, 0))


def _made(bound: Bound, start: int, end: int, size: int, padding: int) -> Node:
    """Adds the bags of one size; an empty bag is zero."""
    node, ids = bound.node, bound["indices"]
    if not size:
        return add_constant(node, "empty", torch.zeros(1, shape(bound["weight"])[1]))
    if (start, end) != (0, shape(ids)[0]):
        ids = add_call(node, aten.slice.Tensor, ids, 0, start, end)
    ids = add_view(node, ids, ((end - start) // size, size))
    if int(bound["mode"]) == _MAX:
        rows = add_call(node, aten.embedding.default, bound["weight"], ids)
        return add_call(node, aten.amax.default, rows, [1])
    return add_call(node, BAGS, bound["weight"], ids, int(bound["mode"]) == _MEAN, padding)


def _ends(bound: Bound) -> list[int] | None:
    """Returns where each bag ends; None if that is not constant, or if the other results are read."""
    if not is_constant(bound["offsets"]) or _reads_others(bound):
        return None
    starts = constant_data(bound["offsets"]).tolist()
    return starts[1:] if bound["include_last_offset"] else [*starts[1:], shape(bound["indices"])[0]]


def _reads_others(bound: Bound) -> bool:
    """Whether anything reads torch's other results, the sizes and offsets of the bags."""
    return any(part.users for position in (1, 2, 3) for part in parts_of(bound.node, position))


def any_bags(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    mode: int,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
    padding_idx: int | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes bags of the size of all ids together, where ids of other bags are masked out. Returns its one result in
    place of all four, of which only the first is read."""
    count, rows = indices.shape[0], weight.shape[0]
    starts = offsets[:-1] if include_last_offset else offsets
    ends = offsets[1:] if include_last_offset else torch.cat([offsets[1:], torch.tensor([count])])
    place = torch.arange(count)
    inside = (place >= starts.reshape(-1, 1)) & (place < ends.reshape(-1, 1))
    if padding_idx is not None:
        inside = inside & (indices != padding_idx % rows)
    if per_sample_weights is not None:
        made = torch.matmul(torch.where(inside, per_sample_weights, 0.0), aten.embedding.default(weight, indices))
        return made, made, made, made
    ids = torch.where(inside, indices, rows)  # ids that are masked out get a row of their own
    if mode == _MAX:
        table = torch.cat([weight, weight.amin(0, keepdim=True)])
        largest = aten.embedding.default(table, ids).amax(1)
        made = torch.where(inside.any(1).reshape(-1, 1), largest, 0.0)
    else:
        made = BAGS(torch.nn.functional.pad(weight, (0, 0, 0, 1)), ids, mode == _MEAN, rows)
    return made, made, made, made


def _is_any(bound: Bound) -> bool:
    """Whether sizes are computed, single ids have weights, or a maximum has padding."""
    beside_maximum = int(bound["mode"]) == _MAX and bound.get("padding_idx") is not None
    others = bound["per_sample_weights"] is not None or beside_maximum
    return not _reads_others(bound) and (others or not is_constant(bound["offsets"]))


def refuse(bound: Bound) -> Reject:
    """Refuses the calls that are left."""
    return Reject("gives sizes or offsets of its bags that are used; only the values of the bags are supported")


def match(bound: Bound) -> Quantization | Reject:
    kind, ids = Activation(bound.element), shape(bound["indices"])[1]
    if bound.element.symmetric and ids > LARGEST_WIDE_BAG:
        return Reject(
            f"adds up {ids} rows of int16 codes; expected at most {LARGEST_WIDE_BAG}, so that the sum fits 32 bits"
        )
    return check(bound) or Quantization({"weight": kind}, kind)


def lower(lowering: Lowering) -> Node:
    bound, ids = lowering.bound, lowering.node("indices")
    size, padding = shape(ids)[1], int(bound["padding_idx"])
    counts = range(size + 1) if bound["mean"] and padding != NO_PADDING else [size]
    table, out = lowering.q("weight"), lowering.out
    divisors = [max(count, 1) if bound["mean"] else 1 for count in counts]
    ratios = [table.scale / (divisor * out.scale) for divisor in divisors]
    if table.element.symmetric:
        fixed = [Fixed(*reach.once(ratio)) for ratio in ratios]
    else:
        fixed = [Fixed.of(ratio) for ratio in ratios]
        most, largest = INT8.steps * size, max(factor.shift for factor in fixed)
        check_sums(bound.node, torch.tensor([-most]), torch.tensor([most]), torch.tensor([largest]))
    return lowering.call(
        EMBEDDING_BAG,
        weight=lowering.node("weight"),
        indices=as_words(lowering, ids),
        padding_idx=padding,
        weight_zero_point=table.zero_point,
        output_zero_point=out.zero_point,
        multipliers=lowering.constant(
            "multipliers", torch.tensor([one.multiplier for one in fixed], dtype=torch.int32)
        ),
        shifts=lowering.constant("shifts", torch.tensor([one.shift for one in fixed], dtype=torch.int32)),
    )


# ---- the C kernel --------------------------------------------------------------------------------------------


def _fields(call: Call) -> dict[str, Field]:
    (bags, ids), (count, width), padding = call.shape("indices"), call.shape("weight"), call["padding_idx"]
    zeros = {"table_zero": call["weight_zero_point"], "out_zero": call["output_zero_point"]}
    return {
        "bags": bags,
        "ids": ids,
        "count": count,
        "width": width,
        "padding": INT32.low if padding == NO_PADDING else padding,
        **(zeros if call.element.affine else {}),
        "factors": call.shape("multipliers")[0],
        "table": Array(call.array("weight")),
        "multiplier": Array(call.array("multipliers")),
        "shift": Array(call.array("shifts")),
    }


def _work(call: Call) -> Work:
    (bags, ids), terms = call.shape("indices"), "bags bags*width/16 bags*width/16*ids bags*width bags*width*ids"
    return loops(f"calls {terms}", bags=bags, ids=ids, width=call.shape("weight")[1])


_ROW = KernelRow(
    "embedding_bag_s8",
    INT32,
    INT8,
    arguments=(Operand.LAYER, Row(0), Operand.OUT),
    struct="cortado_embedding_bag_t",
    fields=_fields,
    work=_work,
)
KERNELS = KernelTable(
    (_ROW, replace(_ROW, symbol="embedding_bag_s16", makes=INT16, struct="cortado_embedding_bag_s16_t"))
)


def samples(draw: CaseDraw) -> dict[str, Any]:
    count, bags, ids = draw.whole(1, 30), draw.whole(1, 4), draw.whole(1, 12)
    padding = draw.pick([NO_PADDING, 0, count - 1])
    several = draw.flag() and padding != NO_PADDING
    multipliers, shifts = sampling.fixed_points(draw.seed(), ids + 1 if several else 1, -8, 1)
    given = draw_ids(draw, (bags, ids), count)
    if padding == NO_PADDING:  # the kernel encodes "no padding" as an id that can't occur
        given = given.clamp(min=-(2**31) + 1)
    kind = draw.element()
    return {
        "weight": draw.codes((count, draw.channels()), kind),
        "indices": given,
        "padding_idx": padding,
        "weight_zero_point": draw.zero_point(kind),
        "multipliers": multipliers,
        "shifts": shifts,
    }


EMBEDDING_BAG = Operator(
    name="cortado::embedding_bag",
    summary="the sum or mean of rows of a constant table, for bags of ids of one size",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    element=ElementOf(("weight",)),
    tensors=("indices",),
    constraints=CONSTRAINTS,
    no_pte=NO_PTE,
    samples=samples,
)

_TARGETS = (aten.embedding_bag.padding_idx, aten.embedding_bag.default)
BAGS_PATTERN = Pattern(aten=(BAGS,), match=match, lower=lower)
REFUSED_PATTERN = Pattern(aten=_TARGETS, match=refuse, lower=lower)
ANY_BAGS = Decomposition(aten=_TARGETS, function=any_bags, takes=_is_any)
BAGS_REWRITE = Rewrite(aten=_TARGETS, rewrite=to_bags)
