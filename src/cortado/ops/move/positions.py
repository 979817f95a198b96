"""Values at computed positions: x[:, i], index_select, gather, index_copy, and writes of single rows.

Values are picked along the last dimension (pick.py). A value written at one position is selected by comparing every
row's number with the position. A position below 0 counts from the end, where torch allows it.
"""

import math
from typing import Any

import torch
from torch.fx import Node

from cortado.ir.domain import DomainRule, Interval, Making, OperandForm, hull
from cortado.ir.graph import Bound, add_call, shape
from cortado.ops.elementwise.binary import padded
from cortado.ops.elementwise.compare import COMPARED_IDS
from cortado.ops.elementwise.where import CHOSEN, CHOSEN_IDS
from cortado.ops.float_graph import add_constant, add_permute, add_view, is_constant
from cortado.ops.integer import forms
from cortado.ops.integer.calculate import How
from cortado.ops.integer.words import broadcast_word, calculated_by, expanded_word
from cortado.ops.meaning import EQUAL
from cortado.ops.move.embedding_bag import BAGS
from cortado.ops.move.pick import PICKED
from cortado.ops.move.topk import BEST

aten = torch.ops.aten

# ---- reading -------------------------------------------------------------------------------------------------


def _gathered(making: Making, bound: Bound) -> Node | None:
    source, positions = making.word(bound["self"]), making.word(bound["positions"])
    return None if source is None or positions is None else add_call(bound.node, PICKED, source, positions)


def _gathered_truth(making: Making, bound: Bound) -> Node | None:
    source, positions = making.truth(bound["self"]), making.word(bound["positions"])
    return None if source is None or positions is None else add_call(bound.node, PICKED, source, positions)


def _bounds(making: Making, bound: Bound) -> Interval | None:
    return making.interval(bound["self"])


GATHERED_RULE = DomainRule(
    aten=(PICKED,), bounds=_bounds, words=_gathered, truth=_gathered_truth, integers=("positions",)
)
LOOKUP_RULE = DomainRule(aten=(aten.embedding.default, BAGS), integers=("indices",))


def _place(bound: Bound) -> tuple[int, Any] | None:
    """Returns the indexed dimension and the positions; None if several dimensions are indexed."""
    if "index" in bound.values:
        return bound["dim"] % max(len(shape(bound["self"])), 1), bound["index"]
    given = [(dim, one) for dim, one in enumerate(bound["indices"]) if one is not None]
    return given[0] if len(given) == 1 else None


def _taken(making: Making, bound: Bound, form: OperandForm) -> Node | None:
    """Reads rows at computed positions: picks along the last dimension, for every entry of the others."""
    place, source, like = _place(bound), form(bound["self"]), bound.node
    if place is None or source is None or not shape(source):
        return None
    dim, positions = place[0], making.word(place[1])
    if positions is None or 0 in shape(like):
        return None
    sizes = shape(source)
    if "indices" in bound.values:
        positions = calculated_by(like, positions, sizes[dim], How.REMAINDER)
    others = [axis for axis in range(len(sizes)) if axis != dim]
    count = math.prod(shape(positions))
    outer = tuple(sizes[axis] for axis in others)
    wide = expanded_word(like, add_view(like, positions, (count,)), (*outer, count))
    order = (*others, dim)
    found = add_call(like, PICKED, add_permute(like, source, order), wide)
    return _back(like, found, dim)


def _back(like: Node, found: Node, dim: int) -> Node:
    """Moves the last dimension of the picked values back to its place."""
    rank = len(shape(found))
    order = (*range(dim), rank - 1, *range(dim, rank - 1))
    return add_view(like, add_permute(like, found, order), shape(like))


def _is_moved(bound: Bound) -> bool:
    return forms.rest(bound) is not None


def _read(making: Making, bound: Bound, form: OperandForm) -> Node | None:
    if _is_moved(bound):
        return making.again(bound, form)
    return _taken(making, bound, form)


TAKEN_RULE = DomainRule(
    aten=(aten.index.Tensor, aten.index_select.default),
    bounds=_bounds,
    words=lambda making, bound: _read(making, bound, making.word),
    truth=lambda making, bound: _read(making, bound, making.truth),
    real=lambda making, bound: _read(making, bound, making.real),
    integers=("index", "indices"),
)


# ---- writing -------------------------------------------------------------------------------------------------


def _written(making: Making, bound: Bound, form: OperandForm) -> Node | None:
    """Writes one row: selected where a row's number equals the position."""
    place, like = _place(bound), bound.node
    value = form(bound["values" if "values" in bound.values else "source"])
    source = form(bound["self"])
    if place is None or bound.get("accumulate") or value is None or source is None:
        return None
    dim, position = place[0], making.word(place[1])
    if position is None or is_constant(place[1]) or math.prod(shape(position)) != 1:
        return None
    sizes, integers = shape(source), form == making.word
    if "indices" in bound.values:
        position = calculated_by(like, position, sizes[dim], How.REMAINDER)
    numbers = add_constant(like, "numbers", torch.arange(sizes[dim]))
    found = add_call(like, COMPARED_IDS, numbers, [add_view(like, position, (1,))], 0, EQUAL)
    mask = add_view(like, found, tuple(size if axis == dim else 1 for axis, size in enumerate(sizes)))
    mask = add_call(like, aten.expand.default, mask, list(sizes))
    row = _row(bound, value, sizes, dim, len(shape(place[1])))
    if integers:
        return add_call(like, CHOSEN_IDS, mask, broadcast_word(like, row, sizes), source)
    return add_call(like, CHOSEN, mask, add_call(like, aten.expand.default, row, list(sizes)), source)


def _row(bound: Bound, value: Node, sizes: tuple[int, ...], dim: int, rank: int) -> Node:
    """Returns the written values, with the indexed dimension in its place."""
    if rank or "source" in bound.values:
        return add_view(bound.node, value, padded(shape(value), len(sizes)))
    inner = padded(shape(value), len(sizes) - 1)
    return add_view(bound.node, value, (*inner[:dim], 1, *inner[dim:]))


def _written_bounds(making: Making, bound: Bound) -> Interval | None:
    value = bound["values" if "values" in bound.values else "source"]
    return hull([making.interval(bound["self"]), making.interval(value)])


WRITTEN_RULE = DomainRule(
    aten=(aten.index_put.default, aten.index_copy.default),
    bounds=_written_bounds,
    words=lambda making, bound: _written(making, bound, making.word),
    truth=lambda making, bound: _written(making, bound, making.truth),
    real=lambda making, bound: _written(making, bound, making.real),
)


# ---- positions that are found --------------------------------------------------------------------------------


def _position_bounds(making: Making, bound: Bound) -> Interval:
    """Returns the bounds of positions along a dimension, or among all values."""
    sizes, dim = shape(bound["self"]), bound.get("dim")
    return Interval(0, max(math.prod(sizes) if dim is None or not sizes else sizes[dim], 1) - 1)


FOUND_RULE = DomainRule(aten=(aten.argmax.default, aten.argmin.default), bounds=_position_bounds)
BEST_RULE = DomainRule(aten=(BEST,), bounds=lambda making, bound: Interval(0, shape(bound["self"])[-1] - 1))
