"""Integers that are only moved: the call itself on their bytes, which are one dimension more behind the others.

Which call on bytes that is, is found by making it once on positions, 0, 1, 2, ...: what comes out says which value goes
where. Where no form of the call does the same with bytes, the bytes are taken by a constant list of positions.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from cortado.ir.domain import DomainRule, Interval, Making, hull
from cortado.ir.graph import Bound, add_call, shape
from cortado.ops._float import add_constant, add_view, constant_data, is_constant
from cortado.ops._words import whole_number
from cortado.ops.picking_forms import pick
from cortado.ops.word_bytes import AS_BYTES, FROM_BYTES, WORD

aten = torch.ops.aten
Tensor = torch.Tensor


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
    given = [making.word(node) for node in operands(bound)]
    found, others = [word for word in given if word is not None], rest(bound)
    if others is None or len(found) < len(given) or 0 in shape(bound.node):
        return None
    sizes = [shape(node) for node in operands(bound)]
    wanted = _made(bound, _numbered(sizes, 1), others)
    if len(found) == 1 and torch.equal(wanted.reshape(-1), torch.arange(math.prod(sizes[0]))):
        return add_view(bound.node, found[0], shape(bound.node))
    return _on_bytes(bound, found, wanted, others)


def _numbered(sizes: list[tuple[int, ...]], bytes_: int) -> list[Tensor]:
    """Tensors whose values are their own positions, one tensor's behind another's."""
    found, start = [], 0
    for size in sizes:
        full = (*size, bytes_) if bytes_ > 1 else size
        found.append(torch.arange(start, start + math.prod(full)).reshape(full))
        start += math.prod(full)
    return found


def _made(bound: Bound, given: list[Tensor], others: Mapping[str, Any]) -> Tensor:
    target: Any = bound.node.target
    first: Any = given if isinstance(next(iter(bound.values.values())), list | tuple) else given[0]
    args, kwargs = _split(bound, others)
    made: Tensor = target(first, *args, **kwargs)
    return made


def _split(bound: Bound, others: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by position, and those that are taken by name alone."""
    schema: Any = bound.node.target._schema  # type: ignore[union-attr]
    named = {argument.name for argument in schema.arguments if argument.kwarg_only}
    args = [value for name, value in others.items() if name not in named]
    return args, {name: value for name, value in others.items() if name in named}


def _on_bytes(bound: Bound, found: list[Node], wanted: Tensor, others: Mapping[str, Any]) -> Node:
    like, target = bound.node, bound.node.target
    bytes_ = [add_call(like, AS_BYTES, word) for word in found]
    lifted = wanted[..., None] * WORD + torch.arange(WORD)
    numbered = _numbered([shape(word) for word in found], WORD)
    for candidate in _candidates(others, len(shape(found[0])), len(shape(like))):
        try:
            same = torch.equal(_made(bound, numbered, candidate), lifted)
        except (RuntimeError, IndexError):
            continue
        if same:
            first: Any = bytes_ if isinstance(next(iter(bound.values.values())), list | tuple) else bytes_[0]
            given = {name: bound[name] if _holds_tensor(value) else value for name, value in candidate.items()}
            args, kwargs = _split(bound, given)
            return add_call(like, FROM_BYTES, add_call(like, target, first, *args, **kwargs))
    flat = [add_view(like, one, (math.prod(shape(one)),)) for one in bytes_]
    joined = flat[0] if len(flat) == 1 else add_call(like, aten.cat.default, flat, 0)
    return add_call(like, FROM_BYTES, pick(like, joined, lifted))


def _holds_tensor(value: Any) -> bool:
    return any(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(value))


def _candidates(others: Mapping[str, Any], rank: int, out: int) -> Iterator[dict[str, Any]]:
    """The same arguments for a tensor with a dimension more: dimensions counted from the front, lists with or without
    an entry for the bytes."""
    for ranks in sorted({rank, out}):
        front = {name: _from_front(value, ranks) for name, value in others.items()}
        yield front
        for name in [name for name, value in others.items() if isinstance(value, list | tuple)]:
            for last in (WORD, ranks, 1):
                yield {**front, name: [*others[name], last]}
                yield {**front, name: [*front[name], last]}


def _from_front(value: Any, rank: int) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value % rank if -rank <= value < 0 else value
    return [_from_front(one, rank) for one in value] if isinstance(value, list | tuple) else value


MOVED = DomainRule(aten=(), bounds=bounds, words=words, closed=True, keeps_truth=True)
"""Of every call whose pattern says that it only moves; constant positions are asked for by the rule of positions."""


# ---- borders -------------------------------------------------------------------------------------------------


def _filling(bound: Bound) -> int | None:
    """What stands in a border of constant numbers."""
    return whole_number(bound.get("value") or 0) if bound.get("mode", "constant") == "constant" else None


def _padded(making: Making, bound: Bound) -> Node | None:
    word, number, like = making.word(bound["self"]), _filling(bound), bound.node
    if word is None or number is None:
        return None
    count = math.prod(shape(word))
    numbered = torch.arange(count, dtype=torch.float64).reshape(shape(word))
    taken = aten.constant_pad_nd.default(numbered, bound["pad"], float(count)).to(torch.int64)
    filling = add_constant(like, "filling", torch.tensor([number]))
    parts = [add_call(like, AS_BYTES, add_view(like, one, (math.prod(shape(one)),))) for one in (word, filling)]
    joined = add_call(like, aten.cat.default, parts, 0)
    return add_call(like, FROM_BYTES, pick(like, joined, taken[..., None] * WORD + torch.arange(WORD)))


def _padded_bounds(making: Making, bound: Bound) -> Interval | None:
    number = _filling(bound)
    return None if number is None else hull([making.interval(bound["self"]), Interval(number, number)])


PADDED_RULE = DomainRule(
    aten=(aten.pad.default, aten.constant_pad_nd.default),
    bounds=_padded_bounds,
    words=_padded,
    truth=lambda making, bound: making.again(bound, making.truth),
)
