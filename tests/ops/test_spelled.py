"""Calls that are spelled out in smaller ones: beside the model itself, on data that calibration has not seen."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cortado import api
from cortado.base.errors import CortadoError
from cortado.ops.move import topk
from cortado.options import Artifacts, Options
from cortado.plan.lowered import reference_outputs
from helpers.cores import THREE, each_core
from helpers.single import Expression, decibels, lower_on, randn, seeded, tensors

Shapes = tuple[tuple[int, ...], ...]
C_ONLY = Options(artifacts=Artifacts.C)
Case = tuple[Callable[..., Any], Shapes]
aten = torch.ops.aten

TWO, FOUR = torch.tensor([0, 2]), torch.tensor([[0, 2], [1, 3]])
WEIGHTS = randn(3, 4)
TALL = randn(2, 1, 300, 1)
GRID = torch.meshgrid(torch.arange(4.0), torch.arange(5.0), indexing="ij")


def written(x: Tensor, y: Tensor) -> Tensor:
    z = x.clone()
    z[:, [0, 2]] = y
    return z


def unpooled(x: Tensor) -> Tensor:
    values, positions = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(torch.relu(values * 2), positions, [2, 2], output_size=x.shape[-2:])


CASES: dict[str, Case] = {
    "meshgrid of constants": (lambda x: torch.cat([x, torch.stack(GRID)[None]], 1), ((1, 3, 4, 5),)),
    "meshgrid": (lambda x, y: torch.stack(torch.meshgrid(x, y, indexing="xy")), ((4,), (5,))),
    "broadcast_tensors": (lambda x, y: sum(torch.broadcast_tensors(x, y)), ((1, 3, 1), (1, 1, 4))),
    "mse_loss": (lambda x, y: F.mse_loss(x, y, reduction="none"), ((2, 16), (2, 16))),
    "mean mse_loss": (F.mse_loss, ((9, 16), (9, 16))),
    "l1_loss": (lambda x, y: F.l1_loss(x, y, reduction="none"), ((2, 16), (2, 16))),
    "smooth_l1_loss": (lambda x, y: F.smooth_l1_loss(x, y, reduction="none", beta=0.5), ((2, 16), (2, 16))),
    "huber_loss": (lambda x, y: F.huber_loss(x, y, reduction="sum", delta=0.7), ((9, 16), (9, 16))),
    "binary_cross_entropy": (lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()), ((9, 16), (9, 16))),
    "sum_to_size": (lambda x: x.sum_to_size(1, 3, 1), ((4, 3, 5),)),
    "div": (lambda x, y: torch.div(x, y.abs() + 1, rounding_mode=None), ((2, 8), (2, 8))),
    "logaddexp": (torch.logaddexp, ((2, 16), (2, 16))),
    "xlogy": (lambda x, y: torch.xlogy(x.abs(), y.abs() + 0.1), ((2, 16), (2, 16))),
    "median": (lambda x: x.median(-1).values, ((9, 8),)),
    "median of all": (lambda x: x.median() + x, ((9, 21),)),
    "kthvalue": (lambda x: x.kthvalue(6, 1, keepdim=True).values, ((9, 7, 2),)),
    "quantile": (lambda x: x.quantile(0.3, 0), ((7, 9),)),
    "quantile of all": (lambda x: x.quantile(0.8, interpolation="nearest", keepdim=True) - x, ((2, 9),)),
    "prod": (lambda x: (x + 3).prod(-1), ((64, 3),)),
    "prod of all": (lambda x: x * (0.1 * x + 1).prod(), ((2, 3),)),
    "index_fill_": (lambda x: x.clone().index_fill_(1, TWO, 0.5), ((2, 5, 3),)),
    "index_copy": (lambda x, y: x.index_copy(1, TWO, y), ((2, 5, 4), (2, 2, 4))),
    "index_add": (lambda x, y: x.index_add(1, TWO, y, alpha=0.5), ((2, 5, 4), (2, 2, 4))),
    "an assignment": (written, ((2, 5, 3), (2, 2, 3))),
    "index_put": (lambda x, y: x.index_put((TWO, TWO), y), ((3, 5), (2,))),
    "scatter": (lambda x, y: x.scatter(1, FOUR, y), ((2, 5), (2, 2))),
    "scatter of a number": (lambda x: x.scatter(1, FOUR, 1.5), ((2, 5),)),
    "scatter_add": (lambda x, y: x.scatter_add(1, FOUR, y), ((2, 5), (2, 2))),
    "scatter_add of a larger tensor": (lambda x, y: x.scatter_add(1, FOUR, y), ((2, 5), (2, 4))),
    "scatter_add to some rows": (lambda x, y: x.scatter_add(1, FOUR, y), ((4, 5), (3, 2))),
    "scatter of what is computed": (
        lambda x: torch.zeros_like(x).scatter(1, x.topk(1, 1).indices, x.topk(1, 1).values),
        ((2, 3),),
    ),
    "diagonal_scatter": (torch.diagonal_scatter, ((5, 5), (5,))),
    "masked_scatter": (lambda x, y: x.masked_scatter(torch.tensor([True, False] * 8), y), ((2, 16), (2, 16))),
    "diag_embed": (lambda x: torch.diag_embed(x, offset=-1, dim1=0, dim2=2), ((2, 4),)),
    "fold": (lambda x: F.fold(x, (6, 6), 2, stride=2), ((1, 12, 9),)),
    "fold that leaves a row": (lambda x: F.fold(x, (7, 6), 2, stride=2), ((1, 12, 9),)),
    "fold that overlaps": (lambda x: F.fold(x, (7, 8), (2, 3), 2, (1, 2), (2, 1)), ((2, 12, 32),)),
    "tensordot": (lambda x, y: torch.tensordot(x, y, dims=([1], [0])), ((2, 3, 4), (3, 5))),
    "kron": (torch.kron, ((2, 3), (4, 5))),
    "cross": (torch.linalg.cross, ((64, 3), (64, 3))),
    "block_diag": (torch.block_diag, ((2, 3), (4, 5))),
    "diagonal by einsum": (lambda x: torch.einsum("bii->bi", x), ((2, 4, 4),)),
    "traces by einsum": (lambda x: torch.einsum("bii->b", x), ((9, 4, 4),)),
    "einsum that repeats": (lambda x, y: torch.einsum("...i,...i->...", x, y), ((5, 3, 4), (3, 4))),
    "einsum of one row": (lambda x, y: torch.einsum("bi,bi->b", x, y), ((9, 4), (1, 4))),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), ((1, 2, 5, 6),)),
    "bicubic to corners": (lambda x: F.interpolate(x, (9, 7), mode="bicubic", align_corners=True), ((1, 2, 5, 6),)),
    "antialias": (lambda x: F.interpolate(x, (3, 4), mode="bilinear", antialias=True), ((1, 2, 6, 8),)),
    "trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), ((1, 2, 3, 4, 4),)),
    "unpool": (unpooled, ((1, 3, 7, 6),)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 3, 2, 1, ceil_mode=True), ((2, 2, 5, 6, 6),)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x + 1, 3, 2, 1), ((1, 2, 5, 6, 6),)),
    "avg_pool3d inside": (lambda x: F.avg_pool3d(x + 1, 2, 2, 1, True, False), ((1, 2, 5, 6, 6),)),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x + 1, (2, 3, 2)), ((1, 2, 4, 6, 6),)),
    "a tall window by its general name": (
        lambda x: torch.convolution(x, TALL, None, [8, 1], [0, 0], [1, 1], False, [0, 0], 1),
        ((1, 1, 400, 3),),
    ),
    "max of a tall window": (lambda x: F.max_pool2d(x, (300, 2), (100, 1)), ((1, 2, 900, 5),)),
    "average of a tall window": (lambda x: F.avg_pool2d(x + 2, (300, 2), (100, 1)), ((1, 2, 900, 5),)),
    "max of an image": (lambda x: x.amax((2, 3)), ((1, 2, 300, 300),)),
    "max of a long row": (lambda x: x.amax(1), ((1, 40_007, 3),)),
    "mean of all": (lambda x: (x + 1).mean((1, 2, 3)), ((2, 16, 72, 72),)),
    "sum of a long row": (lambda x: (x + 1).sum(-1), ((2, 70_000),)),
    "a bias that is a row": (lambda x: F.linear(x, WEIGHTS, WEIGHTS[:1, :3]), ((2, 4),)),
    "a bias that is computed": (lambda x, y: F.linear(x, WEIGHTS, y), ((2, 4), (3,))),
}


def drawn(shapes: Shapes, seed: int) -> tuple[Tensor, ...]:
    """All over a range, so that little of what is new lies beyond it."""
    rng = torch.Generator().manual_seed(seed)
    return tuple(torch.rand(*size, generator=rng) * 4 - 2 for size in shapes)


def fresh(model: nn.Module, shapes: Shapes, count: int = 4) -> float:
    """Decibels beside the model itself on inputs that are new."""
    found = lower_on(model, [drawn(shapes, seed) for seed in range(16)], how=Options())
    pairs = []
    for seed in range(100, 100 + count):
        batch = drawn(shapes, seed)
        with torch.no_grad():
            wanted = tensors(model(*[value.clone() for value in batch]))
        pairs.append((wanted[0].reshape(-1), reference_outputs(found.graph, batch)[0].reshape(-1)))
    return decibels(torch.cat([one for one, _ in pairs]), torch.cat([two for _, two in pairs]))


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_the_model_does(name: str) -> None:
    function, shapes = CASES[name]
    assert fresh(Expression(function), shapes) > 26


LAYERS: dict[str, tuple[nn.Module, Shapes]] = {
    "conv3d": (nn.Conv3d(2, 4, 3, padding=1), ((1, 2, 5, 6, 6),)),
    "conv3d with strides": (nn.Conv3d(4, 6, (2, 3, 3), (2, 1, 2), (1, 2, 1), (2, 2, 1), 2), ((1, 4, 6, 7, 6),)),
    "conv3d along the depth": (nn.Conv3d(2, 4, (3, 1, 1)), ((2, 2, 5, 4, 4),)),
    "conv3d along slices": (nn.Conv3d(2, 4, (1, 3, 3), padding="same"), ((2, 5, 4, 4),)),
    "conv3d by channel": (nn.Conv3d(3, 3, (3, 3, 1), padding="same", groups=3), ((1, 3, 5, 4, 4),)),
    "Bilinear": (nn.Bilinear(3, 4, 5), ((6, 3), (6, 4))),
    "a tall window": (nn.Conv2d(1, 8, (512, 1), (4, 1), (254, 0)), ((1, 1, 1024, 1),)),
    "a tall window of wide images": (nn.Conv2d(2, 4, (300, 3), (8, 1), (0, 1)), ((1, 2, 400, 5),)),
    "a tall transposed window": (nn.ConvTranspose2d(2, 3, (512, 2), (4, 1)), ((1, 2, 20, 3),)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    layer, shapes = LAYERS[name]
    assert fresh(seeded(layer), shapes) > 28


def test_a_batch_norm_goes_into_the_convolution_of_volumes() -> None:
    model = seeded(nn.Sequential(nn.Conv3d(2, 4, 3), nn.BatchNorm3d(4), nn.ReLU()))
    found = lower_on(model, [drawn(((1, 2, 5, 6, 6),), 0)])
    assert [call for call in found.operators if "conv" in call] == ["quantized_conv2d_nhwc"]


POOLS: list[tuple[Callable[..., Any], Shapes]] = [
    (lambda x: F.max_pool2d(x, 2, return_indices=True)[1], ((1, 3, 6, 6),)),
    (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1], ((2, 3, 7, 6),)),
    (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True, return_indices=True)[1], ((1, 3, 6, 8),)),
    (lambda x: F.max_pool2d(x, 2, 1, dilation=2, return_indices=True)[1], ((1, 3, 6, 6),)),
    (lambda x: F.max_pool1d(x, 3, 2, 1, return_indices=True)[1], ((2, 3, 7),)),
    (lambda x: x.median(1).indices, ((3, 9),)),
]


@pytest.mark.parametrize(("function", "shapes"), POOLS)
def test_positions_are_those_of_the_model(function: Callable[..., Any], shapes: Shapes) -> None:
    """Of numbers that all have codes of their own."""
    rng = torch.Generator().manual_seed(1)
    batches = []
    for _ in range(4):
        count = torch.Size(shapes[0]).numel()
        batches.append(((torch.randperm(count, generator=rng).reshape(shapes[0]) - count // 2) / 127.0,))
    compiled = api.prepare(Expression(function), batches[0], batches[:3], name="net").compile("cortex-m4", C_ONLY)
    assert compiled.graph is not None
    for batch in batches:
        assert torch.equal(reference_outputs(compiled.graph, batch)[0].long(), function(*batch))


MAGNITUDES: list[Callable[..., Any]] = [
    torch.hypot,
    lambda x, y: torch.sqrt(x * x + y * y),
    lambda x, y: (x.pow(2) + y**2 + 1e-6).sqrt(),
    lambda x, y: torch.complex(x, y).abs(),
    lambda x, y: torch.view_as_complex(torch.stack([x, y], -1)).abs(),
    lambda x, y: torch.linalg.vector_norm(torch.stack([x, y], 1), dim=1),
    lambda x, y: torch.cat([x, y]).norm(),
    lambda x, y: (x.reshape(4, 8, 8).square().sum((0, 2), keepdim=True) + 1e-6).sqrt() + 0 * y[0, 0],
    lambda x, y: torch.sqrt((y * y).sum(-1)) + 0 * x[0, 0],
]


@pytest.mark.parametrize("function", MAGNITUDES)
def test_magnitudes_are_rounded_once(function: Callable[..., Any]) -> None:
    """Small ones beside large ones: squares in int8 would have lost them."""
    batches = [(randn(4, 64, seed=seed) ** 3, randn(4, 64, seed=seed + 50) ** 3) for seed in range(8)]
    found = lower_on(Expression(function), batches)
    assert "magnitude" in found.operators
    worst = 0.0
    for batch in batches:
        wanted, got = function(*batch), reference_outputs(found.graph, batch)[0]
        worst = max(worst, float((wanted - got).abs().max()))
    assert worst < 1.5 * found.scales[0] + 0.75 * max(float(x.abs().max()) for batch in batches for x in batch) / 127


def test_complex_numbers_are_refused_by_name() -> None:
    with pytest.raises(CortadoError, match="gives complex numbers, expected real ones"):
        lower_on(Expression(lambda x: torch.fft.fft(x).real), [(randn(2, 8),)])


def everything(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
    """New operators, and windows and reductions that were too large."""
    tall = F.conv2d(z, torch.linspace(-1, 1, 600).reshape(2, 1, 300, 1), stride=(8, 1))
    norms = torch.hypot(x, y), (x * x + y * y + 0.5).sqrt(), x.norm(dim=0), F.pairwise_distance(x, y)
    return *norms, tall, x.median(-1).values, F.max_pool2d(z, (300, 1))


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m0plus"))
def test_on_boards(target: str, tmp_path: Path) -> None:
    batches = [(*drawn(((3, 37), (3, 37), (1, 1, 400, 1)), seed),) for seed in range(3)]
    model = api.prepare(Expression(everything), batches[0], batches, name="net")
    compiled = model.compile(target, C_ONLY)
    samples = [[x.numpy() for x in batch] for batch in batches]
    assert compiled.save(tmp_path / "model").run(samples, check_stores=True).bit_exact


def test_more_values_than_keys_can_tell_apart_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is 2^24 - 2 values, which would take this test long."""
    monkeypatch.setattr(topk, "LARGEST_ROW", 7)
    data = (randn(1, 8),)
    with pytest.raises(CortadoError, match="among 8 values; expected at most 7"):
        api.compile(Expression(lambda x: x.topk(3)[0]), data, "cortex-m4", [data])
    assert lower_on(Expression(lambda x: x.topk(3)[0]), [(randn(1, 7),)]).kernels
