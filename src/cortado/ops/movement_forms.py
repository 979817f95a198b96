"""Integers that are only moved: the same call, on integers of 32 bits."""

from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from cortado.ir.domain import DomainRule, Interval, Making, hull
from cortado.ir.graph import Bound, shape
from cortado.ops._float import constant_data, is_constant
from cortado.ops._words import integer_in

aten = torch.ops.aten


def operands(bound: Bound) -> list[Node]:
    """What is moved: the first argument, a tensor or several."""
    return bound.nodes(next(iter(bound.values)))


def rest(bound: Bound) -> dict[str, Any] | None:
    """All other arguments, constants as their data; None where one is computed."""
    others = dict(list(bound.values.items())[1:])
    nodes = [leaf for leaf in pytree.tree_leaves(others) if isinstance(leaf, Node)]
    if not all(is_constant(node) for node in nodes):
        return None
    given: dict[str, Any] = pytree.tree_map_only(Node, constant_data, others)
    return given


def bounds(making: Making, bound: Bound) -> Interval | None:
    return hull([making.interval(node) for node in operands(bound)])


def words(making: Making, bound: Bound) -> Node | None:
    return None if rest(bound) is None or 0 in shape(bound.node) else making.again(bound, making.word)


MOVED = DomainRule(aten=(), bounds=bounds, words=words, closed=True, keeps_truth=True)
"""Of every call whose pattern says that it only moves; constant positions are asked for by the rule of positions."""


# ---- borders -------------------------------------------------------------------------------------------------


def _filling(bound: Bound) -> int | None:
    """What stands in a border of constant numbers."""
    return integer_in(bound.get("value") or 0) if bound.get("mode", "constant") == "constant" else None


def _padded(making: Making, bound: Bound) -> Node | None:
    return None if _filling(bound) is None else making.again(bound, making.word)


def _padded_bounds(making: Making, bound: Bound) -> Interval | None:
    number = _filling(bound)
    return None if number is None else hull([making.interval(bound["self"]), Interval(number, number)])


PADDED_RULE = DomainRule(
    aten=(aten.pad.default, aten.constant_pad_nd.default),
    bounds=_padded_bounds,
    words=_padded,
    truth=lambda making, bound: making.again(bound, making.truth),
)
