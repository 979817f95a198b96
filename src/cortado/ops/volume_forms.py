"""Volumes [N, C, D, H, W] as images: convolutions and pools in three dimensions by those in two.

Slices along the depth are a batch of images. A convolution reads the slices under its window as one image, whose
channels are those of all these slices, so that its sum is rounded once; pools go over height and width first, then over
the depth, which are the rows of an image whose pixels of a slice lie side by side. In memory, as NHWC, both views are
the same.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from cortado.ir.graph import Bound, shape
from cortado.ir.op import Decomposition
from cortado.ops._float import triple, values_only

aten = torch.ops.aten
Tensor = torch.Tensor


def as_images(volume: Tensor) -> Tensor:
    """[N, C, D, H, W] as a batch of N * D images."""
    n, channels, depth, height, width = volume.shape
    return volume.transpose(1, 2).reshape(n * depth, channels, height, width)


def as_volume(images: Tensor, n: int) -> Tensor:
    slices, channels, height, width = images.shape
    return images.reshape(n, slices // n, channels, height, width).transpose(1, 2)


# ---- convolutions --------------------------------------------------------------------------------------------


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    if len(input.shape) == 4:
        return convolution(input[None], weight, bias, stride, padding, dilation, groups)[0]
    steps, gaps, (taps, *window) = triple(stride), triple(dilation), weight.shape[2:]
    (depth, end), *sides = _borders(padding, weight.shape[2:], gaps)
    if depth or end:
        input = F.pad(input, (0, 0, 0, 0, depth, end))
    if any(before != behind for before, behind in sides):
        (top, bottom), (left, right) = sides
        input, sides = F.pad(input, (left, right, top, bottom)), [(0, 0), (0, 0)]
    plane = [before for before, _ in sides]
    n, channels, slices, height, width = input.shape
    count = (slices - gaps[0] * (taps - 1) - 1) // steps[0] + 1
    if window == [1, 1] and steps[1:] == [1, 1] and plane == [0, 0]:  # along the depth alone
        flat = input.reshape(n, channels, slices, height * width)
        made = F.conv2d(flat, weight[..., 0], bias, [steps[0], 1], 0, [gaps[0], 1], groups)
        return made.reshape(n, -1, count, height, width)
    if taps > 1 or steps[0] > 1:
        places = torch.arange(count)[:, None] * steps[0] + torch.arange(taps) * gaps[0]
        input = input.index_select(2, places.reshape(-1))
    stacked = input.reshape(n, channels, count, taps, height, width).transpose(1, 2)
    images = stacked.reshape(n * count, channels * taps, height, width)
    weights = weight.reshape(weight.shape[0], weight.shape[1] * taps, *window)
    return as_volume(F.conv2d(images, weights, bias, steps[1:], plane, gaps[1:], groups), n)


def _borders(padding: Any, taps: Sequence[int], gaps: Sequence[int]) -> list[tuple[int, int]]:
    """Zeros before and behind, for each dimension; "same" puts an odd one behind."""
    if isinstance(padding, str):
        reach = [gap * (tap - 1) if padding == "same" else 0 for tap, gap in zip(taps, gaps, strict=True)]
        return [(total // 2, total - total // 2) for total in reach]
    return [(one, one) for one in triple(padding)]


def named_convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    return convolution(input, weight, bias, stride, padding, dilation, groups)


def _is_volume(bound: Bound) -> bool:
    return len(shape(bound["weight"])) == 5 and not bound["transposed"]


# ---- pools ---------------------------------------------------------------------------------------------------


def _batched(self: Tensor) -> Tensor:
    return self if len(self.shape) == 5 else self[None]


def _along_depth(volume: Tensor) -> Tensor:
    """Rows are slices."""
    n, channels, depth, height, width = volume.shape
    return volume.reshape(n, channels, depth, height * width)


def max_pool(
    self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Tensor:
    volume = _batched(self)
    kernel, pads, gaps = triple(kernel_size), triple(padding), triple(dilation)
    steps = triple(stride) if stride else kernel
    flat = F.max_pool2d(as_images(volume), kernel[1:], steps[1:], pads[1:], gaps[1:], ceil_mode)
    slices = as_volume(flat, volume.shape[0])
    made = F.max_pool2d(
        _along_depth(slices), [kernel[0], 1], [steps[0], 1], [pads[0], 0], [gaps[0], 1], ceil_mode
    ).reshape(*slices.shape[:2], -1, *slices.shape[3:])
    return made if len(self.shape) == 5 else made[0]


def max_pool_values(self: Tensor, *window: Any, **named: Any) -> tuple[Tensor, Tensor]:
    """max_pool3d_with_indices where nobody reads the positions: values stand in for them."""
    values = max_pool(self, *window, **named)
    return values, values


def avg_pool(
    self: Tensor,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """avg_pool3d by pools over two dimensions and one: a window's divisor is a product of one number for each
    dimension."""
    volume, kernel, pads = _batched(self), triple(kernel_size), triple(padding)
    steps = triple(stride) if stride else kernel
    rest = (ceil_mode, count_include_pad)
    slices = as_volume(F.avg_pool2d(as_images(volume), kernel[1:], steps[1:], pads[1:], *rest), volume.shape[0])
    made = F.avg_pool2d(_along_depth(slices), [kernel[0], 1], [steps[0], 1], [pads[0], 0], *rest)
    made = made.reshape(*slices.shape[:2], -1, *slices.shape[3:])
    return made if len(self.shape) == 5 else made[0]


def _over_all(bound: Bound) -> bool:
    """Over the depth and the slices; over one of them alone it is an image's already."""
    kernel, pads = triple(bound["kernel_size"]), triple(bound["padding"])
    steps = triple(bound["stride"]) if bound["stride"] else kernel
    still = [numbers == (1, 1, 0) for numbers in zip(kernel, steps, pads, strict=True)]
    return bound["divisor_override"] is None and not still[0] and not all(still[1:])


def adaptive_avg_pool(self: Tensor, output_size: Sequence[int]) -> Tensor:
    volume = _batched(self)
    if math.prod(output_size) == 1:
        made = volume.mean([2, 3, 4], keepdim=True)
    else:
        slices = as_volume(F.adaptive_avg_pool2d(as_images(volume), (output_size[1], output_size[2])), volume.shape[0])
        rows = _along_depth(slices)
        made = F.adaptive_avg_pool2d(rows, (output_size[0], rows.shape[3]))
        made = made.reshape(*slices.shape[:2], -1, *slices.shape[3:])
    return made if len(self.shape) == 5 else made[0]


CONVOLUTION = Decomposition(aten=(aten.conv3d.default, aten.conv3d.padding), function=convolution)
NAMED_CONVOLUTION = Decomposition(aten=(aten.convolution.default,), function=named_convolution, takes=_is_volume)
MAX_POOL = Decomposition(aten=(aten.max_pool3d.default,), function=max_pool)
MAX_POOL_VALUES = Decomposition(
    aten=(aten.max_pool3d_with_indices.default,),
    function=max_pool_values,
    takes=lambda bound: values_only(bound.node) is not None,
)
AVG_POOL = Decomposition(aten=(aten.avg_pool3d.default,), function=avg_pool, takes=_over_all)
ADAPTIVE_AVG_POOL = Decomposition(
    aten=(aten.adaptive_avg_pool3d.default, aten._adaptive_avg_pool3d.default), function=adaptive_avg_pool
)
