"""Mask facts: which places of a tensor hold a number that stands for infinity, and which numbers can."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeAlias

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.frontend.rewrite.mask_places import Places, both, compact, either, negated, ranked
from cortado.ir.facts import VALUE, dtype
from cortado.ops.float_graph import add_constant

Tensor = torch.Tensor

LEAST = -20.0
"""The largest number that counts as a mask when it is added to scores. (Whether it suffices is checked once the range
of the scores is known.)"""
CERTAIN = -1e4
"""The largest number that counts as a mask among other numbers that are added, such as distances."""
SENTINEL = -1e3
"""The largest number that is never a value for a maximum or for a function with a limit: one step of its range would be
above 1."""
NEVER_A_VALUE = -1e6
"""The largest number that can't be meant as a value among others: it would take up all codes. It is a mask or
refused."""
_REAL = ("number", "float", "Tensor")  # types of real numbers in schemas; Python numbers can be given for tensors
_MOST_TOGETHER = 4  # masks that can hide a place together


@dataclass(frozen=True)
class Term:
    """One term of a mask: where it holds, the tensor has `fill` instead of its visible value, or `fill` is added to
    it."""

    where: Places
    fill: float
    added: bool


@dataclass(frozen=True)
class Hidden:
    """A tensor with places that stand for infinity: minus infinity unless the fills are positive."""

    terms: tuple[Term, ...]
    visible: Node | None  # a tensor with the same values elsewhere, without such numbers; None: 0
    origin: Node  # the call that inserted the fills
    certain: bool  # whether the fills can't be meant as values
    biased: bool = False  # whether something was added to the fills, or a function applied to them

    @property
    def weakest(self) -> float:
        """The fill nearest to 0."""
        return min((term.fill for term in self.terms), key=abs)

    @property
    def negative(self) -> bool:
        return all(term.fill < 0 for term in self.terms)


@dataclass(frozen=True)
class TwoValued:
    """A tensor with two values: one where a truth value holds, the other elsewhere."""

    where: Places
    on: float
    off: float


@dataclass(frozen=True)
class Affine:
    """source * slope + offset, where the source can be a mask given as numbers 0 and 1."""

    source: Node
    slope: float
    offset: float


Fact: TypeAlias = Hidden | TwoValued | Affine
Found: TypeAlias = Fact | tuple[Fact | Node, ...]  # a tuple for a call with several results; a node stands for itself


def numbers_among(node: Node, change: Callable[[float], float]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a call, with `change` applied to those that its schema takes as real numbers, not to
    sizes or positions."""
    schema = node.target._schema.arguments if isinstance(node.target, OpOverload) else []
    real = {one.name for one in schema if str(one.type).removeprefix("Optional[").rstrip("]") in _REAL}

    def changed(name: str, value: Any) -> Any:
        known = name in real and isinstance(value, int | float) and not isinstance(value, bool)
        return change(value) if known else value

    args = tuple(changed(one.name, value) for one, value in zip(schema, node.args, strict=False))
    return (args if schema else node.args), {name: changed(name, value) for name, value in node.kwargs.items()}


def numbers_of(node: Node) -> list[float]:
    """Returns the real numbers among the arguments of a call."""
    found: list[float] = []
    numbers_among(node, lambda number: found.append(number) or number)  # type: ignore[func-returns-value]
    return found


def hides(number: float) -> bool:
    """Whether a number that replaces others can stand for infinity."""
    return number <= LEAST or number >= -CERTAIN


def hiding(data: Tensor) -> Tensor | None:
    """Returns where a tensor hides what it is added to: it holds 0 and large negative numbers, or some that are
    unmistakable."""
    mask = data != 0
    if not bool((data <= LEAST).any()) or data.isnan().any():
        return None
    if not bool((data[mask] <= LEAST).all()):
        mask = data <= CERTAIN
    return mask if bool(mask.any()) else None


def is_float(node: Any) -> bool:
    value = VALUE.of(node) if isinstance(node, Node) else None
    return isinstance(value, Tensor) and value.is_floating_point()


def total(*fills: float) -> float:
    """Returns the sum of fills in float32."""
    result = math.fsum(fills) if all(math.isfinite(one) for one in fills) else sum(fills)
    return math.copysign(math.inf, result) if abs(result) > torch.finfo(torch.float32).max else result


def hidden_in(node: Node, data: Tensor, *, whole: bool = False) -> Hidden | None:
    """Returns the places that a constant masks when it is added to scores; or concatenated to them (`whole`), which can
    mask all."""
    mask = hiding(data) if data.is_floating_point() else None
    if mask is None or (bool(mask.all()) and not whole):
        return None
    terms, rest = [], torch.where(mask, 0.0, data)
    values = data[mask].double()
    while values.numel():
        fill = float(values.max())
        near = mask & (data.double() >= fill - 1000.0) if math.isfinite(fill) else mask & data.isinf()
        rest = torch.where(near, torch.where(data.isinf(), 0.0, data - fill), rest)
        terms.append(Term(compact(Places(near)), fill, added=not whole or bool((rest[near] != 0).any())))
        mask = mask & ~near
        values = data[mask].double()
    visible = add_constant(node, "added", rest) if bool((rest != 0).any()) else None
    certain = min(term.fill for term in terms) <= NEVER_A_VALUE
    return Hidden(tuple(terms), visible, node, certain)


# ---- places that several terms hide ----------------------------------------------------------------------------------


def hidden_anywhere(like: Node, terms: Sequence[Term], rank: int) -> Places:
    """Returns the places that at least one of the terms masks, for a tensor with `rank` dimensions."""
    first, *others = (ranked(like, term.where, rank) for term in terms)
    for other in others:
        first = either(like, first, other)
    return first


def choices_of(terms: Sequence[Term]) -> list[tuple[Term, ...]] | None:
    """Returns the combinations of terms that can hide one place; None if there are too many."""
    if len(terms) > _MOST_TOGETHER:
        return None
    return [chosen for count in range(1, len(terms) + 1) for chosen in combinations(terms, count)]


def apart(like: Node, terms: Sequence[Term], values: Sequence[tuple[tuple[Term, ...], float]]) -> tuple[Term, ...]:
    """Returns disjoint terms: each place has one term, whose value replaces the sum of those that hide it together."""
    rank = max(len(term.where.sizes) for term in terms)
    if len({value for _, value in values}) == 1:
        return (Term(hidden_anywhere(like, terms, rank), values[0][1], added=False),)
    full = {id(term): ranked(like, term.where, rank) for term in terms}
    found: dict[float, Places] = {}
    for chosen, value in values:
        where = full[id(chosen[0])]
        for one in chosen[1:]:
            where = both(like, where, full[id(one)])
        for other in (full[id(term)] for term in terms if not any(term is one for one in chosen)):
            where = both(like, where, negated(like, other))
        if not where.nowhere:
            found[value] = where if value not in found else either(like, found[value], where)
    return tuple(Term(where, value, added=False) for value, where in found.items())


def scaled(hidden: Hidden, visible: Node | None, factors: tuple[float, float]) -> Hidden:
    """Multiplies the fills by the first factor, the one nearest to 0; all factors have one sign."""
    least, _ = factors
    terms = tuple(replace(term, fill=total(term.fill * least)) for term in hidden.terms)
    return replace(hidden, terms=terms, visible=visible)


def is_truth(node: Any) -> bool:
    return isinstance(node, Node) and isinstance(VALUE.of(node), Tensor) and dtype(node) == torch.bool
