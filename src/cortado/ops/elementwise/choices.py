"""where and masked_fill: a selection between real numbers, integers or truth values by a truth value."""

import math
from typing import Any

import torch
from torch.fx import Node

from cortado.ir.domain import DomainRule, Interval, Making, hull, overloads
from cortado.ir.facts import wanted_element
from cortado.ir.graph import Bound, add_call, shape
from cortado.ops.elementwise.binary import broadcast_to
from cortado.ops.elementwise.where import CHOSEN, CHOSEN_IDS
from cortado.ops.float_graph import add_constant, constant_data, is_constant
from cortado.ops.integer.truth import negated
from cortado.ops.integer.words import broadcast_word, is_number, known_number, word_of
from cortado.ops.move.placing import zeroed

aten = torch.ops.aten


def _parts(bound: Bound) -> tuple[Any, Any, Any]:
    """Returns the condition, the value where it holds, and the value elsewhere."""
    if "mask" in bound.values:
        return bound["mask"], bound["value"], bound["self"]
    return bound["condition"], bound["self"], bound["other"]


def _condition(making: Making, bound: Bound) -> Node | None:
    condition = making.truth(_parts(bound)[0])
    return None if condition is None else broadcast_to(bound, condition, shape(bound.node))


def bounds(making: Making, bound: Bound) -> Interval | None:
    _, first, second = _parts(bound)
    return hull([making.interval(first), making.interval(second)])


def choice_words(making: Making, bound: Bound) -> Node | None:
    _, *sides = _parts(bound)
    like, mask = bound.node, _condition(making, bound)
    first, second = (word_of(making, like, side) for side in sides)
    if mask is None or first is None or second is None:
        return None
    return add_call(like, CHOSEN_IDS, mask, *(broadcast_word(like, word, shape(like)) for word in (first, second)))


# ---- real numbers --------------------------------------------------------------------------------------------


def real(making: Making, bound: Bound) -> Node | None:
    condition, first, second = _parts(bound)
    like, numbers = bound.node, [known_number(side) for side in (first, second) if is_number(side)]
    floating = wanted_element(like).floating
    if is_constant(condition) and not all(map(math.isfinite, numbers)) and not floating:
        return None  # a mask that no softmax has absorbed
    if is_constant(condition) and len(numbers) == 1 and not floating:
        return zeroed(like, *_kept(bound), numbers[0])
    mask = _condition(making, bound)
    if mask is None:
        return None
    if len(numbers) == 2 and not floating:
        high, low = numbers
        return add_call(like, aten.add.Tensor, add_call(like, aten.mul.Tensor, mask, high - low), low)
    sides = [_side(making, bound, side) for side in (first, second)]
    return add_call(like, CHOSEN, mask, *sides) if None not in sides else None


def _kept(bound: Bound) -> tuple[Node, torch.Tensor]:
    """Returns the tensor of a selection between a tensor and a number, and where it is taken."""
    condition, first, second = _parts(bound)
    data = constant_data(condition)
    return (second, ~data) if is_number(first) else (first, data)


def _side(making: Making, bound: Bound, side: Any) -> Node | None:
    """Returns a tensor of the result's shape, or a constant with one number (rank 0 if the result has rank 0)."""
    if is_number(side):
        sizes = (1,) * min(1, len(shape(bound.node)))
        return add_constant(bound.node, "number", torch.full(sizes, float(known_number(side))))
    found = making.real(side)
    return None if found is None else broadcast_to(bound, found, shape(bound.node))


# ---- truth values --------------------------------------------------------------------------------------------


def truth(making: Making, bound: Bound) -> Node | None:
    """Selects one side where the condition holds, and the other where it does not."""
    _, *sides = _parts(bound)
    condition = _condition(making, bound)
    if condition is None:
        return None
    both = zip((condition, negated(bound.node, condition)), sides, strict=True)
    parts = [_where(making, bound, holds, side) for holds, side in both]
    return None if None in parts else add_call(bound.node, aten.maximum.default, *parts)


def _where(making: Making, bound: Bound, holds: Node, side: Any) -> Node | None:
    """Returns the side's truth value where the mask holds, 0 elsewhere."""
    if is_number(side):
        return add_call(bound.node, aten.mul.Tensor, holds, float(known_number(side)))
    found = making.truth(side)
    if found is None:
        return None
    return add_call(bound.node, aten.minimum.default, holds, broadcast_to(bound, found, shape(bound.node)))


CHOICE_RULE = DomainRule(
    aten=overloads(aten.where, aten.masked_fill), bounds=bounds, words=choice_words, truth=truth, real=real, closed=True
)
