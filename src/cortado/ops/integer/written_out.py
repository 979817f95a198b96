"""Calls on integers and truth values, decomposed into others: sorting, products, positions among boundaries.

Sorting is done by counting, for each integer of a row, how many of the others come before it. That takes as many
comparisons as a row has pairs, so the length of rows is limited; the largest and its position need none of this.
"""

import math
from typing import Any

import torch

from cortado.base.numerics import Tensor
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, shape
from cortado.ir.op import Decomposition
from cortado.ops.float_graph import is_constant

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
    sizes = shape(bound["self"])
    return _of_integers(bound) and sizes[int(bound.get("dim", -1))] <= LONGEST_ORDER


def _first(self: Tensor, dim: int | None, keepdim: bool, *, largest: bool) -> tuple[Tensor, Tensor]:
    """Returns the largest or smallest integer along a dimension, and its first position."""
    x = (self if dim is not None else self.reshape(-1)).to(torch.int64)
    along = (dim if dim is not None else 0) % len(x.shape)
    best = torch.amax(x, [along], True) if largest else torch.amin(x, [along], True)
    sizes = [x.shape[along] if axis == along else 1 for axis in range(len(x.shape))]
    places = torch.arange(x.shape[along]).reshape(sizes)
    found = torch.amin(torch.where(x == best, places, x.shape[along]), [along], keepdim and dim is not None)
    if keepdim and dim is None:
        found = found.reshape([1] * len(self.shape))
    return (best if keepdim else best.squeeze(along)), found


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
    """Returns the first `count` integers in sorted order along a dimension, and their positions; the order is
    stable."""
    x = self.to(torch.int64).movedim(dim, -1)
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


LARGEST_POSITION = Decomposition(aten=(aten.argmax.default,), function=largest_position, takes=_of_integers)
SMALLEST_POSITION = Decomposition(aten=(aten.argmin.default,), function=smallest_position, takes=_of_integers)
LARGEST_ALONG = Decomposition(aten=(aten.max.dim,), function=largest_along, takes=_of_integers)
SMALLEST_ALONG = Decomposition(aten=(aten.min.dim,), function=smallest_along, takes=_of_integers)
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


# ---- among constants ---------------------------------------------------------------------------------------------


def is_among(elements: Tensor, test_elements: Tensor, invert: bool, **_: Any) -> Tensor:
    found = torch.any(elements.unsqueeze(-1) == test_elements.reshape(-1), -1)
    return torch.logical_not(found) if invert else found


def bucket(self: Tensor, boundaries: Tensor, right: bool, **_: Any) -> Tensor:
    """Counts the boundaries below each number; `right`: also those that equal it."""
    before = boundaries <= self.unsqueeze(-1) if right else boundaries < self.unsqueeze(-1)
    return before.to(torch.int64).sum(-1)


def place_among(sorted_sequence: Tensor, self: Tensor, right: bool, side: str | None, **_: Any) -> Tensor:
    return bucket(self, sorted_sequence, right=right or side == "right")


def _are_constant(bound: Bound) -> bool:
    known = bound.get("test_elements", bound.get("boundaries", bound.get("sorted_sequence")))
    return is_constant(known) and bound.get("sorter") is None and (len(shape(known)) == 1)


AMONG = Decomposition(aten=(aten.isin.Tensor_Tensor,), function=is_among, takes=_are_constant)
BUCKET = Decomposition(aten=(aten.bucketize.Tensor,), function=bucket, takes=_are_constant)
PLACE_AMONG = Decomposition(aten=(aten.searchsorted.Tensor,), function=place_among, takes=_are_constant)
