"""A pass over the float graph that tracks which places of each tensor stand for infinity.

A mask is a fact, not a spelling: it begins where a large number is inserted or added, passes through arithmetic and
movement, and ends in a softmax or another call with a meaning for infinity (`mask_readers`). Along with the fact, the
visible part of the tensor is computed without the large numbers, so that no scale has to hold them. A call without a
rule is refused if the number can't be meant as a value.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from cortado.base.errors import CortadoError
from cortado.frontend.rewrite.mask_choices import Choices
from cortado.frontend.rewrite.mask_fact import (
    CERTAIN,
    LEAST,
    NEVER_A_VALUE,
    Affine,
    Fact,
    Found,
    Hidden,
    Term,
    TwoValued,
    apart,
    choices_of,
    hidden_anywhere,
    hidden_in,
    hides,
    hiding,
    is_float,
    is_truth,
    numbers_of,
    scaled,
    total,
)
from cortado.frontend.rewrite.mask_forms import fit, number_in, real, times, values_at
from cortado.frontend.rewrite.mask_moves import Movement, Unmoved, moved_places, moved_visible, movement
from cortado.frontend.rewrite.mask_places import Places, anywhere, as_node, both, compact, negated, places_of, ranked
from cortado.frontend.rewrite.mask_readers import Readers
from cortado.ir.analysis import Analysis, rewrite_each
from cortado.ir.facts import VALUE, FactKey, dtype
from cortado.ir.graph import Bound, add_call, bind, describe, output_node, shape
from cortado.ir.op import registry
from cortado.ops.elementwise.pointwise import is_clamp, is_elementwise, is_pointwise, is_table, uniform_value
from cortado.ops.float_graph import add_constant, constant_data, is_constant
from cortado.ops.meaning import CallKind, meaning_of, means, sum_factors

aten = torch.ops.aten
Tensor = torch.Tensor

_NEAR = 1.0 / 64  # the tolerance of a mask of real numbers around 0 and 1
_SIGNS_AT = [sign * 2.0**power for sign in (-1, 1) for power in range(-6, 7)]  # where a function's sign is tested


def take_masks(module: GraphModule) -> None:
    """Rewrites the masks of a graph, in place."""
    rules = _Masks()
    rewrite_each(module.graph.nodes, rules.rewrite)
    rules.refuse(output_node(module.graph))
    rules.forget(module.graph.nodes)


class _Masks(Analysis[Found | Node | None]):
    """The analysis of infinite places of each tensor; `rewrite` replaces the calls that read them."""

    key = FactKey[Found | Node | None]("cortado_mask")

    def __init__(self) -> None:
        self.readers = Readers(self.hidden)
        choices = Choices(self.fact, self.hidden, self.readers)
        self.unmoved = Unmoved()
        self.rules: dict[CallKind, Callable[[Bound], Fact | Node | None]] = {
            CallKind.SUM: self._sum,
            CallKind.PRODUCT: self._product,
            CallKind.QUOTIENT: self._product,
            CallKind.MAXIMUM: choices.extreme,
            CallKind.MINIMUM: choices.extreme,
            CallKind.SELECT: choices.choice,
            CallKind.CONVERT: self._converted,
            CallKind.ADDED_PRODUCT: self._added_product,
            CallKind.WITHOUT_NAN: self._without_nan,
            CallKind.IS_NAN: self._is_nan,
            **self.readers.rules,
        }
        self.softmaxes: dict[Node, tuple[Hidden, int]] = {}  # by result: its hidden scores and its dimension

    # ---- what is known

    def fact(self, value: Any) -> Fact | None:
        found = self.key.of(value) if isinstance(value, Node) else None
        if found is None and is_truth(value) and not is_constant(value):
            return TwoValued(places_of(value), 1.0, 0.0)
        return None if isinstance(found, tuple | Node) else found

    def hidden(self, value: Any, factor: float = 1.0) -> Hidden | None:
        """Returns the hidden places of a tensor times a factor."""
        if is_constant(value):
            data = constant_data(value)
            return hidden_in(value, data * factor) if data.is_floating_point() else None
        known = self.fact(value)
        if isinstance(known, TwoValued):
            return self._two(value, replace(known, on=known.on * factor, off=known.off * factor))
        if isinstance(known, Affine):
            return self._affine(value, known.slope * factor, known.offset * factor, known.source)
        if known is None or factor == 1.0:
            return known
        return scaled(known, times(value, known.visible, factor), (factor, factor))

    def _two(self, like: Node, known: TwoValued) -> Hidden | None:
        """Interprets a tensor of two numbers as a mask if one is far below the other."""
        low, high = sorted((known.on, known.off))
        if not low <= LEAST < high or high > -LEAST:
            return None
        where = known.where if known.on < known.off else negated(like, known.where)
        visible = None if high == 0 else add_constant(like, "visible", torch.full(shape(like), high))
        return Hidden((Term(where, low - high, added=True),), visible, like, certain=low <= NEVER_A_VALUE)

    def _affine(self, like: Node, slope: float, offset: float, source: Node) -> Hidden | None:
        """Interprets a mask given as 0 and 1: one of its two values becomes 0, the other hides."""
        low, high = sorted((offset, slope + offset))
        if low > CERTAIN or high != 0:
            return None
        whole = not is_float(source)
        if slope < 0:
            where = add_call(like, aten.gt.Scalar, source, 0 if whole else _NEAR)
        else:
            where = add_call(like, aten.lt.Scalar, source, 1 if whole else 1.0 - _NEAR)
        return Hidden((Term(Places(where), low, added=True),), None, like, certain=False)

    # ---- one node after the other

    def rewrite(self, node: Node) -> Node | None:
        """Returns the replacement of a call; None if it stays, with its fact stored."""
        found = self.transfer(node)
        if isinstance(found, Node):
            self._note_softmax(node, found)
            return found
        if found is not None:
            self.key.note(node, found)
        elif not self._written_out(node):
            self.refuse(node)
        return None

    def _note_softmax(self, node: Node, result: Node) -> None:
        """Remembers a softmax that -inf can hide a whole row of: torch gives NaN there, which nan_to_num replaces."""
        if means(node, CallKind.SOFTMAX):
            bound = bind(node)
            known = self.hidden(bound["self"])
            if known is not None and all(math.isinf(term.fill) for term in known.terms):
                self.softmaxes[result] = known, bound["dim"] % len(shape(node))

    def _without_nan(self, bound: Bound) -> Node | None:
        """Rewrites nan_to_num of a softmax: its number fills rows that are hidden entirely."""
        gone, number = self._is_nan(bound), float(bound["nan"] or 0.0)
        return (
            None
            if gone is None or number == 0.0
            else add_call(bound.node, aten.masked_fill.Scalar, bound["self"], gone, number)
        )

    def _is_nan(self, bound: Bound) -> Node | None:
        """Returns where a softmax gives NaN in torch: in rows that are hidden entirely."""
        source, like = bound["self"], bound.node
        if source not in self.softmaxes:
            return None
        known, dim = self.softmaxes[source]
        kept = negated(like, compact(hidden_anywhere(like, known.terms, len(shape(like)))))
        gone = as_node(like, negated(like, anywhere(like, kept, dim)))
        return gone if shape(gone) == shape(like) else add_call(like, aten.expand.default, gone, list(shape(like)))

    def transfer(self, node: Node) -> Found | Node | None:
        meaning = meaning_of(node)
        rule = None if meaning is None else self.rules.get(meaning.kind)
        found = rule(bind(node)) if rule is not None else None
        if found is None:
            found = self._function(node)
        return self._moved(node) if found is None else found

    def _written_out(self, node: Node) -> bool:
        """Rewrites a call with such a number by its operator's `Rewrite` and handles the resulting calls; False without
        one."""
        rewrite = registry().rewrites.get(node.target)  # type: ignore[call-overload]
        numbers = [number_in(one) for one in bind(node).values.values()]
        if rewrite is None or not any(one is not None and hides(one) for one in numbers):
            return False
        before, new = node.prev, rewrite.rewrite(bind(node))
        if new is None or new is node:
            return False
        node.replace_all_uses_with(new)
        made = []
        while before.next is not node:
            before = before.next
            made.append(before)
        rewrite_each(made, self.rewrite)
        return True

    def refuse(self, node: Node) -> None:
        """Refuses a call without a rule on numbers that stand for infinity."""
        for operand in node.all_input_nodes:
            found = None if is_constant(operand) else self.hidden(operand)
            if found is None or not found.certain or not is_float(operand):
                continue
            what = "the model's output" if node.op == "output" else describe(node)
            raise CortadoError(
                f"{what} reads values some of which stand for infinity ({found.weakest:g}, put there by "
                f"{describe(found.origin)}): no int8 scale can hold them beside other values. Expected them to be read "
                "by a softmax, a maximum, argmax, topk, or a function that has a limit there (exp, sigmoid, relu, "
                "clamp); replace the masked values first, using torch.where or masked_fill with a number of the size "
                "of the others"
            )

    # ---- sums

    def _sum(self, bound: Bound) -> Fact | None:
        left, right = bound["self"], bound["other"]
        factors = sum_factors(bound.node)
        numbers = [number_in(side) for side in (left, right)]
        for side, number, own, other in ((left, numbers[1], *factors), (right, numbers[0], factors[1], factors[0])):
            known = None if number is None else self._linear(side, own, number * other)
            if known is not None:
                return known
        sides = [self.hidden(side, factor) for side, factor in zip((left, right), factors, strict=True)]
        if sides == [None, None]:
            return None
        return self._added(bound, sides, factors)

    def _linear(self, side: Any, slope: float, offset: float) -> Fact | None:
        """Tracks a tensor of two numbers, or a mask given as numbers, through a factor and a sum."""
        known = self.fact(side)
        if isinstance(known, TwoValued):
            return replace(known, on=known.on * slope + offset, off=known.off * slope + offset)
        if isinstance(known, Affine):
            return replace(known, slope=known.slope * slope, offset=known.offset * slope + offset)
        plain = (
            known is None and isinstance(side, Node) and not is_constant(side) and isinstance(VALUE.of(side), Tensor)
        )
        return Affine(side, slope, offset) if plain and math.isfinite(offset) else None

    def _added(self, bound: Bound, sides: list[Hidden | None], factors: tuple[float, float]) -> Hidden | None:
        like, given = bound.node, (bound["self"], bound["other"])
        known = [side for side in sides if side is not None]
        signs = {term.fill > 0 for side in known for term in side.terms}
        if len(signs) != 1:
            return None
        parts: list[Any] = []
        for value, side, factor in zip(given, sides, factors, strict=True):
            if side is not None:
                parts.append(side.visible)
            elif isinstance(value, Node):
                parts.append(value if factor == 1.0 else times(value, value, factor))
            else:
                parts.append(float(value) * factor)
        terms = tuple(term for side in known for term in side.terms)
        terms = tuple(replace(term, where=ranked(like, term.where, len(shape(like)))) for term in terms)
        visible = self._without_zeros(terms, self._plus(like, *parts))
        biased = any(side.biased for side in known) or (
            len(known) == 1 and any(not term.added for term in terms) and not all(isinstance(p, float) for p in parts)
        )
        certain = any(side.certain for side in known)
        origin = next((side.origin for side in known if not is_constant(side.origin)), like)
        return Hidden(terms, visible, origin, certain, biased)

    def _without_zeros(self, terms: tuple[Term, ...], visible: Node | None) -> Node | None:
        """Drops a product that only zeroes hidden values."""
        if visible is None or not means(visible, CallKind.PRODUCT):
            return visible
        bound = bind(visible)
        for kept, other in ((bound["self"], bound["other"]), (bound["other"], bound["self"])):
            if not is_constant(kept) or not isinstance(other, Node) or shape(other) != shape(visible):
                continue
            data, hides = constant_data(kept), torch.zeros((), dtype=torch.bool)
            for term in terms:
                hides = hides | term.where.constant if term.where.constant is not None else hides
            if bool((hides | (data == 1)).all()):
                return other
        return visible

    def _plus(self, like: Node, left: Any, right: Any) -> Node | None:
        """Adds visible values, in the shape of the result; None and 0 add nothing."""
        parts = [part for part in (left, right) if part is not None and part != 0.0]
        if not parts:
            return None
        found = parts[0] if len(parts) == 1 else add_call(like, aten.add.Tensor, *parts)
        if isinstance(found, float):
            return add_constant(like, "visible", torch.full(shape(like), found))
        return fit(like, found)

    def _added_product(self, bound: Bound) -> Fact | None:
        """Handles a mask that a matrix product is added to."""
        like, known = bound.node, self.hidden(bound["self"], float(bound["beta"]))
        if known is None:
            return None
        factors = [bound[name] for name in ("batch1", "batch2", "mat1", "mat2") if name in bound.values]
        product = add_call(like, aten.matmul.default, *factors)
        product = times(like, product, float(bound["alpha"])) or product
        terms = tuple(replace(term, where=ranked(like, term.where, len(shape(like)))) for term in known.terms)
        return replace(known, terms=terms, visible=self._plus(like, product, known.visible))

    # ---- products

    def _product(self, bound: Bound) -> Fact | None:
        left, right, like = bound["self"], bound["other"], bound.node
        divides = means(like, CallKind.QUOTIENT)
        first, second = self.fact(left), self.fact(right)
        if not divides and isinstance(first, TwoValued) and isinstance(second, TwoValued):
            return self._both_hold(like, first, second)
        pairs = ((left, right),) if divides else ((left, right), (right, left))
        for side, other in pairs:
            number = number_in(other)
            if number is not None and (number if divides else math.isfinite(number)):
                known = self._linear(side, 1.0 / number if divides else number, 0.0)
                if known is not None:
                    return known
        for side, other in pairs:
            known_side = self.hidden(side)
            if known_side is not None and not is_constant(side):
                return self._scaled(like, known_side, other, divides)
        return None

    def _both_hold(self, like: Node, first: TwoValued, second: TwoValued) -> TwoValued | None:
        """Multiplies two tensors that are 0 elsewhere."""
        sides = []
        for one in (first, second):
            if one.off != 0 and one.on == 0:
                one = TwoValued(negated(like, one.where), one.off, 0.0)
            sides.append(one)
        if any(one.off != 0 for one in sides):
            return None
        rank = len(shape(like))
        where = both(like, *(ranked(like, one.where, rank) for one in sides))
        return TwoValued(where, sides[0].on * sides[1].on, 0.0)

    def _scaled(self, like: Node, known: Hidden, other: Any, divides: bool) -> Hidden | None:
        """Multiplies by a value of known sign, so that infinity keeps its meaning."""
        factors = self._factors(other, known)
        if factors is None:
            return None
        least, most = (1.0 / factors[1], 1.0 / factors[0]) if divides else factors
        target = aten.div.Tensor if divides else aten.mul.Tensor
        visible = known.visible
        if visible is not None:
            number = number_in(other)
            visible = fit(like, add_call(like, target, visible, other if number is None else number))
        rank = len(shape(like))
        terms = tuple(replace(term, where=ranked(like, term.where, rank)) for term in known.terms)
        return scaled(replace(known, terms=terms), visible, (least, most))

    def _factors(self, other: Any, known: Hidden) -> tuple[float, float] | None:
        """Returns the factors nearest to 0 and farthest from it, all of one sign."""
        number = number_in(other)
        if number is not None:
            return (number, number) if number != 0 and math.isfinite(number) else None
        if is_constant(other):
            data = constant_data(other).double()
            if bool((data > 0).all()) or bool((data < 0).all()):
                sizes = data.abs()
                sign = 1.0 if bool((data > 0).all()) else -1.0
                return sign * float(sizes.min()), sign * float(sizes.max())
            return None
        infinite = all(math.isinf(term.fill) for term in known.terms)
        return (1.0, 1.0) if infinite and self._is_positive(other) else None

    def _is_positive(self, node: Node) -> bool:
        """Whether a call gives only positive numbers, as exp does."""
        if is_table(node) and len(node.all_input_nodes) == 1:
            return all(one > 0 for one in values_at(node, node.all_input_nodes[0], _SIGNS_AT))
        return means(node, CallKind.SOFTMAX)

    # ---- functions of one tensor

    def _converted(self, bound: Bound) -> Fact | None:
        """Handles a conversion of the same numbers to another dtype."""
        source, like = bound["self"], bound.node
        known = self.fact(source)
        if isinstance(known, TwoValued) or known is None or not is_float(like) or not is_float(source):
            return known if isinstance(known, TwoValued) and not is_truth(like) else None
        if isinstance(known, Affine) or known.visible is None:
            return known
        return replace(known, visible=add_call(like, aten.to.dtype, known.visible, dtype(like)))

    def _function(self, node: Node) -> Fact | Node | None:
        """Handles an elementwise function of one tensor and constants."""
        if not is_elementwise(node.target):
            return None
        operands = [one for one in node.all_input_nodes if uniform_value(one) is None]
        if len(operands) != 1 or is_constant(operands[0]) or shape(operands[0]) != shape(node):
            return None
        source, known = operands[0], self.fact(operands[0])
        if isinstance(known, TwoValued) and not is_truth(node):
            on, off = values_at(node, source, [known.on, known.off])
            return None if math.isnan(on) or math.isnan(off) else TwoValued(known.where, on, off)
        hidden = self.hidden(source)
        return None if hidden is None else self._limit(node, source, hidden)

    def _limit(self, node: Node, source: Node, hidden: Hidden) -> Fact | Node | None:
        """Handles a function of a tensor with infinite places: it has a limit there, or stays infinite."""
        chosen = choices_of(hidden.terms)
        if chosen is None:
            return None
        limits = values_at(node, source, [total(*(term.fill for term in terms)) for terms in chosen])
        if any(math.isnan(one) for one in limits):
            return None
        ends = apart(node, hidden.terms, list(zip(chosen, limits, strict=True)))
        if is_truth(node):
            return self.readers.compared(node, source, hidden, ends)
        if all(LEAST < one < -CERTAIN for one in limits):
            return self.readers.limited(node, source, hidden, ends)
        if all(one <= LEAST for one in limits) or all(one >= -CERTAIN for one in limits):
            low, high = is_clamp(node) or (0.0, 0.0)
            result = hidden.visible
            if low > CERTAIN or high < -CERTAIN:  # else no visible value is clamped
                result = fit(node, self.readers.again(node, source, real(node, hidden.visible)))
            return replace(hidden, terms=ends, visible=result, biased=True)
        return None

    # ---- movement

    def _moved(self, node: Node) -> Found | Node | None:
        if node.target is operator.getitem:
            source, place = node.args
            found = self.key.of(source) if isinstance(source, Node) else None
            return found[place] if isinstance(found, tuple) and isinstance(place, int) else None
        large = not is_pointwise(node) and any(hides(number) for number in numbers_of(node))
        if is_truth(node) or not (large or any(self._moves_with(one) for one in node.all_input_nodes)):
            return None
        move = movement(node)
        return None if move is None else self._carried(move)

    def _moves_with(self, node: Node) -> bool:
        """Whether the fact of a tensor is a mask or can become one."""
        if is_constant(node):
            return is_float(node) and hiding(constant_data(node)) is not None
        known = self.fact(node)
        return known is not None and (not isinstance(known, Affine) or min(known.offset, known.slope) <= CERTAIN)

    def _beside(self, value: Node) -> Hidden | None:
        """Returns the hidden places of a tensor in a concatenation, which can be all of them."""
        if is_constant(value):
            return hidden_in(value, constant_data(value), whole=True)
        found, known = self.hidden(value), self.fact(value)
        if found is None and isinstance(known, Affine) and known.offset <= NEVER_A_VALUE < CERTAIN < known.slope:
            term = Term(Places(torch.ones((1,) * len(shape(value)), dtype=torch.bool)), known.offset, added=True)
            return Hidden((term,), times(value, known.source, known.slope), value, certain=False)
        return found

    def _carried(self, move: Movement) -> Found | Node | None:
        operand, known = move.operands[0], self.fact(move.operands[0])
        own = sorted({float(one) for numbers in move.own for one in numbers.unique() if hides(float(one))})
        if len(move.operands) == 1 and not own:
            if isinstance(known, TwoValued):
                found = moved_places(move, operand, known.where)
                two = tuple(TwoValued(where, known.on, known.off) for where in found)
                other = any(bool((source == 0).any()) for source in move.sources) and known.off != 0
                return None if other else two if move.several else two[0]
            if isinstance(known, Affine) and not move.several:
                return replace(known, source=moved_visible(move, {operand: known.source}))
        hidden = {one: fact for one in move.operands if (fact := self._beside(one)) is not None}
        if not hidden and not own:
            return None
        terms: list[list[Term]] = [
            [Term(compact(Places(numbers == one)), one, added=False) for one in own] for numbers in move.own
        ]
        for one, fact in hidden.items():
            for term in fact.terms:
                for mine, where in zip(terms, moved_places(move, one, term.where), strict=True):
                    mine.append(replace(term, where=where))
        return self._moved_hidden(move, hidden, [[one for one in mine if not one.where.nowhere] for mine in terms])

    def _moved_hidden(self, move: Movement, hidden: dict[Node, Hidden], terms: list[list[Term]]) -> Found | Node:
        """Moves the visible parts of the operands, with the masks of each result; reuses the original tensor if nothing
        moves."""
        node, facts = move.node, list(hidden.values())
        weakest = min((term.fill for mine in terms for term in mine), default=0.0)
        known = Hidden(
            (),
            None,
            facts[0].origin if facts and not is_constant(facts[0].origin) else node,
            any(one.certain for one in facts) or abs(weakest) >= -NEVER_A_VALUE,
            any(one.biased for one in facts),
        )
        if not move.several and terms[0]:
            constant = [one for one in terms[0] if one.where.constant is not None]
            gone = hidden_anywhere(node, constant, len(shape(node))).constant if constant else torch.tensor(False)
            assert gone is not None
            same = self.unmoved.same(move, gone)
            if same is not None:
                before = self.hidden(same)
                visible = same if before is None else before.visible
                return replace(known, terms=tuple(terms[0]), visible=visible)
        result = moved_visible(move, {one: fact.visible for one, fact in hidden.items()})
        if not move.several:
            return replace(known, terms=tuple(terms[0]), visible=result) if terms[0] else result
        parts = [add_call(node, operator.getitem, result, place) for place in range(len(terms))]
        return tuple(
            replace(known, terms=tuple(own), visible=part) if own else part
            for own, part in zip(terms, parts, strict=True)
        )
