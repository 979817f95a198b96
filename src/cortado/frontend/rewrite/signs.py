"""Signs, determined before anything is rounded: zero crossings of a signal.

`a * b < 0` of two real tensors depends on their signs, which a product of codes loses where it rounds to 0: the
operands themselves are compared with 0. And `x[1:] < 0` is `(x < 0)[1:]`: the comparison is moved before calls that
only move values, so that on samples that were integers it is a comparison of integers.
"""

from typing import Any

import torch
from torch.fx import GraphModule, Node

from cortado.ir.analysis import Analysis, rewrite_each
from cortado.ir.facts import VALUE, FactKey, dtype
from cortado.ir.graph import add_call, bind, call_again, shape
from cortado.ir.matching import patterns_of
from cortado.ops.float_graph import is_constant
from cortado.ops.integer.words import is_number, known_number
from cortado.ops.meaning import ABOVE, BELOW, CallKind, meaning_of, means

aten = torch.ops.aten


def compare_before(module: GraphModule) -> None:
    """Moves comparisons with 0 before products and moves of values. Rewrites in place; a graph without such comparisons
    is unchanged."""
    rewrite_each(module.graph.nodes, lambda node: _signs(node) if means(node, CallKind.COMPARE) else None)
    module.graph.eliminate_dead_code()
    COUNTED.forget(module.graph.nodes)


def _signs(node: Node) -> Node | None:
    bound = bind(node)
    side, number = bound["self"], bound["other"]
    if not isinstance(side, Node) or not is_number(number) or float(known_number(number)) != 0.0 or is_constant(side):
        return None
    meaning = meaning_of(node)
    if meaning is None or not dtype(side).is_floating_point:
        return None
    if means(side, CallKind.PRODUCT) and meaning.accepts in (BELOW, ABOVE):
        factors = [bind(side)["self"], bind(side)["other"]]
        if all(isinstance(one, Node) and not is_constant(one) and not is_number(one) for one in factors):
            return _of_product(node, factors, meaning.accepts)
    return _moved(node, side)


def _of_product(node: Node, factors: list[Any], accepts: int) -> Node | None:
    """Compares a product with 0 by the signs of its factors: different, or equal."""
    if factors[0] is factors[1]:
        return None
    below = [_compare(node, one, aten.lt.Scalar) for one in factors]
    above = [_compare(node, one, aten.gt.Scalar) for one in factors]
    pairs = [(below[0], above[1]), (above[0], below[1])] if accepts == BELOW else [tuple(below), tuple(above)]
    halves = [add_call(node, aten.logical_and.default, *pair) for pair in pairs]
    return add_call(node, aten.logical_or.default, *halves)


def _compare(like: Node, side: Node, target: Any) -> Node:
    made = add_call(like, target, side, 0.0)
    moved = _moved(made, side)
    return made if moved is None else moved


def _moved(node: Node, side: Node) -> Node | None:
    """Moves a comparison before the moves of its operand, if the operand came from integers."""
    chain = []
    while side.op == "call_function" and _only_moves(side):
        chain.append(side)
        side = side.all_input_nodes[0]
    if not chain or not COUNTED.of(side):
        return None
    target: Any = node.target
    made = add_call(node, target, side, 0.0)
    for one in reversed(chain):  # these read no other tensor
        made = call_again(one, lambda _, source=made: source, like=made)  # type: ignore[misc]
    return made if shape(made) == shape(node) else None


def _only_moves(node: Node) -> bool:
    reads = node.all_input_nodes
    single = isinstance(VALUE.of(node), torch.Tensor) and len(reads) == 1
    return single and any(pattern.moves for pattern in patterns_of(node.target))


class _Counted(Analysis[bool]):
    """Which tensors are computed from integers by calls of one tensor and constants."""

    key = FactKey[bool]("cortado_counted")

    def transfer(self, node: Node) -> bool:
        if not isinstance(VALUE.of(node), torch.Tensor) or not dtype(node).is_floating_point:
            return isinstance(VALUE.of(node), torch.Tensor)
        reads = [one for one in node.all_input_nodes if not is_constant(one)]
        return node.op == "call_function" and len(reads) == 1 and self.of(reads[0])


COUNTED = _Counted()
