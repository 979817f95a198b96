"""Complex tensors of float32 calls as pairs of real ones, whichever calls compute, move and read them."""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from cortado.base.element import FLOAT32
from cortado.base.errors import Refused
from cortado.frontend.rewrite.decompose import put_before, trace_on, written_out
from cortado.ir.facts import VALUE, note_element, wanted_element
from cortado.ir.graph import add_call, describe
from cortado.ops.float_graph import add_constant, constant_data, is_constant
from cortado.ops.signal.pairs import EACH, FORMS, HALF_SPECTRA, Pair

aten = torch.ops.aten
Tensor = torch.Tensor
_Parts = dict[Node, Pair]  # complex node -> the nodes of its real and imaginary parts


def write_as_pairs(module: GraphModule) -> bool:
    """Replaces every float32 call that reads or gives complex numbers; returns whether there were any."""
    parts: _Parts = {}
    for node in list(module.graph.nodes):  # the calls that replace one are handled with it
        if node.op != "call_function" or not _is_complex(node):
            continue
        if any(source in parts for source in node.all_input_nodes):
            note_element(node, FLOAT32)  # like its operands: no integer operator reads a pair
        if wanted_element(node).floating:
            _take(node, parts)
    for node in reversed(list(module.graph.nodes)):
        if not node.users and holds_complex(node) and node.op != "placeholder":
            module.graph.erase_node(node)
    return bool(parts)


def _is_complex(node: Node) -> bool:
    return computes_complex(node) or any(map(holds_complex, node.all_input_nodes))


def computes_complex(node: Node) -> bool:
    """Whether a node gives complex numbers, or has them in between."""
    return node.target in HALF_SPECTRA or holds_complex(node)


def holds_complex(node: Node) -> bool:
    """Whether a node gives complex numbers."""
    leaves = pytree.tree_leaves(VALUE.of(node))
    return any(isinstance(one, Tensor) and one.is_complex() for one in leaves)


def _take(node: Node, parts: _Parts) -> None:
    """Rewrites one call in real numbers: by its form, part by part, or through torch's decomposition."""
    target: Any = node.target
    for source in node.all_input_nodes:
        if holds_complex(source) and source not in parts:
            parts[source] = _constant(source)
    with node.graph.inserting_before(node):
        if target is operator.getitem or target in EACH:
            parts[node] = Pair(*(_on_part(node, parts, name) for name in ("real", "imag")))
            return
        form = FORMS.get(target)
        if form is not None:
            _replace(node, form, parts)
            return
    smaller = _smaller(target)
    if smaller is None:
        raise Refused(
            f"{describe(node)} takes or gives complex numbers, which is not supported for it; write it with real and "
            "imaginary parts (torch.view_as_real)",
            [node],
        )
    before, end = node.prev, node.next
    written_out(node, smaller)
    calls = []
    while before.next is not end:
        before = before.next
        calls.append(before)
    for call in calls:
        if call.op == "call_function" and _is_complex(call):
            _take(call, parts)


def _smaller(target: Any) -> Callable[..., Any] | None:
    if not isinstance(target, OpOverload):
        return None
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd")
    return target if composite else decomposition_table.get(target)


def _constant(node: Node) -> Pair:
    if not is_constant(node):
        raise Refused(
            f"{describe(node)} gives complex numbers, expected real ones at the model's inputs; take them as two real "
            "numbers each (torch.view_as_complex makes them complex)",
            [node],
        )
    data = constant_data(node).resolve_conj()
    with node.graph.inserting_before(node.next):
        return Pair(*(add_constant(node, name, part) for name, part in (("real", data.real), ("imag", data.imag))))


def _on_part(node: Node, parts: _Parts, name: str) -> Node:
    def part(one: Node) -> Node:
        found: Node = getattr(parts[one], name) if one in parts else one
        return found

    args, kwargs = pytree.tree_map_only(Node, part, (node.args, node.kwargs))
    return add_call(node, node.target, *args, **kwargs)


def _replace(node: Node, form: Callable[..., Any], parts: _Parts) -> None:
    """Traces a form on the parts of its operands, and inserts its calls before the call."""
    operands = [one for one in node.all_input_nodes]
    flat = [half for one in operands for half in _halves(one, parts)]
    arguments, structure = pytree.tree_flatten((node.args, node.kwargs))

    def called(*values: Tensor) -> list[Tensor]:
        given = iter(values)
        known = {one: Pair(next(given), next(given)) if one in parts else next(given) for one in operands}
        filled = [known[item] if isinstance(item, Node) else item for item in arguments]
        args, kwargs = pytree.tree_unflatten(filled, structure)
        result = form(*args, **kwargs)
        return [result.real, result.imag] if isinstance(result, Pair) else [result]

    traced = trace_on(flat, called, {})
    found = put_before(node, traced, flat)
    if len(found) == 1:
        node.replace_all_uses_with(found[0])
        node.graph.erase_node(node)
    else:
        parts[node] = Pair(*found)


def _halves(node: Node, parts: _Parts) -> list[Node]:
    return [parts[node].real, parts[node].imag] if node in parts else [node]
