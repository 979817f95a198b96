"""Other spellings of pools: 1-D ones, unbatched ones, adaptive ones, averages with other divisors.

Each becomes aten.avg_pool2d or aten.max_pool2d on a batch of images, or, if the divisor is constant, a convolution with
equal weights, because zeros outside the image then add nothing. So do averages over small windows inside the image,
which spread less than their pixels: as a convolution they have a scale of their own.

Positions of the largest values in the windows of max pools, and the inverse that puts values back there
(max_unpool).

The windows are picked from the image; the first largest value of each is found, and its position in the window gives
its position in the image, as integers. A tap outside the image, or past the end of a window that is smaller than
others, reads the nearest pixel instead, which lies in the same window.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.ir.facts import VALUE
from cortado.ir.graph import Bound, add_call, bind, is_call, shape
from cortado.ir.op import Decomposition, Pattern, Rewrite
from cortado.ops.conv.forms import Pads, as_images, as_volume, images, pad_images, volume_max_pool
from cortado.ops.float_graph import (
    add_constant,
    add_view,
    height_one,
    pair,
    parts_of,
    replace_values,
    triple,
    values_only,
)
from cortado.ops.pool.avg_pool2d import is_mean, is_one_image, pooled_size

aten = torch.ops.aten


@dataclass(frozen=True)
class WindowAxis:
    """A window sliding along one axis."""

    size: int
    kernel: int
    stride: int
    pad: int
    ceil: bool

    @property
    def count(self) -> int:
        return pooled_size(self.size, self.kernel, self.stride, self.pad, self.ceil)

    @property
    def over(self) -> int:
        """How far the last window extends past the image and its padding; if negative, how much no window covers."""
        return (self.count - 1) * self.stride + self.kernel - (self.size + 2 * self.pad)


def _axes(bound: Bound, source: Node, spatial: int) -> tuple[WindowAxis, WindowAxis]:
    kernel, stride, padding = bound["kernel_size"], bound["stride"] or bound["kernel_size"], bound["padding"]
    if spatial == 2:
        kernel, stride, padding = pair(kernel), pair(stride), pair(padding)
    else:
        kernel, stride, padding = height_one(kernel, 1), height_one(stride, 1), height_one(padding, 0)
    height, width = shape(source)[2:]
    ceil = bool(bound["ceil_mode"])
    return WindowAxis(height, kernel[0], stride[0], padding[0], ceil), WindowAxis(
        width, kernel[1], stride[1], padding[1], ceil
    )


# ---- averages ------------------------------------------------------------------------------------------------


def _to_avg_pool2d(bound: Bound, spatial: int) -> Node:
    """Adds an average over the pixels inside the image, or a convolution if the divisor is the same everywhere."""
    source = images(bound.node, bound["self"], spatial)
    axes = _axes(bound, source, spatial)
    divisor = bound.get("divisor_override")
    padded = bool(bound["count_include_pad"]) and any(axis.pad for axis in axes)
    if divisor is None and all(axis.over <= 0 for axis in axes) and (padded or _is_small_window(axes)):
        divisor = axes[0].kernel * axes[1].kernel
    if divisor is not None:
        result = window_sums(bound.node, source, axes, divisor)
    else:
        if padded:
            source, axes = _explicit_padding(bound.node, source, axes)
        result = _pool(bound.node, aten.avg_pool2d.default, source, axes)
    return add_view(bound.node, result, shape(bound.node))


MOST_WEIGHTS = 16  # of a channel: a larger window keeps its input's scale, since more weights would cost too much flash


def _is_small_window(axes: tuple[WindowAxis, WindowAxis]) -> bool:
    """Whether windows are small and inside the image, but not all of it: the mean of an image has a kernel of its
    own."""
    inside = all(axis.pad == 0 and axis.over <= 0 for axis in axes)
    whole = all(axis.count == 1 for axis in axes)
    return inside and not whole and 1 < axes[0].kernel * axes[1].kernel <= MOST_WEIGHTS


def window_sums(like: Node, source: Node, axes: tuple[WindowAxis, WindowAxis], divisor: int) -> Node:
    """Divides the sum of each window by a divisor: a depthwise convolution with equal weights, or for a whole image the
    operator for means, with another divisor."""
    kernel = [axis.kernel for axis in axes]
    whole = all(axis.count == 1 and axis.pad == 0 and axis.over <= 0 for axis in axes)
    if whole and divisor > 0 and is_one_image(shape(source), kernel):
        return add_call(like, aten.avg_pool2d.default, source, kernel, kernel, [0, 0], False, False, divisor)
    rest = Pads(0, max(0, axes[0].over), 0, max(0, axes[1].over))
    channels = shape(source)[1]
    weight = torch.full((channels, 1, axes[0].kernel, axes[1].kernel), 1.0 / divisor)
    return add_call(
        like,
        aten.conv2d.default,
        pad_images(like, source, rest),
        add_constant(like, "weight", weight),
        None,
        [axis.stride for axis in axes],
        [axis.pad for axis in axes],
        [1, 1],
        channels,
    )


def _explicit_padding(
    like: Node, source: Node, axes: tuple[WindowAxis, WindowAxis]
) -> tuple[Node, tuple[WindowAxis, WindowAxis]]:
    """Makes padding that counts part of the image; at the end only as much as a window covers."""
    after = [axis.pad + min(0, axis.over) for axis in axes]
    sizes = [axis.size + axis.pad + max(0, end) for axis, end in zip(axes, after, strict=True)]
    pads = Pads(axes[0].pad, max(0, after[0]), axes[1].pad, max(0, after[1]))
    first, second = (
        WindowAxis(size, axis.kernel, axis.stride, 0, axis.ceil) for size, axis in zip(sizes, axes, strict=True)
    )
    return pad_images(like, source, pads), (first, second)


def _pool(like: Node, target: torch._ops.OpOverload, source: Node, axes: tuple[WindowAxis, WindowAxis]) -> Node:
    window = ([axis.kernel for axis in axes], [axis.stride for axis in axes], [axis.pad for axis in axes])
    if target == aten.avg_pool2d.default:
        return add_call(like, target, source, *window, axes[0].ceil, False)
    return add_call(like, target, source, *window, [1, 1], axes[0].ceil)


def to_avg_pool2d(bound: Bound) -> Node | None:
    padded = bound["count_include_pad"] and any(pair(bound["padding"]))
    batch = len(shape(bound["self"])) == 4
    plain = batch and bound["divisor_override"] is None and not padded
    if (plain and not _is_small_window(_axes(bound, bound["self"], 2))) or (batch and is_mean(bound)):
        return None
    return _to_avg_pool2d(bound, 2)


def avg_pool1d_to_2d(bound: Bound) -> Node:
    return _to_avg_pool2d(bound, 1)


def avg_pool3d_to_2d(bound: Bound) -> Node | None:
    """Rewrites a pool over depth only, as in local_response_norm, or over height and width only."""
    like, sizes = bound.node, shape(bound["self"])
    kernel, padding = (triple(bound[name]) for name in ("kernel_size", "padding"))
    stride = triple(bound["stride"]) if bound["stride"] else kernel
    *outer, depth, height, width = sizes
    if (kernel[1:], stride[1:], padding[1:]) == ([1, 1], [1, 1], [0, 0]):
        view, first = (math.prod(outer), 1, depth, height * width), 0
    elif (kernel[:1], stride[:1], padding[:1]) == ([1], [1], [0]):
        view, first = (1, math.prod(outer) * depth, height, width), 1
    else:
        return None
    window = [part[first : first + 2] for part in (kernel, stride, padding)]
    rest = (bool(bound["ceil_mode"]), bool(bound["count_include_pad"]), bound["divisor_override"])
    result = add_call(like, aten.avg_pool2d.default, add_view(like, bound["self"], view), *window, *rest)
    return add_view(like, result, shape(like))


# ---- maxima --------------------------------------------------------------------------------------------------


def _to_max_pool2d(bound: Bound, spatial: int) -> Node:
    source = images(bound.node, bound["self"], spatial)
    axes = _axes(bound, source, spatial)
    window = ([axis.kernel for axis in axes], [axis.stride for axis in axes], [axis.pad for axis in axes])
    dilation = pair(bound["dilation"]) if spatial == 2 else height_one(bound["dilation"], 1)
    result = add_call(bound.node, aten.max_pool2d.default, source, *window, dilation, bool(bound["ceil_mode"]))
    out = VALUE.must(bound.node)
    return add_view(bound.node, result, tuple((out[0] if isinstance(out, tuple) else out).shape))


def to_max_pool2d(bound: Bound) -> Node | None:
    return None if len(shape(bound["self"])) == 4 else _to_max_pool2d(bound, 2)


def max_pool1d_to_2d(bound: Bound) -> Node:
    return _to_max_pool2d(bound, 1)


def refuse_positions(bound: Bound) -> Reject:
    """Refuses a max pool whose positions are read, which no rewrite took."""
    return Reject("gives positions that are used, as for unpooling; only the values of a max pool are supported")


def max_pool_values(bound: Bound) -> None:
    """Rewrites max_pool2d_with_indices and its 1-D form, if nothing reads the indices."""
    users = values_only(bound.node)
    if users:
        spatial = 2 if bound.node.target == aten.max_pool2d_with_indices.default else 1
        replace_values(users, _to_max_pool2d(bound, spatial))


# ---- adaptive ------------------------------------------------------------------------------------------------


def adaptive_windows(size: int, count: int) -> list[tuple[int, int]]:
    """Returns (start, end) of each window, as PyTorch chooses them."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def even_windows(size: int, count: int) -> tuple[int, int] | None:
    """Returns (kernel, stride) if all windows have the same size and stride."""
    windows = adaptive_windows(size, count)
    kernels = [end - start for start, end in windows]
    strides = [after - before for (before, _), (after, _) in pairwise(windows)] or kernels
    return (kernels[0], strides[0]) if len(set(kernels)) == len(set(strides)) == 1 else None


def _even_axes(source: Node, counts: list[int]) -> tuple[WindowAxis, WindowAxis] | None:
    sizes = shape(source)[2:]
    vertical, horizontal = (even_windows(size, count) for size, count in zip(sizes, counts, strict=True))
    if vertical is None or horizontal is None:
        return None
    return WindowAxis(sizes[0], *vertical, 0, False), WindowAxis(sizes[1], *horizontal, 0, False)


def _uneven_average(like: Node, source: Node, counts: list[int]) -> Node:
    """Averages windows of different sizes: every output pixel has its own weights over the image, as in a linear
    layer."""
    n, channels, *sizes = shape(source)
    masks = []
    for size, count in zip(sizes, counts, strict=True):
        mask = torch.zeros(count, size)
        for row, (start, end) in enumerate(adaptive_windows(size, count)):
            mask[row, start:end] = 1.0 / (end - start)
        masks.append(mask)
    weight = torch.kron(masks[0], masks[1])
    flat = add_view(like, source, (n * channels, sizes[0] * sizes[1]))
    result = add_call(like, aten.linear.default, flat, add_constant(like, "weight", weight))
    return add_view(like, result, (n, channels, *counts))


def _adaptive_counts(bound: Bound, spatial: int, out: tuple[int, ...]) -> tuple[Node, list[int]]:
    source = images(bound.node, bound["self"], spatial)
    return source, ([1, out[-1]] if spatial == 1 else list(out[-2:]))


def adaptive_avg_pool(bound: Bound) -> Node:
    spatial = 1 if bound.node.target == aten.adaptive_avg_pool1d.default else 2
    out = shape(bound.node)
    source, counts = _adaptive_counts(bound, spatial, out)
    axes = _even_axes(source, counts)
    result = (
        _uneven_average(bound.node, source, counts)
        if axes is None
        else _pool(bound.node, aten.avg_pool2d.default, source, axes)
    )
    return add_view(bound.node, result, out)


def _uneven_maximum(like: Node, source: Node, counts: list[int]) -> Node:
    """Takes the maximum of windows of different sizes: over rows, then over columns."""
    for dim, count in enumerate(counts, start=2):
        windows = adaptive_windows(shape(source)[dim], count)
        slices = [add_call(like, aten.slice.Tensor, source, dim, start, end) for start, end in windows]
        largest = [add_call(like, aten.amax.default, part, [dim], True) for part in slices]
        source = add_call(like, aten.cat.default, largest, dim)
    return source


def adaptive_max_pool(bound: Bound) -> None:
    """Rewrites an adaptive maximum whose indices nothing reads."""
    users = values_only(bound.node)
    if not users:
        return
    spatial = 1 if bound.node.target == aten.adaptive_max_pool1d.default else 2
    out = tuple(int(size) for size in VALUE.must(bound.node)[0].shape)
    source, counts = _adaptive_counts(bound, spatial, out)
    axes = _even_axes(source, counts)
    result = (
        _uneven_maximum(bound.node, source, counts)
        if axes is None
        else _pool(bound.node, aten.max_pool2d.default, source, axes)
    )
    replace_values(users, add_view(bound.node, result, out))


AVG_POOL2D_REWRITE = Rewrite(aten=(aten.avg_pool2d.default,), rewrite=to_avg_pool2d, any_element=True)
AVG_POOL3D_REWRITE = Rewrite(aten=(aten.avg_pool3d.default,), rewrite=avg_pool3d_to_2d, any_element=True)
AVG_POOL1D_REWRITE = Rewrite(aten=(aten.avg_pool1d.default,), rewrite=avg_pool1d_to_2d, any_element=True)
MAX_POOL2D_REWRITE = Rewrite(aten=(aten.max_pool2d.default,), rewrite=to_max_pool2d, any_element=True)
MAX_POOL1D_REWRITE = Rewrite(aten=(aten.max_pool1d.default,), rewrite=max_pool1d_to_2d, any_element=True)
_WITH_POSITIONS = (aten.max_pool2d_with_indices.default, aten.max_pool1d_with_indices.default)
_ADAPTIVE_MAX = (aten.adaptive_max_pool1d.default, aten.adaptive_max_pool2d.default)
MAX_POOL_VALUES_REWRITE = Rewrite(aten=_WITH_POSITIONS, rewrite=max_pool_values, any_element=True)
POSITIONS_PATTERN = Pattern(
    aten=(*_WITH_POSITIONS, *_ADAPTIVE_MAX), match=refuse_positions, lower=lambda lowering: lowering.node("self")
)
ADAPTIVE_AVG_REWRITE = Rewrite(
    aten=(aten.adaptive_avg_pool1d.default, aten.adaptive_avg_pool2d.default, aten._adaptive_avg_pool2d.default),
    rewrite=adaptive_avg_pool,
    any_element=True,
)
ADAPTIVE_MAX_REWRITE = Rewrite(aten=_ADAPTIVE_MAX, rewrite=adaptive_max_pool, any_element=True)


# ---- positions of the largest values ----------------------------------------------------------------


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
