"""Quantize and dequantize as PT2E writes them, for models that a test spells out; such a model, lowered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
from torch import Tensor, nn

from cortado.api import prepare
from cortado.base.target import from_target_string
from cortado.ir.graph import outputs
from cortado.passes import CortexMPassManager
from cortado.plan.lowered import LoweredGraph, lowered_graph, reference_outputs
from helpers.single import tensors

_ops: Any = torch.ops.quantized_decomposed


def fq(x: Tensor, scale: float, zero_point: int = 0, low: int = -128, high: int = 127) -> Tensor:
    """A tensor rounded to int8 codes."""
    parameters = (scale, zero_point, low, high, torch.int8)
    result: Tensor = _ops.dequantize_per_tensor(_ops.quantize_per_tensor(x, *parameters), *parameters)
    return result


class Coded(nn.Module):
    """A layer whose weights are codes, as convert_pt2e leaves them."""

    def __init__(self, layer: nn.Module, axis: int = 0, low: int = -127, per_tensor: bool = False) -> None:
        super().__init__()
        self.layer = layer
        parameters = dict(layer.named_parameters())
        weight = parameters["weight"].detach()
        scales = weight.abs().transpose(0, axis).flatten(1).amax(1) / (127.5 if low == -128 else 127)
        scales = scales.max().expand(len(scales)).contiguous() if per_tensor else scales
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        self.rest = (axis, low, 127, torch.int8)
        self.register_buffer("codes", _ops.quantize_per_channel(weight, scales, zeros, *self.rest))
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", zeros)

    def forward(self, x: Tensor) -> Tensor:
        weight = _ops.dequantize_per_channel(self.codes, self.scales, self.zeros, *self.rest)
        result: Tensor = torch.func.functional_call(self.layer, {"weight": weight}, (x,))
        return result


@dataclass(frozen=True)
class Kept:
    """A model that came quantized, lowered."""

    model: Any
    graph: LoweredGraph
    scales: tuple[float, ...]

    @property
    def kernels(self) -> list[str]:
        names = [call.operator.split("::")[1] for call in self.graph.calls]
        return [name for name in names if name not in ("quantize_per_tensor", "dequantize_per_tensor", "view_copy")]

    def steps_apart(self, *inputs: Tensor) -> Tensor:
        """How far each value is from what the model itself gives, in steps of the output."""
        with torch.no_grad():
            wanted = tensors(self.model(*inputs))
        found = reference_outputs(self.graph, inputs)
        apart = [(a - b).abs().flatten() / s for a, b, s in zip(found, wanted, self.scales, strict=True)]
        return torch.cat(apart)

    def off(self, batches: Sequence[tuple[Tensor, ...]]) -> tuple[float, float]:
        """The largest of these differences, and the share of values that are another code at all."""
        apart = torch.cat([self.steps_apart(*batch) for batch in batches])
        return float(apart.max()), float((apart > 0.5).double().mean())


def keep(model: Any, *inputs: Tensor, target: str = "cortex-m55") -> Kept:
    """A model that is quantized already; no calibration data is given."""
    program = prepare(model, inputs).quantized.program()
    CortexMPassManager(program, target_config=from_target_string(target)).transform()
    scales = tuple(float(node.kwargs["scale"]) for node in outputs(program))  # type: ignore[arg-type]
    return Kept(model, lowered_graph(program), scales)
