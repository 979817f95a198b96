"""Operators of int16 codes (--activations int16) beside the user's own module on fresh data, and on boards.

Their references and kernels are compared bit for bit with those of int8, over the same samples (test_operators.py,
test_elements.py); here are the numbers that calls are lowered to.
"""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cortado.api import Model, prepare
from cortado.base.element import INT16
from cortado.base.errors import CortadoError
from cortado.compiled import Compiled
from cortado.options import Activations, Artifacts, Options
from cortado.plan.lowered import reference_outputs
from helpers.cores import THREE, each_core
from helpers.single import Expression, decibels

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples
LEAST = 45.0  # decibels; int8 has 20 to 40
Results = tuple[Tensor, ...]


class Order(nn.Module):
    """What looks for values and their places: they are there as they were."""

    def forward(self, x: Tensor) -> Results:
        best, places = torch.topk(x, 3, dim=1)
        smallest = x.min(-1)
        picked = x.gather(1, x.argmax(1, keepdim=True))
        return best, places, smallest[0], smallest[1], x.sort(-1)[0], picked, x.argmax(-1)


class Sums(nn.Module):
    def forward(self, x: Tensor) -> Results:
        return x.cumsum(1), x.var(-1), x.std(1, correction=0), F.cosine_similarity(x, x.flip(1), -1), x.norm(dim=-1)


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.rms, self.group = nn.LayerNorm(8), nn.RMSNorm(8), nn.GroupNorm(2, 6)
        self.instance = nn.InstanceNorm1d(6, affine=True)
        with torch.no_grad():
            self.layer.weight.mul_(torch.linspace(-1, 2, 8))
            self.group.bias.add_(0.3)

    def forward(self, x: Tensor) -> Results:
        return self.layer(x), self.rms(x), torch.relu(self.group(x)), self.instance(x)


class Masks(nn.Module):
    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(6, 8, dtype=torch.bool).tril(2))

    def forward(self, x: Tensor) -> Results:
        hidden = x.masked_fill(~self.mask, -math.inf)
        computed = x.masked_fill(x.flip(1) > 1.1, -math.inf)
        return (
            hidden.softmax(-1),
            computed.softmax(-1),
            (x + torch.where(x.flip(1) > 1.1, -1e4, 0.0)).softmax(-1),
            x.log_softmax(1),
            computed.log_softmax(-1).amax(-1),
            computed.amax(1),
        )


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 5, 3, stride=2, padding=1)
        self.apart = nn.ConvTranspose2d(3, 6, (2, 3), stride=(3, 1), groups=3, dilation=(1, 2))

    def forward(self, x: Tensor) -> Results:
        twice = F.interpolate(x, scale_factor=2, mode="bilinear")
        return twice, F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=True), self.up(x), self.apart(x)


class Looked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows, self.bags = nn.Embedding(9, 6), nn.EmbeddingBag(9, 5, mode="mean", padding_idx=2)

    def forward(self, ids: Tensor) -> Results:
        return self.rows(ids), self.bags(ids), ids.float() * 0.3


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 7, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(14, 5, batch_first=True)
        self.rnn = nn.RNN(5, 4, batch_first=True)
        self.relu = nn.RNN(5, 4, batch_first=True, nonlinearity="relu")

    def forward(self, x: Tensor) -> Results:
        states, (last, cells) = self.lstm(x)
        second, kept = self.gru(states, torch.tanh(cells[:1, :, :5]))
        return last, cells, second, kept, self.rnn(second)[0], self.relu(second)[1]


def numbers(count: int, seed: int, *shape: int) -> list[tuple[Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    return [(torch.randn(shape, generator=rng),) for _ in range(count)]


def ids(count: int, seed: int) -> list[tuple[Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    return [(torch.randint(0, 9, (2, 5), generator=rng),) for _ in range(count)]


def signals(count: int, seed: int) -> list[tuple[Tensor]]:
    return numbers(count, seed, 1, 6, 8)


MODELS: dict[str, tuple[type[nn.Module], Callable[[int, int], list[tuple[Tensor]]]]] = {
    "order": (Order, signals),
    "sums": (Sums, signals),
    "norms": (Norms, signals),
    "masks": (Masks, signals),
    "images": (Images, lambda count, seed: numbers(count, seed, 1, 3, 4, 5)),
    "looked": (Looked, ids),
    "recurrent": (Recurrent, signals),
}


@cache
def prepared(name: str) -> tuple[nn.Module, Model]:
    build, data = MODELS[name]
    torch.manual_seed(1)
    model, batches = build().eval(), data(17, 1)
    options = Options(activations="int16", artifacts="c")  # type: ignore[arg-type]
    return model, prepare(model, batches[0], batches, name="wide", options=options)


def compiled(name: str, target: str = "cortex-m4") -> Compiled:
    return prepared(name)[1].compile(target)


@pytest.mark.parametrize("name", MODELS)
def test_int16_keeps_what_the_model_gives_on_new_data(name: str) -> None:
    model, graph = prepared(name)[0], compiled(name).graph
    assert graph is not None
    assert INT16 in {value.element for value in graph.values.values() if value.qparams is not None}
    fresh = MODELS[name][1](8, 2)
    with torch.no_grad():
        wanted = [model(*batch) for batch in fresh]
    found = [reference_outputs(graph, batch) for batch in fresh]
    for index in range(len(found[0])):
        got, want = (torch.cat([one[index].flatten() for one in side]) for side in (found, wanted))
        if want.is_floating_point():
            assert decibels(want, got.to(torch.float32)) > LEAST, index
        else:
            assert (want == got).to(torch.float32).mean() > 0.98, index


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m0plus"))
def test_the_bits_are_the_same_everywhere(target: str) -> None:
    for name in ("masks", "norms", "recurrent", "images"):
        batch = MODELS[name][1](1, 3)[0]
        assert compiled(name, target).run(batch[0] * 3).bit_exact, name  # some of it saturates


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", MODELS)
def test_the_bits_are_the_same_on_this_machine(name: str) -> None:
    (batch,) = MODELS[name][1](1, 3)[0]
    assert compiled(name).run(batch, on="host").bit_exact
    if batch.is_floating_point():
        codes = np.random.default_rng(1).integers(-32768, 32768, tuple(batch.shape)).astype(np.int16)
        assert compiled(name).run(codes, on="host").bit_exact


class Large(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, (70000,))


class Coarse(nn.Module):
    """A number beside which float32 rounds scores to sixteenths, where it hides a row whole."""

    def forward(self, x: Tensor) -> Tensor:
        return (x + torch.where(x.flip(1) > 1, -1e6, 0.0)).softmax(-1)


@pytest.mark.parametrize(
    ("model", "shape", "reason"),
    [
        (Large(), (1, 70000), r"layer_norm.*normalizes groups of 70000 values; expected 1 to 65536"),
        (Coarse(), (1, 6, 8), r"softmax.*rounds to multiples of 0\.0625.*use -inf, or a number above -1e5"),
    ],
    ids=["large", "coarse"],
)
def test_what_int16_can_not_take_is_refused_by_name(model: nn.Module, shape: tuple[int, ...], reason: str) -> None:
    data = numbers(9, 1, *shape)
    options = Options(activations="int16", artifacts="c")  # type: ignore[arg-type]
    with pytest.raises(CortadoError, match=rf"(?s){reason}"):
        prepare(model.eval(), data[0], data, options=options).compile("cortex-m4")


AVERAGED: dict[str, Callable[[Tensor], Tensor]] = {
    "pool": lambda x: F.avg_pool2d(x.float(), 2),
    "resized": lambda x: F.interpolate(x.float(), scale_factor=2.0, mode="bilinear"),
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", AVERAGED)
def test_averages_of_bytes_are_no_bytes(name: str) -> None:
    """Their input is of 8 bits as it comes."""
    samples = torch.randint(-128, 128, (24, 1, 2, 8, 8), generator=torch.Generator().manual_seed(2)).to(torch.int8)
    model = Expression(AVERAGED[name])
    options = Options(activations=Activations.INT16, artifacts=Artifacts.C)
    found = prepare(model, (samples[0],), list(samples[:16]), name="net", options=options).compile("cortex-m4", options)
    assert found.graph is not None
    outputs = torch.cat([reference_outputs(found.graph, (one,))[0].float().flatten() for one in samples[16:]])
    assert decibels(torch.cat([model(one).flatten() for one in samples[16:]]), outputs) > 60
