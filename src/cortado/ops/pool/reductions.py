"""mean, sum, amax and so on over any dimensions: pools, or a convolution with equal weights, over a view.

The reduced dimensions become the width of windows that don't overlap, one per row, so a reduction needs no kernel of
its own. Rank 4 tensors are assumed to lie in memory as NHWC, as they do between convolutions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

import torch
from torch.fx import Node

from cortado.ir.graph import Bound, add_call, fake, shape
from cortado.ir.op import Rewrite
from cortado.ops.elementwise.functions import is_under_root
from cortado.ops.float_graph import add_constant, add_permute, add_view, parts_of, replace_values
from cortado.ops.move.pick import PICKED
from cortado.ops.pool.forms import WindowAxis, window_sums

aten = torch.ops.aten


class Reduction(Enum):
    """Kinds of reductions."""

    SUM = auto()
    MEAN = auto()
    MAX = auto()
    MIN = auto()


@dataclass(frozen=True)
class Windows:
    """A view of a tensor as images: permuted, reshaped, with windows that are reduced to one pixel each."""

    order: tuple[int, ...]  # of the tensor's dimensions, before the view
    nhwc: tuple[int, int, int, int]
    kernel: tuple[int, int]
    kept: tuple[int, ...]  # the remaining dimensions, in the order the result has them
    plain: bool = False  # the tensor is NCHW images already, and only height, width or both are reduced


def windows(sizes: Sequence[int], dims: frozenset[int]) -> Windows:
    """Returns the view of a tensor of these sizes in which `dims` are windows."""
    rank = len(sizes)
    order = (0, 2, 3, 1) if rank == 4 else tuple(range(rank))
    if rank == 4 and dims <= {2, 3}:
        n, c, h, w = sizes
        kernel = (h if 2 in dims else 1, w if 3 in dims else 1)
        return Windows(order, (n, h, w, c), kernel, kept=tuple(d for d in order if d not in dims), plain=True)
    moving = [dim for dim in order if sizes[dim] != 1]
    places = [place for place, dim in enumerate(moving) if dim in dims]
    if places and places[-1] - places[0] + 1 != len(places):  # not adjacent
        order = (*(dim for dim in order if dim not in dims), *(dim for dim in order if dim in dims))
        moving = [dim for dim in order if sizes[dim] != 1]
        places = [place for place, dim in enumerate(moving) if dim in dims]
    first, last = (places[0], places[-1] + 1) if places else (0, 0)
    before, reduced, after = (
        math.prod(sizes[dim] for dim in part) for part in (moving[:first], moving[first:last], moving[last:])
    )
    kept = tuple(dim for dim in order if dim not in dims)
    return Windows(order, (1, before, reduced, after), (1, reduced), kept)


def dims_of(bound: Bound, rank: int) -> frozenset[int]:
    """Returns the dimensions that a reduction names; all of them if it names none."""
    given = bound.get("dim")
    values = [given] if isinstance(given, int) else list(given or ())
    return frozenset(dim % rank for dim in values) if values else frozenset(range(rank))


def _images(like: Node, source: Node, view: Windows) -> Node:
    """Views a tensor as NCHW images, as aten's pools and convolutions take them."""
    if view.plain:
        return source
    flat = add_view(like, add_permute(like, source, view.order), view.nhwc)
    return add_permute(like, flat, (0, 3, 1, 2))


def _result(like: Node, pooled: Node, view: Windows, sizes: Sequence[int], out: Sequence[int]) -> Node:
    """Restores the order of the tensor's dimensions from one pixel per window."""
    if view.plain:
        return add_view(like, pooled, out)
    flat = add_view(like, add_permute(like, pooled, (0, 2, 3, 1)), [sizes[dim] for dim in view.kept])
    natural = sorted(range(len(view.kept)), key=lambda place: view.kept[place])
    return add_view(like, add_permute(like, flat, natural), out)


def _pool(like: Node, images: Node, kernel: Sequence[int], kind: Reduction) -> Node:
    height, width = shape(images)[2:]
    if kind is Reduction.MEAN:
        return add_call(like, aten.avg_pool2d.default, images, list(kernel), list(kernel))
    if kind is Reduction.MAX:
        return add_call(like, aten.max_pool2d.default, images, list(kernel), list(kernel))
    axes = (WindowAxis(height, kernel[0], kernel[0], 0, False), WindowAxis(width, kernel[1], kernel[1], 0, False))
    return window_sums(like, images, axes, 1)


def _row_sums(like: Node, source: Node, view: Windows, factor: float) -> Node:
    """Sums contiguous rows, times a factor: a linear layer with equal weights."""
    _, rows, length, _ = view.nhwc
    flat = add_view(like, add_permute(like, source, view.order), (rows, length))
    sums = add_call(like, aten.linear.default, flat, add_constant(like, "weight", torch.full((1, length), factor)))
    return add_view(like, sums, (1, 1, rows, 1))


LONGEST_ROW = 2**16  # the longest whose sum of codes times weights fits 32 bits
LONGEST_WINDOW = 2**15 - 1  # the largest that a pool's descriptor can hold


def _in_two(like: Node, source: Node, view: Windows, kind: Reduction, out: Sequence[int]) -> Node | None:
    """Reduces parts of a long dimension, then the partial results; there are about as many parts as a part has
    values."""
    _, before, length, after = view.nhwc
    part = math.ceil(math.sqrt(length))
    part = next((size for size in range(part, 2 * part) if length % size == 0), part)
    missing = -length % part
    flat = add_view(like, add_permute(like, source, view.order), (before, length, after))
    if missing and kind is Reduction.MAX:
        again = add_call(like, aten.slice.Tensor, flat, 1, 0, missing)
        flat = add_call(like, aten.cat.default, [flat, again], 1)
    elif missing:
        flat = add_call(like, aten.constant_pad_nd.default, flat, [0, 0, 0, missing], 0.0)
    count = (length + missing) // part
    rows = add_view(like, flat, (before * count, part, after))
    some = reduce(like, rows, frozenset({1}), kind, (before, count, after))
    total = None if some is None else reduce(like, some, frozenset({1}), kind, (before, after))
    if total is None:
        return None
    if missing and kind is Reduction.MEAN:
        total = add_call(like, aten.mul.Tensor, total, (length + missing) / length)
    sizes = [shape(source)[dim] for dim in view.kept]
    natural = sorted(range(len(view.kept)), key=lambda place: view.kept[place])
    return add_view(like, add_permute(like, add_view(like, total, sizes), natural), out)


def reduce(like: Node, source: Node, dims: frozenset[int], kind: Reduction, out: Sequence[int]) -> Node | None:
    """Reduces `source` over `dims`; the result has shape `out`."""
    sizes = shape(source)
    if not fake(source).is_floating_point() or 0 in sizes:
        return None
    if all(sizes[dim] == 1 for dim in dims):
        return add_view(like, source, out)
    if len(sizes) == 3 and dims == {2}:  # a signal, which lies in memory as an image of height 1
        return reduce(like, add_view(like, source, (*sizes[:2], 1, sizes[2])), frozenset({3}), kind, out)
    view = windows(sizes, dims)
    if (
        view.nhwc[2] > (LONGEST_ROW if view.nhwc[3] == 1 and kind is not Reduction.MAX else LONGEST_WINDOW)
        and not view.plain
    ):
        return _in_two(like, source, view, kind, out)
    if kind in (Reduction.SUM, Reduction.MEAN) and view.nhwc[3] == 1 and not view.plain:
        factor = 1.0 if kind is Reduction.SUM else 1.0 / view.nhwc[2]
        return _result(like, _row_sums(like, source, view, factor), view, sizes, out)
    return _result(like, _pool(like, _images(like, source, view), view.kernel, kind), view, sizes, out)


_KINDS = {
    aten.mean.default: Reduction.MEAN,
    aten.mean.dim: Reduction.MEAN,
    aten.sum.default: Reduction.SUM,
    aten.sum.dim_IntList: Reduction.SUM,
    aten.amax.default: Reduction.MAX,
    aten.max.default: Reduction.MAX,
    aten.max.dim: Reduction.MAX,
    aten.amin.default: Reduction.MIN,
    aten.min.default: Reduction.MIN,
    aten.min.dim: Reduction.MIN,
}


def _reduced(bound: Bound, out: Sequence[int]) -> Node | None:
    """Adds a reduction; the smallest of some numbers is computed as the negative of their largest negative."""
    source, kind = bound["self"], _KINDS[bound.node.target]  # type: ignore[index]
    dims = dims_of(bound, len(shape(source)))
    if kind is not Reduction.MIN:
        return reduce(bound.node, source, dims, kind, out)
    largest = reduce(bound.node, add_call(bound.node, aten.neg.default, source), dims, Reduction.MAX, out)
    return None if largest is None else add_call(bound.node, aten.neg.default, largest)


def to_windows(bound: Bound) -> Node | None:
    """Rewrites a reduction as windows; None for a sum of squares under a root, which is part of a norm
    (magnitude.py)."""
    return None if is_under_root(bound.node) else _reduced(bound, shape(bound.node))


def values_to_windows(bound: Bound) -> None:
    """Rewrites max and min along one dimension, which return values and positions."""
    values, positions = ([part for part in parts_of(bound.node, position) if part.users] for position in (0, 1))
    if not fake(bound["self"]).is_floating_point():
        if values and not positions:
            target = aten.amax.default if _KINDS[bound.node.target] is Reduction.MAX else aten.amin.default  # type: ignore[index]
            replace_values(values, add_call(bound.node, target, bound["self"], [bound["dim"]], bound["keepdim"]))
        return
    if values and positions and shape(bound["self"]):
        _replace_both(bound, values, positions)
        return
    if positions:
        target = aten.argmax.default if _KINDS[bound.node.target] is Reduction.MAX else aten.argmin.default  # type: ignore[index]
        found = add_call(bound.node, target, bound["self"], bound["dim"], bound["keepdim"])
        replace_values(positions, found)
    reduced = _reduced(bound, shape(values[0])) if values else None
    if reduced is not None:
        replace_values(values, reduced)


def _replace_both(bound: Bound, values: list[Node], positions: list[Node]) -> None:
    """Replaces both results by those of one call: the positions, and the values at these positions."""
    node, source, out = bound.node, bound["self"], shape(values[0])
    rank = len(shape(source))
    along = int(bound["dim"]) % rank
    moved = add_permute(node, source, [*(dim for dim in range(rank) if dim != along), along])
    target = aten.argmax.default if _KINDS[node.target] is Reduction.MAX else aten.argmin.default  # type: ignore[index]
    found = add_call(node, target, moved, -1, True)
    replace_values(values, add_view(node, add_call(node, PICKED, moved, found), out))
    replace_values(positions, add_view(node, found, out))


REDUCTION_REWRITE = Rewrite(
    aten=tuple(target for target in _KINDS if target not in (aten.max.dim, aten.min.dim)), rewrite=to_windows
)
VALUES_REWRITE = Rewrite(aten=(aten.max.dim, aten.min.dim), rewrite=values_to_windows, any_element=True)
