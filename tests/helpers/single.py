"""Models of one operator: quantized, lowered, and how far the integers are from PT2E's own graph."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings
from torch import nn

from cortado.api import prepare
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.frontend.export import Inputs, Quantized, capture, quantize
from cortado.ir.graph import outputs
from cortado.options import LinearWeights
from cortado.passes import CortexMPassManager
from cortado.plan.lowered import LoweredCall, LoweredGraph, lowered_graph, reference_outputs

Tensor = torch.Tensor

QUIET = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)


class Function(torch.nn.Module):
    """A function of tensors as a model; keyword arguments become its parameters or parts."""

    def __init__(self, function: Callable[..., Any], **parts: Tensor | torch.nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part if isinstance(part, torch.nn.Module) else torch.nn.Parameter(part))

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


@dataclass(frozen=True)
class Single:
    """A lowered model beside the graph it was lowered from."""

    quantized: Quantized
    graph: LoweredGraph
    scales: tuple[float, ...]  # of the outputs
    batches: tuple[Inputs, ...]

    @property
    def operators(self) -> list[str]:
        """The calls between the borders, views left out."""
        names = [call.operator.split("::")[1] for call in self.graph.calls]
        borders = ("quantize_per_tensor", "dequantize_per_tensor", "view_copy")
        return [name for name in names if name not in borders]

    def calls(self, operator: str) -> list[LoweredCall]:
        return [call for call in self.graph.calls if call.operator == operator]

    def worst(self) -> float:
        """The largest difference to PT2E's graph over all batches, in steps of the output."""
        worst = 0.0
        for batch in self.batches:
            wanted = self.quantized.converted(*batch)
            pairs = zip(reference_outputs(self.graph, batch), _tuple(wanted), self.scales, strict=True)
            for found, want, scale in pairs:
                assert found.shape == want.shape
                worst = max(worst, float((found - want).abs().max()) / scale)
        return worst


def _tuple(value: Any) -> tuple[Tensor, ...]:
    return (value,) if isinstance(value, Tensor) else tuple(value)


def lower(
    model: torch.nn.Module, shapes: Sequence[Sequence[int]], target: str = "cortex-m55", batches: int = 3, seed: int = 0
) -> Single:
    """Quantizes a model on normally distributed inputs and lowers it."""
    rng = torch.Generator().manual_seed(seed)
    inputs: list[Inputs] = [tuple(torch.randn(*shape, generator=rng) for shape in shapes) for _ in range(batches)]
    return lower_on(model, inputs, target)


def lower_on(
    model: torch.nn.Module,
    batches: Sequence[Inputs],
    target: str = "cortex-m55",
    linear: LinearWeights = LinearWeights.PER_CHANNEL,
) -> Single:
    quantized = quantize(capture(model.eval(), batches[0]), batches[0], list(batches))
    program = quantized.program()
    CortexMPassManager(program, target_config=from_target_string(target), linear=linear).transform()
    scales = tuple(float(node.kwargs["scale"]) for node in outputs(program))  # type: ignore[arg-type]
    return Single(quantized, lowered_graph(program), scales, tuple(batches))


def assert_close(single: Single) -> None:
    """One step at most: PT2E computes in float, the kernels round exactly."""
    assert single.worst() < 1.001, single.operators


def randomize(module: torch.nn.Module, seed: int) -> None:
    """Weights, biases and statistics that depend on the seed only."""
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=rng) * 0.5)
        for name, buffer in module.named_buffers():
            if buffer.is_floating_point():
                values = torch.rand(buffer.shape, generator=rng) + 0.5
                buffer.copy_(values if "var" in name else values - 1.0)


CONV2D = "cortex_m::quantized_conv2d_nhwc"
DEPTHWISE = "cortex_m::quantized_depthwise_conv2d_nhwc"
TRANSPOSED = "cortex_m::quantized_transpose_conv2d_nhwc"
LAYOUT = ("transpose", "pad")


def kernels(found: Single) -> list[str]:
    """The operators that compute something."""
    return [name for name in found.operators if name not in LAYOUT]


def far_from_float(found: Single, model: nn.Module) -> float:
    """The largest difference to the float model, in steps of the first output."""
    worst = 0.0
    for batch in found.batches:
        with torch.no_grad():
            wanted = model(*[value.clone() for value in batch])
        worst = max(worst, float((reference_outputs(found.graph, batch)[0] - wanted).abs().max()))
    return worst / found.scales[0]


def seeded(model: nn.Module, seed: int = 1) -> nn.Module:
    randomize(model, seed)
    return model.eval()


def images(count: int = 3, size: int = 8) -> list[tuple[Tensor, ...]]:
    rng = torch.Generator().manual_seed(7)
    return [(torch.randn(1, 3, size, size, generator=rng),) for _ in range(count)]


def small_net(channels: int = 3) -> nn.Module:
    layers = [nn.Conv2d(channels, 5, 3), nn.ReLU(), nn.Conv2d(5, 5, 3, groups=5), nn.MaxPool2d(2), nn.Conv2d(5, 4, 1)]
    return seeded(nn.Sequential(*layers))


def rejected(model: nn.Module, *inputs: Tensor) -> str:
    """The message of a model that isn't even quantized."""
    with pytest.raises(CortadoError) as caught:
        prepare(model, inputs, [inputs], name="net")
    return str(caught.value)
