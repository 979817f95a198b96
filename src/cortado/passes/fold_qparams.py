"""fold-qparams: quantize/dequantize pairs become `meta["qparams"]` of the tensors they stood around."""

from typing import ClassVar

import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from cortado.graph import Bound, add_constant, bind, constant_value
from cortado.numerics import ChannelQParams, QParams
from cortado.passes.base import CortexMPass
from cortado.verify import Level

_quantized = torch.ops.quantized_decomposed
_QUANTIZE = (_quantized.quantize_per_tensor.default,)
_DEQUANTIZE = (_quantized.dequantize_per_tensor.default,)
_QUANTIZE_CHANNEL = (_quantized.quantize_per_channel.default,)
_DEQUANTIZE_CHANNEL = (_quantized.dequantize_per_channel.default,)


class FoldQParams(CortexMPass):
    """Constants become integers; a node behind which a quantize stood carries its parameters in meta["qparams"].

    A quantize stays where the value before it is float (a graph input), a dequantize where a graph output is float.
    """

    name: ClassVar[str] = "fold-qparams"
    level_before: ClassVar[Level] = Level.QUANTIZED
    level_after: ClassVar[Level] = Level.QUANTIZED

    def __init__(self, exported_program: ExportedProgram) -> None:
        self.program = exported_program

    def run(self, module: GraphModule) -> bool:
        graph = module.graph
        for node in list(graph.nodes):
            if node.op != "call_function":
                continue
            if node.target in _QUANTIZE + _QUANTIZE_CHANNEL and self._constant(node) is not None:
                self._fold_constant(node)
            elif node.target in _QUANTIZE:
                self._fold_quantize(node)
            elif node.target in _DEQUANTIZE + _DEQUANTIZE_CHANNEL:
                self._fold_dequantize(node)
        graph.eliminate_dead_code()
        return True

    def _constant(self, node: Node) -> torch.Tensor | None:
        return constant_value(self.program, bind(node)["input"])

    def _fold_constant(self, node: Node) -> None:
        """A quantized weight or bias: the integers themselves, computed as PT2E would."""
        bound = bind(node)
        data = self._constant(node)
        assert data is not None
        if node.target in _QUANTIZE_CHANNEL:
            scales = constant_value(self.program, bound["scales"])
            zero_points = constant_value(self.program, bound["zero_points"])
            assert scales is not None and zero_points is not None
            axis = int(bound["axis"])
            codes = _quantize_channels(data, scales, axis, bound)
            qparams: QParams | ChannelQParams = ChannelQParams(tuple(scales.tolist()), axis)
        else:
            qparams = _qparams(bound)
            args = (qparams.scale, qparams.zero_point, bound["quant_min"], bound["quant_max"], bound["dtype"])
            codes = _quantized.quantize_per_tensor.default(data, *args)
        holder = add_constant(self.program, f"{bound['input'].name}_q", codes)
        holder.meta["qparams"] = qparams
        node.replace_all_uses_with(holder)

    def _fold_quantize(self, node: Node) -> None:
        bound = bind(node)
        source: Node = bound["input"]
        qparams = _qparams(bound)
        if source.op == "placeholder" or "qparams" in source.meta:
            node.meta["qparams"] = qparams  # the border from float, or a change of scale
            return
        source.meta["qparams"] = qparams
        node.replace_all_uses_with(source, delete_user_cb=lambda user: user is not node)

    def _fold_dequantize(self, node: Node) -> None:
        source: Node = bind(node)["input"]
        node.replace_all_uses_with(source, delete_user_cb=lambda user: user.op != "output")


def _qparams(bound: Bound) -> QParams:
    return QParams(float(bound["scale"]), int(bound["zero_point"]))


def _quantize_channels(data: torch.Tensor, scales: torch.Tensor, axis: int, bound: Bound) -> torch.Tensor:
    """Symmetric: round(x / scale[c]) clamped; float64 so that int32 biases keep every bit."""
    sizes = [1] * data.dim()
    sizes[axis] = -1
    codes = torch.round(data.to(torch.float64) / scales.to(torch.float64).reshape(sizes))
    return codes.clamp(bound["quant_min"], bound["quant_max"]).to(bound["dtype"])
