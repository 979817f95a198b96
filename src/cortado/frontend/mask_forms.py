"""Calls that hold a mask or the softmax behind one, written out so that each part is a call of its own."""

import operator
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from cortado.frontend.hidden import LEAST, hides, hiding, numbers_of
from cortado.frontend.mask_parts import plain_target, values_at
from cortado.ir.graph import Bound, add_call, bind, is_call, shape
from cortado.ir.op import registry
from cortado.ops._families import LARGEST_VALUE, is_quotient, packet_of
from cortado.ops._float import is_constant
from cortado.ops.attention_forms import ATTENTION_REWRITE
from cortado.ops.pointwise import COMBINATIONS, FUNCTIONS, attribute, uniform_value

aten = torch.ops.aten


def may_have_masks(graph: Graph) -> bool:
    """Whether any number is so large that it may stand for infinity; without one, nothing is looked at."""
    return any(_may_hide(node) or _hand_written(node) is not None for node in graph.nodes)


def _may_hide(node: Node) -> bool:
    if is_constant(node):
        data = attribute(node)
        return (
            data is not None
            and data.dtype != torch.bool
            and any(hiding(sign * data.float()) is not None for sign in (1, -1))
        )
    if node.op != "call_function":
        return False
    return _has_mask(node) or any(abs(one) >= -LEAST for one in (*numbers_of(node), *_of_truth(node)))


def _has_mask(node: Node) -> bool:
    """Attention that does not look everywhere."""
    if not is_call(node, *ATTENTION_REWRITE.aten):
        return False
    bound = bind(node)
    return bool(bound["is_causal"]) or bound["attn_mask"] is not None


def _of_truth(node: Node) -> list[float]:
    """What a function of one tensor gives for 0 and 1: log(0), 1 / 0."""
    others = [one for one in node.all_input_nodes if uniform_value(one) is None]
    known = any(plain_target(node) in one for one in (FUNCTIONS, COMBINATIONS))
    return values_at(node, others[0], [0.0, 1.0]) if known and len(others) == 1 else []


def puts_masks(node: Node) -> bool:
    """Whether an operator's file says in smaller calls what a call with a large number is."""
    return node.target in registry().decompositions and any(hides(number) for number in numbers_of(node))


def write_out_masks(module: GraphModule) -> None:
    """Attention with a mask, and softmax by its formula."""
    for node in list(module.graph.nodes):
        if node.op != "call_function":
            continue
        with module.graph.inserting_before(node):
            new = _written_out(node)
        if new is not None:
            node.replace_all_uses_with(new)
            module.graph.erase_node(node)


def _written_out(node: Node) -> Node | None:
    bound = bind(node)
    if _has_mask(node):
        return ATTENTION_REWRITE.rewrite(bound)
    if is_call(node, aten.softmax.int) and shape(bound["self"]):  # the same of all that differ by one number along it
        dim = bound["dim"] % len(shape(bound["self"]))
        source = _without_largest(bound["self"], dim)
        return None if source is bound["self"] else add_call(node, aten.softmax.int, source, dim)
    found = _hand_written(node)
    return None if found is None else add_call(node, aten.softmax.int, *found)


def _hand_written(node: Node) -> tuple[Node, int] | None:
    """exp(x) / exp(x).sum(dim, keepdim=True) is the softmax of x, and of x without its largest value: x and dim."""
    if not is_quotient(node):
        return None
    bound = bind(node)
    above, below = bound["self"], bound["other"]
    if not is_call(above, aten.exp.default):
        return None
    dim = _reduced(below, above, (aten.sum,))
    return None if dim is None else (_without_largest(bind(above)["self"], dim), dim)


def _without_largest(source: Node, dim: int) -> Node:
    """x of x - x.amax(dim, keepdim=True)."""
    if is_call(source, aten.sub.Tensor):
        bound = bind(source)
        left, right = bound["self"], bound["other"]
        if isinstance(right, Node) and bound.get("alpha", 1) == 1 and _reduced(right, left, LARGEST_VALUE) == dim:
            return left
    return source


def _reduced(node: Any, source: Any, packets: tuple[Any, ...]) -> int | None:
    """The one dimension that a call reduces of a tensor, and keeps as 1."""
    if is_call(node, operator.getitem):
        pair, place = node.args
        node = pair if place == 0 else None
    if not isinstance(node, Node) or packet_of(node) not in packets:
        return None
    bound: Bound = bind(node)
    dims = bound.get("dim")
    given = [dims] if isinstance(dims, int) else list(dims or ())
    if bound["self"] is not source or not bound.get("keepdim") or len(given) != 1:
        return None
    return int(given[0]) % len(shape(source))
