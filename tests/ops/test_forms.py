"""Calls that become others, or one exact operator: beside the model itself, as good as int8 at its two ends allows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from cortado import api
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from helpers.cores import THREE, each_core
from helpers.single import Expression, decibels, lower_on, randn, tensors

Tensor = torch.Tensor
aten = torch.ops.aten
Case = tuple[Callable[..., Any], tuple[tuple[int, ...], ...], list[str]]

PLACES = torch.tensor([[0, 2], [1, 1]])
MASK = torch.rand(4, 4, generator=torch.Generator().manual_seed(0)) > 0.5
WEIGHTS = randn(3, 5)


def assigned(x: Tensor, y: Tensor) -> Tensor:
    x = x.clone()
    x[:, 1:] = y
    return x


# What is called, on inputs of which shapes, and the kernels it becomes.
EXACT: dict[str, Case] = {
    "cosine_similarity": (F.cosine_similarity, ((3, 16), (3, 16)), ["cosine_similarity"]),
    "cosine over channels": (F.cosine_similarity, ((1, 16, 3, 3), (1, 16, 3, 3)), ["cosine_similarity"]),
    "cosine of small vectors": (
        lambda x, y: F.cosine_similarity(0.01 * x, y, -1),
        ((9, 8), (9, 8)),
        ["quantized_activation", "cosine_similarity"],
    ),
    "cosine with a large eps": (
        lambda x, y: F.cosine_similarity(x, y, -1, 4.0),
        ((9, 8), (9, 8)),
        ["cosine_similarity"],
    ),
    "std": (lambda x: x.std(-1), ((3, 16),), ["variance"]),
    "std along another dimension": (lambda x: x.std(1, keepdim=True), ((3, 16, 4),), ["variance"]),
    "var without correction": (lambda x: x.var(-1, unbiased=False), ((3, 16),), ["variance"]),
    "var of images": (lambda x: x.var((2, 3)), ((1, 3, 6, 6),), ["variance"]),
    "pairwise_distance": (F.pairwise_distance, ((3, 16), (3, 16)), ["magnitude"]),
    "distance in other scales": (
        lambda x, y: F.pairwise_distance(x, 20 * y),
        ((5, 8), (5, 8)),
        ["quantized_activation", "magnitude"],
    ),
    "cdist": (torch.cdist, ((2, 3, 16), (2, 4, 16)), ["repeat", "repeat", "magnitude"]),
    "cumsum": (lambda x: x.cumsum(-1), ((3, 16),), ["cumsum"]),
    "cumsum over channels": (lambda x: x.cumsum(1), ((1, 8, 4, 4),), ["cumsum"]),
    "einsum of matrices": (
        lambda x, y: torch.einsum("bij,bjk->bik", x, y),
        ((2, 4, 5), (2, 5, 3)),
        ["quantized_batch_matmul"],
    ),
    "einsum of heads": (
        lambda x, y: torch.einsum("bhid,bhjd->bhij", x, y),
        ((1, 2, 4, 5), (1, 2, 3, 5)),
        ["quantized_batch_matmul"],
    ),
    "einsum with dots": (
        lambda x, y: torch.einsum("...id,...jd->...ij", x, y),
        ((1, 2, 6, 8), (1, 2, 4, 8)),
        ["quantized_batch_matmul"],
    ),
    "einsum of vectors": (lambda x, y: torch.einsum("i,j->ij", x, y), ((4,), (5,)), ["repeat", "quantized_mul"]),
    "einsum of one": (lambda x: torch.einsum("bij->ib", x), ((2, 4, 5),), ["quantized_conv2d_nhwc"]),
    "einsum with a constant": (lambda x: torch.einsum("oi,bi->bo", WEIGHTS, x), ((4, 5),), ["quantized_conv2d_nhwc"]),
    "einsum implied": (lambda x, y: torch.einsum("ij,jk", x, y), ((4, 5), (5, 3)), ["quantized_batch_matmul"]),
    "einsum rows by rows": (lambda x, y: torch.einsum("bi,bi->b", x, y), ((4, 5), (4, 5)), ["quantized_batch_matmul"]),
    "outer": (torch.outer, ((3,), (4,)), ["repeat", "quantized_mul"]),
    "dot": (torch.dot, ((16,), (16,)), ["quantized_batch_matmul"]),
    "mv": (torch.mv, ((3, 16), (16,)), ["quantized_batch_matmul"]),
    "inner": (torch.inner, ((3, 16), (2, 16)), ["quantized_batch_matmul"]),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), ((3, 16), (3, 16)), ["quantized_activation", "quantized_add"]),
    "gather": (lambda x: torch.gather(x, 1, PLACES), ((2, 4),), ["index_select"]),
    "take_along_dim": (lambda x: torch.take_along_dim(x, PLACES, 1), ((2, 4),), ["index_select"]),
    "take": (lambda x: torch.take(x, PLACES), ((2, 4),), ["index_select"]),
    "two lists in brackets": (lambda x: x[PLACES[0], PLACES[1]], ((3, 4),), ["index_select"]),
    "a matrix in brackets": (lambda x: x[:, PLACES], ((2, 4),), ["index_select"]),
    "unfold of images": (lambda x: F.unfold(x, 3, padding=1, stride=2), ((1, 3, 6, 6),), ["index_select"]),
    "unfold of signals": (lambda x: x.unfold(1, 4, 2), ((2, 10),), ["index_select"]),
    "unfold side by side": (lambda x: x.unfold(-1, 4, 4), ((2, 3, 12),), []),
    "diagonal": (torch.diagonal, ((4, 4),), ["index_select"]),
    "linalg.diagonal": (torch.linalg.diagonal, ((2, 4, 4),), ["index_select"]),
    "rot90": (torch.rot90, ((4, 5),), ["index_select"]),
    "triu": (torch.triu, ((4, 5),), ["quantized_mul"]),
    "tril": (lambda x: torch.tril(x, -1), ((2, 4, 5),), ["quantized_mul"]),
    "masked_fill": (lambda x: x.masked_fill(MASK, 0.0), ((4, 4),), ["quantized_mul"]),
    "an assignment to a part": (assigned, ((2, 4), (2, 3)), ["slice_copy", "cat"]),
    "permute_copy": (lambda x: torch.permute_copy(x, (0, 2, 1)), ((2, 3, 4),), []),
    "t_copy": (torch.t_copy, ((3, 4),), []),
    "slice_copy": (lambda x: aten.slice_copy.Tensor(x, 0, 1), ((3, 4),), ["slice_copy"]),
    "linear interpolation": (
        lambda x: F.interpolate(x, scale_factor=2, mode="linear"),
        ((1, 4, 8),),
        ["upsample_bilinear_nhwc"],
    ),
    "linear to a size": (
        lambda x: F.interpolate(x, size=13, mode="linear", align_corners=True),
        ((1, 4, 8),),
        ["upsample_bilinear_nhwc"],
    ),
}

# Several int8 operators in a row round between them; of eight numbers the noise is a matter of luck.
CHAINS: dict[str, Case] = {
    "std of everything": (lambda x: x.std(), ((3, 16),), ["variance"]),
    "baddbmm": (torch.baddbmm, ((2, 3, 4), (2, 3, 5), (2, 5, 4)), ["quantized_batch_matmul", "quantized_add"]),
    "baddbmm with factors": (
        lambda z, x, y: torch.baddbmm(z, x, y, alpha=0.5, beta=2),
        ((2, 3, 4), (2, 3, 5), (2, 5, 4)),
        ["quantized_batch_matmul", "quantized_activation", "quantized_add"],
    ),
    "addbmm": (torch.addbmm, ((3, 4), (2, 3, 5), (2, 5, 4)), ["quantized_batch_matmul", "quantized_add"]),
    "addmv": (torch.addmv, ((3,), (3, 16), (16,)), ["quantized_batch_matmul", "quantized_add"]),
    "clamp between tensors": (torch.clamp, ((3, 16), (3, 16), (1, 16)), ["maximum", "repeat", "minimum"]),
    "einsum of three": (
        lambda x, y, z: torch.einsum("ij,jk,kl->il", x, y, z),
        ((3, 4), (4, 5), (5, 3)),
        ["quantized_batch_matmul", "quantized_batch_matmul"],
    ),
    "lerp by element": (torch.lerp, ((3, 16), (3, 16), (3, 16)), ["quantized_add", "quantized_mul", "quantized_add"]),
    "masked_fill with a number": (lambda x: x.masked_fill(MASK, 1.5), ((4, 4),), ["quantized_mul", "quantized_add"]),
    "local_response_norm": (
        lambda x: F.local_response_norm(x, 3, alpha=0.5),
        ((1, 8, 5, 5),),
        ["quantized_activation", "quantized_conv2d_nhwc", "quantized_activation", "quantized_div"],
    ),
    "distance of order 1": (
        lambda x, y: F.pairwise_distance(x, y, p=1.0),
        ((3, 16), (3, 16)),
        ["quantized_add", "quantized_activation", "quantized_conv2d_nhwc"],
    ),
}


def rounded(values: list[Tensor]) -> list[Tensor]:
    """To int8 and back, with one scale for all."""
    low, high = min(0.0, *(float(x.min()) for x in values)), max(0.0, *(float(x.max()) for x in values))
    step = (high - low) / 255
    zero = round(-128 - low / step)
    return [(torch.clamp(torch.round(x / step) + zero, -128, 127) - zero) * step for x in values]


def measured(case: Case) -> tuple[list[str], float, float]:
    """The kernels, and decibels to the call in float: of the integers, and of the call in float between int8 ends."""
    function, shapes, _ = case
    batches = [
        tuple(randn(*size, seed=10 * number + place) for place, size in enumerate(shapes)) for number in range(8)
    ]
    found = lower_on(Expression(function), batches)
    wanted = torch.cat([tensors(function(*batch))[0].flatten() for batch in batches])
    got = torch.cat([found.outputs(*batch)[0].flatten() for batch in batches])
    columns = [rounded([batch[place] for batch in batches]) for place in range(len(shapes))]
    ends = rounded([function(*batch).flatten() for batch in zip(*columns, strict=True)])
    return found.kernels, decibels(wanted, got), decibels(wanted, torch.cat(ends))


@pytest.mark.parametrize("name", EXACT)
def test_one_rounding_at_the_end(name: str) -> None:
    kernels, got, possible = measured(EXACT[name])
    assert kernels == EXACT[name][2]
    assert got > possible - 1.0


@pytest.mark.parametrize("name", CHAINS)
def test_a_few_roundings_on_the_way(name: str) -> None:
    kernels, got, possible = measured(CHAINS[name])
    assert kernels == CHAINS[name][2]
    assert got > possible - 5.0
    assert got > 33


@pytest.mark.parametrize(
    ("function", "shapes", "reason"),
    [
        (lambda x: torch.logcumsumexp(x, -1), ((4, 4),), "no integer operator for it"),
        (lambda x, y: F.pairwise_distance(x, y, p=3.0), ((4, 4), (4, 4)), "supported in some forms only"),
    ],
)
def test_what_is_refused_says_why(
    function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...], reason: str
) -> None:
    with pytest.raises(CortadoError, match=reason):
        lower_on(Expression(function), [tuple(randn(*size) for size in shapes)])


def everything(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Every operator of one number for each row, and running sums."""
    return x.std(-1), x.var(0), F.cosine_similarity(x, y), F.pairwise_distance(x, y), y.cumsum(-1)


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m4"))
def test_on_boards(target: str, tmp_path: Path) -> None:
    batches = [(randn(3, 37, seed=seed), randn(3, 37, seed=seed + 9, scale=2.0)) for seed in range(3)]
    compiled = api.prepare(Expression(everything), batches[0], batches, name="net").compile(from_target_string(target))
    samples = [[x.numpy() for x in batch] for batch in batches]
    assert compiled.save(tmp_path / "model").run(samples, check_stores=True).bit_exact
