"""Calls that write values to positions of a tensor: scatter, index_put, index_copy, index_fill, index_add, fold,
diag_embed.

If the positions are constant, the call is run once on the numbers of the tensor's own values, followed by those of the
written values; the result says which value goes where, and is picked from both. If they are computed, they are compared
with all positions of the dimension; of several writes to one position the last one is picked, as torch's own loop
leaves it, or their sum is added.

triu, tril and masked_fill with a constant mask: a product with ones and zeros, and the filling added. x[mask] = number
is a masked_fill, whatever the mask is.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from cortado.base.numerics import Tensor
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, add_call, bind, shape
from cortado.ir.op import Decomposition, Rewrite
from cortado.ops.elementwise.pointwise import uniform_value
from cortado.ops.float_graph import add_constant, add_view, constant_data, is_constant, pair
from cortado.ops.move.picking import linear_place, pick

# ---- placing forms ---------------------------------------------------------------------------------------

aten = torch.ops.aten


# ---- at constant positions ---------------------------------------------------------------------------------------


def placed(bound: Bound, written: str = "src") -> Node | None:
    """Rewrites a call that puts the values of one tensor into constant positions of another."""
    like: Node = bound.node
    target: Any = like.target
    base, source = bound["self"], bound[written]
    others = {name: value for name, value in bound.values.items() if name not in ("self", written)}
    nodes = [item for item in pytree.tree_leaves(others) if isinstance(item, Node)]
    if not all(is_constant(node) for node in nodes) or 0 in shape(base) or 0 in shape(source):
        return None
    if not isinstance(target, OpOverload) or not dtype(base).is_floating_point or dtype(source) != dtype(base):
        return None
    given = pytree.tree_map_only(Node, constant_data, others)
    count = math.prod(shape(base))
    mine = torch.arange(count).reshape(shape(base))
    theirs = torch.arange(count, count + math.prod(shape(source))).reshape(shape(source))
    positions: Tensor = target(**{"self": mine, written: theirs, **given})
    run = _longest_run(positions, (shape(base), shape(source)))
    both = [add_view(like, node, (math.prod(shape(node)) // run, run)) for node in (base, source)]
    return pick(like, add_call(like, aten.cat.default, both, 0), positions)


def masked(bound: Bound) -> Node | None:
    """Rewrites masked_scatter; with a single number it is a masked_fill."""
    number = uniform_value(bound["source"])
    if number is None or is_constant(bound["mask"]):
        return placed(bound, "source")
    return add_call(bound.node, aten.masked_fill.Scalar, bound["self"], bound["mask"], number)


def _longest_run(positions: Tensor, sizes: tuple[tuple[int, ...], ...]) -> int:
    """Returns how many values lie side by side in both tensors, and move together."""
    longest, length = 1, 1
    for size in reversed(positions.shape):
        length *= size
        runs = positions.reshape(-1, length)
        together = torch.equal(runs, runs[:, :1] + torch.arange(length))
        whole = all(math.prod(one) % length == 0 for one in sizes) and not bool((runs[:, 0] % length).any())
        if together and whole:
            longest = length
    return longest


def filled_at(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Computes index_fill: a mask over the dimension."""
    size = self.shape[dim]
    hit = (index.reshape(-1, 1) == torch.arange(size)).any(0)
    sizes = [size if place == dim % len(self.shape) else 1 for place in range(len(self.shape))]
    return torch.masked_fill(self, hit.reshape(sizes), value)


# ---- at positions that can be computed ---------------------------------------------------------------------------


def _hits(self: Tensor, dim: int, index: Tensor) -> Tensor:
    """Returns [..., written, positions of the dimension]: the position that each written value goes to."""
    return index.movedim(dim, -1).unsqueeze(-1) == torch.arange(self.shape[dim])


def number_scattered(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    hits = _hits(self, dim, index)
    mask = hits.squeeze(-2) if hits.shape[-2] == 1 else hits.any(-2)
    return torch.masked_fill(self, mask.movedim(-1, dim), value)


def scattered(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Computes scatter with a matrix of hits. No position can be written twice: torch leaves the result undefined."""
    hits = _hits(self, dim, index)
    mask = (hits.squeeze(-2) if hits.shape[-2] == 1 else hits.any(-2)).movedim(-1, dim)
    return torch.where(mask, _summed(hits, dim, _read(src, index)), self)


def scatter_added(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Computes scatter_add with a matrix of hits; rows that no index names stay unchanged."""
    sums = _summed(_hits(self, dim, index), dim, _read(src, index))
    rest = [size - made for size, made in zip(self.shape, sums.shape, strict=True)]
    missing = [width for size in reversed(rest) for width in (0, size)]
    return self + (F.pad(sums, missing) if any(missing) else sums)


def _read(src: Tensor, index: Tensor) -> Tensor:
    """Returns the part of a larger tensor that a scatter reads: as much as there are positions."""
    return src[tuple(slice(0, size) for size in index.shape)]


def _summed(hits: Tensor, dim: int, src: Tensor) -> Tensor:
    """Sums the values that go to each position; integers one by one, since matrix products are of real numbers."""
    if not src.is_floating_point():
        return torch.where(hits, src.movedim(dim, -1).unsqueeze(-1), 0).sum(-2).movedim(-1, dim)
    return torch.matmul(src.movedim(dim, -1).unsqueeze(-2), hits.to(torch.float32)).squeeze(-2).movedim(-1, dim)


def index_added(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """Computes index_add as a linear layer along the dimension with weights 0 and 1; for integers, as sums of selected
    values."""
    places = index.reshape(-1, 1) == torch.arange(self.shape[dim])
    if not self.is_floating_point():
        return self + _summed(places, dim, source * int(alpha))
    hits = places.to(torch.float32) * alpha
    rows = source.movedim(dim, -1)
    sums = torch.mm(rows.reshape(-1, rows.shape[-1]), hits).reshape(*rows.shape[:-1], -1)
    return self + sums.movedim(-1, dim)


def put_at(self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """Computes index_put: the indexed dimensions are flattened, and the positions along them combined."""
    given = {dim: one for dim, one in enumerate(indices) if one is not None}
    dims, rank = list(given), len(self.shape)
    others = [dim for dim in range(rank) if dim not in given]
    first = dims[0] if dims == list(range(dims[0], dims[-1] + 1)) else 0  # where torch puts the positions
    order = [*others[:first], *dims, *others[first:]]
    rows = self.permute(order)
    place = linear_place(list(given.values()), [self.shape[dim] for dim in dims])
    lead, behind = rows.shape[:first], rows.shape[first + len(dims) :]
    written = values.expand(*lead, *place.shape, *behind).reshape(*lead, place.numel(), *behind)
    flat = rows.flatten(first, first + len(dims) - 1)
    put = index_added if accumulate else _last_written
    made = put(flat, first, place.reshape(-1), written).reshape(rows.shape)
    return made.permute([order.index(dim) for dim in range(rank)])


def _last_written(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Returns a tensor's rows, each replaced by the last row written to it, if any."""
    size, count = self.shape[dim], index.numel()
    mine, theirs = torch.arange(size), torch.arange(size, size + count)
    chosen = torch.where(index.reshape(-1, 1) == mine, theirs.reshape(-1, 1), mine).amax(0)
    return aten.index_select.default(torch.cat([self, source], dim), dim, chosen)


def _is_put(bound: Bound) -> bool:
    """Whether it accumulates, or writes rows at positions of which at least one is computed; a single row is written by
    a comparison (positions.py)."""
    given = [one for one in bound["indices"] if one is not None]
    if not given or any(dtype(one) not in (torch.int32, torch.int64) for one in given) or 0 in shape(bound["self"]):
        return False
    if bound["accumulate"]:
        return True
    single = len(given) == 1 and math.prod(shape(given[0])) == 1
    return not single and not all(is_constant(one) for one in given)


def _whole(bound: Bound) -> bool:
    """Whether every row of the tensor has positions of its own."""
    base, index = shape(bound["self"]), shape(bound["index"])
    dim = bound["dim"] % max(1, len(base))
    return bool(base) and all(a == b for place, (a, b) in enumerate(zip(base, index, strict=True)) if place != dim)


def _is_tensor(bound: Bound) -> bool:
    return bool(shape(bound["self"]))


def _computed(bound: Bound) -> bool:
    return _whole(bound) and not is_constant(bound["index"])


# ---- others --------------------------------------------------------------------------------------------------


def folded(self: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    """Computes col2im: adjacent windows are put in place; overlapping ones are summed, by a transposed convolution."""
    sizes, kernel, gaps, pads, steps = (pair(one) for one in (output_size, kernel_size, dilation, padding, stride))
    batched = self if len(self.shape) == 3 else self[None]
    taps = math.prod(kernel)
    n, channels = batched.shape[0], batched.shape[1] // taps
    spans = [gap * (tap - 1) + 1 for gap, tap in zip(gaps, kernel, strict=True)]
    rows, columns = (
        (size + 2 * pad - span) // step + 1 for size, pad, span, step in zip(sizes, pads, spans, steps, strict=True)
    )
    if steps == kernel == spans and pads == [0, 0] and sizes == [rows * kernel[0], columns * kernel[1]]:
        parts = batched.reshape(n, channels, *kernel, rows, columns).permute(0, 1, 4, 2, 5, 3)
        made = parts.reshape(n, channels, *sizes)
    else:
        images = batched.reshape(n, channels * taps, rows, columns)
        single = torch.eye(taps).reshape(taps, 1, *kernel).repeat(channels, 1, 1, 1)
        reached = [
            (count - 1) * step - 2 * pad + span
            for count, step, pad, span in zip((rows, columns), steps, pads, spans, strict=True)
        ]
        rest = [size - reach for size, reach in zip(sizes, reached, strict=True)]
        made = F.conv_transpose2d(images, single, None, steps, pads, rest, channels, gaps)
    return made if len(self.shape) == 3 else made[0]


def diagonal_of(self: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Computes diag_embed: a vector on the diagonal of a matrix of zeros."""
    size = self.shape[-1] + abs(offset)
    rank = len(self.shape) + 1
    padded = F.pad(self, (max(offset, 0), max(-offset, 0)))  # by columns
    rows, columns = torch.arange(size).reshape(-1, 1), torch.arange(size)
    kept = (columns - rows == offset).to(torch.float32)
    matrix = padded.unsqueeze(-2) * kept
    order = [place for place in range(rank) if place not in (dim1 % rank, dim2 % rank)]
    places = {dim: place for place, dim in enumerate([*order, dim1 % rank, dim2 % rank])}
    return matrix.permute([places[dim] for dim in range(rank)])


PLACED_REWRITE = Rewrite(
    aten=(
        aten.scatter.src,
        aten.slice_scatter.default,
        aten.select_scatter.default,
        aten.diagonal_scatter.default,
    ),
    rewrite=placed,
    any_element=True,
)
COPIED_REWRITE = Rewrite(
    aten=(aten.index_copy.default,), rewrite=lambda bound: placed(bound, "source"), any_element=True
)
MASKED_REWRITE = Rewrite(aten=(aten.masked_scatter.default,), rewrite=masked, any_element=True)
FILLED_AT = Decomposition(aten=(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor), function=filled_at)
NUMBER_SCATTERED = Decomposition(aten=(aten.scatter.value,), function=number_scattered, takes=_whole)
SCATTERED = Decomposition(aten=(aten.scatter.src,), function=scattered, takes=_computed)
SCATTER_ADDED = Decomposition(aten=(aten.scatter_add.default,), function=scatter_added, takes=_is_tensor)
PUT_AT = Decomposition(aten=(aten.index_put.default,), function=put_at, takes=_is_put)
INDEX_ADDED = Decomposition(aten=(aten.index_add.default,), function=index_added)
FOLDED = Decomposition(aten=(aten.col2im.default,), function=folded)
DIAGONAL_OF = Decomposition(aten=(aten.diag_embed.default,), function=diagonal_of)


# ---- zeroing forms ---------------------------------------------------------------------------------------

_LARGE = 20.0  # a filling this large gets a range of its own


def _zeroed(like: Node, source: Node, kept: Tensor) -> Node:
    """Multiplies a tensor with `kept`, which is 1 where a value stays and 0 elsewhere."""
    return add_call(like, aten.mul.Tensor, source, add_constant(like, "kept", kept.to(dtype(source))))


def triangle(bound: Bound) -> Node:
    target, sizes = bound.node.target, shape(bound["self"])
    kept = torch.ones(sizes[-2:])
    upper = target == aten.triu.default
    return _zeroed(bound.node, bound["self"], kept.triu(bound["diagonal"]) if upper else kept.tril(bound["diagonal"]))


def filled(bound: Bound) -> Node | None:
    """Rewrites masked_fill with a small number and a constant mask; a large one would dominate the range of the
    result."""
    like, mask, value = bound.node, bound["mask"], bound["value"]
    number = uniform_value(value) if isinstance(value, Node) else value
    if number is None or not is_constant(mask) or not abs(float(number)) < _LARGE or is_constant(bound["self"]):
        return None
    data = constant_data(mask)
    if bool((data == data.reshape(-1)[0]).all()):
        return None  # a function of one tensor
    return zeroed(like, bound["self"], ~data, float(number))


def zeroed(like: Node, source: Node, kept: Tensor, number: float) -> Node:
    """Returns a tensor where `kept` holds, and a number elsewhere."""
    result = _zeroed(like, source, kept)
    if number == 0:
        return result
    return add_call(like, aten.add.Tensor, result, add_constant(like, "filling", ~kept * number))


def written(bound: Bound) -> Node | None:
    """Rewrites writing a number where a mask holds: over the mask's dimensions, from the one that it indexes on."""
    like, source, indices = bound.node, bound["self"], bound["indices"]
    given = [(place, one) for place, one in enumerate(indices) if one is not None]
    number = uniform_value(bound["values"])
    if bound["accumulate"]:
        return None
    if number is None or len(given) != 1 or dtype(given[0][1]) != torch.bool:
        return placed(bound, "values")
    place, mask = given[0]
    behind = len(shape(source)) - place - len(shape(mask))
    if is_constant(mask):
        mask = add_constant(like, "mask", constant_data(mask).reshape(*shape(mask), *(1,) * behind))
    else:
        mask = add_view(like, mask, (*shape(mask), *(1,) * behind))
    new = add_call(like, aten.masked_fill.Scalar, source, mask, float(number))
    return filled(bind(new)) or new


TRIANGLE_REWRITE = Rewrite(aten=(aten.triu.default, aten.tril.default), rewrite=triangle, any_element=True)
FILLED_REWRITE = Rewrite(aten=(aten.masked_fill.Scalar, aten.masked_fill.Tensor), rewrite=filled)
WRITTEN_REWRITE = Rewrite(aten=(aten.index_put.default,), rewrite=written, any_element=True)
