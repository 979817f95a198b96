"""Mask rules for selections: torch.where, masked_fill, and the maximum or minimum of two tensors."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from cortado.frontend.rewrite.mask_fact import (
    CERTAIN,
    LEAST,
    NEVER_A_VALUE,
    SENTINEL,
    Fact,
    Hidden,
    Term,
    TwoValued,
    apart,
    choices_of,
    hidden_anywhere,
    is_float,
    is_truth,
    total,
)
from cortado.frontend.rewrite.mask_forms import choose, fit, number_in, real
from cortado.frontend.rewrite.mask_places import Places, both, negated, places_of, ranked
from cortado.frontend.rewrite.mask_readers import Readers
from cortado.ir.graph import Bound, add_call, shape
from cortado.ops.float_graph import constant_data, is_constant
from cortado.ops.meaning import CallKind, means

aten = torch.ops.aten


def _further(chosen: Sequence[Term], own: Sequence[Term]) -> float:
    """Returns the sum of the terms of one side, the one farther from 0."""
    first = [term.fill for term in chosen if any(term is one for one in own)]
    second = [term.fill for term in chosen if not any(term is one for one in own)]
    return max((total(*fills) for fills in (first, second)), key=abs)


class Choices:
    """The rules; `fact` and `hidden` return the mask facts and the hidden places of a tensor."""

    def __init__(
        self, fact: Callable[[Any], Fact | None], hidden: Callable[[Any], Hidden | None], readers: Readers
    ) -> None:
        self.fact, self.hidden, self.readers = fact, hidden, readers

    def extreme(self, bound: Bound) -> Fact | Node | None:
        """Handles maximum and minimum of two tensors."""
        like, largest = bound.node, means(bound.node, CallKind.MAXIMUM)
        sides = [bound["self"], bound["other"]]
        for side, other in (sides, sides[::-1]):
            passed = None if largest else self._passed(like, side, other)
            if passed is not None:
                return passed
            number = number_in(other)
            if number is None or not isinstance(side, Node) or (number < 0) != largest or is_constant(side):
                continue
            if math.isinf(number) and self.fact(side) is None:
                return fit(like, side)
            if abs(number) >= -CERTAIN and self.hidden(side) is not None:
                return self._bounded(like, side, number)
        known = [self.hidden(side) for side in sides]
        found = next((side for side in known if side is not None), None)
        if found is None or any(side is not None and side.negative != found.negative for side in known):
            return None
        if max(side.weakest if side.negative else -side.weakest for side in known if side is not None) > SENTINEL:
            return None
        visibles = [value if side is None else side.visible for value, side in zip(sides, known, strict=True)]
        if found.negative != largest:  # infinity persists
            return self._smaller(bound, known, visibles)
        return self._larger(bound, known, visibles)

    def _passed(self, like: Node, side: Any, other: Any) -> Fact | None:
        """Handles the minimum of a tensor and a tensor of two numbers, one below and one above all values."""
        two = self.fact(other)
        if is_constant(other) and len(constant_data(other).unique()) == 2:
            low, high = (float(one) for one in constant_data(other).unique())
            two = TwoValued(Places(constant_data(other) == low), low, high)
        if not isinstance(two, TwoValued) or number_in(side) is not None:
            return None
        low, high = sorted((two.on, two.off))
        if low > LEAST or high < -CERTAIN:
            return None
        where = ranked(like, two.where if two.on == low else negated(like, two.where), len(shape(like)))
        return self._filled(like, side, low, where, negated(like, where))

    def _bounded(self, like: Node, side: Node, number: float) -> Hidden | None:
        """Clamps fills to a large number, which still stands for infinity."""
        known = self.hidden(side)
        if known is None or known.negative != (number < 0):
            return None
        visible = None if known.visible is None else fit(like, known.visible)
        chosen = choices_of(known.terms)
        if chosen is None:
            return None
        sums = [total(*(term.fill for term in terms)) for terms in chosen]
        ends = [math.copysign(min(abs(one), abs(number)), number) for one in sums]
        if len(known.terms) == 1:
            (term,) = known.terms
            terms = (replace(term, where=ranked(like, term.where, len(shape(like))), fill=ends[0]),)
            return replace(known, terms=terms, visible=visible)
        return replace(
            known, terms=apart(like, known.terms, list(zip(chosen, ends, strict=True))), visible=visible, biased=True
        )

    def _smaller(self, bound: Bound, known: list[Hidden | None], visibles: list[Any]) -> Hidden | None:
        like: Node = bound.node
        given = [real(like, one) for one in visibles]
        terms = [
            replace(term, where=ranked(like, term.where, len(shape(like))), added=False)
            for side in known
            if side is not None
            for term in side.terms
        ]
        visible = fit(like, add_call(like, bound.node.target, *given))
        hiding = [side for side in known if side is not None]
        if len(hiding) == 2:
            chosen = choices_of(terms)
            if chosen is None:
                return None
            own = terms[: len(hiding[0].terms)]
            terms = list(apart(like, terms, [(one, _further(one, own)) for one in chosen]))
        return replace(hiding[0], terms=tuple(terms), visible=visible, biased=True)

    def _larger(self, bound: Bound, known: list[Hidden | None], visibles: list[Any]) -> Fact | Node | None:
        """Takes the other side where one is hidden; places hidden in both stay hidden."""
        like: Node = bound.node
        result = add_call(like, bound.node.target, *(real(like, one) for one in visibles))
        wheres = []
        for place, side in enumerate(known):
            if side is None:
                continue
            where = hidden_anywhere(like, side.terms, len(shape(like)))
            wheres.append(where)
            result = choose(like, where, real(like, visibles[1 - place]), result)
        if len(wheres) == 1:
            return result
        sides = [side for side in known if side is not None]
        where = both(like, *(ranked(like, one, len(shape(like))) for one in wheres))
        fill = max(side.weakest for side in sides)
        return replace(sides[0], terms=(Term(where, fill, added=False),), visible=result, biased=True)

    def choice(self, bound: Bound) -> Fact | Node | None:
        fills = "mask" in bound.values
        condition = bound["mask" if fills else "condition"]
        if not is_truth(condition) or not is_float(bound.node):
            return None
        like, rank = bound.node, len(shape(bound.node))
        where = ranked(like, places_of(condition), rank)
        sides = (bound["value"], bound["self"]) if fills else (bound["self"], bound["other"])
        numbers = [number_in(side) for side in sides]
        if numbers[0] is not None and numbers[1] is not None:
            return TwoValued(where, numbers[0], numbers[1])
        wheres = (where, negated(like, where))
        for place, (number, holds) in enumerate(zip(numbers, wheres, strict=True)):
            if number is not None and (number <= LEAST or number >= -CERTAIN):
                return self._filled(like, sides[1 - place], number, holds, wheres[1 - place])
        known = [self.hidden(side) for side in sides]
        if known == [None, None]:
            return None
        return self._chosen(bound, sides, known, wheres)

    def _filled(self, like: Node, side: Any, number: float, holds: Places, elsewhere: Places) -> Fact | None:
        """Fills places with a large number."""
        known = self.hidden(side)
        visible = fit(like, side) if known is None else known.visible
        terms = [Term(holds, number, added=False)]
        if known is not None:
            if known.negative != (number < 0):
                return None
            visible = None if known.visible is None else fit(like, known.visible)
            terms += self._outside(like, known, elsewhere)
        certain = abs(number) >= -NEVER_A_VALUE or (known is not None and known.certain)
        return Hidden(tuple(terms), visible, like, certain, known is not None and known.biased)

    def _outside(self, like: Node, known: Hidden, within: Places) -> list[Term]:
        """Returns the part of the hidden places where the other predicate holds too."""
        rank = len(shape(like))
        found = [replace(term, where=both(like, ranked(like, term.where, rank), within)) for term in known.terms]
        return [term for term in found if not term.where.nowhere]

    def _chosen(
        self, bound: Bound, sides: tuple[Any, Any], known: list[Hidden | None], wheres: tuple[Places, Places]
    ) -> Fact | Node:
        like: Node = bound.node
        terms = [
            term
            for side, where in zip(known, wheres, strict=True)
            if side is not None
            for term in self._outside(like, side, where)
        ]
        visibles = [
            real(like, value if side is None else side.visible) for value, side in zip(sides, known, strict=True)
        ]
        first, second = visibles
        number = number_in(second)
        if number is not None and number_in(first) is None:
            result = choose(like, wheres[1], second, first)
        else:
            result = choose(like, wheres[0], first, second)
        if not terms:
            return result
        found = next(side for side in known if side is not None)
        return replace(found, terms=tuple(terms), visible=result)
