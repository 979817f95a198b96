"""fuse-activations: a clamp behind a kernel that can carry it becomes that kernel's bounds."""

from typing import ClassVar

from torch.fx import GraphModule

from cortado.frontend.quantizer import fused_clamp
from cortado.ir.graph import TWIN
from cortado.ir.op import Match, find
from cortado.ops.pointwise import is_clamp
from cortado.passes.base import ContextPass
from cortado.passes.verify import Level


class FuseActivations(ContextPass):
    """A kernel without qparams of its own takes the clamp behind it: meta["clamp"] and the clamp's qparams."""

    name: ClassVar[str] = "fuse-activations"
    level_before: ClassVar[Level] = Level.QUANTIZED
    level_after: ClassVar[Level] = Level.QUANTIZED

    def run(self, module: GraphModule) -> bool:
        changed = False
        for node in list(module.graph.nodes):
            if node.op != "call_function" or "qparams" in node.meta:
                continue
            match = find(node)
            clamp = fused_clamp(node, match.pattern) if isinstance(match, Match) else None
            if clamp is not None and "qparams" in clamp.meta:
                node.meta["clamp"] = is_clamp(clamp)
                node.meta["qparams"] = clamp.meta["qparams"]
                node.meta[TWIN] = clamp.name
                clamp.replace_all_uses_with(node)
                module.graph.erase_node(clamp)
                changed = True
        return changed
