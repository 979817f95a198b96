"""out = the input, repeated along each dimension: repeat, tile, expand, repeat_interleave."""

import math
from typing import Any

import torch
from torch.fx import Node

from cortado.base.numerics import Tensor
from cortado.ir.graph import Bound, shape
from cortado.ir.kernel_table import KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern
from cortado.ir.sampling import CaseDraw
from cortado.ops.move.movement import MAX_LOOPS, StridedWalk, loops, relayout_lists, shared, strided_rows, strides_of

aten = torch.ops.aten


def reference(*, self: Tensor, repeats: list[int]) -> Tensor:
    return self.repeat(repeats)


def output_shape(call: Call) -> tuple[int, ...]:
    return tuple(size * count for size, count in zip(call.shape("self"), call["repeats"], strict=True))


# ---- from aten -----------------------------------------------------------------------------------------------


def repeat(lowering: Lowering, node: Node, repeats: list[int]) -> Node:
    """Adds one call, or one per dimension if the kernel's loops don't suffice."""
    if all(count == 1 for count in repeats):
        return node
    if len(walk(shape(node), repeats)[0]) <= MAX_LOOPS:
        return lowering.call(REPEAT, self=node, repeats=repeats)
    for dim, count in enumerate(repeats):
        if count > 1:
            alone = [count if other == dim else 1 for other in range(len(repeats))]
            node = lowering.call(REPEAT, self=node, repeats=alone)
    return node


def lower_expand(lowering: Lowering) -> Node:
    """Lowers expand and broadcast_to: dimensions of size 1 grow to the output's."""
    source, sizes = lowering.node("self"), shape(lowering.bound.node)
    before = (*[1] * (len(sizes) - len(shape(source))), *shape(source))
    repeats = [size // old for size, old in zip(sizes, before, strict=True)]
    return repeat(lowering, lowering.view(source, before), repeats)


def lower_repeat(lowering: Lowering) -> Node:
    """Lowers repeat and tile, which can have more numbers than the input has dimensions; tile also fewer."""
    bound, source = lowering.bound, lowering.node("self")
    repeats = [int(count) for count in bound.get("repeats") or bound.get("dims") or []]
    rank = max(len(repeats), len(shape(source)))
    repeats = [*[1] * (rank - len(repeats)), *repeats]
    before = (*[1] * (rank - len(shape(source))), *shape(source))
    return repeat(lowering, lowering.view(source, before), repeats)


def interleaved(bound: Bound) -> tuple[tuple[int, ...], int]:
    """Returns (the input's shape, the dimension) of a repeat_interleave; without a dimension the input is flattened
    first."""
    sizes = shape(bound["self"])
    return ((math.prod(sizes),), 0) if bound["dim"] is None else (sizes, bound["dim"] % len(sizes))


def lower_interleave(lowering: Lowering) -> Node:
    """Repeats every element `repeats` times: a new dimension after its own is repeated and merged into it."""
    bound = lowering.bound
    sizes, dim = interleaved(bound)
    outer, inner = math.prod(sizes[: dim + 1]), math.prod(sizes[dim + 1 :])
    source = lowering.view(lowering.node("self"), (outer, 1, inner))
    return lowering.view(repeat(lowering, source, [1, int(bound["repeats"]), 1]), shape(bound.node))


# ---- the C kernel --------------------------------------------------------------------------------------------


def walk(sizes: tuple[int, ...], repeats: list[int]) -> tuple[list[int], list[int]]:
    """Walks each dimension with two loops: one that repeats it with stride 0, and one over its elements."""
    turns, steps = [], []
    for size, stride, count in zip(sizes, strides_of(sizes), repeats, strict=True):
        turns += [count, size]
        steps += [0, stride]
    return loops(turns, steps)


KERNELS = KernelTable(strided_rows(lambda call: StridedWalk(*walk(call.shape("self"), call["repeats"]))))


def samples(draw: CaseDraw) -> dict[str, Any]:
    rank = draw.whole(1, 5)
    shape = tuple(draw.whole(1, 5) for _ in range(rank))
    repeats = [draw.pick([1, 1, 2, 3]) for _ in range(rank)]
    repeats = repeats if len(walk(shape, repeats)[0]) <= MAX_LOOPS else [1] * (rank - 1) + [2]
    return {"self": draw.codes(shape), "repeats": repeats}


REPEAT = Operator(
    name="aten::repeat",
    summary="repeat, tile, expand, repeat_interleave: copies side by side",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    element=ElementOf(("self",)),
    tensors=("self",),
    relayout=relayout_lists("repeats"),
    samples=samples,
)

EXPAND_PATTERN = Pattern(
    aten=(aten.expand.default, aten.expand_as.default, aten.broadcast_to.default, aten.expand_copy.default),
    match=shared,
    lower=lower_expand,
    moves=True,
)
REPEAT_PATTERN = Pattern(aten=(aten.repeat.default, aten.tile.default), match=shared, lower=lower_repeat, moves=True)
INTERLEAVE_PATTERN = Pattern(aten=(aten.repeat_interleave.self_int,), match=shared, lower=lower_interleave, moves=True)
