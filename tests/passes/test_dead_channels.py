"""Channels that can't change an output are left out: the same bits, fewer of everything else."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from cortado.api import compile as compile_model
from cortado.frontend.capture.export import capture
from cortado.frontend.quantize.convert import quantize
from cortado.ir.facts import DROPPED
from cortado.models import zoo
from cortado.options import Activations, Artifacts, Options
from cortado.passes import PIPELINE, CortexMPassManager
from cortado.passes.dead_channels import DeadChannels, removed_channels
from cortado.plan.lowered import lowered_graph, reference_outputs
from helpers.single import EVERY_VALUE, decibels

WITHOUT_PASS = tuple(one for one in PIPELINE if one is not DeadChannels)
pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples


class Net(nn.Module):
    """Layers that mix channels, with one that keeps them apart, a pool and a function between them."""

    def __init__(self, padding: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.apart = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.second = nn.Conv2d(16, 8, 3, padding=padding)
        self.last = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.max_pool2d(torch.relu(self.apart(torch.relu(self.first(x)))), 2)
        y = torch.sigmoid(self.second(y))
        out: Tensor = self.last(y.mean((2, 3)))
        return out


def unread(net: Net) -> None:
    net.second.weight[:, 4:12] = 0


def without_weights(net: Net) -> None:
    net.apart.weight[4:12] = 0
    net.apart.bias[4:12] = -0.5  # type: ignore[index]


def fixed(net: Net) -> None:
    net.first.weight[:8] = 0
    net.first.bias[:8] = 0.75  # type: ignore[index]
    net.apart.padding = (0, 0)


def below(net: Net) -> None:
    net.first.bias[:8] = -100.0  # type: ignore[index]
    net.apart.bias[:8] = -0.1  # type: ignore[index]


def behind(net: Net) -> None:
    """What the last layer does not read, no layer before it needs."""
    net.last.weight[:, :4] = 0
    net.second.weight[4:, 8:] = 0


def nothing(net: Net) -> None:
    pass


def batches(count: int, seed: int) -> list[tuple[Tensor, ...]]:
    rng = torch.Generator().manual_seed(seed)
    return [(torch.randn(1, 3, 12, 12, generator=rng),) for _ in range(count)]


def made(change: Callable[[Net], None], padding: int = 1) -> Net:
    torch.manual_seed(1)
    net = Net(padding).eval()
    with torch.no_grad():
        change(net)
    return net


CASES = [
    (behind, 1, 4 + 8),
    (without_weights, 1, 8),
    (unread, 1, 8),
    (fixed, 0, 8),
    (below, 1, 8),
    (nothing, 1, 0),
]


@pytest.mark.cases(4)
@pytest.mark.parametrize("activations", [Activations.INT8, Activations.INT16])
@pytest.mark.parametrize(("change", "padding", "dropped"), CASES, ids=[case[0].__name__ for case in CASES])
def test_the_bits_are_the_same_without_them(
    change: Callable[[Net], None], padding: int, dropped: int, activations: Activations
) -> None:
    model, data = made(change, padding), batches(4, 1)
    how = replace(EVERY_VALUE, activations=activations, artifacts=Artifacts.C)
    quantized = quantize(capture(model, data[0]), data[0], data, how)
    with_pass, without = (
        CortexMPassManager(quantized.program(), passes).transform() for passes in (PIPELINE, WITHOUT_PASS)
    )
    assert removed_channels(with_pass) == dropped
    for batch in batches(6, 2):
        (got,), (wanted,) = (reference_outputs(lowered_graph(program), batch) for program in (with_pass, without))
        assert torch.equal(got, wanted)


class Padded(nn.Module):
    """Layers behind a border that is a call of its own: wider on one side, as TensorFlow pads, or not of zeros."""

    def __init__(self, groups: int, sides: tuple[int, ...], value: float) -> None:
        super().__init__()
        self.sides, self.value = sides, value
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.second = nn.Conv2d(16 + sum(sides[4:]), 16, 3, stride=2, groups=groups)
        self.last = nn.Conv2d(16, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.pad(torch.relu(self.first(x)), self.sides, value=self.value)
        out: Tensor = self.last(torch.relu(self.second(y)))
        return out


@pytest.mark.cases(4)
@pytest.mark.parametrize("activations", [Activations.INT8, Activations.INT16])
@pytest.mark.parametrize(
    ("groups", "sides", "value", "dropped"),
    [
        (1, (0, 1, 0, 1), 0.0, 8),
        (16, (0, 1, 0, 1), 0.0, 8),
        (1, (1, 1, 1, 1), 0.0, 8),  # becomes the padding of the second layer
        (1, (0, 1, 0, 1), 0.5, 0),  # the channels hold two values
        (1, (0, 1, 0, 1, 0, 4), 0.0, 0),  # there are other channels behind it
    ],
)
def test_channels_are_dead_through_a_border(
    groups: int, sides: tuple[int, ...], value: float, dropped: int, activations: Activations
) -> None:
    """Nine of 16 filters are zero. One of them stays, so that the number of channels is a multiple of 4."""
    torch.manual_seed(1)
    model, data = Padded(groups, sides, value).eval(), batches(4, 1)
    with torch.no_grad():
        model.first.weight[3:12] = 0
        model.first.bias[3:12] = 0  # type: ignore[index]
    how = replace(EVERY_VALUE, activations=activations, artifacts=Artifacts.C)
    quantized = quantize(capture(model, data[0]), data[0], data, how)
    with_pass, without = (
        CortexMPassManager(quantized.program(), passes).transform() for passes in (PIPELINE, WITHOUT_PASS)
    )
    assert removed_channels(with_pass) == dropped
    for batch in batches(6, 2):
        (got,), (wanted,) = (reference_outputs(lowered_graph(program), batch) for program in (with_pass, without))
        assert torch.equal(got, wanted)
        assert decibels(model(*batch).detach(), got) > 25


def test_a_pruned_network_has_fewer_channels_and_the_same_bits() -> None:
    """Its pruned channels, and what only they read."""
    network = zoo.get("mobilenet_v1_pruned")
    data = network.calibration(4)
    quantized = quantize(capture(network.build(), data[0]), data[0], data, replace(EVERY_VALUE, artifacts=Artifacts.C))
    with_pass, without = (
        CortexMPassManager(quantized.program(), passes).transform() for passes in (PIPELINE, WITHOUT_PASS)
    )
    assert removed_channels(with_pass) > 400
    got, wanted = (reference_outputs(lowered_graph(program), data[1])[0] for program in (with_pass, without))
    assert torch.equal(got, wanted)


class Ranked(nn.Module):
    """What gives several tensors reads all channels."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.layer(x).mean((2, 3))
        return scores.argmax(1), scores.topk(2, 1).values


def test_a_reader_with_several_results_is_left_alone() -> None:
    torch.manual_seed(1)
    model, data = Ranked().eval(), batches(4, 1)
    quantized = quantize(capture(model, data[0]), data[0], data, EVERY_VALUE)
    graph = CortexMPassManager(quantized.program(), PIPELINE).transform().graph_module.graph
    assert not any(DROPPED.known(node) for node in graph.nodes)


@pytest.mark.qemu
def test_both_artifacts_are_smaller_and_right() -> None:
    data = batches(33, 1)
    found = {
        change.__name__: compile_model(made(change), data[0], "cortex-m55", data, name="net", options=Options())
        for change in (unread, nothing)
    }
    thin, whole = found["unread"].report, found["nothing"].report
    assert (thin.removed_channels, whole.removed_channels) == (8, 0)
    assert thin.macs is not None
    assert whole.macs is not None
    assert thin.macs < 0.6 * whole.macs
    for place in (None, "executorch"):
        assert found["unread"].run(*batches(1, 3)[0], on=place).bit_exact
