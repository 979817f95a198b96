"""The same bytes under another shape: no kernel, no copy. In the .pte it is aten's view."""

import torch
from torch.fx import Node

from cortado.base.numerics import Tensor
from cortado.ir.graph import Bound, add_call, is_call, shape
from cortado.ir.op import ElementOf, Lowering, Operator, Pattern, Rewrite
from cortado.ops._movement import shared

aten = torch.ops.aten
VIEW_CALLS = (aten.reshape.default, aten.view.default)


def reference(*, self: Tensor, size: list[int]) -> Tensor:
    return self.reshape(size)


def lower(lowering: Lowering) -> Node:
    return lowering.view(lowering.node("self"), shape(lowering.bound.node))


def to_reshape(bound: Bound) -> Node:
    """All views as one operator with the final shape; a view of a view reads the first one's input."""
    source: Node = bound.node.all_input_nodes[0]
    size = list(shape(bound.node))
    if is_call(source, aten.reshape.default):
        source = source.all_input_nodes[0]
    return source if size == list(shape(source)) else add_call(bound.node, aten.reshape.default, source, size)


VIEW = Operator(
    name="aten::view_copy",
    summary="reshape, flatten, squeeze, unsqueeze: the same bytes under another shape",
    arguments="Tensor self, SymInt[] size",
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
)
