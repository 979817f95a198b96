"""Calls that hold a mask or the softmax behind one, written out so that each part is a call of its own."""

import operator
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from cortado.frontend.hidden import LEAST, is_float, name_of
from cortado.ir.graph import Bound, add_call, bind, is_call, shape
from cortado.ops._float import constant_data, is_constant
from cortado.ops.attention_forms import ATTENTION_REWRITE
from cortado.ops.pointwise import uniform_value
from cortado.ops.zeroing_forms import WRITTEN_REWRITE

aten = torch.ops.aten

_ARITHMETIC = frozenset(
    {"add", "sub", "subtract", "rsub", "mul", "multiply", "div", "divide", "true_divide", "where", "masked_fill"}
    | {"maximum", "minimum", "full", "full_like", "baddbmm", "addmm", "index_put", "expand", "to", "scalar_tensor"}
)
_WEIGHTED = frozenset(  # what large numbers among weights do to these is no mask
    {"conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "linear", "matmul", "embedding", "batch_norm"}
    | {"layer_norm", "group_norm", "instance_norm", "lstm", "gru", "rnn_tanh", "rnn_relu", "prelu", "embedding_bag"}
)
_ATTENTION = "scaled_dot_product_attention"


def may_have_masks(graph: Graph) -> bool:
    """Whether any number is so large that it may stand for infinity; without one, nothing is looked at."""
    return any(_may_hide(node) or _hand_written(node) is not None for node in graph.nodes)


def _may_hide(node: Node) -> bool:
    if is_constant(node):
        return not all(name_of(user) in _WEIGHTED for user in node.users) and _is_large(node)
    name = name_of(node) if node.op == "call_function" else ""
    if name.removesuffix("_") == _ATTENTION:
        bound = bind(node)
        return bool(bound["is_causal"]) or bound["attn_mask"] is not None
    if name.removesuffix("_") == "log":
        return True
    if name.removesuffix("_") not in _ARITHMETIC:
        return False
    return any(_is_large(value) for value in (*node.args, *node.kwargs.values()))


def _is_large(value: Any) -> bool:
    if isinstance(value, int | float):
        return abs(value) >= -LEAST
    if is_constant(value) and is_float(value):
        return bool((constant_data(value).abs() >= -LEAST).any())
    return False


def write_out_masks(module: GraphModule) -> None:
    """Attention with a mask, x[mask] = number, and softmax by its formula."""
    for node in list(module.graph.nodes):
        if node.op != "call_function":
            continue
        with module.graph.inserting_before(node):
            new = _written_out(node)
        if new is not None:
            node.replace_all_uses_with(new)
            module.graph.erase_node(node)


def _written_out(node: Node) -> Node | None:
    name, bound = name_of(node), bind(node)
    if name == _ATTENTION and (bound["is_causal"] or bound["attn_mask"] is not None):
        return ATTENTION_REWRITE.rewrite(bound)
    if name == "index_put":
        number = uniform_value(bound["values"])
        return WRITTEN_REWRITE.rewrite(bound) if number is not None and abs(number) >= -LEAST else None
    if name == "softmax" and shape(bound["self"]):  # the same of all that differ along this dimension by one number
        dim = bound["dim"] % len(shape(bound["self"]))
        source = _without_largest(bound["self"], dim)
        return None if source is bound["self"] else add_call(node, aten.softmax.int, source, dim)
    found = _hand_written(node)
    return None if found is None else add_call(node, aten.softmax.int, *found)


def _hand_written(node: Node) -> tuple[Node, int] | None:
    """exp(x) / exp(x).sum(dim, keepdim=True) is the softmax of x, and of x without its largest value: x and dim."""
    if node.op != "call_function" or name_of(node) not in ("div", "divide", "true_divide"):
        return None
    bound = bind(node)
    above, below = bound["self"], bound["other"]
    if bound.get("rounding_mode") is not None or not is_call(above, aten.exp.default):
        return None
    dim = _reduced(below, above, ("sum",))
    return None if dim is None else (_without_largest(bind(above)["self"], dim), dim)


def _without_largest(source: Node, dim: int) -> Node:
    """x of x - x.amax(dim, keepdim=True)."""
    if is_call(source, aten.sub.Tensor):
        bound = bind(source)
        left, right = bound["self"], bound["other"]
        if isinstance(right, Node) and bound.get("alpha", 1) == 1 and _reduced(right, left, ("amax", "max")) == dim:
            return left
    return source


def _reduced(node: Any, source: Any, names: tuple[str, ...]) -> int | None:
    """The one dimension that a call reduces of a tensor, and keeps as 1."""
    if is_call(node, operator.getitem):
        pair, place = node.args
        node = pair if place == 0 else None
    if not isinstance(node, Node) or node.op != "call_function" or name_of(node) not in names:
        return None
    bound: Bound = bind(node)
    dims = bound.get("dim")
    given = [dims] if isinstance(dims, int) else list(dims or ())
    if bound["self"] is not source or not bound.get("keepdim") or len(given) != 1:
        return None
    return int(given[0]) % len(shape(source))
