"""out = every `step`-th element from `start` to `end` along one dimension: slice, narrow, select.

split, chunk, tensor_split and unbind are slices: one for each part that is used.
"""

import math
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir.c_call import Bytes, Member, Number, Offset, Operand, Row
from cortado.ir.facts import VALUE
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.kernel import ONE_ROW, RowRule, Rows, Running
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, Rewrite
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Work
from cortado.ops.float_graph import parts_of
from cortado.ops.loops import runs_of
from cortado.ops.move.movement import StridedWalk, relayout_dim, shared, strided_rows

# ---- slice -----------------------------------------------------------------------------------------------

aten = torch.ops.aten
LARGEST_STRIDE = 255  # the largest row stride of a step


def reference(*, self: Tensor, dim: int, start: int, end: int, step: int) -> Tensor:
    taken: Tensor = aten.slice.Tensor(self, dim, start, end, step)
    return taken.contiguous()


def output_shape(call: Call) -> tuple[int, ...]:
    sizes = list(call.shape("self"))
    sizes[call["dim"]] = -(-(call["end"] - call["start"]) // call["step"])
    return tuple(sizes)


# ---- from aten -----------------------------------------------------------------------------------------------


def take(lowering: Lowering, node: Node, dim: int, start: int, end: int, step: int = 1) -> Node:
    """Adds node[start:end:step] along dim; returns the node itself if that is all of it."""
    size = shape(node)[dim]
    if (start, end, step) == (0, size, 1):
        return node
    return lowering.call(SLICE, self=node, dim=dim, start=start, end=end, step=step)


def lower(lowering: Lowering) -> Node:
    bound, source = lowering.bound, lowering.node("self")
    dim = bound["dim"] % len(shape(source))
    size = shape(source)[dim]
    start, end, step = slice(bound["start"], bound["end"], bound["step"]).indices(size)
    return take(lowering, source, dim, start, end, step)


def lower_narrow(lowering: Lowering) -> Node:
    bound, source = lowering.bound, lowering.node("self")
    dim = bound["dim"] % len(shape(source))
    start = bound["start"] % shape(source)[dim]
    return take(lowering, source, dim, start, start + bound["length"])


def lower_select(lowering: Lowering) -> Node:
    bound, source = lowering.bound, lowering.node("self")
    dim = bound["dim"] % len(shape(source))
    index = bound["index"] % shape(source)[dim]
    return lowering.view(take(lowering, source, dim, index, index + 1), shape(bound.node))


# ---- the C kernel --------------------------------------------------------------------------------------------


def rows(call: Call) -> Rows | None:
    """Takes channels pixel by pixel, columns row by row; taking every n-th row from the first on is a row stride."""
    dim, rank = call["dim"], len(call.shape("self"))
    if call["step"] == 1 and dim == rank - 1:
        return Rows((ONE_ROW,), pixelwise=True)
    if rank == 4 and dim == 2 and call["step"] == 1:
        return Rows((ONE_ROW,))
    if rank == 4 and dim == 1 and call["start"] == 0 and call["step"] <= LARGEST_STRIDE:
        return Rows((RowRule(stride=call["step"]),))
    return None


def _walk(call: Call) -> StridedWalk:
    sizes, dim = call.shape("self"), call["dim"]
    outer, inner = math.prod(sizes[:dim]), math.prod(sizes[dim + 1 :])
    counts = [outer, call.out_shape[dim], inner]
    return StridedWalk(counts, [sizes[dim] * inner, call["step"] * inner, 1], call["start"] * inner)


def _fields(call: Call) -> dict[str, int]:
    """Returns the bytes copied per pixel, or per row, and their offset and stride."""
    sizes, dim, rule = call.shape("self"), call["dim"], rows(call)
    assert rule is not None
    item = math.prod(sizes[dim + 1 :]) * call.element.bytes
    width = call.out_shape[dim] if rule.pixelwise else math.prod(call.out_shape[2:])
    return {"offset": call["start"] * item, "in_stride": sizes[dim] * item, "width": width * call.element.bytes}


def _work(call: Call) -> Work:
    fields = _fields(call)
    return runs_of("calls", fields["width"], fields["in_stride"])


def _row_fields(call: Call) -> dict[str, int]:
    """Returns the fields for copying whole rows."""
    width = math.prod(call.shape("self")[2:]) * call.element.bytes
    return {"offset": 0, "in_stride": width, "width": width}


def _is_by_row(call: Call) -> bool:
    rule = rows(call)
    return rule is not None and not rule.pixelwise


_TARGET = (Bytes(Operand.OUT), Member("width"), Member("width"))
_BY_PIXEL = KernelRow(
    "copy2d",
    None,
    fits=lambda call: rows(call) is not None,
    arguments=(Offset(Bytes(Row(0)), by=Member("offset")), Member("in_stride"), *_TARGET, Operand.N),
    struct="cortado_slice_t",
    fields=_fields,
    work=_work,
)
_BY_ROW = replace(
    _BY_PIXEL, fits=_is_by_row, arguments=(*_BY_PIXEL.arguments[:-1], Number(0)), numbers=lambda call: (1,)
)
_ROWS = replace(
    _BY_ROW,
    fits=None,
    arguments=(Bytes(Row(0)), Member("in_stride"), *_TARGET, Number(0)),
    fields=_row_fields,
    work=lambda call: runs_of("calls", _row_fields(call)["width"], _row_fields(call)["width"]),
)
KERNELS = KernelTable((_BY_ROW, _BY_PIXEL, *strided_rows(_walk)), streams=(_ROWS,))


def running(call: Call, core: Core) -> Running | None:
    """Describes how it runs on a stream: rows from any first one on; earlier rows are skipped."""
    if len(call.shape("self")) != 4 or call["dim"] != 1 or call["step"] > LARGEST_STRIDE:
        return None
    return Running(Rows((RowRule(stride=call["step"], pad=-call["start"]),)), _ROWS.made(call))


def samples(draw: CaseDraw) -> dict[str, Any]:
    rank = draw.pick([1, 2, 3, 4, 4, 4])
    shape = tuple(draw.whole(1, 9) for _ in range(rank))
    dim = draw.whole(0, rank - 1)
    start = draw.pick([0, draw.whole(0, shape[dim] - 1)])
    return {
        "self": draw.codes(shape),
        "dim": dim,
        "start": start,
        "end": draw.whole(start + 1, shape[dim]),
        "step": draw.pick([1, 1, 2, 3]),
    }


SLICE = Operator(
    name="aten::slice_copy",
    overload_name="Tensor",
    summary="slice, narrow, select, split, chunk: a part of one dimension",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=rows,
    running=running,
    element=ElementOf(("self",)),
    tensors=("self",),
    relayout=relayout_dim,
    samples=samples,
)

SLICE_PATTERN = Pattern(aten=(aten.slice.Tensor,), match=shared, lower=lower, moves=True)
NARROW_PATTERN = Pattern(aten=(aten.narrow.default,), match=shared, lower=lower_narrow, moves=True)
SELECT_PATTERN = Pattern(aten=(aten.select.int,), match=shared, lower=lower_select, moves=True)


# ---- split -----------------------------------------------------------------------------------------------


def dimension(bound: Bound) -> int:
    return int(bound["dim"]) % len(shape(bound["self"]))


def to_slices(bound: Bound) -> None:
    """Replaces every part by a slice that starts where the parts before it end; the split itself is left without
    users."""
    dim, start = dimension(bound), 0
    for position, part in enumerate(VALUE.must(bound.node)):
        end = start + int(part.shape[dim])
        _replace_part(bound.node, position, aten.slice.Tensor, bound["self"], dim, start, end)
        start = end


def to_selects(bound: Bound) -> None:
    dim = dimension(bound)
    for position in range(shape(bound["self"])[dim]):
        _replace_part(bound.node, position, aten.select.int, bound["self"], dim, position)


def _replace_part(node: Node, position: int, target: Any, *args: Any) -> None:
    for part in parts_of(node, position):
        part.replace_all_uses_with(add_call(part, target, *args))


SPLIT_REWRITE = Rewrite(
    aten=(
        aten.split.Tensor,
        aten.split.sizes,
        aten.split_with_sizes.default,
        aten.chunk.default,
        aten.tensor_split.sections,
        aten.tensor_split.indices,
    ),
    rewrite=to_slices,
    any_element=True,
    moves=True,
)
UNBIND_REWRITE = Rewrite(aten=(aten.unbind.int,), rewrite=to_selects, any_element=True, moves=True)
