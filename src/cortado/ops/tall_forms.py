"""Windows of more rows than a table of operands can name: height and width change places, which is nothing but another
shape where the image is one pixel wide. A pool that is too wide for that as well goes along the one, then the other."""

from typing import Any

import torch
from torch.nn import functional as F

from cortado.ir.graph import Bound, shape
from cortado.ir.op import Decomposition
from cortado.ops._float import pair

aten = torch.ops.aten
Tensor = torch.Tensor
MOST_ROWS = 255  # of a window, that a port of the C bundle's tables can name


def _turned(*values: Any) -> list[list[int]]:
    return [pair(value)[::-1] for value in values]


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    steps, gaps = _turned(stride, dilation)
    pads = padding if isinstance(padding, str) else pair(padding)[::-1]
    return F.conv2d(input.mT, weight.mT, bias, steps, pads, gaps, groups).mT


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


def _is_tall(bound: Bound) -> bool:
    sizes = shape(bound["weight"])[2:]
    return len(sizes) == 2 and sizes[0] > MOST_ROWS >= sizes[1]


def max_pool(
    self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Tensor:
    across, (kernel, steps, pads, gaps) = _pool_window(kernel_size, stride, padding, dilation)
    if across is not None:
        self = F.max_pool2d(self, across[0], across[1], across[2], across[3], ceil_mode)
    return F.max_pool2d(self.mT, kernel, steps, pads, gaps, ceil_mode).mT


def avg_pool(
    self: Tensor,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    across, (kernel, steps, pads) = _pool_window(kernel_size, stride, padding)
    if across is not None:
        self = F.avg_pool2d(self, across[0], across[1], across[2], ceil_mode, count_include_pad)
    return F.avg_pool2d(self.mT, kernel, steps, pads, ceil_mode, count_include_pad).mT


def _pool_window(kernel_size: Any, stride: Any, *others: Any) -> tuple[list[list[int]] | None, list[list[int]]]:
    """What goes along rows alone, if it has to, and the rest, turned."""
    kernel = pair(kernel_size)
    numbers = [kernel, pair(stride) if stride else kernel, *(pair(one) for one in others)]
    if kernel[1] <= MOST_ROWS:
        return None, [one[::-1] for one in numbers]
    still = [1, 1, 0, 1]
    across = [[rest, one[1]] for rest, one in zip(still, numbers, strict=False)]
    return across, [[rest, one[0]] for rest, one in zip(still, numbers, strict=False)]


def _is_tall_pool(bound: Bound) -> bool:
    """Not the mean of a whole image, whose rows are summed one by one."""
    kernel, sizes = pair(bound["kernel_size"]), shape(bound["self"])[-2:]
    whole = tuple(kernel) == sizes and not any(pair(bound["padding"]))
    mean = whole and "divisor_override" in bound.values
    return kernel[0] > MOST_ROWS and not mean and bound.get("divisor_override") is None


CONVOLUTION = Decomposition(aten=(aten.conv2d.default, aten.conv2d.padding), function=convolution, takes=_is_tall)
TRANSPOSED = Decomposition(aten=(aten.conv_transpose2d.input,), function=transposed_convolution, takes=_is_tall)
MAX_POOL = Decomposition(aten=(aten.max_pool2d.default,), function=max_pool, takes=_is_tall_pool)
AVG_POOL = Decomposition(aten=(aten.avg_pool2d.default,), function=avg_pool, takes=_is_tall_pool)
