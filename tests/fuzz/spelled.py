"""Calls that are spelled out in smaller ones: losses, orders, products, volumes, resizing, values put into places."""

import math
from collections.abc import Callable

import torch
from torch.nn import functional

from fuzz.choices import (
    MOST_ELEMENTS,
    MOST_RANK,
    any_shape,
    at_least,
    aten,
    held,
    image,
    no_options,
    pair,
    rank,
    same,
    unary,
)
from fuzz.recipe import Block, Shape, Tensor


def few(shape: Shape) -> bool:
    """A product of many numbers is nothing, or too much."""
    return len(shape) >= 1 and 2 <= shape[-1] <= 5


def square(shape: Shape) -> bool:
    return len(shape) >= 2 and shape[-1] == shape[-2]


def grows(factor: int) -> Callable[[Shape], bool]:
    return lambda shape: len(shape) == 4 and factor * math.prod(shape) <= MOST_ELEMENTS


def embeds(shape: Shape) -> bool:
    return 1 <= len(shape) < MOST_RANK and math.prod(shape) * shape[-1] <= MOST_ELEMENTS


def deep(shape: Shape) -> bool:
    """A volume with slices to pool."""
    return len(shape) == 5 and min(shape[2:]) >= 2


def outer_fits(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) == 2 and math.prod(a) * math.prod(b) <= MOST_ELEMENTS


def halves(x: Tensor) -> Tensor:
    """Every second place along the last dimension."""
    return torch.arange(0, x.shape[-1], 2)


def as_volume(x: Tensor) -> Tensor:
    """An image's channels as the depth of a volume."""
    return x.unsqueeze(1)


def conv3d(x: Tensor, weight: Tensor) -> Tensor:
    return 0.3 * functional.conv3d(as_volume(x), weight, padding=1).squeeze(1)


def place(x: Tensor, y: Tensor) -> Tensor:
    return x.index_copy(-1, halves(x), 0.5 * y[..., : len(halves(x))])


def unfolded(x: Tensor) -> Tensor:
    """Back from windows of 2, those at the end left out."""
    return functional.fold(functional.unfold(x, 2, stride=2), tuple(x.shape[-2:]), 2, stride=2)


def overlapping(x: Tensor) -> Tensor:
    return 0.25 * functional.fold(functional.unfold(x, 2), tuple(x.shape[-2:]), 2)


def windows_fit(shape: Shape) -> bool:
    return image(shape) and min(shape[2:]) >= 2 and 4 * math.prod(shape) <= MOST_ELEMENTS


SPELLED: dict[str, Block] = {
    "broadcast_tensors": pair(lambda a, b: sum(torch.broadcast_tensors(a, b))),
    "mse_loss": pair(lambda a, b: functional.mse_loss(a, b, reduction="none"), same),
    "l1_loss": pair(lambda a, b: functional.l1_loss(a, b, reduction="none"), same),
    "smooth_l1_loss": pair(lambda a, b: functional.smooth_l1_loss(a, b, reduction="none", beta=0.5), same),
    "huber_loss": pair(lambda a, b: functional.huber_loss(a, b, reduction="none"), same),
    "sum_to_size": unary(lambda x: x.sum_to_size(*x.shape[:-1], 1) / x.shape[-1]),
    "div_mode": pair(lambda a, b: torch.div(a, b.abs() + 1, rounding_mode=None)),
    "hypot": pair(torch.hypot),
    "root_of_squares": pair(lambda a, b: torch.sqrt(a * a + b * b + 0.01)),
    "logaddexp": pair(torch.logaddexp),
    "xlogy": pair(lambda a, b: torch.xlogy(a, b.abs() + 0.5)),
    "median": unary(lambda x: aten.median.dim(x, -1, True)[0]),
    "median_of_all": unary(lambda x: x - aten.median.default(x)),
    "kthvalue": unary(lambda x: aten.kthvalue.default(x, 1, -1, True)[0]),
    "quantile": unary(lambda x: x.quantile(0.3, -1, keepdim=True)),
    "prod": unary(lambda x: aten.prod.dim_int(1 + 0.2 * x.tanh(), -1, True), few),
    "prod_of_all": unary(lambda x: x * aten.prod.default(1 + 0.1 * x.tanh()), lambda s: math.prod(s) <= 8),
    "nansum": unary(lambda x: x.nansum(-1, keepdim=True) / x.shape[-1]),
    "index_fill": unary(lambda x: aten.index_fill.int_Scalar(x, -1, halves(x), 0.5)),
    "index_fill_tensor": unary(lambda x: aten.index_fill.int_Tensor(x, -1, halves(x), torch.tensor(-0.5))),
    "index_copy": pair(place, same),
    "index_add": unary(lambda x: aten.index_add.default(x, -1, halves(x), 0.5 * x[..., : len(halves(x))])),
    "scatter_number": unary(lambda x: aten.scatter.value(x, -1, halves(x).expand(*x.shape[:-1], -1), 1.0)),
    "scatter": unary(lambda x: aten.scatter.src(x, -1, halves(x).expand(*x.shape[:-1], -1), x.flip(-1).relu())),
    "scatter_add": unary(lambda x: aten.scatter_add.default(x, -1, halves(x).expand(*x.shape[:-1], -1), 0.5 * x)),
    "slice_scatter": unary(lambda x: aten.slice_scatter.default(x, 0.5 * x[..., :1], -1, 0, 1)),
    "select_scatter": unary(lambda x: aten.select_scatter.default(x, x[..., 0].relu(), -1, -1)),
    "diagonal_scatter": unary(
        lambda x: aten.diagonal_scatter.default(x, x.diagonal(0, -2, -1).relu(), 0, -2, -1), square
    ),
    "masked_scatter": unary(lambda x: x.masked_scatter(torch.arange(x.shape[-1]) % 2 == 0, x.relu())),
    "diag_embed": unary(lambda x: torch.diag_embed(x, 0), embeds),
    "fold": unary(unfolded, windows_fit),
    "fold_that_overlaps": unary(overlapping, windows_fit),
    "tensordot": unary(lambda x: 0.2 * torch.tensordot(x, x, dims=([-1], [-1])), lambda s: len(s) == 2),
    "kron": pair(torch.kron, outer_fits),
    "einsum_diagonal": unary(lambda x: torch.einsum("...ii->...i", x), square),
    "einsum_row": unary(lambda x: 0.2 * torch.einsum("bi,bi->b", x, x[:1]), rank(2)),
    "bicubic": unary(lambda x: functional.interpolate(x, scale_factor=2, mode="bicubic"), grows(4)),
    "antialias": unary(
        lambda x: functional.interpolate(x, (2, 3), mode="bilinear", antialias=True),
        lambda s: image(s) and min(s[2:]) > 3,
    ),
    "antialiased_bicubic": unary(
        lambda x: functional.interpolate(x, (2, 3), mode="bicubic", antialias=True),
        lambda s: image(s) and min(s[2:]) > 3,
    ),
    "nearest_of_volumes": unary(
        lambda x: functional.interpolate(as_volume(x), scale_factor=2, mode="nearest").squeeze(1), grows(8)
    ),
    "reflected_volume": unary(
        lambda x: aten.reflection_pad3d.default(as_volume(x), [1] * 6).squeeze(1),
        lambda s: image(s) and min(s[1:]) > 1,
    ),
    "trilinear": unary(
        lambda x: functional.interpolate(as_volume(x), scale_factor=2, mode="trilinear").squeeze(1), grows(8)
    ),
    "max_pool3d": unary(lambda x: functional.max_pool3d(x, 2), deep),
    "avg_pool3d": unary(lambda x: functional.avg_pool3d(x, 2), deep),
    "adaptive_avg_pool3d": unary(lambda x: functional.adaptive_avg_pool3d(x, (2, 1, 2)), deep),
    "max_pool3d_of_images": unary(lambda x: functional.max_pool3d(as_volume(x), 2, 1, 1).squeeze(1), image),
    "conv3d": Block(image, no_options, held(conv3d, lambda shape: {"weight": (1, 1, 3, 3, 3)})),
    "bilinear": Block(
        lambda s: len(s) == 2,
        no_options,
        held(lambda x, weight: functional.bilinear(x, x, 0.2 * weight), lambda s: {"weight": (3, s[1], s[1])}),
    ),
    "linear_with_a_row": Block(
        at_least(2),
        no_options,
        held(functional.linear, lambda s: {"weight": (4, s[-1]), "bias": (1, 4)}),
    ),
    "aminmax": unary(lambda x: x - aten.aminmax.default(x, dim=-1, keepdim=True)[0], any_shape),
}
