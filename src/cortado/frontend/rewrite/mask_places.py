"""Predicates over the elements of a tensor: a constant mask, or one that the graph computes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from cortado.ir.graph import add_call, shape
from cortado.ops.float_graph import add_constant, add_view, constant_data, is_constant
from cortado.ops.meaning import CallKind, means

aten = torch.ops.aten
Tensor = torch.Tensor


@dataclass(frozen=True)
class Places:
    """Truth values that can be broadcast to their tensor: data, or a boolean node."""

    data: Tensor | Node

    @property
    def sizes(self) -> tuple[int, ...]:
        return shape(self.data) if isinstance(self.data, Node) else tuple(self.data.shape)

    @property
    def constant(self) -> Tensor | None:
        return None if isinstance(self.data, Node) else self.data

    @property
    def nowhere(self) -> bool:
        return self.constant is not None and not bool(self.constant.any())


def places_of(node: Node) -> Places:
    """Returns the places where a boolean node is true."""
    return Places(constant_data(node) if is_constant(node) else node)


def as_node(like: Node, places: Places) -> Node:
    return places.data if isinstance(places.data, Node) else add_constant(like, "mask", places.data)


def viewed(like: Node, places: Places, sizes: Sequence[int]) -> Places:
    if isinstance(places.data, Node):
        return Places(add_view(like, places.data, sizes))
    return Places(places.data.reshape(list(sizes)))


def ranked(like: Node, places: Places, rank: int) -> Places:
    """Prepends dimensions of size 1, up to the rank of the tensor."""
    missing = rank - len(places.sizes)
    return viewed(like, places, (*(1,) * missing, *places.sizes)) if missing > 0 else places


def broadcast(like: Node, places: Places, sizes: Sequence[int]) -> Places:
    """Expands to one truth value for each element."""
    if places.sizes == tuple(sizes):
        return places
    if isinstance(places.data, Node):
        return Places(add_call(like, aten.expand.default, ranked(like, places, len(sizes)).data, list(sizes)))
    return Places(places.data.expand(list(sizes)))


def same(a: Any, b: Any) -> bool:
    """Whether two values are computed in the same way: the same calls of the same operands."""
    if isinstance(a, Node) and isinstance(b, Node):
        if a is b:
            return True
        called = a.op == b.op == "call_function" and a.target == b.target
        return called and same(a.args, b.args) and same(a.kwargs, b.kwargs)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and bool(a == b)


def negated(like: Node, places: Places) -> Places:
    if not isinstance(places.data, Node):
        return Places(~places.data)
    if means(places.data, CallKind.NOT):
        return Places(places.data.all_input_nodes[0])
    return Places(add_call(like, aten.logical_not.default, places.data))


def _opposite(a: Places, b: Places) -> bool:
    """Whether one is the negation of the other, as far as their computation shows."""
    pairs = ((a.data, b.data), (b.data, a.data))
    return any(means(x, CallKind.NOT) and same(x.all_input_nodes[0], y) for x, y in pairs if isinstance(x, Node))


def either(like: Node, a: Places, b: Places) -> Places:
    return _joined(like, a, b, dominant=True)


def both(like: Node, a: Places, b: Places) -> Places:
    return _joined(like, a, b, dominant=False)


def _joined(like: Node, a: Places, b: Places, *, dominant: bool) -> Places:
    """Computes a or b if True is dominant, a and b if False is."""
    rank = max(len(a.sizes), len(b.sizes))
    first, second = a.constant, b.constant
    if first is not None and second is not None:
        return Places(first | second if dominant else first & second)
    if same(a.data, b.data):
        return a
    if _opposite(a, b):
        return Places(torch.full((1,) * rank, dominant))
    for one, other in ((a, b), (b, a)):
        data = one.constant
        if data is not None and bool((data == dominant).all()):
            return ranked(like, one, rank)
        if data is not None and bool((data != dominant).all()) and len(other.sizes) == rank:
            return other
    target = aten.logical_or.default if dominant else aten.logical_and.default
    return Places(add_call(like, target, as_node(like, a), as_node(like, b)))


def anywhere(like: Node, places: Places, dim: int) -> Places:
    """Computes whether places hold anywhere along a dimension, which is kept as 1."""
    if places.sizes[dim] == 1:
        return places
    if isinstance(places.data, Node):
        return Places(add_call(like, aten.any.dim, places.data, dim, True))
    return Places(places.data.any(dim, keepdim=True))


def compact(places: Places) -> Places:
    """Reduces a constant to size 1 in dimensions along which it only repeats."""
    data = places.constant
    if data is None:
        return places
    for dim, size in enumerate(data.shape):
        first = data.narrow(dim, 0, 1) if size else data
        if size > 1 and bool((data == first).all()):
            data = first
    return Places(data)
