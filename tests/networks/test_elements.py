"""A second element: networks of int16 codes (--activations int16) through every stage, the same bits on every core."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cortado.api import Model, prepare
from cortado.base.element import INT16
from cortado.base.errors import CortadoError
from cortado.options import Options
from cortado.plan.lowered import LoweredGraph, reference_outputs
from helpers.cores import THREE, each_core
from helpers.single import decibels

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples
Batch = tuple[Tensor, ...]


class Sums(nn.Module):
    """Sums, a difference with a factor, an operand per channel, a relu, and movement around them."""

    bias: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bias", torch.linspace(-1, 1, 6))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        first = (x + y).transpose(1, 2).reshape(1, 4, 6)
        second = torch.sub(first + self.bias, first.flip(1), alpha=0.25)
        return torch.relu(second + first)[:, 1:], F.pad(second, (1, 2)).repeat(1, 2, 1)


class Layers(nn.Module):
    """Windows of all kinds, products, pools, functions, a softmax, a choice: what int16 has kernels for."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.grouped = nn.Conv2d(8, 8, 3, padding=1, groups=2, dilation=1)
        self.across = nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8)
        self.last = nn.Conv2d(8, 9, 1)
        self.head = nn.Linear(9, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        deep = torch.relu(self.grouped(torch.relu(self.first(x))))
        deep = torch.tanh(self.last(F.relu6(self.across(deep))))
        small = F.max_pool2d(deep, 2) * torch.sigmoid(F.avg_pool2d(deep, 2))
        rows = small.flatten(2)
        seen = torch.softmax(rows @ rows.transpose(1, 2), -1)
        chosen = torch.where(small > 0.05, torch.exp(small), torch.maximum(small, small.flip(1)))
        mean = deep.mean((2, 3))
        return self.head(mean), seen, torch.cat([chosen, small / (2 + small.square())], 1)


def images(count: int, seed: int, size: float = 1.0) -> list[Batch]:
    rng = torch.Generator().manual_seed(seed)
    return [(size * torch.randn(1, 3, 8, 8, generator=rng),) for _ in range(count)]


def pairs(count: int, seed: int) -> list[Batch]:
    rng = torch.Generator().manual_seed(seed)
    return [(torch.randn(1, 6, 4, generator=rng), torch.randn(1, 6, 4, generator=rng)) for _ in range(count)]


def prepared(model: nn.Module, data: Sequence[Batch], activations: str = "int16") -> Model:
    return prepare(model.eval(), data[0], data, name="wide", options=Options(activations=activations))  # type: ignore[arg-type]


def noise(model: nn.Module, graph: LoweredGraph | None, fresh: Sequence[Batch]) -> list[float]:
    """Of each output, in decibels, on data that calibration has not seen."""
    assert graph is not None
    found = [reference_outputs(graph, batch) for batch in fresh]
    with torch.no_grad():
        wanted = [model(*batch) for batch in fresh]
    return [
        decibels(torch.cat([one[i] for one in wanted]), torch.cat([one[i].to(torch.float32) for one in found]))
        for i in range(len(wanted[0]))
    ]


@pytest.fixture(scope="module")
def layers() -> Layers:
    torch.manual_seed(3)
    return Layers().eval()


@pytest.fixture(scope="module")
def wide(layers: Layers) -> Model:
    return prepared(layers, images(33, 1))


def test_sums_of_int16_codes_are_far_closer_to_the_model() -> None:
    compiled = prepared(Sums(), pairs(33, 1)).compile("cortex-m4")
    assert compiled.graph is not None
    assert {value.element for value in compiled.graph.values.values() if value.qparams is not None} == {INT16}
    assert min(noise(Sums(), compiled.graph, pairs(8, 2))) > 65
    assert [tensor.dtype for tensor in (*compiled.report.inputs, *compiled.report.outputs)] == ["int16"] * 4
    assert "#define WIDE_INPUT0_TYPE int16_t" in compiled.bundle.files["wide.h"]  # type: ignore[union-attr]
    assert any("of int16 codes exists in the C bundle only" in reason for reason in compiled.report.pte_missing)


@pytest.mark.slow
def test_layers_keep_what_int8_loses_on_new_and_on_larger_data(layers: Layers, wide: Model) -> None:
    graph, narrow = wide.compile("cortex-m4").graph, prepared(layers, images(33, 1), "int8").compile("cortex-m4").graph
    fresh, larger = images(16, 2), images(16, 2, 2.5)
    for found, lost in zip(noise(layers, graph, fresh), noise(layers, narrow, fresh), strict=True):
        assert found > max(40, lost + 5)
    assert noise(layers, graph, larger)[0] > max(40, noise(layers, narrow, larger)[0] + 10)  # int8 saturates


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m55"))
def test_the_bits_are_the_same_everywhere(wide: Model, target: str) -> None:
    compiled = wide.compile(target)
    (image,) = images(1, 3, 6.0)[0]  # some of it saturates
    assert compiled.run(image).bit_exact
    codes = np.random.default_rng(1).integers(-32768, 32768, (1, 3, 8, 8)).astype(np.int16)
    assert compiled.run(codes, on="host").bit_exact


def test_a_sum_that_leaves_32_bits_is_divided() -> None:
    """600 products of 127 and 32,767 have 32 bits."""
    model, rng = nn.Linear(600, 3), torch.Generator().manual_seed(4)
    with torch.no_grad():
        model.weight.fill_(0.01)
        model.weight[1] *= torch.randn(600, generator=rng)
    data = [(torch.randn(1, 600, generator=rng),) for _ in range(33)]
    compiled = prepared(model, data).compile("cortex-m4")
    assert ".sum_shift = 1" in "".join(str(text) for text in compiled.bundle.files.values())  # type: ignore[union-attr]
    with torch.no_grad():
        wanted = torch.cat([model(*batch) for batch in data])
    found = torch.cat([reference_outputs(compiled.graph, batch)[0] for batch in data])  # type: ignore[arg-type]
    assert decibels(wanted, found.to(torch.float32)) > 40
    assert compiled.run(np.full((1, 600), -32768, dtype=np.int16), on="host").bit_exact


class Parts(nn.Module):
    """Two modules by name, and a function between them."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 6))
        self.decoder = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.decoder(torch.tanh(self.encoder(x)))
        return y


def test_modules_are_chosen_by_their_names() -> None:
    data = [(x.reshape(6, 4),) for x, _ in pairs(33, 1)]
    options = Options(int16=("encoder.*",), artifacts="c")  # type: ignore[arg-type]
    compiled = prepare(Parts().eval(), data[0], data, name="parts", options=options).compile("cortex-m4")
    assert compiled.graph is not None
    layers = [call for call in compiled.graph.calls if call.operator == "cortex_m::quantized_conv2d_nhwc"]
    assert [compiled.graph.values[call.name].element.name for call in layers] == ["int16", "int16", "int8"]
    assert compiled.report.options.int16 == ("encoder.*",)
    assert compiled.run(data[0][0], on="host").bit_exact
    with pytest.raises(CortadoError, match=r"--int16 'decoders' matches neither a module that computes real numbers"):
        prepare(Parts().eval(), data[0], data, options=Options(int16=("decoders",)))
    with pytest.raises(CortadoError, match=r"'\(' is not a regular expression"):
        Options(int16=("(",))


class Lengths(nn.Module):
    """Norms of rows, of pairs and of differences: one int8 operator, and in 16 bits the calls that they consist of."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x.norm(dim=2), torch.hypot(x, y), F.pairwise_distance(x, y)


def test_norms_have_16_bits_in_the_calls_that_they_consist_of() -> None:
    model, data = Lengths().eval(), pairs(8, seed=3)
    graph = prepared(model, data).compile("cortex-m4").graph
    assert min(noise(model, graph, pairs(4, seed=4))) > 42  # the root near 0 has 513 points
