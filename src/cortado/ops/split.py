"""split, chunk, tensor_split and unbind are slices: one for each part that is used."""

from typing import Any

import torch
from torch.fx import Node

from cortado.ir.facts import VALUE
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.op import Rewrite
from cortado.ops._float import parts_of

aten = torch.ops.aten


def dimension(bound: Bound) -> int:
    return int(bound["dim"]) % len(shape(bound["self"]))


def to_slices(bound: Bound) -> None:
    """Every part becomes a slice that starts where the parts before it end; the split itself is left without users."""
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
)
UNBIND_REWRITE = Rewrite(aten=(aten.unbind.int,), rewrite=to_selects)
