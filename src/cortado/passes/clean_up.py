"""clean-up: merges duplicates, folds constants, removes no-ops and dead code."""

import hashlib
from typing import Any, ClassVar

import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from cortado.ir.facts import QPARAMS, TWIN
from cortado.ir.graph import add_constant, constant_names, constant_value, part_index, remove_unused_constants, shape
from cortado.ir.op import operator_of, quantizes, shaped_call
from cortado.passes.base import LoweredPass
from cortado.passes.orders import operands

Tensor = torch.Tensor


class CleanUp(LoweredPass):
    """Folds calls on constants, merges equal constants and equal calls, removes no-ops and dead calls."""

    name: ClassVar[str] = "clean-up"

    def run(self, module: GraphModule) -> bool:
        module.graph.eliminate_dead_code()
        self._fold_constants(module)
        self._drop_identities(module)
        self._merge_constants(module)
        merge_calls(module)
        module.graph.eliminate_dead_code()
        remove_unused_constants(self.program)
        return True

    def _fold_constants(self, module: GraphModule) -> None:
        """Evaluates calls whose tensors are all constants with their reference, at compile time."""
        data = {name: self.program.state_dict[key] for name, key in constant_names(self.program).items()}
        for node in list(module.graph.nodes):
            operator = operator_of(node.target) if node.op == "call_function" else None
            if operator is None or not all(source.name in data for source in node.all_input_nodes):
                continue
            kwargs = pytree.tree_map_only(Node, lambda source: data[source.name], dict(node.kwargs))
            made = operator.reference(**kwargs)
            parts = {part: made[part_index(part)] for part in node.users} if operator.extra_results else {node: made}
            for part, value in parts.items():
                holder = add_constant(self.program, part.name, value)
                QPARAMS.take(holder, part)
                data[holder.name] = self.program.state_dict[holder.name]
                part.replace_all_uses_with(holder)
                module.graph.erase_node(part)
            if operator.extra_results:
                module.graph.erase_node(node)

    def _drop_identities(self, module: GraphModule) -> None:
        """Removes calls that return their input's codes unchanged, where the input can take over their values."""
        for node in list(module.graph.nodes):
            if self._is_identity(node):
                source = operands(node)[0]
                if _takes_over(source, node):
                    node.replace_all_uses_with(source)
                    module.graph.erase_node(node)

    def _is_identity(self, node: Node) -> bool:
        operator = operator_of(node.target) if node.op == "call_function" else None
        if operator is None or operator.identity is None:
            return False
        data = {name: constant_value(self.program, value) for name, value in node.kwargs.items()}
        known = {name: node.kwargs[name] if data[name] is None else data[name] for name in data}
        return operator.identity(shaped_call(operator, known, shape(node)))

    def _merge_constants(self, module: GraphModule) -> None:
        names = constant_names(self.program)
        seen: dict[Any, Node] = {}
        for node in module.graph.nodes:
            if node.op == "placeholder" and node.name in names and node.users:
                first = seen.setdefault(fingerprint(self.program.state_dict[names[node.name]]), node)
                if first is not node:
                    node.replace_all_uses_with(first)


def _takes_over(source: Node, node: Node) -> bool:
    """Whether `source` can replace `node`, whose codes are the same; if nothing else reads `source`, it takes over the
    qparams.

    (The qparams of an input are fixed by its quantize.)
    """
    if QPARAMS.of(source) == QPARAMS.of(node):
        return True
    if len(source.users) > 1 or source.op == "placeholder" or quantizes(source):
        return False
    QPARAMS.take(source, node)
    TWIN.take(source, node)
    return True


def fingerprint(data: Tensor) -> tuple[Any, ...]:
    """Returns a key that is equal for tensors of equal type, shape and bytes."""
    flat = data.contiguous().reshape(-1).view(torch.uint8).numpy()
    return data.dtype, tuple(data.shape), hashlib.blake2b(flat.data, digest_size=16).digest()


def merge_calls(module: GraphModule) -> None:
    """Merges equal calls on equal operands. Calls whose codes have different qparams stay apart: an output reports
    them."""
    seen: dict[Any, Node] = {}
    for node in list(module.graph.nodes):
        if node.op != "call_function":
            continue
        named = tuple((name, _hashable(value)) for name, value in sorted(node.kwargs.items()))
        key = (node.target, _hashable(node.args), named, QPARAMS.of(node))
        first = seen.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            module.graph.erase_node(node)


def _hashable(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    return value if isinstance(value, Node | torch.dtype) else (type(value), value)
