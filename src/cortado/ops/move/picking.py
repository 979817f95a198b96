"""Calls that pick values at constant positions, or by gather at computed ones: gather, unfold, x[i, j], diagonal.

Every such call is run once on the positions themselves, 0, 1, 2, ...; the result says which value goes where. The
positions become an index_select along one dimension of a view, made as short as the pattern allows: leading dimensions
whose entries are all treated alike are factored out, and runs of neighbours move together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.ir.facts import VALUE, dtype
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.op import Decomposition, Rewrite
from cortado.ops.float_graph import add_constant, add_permute, add_view, is_constant, pair
from cortado.ops.integer.forms import rest
from cortado.ops.move.embedding import looked_up
from cortado.ops.move.pick import PICKED

aten = torch.ops.aten
Tensor = torch.Tensor


@dataclass(frozen=True)
class Picked:
    """The view [outer, count, inner] of a tensor, and the positions taken along its middle dimension."""

    outer: int
    inner: int
    positions: Tensor


def simplest(positions: Tensor, sizes: Sequence[int]) -> Picked:
    """Factors positions in a tensor of `sizes`, in the order of the result, into the smallest view."""
    flat, total = positions.reshape(-1), math.prod(sizes)
    outer = 1
    for size in sizes:
        if not _alike(flat, outer * size, total):
            break
        outer *= size
    flat, total = flat[: flat.numel() // outer], total // outer
    inner = 1
    for size in reversed(sizes):
        if not _in_runs(flat, inner * size, total):
            break
        inner *= size
    return Picked(outer, inner, flat[::inner] // inner)


def _alike(flat: Tensor, count: int, total: int) -> bool:
    """Whether the positions are the same within each of `count` equal parts of the tensor, part after part."""
    if flat.numel() % count:
        return False
    rows = flat.reshape(count, -1)
    return torch.equal(rows, rows[:1] + total // count * torch.arange(count)[:, None])


def _in_runs(flat: Tensor, length: int, total: int) -> bool:
    """Whether whole runs of this length move, each from a multiple of the length."""
    if flat.numel() % length or total % length:
        return False
    runs = flat.reshape(-1, length)
    return torch.equal(runs, runs[:, :1] + torch.arange(length)) and not bool((runs[:, 0] % length).any())


def pick(like: Node, source: Node, positions: Tensor) -> Node:
    """Picks the values of `source` at these positions of the flattened tensor, in the shape of `positions`."""
    sizes = shape(source)
    found = simplest(positions, sizes)
    count = math.prod(sizes) // (found.outer * found.inner)
    view = add_view(like, source, (found.outer, count, found.inner))
    if not torch.equal(found.positions, torch.arange(count)):
        view = add_call(like, aten.index_select.default, view, 1, add_constant(like, "positions", found.positions))
    return add_view(like, view, tuple(positions.shape))


def picked(bound: Bound) -> Node | None:
    """Rewrites a call that only moves values to constant positions."""
    others, target = rest(bound), bound.node.target
    source: Node = next(iter(bound.values.values()))
    sizes = shape(source)
    if others is None and target == aten.gather.default:
        return gathered(bound)
    if others is None or 0 in shape(bound.node) or not isinstance(target, OpOverload):
        return None
    return pick(bound.node, source, target(torch.arange(math.prod(sizes)).reshape(sizes), **others))


def strided(bound: Bound) -> Node | None:
    """Rewrites as_strided of a contiguous tensor: overlapping frames."""
    source: Node = bound["self"]
    value = VALUE.must(source)
    reach = sum((size - 1) * step for size, step in zip(bound["size"], bound["stride"], strict=True))
    first = bound.get("storage_offset")
    skipped = 0 if first is None else int(first) - int(value.storage_offset())
    inside = skipped >= 0 and min(bound["stride"], default=0) >= 0 and skipped + reach < value.numel()
    if not value.is_contiguous() or not inside or 0 in shape(bound.node):
        return None
    places = torch.arange(value.numel()).as_strided(bound["size"], bound["stride"], skipped)
    return pick(bound.node, source, places)


def gathered(bound: Bound) -> Node | None:
    """Rewrites gather at computed positions: along the last dimension, over only the rows that have positions."""
    like, source, index = bound.node, bound["self"], bound["index"]
    rank = len(shape(source))
    if not rank or is_constant(source) or 0 in shape(index):
        return None
    dim = bound["dim"] % rank
    for axis, (size, all_of_it) in enumerate(zip(shape(index), shape(source), strict=True)):
        if axis != dim and size < all_of_it:
            source = add_call(like, aten.slice.Tensor, source, axis, 0, size)
    order = [*(axis for axis in range(rank) if axis != dim), dim]
    found = add_call(like, PICKED, add_permute(like, source, order), add_permute(like, index, order))
    return add_permute(like, found, [order.index(axis) for axis in range(rank)])


def columns(bound: Bound) -> Node | None:
    """Rewrites unfold of images: windows are picked from a padded image."""
    like, source = bound.node, bound["self"]
    top, left = pair(bound["padding"])
    if top or left:
        source = add_call(like, aten.constant_pad_nd.default, source, [left, left, top, top], 0.0)
    sizes = shape(source)
    places = torch.arange(math.prod(sizes), dtype=torch.float64).reshape(sizes)
    kernel, dilation, stride = (pair(bound[name]) for name in ("kernel_size", "dilation", "stride"))
    return pick(like, source, aten.im2col.default(places, kernel, dilation, [0, 0], stride).to(torch.int64))


def brackets(bound: Bound) -> Node | None:
    """Rewrites x[i, j], x[:, [[0, 1], [2, 3]]]; a list along one dimension is an index_select already, table[ids] a
    lookup."""
    given = [item for item in bound["indices"] if item is not None]
    if len(given) == 1 and bound["indices"][0] is not None and is_constant(bound["self"]):
        return _row_of(bound.node, bound["self"], given[0])
    if len(given) == 1 and len(shape(given[0])) <= 1:
        return None
    return picked(bound)


def _row_of(like: Node, table: Node, ids: Node) -> Node | None:
    """Adds table[ids], where -1 is the last row."""
    if is_constant(ids) or dtype(ids) not in (torch.int32, torch.int64):
        return None
    return looked_up(like, table, add_call(like, aten.remainder.Scalar, ids, shape(table)[0]))


def taken_along(self: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Computes take_along_dim as a gather: self and positions are broadcast except along the dimension."""
    if dim is None:
        return aten.gather.default(self.reshape(-1), 0, indices.reshape(-1))
    others = [1 if axis == dim % self.dim() else size for axis, size in enumerate(self.shape)]
    sizes = torch.broadcast_shapes(indices.shape, others)
    rows = [size if axis == dim % self.dim() else sizes[axis] for axis, size in enumerate(self.shape)]
    return aten.gather.default(self.expand(rows), dim, indices.expand(sizes))


def taken(self: Tensor, index: Tensor) -> Tensor:
    """Computes take as a gather from the flattened tensor."""
    return aten.gather.default(self.reshape(-1), 0, index.reshape(-1)).reshape(index.shape)


def linear_place(positions: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    """Combines positions along several dimensions into positions along their flattened one; -1 is the last of each."""
    place = torch.remainder(positions[0], sizes[0])
    for one, size in zip(positions[1:], sizes[1:], strict=True):
        place = place * size + torch.remainder(one, size)
    return place


def at_several(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """Computes x[i, j] at computed positions: the dimensions are flattened, and their positions combined."""
    given = [(dim, one) for dim, one in enumerate(indices) if one is not None]
    first, last = given[0][0], given[-1][0]
    place = linear_place([one for _, one in given], self.shape[first : last + 1])
    return aten.index.Tensor(self.flatten(first, last), [*[None] * first, place])


def _several_places(bound: Bound) -> bool:
    """Whether adjacent dimensions are indexed by lists of positions, at least one of them computed."""
    dims = [dim for dim, one in enumerate(bound["indices"]) if one is not None]
    whole = all(dtype(one) in (torch.int32, torch.int64) for one in bound["indices"] if one is not None)
    return len(dims) > 1 and dims == list(range(dims[0], dims[-1] + 1)) and whole and computed_places(bound)


def computed_places(bound: Bound) -> bool:
    return rest(bound) is None


TAKEN_ALONG = Decomposition(aten=(aten.take_along_dim.default,), function=taken_along, takes=computed_places)
AT_SEVERAL = Decomposition(aten=(aten.index.Tensor,), function=at_several, takes=_several_places)
TAKEN = Decomposition(aten=(aten.take.default,), function=taken, takes=computed_places)
PICKED_REWRITE = Rewrite(
    aten=(
        aten.gather.default,
        aten.take.default,
        aten.take_along_dim.default,
        aten.unfold.default,
        aten.unfold_copy.default,
        aten.diagonal.default,
        aten.diagonal_copy.default,
        aten.linalg_diagonal.default,
        aten.rot90.default,
    ),
    rewrite=picked,
    moves=True,
    any_element=True,
)
BRACKETS_REWRITE = Rewrite(aten=(aten.index.Tensor,), rewrite=brackets, any_element=True)
STRIDED_REWRITE = Rewrite(
    aten=(aten.as_strided.default, aten.as_strided_copy.default), rewrite=strided, any_element=True, moves=True
)
COLUMNS_REWRITE = Rewrite(aten=(aten.im2col.default,), rewrite=columns, any_element=True)
