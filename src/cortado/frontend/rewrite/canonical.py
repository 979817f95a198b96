"""The canonical float graph: the same function without in-place forms, no-ops and spelling variants.

The alternative spellings of an operator are in its own file, as `Rewrite` records.

Dimensions for tensors of rank 0: torch treats one as a row of one value, and so does the graph after this pass.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from cortado.base.errors import CortadoError, Refused
from cortado.ir.facts import USER_INPUT, VALUE, dtype, wanted_element
from cortado.ir.graph import Bound, add_call, bind, computed_call, describe, shape
from cortado.ir.op import registry
from cortado.ops.float_graph import add_constant, add_view, constant_data, make_out_of_place, writes_in_place
from cortado.ops.meaning import CallKind, means, target_means

aten = torch.ops.aten

_FILLS = (CallKind.FILL, CallKind.OVERWRITE, CallKind.BROADCAST)  # only shape and dtype of their first operand matter
_PLAIN = (CallKind.COPY, CallKind.CONVERT, CallKind.DROPOUT, *_FILLS, CallKind.EMPTY, CallKind.CHECK)


def is_plain(target: Any) -> bool:
    """Whether calls of a target are handled in this module, independently of operators."""
    return target_means(target, *_PLAIN) and not writes_in_place(target)


def fold(graph: Graph) -> None:
    """Removes no-ops and copies, and folds constants."""
    for node in [node for node in graph.nodes if node.op == "call_function"]:
        make_out_of_place(node)
        plainer = _plainer(node)
        if plainer is not None:
            _replace(node, plainer)


def respell(graph: Graph) -> None:
    """Simplifies, and rewrites each call that has alternative spellings to the one that its operator's file names."""
    for node in list(graph.nodes):
        if node._erased:  # erased by the rewrite of a call with several results
            continue
        if node.op == "placeholder":
            USER_INPUT.note(node, True)  # later, constants are placeholders too
        if node.op == "call_function":
            _canonicalize(node)
    graph.eliminate_dead_code()


def separate(graph: Graph) -> None:
    """Rewrites calls that split a tensor as one call for each part, which analyses can follow."""
    for node in list(graph.nodes):
        rewrite = registry().rewrites.get(node.target) if isinstance(node.target, OpOverload) else None
        if rewrite is not None and rewrite.moves and not isinstance(VALUE.of(node), torch.Tensor):
            _replace(node, rewrite.rewrite)
    graph.eliminate_dead_code()


def _canonicalize(node: Node) -> None:
    if _simplified(node):
        return
    rewrite = registry().rewrites.get(node.target) if isinstance(node.target, OpOverload) else None
    if rewrite is not None and (rewrite.any_element or not wanted_element(node).floating):
        _replace(node, rewrite.rewrite)


def simplify(graph: Graph) -> None:
    """Removes no-ops and folds constants; other spellings are not rewritten yet."""
    for node in list(graph.nodes):
        if node.op == "call_function":
            _simplified(node)


def _simplified(node: Node) -> bool:
    """Whether a call was removed, folded or rewritten here, so that no `Rewrite` applies."""
    if means(node, CallKind.CHECK):
        node.graph.erase_node(node)
        return True
    make_out_of_place(node)
    simpler = _simpler(node)
    if simpler is not None:
        _replace(node, simpler)
    return simpler is not None


def _simpler(node: Node) -> Callable[[Bound], Node | None] | None:
    plainer = _plainer(node)
    if plainer is not None:
        return plainer
    return _converted if means(node, CallKind.CONVERT) else None


def _plainer(node: Node) -> Callable[[Bound], Node | None] | None:
    """Returns the rewrite for a no-op, a constant call or a call that only returns a written value; None for others."""
    if _is_no_op(node):
        return _first_operand
    if _is_constant(node):
        return _folded
    return _copied if means(node, CallKind.OVERWRITE, CallKind.BROADCAST) else None


def _replace(node: Node, rewrite: Callable[[Bound], Node | None]) -> None:
    with node.graph.inserting_before(node):
        new = rewrite(bind(node))
    if new is not None and new is not node:
        node.replace_all_uses_with(new)
        node.graph.erase_node(node)


# ---- no-ops and constants ------------------------------------------------------------------------------------


def _is_no_op(node: Node) -> bool:
    """Whether a call is a copy, a conversion to the dtype it already has, or a dropout in evaluation mode."""
    if means(node, CallKind.DROPOUT):
        return not bind(node)["train"]
    if means(node, CallKind.CONVERT):
        return bool(dtype(node) == dtype(node.all_input_nodes[0]))
    return means(node, CallKind.COPY)


def _converted(bound: Bound) -> Node | None:
    """Rewrites a conversion to another dtype in its canonical spelling."""
    if bound.node.target == aten.to.dtype:
        return None
    return add_call(bound.node, aten.to.dtype, _first_operand(bound), dtype(bound.node))


def _first_operand(bound: Bound) -> Node:
    first: Node = bound.node.all_input_nodes[0]
    return first


def _is_constant(node: Node) -> bool:
    """Whether a call gives the same tensor every time: computed from constants only, and not at random."""
    if not isinstance(node.target, OpOverload) or torch.Tag.nondeterministic_seeded in node.target.tags:
        return False
    single = isinstance(VALUE.of(node), torch.Tensor) and not means(node, CallKind.EMPTY)
    sources = pytree.tree_leaves((node.args[1:] if means(node, *_FILLS) else node.args, node.kwargs))
    return single and all(source.op == "get_attr" for source in sources if isinstance(source, Node))


def _folded(bound: Bound) -> Node:
    node = bound.node
    with torch.no_grad():
        data = computed_call(node, _shaped)
    return add_constant(node, "folded", data)


def _shaped(node: Node) -> torch.Tensor:
    """Returns the data of a constant, or zeros for a tensor of which only shape and dtype matter."""
    if node.op == "get_attr":
        return constant_data(node)
    return torch.zeros(shape(node), dtype=dtype(node))


def _copied(bound: Bound) -> Node:
    """Returns the value that overwrites a whole tensor, in that tensor's dtype and shape."""
    written: Node = bound["src"] if "src" in bound.values else bound["value"]
    if dtype(written) != dtype(bound.node):
        written = add_call(bound.node, aten.to.dtype, written, dtype(bound.node))
    sizes = list(shape(bound.node))
    return written if list(shape(written)) == sizes else add_call(bound.node, aten.expand.default, written, sizes)


def check_real(graph: Graph) -> None:
    for node in graph.nodes:
        value = VALUE.of(node)
        if isinstance(value, torch.Tensor) and value.is_complex():
            raise Refused(
                f"{describe(node)} gives complex numbers, expected real ones; write it with real and imaginary parts: "
                "only the absolute values of torch.complex(a, b) and torch.view_as_complex(x) are supported; float32 "
                "supports all of them (--activations float32, --float32 'MODULE')",
                [node],
            )


def check_filled(graph: Graph) -> None:
    for node in graph.nodes:
        if means(node, CallKind.EMPTY):
            raise CortadoError(
                f"{describe(node)} gives uninitialized memory, expected values that are the same every time; use "
                "torch.zeros, or build the tensor with torch.cat or torch.stack"
            )


# ---- blocks under no_grad or a switched-off autocast ---------------------------------------------------------


def inline_contexts(module: GraphModule) -> bool:
    """Inlines `with torch.no_grad():`, which is a call of a graph of its own: gradients don't matter here. Returns
    whether there was any."""
    blocks = [(node, context_body(node)) for node in module.graph.nodes]
    found = [(node, start) for node, start in blocks if start is not None]
    for node, start in found:
        _inline(module, node, start)
    return bool(found) and (inline_contexts(module) or True)


def context_body(node: Node) -> int | None:
    """Returns the position of the inner graph among the arguments of such a call; None for other calls."""
    higher = torch.ops.higher_order
    if node.target is higher.wrap_with_set_grad_enabled:
        return 1
    if node.target is higher.wrap_with_autocast:
        _device, _dtype, enabled, *_ = node.args
        return None if enabled else 4
    return None


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


# ---- tensors of rank 0 ------------------------------------------------------------------------------

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
