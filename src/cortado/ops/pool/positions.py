"""Positions of the largest values in the windows of max pools, and the inverse that puts values back there
(max_unpool).

The windows are picked from the image; the first largest value of each is found, and its position in the window gives
its position in the image, as integers. A tap outside the image, or past the end of a window that is smaller than
others, reads the nearest pixel instead, which lies in the same window.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from cortado.base.numerics import Tensor
from cortado.ir.graph import Bound, bind, is_call, shape
from cortado.ir.op import Decomposition
from cortado.ops.conv.forms import as_images, as_volume, volume_max_pool
from cortado.ops.float_graph import height_one, pair, parts_of, triple, values_only
from cortado.ops.pool.avg_pool2d import pooled_size
from cortado.ops.pool.forms import adaptive_windows

aten = torch.ops.aten


@dataclass(frozen=True)
class PoolTaps:
    """The windows along one dimension: each has its first position, as many taps as the largest window, and its
    bounds."""

    size: int  # of the dimension
    count: int  # taps
    gap: int
    first: Tensor  # [windows]; can be outside
    lowest: Tensor
    highest: Tensor
    inside: bool  # no tap has to be moved to the nearest pixel

    @property
    def places(self) -> Tensor:
        """The pixel that each tap reads: [windows, taps]."""
        reach = self.first[:, None] + torch.arange(self.count) * self.gap
        return torch.minimum(torch.maximum(reach, self.lowest[:, None]), self.highest[:, None])


def _sliding(size: int, kernel: int, stride: int, pad: int, gap: int, ceil_mode: bool) -> PoolTaps:
    first = torch.arange(pooled_size(size, kernel, stride, pad, ceil_mode, gap)) * stride - pad
    inside = not pad and not ceil_mode
    return PoolTaps(size, kernel, gap, first, torch.zeros_like(first), torch.full_like(first, size - 1), inside)


def _adaptive(size: int, count: int) -> PoolTaps:
    windows = adaptive_windows(size, count)
    lengths = {end - start for start, end in windows}
    first, last = torch.tensor([start for start, _ in windows]), torch.tensor([end - 1 for _, end in windows])
    return PoolTaps(size, max(lengths), 1, first, first, last, inside=len(lengths) == 1)


def largest_places(source: Tensor, axes: Sequence[PoolTaps]) -> Tensor:
    """Returns the position of each window's largest value in the flattened image."""
    rank = len(axes)
    flat = source.reshape(-1, math.prod(axis.size for axis in axes))
    taps = math.prod(axis.count for axis in axes)
    places = torch.zeros([1] * 2 * rank, dtype=torch.int64)
    for dim, axis in enumerate(axes):
        own = {dim: len(axis.first), rank + dim: axis.count}
        places = places * axis.size + axis.places.reshape([own.get(place, 1) for place in range(2 * rank)])
    counts = [len(axis.first) for axis in axes]
    windows = flat.index_select(1, places.reshape(-1)).reshape(-1, *counts, taps)
    best = windows.argmax(-1)
    found = torch.zeros((), dtype=torch.int64)
    for dim, axis in enumerate(axes):
        taps //= axis.count
        column = [-1 if place == dim else 1 for place in range(rank)]
        row = axis.first.reshape(column) + best // taps % axis.count * axis.gap
        if not axis.inside:
            row = torch.minimum(torch.maximum(row, axis.lowest.reshape(column)), axis.highest.reshape(column))
        found = row if dim == 0 else found * axis.size + row
    return found.reshape(*source.shape[:-rank], *counts)


# ---- sliding windows -----------------------------------------------------------------------------------------


def _slides(
    sizes: Sequence[int], kernel: list[int], steps: list[int], pads: list[int], gaps: list[int], ceil_mode: bool
) -> list[PoolTaps]:
    axes = zip(sizes, kernel, steps, pads, gaps, strict=True)
    return [_sliding(size, taps, step, pad, gap, ceil_mode) for size, taps, step, pad, gap in axes]


def max_pool2d(
    self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    kernel, pads, gaps = pair(kernel_size), pair(padding), pair(dilation)
    steps = pair(stride) if stride else kernel
    values = F.max_pool2d(self, kernel, steps, pads, gaps, ceil_mode)
    return values, largest_places(self, _slides(self.shape[-2:], kernel, steps, pads, gaps, ceil_mode))


def max_pool1d(
    self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """Treats a signal as an image of height 1."""
    kernel, steps, gaps = (height_one(value, 1) for value in (kernel_size, stride or kernel_size, dilation))
    values, positions = max_pool2d(self.unsqueeze(-2), kernel, steps, height_one(padding, 0), gaps, ceil_mode)
    return values.squeeze(-2), positions.squeeze(-2)


def max_pool3d(
    self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    kernel, pads, gaps = triple(kernel_size), triple(padding), triple(dilation)
    steps = triple(stride) if stride else kernel
    values = volume_max_pool(self, kernel, steps, pads, gaps, ceil_mode)
    return values, largest_places(self, _slides(self.shape[-3:], kernel, steps, pads, gaps, ceil_mode))


def _gives_positions(bound: Bound) -> bool:
    """Whether the positions are read, and every clamped tap lies in its own window: with gaps between taps it might
    not."""
    inside = not any(triple(bound["padding"])) and not bound["ceil_mode"]
    return _is_read(bound) and (inside or all(gap == 1 for gap in triple(bound["dilation"])))


def _is_read(bound: Bound) -> bool:
    return any(part.users for part in parts_of(bound.node, 1))


def _only_values(bound: Bound) -> bool:
    return values_only(bound.node) is not None


# ---- adaptive windows ----------------------------------------------------------------------------------------


def adaptive_max_pool1d(self: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    (count,) = output_size
    values: Tensor = aten.adaptive_max_pool1d.default(self, output_size)[0]
    return values, largest_places(self, [_adaptive(self.shape[-1], count)])


def adaptive_max_pool2d(self: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    values: Tensor = aten.adaptive_max_pool2d.default(self, output_size)[0]
    return values, largest_places(self, [_adaptive(*axis) for axis in zip(self.shape[-2:], output_size, strict=True)])


def adaptive_max_pool3d(self: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """Pools over height and width, then over the depth."""
    depth, *plane = output_size
    volume = self if len(self.shape) == 5 else self[None]
    slices = as_volume(aten.adaptive_max_pool2d.default(as_images(volume), plane)[0], volume.shape[0])
    rows = slices.flatten(3)
    values = aten.adaptive_max_pool2d.default(rows, [depth, rows.shape[3]])[0].reshape(*self.shape[:-3], *output_size)
    axes = [_adaptive(*axis) for axis in zip(self.shape[-3:], output_size, strict=True)]
    return values, largest_places(self, axes)


# ---- the inverse ---------------------------------------------------------------------------------------------


def _pool_of(positions: Any) -> Bound | None:
    """Returns the max pool that computed these positions."""
    if not is_call(positions, operator.getitem) or positions.args[1] != 1:
        return None
    pool = positions.args[0]
    assert isinstance(pool, Node)
    return bind(pool) if is_call(pool, aten.max_pool2d_with_indices.default) else None


def _goes_back(bound: Bound) -> bool:
    """Whether values go back into adjacent windows of the image that was pooled."""
    pool = _pool_of(bound["indices"])
    if pool is None or shape(bound["self"]) != shape(bound["indices"]):
        return False
    kernel = pair(pool["kernel_size"])
    apart = (pair(pool["stride"]) if pool["stride"] else kernel) == kernel and pair(pool["dilation"]) == [1, 1]
    inside = not any(pair(pool["padding"])) and not pool["ceil_mode"]
    return apart and inside and list(shape(pool["self"])[-2:]) == [int(size) for size in bound["output_size"]]


def max_unpool2d(self: Tensor, indices: Tensor, output_size: Any) -> Tensor:
    """Repeats every value over its window, and keeps it where its position is."""
    height, width = output_size
    *outer, rows, columns = self.shape
    taps = (height // rows, width // columns)
    places = (torch.arange(rows * taps[0]).reshape(-1, 1) * width + torch.arange(columns * taps[1])).to(torch.int64)

    def repeated(values: Tensor) -> Tensor:
        expanded = values.reshape(-1, rows, 1, columns, 1).expand(-1, rows, taps[0], columns, taps[1])
        return expanded.reshape(-1, rows * taps[0], columns * taps[1])

    kept = (repeated(indices) == places).to(torch.float32)
    made = (repeated(self) * kept).reshape(*outer, rows * taps[0], columns * taps[1])
    return F.pad(made, (0, width - columns * taps[1], 0, height - rows * taps[0]))


MAX_POOL2D = Decomposition(aten=(aten.max_pool2d_with_indices.default,), function=max_pool2d, takes=_gives_positions)
MAX_POOL1D = Decomposition(aten=(aten.max_pool1d_with_indices.default,), function=max_pool1d, takes=_gives_positions)
MAX_POOL3D = Decomposition(
    aten=(aten.max_pool3d_with_indices.default,),
    function=max_pool3d,
    takes=lambda bound: _only_values(bound) or _gives_positions(bound),
)
ADAPTIVE_MAX_POOL1D = Decomposition(
    aten=(aten.adaptive_max_pool1d.default,), function=adaptive_max_pool1d, takes=_is_read
)
ADAPTIVE_MAX_POOL2D = Decomposition(
    aten=(aten.adaptive_max_pool2d.default,), function=adaptive_max_pool2d, takes=_is_read
)
ADAPTIVE_MAX_POOL3D = Decomposition(aten=(aten.adaptive_max_pool3d.default,), function=adaptive_max_pool3d)
MAX_UNPOOL2D = Decomposition(aten=(aten.max_unpool2d.default,), function=max_unpool2d, takes=_goes_back)
