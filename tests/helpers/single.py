"""Models of one operator: quantized, lowered, and how far the integers are from PT2E's own graph."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram

from cortado.api import prepare
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.frontend.capture.export import capture
from cortado.frontend.capture.inputs import Inputs
from cortado.frontend.quantize.convert import Quantized, quantize
from cortado.ir.graph import outputs
from cortado.ir.patched import late_code
from cortado.options import CalibrationMethod, LinearWeights, Options
from cortado.passes import CortexMPassManager
from cortado.plan.lowered import LoweredCall, LoweredGraph, lowered_graph, reference_outputs

Tensor = torch.Tensor

CONV2D = "cortex_m::quantized_conv2d_nhwc"
DEPTHWISE = "cortex_m::quantized_depthwise_conv2d_nhwc"
TRANSPOSED = "cortex_m::quantized_transpose_conv2d_nhwc"

EVERY_VALUE = Options(calibration_method=CalibrationMethod.MINMAX, bias_correction=False)
"""Nothing saturates on the calibration data, and biases are the model's own: what one operator does can be seen."""


class Function(torch.nn.Module):
    """A function of tensors as a model; keyword arguments become its parameters or parts."""

    def __init__(self, function: Callable[..., Any], **parts: Tensor | torch.nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part if isinstance(part, torch.nn.Module) else torch.nn.Parameter(part))

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


class Expression(torch.nn.Module):
    """A function of its inputs and of constants, given by name, as a model."""

    def __init__(self, function: Callable[..., Any], **constants: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, data in constants.items():
            self.register_buffer(name, data)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs, **dict(self.named_buffers()))


class Block(torch.nn.Module):
    """A convolution and something behind it."""

    def __init__(self, behind: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv2d(3, 4, 3)
        self.behind = behind

    def forward(self, x: Tensor) -> Tensor:
        return self.behind(self.conv(x))


@dataclass(frozen=True)
class Single:
    """A lowered model beside the graph it was lowered from."""

    quantized: Quantized
    program: ExportedProgram
    graph: LoweredGraph
    scales: tuple[float, ...]  # of the outputs
    batches: tuple[Inputs, ...]

    @property
    def operators(self) -> list[str]:
        """The calls between the borders, views left out."""
        names = [call.operator.split("::")[1] for call in self.graph.calls]
        borders = ("quantize_per_tensor", "dequantize_per_tensor", "view_copy")
        return [name for name in names if name not in borders]

    @property
    def kernels(self) -> list[str]:
        """Those that compute something."""
        return [name for name in self.operators if name not in ("transpose", "pad")]

    def calls(self, operator: str) -> list[LoweredCall]:
        return [call for call in self.graph.calls if call.operator == operator]

    def outputs(self, *inputs: Tensor) -> list[Tensor]:
        """What the reference gives; for the first batch if nothing is given."""
        return reference_outputs(self.graph, inputs or self.batches[0])

    def expected(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """What PT2E's graph gives."""
        with torch.no_grad():
            return tensors(self.quantized.converted(*(inputs or self.batches[0])))

    def steps_apart(self, *inputs: Tensor) -> float:
        """The largest difference to PT2E's graph, in steps of the output."""
        worst = 0.0
        for found, want, scale in zip(self.outputs(*inputs), self.expected(*inputs), self.scales, strict=True):
            assert found.shape == want.shape
            worst = max(worst, float((found - want).abs().max()) / scale)
        return worst

    def worst(self) -> float:
        """The same over all batches."""
        return max(self.steps_apart(*batch) for batch in self.batches)


def tensors(value: Any) -> tuple[Tensor, ...]:
    """What a model returned, as a tuple."""
    return (value,) if isinstance(value, Tensor) else tuple(value)


def lower(
    model: torch.nn.Module, shapes: Sequence[Sequence[int]], target: str = "cortex-m55", batches: int = 3, seed: int = 0
) -> Single:
    """Quantizes a model on normally distributed inputs and lowers it."""
    rng = torch.Generator().manual_seed(seed)
    inputs: list[Inputs] = [tuple(torch.randn(*shape, generator=rng) for shape in shapes) for _ in range(batches)]
    return lower_on(model, inputs, target)


def lower_with(model: torch.nn.Module, *inputs: Tensor) -> Single:
    """Quantizes a model on these inputs alone and lowers it for any core."""
    return lower_on(model, [inputs], "cortex-m")


def lower_on(
    model: torch.nn.Module,
    batches: Sequence[Inputs],
    target: str = "cortex-m55",
    linear: LinearWeights = LinearWeights.PER_CHANNEL,
    how: Options = EVERY_VALUE,
) -> Single:
    quantized = quantize(capture(model.eval(), batches[0]), batches[0], list(batches), how)
    with late_code():
        program = quantized.program()
        CortexMPassManager(program, target_config=from_target_string(target), linear=linear).transform()
    scales = tuple(float(node.kwargs["scale"]) for node in outputs(program))  # type: ignore[arg-type]
    return Single(quantized, program, lowered_graph(program), scales, tuple(batches))


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


def randn(*sizes: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed)) * scale


def decibels(signal: Tensor, other: Tensor) -> float:
    """Signal to noise, pooled over everything in the tensors."""
    noise = float((signal - other).double().square().sum())
    return 10 * math.log10(float(signal.double().square().sum()) / noise) if noise > 0 else math.inf


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
