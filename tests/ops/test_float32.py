"""Operators of float32, and calls written out in them: beside the model itself, run eagerly, on fresh data."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cortado.api import prepare
from cortado.base.target import from_target_string
from cortado.options import Options
from cortado.plan.lowered import lowered_graph, reference_outputs
from cortado.plan.pricing import lowered
from helpers.single import decibels

FLOAT = Options(activations="float32", weights="float32", artifacts="c")  # type: ignore[arg-type]
LEAST = 100.0  # decibels
Function = Callable[..., Any]


class Group(nn.Module):
    """Functions of the same inputs, each an output or several."""

    def __init__(self, *functions: Function, **layers: nn.Module) -> None:
        super().__init__()
        self.functions, self.layers = functions, nn.ModuleDict(layers)

    def forward(self, *given: Tensor) -> list[Tensor]:
        found = [function(*self.layers.values(), *given) for function in self.functions]
        return [one for several in found for one in (several if isinstance(several, tuple) else (several,))]


def drawn(seed: int, *shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    rng = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(shape, generator=rng) for shape in shapes)


def check(group: nn.Module, *shapes: tuple[int, ...]) -> None:
    """Compares all outputs with those of the module itself, integers and truth values exactly."""
    model = prepare(group.eval(), drawn(0, *shapes), options=FLOAT)
    graph = lowered_graph(lowered(model.quantized, from_target_string("cortex-m4"), FLOAT))
    given = drawn(1, *shapes)
    with torch.no_grad():
        wanted = group(*given)
    for number, (want, found) in enumerate(zip(wanted, reference_outputs(graph, given), strict=True)):
        got = found.reshape(want.shape)
        if want.is_floating_point():
            both = want.isfinite() & got.isfinite()
            assert torch.equal(want.nan_to_num(2.0)[~both], got.nan_to_num(2.0)[~both]), number
            assert decibels(want[both], got[both]) > LEAST, number
        else:
            assert torch.equal(want.to(torch.int64), got.to(torch.int64)), number


def test_functions_of_one_number() -> None:
    check(
        Group(
            *(
                torch.exp,
                torch.expm1,
                torch.sin,
                torch.cos,
                torch.tan,
                torch.atan,
                torch.tanh,
                torch.sigmoid,
                torch.erf,
            ),
            *(torch.sinh, torch.cosh, torch.asinh, torch.erfc, torch.floor, torch.ceil, torch.round, torch.trunc),
            *(torch.frac, torch.sign, torch.abs, torch.square, torch.exp2, torch.reciprocal, torch.neg),
            *(lambda x, f=f: f(x.abs() + 0.1) for f in (torch.log, torch.log2, torch.log10, torch.log1p, torch.sqrt)),
            *(lambda x, f=f: f(torch.tanh(x)) for f in (torch.asin, torch.acos, torch.atanh)),
            lambda x: torch.rsqrt(x).nan_to_num(0.5),
        ),
        (2, 9),
    )


def test_activations() -> None:
    names = "gelu silu elu selu celu softplus mish hardswish hardsigmoid hardtanh leaky_relu logsigmoid softsign relu6"
    check(Group(*(getattr(F, name) for name in names.split()), lambda x: F.gelu(x, approximate="tanh")), (2, 9))


def test_two_operands_of_any_shapes_that_meet() -> None:
    check(
        Group(
            lambda a, b: a + b[:, :1],
            lambda a, b: 2.0 - a * b,
            lambda a, b: a[:, None] / (b[None] + 7.0),
            lambda a, b: torch.atan2(a, b[:1]),
            lambda a, b: a.abs() ** 1.5 + b**2 + 2.0**a,
            lambda a, b: torch.maximum(a, b) - torch.minimum(a, b[0]),
            lambda a, b: torch.remainder(a, 0.7) + torch.fmod(b, 0.3),
            lambda a, b: torch.addcmul(a, a, b, value=0.5) + torch.lerp(a, b, 0.25),
            lambda a, b: torch.lerp(a.mT.contiguous().mT, b, 0.6) + torch.lerp(a, b, b.sigmoid()),
            lambda a, b: torch.hypot(a, b) + torch.logaddexp(a, b),
            lambda a, b: torch.clamp(a, min=b, max=b + 1.0),
        ),
        (3, 5),
        (3, 5),
    )


def test_comparisons_choices_and_integers() -> None:
    check(
        Group(
            lambda x: torch.where(x > 0.1, x.exp(), x * 2),
            lambda x: (x > 0, (x < x.flip(1)).float().sum(1), (x > 0).any(1), (x != x[0]).sum(1)),
            lambda x: torch.where((x > 0) & (x < 1) | ~(x < -1), x, -x),
            lambda x: x.masked_fill(torch.eye(5, dtype=torch.bool), -math.inf).softmax(-1),
            lambda x: (x * 4).floor().long() + 1,
            lambda x: x.masked_fill(x > 0.5, 0.25) + x.tril(),
        ),
        (5, 5),
    )


def test_reductions_order_and_positions() -> None:
    check(
        Group(
            lambda x: (x.sum(1), x.mean((0, 2)), x.amax(2), x.amin((0, 1)), x.prod(2), x.mean(), x.var(2), x.std(1)),
            lambda x: (x.cumsum(1), x.cumprod(2), x.argmax(2), x.argmin(0), *x.max(1), *x.topk(3), *x.sort(-1)),
            lambda x: (torch.linalg.norm(x, dim=1), torch.linalg.vector_norm(x), x.norm(p=1, dim=2)),
            lambda x: (torch.logsumexp(x, 1), x.softmax(1), x.log_softmax(-1), F.normalize(x)),
            lambda x: (F.cosine_similarity(x, x.flip(0)), torch.cdist(x, x.flip(1)), x.median(-1).values),
        ),
        (2, 4, 5),
    )


def test_products_and_attention() -> None:
    check(
        Group(
            lambda a, b: (a @ b.transpose(1, 2), torch.einsum("bij,bkj->ikb", a, b), torch.linalg.cross(a, a.flip(1))),
            lambda a, b: F.scaled_dot_product_attention(a, b, b),
        ),
        (2, 3, 3),
        (2, 4, 3),
    )


def test_layers_and_norms_of_images() -> None:
    layers = {
        "transposed": nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        "group": nn.GroupNorm(2, 4),
        "instance": nn.InstanceNorm2d(4, affine=True),
        "layer": nn.LayerNorm([5, 6]),
        "slopes": nn.PReLU(4),
    }
    check(
        Group(
            lambda *given: tuple(layer(given[-1]) for layer in given[:-1]),
            lambda *given: F.interpolate(given[-1], scale_factor=2, mode="bilinear"),
            lambda *given: F.interpolate(given[-1], size=(7, 5), mode="nearest"),
            lambda *given: F.pad(given[-1], (1, 2, 1, 0), "reflect")[..., 1:],
            lambda *given: F.avg_pool2d(given[-1], 3, 1, 1) + F.adaptive_avg_pool2d(given[-1], (5, 6)),
            lambda *given: F.pixel_shuffle(given[-1], 2).flatten(1).roll(1, 1)[:, [3, 0]],
            **layers,
        ),
        (1, 4, 5, 6),
    )


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind: Any) -> None:
    torch.manual_seed(3)
    layer = kind(3, 5, num_layers=2, bidirectional=True, batch_first=True)
    check(Group(lambda layer, x: layer(x)[0], layer=layer), (1, 4, 3))


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_a_projected_layer_and_running_extremes() -> None:
    torch.manual_seed(4)
    layer = nn.LSTM(3, 5, num_layers=2, proj_size=2, bidirectional=True, batch_first=True)
    check(
        Group(
            lambda layer, x: layer(x)[0],
            lambda layer, x: torch.cummax(x, 1)[0] + torch.cummin(x, 1)[1],
            lambda layer, x: torch.logcumsumexp(20 * x, 1),
            lambda layer, x: F.rrelu(x),
            layer=layer,
        ),
        (1, 4, 3),
    )


def test_weights_of_a_convolution_may_be_computed() -> None:
    check(
        Group(
            lambda image, weight, bias: F.conv2d(image, weight, bias[0, 0, 0], 2, 1, (1, 2), groups=2),
            lambda image, weight, bias: F.conv2d(image[:, :2], weight),
        ),
        (1, 4, 7, 8),
        (6, 2, 3, 3),
        (1, 1, 1, 6),
    )


def test_rows_of_a_table_keep_their_bits() -> None:
    table = nn.Embedding(5, 3)
    ids = torch.tensor([[4, 0, 2]])
    model = prepare(table, (ids,), options=FLOAT)
    graph = lowered_graph(lowered(model.quantized, from_target_string("cortex-m4"), FLOAT))
    assert torch.equal(reference_outputs(graph, (ids,))[0], table(ids).detach())
