"""Scatters, embeddings and samples at computed positions, in float32: an index is compared with all positions."""

from typing import Any

import torch

from cortado.base.numerics import Tensor
from cortado.ops.float_graph import decomposed

aten = torch.ops.aten
_NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -float("inf"), "amin": float("inf")}


def is_place(index: Tensor, count: int, dim: int) -> Tensor:
    """Compares an index with `count` positions, along a new dimension; returns truth values."""
    sizes = [1] * (index.dim() + 1)
    sizes[dim] = count
    return index.unsqueeze(dim) == torch.arange(count).reshape(sizes)


def _reduced(values: Tensor, dim: int, reduce: str) -> Tensor:
    if reduce in ("amax", "amin"):
        return values.amax(dim) if reduce == "amax" else values.amin(dim)
    return values.prod(dim) if reduce == "prod" else values.sum(dim)


def scatter_reduce(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    dim %= self.dim()
    short = [size - taken for size, taken in zip(self.shape, index.shape, strict=True)]
    src = src[tuple(slice(0, size) for size in index.shape)]
    chosen = is_place(index, self.shape[dim], dim)
    count = chosen.to(torch.float32).sum(dim + 1)
    made = _reduced(torch.where(chosen, src.unsqueeze(dim), torch.full((1,), _NEUTRAL[reduce])), dim + 1, reduce)
    pads = [pad for at in reversed(range(self.dim())) for pad in (0, 0 if at == dim else short[at])]
    made = aten.constant_pad_nd.default(made, pads, _NEUTRAL[reduce]) if any(pads) else made
    count = aten.constant_pad_nd.default(count, pads, 0.0) if any(pads) else count
    both = {"amax": torch.maximum, "amin": torch.minimum, "prod": torch.mul}.get(reduce, torch.add)(self, made)
    found = both if include_self else torch.where(count > 0, made, self)
    if reduce != "mean":
        return found
    return found / (count + 1.0) if include_self else torch.where(count > 0, made / count.clamp(min=1.0), self)


def masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Takes the next source element where the mask holds: its position is the number of true values before."""
    flat = torch.broadcast_to(mask, self.shape).to(torch.float32).reshape(-1)
    place = torch.cumsum(flat, 0) - 1.0
    inside = place.clamp(0.0, float(source.numel() - 1)).to(torch.int64)
    taken = source.reshape(-1).index_select(0, inside).reshape(self.shape)
    return torch.where(flat.reshape(self.shape) > 0, taken, self)


def embedding_gradient(
    grad_output: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    chosen = is_place(indices.reshape(-1), num_weights, 0).to(torch.float32)
    if scale_grad_by_freq:
        chosen = chosen / chosen.sum(1, keepdim=True).clamp(min=1.0)
    if padding_idx >= 0:
        chosen = chosen * (torch.arange(num_weights) != padding_idx).to(torch.float32).unsqueeze(1)
    return torch.matmul(chosen, grad_output.reshape(-1, grad_output.shape[-1]))


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    mode: int,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
    padding_idx: int,
    **_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Computes sums, means or maxima of rows of a table, from each offset to the next."""
    bags, count = offsets.shape[0] - include_last_offset, indices.shape[0]
    begin = offsets[:bags].unsqueeze(1)
    ends = offsets[1:] if include_last_offset else torch.cat([offsets[1:], torch.full((1,), count)])
    places = torch.arange(count).unsqueeze(0)
    inside = (places >= begin).to(torch.float32) * (places < ends.unsqueeze(1)).to(torch.float32)
    if padding_idx >= 0:
        inside = inside * (indices != padding_idx).to(torch.float32)
    rows = torch.nn.functional.embedding(indices, weight)
    sizes = inside.sum(1, keepdim=True)
    if mode == 2:
        low = torch.full((1,), -float("inf"))
        most = torch.where(inside.unsqueeze(2) > 0, rows.unsqueeze(0), low).amax(1)
        found = torch.where(sizes > 0, most, torch.zeros((1,)))
    else:
        rows = rows if per_sample_weights is None else rows * per_sample_weights.unsqueeze(1)
        found = torch.matmul(inside, rows)
        found = found / sizes.clamp(min=1.0) if mode == 1 else found
    return found, indices, sizes, sizes


# ---- samples of images ---------------------------------------------------------------------------------------


def _unnormalized(at: Tensor, size: int, align: bool) -> Tensor:
    return (at + 1.0) * ((size - 1) / 2) if align else ((at + 1.0) * size - 1.0) * 0.5


def _reflected(at: Tensor, low: float, high: float) -> Tensor:
    """Reflects positions between two borders, as often as necessary."""
    span = high - low
    if span == 0:
        return at * 0.0
    away = (at - low).abs()
    turns = torch.floor(away / span)
    rest = away - turns * span
    odd = turns - torch.floor(turns * 0.5) * 2.0
    return torch.where(odd > 0, span - rest, rest) + low


def _padded(at: Tensor, size: int, mode: int, align: bool) -> Tensor:
    if mode == 2:
        at = _reflected(at, 0.0, size - 1.0) if align else _reflected(at, -0.5, size - 0.5)
    return at if mode == 0 else at.clamp(0.0, size - 1.0)


def _pixels(input: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Returns pixels [n, c, h, w] at integer positions [n, h, w], 0 outside."""
    n, c, high, wide = input.shape
    row, column = y.clamp(0.0, high - 1.0), x.clamp(0.0, wide - 1.0)
    inside = (row == y).to(torch.float32) * (column == x).to(torch.float32)
    places = (row * float(wide) + column).to(torch.int64).reshape(n, 1, -1).expand(n, c, -1)
    taken = input.reshape(n, c, high * wide).gather(2, places).reshape(n, c, *x.shape[1:])
    return taken * inside.unsqueeze(1)


def _cubic(part: Tensor) -> list[Tensor]:
    """Returns the weights of the four pixels around a position: torch's cubic interpolation with a = -0.75."""
    a = -0.75

    def far(t: Tensor) -> Tensor:
        return ((t * a - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a

    def near(t: Tensor) -> Tensor:
        return ((t * (a + 2.0) - (a + 3.0)) * t) * t + 1.0

    return [far(part + 1.0), near(part), near(1.0 - part), far(2.0 - part)]


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    high, wide = input.shape[2:]
    x, y = (_unnormalized(grid[..., at], size, align_corners) for at, size in ((0, wide), (1, high)))
    if interpolation_mode == 2:
        left, top = torch.floor(x), torch.floor(y)
        found = None
        for row, down in enumerate(_cubic(y - top)):
            for column, across in enumerate(_cubic(x - left)):
                at_x = _padded(left + (column - 1.0), wide, padding_mode, align_corners)
                at_y = _padded(top + (row - 1.0), high, padding_mode, align_corners)
                one = _pixels(input, at_x, at_y) * (down * across).unsqueeze(1)
                found = one if found is None else found + one
        assert found is not None
        return found
    x, y = (_padded(at, size, padding_mode, align_corners) for at, size in ((x, wide), (y, high)))
    if interpolation_mode == 1:
        return _pixels(input, torch.round(x), torch.round(y))
    left, top = torch.floor(x), torch.floor(y)
    right, bottom = x - left, y - top
    above = _pixels(input, left, top) * ((1.0 - right) * (1.0 - bottom)).unsqueeze(1)
    above = above + _pixels(input, left + 1.0, top) * (right * (1.0 - bottom)).unsqueeze(1)
    below = _pixels(input, left, top + 1.0) * ((1.0 - right) * bottom).unsqueeze(1)
    return above + below + _pixels(input, left + 1.0, top + 1.0) * (right * bottom).unsqueeze(1)


FORMS = decomposed(
    {
        aten.scatter_reduce.two: scatter_reduce,
        aten.masked_scatter.default: masked_scatter,
        aten.embedding_dense_backward.default: embedding_gradient,
        aten._embedding_bag.default: embedding_bag,
        aten.grid_sampler_2d.default: grid_sampler,
    }
)
