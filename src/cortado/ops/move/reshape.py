"""The same bytes under another shape: no kernel, no copy. In the .pte it is aten's view.

out = input with its dimensions permuted: a layout change that no pass could remove.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.base.target import CortexMTargetConfig
from cortado.ir.graph import Bound, add_call, is_call, shape
from cortado.ir.kernel_table import KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, PteWriter, Rewrite
from cortado.ir.roles import Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ops.move.movement import MAX_LOOPS, StridedWalk, loops, shared, strided_rows, strides_of

# ---- reshape ---------------------------------------------------------------------------------------------

aten = torch.ops.aten
VIEW_CALLS = (aten.reshape.default, aten.view.default)


def reference(*, self: Tensor, size: list[int]) -> Tensor:
    return self.reshape(size)


def lower(lowering: Lowering) -> Node:
    return lowering.view(lowering.node("self"), shape(lowering.bound.node))


def to_reshape(bound: Bound) -> Node:
    """Rewrites all views as one call with the final shape; a view of a view reads the first one's input."""
    source: Node = bound.node.all_input_nodes[0]
    size = list(shape(bound.node))
    if is_call(source, aten.reshape.default):
        source = source.all_input_nodes[0]
    return source if size == list(shape(source)) else add_call(bound.node, aten.reshape.default, source, size)


VIEW = Operator(
    name="aten::view_copy",
    summary="reshape, flatten, squeeze, unsqueeze: the same bytes under another shape",
    reference=reference,
    shape=lambda call: tuple(call["size"]),
    kernel=None,
    view=True,
    element=ElementOf(("self",)),
    tensors=("self",),
)

RESHAPE_PATTERN = Pattern(aten=(aten.reshape.default,), match=shared, lower=lower, monotone=True, moves=True)

RESHAPE_REWRITE = Rewrite(
    aten=(
        aten.view.default,
        aten.view_copy.default,
        aten.view_as.default,
        aten._unsafe_view.default,
        aten.reshape.default,
        aten.reshape_as.default,
        aten.ravel.default,
        aten.flatten.using_ints,
        aten.unflatten.int,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.unsqueeze.default,
        aten.atleast_1d.default,
        aten.atleast_2d.default,
        aten.atleast_3d.default,
    ),
    rewrite=to_reshape,
    any_element=True,
    moves=True,
)


# ---- transpose -------------------------------------------------------------------------------------------

PTE_MAX_RANK = 4


def transpose_reference(*, input: Tensor, perm: list[int]) -> Tensor:
    return input.permute(perm).contiguous()


# ---- from aten -----------------------------------------------------------------------------------------------


def permutation(bound: Bound) -> tuple[int, ...]:
    """Returns the order of dimensions that a call produces, found by running it on a tensor with distinct sizes."""
    probe = torch.empty([2 + dim for dim in range(len(shape(bound["self"])))], device="meta")
    target: Any = bound.node.target
    result = target(probe, *bound.node.args[1:], **bound.node.kwargs)
    return tuple(int(size) - 2 for size in result.shape)


def walk(sizes: Sequence[int], perm: Sequence[int]) -> tuple[list[int], list[int]]:
    """Returns the output's dimensions with their strides in the input, in as few loops as possible."""
    strides = strides_of(sizes)
    return loops([sizes[dim] for dim in perm], [strides[dim] for dim in perm])


def match(bound: Bound) -> Quantization | Reject:
    count = len(walk(shape(bound["self"]), permutation(bound))[0])
    if count > MAX_LOOPS:
        return Reject(f"transposes at most {MAX_LOOPS} groups of dimensions, got {count}")
    return shared(bound)


def transpose_lower(lowering: Lowering) -> Node:
    return lowering.transpose(lowering.node("self"), permutation(lowering.bound))


# ---- the .pte ------------------------------------------------------------------------------------------------


def merged(sizes: Sequence[int], perm: Sequence[int]) -> tuple[list[int], list[int]]:
    """Returns input shape and permutation, with the dimensions that stay together merged."""
    turns, steps = walk(sizes, perm)
    by_stride = sorted(range(len(turns)), key=lambda position: -steps[position])
    return [turns[position] for position in by_stride], [by_stride.index(position) for position in range(len(turns))]


def pte(arguments: Mapping[str, Any], add: PteWriter, target: CortexMTargetConfig) -> Node:
    """Writes the call; the runtime's kernel takes four dimensions. More are merged, or left to the portable kernel."""
    source, perm = arguments["input"], arguments["perm"]
    if len(perm) <= PTE_MAX_RANK:
        return add(TRANSPOSE, **arguments)
    sizes, fewer = merged(shape(source), perm)
    if len(fewer) > PTE_MAX_RANK:
        return add(PERMUTE_COPY, self=source, dims=perm)
    result = add(TRANSPOSE, input=add(VIEW, self=source, size=sizes), perm=fewer)
    return add(VIEW, self=result, size=[shape(source)[dim] for dim in perm])


def pte_limit(call: Call) -> str | None:
    rank = len(call.shape("input"))
    return f"takes at most rank {PTE_MAX_RANK}, found rank {rank}" if rank > PTE_MAX_RANK else None


# ---- the C kernel --------------------------------------------------------------------------------------------


KERNELS = KernelTable(strided_rows(lambda call: StridedWalk(*walk(call.shape("input"), call["perm"]))))


def samples(draw: CaseDraw) -> dict[str, Any]:
    rank = draw.whole(1, 6)
    shape = tuple(draw.whole(1, 9 if rank < 5 else 4) for _ in range(rank))
    return {
        "input": draw.codes(shape),
        "perm": draw.permutation(list(range(rank))),
    }


def output_shape(call: Call, source: str, order: str) -> tuple[int, ...]:
    return tuple(call.shape(source)[dim] for dim in call[order])


TRANSPOSE = Operator(
    name="cortex_m::transpose",
    summary="permute, transpose: dimensions in another order",
    reference=transpose_reference,
    shape=lambda call: output_shape(call, "input", "perm"),
    kernel=KERNELS,
    permutes=True,
    element=ElementOf(("input",)),
    pte=pte,
    pte_limit=pte_limit,
    constraints="at most 6 groups of dimensions that stay together",
    samples=samples,
)

PERMUTE_COPY = Operator(
    name="aten::permute_copy",
    summary="a transpose of more than four groups of dimensions, in the .pte",
    reference=lambda *, self, dims: self.permute(dims).contiguous(),
    shape=lambda call: output_shape(call, "self", "dims"),
    kernel=None,
    permutes=True,
    element=ElementOf(("self",)),
    tensors=("self",),
)

PERMUTE_PATTERN = Pattern(
    aten=(
        aten.permute.default,
        aten.transpose.int,
        aten.t.default,
        aten.numpy_T.default,
        aten.mT.default,
        aten.movedim.int,
        aten.movedim.intlist,
        aten.moveaxis.int,
        aten.moveaxis.intlist,
        aten.swapaxes.default,
        aten.swapdims.default,
        aten.adjoint.default,
    ),
    match=match,
    lower=transpose_lower,
    monotone=True,
    moves=True,
)
