"""Calls on integers and truth values, decomposed into others: sorting, products, positions among boundaries.

Sorting is done by counting, for each integer of a row, how many of the others come before it. That takes as many
comparisons as a row has pairs, so the length of rows is limited; the largest and its position need none of this.
"""

import math
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from cortado.base.numerics import Tensor
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, bind, shape
from cortado.ir.op import Decomposition
from cortado.ops.float_graph import is_constant
from cortado.ops.meaning import CallKind, means

aten = torch.ops.aten

LONGEST_ORDER = 64  # of a row of integers to be sorted
MOST_PRODUCTS = 2**16  # of a matrix product of integers; all of them are in memory at once


# ---- truth values as numbers -------------------------------------------------------------------------------------


def _gives_truth(bound: Bound) -> bool:
    return dtype(bound.node) == torch.bool


def either(self: Tensor, other: Tensor, **_: Any) -> Tensor:
    """Adds two truth values, which gives a truth value."""
    return torch.logical_or(self, other)


def both(self: Tensor, other: Tensor) -> Tensor:
    return torch.logical_and(self, other)


def some(self: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Computes amax of truth values."""
    return torch.any(self, list(dim) or list(range(len(self.shape))), keepdim)


def every(self: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Computes amin of truth values."""
    return torch.all(self, list(dim) or list(range(len(self.shape))), keepdim)


TRUTH_SUM = Decomposition(aten=(aten.add.Tensor,), function=either, takes=_gives_truth)
TRUTH_PRODUCT = Decomposition(aten=(aten.mul.Tensor,), function=both, takes=_gives_truth)
TRUTH_LARGEST = Decomposition(aten=(aten.amax.default,), function=some, takes=_gives_truth)
TRUTH_SMALLEST = Decomposition(aten=(aten.amin.default,), function=every, takes=_gives_truth)


# ---- orders ------------------------------------------------------------------------------------------------------


def _of_integers(bound: Bound) -> bool:
    return not dtype(bound["self"]).is_floating_point and bool(shape(bound["self"]))


def _is_short(bound: Bound) -> bool:
    sizes, dim = shape(bound["self"]), bound.get("dim", -1)
    length = sizes[int(dim)] if dim is not None and sizes else math.prod(sizes)
    return (_of_integers(bound) or _of_quotients(bound)) and length <= LONGEST_ORDER


def _of_quotients(bound: Bound) -> bool:
    """Whether an order is of quotients of integers: int8 codes have no room for all of them, their comparisons do."""
    source = bound["self"]
    if not means(source, CallKind.QUOTIENT) or not shape(source):
        return False
    return all(_holds_integers(bind(source)[name]) for name in ("self", "other"))


def _holds_integers(side: Any) -> bool:
    """Whether an operand is a computed integer, possibly converted to float32."""
    while means(side, CallKind.CONVERT):
        side = side.all_input_nodes[0]
    return isinstance(side, Node) and not is_constant(side) and not dtype(side).is_floating_point


def _is_ordered(bound: Bound) -> bool:
    return _of_integers(bound) or (_of_quotients(bound) and _is_short(bound))


def _first(self: Tensor, dim: int | None, keepdim: bool, *, largest: bool) -> tuple[Tensor, Tensor]:
    """Returns the largest or smallest value along a dimension, and its first position."""
    x = self if dim is not None else self.reshape(-1)
    along = (dim if dim is not None else 0) % len(x.shape)
    x = x if x.is_floating_point() else x.to(torch.int64)
    best = partial(torch.amax if largest else torch.amin, x, [along])
    if x.is_floating_point():
        found = _best(x, 1, along, descending=largest)[1]
    else:
        sizes = [x.shape[along] if axis == along else 1 for axis in range(len(x.shape))]
        places = torch.arange(x.shape[along]).reshape(sizes)
        found = torch.amin(torch.where(x == best(True), places, x.shape[along]), [along], True)
    if dim is None or not keepdim:
        found = found.squeeze(along)
    if keepdim and dim is None:
        found = found.reshape([1] * len(self.shape))
    return best(keepdim), found


def largest_position(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return _first(self, dim, keepdim, largest=True)[1]


def smallest_position(self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return _first(self, dim, keepdim, largest=False)[1]


def largest_along(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, positions = _first(self, dim, keepdim, largest=True)
    return values.to(self.dtype), positions


def smallest_along(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, positions = _first(self, dim, keepdim, largest=False)
    return values.to(self.dtype), positions


def _best(self: Tensor, count: int, dim: int, *, descending: bool) -> tuple[Tensor, Tensor]:
    """Returns the first `count` values in sorted order along a dimension, and their positions; the order is stable.
    Quotients are only compared, so that they can be compared as integers."""
    x = (self if self.is_floating_point() else self.to(torch.int64)).movedim(dim, -1)
    size = x.shape[-1]
    mine, others = x.unsqueeze(-1), x.unsqueeze(-2)
    before = mine < others if descending else mine > others
    earlier = torch.ones(size, size).tril(-1) > 0
    rank = torch.logical_or(before, torch.logical_and(mine == others, earlier)).to(torch.int64).sum(-1)
    hits = rank.unsqueeze(-1) == torch.arange(count)
    positions = torch.where(hits, torch.arange(size).reshape(-1, 1), 0).sum(-2)
    values = torch.where(hits, x.unsqueeze(-1), 0).sum(-2)
    return values.to(self.dtype).movedim(-1, dim), positions.movedim(-1, dim)


def sorted_along(self: Tensor, dim: int, descending: bool, **_: Any) -> tuple[Tensor, Tensor]:
    """Sorts stably, whether that is requested or not."""
    return _best(self, self.shape[dim], dim, descending=descending)


def order_along(self: Tensor, dim: int, descending: bool, **_: Any) -> Tensor:
    return sorted_along(self, dim, descending)[1]


def best_along(self: Tensor, k: int, dim: int, largest: bool, **_: Any) -> tuple[Tensor, Tensor]:
    return _best(self, k, dim, descending=largest)


LARGEST_POSITION = Decomposition(aten=(aten.argmax.default,), function=largest_position, takes=_is_ordered)
SMALLEST_POSITION = Decomposition(aten=(aten.argmin.default,), function=smallest_position, takes=_is_ordered)
LARGEST_ALONG = Decomposition(aten=(aten.max.dim,), function=largest_along, takes=_is_ordered)
SMALLEST_ALONG = Decomposition(aten=(aten.min.dim,), function=smallest_along, takes=_is_ordered)
SORTED = Decomposition(aten=(aten.sort.default, aten.sort.stable), function=sorted_along, takes=_is_short)
ORDER = Decomposition(aten=(aten.argsort.default, aten.argsort.stable), function=order_along, takes=_is_short)
BEST = Decomposition(aten=(aten.topk.default,), function=best_along, takes=_is_short)


# ---- products ----------------------------------------------------------------------------------------------------


def product(self: Tensor, other: Tensor) -> Tensor:
    """Computes a matrix product of integers: all products, then their sums."""
    left = self if len(self.shape) > 1 else self.unsqueeze(0)
    right = other if len(other.shape) > 1 else other.unsqueeze(-1)
    found = (left.unsqueeze(-1) * right.unsqueeze(-3)).sum(-2)
    found = found if len(other.shape) > 1 else found.squeeze(-1)
    return found if len(self.shape) > 1 else found.squeeze(-2 if len(other.shape) > 1 else -1)


def _is_small(bound: Bound) -> bool:
    second = bound.get("other", bound.get("mat2"))
    columns = shape(second)[-1] if len(shape(second)) > 1 else 1
    return _of_integers(bound) and math.prod(shape(bound["self"])) * columns <= MOST_PRODUCTS


PRODUCT = Decomposition(aten=(aten.matmul.default,), function=product, takes=_is_small)
BATCH_PRODUCT = Decomposition(
    aten=(aten.mm.default, aten.bmm.default), function=lambda self, mat2: product(self, mat2), takes=_is_small
)


# ---- among others ---------------------------------------------------------------------------------------------


def is_among(elements: Tensor, test_elements: Tensor, invert: bool, **_: Any) -> Tensor:
    found = torch.any(elements.unsqueeze(-1) == test_elements.reshape(-1), -1)
    return torch.logical_not(found) if invert else found


def bucket(self: Tensor, boundaries: Tensor, right: bool, **_: Any) -> Tensor:
    """Counts the boundaries below each number, those of its row if they have rows; `right`: also those that equal
    it."""
    ends = boundaries.unsqueeze(-2) if len(boundaries.shape) > 1 else boundaries
    before = ends <= self.unsqueeze(-1) if right else ends < self.unsqueeze(-1)
    return before.to(torch.int64).sum(-1)


def place_among(sorted_sequence: Tensor, self: Tensor, right: bool, side: str | None, **_: Any) -> Tensor:
    return bucket(self, sorted_sequence, right=right or side == "right")


def _among_few(bound: Bound) -> bool:
    """Whether numbers are looked for among constants, or integers among a few computed ones."""
    name = next(one for one in ("test_elements", "boundaries", "sorted_sequence") if one in bound.values)
    known, others = bound[name], bound.get("elements", bound.get("self"))
    if bound.get("sorter") is not None or not shape(known):
        return False
    if is_constant(known) and len(shape(known)) == 1:
        return True
    integers = not any(dtype(one).is_floating_point for one in (known, others))
    count = math.prod(shape(known)) if name == "test_elements" else shape(known)[-1]
    return integers and count * math.prod(shape(others)) <= MOST_PRODUCTS


AMONG = Decomposition(aten=(aten.isin.Tensor_Tensor,), function=is_among, takes=_among_few)
BUCKET = Decomposition(aten=(aten.bucketize.Tensor,), function=bucket, takes=_among_few)
PLACE_AMONG = Decomposition(aten=(aten.searchsorted.Tensor,), function=place_among, takes=_among_few)
