"""fuse-activations: a clamp behind a kernel that can carry it becomes that kernel's bounds."""

from typing import ClassVar

from torch.fx import GraphModule

from cortado.frontend.quantize.quantizer import fused_clamp
from cortado.ir.facts import CLAMP, QPARAMS, TWIN, wanted_element
from cortado.ir.matching import Match, find
from cortado.ir.passes import Level
from cortado.ops.elementwise.pointwise import is_clamp
from cortado.passes.base import ContextPass


class FuseActivations(ContextPass):
    """A kernel without qparams of its own takes the clamp behind it: its bounds and its qparams."""

    name: ClassVar[str] = "fuse-activations"
    level_before: ClassVar[Level] = Level.QUANTIZED
    level_after: ClassVar[Level] = Level.QUANTIZED

    def run(self, module: GraphModule) -> bool:
        changed = False
        for node in list(module.graph.nodes):
            if node.op != "call_function" or QPARAMS.known(node):
                continue
            match = find(node)
            clamp = fused_clamp(node, match.pattern) if isinstance(match, Match) else None
            bounds = None if clamp is None else is_clamp(clamp)
            if clamp is not None and bounds is not None and (QPARAMS.known(clamp) or wanted_element(clamp).floating):
                CLAMP.note(node, bounds)
                QPARAMS.take(node, clamp)
                TWIN.note(node, clamp.name)
                clamp.replace_all_uses_with(node)
                module.graph.erase_node(clamp)
                changed = True
        return changed
