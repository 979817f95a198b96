"""clean-up: what nothing reads, and what is there twice, goes."""

from typing import Any, ClassVar

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from cortado.graph import constant_names, remove_unused_constants
from cortado.passes.base import CortexMPass
from cortado.verify import Level


class CleanUp(CortexMPass):
    """Equal constants become one, equal calls become one, dead calls and constants go."""

    name: ClassVar[str] = "clean-up"
    level_before: ClassVar[Level] = Level.LOWERED
    level_after: ClassVar[Level] = Level.LOWERED

    def __init__(self, exported_program: ExportedProgram) -> None:
        self.program = exported_program

    def run(self, module: GraphModule) -> bool:
        self._merge_constants(module)
        _merge_calls(module)
        module.graph.eliminate_dead_code()
        remove_unused_constants(self.program)
        return True

    def _merge_constants(self, module: GraphModule) -> None:
        names, seen = constant_names(self.program), {}
        for node in module.graph.nodes:
            if node.op == "placeholder" and node.name in names and node.users:
                data = self.program.state_dict[names[node.name]]
                key = (data.dtype, tuple(data.shape), data.numpy().tobytes())
                first = seen.setdefault(key, node)
                if first is not node:
                    node.replace_all_uses_with(first)


def _merge_calls(module: GraphModule) -> None:
    """Common subexpressions: same operator, same arguments."""
    seen: dict[Any, Node] = {}
    for node in list(module.graph.nodes):
        if node.op == "call_function":
            key = (node.target, tuple((name, _hashable(value)) for name, value in sorted(node.kwargs.items())))
            first = seen.setdefault(key, node)
            if first is not node:
                node.replace_all_uses_with(first)
                module.graph.erase_node(node)


def _hashable(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    return value if isinstance(value, Node | torch.dtype) else (type(value), value)
