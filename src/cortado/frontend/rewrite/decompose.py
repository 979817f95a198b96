"""Decomposition of calls without an operator into calls that have one.

torch has decompositions of most of its operators, and the files of `ops` have others (`Decomposition`). A call is
decomposed only if every resulting call is supported; otherwise it stays, and is refused under the name that the user
wrote.
"""

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from cortado.frontend.rewrite.canonical import is_plain
from cortado.ir.facts import VALUE, wanted_element
from cortado.ir.graph import add_call, bind, fake_mode_of, output_node
from cortado.ir.op import registry
from cortado.ops.float_graph import add_constant, is_constant, make_out_of_place
from cortado.ops.signal.pairs import FORMS

Tensor = torch.Tensor
_Function = Callable[..., Any]


class _Declined(Exception):
    """Raised by a decomposition that does not support these arguments."""


def spell_out(module: GraphModule, only: Callable[[Node], bool] = lambda node: True) -> None:
    """Decomposes calls into supported ones, in place. Readers are handled before their operands, so that they can
    inspect these; the resulting calls are decomposed in turn."""
    left = [node for node in module.graph.nodes if node.op == "call_function" and only(node)]
    while left:
        node = left.pop()
        if not isinstance(node.target, OpOverload) or is_plain(node.target):
            continue
        make_out_of_place(node)
        function = _function_of(node)
        traced = None if function is None else _traced(node, function, floating=wanted_element(node).floating)
        if traced is not None:
            left += _inline(node, traced)


def _is_known(target: Any, floating: bool) -> bool:
    """Whether an operator takes a call in some form; in float32, an operator of float32 or one that only moves
    values."""
    known = registry()
    if not floating:
        return is_plain(target) or target in known.patterns or target in known.rewrites
    return target in known.domains or _has_kernel(target)


def _has_kernel(target: Any) -> bool:
    """Whether float32 takes a call of real numbers as it is; a domain rule can be for integers only."""
    known = registry()
    rewrite = known.rewrites.get(target)
    moves = any(pattern.moves for pattern in known.patterns.get(target, ()))
    written = rewrite is not None and rewrite.any_element
    return is_plain(target) or target in known.floats or moves or written


def _gives_reals(node: Node) -> bool:
    value = VALUE.of(node)
    return isinstance(value, Tensor) and value.is_floating_point()


def _reads_reals(node: Node) -> bool:
    return any(_gives_reals(one) for one in node.all_input_nodes)


def _function_of(node: Node) -> _Function | None:
    """Returns a function that decomposes a call; None if there is none or it is not needed."""
    target: Any = node.target
    floating = wanted_element(node).floating
    known = registry()
    ours = known.decompositions.get(target) if not floating or target not in known.floats else None
    real = known.float_decompositions.get(target) if floating and (_gives_numbers(node) or _reads_reals(node)) else None
    for one in (real, ours):
        if one is not None and (one.takes is None or one.takes(bind(node))):
            return _by_name(target, one.function)
    taken = _has_kernel(target) if floating and _gives_reals(node) else _is_known(target, floating)
    if taken or not node.all_input_nodes or not _gives_numbers(node):
        return None
    return target if _is_composite(target) else decomposition_table.get(target)


def has_float32(node: Node) -> bool:
    """Whether float32 has an operator for a call, or for all calls of its decomposition."""
    known, target = registry(), node.target
    if target in known.floats or target in known.float_decompositions or target in FORMS:
        return True
    if not isinstance(target, OpOverload) or not node.all_input_nodes:
        return False
    if _is_composite(target):
        traced = _trace(node, target, {}).graph.nodes
        calls = [one for one in traced if one.op == "call_function" and one.all_input_nodes]  # others are constants
        return all(one.target is operator.getitem or _is_known(one.target, True) or has_float32(one) for one in calls)
    function = _table(floating=True).get(target)
    return function is not None and _traced(node, function, floating=True) is not None


def _is_composite(target: OpOverload) -> bool:
    """Whether torch implements an operator entirely by calls of others, which a trace then shows."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd"))


def _gives_numbers(node: Node) -> bool:
    """Whether a node gives real numbers, or several tensors of any kind; single truth values and integers have rules of
    their own."""
    value = VALUE.of(node)
    return isinstance(value, tuple | list) or (isinstance(value, Tensor) and value.is_floating_point())


@cache
def _table(floating: bool) -> Mapping[OpOverload, _Function]:
    """Returns torch's decompositions of unsupported operators, and all of ours."""
    theirs = {
        target: function
        for target, function in decomposition_table.items()
        if isinstance(target, OpOverload) and not _is_known(target, floating) and not _is_composite(target)
    }
    known = registry()
    taken = known.floats if floating else {}
    ours = {
        target: _by_name(target, one.function)
        for target, one in known.decompositions.items()
        if one.takes is None and target not in taken
    }
    real = {
        target: _of_reals(_by_name(target, one.function))
        for target, one in known.float_decompositions.items()
        if floating and one.takes is None
    }
    return {**theirs, **ours, **real}


def _by_name(target: OpOverload, function: _Function) -> _Function:
    """Wraps a function to take the arguments of a call by their names in its schema, with their defaults."""
    declared = inspect.signature(function).parameters
    if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in declared.values()):
        return function
    schema = target._schema.arguments
    names = [one.name for one in schema]
    defaults = {one.name: one.default_value for one in schema if one.name in declared and one.has_default_value()}

    def called(*args: Any, **kwargs: Any) -> Any:
        return function(**defaults | dict(zip(names, args, strict=False)) | kwargs)

    return called


def _of_reals(function: _Function) -> _Function:
    """Wraps a function to decline calls on integers, which torch's decompositions can make."""

    def called(*args: Any, **kwargs: Any) -> Any:
        first = next(iter(args), None)
        integers = isinstance(first, Tensor) and not first.is_floating_point()
        return NotImplemented if integers else function(*args, **kwargs)

    return called


def written_out(node: Node, function: _Function) -> None:
    """Replaces a call by the calls that a function makes to compute it."""
    _inline(node, _trace(node, function, {}))


def write_in_pieces(module: GraphModule) -> None:
    """Replaces calls without an int8 operator in ExecuTorch by calls of operators that it has, where that is known."""
    for node in [node for node in module.graph.nodes if isinstance(node.target, OpOverload)]:
        target: Any = node.target
        pieces = [one.in_pieces for one in registry().patterns.get(target, ()) if one.in_pieces is not None]
        if pieces:
            written_out(node, _by_name(target, pieces[0]))


def _traced(node: Node, function: _Function, *, floating: bool) -> GraphModule | None:
    """Traces the decomposition of a call; None if one of its calls is not supported either, or if it asks for a value,
    as torch's of istft does."""
    table = {target: one for target, one in _table(floating).items() if target != node.target}
    try:
        traced = _trace(node, function, table)
    except (_Declined, DataDependentOutputException):
        return None
    constant = [is_constant(item) for item in node.all_input_nodes]
    return traced if _is_understood(traced, constant, floating) else None


def _trace(node: Node, function: _Function, table: Mapping[OpOverload, _Function]) -> GraphModule:
    """Traces the calls that a function makes for the arguments of a call."""
    arguments, structure = pytree.tree_flatten((node.args, node.kwargs))
    nodes = list(node.all_input_nodes)

    def called(*values: Tensor) -> Any:
        given = dict(zip(nodes, values, strict=True))
        args, kwargs = pytree.tree_unflatten(
            [given[item] if isinstance(item, Node) else item for item in arguments], structure
        )
        results = function(*args, **kwargs)
        if results is NotImplemented:
            raise _Declined
        return list(results) if isinstance(results, tuple | list) else results

    return trace_on(nodes, called, table)


def trace_on(nodes: Sequence[Node], function: _Function, table: Mapping[OpOverload, _Function]) -> GraphModule:
    """Traces the calls that a function makes on the values of some nodes."""
    mode = fake_mode_of(nodes[0].graph)
    assert mode is not None
    with torch.no_grad(), mode:
        return make_fx(function, decomposition_table=table)(*(VALUE.must(item) for item in nodes))


def _is_understood(traced: GraphModule, constant: list[bool], floating: bool) -> bool:
    """Whether every call is supported, or gives a constant."""
    holders = [one for one in traced.graph.nodes if one.op == "placeholder"]
    fixed = {holder for holder, always in zip(holders, constant, strict=True) if always}
    for one in traced.graph.nodes:
        if one.op == "get_attr" or (one.op == "call_function" and fixed.issuperset(one.all_input_nodes)):
            fixed.add(one)
    calls = [one for one in traced.graph.nodes if one.op == "call_function" and one not in fixed]
    results = pytree.tree_leaves([one.args[0] for one in traced.graph.nodes if one.op == "output"])
    known = all(one.target is operator.getitem or _is_known(one.target, floating) for one in calls)
    return known and all(isinstance(one, Node) for one in results)


def _inline(node: Node, traced: GraphModule) -> list[Node]:
    """Replaces a call by traced ones, and returns those with other targets."""
    before, added = node.prev, list[Node]()
    results = put_before(node, traced, node.all_input_nodes)
    while node.prev is not before and (before := before.next) is not node:
        added.append(before)
    _replace(node, results)
    return [one for one in added if one.op == "call_function" and one.target != node.target]


def put_before(node: Node, traced: GraphModule, operands: Sequence[Node]) -> Any:
    """Inserts traced calls on these operands before a call, and returns their results."""
    holders = [one for one in traced.graph.nodes if one.op == "placeholder"]
    found: dict[Node, Any] = dict(zip(holders, operands, strict=True))
    with node.graph.inserting_before(node):
        for one in traced.graph.nodes:
            if one.op == "get_attr":
                found[one] = add_constant(node, "constant", getattr(traced, str(one.target)))
            elif one.op == "call_function":
                args, kwargs = pytree.tree_map_only(Node, found.__getitem__, (one.args, one.kwargs))
                found[one] = add_call(node, one.target, *args, **kwargs)
    return pytree.tree_map_only(Node, found.__getitem__, output_node(traced.graph).args[0])


def _replace(node: Node, results: Any) -> None:
    if isinstance(results, Node):
        node.replace_all_uses_with(results)
    else:
        for part in list(node.users):
            part.replace_all_uses_with(results[part.args[1]])
            node.graph.erase_node(part)
    node.graph.erase_node(node)
