"""fold-qparams: turns quantize/dequantize pairs into `meta["qparams"]` of the tensors that they surround.

fuse-activations: turns a clamp after a kernel that supports it into that kernel's bounds.
"""

from typing import ClassVar

import torch
from torch.fx import GraphModule, Node

from cortado.base.numerics import ChannelQParams, QParams
from cortado.frontend.quantize.quantizer import fused_clamp
from cortado.ir.facts import CLAMP, QPARAMS, TWIN, wanted_element
from cortado.ir.graph import Bound, add_constant, bind, constant_value
from cortado.ir.matching import Match, find
from cortado.ir.passes import Level
from cortado.ops.elementwise.pointwise import is_clamp
from cortado.ops.io.quantize import qparams_of
from cortado.ops.meaning import DEQUANTIZES, QUANTIZES, CallKind, means
from cortado.passes.base import ContextPass

_QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default


class FoldQParams(ContextPass):
    """Makes constants integers, and folds the quantize after a node into its meta["qparams"].

    A quantize stays after a float value: a graph input, or a call that no integer operator takes. One whose parameters
    differ from the tensor's stays too, as a rescaling. A dequantize stays before graph outputs and calls that no
    integer operator takes.
    """

    name: ClassVar[str] = "fold-qparams"
    level_before: ClassVar[Level] = Level.QUANTIZED
    level_after: ClassVar[Level] = Level.QUANTIZED

    def run(self, module: GraphModule) -> bool:
        graph = module.graph
        for node in _calls(module, *QUANTIZES):
            if self._constant(node) is not None:
                self._fold_constant(node)
        graph.eliminate_dead_code()
        integer = {node for node in graph.nodes if _is_integer(node)}
        for node in _calls(module, CallKind.QUANTIZE, CallKind.DEQUANTIZE):
            if means(node, CallKind.QUANTIZE):
                _fold_quantize(node, integer)
            else:
                _fold_dequantize(node, integer)
        graph.eliminate_dead_code()
        for node in _calls(module, CallKind.QUANTIZE):
            if QPARAMS.known(bind(node)["input"]):
                _sink(node)
        return True

    def _constant(self, node: Node) -> torch.Tensor | None:
        return constant_value(self.program, bind(node)["input"])

    def _fold_constant(self, node: Node) -> None:
        """Replaces a quantized constant and the dequantizes after it by the integers, computed as PT2E would."""
        bound = bind(node)
        data = self._constant(node)
        assert data is not None
        if means(node, CallKind.QUANTIZE_CHANNELS):
            scales = constant_value(self.program, bound["scales"])
            assert scales is not None
            axis = int(bound["axis"])
            codes = _quantize_channels(data, scales, axis, bound)
            qparams: QParams | ChannelQParams = ChannelQParams(tuple(scales.tolist()), axis)
        else:
            qparams = qparams_of(bound)
            args = (qparams.scale, qparams.zero_point, bound["quant_min"], bound["quant_max"], bound["dtype"])
            codes = _QUANTIZE(data, *args)
        holder = add_constant(self.program, f"{bound['input'].name}_q", codes)
        QPARAMS.note(holder, qparams)
        for user in list(node.users):
            if means(user, *DEQUANTIZES):
                user.replace_all_uses_with(holder, delete_user_cb=lambda reader: reader.op != "output")
        node.replace_all_uses_with(holder)


def _calls(module: GraphModule, *kinds: CallKind) -> list[Node]:
    return [node for node in module.graph.nodes if means(node, *kinds)]


def _is_integer(node: Node) -> bool:
    """Whether an integer operator takes a call, so that it reads and gives codes."""
    taken = node.op == "call_function" and not means(node, *QUANTIZES, *DEQUANTIZES) and isinstance(find(node), Match)
    return taken and not wanted_element(node).floating


def _fold_quantize(node: Node, integer: set[Node]) -> None:
    bound = bind(node)
    source: Node = bound["input"]
    qparams = qparams_of(bound)
    if not QPARAMS.known(source) and source in integer:
        QPARAMS.note(source, qparams)
    if QPARAMS.of(source) == qparams:
        node.replace_all_uses_with(source, delete_user_cb=lambda user: user is not node)
    else:
        QPARAMS.note(node, qparams)  # the boundary from float, or a change of scale


def _sink(node: Node) -> None:
    """Moves a rescaling to its first reader: until then one tensor is live, not two."""
    following = node.next
    while following not in node.users and following.op != "output":
        following = following.next
    following.prepend(node)


def _fold_dequantize(node: Node, integer: set[Node]) -> None:
    source: Node = bind(node)["input"]
    node.replace_all_uses_with(source, delete_user_cb=lambda user: user in integer or means(user, CallKind.QUANTIZE))


def _quantize_channels(data: torch.Tensor, scales: torch.Tensor, axis: int, bound: Bound) -> torch.Tensor:
    """Quantizes symmetrically: round(x / scale[c]) clamped; in float64, so that int32 biases keep every bit."""
    sizes = [1] * data.dim()
    sizes[axis] = -1
    codes = torch.round(data.to(torch.float64) / scales.to(torch.float64).reshape(sizes))
    return codes.clamp(bound["quant_min"], bound["quant_max"]).to(bound["dtype"])


# ---- fuse activations --------------------------------------------------------------------------------------------


class FuseActivations(ContextPass):
    """Fuses the clamp after a kernel that has no qparams of its own: the kernel takes over its bounds and qparams."""

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
