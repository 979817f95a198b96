"""Pieces that the rules of masks put into a graph: sums, products and choices of what is visible."""

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_arg

from cortado.frontend.places import Places, as_node
from cortado.ir.facts import dtype
from cortado.ir.graph import add_call, shape
from cortado.ops._float import add_constant, out_of_place
from cortado.ops.pointwise import uniform_value

aten = torch.ops.aten
Tensor = torch.Tensor


def number_in(value: Any) -> float | None:
    """A number, or that of a constant which holds one only."""
    if isinstance(value, bool | int | float):
        return float(value)
    found = uniform_value(value) if isinstance(value, Node) else None
    return None if found is None else float(found)


def plain_target(node: Node) -> Any:
    """log of log_: what a call computes, wherever it writes it."""
    target: Any = node.target
    return out_of_place(target) or target if isinstance(target, OpOverload) else target


def values_at(node: Node, source: Node, values: list[float]) -> list[float]:
    """What a function of one tensor, and of numbers, gives for these."""
    function: Any = plain_target(node)
    given = torch.tensor(values, dtype=dtype(source))

    def value(one: Node) -> Tensor:
        return given if one is source else torch.tensor(uniform_value(one), dtype=dtype(one))

    args, kwargs = map_arg((node.args, node.kwargs), value)
    return [float(one) for one in function(*args, **kwargs)]


def fit(like: Node, found: Node) -> Node:
    sizes = shape(like)
    return found if shape(found) == sizes else add_call(like, aten.expand.default, found, list(sizes))


def times(like: Node, visible: Node | None, factor: float) -> Node | None:
    if visible is None or factor == 1.0:
        return visible
    return add_call(like, aten.mul.Tensor, visible, factor)


def real(like: Node, value: Any) -> Node:
    """A visible operand as a tensor."""
    if isinstance(value, Node):
        return value
    return add_constant(like, "visible", torch.tensor([0.0 if value is None else float(value)]))


def choose(like: Node, where: Places, first: Node, second: Node) -> Node:
    """One of two tensors, element by element."""
    number = number_in(first)
    if number is not None:
        return add_call(like, aten.masked_fill.Scalar, fit(like, second), as_node(like, where), number)
    data = where.constant
    if data is None:
        return add_call(like, aten.where.self, as_node(like, where), first, second)
    parts = [
        add_call(like, aten.mul.Tensor, one, add_constant(like, "part", kept.to(torch.float32)))
        for one, kept in ((first, data), (second, ~data))
    ]
    return add_call(like, aten.add.Tensor, *parts)
