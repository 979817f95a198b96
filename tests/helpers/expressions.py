"""Models of one expression, calibrated and lowered."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import HealthCheck, settings
from torch import Tensor, nn

from cortado.base.target import ANY
from cortado.frontend.export import Quantized, capture, quantize
from cortado.passes import CortexMPassManager
from cortado.plan.lowered import LoweredGraph, lowered_graph, reference_outputs

QUIET = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
BORDERS = ("cortex_m::quantize_per_tensor", "cortex_m::dequantize_per_tensor", "aten::view_copy")


class Expression(nn.Module):
    """forward is any function; tensors given by name are constants of the model."""

    def __init__(self, function: Callable[..., Any], **constants: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, data in constants.items():
            self.register_buffer(name, data)

    def forward(self, *inputs: Tensor) -> Any:
        constants = {name: buffer for name, buffer in self.named_buffers()}
        return self.function(*inputs, **constants)


class Lowered:
    """A model calibrated on given inputs: its PT2E graph and its lowered graph."""

    def __init__(self, model: nn.Module, *inputs: Tensor, calibration: Sequence[tuple[Tensor, ...]] = ()) -> None:
        self.inputs = inputs
        self.quantized: Quantized = quantize(capture(model, inputs), inputs, list(calibration) or [inputs])
        self.program = self.quantized.program()
        CortexMPassManager(self.program, target_config=ANY).transform()
        self.graph: LoweredGraph = lowered_graph(self.program)

    @property
    def operators(self) -> list[str]:
        """What is called, without borders, views and layout changes."""
        names = [call.operator for call in self.graph.calls if call.operator not in BORDERS]
        return [name.split("::")[1] for name in names if name != "cortex_m::transpose"]

    @property
    def scales(self) -> list[float]:
        calls = {call.name: call for call in self.graph.calls}
        return [float(calls[name].arguments["scale"]) for name in self.graph.outputs]

    def outputs(self, *inputs: Tensor) -> list[Tensor]:
        return reference_outputs(self.graph, list(inputs or self.inputs))

    def expected(self, *inputs: Tensor) -> list[Tensor]:
        with torch.no_grad():
            result = self.quantized.converted(*(inputs or self.inputs))
        return [result] if isinstance(result, Tensor) else list(result)

    def steps_apart(self, *inputs: Tensor) -> float:
        """The largest difference to the PT2E graph, in steps of the output's scale."""
        pairs = zip(self.outputs(*inputs), self.expected(*inputs), self.scales, strict=True)
        return max(float(((got - want) / scale).abs().max()) for got, want, scale in pairs)


def randn(*sizes: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed)) * scale


class Block(nn.Module):
    """A convolution and something behind it."""

    def __init__(self, behind: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv2d(3, 4, 3)
        self.behind = behind

    def forward(self, x: Tensor) -> Tensor:
        return self.behind(self.conv(x))
