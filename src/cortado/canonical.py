"""A float graph in few words: the same function with in-place forms, no-ops and spelling variants gone.

Runs before quantization, so the quantizer, the passes and the operators each know one spelling of one thing. What an
operator's other spellings are stands in its own file, as `Rewrite` records.
"""

from collections.abc import Callable

import torch
from torch.fx import GraphModule, Node

from cortado.graph import Bound, bind
from cortado.op import registry

aten = torch.ops.aten

_NO_OPS = (
    aten.dropout.default,
    aten.feature_dropout.default,
    aten.alpha_dropout.default,
    aten.clone.default,
    aten.contiguous.default,
    aten.alias.default,
    aten.detach.default,
    aten.detach_.default,
    aten.lift_fresh_copy.default,
)


def canonicalize(module: GraphModule) -> GraphModule:
    """Rewrites in place and returns the module."""
    for node in list(module.graph.nodes):
        if node.op == "call_function":
            _out_of_place(node)
            rewrite = registry().rewrites.get(node.target)
            if node.target in _NO_OPS:
                _replace(node, _drop)
            elif rewrite is not None:
                _replace(node, rewrite.rewrite)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def _replace(node: Node, rewrite: Callable[[Bound], Node | None]) -> None:
    with node.graph.inserting_before(node):
        new = rewrite(bind(node))
    if new is not None and new is not node:
        node.replace_all_uses_with(new)
        node.graph.erase_node(node)


def _out_of_place(node: Node) -> None:
    """relu_ and its like: an exported graph keeps them, and they compute what relu does."""
    name = str(node.target.__name__) if isinstance(node.target, torch._ops.OpOverload) else ""
    packet, _, overload = name.partition(".")
    if packet.endswith("_") and not packet.startswith("_"):
        plain = getattr(getattr(aten, packet[:-1], None), overload, None)
        if plain is not None:
            node.target = plain


def _drop(bound: Bound) -> Node:
    first: Node = bound.node.all_input_nodes[0]
    return first
