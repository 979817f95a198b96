"""Other spellings of pools: 1-D ones, unbatched ones, adaptive ones, averages with other divisors.

Each becomes aten.avg_pool2d or aten.max_pool2d on a batch of images, or, if the divisor is constant, a convolution with
equal weights, because zeros outside the image then add nothing. So do averages over small windows inside the image,
which spread less than their pixels: as a convolution they have a scale of their own.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.ir.facts import VALUE
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.op import Pattern, Rewrite
from cortado.ops.conv.forms import Pads, images, pad_images
from cortado.ops.float_graph import add_constant, add_view, height_one, pair, replace_values, triple, values_only
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
