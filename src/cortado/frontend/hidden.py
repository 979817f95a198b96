"""What is known of a tensor in which some places stand for infinity, and how that moves with the tensor's elements."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeAlias

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_arg

from cortado.frontend.places import Places, as_node, both, compact, either, negated, ranked, spread, viewed
from cortado.ir.facts import VALUE, dtype
from cortado.ir.graph import add_call, bind, shape
from cortado.ops._float import add_constant, constant_data, is_constant

aten = torch.ops.aten
Tensor = torch.Tensor

LEAST = -20.0
"""What is added to a score that is not to count is at most this. (Whether it is enough is seen once the range of the
scores is known.)"""
CERTAIN = -1e4
"""Beside other numbers that are added, such as distances, what is at most this is a mask."""
SENTINEL = -1e3
"""What is at most this is no value for a maximum or a function with a limit: one step of its range would be above 1."""
NEVER_A_VALUE = -1e6
"""What is at most this can't be meant as a value among others: it would take all codes. It is a mask or refused."""
_MOST_TOGETHER = 4  # masks that may hide a place together
_MOST_MOVED = 1 << 24  # elements whose numbers float32 holds


@dataclass(frozen=True)
class Term:
    """Where it holds, the tensor has `fill` instead of its visible value, or `fill` is added to it."""

    where: Places
    fill: float
    added: bool


@dataclass(frozen=True)
class Hidden:
    """A tensor some of whose places stand for infinity, minus infinity unless the fills are positive."""

    terms: tuple[Term, ...]
    visible: Node | None  # a tensor of the same shape and values elsewhere, free of such numbers; None: 0
    origin: Node  # the call that put them there
    certain: bool  # whether they can't be meant as values
    biased: bool = False  # whether something was added to what stands for infinity, or a function taken of it

    @property
    def weakest(self) -> float:
        """The fill that is nearest to 0."""
        return min((term.fill for term in self.terms), key=abs)

    @property
    def negative(self) -> bool:
        return all(term.fill < 0 for term in self.terms)


@dataclass(frozen=True)
class TwoValued:
    """A tensor of two numbers: one where a truth value holds, the other elsewhere."""

    where: Places
    on: float
    off: float


@dataclass(frozen=True)
class Affine:
    """source * slope + offset, where the source may be a mask of 0 and 1 that comes as numbers."""

    source: Node
    slope: float
    offset: float


Fact: TypeAlias = Hidden | TwoValued | Affine
Found: TypeAlias = Fact | tuple[Fact | Node, ...]  # the second of a call that gives several tensors; a node: itself


def name_of(node: Node) -> str:
    """add of aten.add.Tensor; empty for what is no operator of aten."""
    target = node.target
    if not isinstance(target, OpOverload) or target.namespace != "aten":
        return ""
    return target._schema.name.removeprefix("aten::")


def is_float(node: Any) -> bool:
    value = VALUE.of(node) if isinstance(node, Node) else None
    return isinstance(value, Tensor) and value.is_floating_point()


def total(*fills: float) -> float:
    """The sum of fills in float32."""
    result = math.fsum(fills) if all(math.isfinite(one) for one in fills) else sum(fills)
    return math.copysign(math.inf, result) if abs(result) > torch.finfo(torch.float32).max else result


def hidden_in(node: Node, data: Tensor) -> Hidden | None:
    """What a constant hides that is added: 0 and large negative numbers, or some that leave no doubt."""
    mask = data != 0
    if not data.is_floating_point() or data.isnan().any() or not bool((data <= LEAST).any()):
        return None
    if not bool((data[mask] <= LEAST).all()):
        mask = data <= CERTAIN
    if not bool(mask.any()) or bool(mask.all()):
        return None
    terms, rest = [], torch.where(mask, 0.0, data)
    values = data[mask].double()
    while values.numel():
        fill = float(values.max())
        near = mask & (data.double() >= fill - 1000.0) if math.isfinite(fill) else mask & data.isinf()
        terms.append(Term(compact(Places(near)), fill, added=True))
        rest = torch.where(near, torch.where(data.isinf(), 0.0, data - fill), rest)
        mask = mask & ~near
        values = data[mask].double()
    visible = add_constant(node, "added", rest) if bool((rest != 0).any()) else None
    certain = min(term.fill for term in terms) <= NEVER_A_VALUE
    return Hidden(tuple(terms), visible, node, certain)


# ---- places that several terms hide ----------------------------------------------------------------------------------


def hidden_anywhere(like: Node, terms: Sequence[Term], rank: int) -> Places:
    """What at least one of the terms hides, of a tensor with `rank` dimensions."""
    first, *others = (ranked(like, term.where, rank) for term in terms)
    for other in others:
        first = either(like, first, other)
    return first


def choices_of(terms: Sequence[Term]) -> list[tuple[Term, ...]] | None:
    """The terms that may hide one place together; None if there are too many ways."""
    if len(terms) > _MOST_TOGETHER:
        return None
    return [chosen for count in range(1, len(terms) + 1) for chosen in combinations(terms, count)]


def apart(like: Node, terms: Sequence[Term], values: Sequence[tuple[tuple[Term, ...], float]]) -> tuple[Term, ...]:
    """Terms of which each place has one alone: the value of those that hide it together, which takes its place."""
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


# ---- movement ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Movement:
    """A call whose elements are elements of its operands, whatever these hold; 0 among `sources`: a zero of its own."""

    node: Node
    operands: tuple[Node, ...]
    sources: tuple[Tensor, ...]  # of each result: the number of the element, from 1 on, over all operands
    several: bool  # a list of results, of which others take one


def movement(node: Node) -> Movement | None:
    """Found out by trying: where each element comes from, and whether that holds for other values too."""
    target: Any = node.target
    if not isinstance(target, OpOverload) or target.namespace != "aten" or not node.all_input_nodes:
        return None
    operands = tuple(one for one in node.all_input_nodes if not is_constant(one) or is_float(one))
    count = sum(math.prod(shape(one)) for one in operands if isinstance(VALUE.of(one), Tensor))
    if not all(is_float(one) for one in operands) or not 0 < count < _MOST_MOVED:
        return None

    def run(numbers: Tensor) -> list[Tensor] | None:
        parts = numbers.split([math.prod(shape(one)) for one in operands])
        given = {one: part.reshape(shape(one)) for one, part in zip(operands, parts, strict=True)}
        args, kwargs = map_arg((node.args, node.kwargs), lambda one: given[one] if one in given else constant_data(one))
        with torch.no_grad():
            result = target(*args, **kwargs)
        results = list(result) if isinstance(result, list | tuple) else [result]
        return results if all(isinstance(one, Tensor) and one.dtype == torch.float32 for one in results) else None

    first = run(torch.arange(1, count + 1, dtype=torch.float32))
    if first is None or not all(_numbers(one, count) for one in first):
        return None
    others = torch.randperm(count, generator=torch.Generator().manual_seed(0)).float() + 0.5
    second = run(others)
    known = torch.cat([torch.zeros(1), others])
    sources = tuple(one.long() for one in first)
    if second is None or not all(torch.equal(known[a], b) for a, b in zip(sources, second, strict=True)):
        return None
    return Movement(node, operands, sources, isinstance(VALUE.of(node), list | tuple))


def _numbers(found: Tensor, count: int) -> bool:
    return bool(((found >= 0) & (found <= count) & (found == found.floor())).all())


def moved_visible(move: Movement, visible: dict[Node, Node | None]) -> Node:
    """The same movement of what is visible of the operands."""
    target: Any = move.node.target

    def given(one: Node) -> Node:
        found = visible.get(one, one)
        return found if found is not None else add_constant(move.node, "zeros", torch.zeros(shape(one)))

    args, kwargs = map_arg((move.node.args, move.node.kwargs), given)
    return add_call(move.node, target, *args, **kwargs)


def moved_places(move: Movement, operand: Node, places: Places) -> tuple[Places, ...]:
    """Where something holds after the movement that holds for these places of one operand."""
    data = places.constant
    if data is None:
        return _moved_computed(move, operand, places)
    flat = [
        data.expand(shape(one)).reshape(-1) if one is operand else torch.zeros(math.prod(shape(one)), dtype=torch.bool)
        for one in move.operands
    ]
    known = torch.cat([torch.zeros(1, dtype=torch.bool), *flat])
    return tuple(compact(Places(known[source])) for source in move.sources)


def _moved_computed(move: Movement, operand: Node, places: Places) -> tuple[Places, ...]:
    node, like = move.node, move.node
    target: Any = node.target
    small = _moved_small(move, operand, ranked(like, places, len(shape(operand))))
    if small is not None:
        return (small,)
    whole = as_node(like, spread(like, places, shape(operand)))

    def given(one: Node) -> Node:
        if one is operand:
            return whole
        floats = is_float(one)
        return add_constant(like, "nowhere", torch.zeros(shape(one), dtype=torch.bool)) if floats else one

    args, kwargs = map_arg((node.args, node.kwargs), given)
    result = add_call(like, target, *args, **kwargs)
    if not move.several:
        return (Places(result),)
    return tuple(Places(add_call(like, operator.getitem, result, place)) for place in range(len(move.sources)))


_BROADCASTS = ("expand", "expand_as", "broadcast_to")
_ORDERS = ("permute", "transpose", "t", "numpy_T", "mT", "unsqueeze", "movedim", "swapaxes", "swapdims")
_RESHAPES = ("reshape", "view", "flatten", "unflatten", "_unsafe_view", "squeeze", "view_as", "reshape_as")
_ALONG = ("slice", "narrow", "flip", "index_select")


def _moved_small(move: Movement, operand: Node, places: Places) -> Places | None:
    """A computed mask stays as small as it is where the movement leaves the dimensions alone that it repeats in."""
    node, name, old, new = move.node, name_of(move.node), shape(operand), shape(move.node) if not move.several else ()
    target: Any = node.target
    if name in _BROADCASTS:
        return ranked(node, places, len(new))
    if name in _ORDERS:
        args, kwargs = map_arg((node.args, node.kwargs), lambda one: places.data)
        return Places(add_call(node, target, *args, **kwargs))
    if name in _RESHAPES:
        alike = _common_end(old, new)
        if all(size == 1 for size in places.sizes[: len(old) - alike]):
            return viewed(node, places, (*(1,) * (len(new) - alike), *places.sizes[len(old) - alike :]))
    if name in _ALONG and _along(node) is not None and places.sizes[_along(node) or 0] == 1:
        return places
    return None


def _along(node: Node) -> int | None:
    """The dimension that a call works along, where it is one."""
    found = bind(node).get("dim")
    rank = len(shape(node.all_input_nodes[0]))
    return found % rank if isinstance(found, int) else None


def _common_end(old: Sequence[int], new: Sequence[int]) -> int:
    """How many of the last dimensions are the same."""
    pairs = zip(reversed(old), reversed(new), strict=False)
    return next((count for count, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def scaled(hidden: Hidden, visible: Node | None, factors: tuple[float, float]) -> Hidden:
    """Times numbers of one sign, of which the first is nearest to 0."""
    least, _ = factors
    terms = tuple(replace(term, fill=total(term.fill * least)) for term in hidden.terms)
    return replace(hidden, terms=terms, visible=visible)


def is_truth(node: Any) -> bool:
    return isinstance(node, Node) and isinstance(VALUE.of(node), Tensor) and dtype(node) == torch.bool
