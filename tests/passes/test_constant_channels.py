"""One odd channel costs a layer next to nothing: it stays with its fast kernel, and the bits stay the same."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

import cortado
from cortado.frontend.capture.export import capture
from cortado.frontend.quantize.convert import quantize
from cortado.options import Activations
from cortado.passes import PIPELINE, CortexMPassManager
from cortado.passes.constant_channels import ConstantChannels
from cortado.plan.lowered import lowered_graph, reference_outputs
from helpers.single import EVERY_VALUE

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples
ODD = 5  # a channel that shares its halfword with a lower one on cores with DSP instructions
Layer = nn.Conv2d | nn.Linear | nn.ConvTranspose2d


def zeros(layer: Layer) -> None:
    """Pruned: the weight's scale is that of the bias alone."""
    _filter(layer).zero_()


def small(layer: Layer) -> None:
    """Next to nothing beside its bias: sums of 30 bits."""
    _filter(layer).mul_(1e-4)


def faint(layer: Layer) -> None:
    """A few codes beside a bias of most of them: sums of 25 bits that are not constant."""
    _filter(layer).mul_(5e-4)
    if layer.bias is not None:
        layer.bias[ODD] = 0.3


def loud(layer: Layer) -> None:
    """All others next to nothing beside it."""
    _filter(layer).mul_(1e3)


def far_below(layer: Layer) -> None:
    """Never above the other channels' least output."""
    if layer.bias is not None:
        layer.bias[ODD] = -50.0


def _filter(layer: Layer) -> torch.Tensor:
    return layer.weight[:, ODD] if isinstance(layer, nn.ConvTranspose2d) else layer.weight[ODD]


LAYERS: dict[str, tuple[Callable[[], Layer], tuple[int, ...]]] = {
    "pointwise": (lambda: nn.Conv2d(64, 64, 1), (1, 64, 6, 6)),
    "without-bias": (lambda: nn.Conv2d(64, 64, 1, bias=False), (1, 64, 6, 6)),
    "window": (lambda: nn.Conv2d(32, 32, 3, padding=1), (1, 32, 6, 6)),
    "depthwise-3x3": (lambda: nn.Conv2d(64, 64, 3, padding=1, groups=64), (1, 64, 8, 8)),
    "depthwise-5x5": (lambda: nn.Conv2d(64, 64, 5, padding=2, groups=64), (1, 64, 8, 8)),
    "depthwise-few": (lambda: nn.Conv2d(8, 8, 3, padding=1, groups=8), (1, 8, 8, 8)),
    "linear": (lambda: nn.Linear(64, 64), (1, 64)),
    "transposed": (lambda: nn.ConvTranspose2d(32, 32, 2, 2), (1, 32, 6, 6)),
}
CHANGES = (zeros, small, faint, loud, far_below)


def made(name: str, change: Callable[[Layer], None] | None) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    make, shape = LAYERS[name]
    torch.manual_seed(3)
    layer = make()
    with torch.no_grad():
        if change is not None:
            change(layer)
    return nn.Sequential(layer, nn.ReLU()).eval(), (torch.rand(shape) * 2 - 1,)


@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m3", "cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("name", LAYERS)
def test_an_odd_channel_costs_at_most_a_twentieth(name: str, core: str) -> None:
    plain = cortado.estimate(*made(name, None), target=core).cycles
    spent = {change.__name__: cortado.estimate(*made(name, change), target=core).cycles / plain for change in CHANGES}
    assert all(ratio <= 1.05 for ratio in spent.values()), spent


@pytest.mark.parametrize("activations", [Activations.INT8, Activations.INT16])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", LAYERS)
def test_the_bits_are_those_of_the_layer_as_it_was(
    name: str, change: Callable[[Layer], None], activations: Activations
) -> None:
    model, example = made(name, change)
    options = replace(EVERY_VALUE, activations=activations)
    quantized = quantize(capture(model, example), example, [example], options)
    without = tuple(one for one in PIPELINE if one is not ConstantChannels)
    programs = [CortexMPassManager(quantized.program(), passes).transform() for passes in (PIPELINE, without)]
    graphs = [lowered_graph(program) for program in programs]
    for scale in (0.1, 1.0, 30.0):
        inputs = (torch.randn(example[0].shape) * scale,)
        (got,), (wanted,) = (reference_outputs(graph, inputs) for graph in graphs)
        assert torch.equal(got, wanted)


@torch.no_grad()
@pytest.mark.parametrize("name", ["pointwise", "window", "linear"])
def test_a_faint_channel_still_follows_the_model(name: str) -> None:
    """Its weights are coarser, so that the bias fits 21 bits: less than is seen beside the rounding of the output."""
    model, example = made(name, faint)
    fresh = torch.rand(example[0].shape) * 2 - 1
    quantized = quantize(capture(model, example), example, [example], EVERY_VALUE)
    (got,) = reference_outputs(lowered_graph(CortexMPassManager(quantized.program(), PIPELINE).transform()), (fresh,))
    wanted = model(fresh)
    assert float((got - wanted)[:, ODD].abs().max()) <= float(wanted.max()) / 255
