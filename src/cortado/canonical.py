"""A float graph in few words: the same function with in-place forms, no-ops and spelling variants gone.

Runs before quantization, so the quantizer, the passes and the operators each know one spelling of one thing. What an
operator's other spellings are stands in its own file, as `Rewrite` records.
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from cortado.errors import CortadoError
from cortado.graph import USER_INPUT, Bound, bind, describe
from cortado.op import registry
from cortado.ops._float import add_constant, constant_data, make_out_of_place

aten = torch.ops.aten

_COPIES = (
    aten.clone.default,
    aten.contiguous.default,
    aten.alias.default,
    aten.detach.default,
    aten.detach_.default,
    aten.lift_fresh_copy.default,
    aten.positive.default,
)
_CONVERSIONS = (
    aten.to.dtype,
    aten.to.dtype_layout,
    aten.to.device,
    aten.to.other,
    aten._to_copy.default,
    aten.type_as.default,
)
_DROPOUTS = (
    aten.dropout.default,
    aten.dropout_.default,
    aten.feature_dropout.default,
    aten.alpha_dropout.default,
    aten.feature_alpha_dropout.default,
)
_CHECKS = (aten._assert_tensor_metadata.default, aten._assert_async.msg, aten._assert_scalar.default)


def canonicalize(module: GraphModule) -> GraphModule:
    """Rewrites in place and returns the module."""
    graph = module.graph
    _inline_contexts(module)
    _check_writes(graph)
    for node in list(graph.nodes):
        if node.op == "placeholder":
            node.meta[USER_INPUT] = True  # later, constants are placeholders too
        if node.op == "call_function":
            _canonicalize(node)
    graph.eliminate_dead_code()
    module.recompile()
    return module


def _canonicalize(node: Node) -> None:
    if node.target in _CHECKS:
        node.graph.erase_node(node)
        return
    make_out_of_place(node)
    rewrite = registry().rewrites.get(node.target) if isinstance(node.target, OpOverload) else None
    if _is_no_op(node):
        _replace(node, _first_operand)
    elif _is_constant(node):
        _replace(node, _folded)
    elif rewrite is not None:
        _replace(node, rewrite.rewrite)


def _replace(node: Node, rewrite: Callable[[Bound], Node | None]) -> None:
    with node.graph.inserting_before(node):
        new = rewrite(bind(node))
    if new is not None and new is not node:
        node.replace_all_uses_with(new)
        node.graph.erase_node(node)


# ---- no-ops and constants ------------------------------------------------------------------------------------


def _is_no_op(node: Node) -> bool:
    """Copies, conversions to the type a tensor already has, dropouts in evaluation mode."""
    if node.target in _COPIES:
        return True
    if node.target in _DROPOUTS:
        return not bind(node)["train"]
    if node.target in _CONVERSIONS:
        return bool(node.meta["val"].dtype == node.all_input_nodes[0].meta["val"].dtype)
    return False


def _first_operand(bound: Bound) -> Node:
    first: Node = bound.node.all_input_nodes[0]
    return first


def _is_constant(node: Node) -> bool:
    """A call that gives the same tensor every time: computed from constants only, not by chance."""
    if not isinstance(node.target, OpOverload) or torch.Tag.nondeterministic_seeded in node.target.tags:
        return False
    single = isinstance(node.meta.get("val"), torch.Tensor)
    return single and all(source.op == "get_attr" for source in node.all_input_nodes)


def _folded(bound: Bound) -> Node:
    node = bound.node
    args, kwargs = pytree.tree_map_only(Node, constant_data, (node.args, node.kwargs))
    target: Any = node.target
    with torch.no_grad():
        data = target(*args, **kwargs)
    return add_constant(node, "folded", data)


# ---- blocks under no_grad or a switched-off autocast ---------------------------------------------------------


def _inline_contexts(module: GraphModule) -> None:
    """`with torch.no_grad():` is a call of a graph of its own; gradients are none of our business, so it is inlined."""
    found = True
    while found:
        found = False
        for node in list(module.graph.nodes):
            start = _context_body(node)
            if start is not None:
                _inline(module, node, start)
                found = True


def _context_body(node: Node) -> int | None:
    """The position of the inner graph among the arguments of such a call."""
    higher = torch.ops.higher_order
    if node.target is higher.wrap_with_set_grad_enabled:
        return 1
    return 4 if node.target is higher.wrap_with_autocast and not node.args[2] else None


def _inline(module: GraphModule, node: Node, start: int) -> None:
    body, *inputs = node.args[start:]
    assert isinstance(body, Node)
    inner = module.get_submodule(str(body.target))
    assert isinstance(inner, GraphModule)
    holders = [holder for holder in inner.graph.nodes if holder.op == "placeholder"]
    given: dict[Node, Any] = dict(zip(holders, inputs, strict=True))
    with module.graph.inserting_before(node):
        results: Any = module.graph.graph_copy(inner.graph, given)
    for user in list(node.users):
        assert user.target is operator.getitem
        user.replace_all_uses_with(results[user.args[1]])
        module.graph.erase_node(user)
    module.graph.erase_node(node)


# ---- in-place writes -----------------------------------------------------------------------------------------


def _check_writes(graph: Graph) -> None:
    """An in-place call computes what its plain form does, as long as nobody looks at the tensor it wrote through
    another name. Later uses of the tensor itself get the new value; anything else is refused."""
    order = {node: position for position, node in enumerate(graph.nodes)}
    owner: dict[Node, Node] = {}  # node -> the tensor whose memory it shares
    for node in graph.nodes:
        kind = _memory(node)
        source = node.args[0] if kind is not None else None
        owner[node] = owner[source] if isinstance(source, Node) else node
        if kind and isinstance(source, Node):
            _check_write(node, source, owner, order)


def _memory(node: Node) -> bool | None:
    """True for an in-place write into the first argument, False for a view of it, None for a result of its own."""
    if not isinstance(node.target, OpOverload) or not node.args:
        return None
    arguments, returns = node.target._schema.arguments, node.target._schema.returns
    if not arguments or not returns or arguments[0].alias_info is None:
        return None
    if arguments[0].alias_info.is_write:
        return torch.Tag.inplace_view not in node.target.tags  # unsqueeze_ changes the shape, not the memory
    return False if returns[0].alias_info is not None else None


def _check_write(node: Node, source: Node, owner: dict[Node, Node], order: dict[Node, int]) -> None:
    if owner[source].op == "get_attr":
        raise CortadoError(
            f"{describe(node)} changes '{owner[source].target}', which would have to last until the next call; "
            "a compiled model keeps no state: pass it in as an input and return it as an output"
        )
    source.replace_all_uses_with(node, delete_user_cb=lambda user: order[user] > order[node])
    for other in [other for other in owner if owner[other] is owner[source] and other not in (node, source)]:
        if any(order[user] > order[node] for user in other.users):
            raise CortadoError(
                f"{describe(node)} writes into memory that {describe(other)} shares and that is read again later; "
                "write it without the in-place operation (y = f(x), torch.cat, torch.where)"
            )
