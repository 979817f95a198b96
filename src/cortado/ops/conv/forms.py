"""Other spellings of convolutions: 1-D ones, unbatched ones, padding="same", a separate zero padding in front.

Each becomes aten.conv2d on a batch of images; a 1-D signal is an image of height 1.

Windows with more rows than an operand table can name: height and width are swapped, which is a mere reshape if the
image is one pixel wide. A pool that is too wide even then is computed along one dimension, then along the other.

Volumes [N, C, D, H, W] as images: 3-D convolutions and pools in terms of 2-D ones. Slices along the depth are a batch
of images. A convolution reads the slices under its window as one image that has the channels of all these slices, so
its sum is rounded once; a transposed one does so for every phase of its stride along the depth. Pools run over height
and width first, then over the depth, as the rows of an image in which the pixels of a slice lie side by side. In NHWC
memory both views are the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from cortado.base.numerics import Tensor
from cortado.ir.graph import Bound, add_call, bind, is_call, shape
from cortado.ir.op import Decomposition, Rewrite
from cortado.ops.float_graph import add_constant, add_view, constant_data, height_one, is_constant, pair, triple

# ---- convolution forms -----------------------------------------------------------------------------------

aten = torch.ops.aten


@dataclass(frozen=True)
class Pads:
    """Zeros around the height and the width of an image."""

    top: int
    bottom: int
    left: int
    right: int

    def __add__(self, other: "Pads") -> "Pads":
        return Pads(self.top + other.top, self.bottom + other.bottom, self.left + other.left, self.right + other.right)

    @property
    def even(self) -> bool:
        return self.top == self.bottom and self.left == self.right

    def split(self, reach: list[int]) -> tuple[list[int], "Pads"]:
        """Returns (padding of a convolution, remaining padding) such that each window keeps a tap inside the image."""
        vertical, horizontal = min(self.top, self.bottom, reach[0]), min(self.left, self.right, reach[1])
        rest = self + Pads(-vertical, -vertical, -horizontal, -horizontal)
        return [vertical, horizontal], rest


def _pads(padding: Any, reach: list[int]) -> Pads:
    """Returns the padding in numbers. "same" puts the odd one of a total at the end, as PyTorch does."""
    if padding == "valid":
        return Pads(0, 0, 0, 0)
    if padding == "same":
        before, after = [total // 2 for total in reach], [total - total // 2 for total in reach]
        return Pads(before[0], after[0], before[1], after[1])
    vertical, horizontal = pair(padding)
    return Pads(vertical, vertical, horizontal, horizontal)


def zero_padding(node: Node) -> Pads | None:
    """Returns the padding of height and width, if the node pads with zeros there and nowhere else."""
    if not is_call(node, aten.pad.default, aten.constant_pad_nd.default):
        return None
    bound = bind(node)
    widths = [int(width) for width in bound["pad"]]
    left, right, top, bottom, *outer = widths + [0] * (4 - len(widths))
    zeros = bound.get("mode", "constant") == "constant" and not bound.get("value")
    if not zeros or any(outer) or min(left, right, top, bottom) < 0:
        return None
    return Pads(top, bottom, left, right)


def pad_images(like: Node, source: Node, pads: Pads) -> Node:
    if pads == Pads(0, 0, 0, 0):
        return source
    return add_call(like, aten.constant_pad_nd.default, source, [pads.left, pads.right, pads.top, pads.bottom], 0.0)


def images(like: Node, source: Node, spatial: int) -> Node:
    """Views the input as [N, C, H, W]: a batch of one if it is unbatched, height 1 for a signal."""
    sizes = list(shape(source))
    batched = sizes if len(sizes) == spatial + 2 else [1, *sizes]
    return add_view(like, source, batched if spatial == 2 else [*batched[:2], 1, batched[2]])


def _conv2d(bound: Bound, source: Node, weight: Node, spatial: int) -> tuple[Any, ...]:
    """Returns the arguments of a conv2d on a batch of images; uneven padding becomes a separate padding in front."""
    wide = (lambda value, fill: pair(value)) if spatial == 2 else height_one
    stride, dilation = wide(bound["stride"], 1), wide(bound["dilation"], 1)
    padding = bound["padding"] if isinstance(bound["padding"], str) else wide(bound["padding"], 0)
    reach = [d * (k - 1) for k, d in zip(shape(weight)[2:], dilation, strict=True)]
    pads, before = _pads(padding, reach), zero_padding(source)
    if before is not None and (before + pads).even:
        pads, source = before + pads, source.all_input_nodes[0]
    own, rest = pads.split(reach)
    source = pad_images(bound.node, source, rest)
    return source, weight, bound["bias"], stride, own, dilation, int(bound["groups"])


def to_conv2d(bound: Bound) -> Node | None:
    """Rewrites as a batched conv2d with numeric padding; a zero padding in front is folded in if it is even."""
    arguments = _conv2d(bound, images(bound.node, bound["input"], 2), bound["weight"], 2)
    if bound.node.target == aten.conv2d.default and arguments == tuple(bound.values.values()):
        return None  # nothing to change
    return add_view(bound.node, add_call(bound.node, aten.conv2d.default, *arguments), shape(bound.node))


def conv1d_to_conv2d(bound: Bound) -> Node | None:
    """Treats a signal as an image of height 1."""
    weight = bound["weight"]
    if not is_constant(weight):
        return None
    wide = add_constant(bound.node, "weight", constant_data(weight).unsqueeze(2))
    arguments = _conv2d(bound, images(bound.node, bound["input"], 1), wide, 1)
    return add_view(bound.node, add_call(bound.node, aten.conv2d.default, *arguments), shape(bound.node))


CONV2D_REWRITE = Rewrite(aten=(aten.conv2d.default, aten.conv2d.padding), rewrite=to_conv2d, any_element=True)
CONV1D_REWRITE = Rewrite(aten=(aten.conv1d.default, aten.conv1d.padding), rewrite=conv1d_to_conv2d, any_element=True)


# ---- tall forms ------------------------------------------------------------------------------------------

MOST_ROWS = 255  # rows of a window that a port in the C bundle's tables can name


def _turned(*values: Any) -> list[list[int]]:
    return [pair(value)[::-1] for value in values]


def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    if not _is_tall_window(weight.shape[2:]):
        return computed_convolution(input, weight, bias, stride, padding, dilation, groups)
    steps, gaps = _turned(stride, dilation)
    pads = padding if isinstance(padding, str) else pair(padding)[::-1]
    return F.conv2d(input.mT, weight.mT, bias, steps, pads, gaps, groups).mT


def computed_convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """Computes a convolution with computed weights: a matrix product with the pixels under its windows."""
    kernel, (steps, pads, gaps) = list(weight.shape[2:]), (pair(one) for one in (stride, padding, dilation))
    columns: Tensor = aten.im2col.default(input, kernel, gaps, pads, steps)
    images, pixels = input.shape[0], columns.shape[-1]
    rows = (input.shape[2] + 2 * pads[0] - gaps[0] * (kernel[0] - 1) - 1) // steps[0] + 1
    under = columns.reshape(images * groups, -1, pixels)
    filters = weight.reshape(1, groups, weight.shape[0] // groups, -1).expand(images, -1, -1, -1)
    sums = torch.bmm(filters.reshape(images * groups, *filters.shape[2:]), under)
    found = sums.reshape(images, weight.shape[0], rows, pixels // rows)
    return found if bias is None else found + bias.reshape(-1, 1, 1)


def transposed_convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    steps, pads, rest, gaps = _turned(stride, padding, output_padding, dilation)
    return F.conv_transpose2d(input.mT, weight.mT, bias, steps, pads, rest, groups, gaps).mT


def _is_tall_window(sizes: Sequence[int]) -> bool:
    return len(sizes) == 2 and sizes[0] > MOST_ROWS >= sizes[1]


def _is_tall(bound: Bound) -> bool:
    return _is_tall_window(shape(bound["weight"])[2:])


def _is_tall_or_computed(bound: Bound) -> bool:
    given = len(shape(bound["input"])) == 4 and not isinstance(bound["padding"], str)
    return _is_tall(bound) or (given and not is_constant(bound["weight"]))


def max_pool(
    self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Tensor:
    across, (kernel, steps, pads, gaps) = _pool_window(kernel_size, stride, padding, dilation)
    if across is not None:
        self = F.max_pool2d(self, across[0], across[1], across[2], across[3], ceil_mode)
    return F.max_pool2d(self.mT, kernel, steps, pads, gaps, ceil_mode).mT


def avg_pool(
    self: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, **_: Any
) -> Tensor:
    across, (kernel, steps, pads) = _pool_window(kernel_size, stride, padding)
    if across is not None:
        self = F.avg_pool2d(self, across[0], across[1], across[2], ceil_mode, count_include_pad)
    return F.avg_pool2d(self.mT, kernel, steps, pads, ceil_mode, count_include_pad).mT


def _pool_window(kernel_size: Any, stride: Any, *others: Any) -> tuple[list[list[int]] | None, list[list[int]]]:
    """Splits off a pool along rows, if the window is too wide, and swaps height and width of the rest."""
    kernel = pair(kernel_size)
    numbers = [kernel, pair(stride) if stride else kernel, *(pair(one) for one in others)]
    if kernel[1] <= MOST_ROWS:
        return None, [one[::-1] for one in numbers]
    still = [1, 1, 0, 1]
    across = [[rest, one[1]] for rest, one in zip(still, numbers, strict=False)]
    return across, [[rest, one[0]] for rest, one in zip(still, numbers, strict=False)]


def _is_tall_pool(bound: Bound) -> bool:
    """Whether a pool's window is tall. A mean of the whole image does not count: its rows are summed one by one."""
    kernel, sizes = pair(bound["kernel_size"]), shape(bound["self"])[-2:]
    whole = tuple(kernel) == sizes and not any(pair(bound["padding"]))
    mean = whole and "divisor_override" in bound.values
    return kernel[0] > MOST_ROWS and not mean and bound.get("divisor_override") is None


CONVOLUTION = Decomposition(
    aten=(aten.conv2d.default, aten.conv2d.padding),
    function=convolution,
    takes=_is_tall_or_computed,
)
TRANSPOSED = Decomposition(aten=(aten.conv_transpose2d.input,), function=transposed_convolution, takes=_is_tall)
MAX_POOL = Decomposition(aten=(aten.max_pool2d.default,), function=max_pool, takes=_is_tall_pool)
AVG_POOL = Decomposition(aten=(aten.avg_pool2d.default,), function=avg_pool, takes=_is_tall_pool)


# ---- volume forms ----------------------------------------------------------------------------------------


def as_images(volume: Tensor) -> Tensor:
    """Reshapes [N, C, D, H, W] to a batch of N * D images."""
    n, channels, depth, height, width = volume.shape
    return volume.transpose(1, 2).reshape(n * depth, channels, height, width)


def as_volume(images: Tensor, n: int) -> Tensor:
    slices, channels, height, width = images.shape
    return images.reshape(n, slices // n, channels, height, width).transpose(1, 2)


# ---- convolutions --------------------------------------------------------------------------------------------


def volume_convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    if len(input.shape) == 4:
        return volume_convolution(input[None], weight, bias, stride, padding, dilation, groups)[0]
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
    images = _stacked(input, [[out * steps[0] + tap * gaps[0] for tap in range(taps)] for out in range(count)])
    weights = weight.reshape(weight.shape[0], weight.shape[1] * taps, *window)
    return as_volume(F.conv2d(images, weights, bias, steps[1:], plane, gaps[1:], groups), n)


def _borders(padding: Any, taps: Sequence[int], gaps: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the zeros before and after, for each dimension; "same" puts an odd one after."""
    if isinstance(padding, str):
        reach = [gap * (tap - 1) if padding == "same" else 0 for tap, gap in zip(taps, gaps, strict=True)]
        return [(total // 2, total - total // 2) for total in reach]
    return [(one, one) for one in triple(padding)]


def volume_transposed(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Adds a transposed convolution for each phase of the stride along the depth, over the slices that its taps
    reach."""
    if len(input.shape) == 4:
        return volume_transposed(input[None], weight, bias, stride, padding, output_padding, groups, dilation)[0]
    steps, pads, rest, gaps = (triple(one) for one in (stride, padding, output_padding, dilation))
    n, slices, taps = input.shape[0], input.shape[2], weight.shape[2]
    depth = (slices - 1) * steps[0] - 2 * pads[0] + gaps[0] * (taps - 1) + rest[0] + 1
    made = []
    for phase in range(min(steps[0], depth)):
        hit = [tap for tap in range(taps) if (phase + pads[0] - tap * gaps[0]) % steps[0] == 0] or [0]
        places = [[(out + pads[0] - tap * gaps[0]) // steps[0] for tap in hit] for out in range(phase, depth, steps[0])]
        if (phase + pads[0] - hit[0] * gaps[0]) % steps[0]:
            places = [[-1] for _ in places]  # no tap: the bias alone
        images = _stacked(input, places)
        weights = weight[:, :, hit].transpose(1, 2).reshape(-1, weight.shape[1], *weight.shape[3:])
        parts = F.conv_transpose2d(images, weights, bias, steps[1:], pads[1:], rest[1:], groups, gaps[1:])
        made.append(as_volume(parts, n))
    if len(made) == 1:
        return made[0]
    order = [out for phase in range(steps[0]) for out in range(phase, depth, steps[0])]
    return torch.cat(made, 2).index_select(2, torch.tensor([order.index(out) for out in range(depth)]))


def _stacked(input: Tensor, places: list[list[int]]) -> Tensor:
    """Builds an image for each list of slices, with the channels of these slices; slices outside the volume are
    zeros."""
    n, channels, slices, height, width = input.shape
    flat = [place if 0 <= place < slices else slices for row in places for place in row]
    if slices in flat:
        input = F.pad(input, (0, 0, 0, 0, 0, 1))
    if flat != list(range(slices)):
        input = input.index_select(2, torch.tensor(flat))
    stacked = input.reshape(n, channels, len(places), len(places[0]), height, width).transpose(1, 2)
    return stacked.reshape(n * len(places), channels * len(places[0]), height, width)


def named_convolution(transposed: bool, output_padding: Any, **rest: Any) -> Tensor:
    return volume_transposed(output_padding=output_padding, **rest) if transposed else volume_convolution(**rest)


def _is_volume(bound: Bound) -> bool:
    return len(shape(bound["weight"])) == 5


# ---- pools ---------------------------------------------------------------------------------------------------


def _batched(self: Tensor) -> Tensor:
    return self if len(self.shape) == 5 else self[None]


def _along_depth(volume: Tensor) -> Tensor:
    """Views a volume as images whose rows are its slices."""
    n, channels, depth, height, width = volume.shape
    return volume.reshape(n, channels, depth, height * width)


def volume_max_pool(
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


def volume_avg_pool(
    self: Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, **_: Any
) -> Tensor:
    """Computes avg_pool3d as a 2-D pool and a 1-D pool: a window's divisor is a product with one factor per
    dimension."""
    volume, kernel, pads = _batched(self), triple(kernel_size), triple(padding)
    steps = triple(stride) if stride else kernel
    rest = (ceil_mode, count_include_pad)
    slices = as_volume(F.avg_pool2d(as_images(volume), kernel[1:], steps[1:], pads[1:], *rest), volume.shape[0])
    made = F.avg_pool2d(_along_depth(slices), [kernel[0], 1], [steps[0], 1], [pads[0], 0], *rest)
    made = made.reshape(*slices.shape[:2], -1, *slices.shape[3:])
    return made if len(self.shape) == 5 else made[0]


def _over_all(bound: Bound) -> bool:
    """Whether a pool runs over both the depth and the slices; over only one of them it is a pool of images already."""
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


VOLUME_CONVOLUTION = Decomposition(aten=(aten.conv3d.default, aten.conv3d.padding), function=volume_convolution)
VOLUME_TRANSPOSED = Decomposition(aten=(aten.conv_transpose3d.input,), function=volume_transposed)
NAMED_CONVOLUTION = Decomposition(aten=(aten.convolution.default,), function=named_convolution, takes=_is_volume)
VOLUME_MAX_POOL = Decomposition(aten=(aten.max_pool3d.default,), function=volume_max_pool)
VOLUME_AVG_POOL = Decomposition(aten=(aten.avg_pool3d.default,), function=volume_avg_pool, takes=_over_all)
ADAPTIVE_AVG_POOL = Decomposition(
    aten=(aten.adaptive_avg_pool3d.default, aten._adaptive_avg_pool3d.default), function=adaptive_avg_pool
)
