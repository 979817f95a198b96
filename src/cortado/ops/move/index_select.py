"""out = the input's elements at a constant list of positions along one dimension: index_select, flip, roll."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.base.numerics import Tensor, int_list
from cortado.ir.c_call import Bytes, Operand, Row
from cortado.ir.facts import USER_INPUT, dtype
from cortado.ir.graph import Bound, shape
from cortado.ir.kernel import ONE_ROW, Array, Field, Rows
from cortado.ir.kernel_table import KernelRow, KernelTable, runs_by_row
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern
from cortado.ir.roles import Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Calls, Quantities, Work
from cortado.ops.loops import COPIED, RunSteps, copies
from cortado.ops.move.movement import relayout_dim, shared

aten = torch.ops.aten


def reference(*, self: Tensor, dim: int, index: Tensor) -> Tensor:
    return self.index_select(dim, index)


def output_shape(call: Call) -> tuple[int, ...]:
    sizes = list(call.shape("self"))
    sizes[call["dim"]] = math.prod(call.shape("index"))
    return tuple(sizes)


# ---- from aten -----------------------------------------------------------------------------------------------


def pick(lowering: Lowering, node: Node, dim: int, index: Sequence[int]) -> Node:
    """Selects a node's elements at these positions of one dimension; returns the node itself if all are in place."""
    if list(index) == list(range(shape(node)[dim])):
        return node
    positions = lowering.constant("index", torch.tensor(index, dtype=torch.int64))
    return lowering.call(INDEX_SELECT, self=node, dim=dim, index=positions)


def _check_index(node: Node) -> Reject | None:
    if USER_INPUT.known(node):
        return Reject(f"needs constant positions, got the model's input '{node.name}'")
    if node.op not in ("get_attr", "placeholder"):
        return Reject(f"needs constant positions, got the result of {node.name}")
    if dtype(node) not in (torch.int64, torch.int32) or len(shape(node)) > 1:
        return Reject(f"needs a list of positions, got {dtype(node)} of shape {list(shape(node))}")
    return None


def match(bound: Bound) -> Quantization | Reject:
    return _check_index(bound["index"]) or shared(bound)


def lower(lowering: Lowering) -> Node:
    bound, index = lowering.bound, lowering.data("index")
    assert index is not None
    source = lowering.node("self")
    return pick(lowering, source, bound["dim"] % len(shape(source)), index.reshape(-1).tolist())


def match_brackets(bound: Bound) -> Quantization | Reject:
    """Matches x[:, [2, 0, 1]]."""
    given = [item for item in bound["indices"] if item is not None]
    if len(given) != 1:
        return Reject(f"takes a list of positions along one dimension, got lists along {len(given)}")
    return _check_index(given[0]) or shared(bound)


def lower_brackets(lowering: Lowering) -> Node:
    bound, index, source = lowering.bound, lowering.data("indices"), lowering.node("self")
    assert index is not None
    dim = next(dim for dim, item in enumerate(bound["indices"]) if item is not None)
    positions = [position % shape(source)[dim] for position in index.reshape(-1).tolist()]
    return lowering.view(pick(lowering, source, dim, positions), shape(bound.node))


def lower_flip(lowering: Lowering) -> Node:
    node = lowering.node("self")
    fixed = {aten.fliplr.default: [1], aten.flipud.default: [0]}
    target: Any = lowering.bound.node.target
    for dim in int_list(fixed.get(target) or lowering.bound["dims"]):
        node = pick(lowering, node, dim % len(shape(node)), range(shape(node)[dim] - 1, -1, -1))
    return node


def lower_roll(lowering: Lowering) -> Node:
    """Rolls along each dimension by its shift; without dimensions, the flattened tensor."""
    bound, node = lowering.bound, lowering.node("self")
    shifts, dims = int_list(bound["shifts"]), int_list(bound["dims"])
    if not dims:
        node, dims = lowering.view(node, (math.prod(shape(node)),)), [0]
    for shift, dim in zip(shifts, dims, strict=True):
        size = shape(node)[dim]
        node = pick(lowering, node, dim % len(shape(node)), [(position - shift) % size for position in range(size)])
    return lowering.view(node, shape(bound.node))


# ---- the C kernel --------------------------------------------------------------------------------------------


def rows(call: Call) -> Rows | None:
    """Picks channels pixel by pixel, columns row by row."""
    dim, rank = call["dim"], len(call.shape("self"))
    if dim == rank - 1:
        return Rows((ONE_ROW,), pixelwise=True)
    return Rows((ONE_ROW,)) if (rank, dim) == (4, 2) else None


def _inner(call: Call) -> int:
    """Returns the number of bytes at one position."""
    return math.prod(call.shape("self")[call["dim"] + 1 :]) * call.element.bytes


def _fields(call: Call) -> dict[str, Field]:
    index, inner = call.array("index").astype(np.int32), _inner(call)
    in_bytes = call.shape("self")[call["dim"]] * inner
    return {"count": len(index), "inner": inner, "in_bytes": in_bytes, "index": Array(index)}


def _outer(call: Call) -> tuple[int]:
    return (math.prod(call.shape("self")[: call["dim"]]) if rows(call) is None else 1,)


KERNELS = KernelTable(
    runs_by_row(
        KernelRow(
            "gather_s8",
            None,
            arguments=(Operand.LAYER, Bytes(Row(0)), Bytes(Operand.OUT), Operand.N),
            struct="cortado_gather_t",
            fields=_fields,
            numbers=_outer,
            work=lambda call: _work(_inner(call), call.shape("index")[0]),
        ),
        rows,
    )
)


def _work(inner: int, count: int) -> Work:
    """Counts runs of one byte apart from longer ones, which are copied by calls."""

    def quantities(calls: Calls) -> Quantities:
        runs = calls.outputs / max(inner, 1)
        copied = copies(0 if inner == 1 else runs, inner, RunSteps(0, inner), RunSteps(0, inner))
        return {"outer": runs / count, "bytes": runs if inner == 1 else 0.0, **copied}

    return Work(("calls", "outer", "bytes", *COPIED), quantities)


def samples(draw: CaseDraw) -> dict[str, Any]:
    rank = draw.pick([1, 2, 3, 4, 4, 4])
    shape = tuple(draw.whole(1, 7) for _ in range(rank))
    dim = draw.whole(0, rank - 1)
    index = [draw.whole(0, shape[dim] - 1) for _ in range(draw.whole(1, 9))]
    return {
        "self": draw.codes(shape),
        "dim": dim,
        "index": torch.tensor(index, dtype=torch.int64),
    }


INDEX_SELECT = Operator(
    name="aten::index_select",
    summary="flip, roll, reflection padding, x[:, [2, 0, 1]]: constant positions along one dimension",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=rows,
    element=ElementOf(("self",)),
    tensors=("self",),
    relayout=relayout_dim,
    constraints="constant positions",
    samples=samples,
)

INDEX_SELECT_PATTERN = Pattern(aten=(aten.index_select.default,), match=match, lower=lower, moves=True)
BRACKETS_PATTERN = Pattern(aten=(aten.index.Tensor,), match=match_brackets, lower=lower_brackets, moves=True)
FLIP_PATTERN = Pattern(
    aten=(aten.flip.default, aten.fliplr.default, aten.flipud.default), match=shared, lower=lower_flip, moves=True
)
ROLL_PATTERN = Pattern(aten=(aten.roll.default,), match=shared, lower=lower_roll, moves=True)
