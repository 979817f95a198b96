"""Calls with a meaning for infinite places, and their rewrites: softmax and similar calls exclude these places, a
maximum ignores them, and an elementwise function has its limit there."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import torch
from torch.fx import Node

from cortado.base.errors import CortadoError
from cortado.frontend.rewrite.mask_fact import SENTINEL, Fact, Hidden, Term, hidden_anywhere, is_truth, total
from cortado.frontend.rewrite.mask_places import (
    Places,
    anywhere,
    as_node,
    both,
    broadcast,
    compact,
    either,
    negated,
    ranked,
)
from cortado.ir.graph import Bound, add_call, bind, call_again, describe, shape
from cortado.ops.elementwise.pointwise import uniform_value
from cortado.ops.float_graph import add_constant, add_permute, add_view, is_constant
from cortado.ops.meaning import CallKind, meaning_of, means
from cortado.ops.softmax.forms import LOWEST_ELSEWHERE
from cortado.ops.softmax.log_softmax import LOG_SOFTMAX_KEPT
from cortado.ops.softmax.masked_softmax import SOFTMAX_KEPT

aten = torch.ops.aten
Tensor = torch.Tensor

_SWALLOWS = -1e8  # a fill next to which float32 loses every score
_SEEN = -1e5  # one next to which it keeps them all
_MOST_FILLS = 3  # finite fills of several masks in a row with nothing else left

Rule = Callable[[Bound], Fact | Node | None]


class Readers:
    """The rules; `hidden` returns the hidden places of a tensor."""

    def __init__(self, hidden: Callable[[Any], Hidden | None]) -> None:
        self.hidden = hidden
        self.rules: dict[CallKind, Rule] = {
            CallKind.SOFTMAX: self._softmax,
            CallKind.LOG_SOFTMAX: self._log_softmax,
            CallKind.EXTREME: self._extreme,
            CallKind.LOG_SUM_EXP: self._logsumexp,
        }

    # ---- softmax

    def _softmax(self, bound: Bound) -> Node | None:
        source, like = bound["self"], bound.node
        known = self.hidden(source) if shape(source) else None
        if known is None or not known.negative:
            return None
        dim = bound["dim"] % len(shape(source))
        scores = self._visible(like, known, shape(like))
        return softmax_of(like, scores, _kept(like, known, dim), dim)

    # ---- log softmax

    def _log_softmax(self, bound: Bound) -> Fact | None:
        """Rewrites log_softmax; its result is hidden where the score is."""
        source, like = bound["self"], bound.node
        known = self.hidden(source) if shape(source) else None
        if known is None or not known.negative or known.weakest > SENTINEL:
            return None
        sizes = shape(source)
        terms = [replace(term, where=ranked(like, term.where, len(sizes))) for term in known.terms]
        known, dim = replace(known, terms=tuple(terms)), bound["dim"] % len(sizes)
        finite = [term for term in terms if math.isfinite(term.fill)]
        if finite:
            known = self._rows_left(like, known, dim)
        visible = self._logarithms(like, known, sizes, dim)
        rest = tuple(replace(term, added=False) for term in known.terms)
        return replace(known, terms=rest, visible=visible, certain=True, biased=True)

    def _rows_left(self, like: Node, known: Hidden, dim: int) -> Hidden:
        """Unhides rows that a finite number hides entirely: they have the softmax of what float32 leaves of them."""
        kept = negated(like, compact(hidden_anywhere(like, known.terms, len(shape(like)))))
        some = anywhere(like, kept, dim)
        if some.constant is not None and bool(some.constant.all()):
            return known
        if len(known.terms) > 1 or (known.weakest > _SWALLOWS and known.biased):
            raise CortadoError(
                f"{describe(like)}: several masks, or a mask and values added to it, may hide a whole row, and what is "
                f"then left of it can't be told ({known.weakest:g} is the smallest number); combine them with | and "
                "fill with -inf"
            )
        (term,) = known.terms
        visible = self._visible(like, known, shape(like))
        if known.weakest <= _SWALLOWS or not term.added:
            gone = as_node(like, negated(like, some))
            visible = add_call(like, aten.masked_fill.Scalar, visible, gone, 0.0)
        where = both(like, term.where, broadcast(like, some, shape(like)))
        return replace(known, terms=(replace(term, where=where),), visible=visible)

    def _logarithms(self, like: Node, known: Hidden, sizes: tuple[int, ...], dim: int) -> Node:
        """Adds the log_softmax along `dim` of the visible values."""
        kept = negated(like, compact(hidden_anywhere(like, known.terms, len(sizes))))
        order = [*(axis for axis in range(len(sizes)) if axis != dim), dim]
        moved = add_permute(like, self._visible(like, known, sizes), order)
        found = add_call(like, LOG_SOFTMAX_KEPT, moved, _mask(like, kept, sizes, order))
        return add_permute(like, found, [order.index(axis) for axis in range(len(order))])

    def _visible(self, like: Node, known: Hidden, sizes: tuple[int, ...]) -> Node:
        return known.visible if known.visible is not None else add_constant(like, "zeros", torch.zeros(sizes))

    def _logsumexp(self, bound: Bound) -> Node | None:
        """Rewrites logsumexp over the visible values, as the largest score minus its log_softmax."""
        like, source, dims = bound.node, bound["self"], bound["dim"]
        known = self.hidden(source)
        if known is None or not known.negative or known.weakest > SENTINEL or len(dims) != 1:
            return None
        low, where = self._lowest(like, source, known)
        parts = self._logarithms(like, known, shape(source), dims[0] % len(shape(source)))
        parts = add_call(like, LOWEST_ELSEWHERE, parts, as_node(like, negated(like, where)), False)
        largest = [add_call(like, aten.amax.default, one, dims, bound["keepdim"]) for one in (low, parts)]
        return add_call(like, aten.sub.Tensor, *largest)

    # ---- maxima

    def _lowest(self, like: Node, source: Node, known: Hidden) -> tuple[Node, Places]:
        """Returns the scores, with masked positions below every visible value; and the masked positions."""
        sizes = shape(source)
        where = broadcast(like, hidden_anywhere(like, known.terms, len(sizes)), sizes)
        visible = self._visible(like, known, sizes)
        kept = as_node(like, negated(like, where))
        return add_call(like, LOWEST_ELSEWHERE, visible, kept, math.isinf(known.weakest)), where

    def _highest(self, like: Node, source: Node, known: Hidden) -> Node:
        """Returns the scores, with masked positions above every visible value: the lowest of what is negated."""
        visible = add_call(like, aten.neg.default, self._visible(like, known, shape(source)))
        low, _ = self._lowest(like, source, replace(known, visible=visible))
        return add_call(like, aten.neg.default, low)

    def _extreme(self, bound: Bound) -> Node | None:
        """Rewrites the largest values and their indices, of which masked places are none, or the smallest, for fills of
        plus infinity."""
        like, source = bound.node, bound["self"]
        known = self.hidden(source)
        meaning = meaning_of(like)
        descending = bool(bound.get("largest", bound.get("descending", meaning is not None and meaning.largest)))
        if known is None or known.negative != descending or abs(known.weakest) < -SENTINEL:
            return None
        if not (known.negative or all(term.fill > 0 for term in known.terms)):
            return None
        self._check_left(bound, known)
        low = self._lowest(like, source, known)[0] if known.negative else self._highest(like, source, known)
        return self.again(like, source, low)

    def _check_left(self, bound: Bound, known: Hidden) -> None:
        """Refuses a constant mask that leaves fewer values than are asked for."""
        dims = bound.get("dim")
        sizes = shape(bound["self"])
        wheres = [ranked(bound.node, term.where, len(sizes)).constant for term in known.terms]
        hides = torch.zeros((1,) * len(sizes), dtype=torch.bool)
        for where in wheres:
            hides = hides | where if where is not None else hides
        given = [dims] if isinstance(dims, int) else list(dims or range(len(sizes)))
        kept = (~hides).expand(sizes)
        least = int(kept.sum(tuple(given)).min())
        found = meaning_of(bound.node)
        wanted = int(bound.get("k", 1)) if found is not None and found.largest else sizes[given[0]]
        if least < wanted:
            raise CortadoError(
                f"{describe(bound.node)} takes {wanted} where a mask leaves {least} values: the others stand for "
                f"infinity ({known.weakest:g}, put there by {describe(known.origin)}), which int8 can't hold; leave at "
                "least as many values visible in every row"
            )

    # ---- functions

    def again(self, node: Node, source: Node, visible: Node) -> Node:
        """Applies the same function to the visible values."""
        return call_again(node, lambda one: visible if one is source else one)

    def limited(self, node: Node, source: Node, known: Hidden, ends: Sequence[Term]) -> Node | None:
        """Applies a function to the visible values, and inserts its limits elsewhere."""
        if abs(known.weakest) < -SENTINEL:
            return None
        if known.negative:
            visible, _ = self._lowest(node, source, known)
        else:
            visible = known.visible if known.visible is not None else add_constant(node, "zeros", torch.zeros(1))
        result = self.again(node, source, visible)
        for end in ends:
            where = as_node(node, ranked(node, end.where, len(shape(node))))
            result = add_call(node, aten.masked_fill.Scalar, result, where, end.fill)
        return result

    def compared(self, node: Node, source: Node, known: Hidden, ends: Sequence[Term]) -> Node | None:
        """Rewrites a comparison with a number, whose result for infinity is constant."""
        if known.visible is None or not is_truth(node) or len(ends) != 1 or not known.certain:
            return None
        result = Places(self.again(node, source, known.visible))
        where = ranked(node, ends[0].where, len(shape(node)))
        if ends[0].fill:
            return as_node(node, either(node, result, where))
        return as_node(node, both(node, result, negated(node, where)))


@dataclass(frozen=True)
class _Kept:
    """The masks of a softmax: the values that count; what is left of a row without such values (`weaker`, unless it is
    all or nothing); the weakest fill of hidden places, whether scores are added to it, and whether a row without values
    is 0."""

    kept: Places
    weaker: Places | None
    fill: float
    added: bool
    zeros: bool


def _kept(like: Node, known: Hidden, dim: int) -> _Kept:
    """Returns the masks of a softmax. Of a row that added masks hide entirely, the places that they hide least are
    left."""
    rank = len(shape(like))
    terms = [replace(term, where=ranked(like, term.where, rank)) for term in known.terms]
    kept = negated(like, compact(hidden_anywhere(like, terms, rank)))
    finite = [term for term in terms if math.isfinite(term.fill)]
    leaves = kept.constant is not None and bool(kept.constant.expand(shape(like)).any(dim).all())
    added = bool(finite) and all(term.added for term in finite)
    if not finite:
        _check_rows(like, kept, dim)
    if leaves or not finite:
        return _Kept(kept, None, known.weakest, added, zeros=True)
    if known.weakest > _SWALLOWS and (known.biased or not all(term.added == added for term in finite)):
        raise CortadoError(
            f"{describe(like)}: numbers are added to {known.weakest:g}, which a mask wrote over scores, so they would "
            "be all that is left of a fully masked row; fill with -inf, or add them before masking"
        )
    if len(terms) == 1:
        return _Kept(kept, None, known.weakest, added, zeros=False)
    most = total(*(term.fill for term in finite))
    if len(finite) > _MOST_FILLS or (known.weakest > _SWALLOWS and most < _SEEN):
        raise CortadoError(
            f"{describe(like)}: {len(finite)} masks are added to one another, from {known.weakest:g} to {most:g}, so a "
            "row that they hide entirely would keep neither equal parts nor its scores; combine them with | and fill "
            "once, with -inf"
        )
    levels = _sums(like, terms)
    last = levels[-1].constant
    if last is not None and bool(last.all()):  # nothing is hidden by more than this: the whole row is left
        return _Kept(kept, _least_hidden(like, levels[:-1], dim), known.weakest, added, zeros=False)
    return _Kept(kept, _least_hidden(like, levels, dim), known.weakest, added, zeros=True)


def _least_hidden(like: Node, levels: Sequence[Places], dim: int) -> Places | None:
    """Returns the least masked places of fully masked rows."""
    if not levels:
        return None
    first, *others = levels
    for level in others:
        gone = negated(like, anywhere(like, first, dim))
        first = either(like, first, both(like, gone, level))
    return first


def _sums(like: Node, terms: Sequence[Term]) -> list[Places]:
    """Returns the places hidden by at most each sum of finite fills, from the weakest sum on."""
    finite = [term for term in terms if math.isfinite(term.fill)]
    sums: dict[float, list[tuple[Term, ...]]] = {}
    for count in range(1, len(finite) + 1):
        for chosen in combinations(finite, count):
            value = total(*(term.fill for term in chosen))
            if math.isfinite(value):
                sums.setdefault(value, []).append(chosen)
    rank = len(terms[0].where.sizes)
    nowhere, levels = Places(torch.zeros((1,) * rank, dtype=torch.bool)), list[Places]()
    for value in sorted(sums, reverse=True):
        level = levels[-1] if levels else nowhere
        for chosen in sums[value]:
            others = [term for term in terms if not any(term is one for one in chosen)]
            rest = (
                Places(torch.zeros((1,) * rank, dtype=torch.bool))
                if not others
                else hidden_anywhere(like, others, rank)
            )
            level = either(like, level, negated(like, rest))
        levels.append(level)
    return levels


def _check_rows(like: Node, kept: Places, dim: int) -> None:
    """Refuses a constant mask that hides a row entirely with -inf, which gives 0 / 0."""
    data = kept.constant
    if data is None:
        return
    gone = ~data.expand(shape(like)).any(dim)
    rows = gone.reshape(-1).nonzero().reshape(-1).tolist()
    if rows:
        raise CortadoError(
            f"{describe(like)}: the mask hides all of row {rows[0]} ({len(rows)} of {gone.numel()} rows are hidden), "
            "whose softmax would be 0 / 0; leave at least one value visible in every row"
        )


def _factor(node: Node) -> float | None:
    """Returns the number that a call multiplies by, if it is positive."""
    if not means(node, CallKind.PRODUCT, CallKind.QUOTIENT):
        return None
    bound = bind(node)
    left, right = bound["self"], bound["other"]
    if means(node, CallKind.PRODUCT) and isinstance(left, Node) and is_constant(left):
        left, right = right, left
    number = uniform_value(right) if isinstance(right, Node) else right
    if number is None or not isinstance(left, Node) or is_constant(left) or not 0.0 < float(number) < math.inf:
        return None
    return 1.0 / float(number) if means(node, CallKind.QUOTIENT) else float(number)


def softmax_of(like: Node, scores: Node, found: _Kept, dim: int) -> Node:
    """Adds the call that replaces a softmax along `dim` of scores, some of which are masked."""
    factor, sizes = 1.0, shape(scores)
    while (number := _factor(scores)) is not None:
        operands = [one for one in scores.all_input_nodes if not is_constant(one)]
        if shape(operands[0]) != sizes:
            break
        factor, scores = factor * number, operands[0]
    order = [*(axis for axis in range(len(sizes)) if axis != dim), dim]
    moved = add_permute(like, scores, order)
    masks = [None if one is None else _mask(like, one, sizes, order) for one in (found.kept, found.weaker)]
    result = add_call(like, SOFTMAX_KEPT, moved, *masks, factor, found.fill, found.added, found.zeros)
    return add_permute(like, result, [order.index(axis) for axis in range(len(order))])


def _mask(like: Node, kept: Places, sizes: tuple[int, ...], order: list[int]) -> Node:
    """Returns the mask in the order of the scores, stored once if it is the same for all of the leading dimensions."""
    if kept.constant is not None:
        data = kept.constant.expand(sizes).permute(order)
        while data.dim() > 2 and bool((data[:1] == data).all()):
            data = data[0]
        return add_constant(like, "kept", data)
    own = kept.sizes
    while own and own[0] == 1 and len(own) > 1:
        own = own[1:]
    node = add_view(like, as_node(like, kept), own)
    if order != sorted(order) or own != sizes[len(sizes) - len(own) :]:
        node = add_permute(like, add_call(like, aten.expand.default, node, list(sizes)), order)
    return node
