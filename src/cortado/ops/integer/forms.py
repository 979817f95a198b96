"""Arithmetic of integers: sums, products, quotients, bounds, in terms of 32-bit operators.

Integers that are only moved: the same call, on 32-bit integers.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from cortado.base.element import INT32
from cortado.ir.domain import Bounds, DomainRule, Interval, Make, Making, hull, overloads
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, shape
from cortado.ops.float_graph import add_view, constant_data, is_constant
from cortado.ops.integer.calculate import How
from cortado.ops.integer.words import calculated, calculated_by, integer_in, number_as, word_of

# ---- integer forms ---------------------------------------------------------------------------------------

aten = torch.ops.aten
MOST_FACTORS = 4  # of a power

# ---- intervals -----------------------------------------------------------------------------------------------


def _quotient(a: Interval, b: Interval) -> Interval:
    if b.low == b.high != 0:
        ends = (a.low // b.low, a.high // b.low)
        return Interval(min(ends), max(ends))
    most = max(abs(a.low), abs(a.high), 1)
    return Interval(-most, most)


def _remainder(a: Interval | None, b: Interval) -> Interval:
    if b.low > 0:
        return Interval(0, b.high - 1)
    most = max(abs(b.low), abs(b.high))
    return Interval(-most, most)


def _bits(a: Interval, b: Interval, both: Interval | None) -> Interval:
    """Returns the interval of all numbers with as many bits as either has; `both`: a tighter one if neither is
    negative."""
    width = max(abs(end).bit_length() for end in (a.low, a.high, b.low, b.high))
    if min(a.low, b.low) < 0:
        return Interval(-(2**width), 2**width - 1)
    return both or Interval(0, 2**width - 1)


def _shifted(a: Interval, b: Interval, shift: Callable[[int, int], int]) -> Interval:
    last = INT32.bits - 1
    ends = [shift(value, by if 0 <= by <= last else last) for value in (a.low, a.high, 0) for by in (b.low, b.high)]
    return Interval(min(ends), max(ends))


_OF_BOTH: dict[How, Callable[[Interval, Interval], Interval]] = {
    How.SUM: Interval.plus,
    How.DIFFERENCE: lambda a, b: a.plus(b.negative()),
    How.PRODUCT: Interval.times,
    How.QUOTIENT: _quotient,
    How.REMAINDER: _remainder,
    How.SMALLER: lambda a, b: Interval(min(a.low, b.low), min(a.high, b.high)),
    How.LARGER: lambda a, b: Interval(max(a.low, b.low), max(a.high, b.high)),
    How.AND: lambda a, b: _bits(a, b, Interval(0, min(a.high, b.high))),
    How.OR: lambda a, b: _bits(a, b, None),
    How.XOR: lambda a, b: _bits(a, b, None),
    How.LEFT: lambda a, b: _shifted(a, b, lambda value, by: value << by),
    How.RIGHT: lambda a, b: _shifted(a, b, lambda value, by: value >> by),
}


def bounds_of(how: How, left: Interval | None, right: Interval | None) -> Interval | None:
    if how is How.REMAINDER and right is not None:
        return _remainder(left, right)
    return None if left is None or right is None else _OF_BOTH[how](left, right)


def bounds_by(how: How, first: str = "self", second: str = "other") -> Bounds:
    def bounds(making: Making, bound: Bound) -> Interval | None:
        right, alpha = making.interval(bound[second]), bound.get("alpha", 1)
        if right is not None and isinstance(alpha, int) and alpha != 1:
            right = right.times(Interval(alpha, alpha))
        return bounds_of(how, making.interval(bound[first]), right)

    return bounds


# ---- calls ---------------------------------------------------------------------------------------------------


def both(making: Making, bound: Bound, left: Any, right: Any, how: How) -> Node | None:
    """Adds an operation on two operands, either of which can be a number, in the shape of the result."""
    like = bound.node
    first, second = word_of(making, like, left), word_of(making, like, right)
    if first is None or second is None:
        return None
    alpha = bound.get("alpha", 1)
    if alpha != 1:
        factor = integer_in(alpha)
        if factor is None:
            return None
        second = calculated_by(like, second, factor, How.PRODUCT)
    return add_view(like, calculated(like, first, second, how), shape(like))


def words_by(how: How, first: str = "self", second: str = "other") -> Make:
    return lambda making, bound: both(making, bound, bound[first], bound[second], how)


def _rule(how: How, *packets: Any, first: str = "self", second: str = "other") -> DomainRule:
    return DomainRule(
        aten=overloads(*packets),
        bounds=bounds_by(how, first, second),
        words=words_by(how, first, second),
        wraps=True,
        closed=how is not How.QUOTIENT if how is not How.REMAINDER else lambda bound: bool(integer_in(bound[second])),
    )


SUM_RULE = _rule(How.SUM, aten.add)
DIFFERENCE_RULE = _rule(How.DIFFERENCE, aten.sub, aten.subtract)
REVERSED_RULE = _rule(How.DIFFERENCE, aten.rsub, first="other", second="self")
PRODUCT_RULE = _rule(How.PRODUCT, aten.mul, aten.multiply)
QUOTIENT_RULE = _rule(How.QUOTIENT, aten.floor_divide)
REMAINDER_RULE = _rule(How.REMAINDER, aten.remainder)
SMALLER_RULE = _rule(How.SMALLER, aten.minimum, aten.fmin)
LARGER_RULE = _rule(How.LARGER, aten.maximum, aten.fmax)
LEFT_RULE = _rule(How.LEFT, aten.__lshift__, aten.bitwise_left_shift)
RIGHT_RULE = _rule(How.RIGHT, aten.__rshift__, aten.bitwise_right_shift)
RELU_RULE = DomainRule(
    aten=(aten.relu.default,),
    bounds=lambda making, bound: bounds_of(How.LARGER, making.interval(bound["self"]), Interval(0, 0)),
    words=lambda making, bound: both(making, bound, bound["self"], 0, How.LARGER),
    closed=True,
)


# ---- rounded divisions ---------------------------------------------------------------------------------------


def _divided(making: Making, bound: Bound) -> Node | None:
    """Computes div with a rounding mode; without one its result is real."""
    mode = bound.get("rounding_mode")
    if mode == "trunc":
        return _truncated(making, bound)
    return both(making, bound, bound["self"], bound["other"], How.QUOTIENT) if mode == "floor" else None


def _divided_bounds(making: Making, bound: Bound) -> Interval | None:
    """Bounds a rounded quotient; one that is rounded towards 0 is at most 1 above the one that is rounded down."""
    found = bounds_of(How.QUOTIENT, making.interval(bound["self"]), making.interval(bound["other"]))
    towards_zero = found is not None and bound.get("rounding_mode") == "trunc"
    return found.hull(Interval(min(found.low + 1, 0), min(found.high + 1, 0))) if towards_zero and found else found


def _signed_divisor(making: Making, bound: Bound) -> tuple[Node, Node | None] | None:
    """Returns the magnitude of a divisor, and its sign bits if it can be negative; None for 0 or without a form."""
    like, number = bound.node, integer_in(bound["other"])
    if number is not None:
        number = number_as(dtype(like), number)
        sign = None if number > 0 else word_of(making, like, -1)
        size = word_of(making, like, abs(number))
        return (size, sign) if number and size is not None else None
    word, known = word_of(making, like, bound["other"]), making.interval(bound["other"])
    if word is None or (known is not None and known.low > 0):
        return None if word is None else (word, None)
    negative = calculated_by(like, word, -1, How.PRODUCT)
    return calculated(like, word, negative, How.LARGER), calculated_by(like, word, INT32.bits - 1, How.RIGHT)


def _truncated(making: Making, bound: Bound) -> Node | None:
    """Divides, rounding towards 0: a negative dividend is raised by the divisor's magnitude less 1 first."""
    like, above, divisor = bound.node, word_of(making, bound.node, bound["self"]), _signed_divisor(making, bound)
    if above is None or divisor is None:
        return None
    size, sign = divisor
    below_zero = calculated_by(like, above, INT32.bits - 1, How.RIGHT)
    raised = calculated(like, below_zero, calculated_by(like, size, 1, How.DIFFERENCE), How.AND)
    found = calculated(like, calculated(like, above, raised, How.SUM), size, How.QUOTIENT)
    if sign is not None:
        found = calculated(like, calculated(like, found, sign, How.XOR), sign, How.DIFFERENCE)
    return add_view(like, found, shape(like))


def _left_over(making: Making, bound: Bound) -> Node | None:
    """Computes fmod: the remainder of a quotient that is rounded towards 0."""
    like, quotient = bound.node, _truncated(making, bound)
    above, below = (word_of(making, like, bound[name]) for name in ("self", "other"))
    if above is None or below is None or quotient is None:
        return None
    return add_view(
        like, calculated(like, above, calculated(like, quotient, below, How.PRODUCT), How.DIFFERENCE), shape(like)
    )


def _smaller_bounds(making: Making, bound: Bound) -> Interval | None:
    """Bounds a quotient or a remainder: its magnitude is at most the dividend's."""
    found = making.interval(bound["self"])
    if found is None:
        return None
    most = max(abs(found.low), abs(found.high))
    return Interval(-most, most)


DIVIDED_RULE = DomainRule(
    aten=tuple(one for one in overloads(aten.div, aten.divide) if "mode" in one._overloadname),
    bounds=_divided_bounds,
    words=_divided,
    wraps=True,
)
LEFT_OVER_RULE = DomainRule(aten=overloads(aten.fmod), bounds=_smaller_bounds, words=_left_over)


# ---- functions of one tensor ---------------------------------------------------------------------------------


def _negative(making: Making, bound: Bound) -> Node | None:
    word = making.word(bound["self"])
    return None if word is None else calculated_by(bound.node, word, -1, How.PRODUCT)


def _magnitude(making: Making, bound: Bound) -> Node | None:
    word, negative = making.word(bound["self"]), _negative(making, bound)
    if word is None or negative is None:
        return None
    return calculated(bound.node, word, negative, How.LARGER)


def _magnitude_bounds(making: Making, bound: Bound) -> Interval | None:
    found = making.interval(bound["self"])
    if found is None:
        return None
    low = 0 if found.low <= 0 <= found.high else min(abs(found.low), abs(found.high))
    return Interval(low, max(abs(found.low), abs(found.high)))


def _negative_bounds(making: Making, bound: Bound) -> Interval | None:
    found = making.interval(bound["self"])
    return None if found is None else found.negative()


def _limits(bound: Bound) -> list[tuple[Any, How]]:
    given = [(bound.get("min"), How.LARGER), (bound.get("max"), How.SMALLER)]
    return [(limit, how) for limit, how in given if limit is not None]


def _clamped(making: Making, bound: Bound) -> Node | None:
    found: Any = bound["self"]
    for limit, how in _limits(bound):
        right = word_of(making, bound.node, limit)
        left = making.word(found) if found is bound["self"] else found
        if left is None or right is None:
            return None
        found = calculated(bound.node, left, right, how)
    return add_view(bound.node, found, shape(bound.node)) if found is not bound["self"] else making.word(found)


def _clamped_bounds(making: Making, bound: Bound) -> Interval | None:
    limits = [(making.interval(limit), how) for limit, how in _limits(bound)]
    known = [one for one, _ in limits if one is not None]
    found = making.interval(bound["self"])
    if found is None:  # between both limits, whatever the operand
        return known[0].hull(known[1]) if len(known) == 2 else None
    for limit, how in limits:
        found = bounds_of(how, found, limit)
    return found


def _power(making: Making, bound: Bound) -> Node | None:
    """Computes a small power as repeated products."""
    exponent, word = integer_in(bound.get("exponent", 2)), making.word(bound["self"])
    if exponent is None or not 1 <= exponent <= MOST_FACTORS or word is None:
        return None
    found = word
    for _ in range(exponent - 1):
        found = calculated(bound.node, found, word, How.PRODUCT)
    return found


def _power_bounds(making: Making, bound: Bound) -> Interval | None:
    exponent, found = integer_in(bound.get("exponent", 2)), making.interval(bound["self"])
    if exponent is None or exponent < 1 or found is None:
        return None
    ends = [end**exponent for end in (found.low, found.high)]
    through = exponent % 2 == 0 and found.low <= 0 <= found.high
    return Interval(0 if through else min(ends), max(ends))


def _sign(making: Making, bound: Bound) -> Node | None:
    word, like = making.word(bound["self"]), bound.node
    return None if word is None else calculated_by(like, calculated_by(like, word, -1, How.LARGER), 1, How.SMALLER)


NEGATIVE_RULE = DomainRule(
    aten=overloads(aten.neg, aten.negative), bounds=_negative_bounds, words=_negative, wraps=True, closed=True
)
MAGNITUDE_RULE = DomainRule(
    aten=overloads(aten.abs, aten.absolute), bounds=_magnitude_bounds, words=_magnitude, wraps=True, closed=True
)
POWER_RULE = DomainRule(
    aten=(aten.pow.Tensor_Scalar, aten.square.default),
    bounds=_power_bounds,
    words=_power,
    wraps=True,
    closed=lambda bound: 1 <= (integer_in(bound.get("exponent", 2)) or 0) <= MOST_FACTORS,
)
SIGN_RULE = DomainRule(
    aten=(aten.sign.default, aten.sgn.default), bounds=lambda making, bound: Interval(-1, 1), words=_sign, closed=True
)
CLAMPED_RULE = DomainRule(
    aten=overloads(aten.clamp, aten.clamp_min, aten.clamp_max, aten.clip),
    bounds=_clamped_bounds,
    words=_clamped,
    closed=True,
)


# ---- movement forms --------------------------------------------------------------------------------------


def operands(bound: Bound) -> list[Node]:
    """Returns the operands that are moved: the first argument, a tensor or several."""
    return bound.nodes(next(iter(bound.values)))


def rest(bound: Bound) -> dict[str, Any] | None:
    """Returns all other arguments, constants as their data; None if one of them is computed."""
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
"""The rule of every call whose pattern says that it only moves data; constant positions are handled by the rule of
positions."""


# ---- borders -------------------------------------------------------------------------------------------------


def _filling(bound: Bound) -> int | None:
    """Returns the fill value of a constant padding."""
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
    closed=lambda bound: _filling(bound) is not None,
)
