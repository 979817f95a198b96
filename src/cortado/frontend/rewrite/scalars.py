"""Dimensions for tensors of rank 0: torch treats one as a row of one value, and so does the graph after this pass."""

import functools
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, Node

from cortado.ir.facts import VALUE
from cortado.ir.graph import add_call, bind, shape
from cortado.ops.float_graph import add_view

DIMENSIONS = ("dim", "dims", "axis", "axes")  # their names in torch's schemas


def give_scalars_a_dimension(graph: Graph) -> None:
    """Gives tensors of rank 0 a dimension in calls that name one: the calls take them as [1], and the results keep
    their shapes."""
    for node in list(graph.nodes):
        if _names_a_dimension_of_none(node):
            with graph.inserting_before(node):
                _write_in_one_dimension(node)


def _names_a_dimension_of_none(node: Node) -> bool:
    """Whether a call names a dimension of a tensor of rank 0; views are excluded."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    schema = node.target._schema
    if node.target.is_view or schema.is_mutable or not any(one.name in DIMENSIONS for one in schema.arguments):
        return False
    given = bind(node)
    first = given[schema.arguments[0].name]
    named = any(_is_dimension(given.get(name)) for name in DIMENSIONS)
    return named and isinstance(first, Node) and _is_scalar(first)


def _is_dimension(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, Sequence) and len(value) > 0)


def _is_scalar(node: Node) -> bool:
    value = VALUE.of(node)
    return isinstance(value, Tensor) and value.dim() == 0


def _write_in_one_dimension(node: Node) -> None:
    made = _in_one_dimension(node)
    if made is None:
        return
    if isinstance(VALUE.must(node), Tensor):
        node.replace_all_uses_with(_shaped_as(made, node))
    for user in list(node.users):  # of a call with several results
        part = add_call(user, operator.getitem, made, user.args[1])
        user.replace_all_uses_with(_shaped_as(part, user))
        node.graph.erase_node(user)
    node.graph.erase_node(node)


def _in_one_dimension(node: Node) -> Node | None:
    """Adds the call with operands of rank 1; only the first, if others (a fill value) must have rank 0; None if neither
    is valid."""
    scalars = [one for one in node.all_input_nodes if _is_scalar(one)]
    for chosen in (scalars, scalars[:1]):
        rows = {one: add_view(node, one, (1,)) for one in chosen}
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), functools.partial(_in, rows))
        try:
            return add_call(node, node.target, *args, **kwargs)
        except (RuntimeError, IndexError):
            continue
    return None


def _in(rows: dict[Node, Node], node: Node) -> Node:
    return rows.get(node, node)


def _shaped_as(made: Node, node: Node) -> Node:
    return made if shape(made) == shape(node) else add_view(node, made, shape(node))
