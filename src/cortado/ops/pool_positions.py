"""Where the largest value of each window of a max pool is, and what puts values back there (max_unpool).

The windows are picked from the image; the first largest value of each is found in it, and its place in the window gives
its place in the image, as integers. A tap outside the image reads the pixel at the border that is nearest, which
lies in the same window.
"""

import operator
from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from cortado.ir.graph import Bound, bind, is_call, shape
from cortado.ir.op import Decomposition
from cortado.ops._float import height_one, pair, parts_of
from cortado.ops.avg_pool2d import pooled_size

aten = torch.ops.aten
Tensor = torch.Tensor


def _rows(size: int, kernel: int, stride: int, pad: int, dilation: int, ceil_mode: bool) -> Tensor:
    """[windows, taps]: which row of the image each tap is over; it may be outside."""
    count = pooled_size(size, kernel, stride, pad, ceil_mode, dilation)
    return torch.arange(count).reshape(-1, 1) * stride - pad + torch.arange(kernel) * dilation


def max_pool2d(
    self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    kernel, pads, gaps = pair(kernel_size), pair(padding), pair(dilation)
    steps = pair(stride) if stride else kernel
    height, width = self.shape[-2:]
    images = self.reshape(-1, height * width)
    above, left = (_rows(*axis, ceil_mode) for axis in zip((height, width), kernel, steps, pads, gaps, strict=True))
    rows, columns = above.clamp(0, height - 1), left.clamp(0, width - 1)
    places = rows.reshape(-1, 1, kernel[0], 1) * width + columns.reshape(1, -1, 1, kernel[1])
    windows = images.index_select(1, places.reshape(-1)).reshape(-1, *places.shape[:2], kernel[0] * kernel[1])
    best = windows.argmax(-1)
    row = above[:, :1] + best // kernel[1] * gaps[0]
    column = left[:, 0] + best % kernel[1] * gaps[1]
    if any(pads) or ceil_mode:
        row = torch.minimum(torch.maximum(row, torch.tensor(0)), torch.tensor(height - 1))
        column = torch.minimum(torch.maximum(column, torch.tensor(0)), torch.tensor(width - 1))
    sizes = (*self.shape[:-2], *places.shape[:2])
    values = F.max_pool2d(self, kernel, steps, pads, gaps, ceil_mode)
    return values, (row * width + column).reshape(sizes)


def max_pool1d(
    self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """A signal is an image of height 1."""
    kernel, steps, gaps = (height_one(value, 1) for value in (kernel_size, stride or kernel_size, dilation))
    values, positions = max_pool2d(self.unsqueeze(-2), kernel, steps, height_one(padding, 0), gaps, ceil_mode)
    return values.squeeze(-2), positions.squeeze(-2)


def _gives_positions(bound: Bound) -> bool:
    """Somebody reads them; with gaps between its taps a pixel at the border may lie in no window."""
    read = any(part.users for part in parts_of(bound.node, 1))
    inside = not any(pair(bound["padding"])) and not bound["ceil_mode"]
    return read and (inside or all(gap == 1 for gap in pair(bound["dilation"])))


# ---- back ----------------------------------------------------------------------------------------------------


def _pool_of(positions: Any) -> Bound | None:
    """The max pool of whose results these are the positions."""
    if not is_call(positions, operator.getitem) or positions.args[1] != 1:
        return None
    pool = positions.args[0]
    assert isinstance(pool, Node)
    return bind(pool) if is_call(pool, aten.max_pool2d_with_indices.default) else None


def _goes_back(bound: Bound) -> bool:
    """Into windows that lie side by side, of the image that was pooled."""
    pool = _pool_of(bound["indices"])
    if pool is None or shape(bound["self"]) != shape(bound["indices"]):
        return False
    kernel = pair(pool["kernel_size"])
    apart = (pair(pool["stride"]) if pool["stride"] else kernel) == kernel and pair(pool["dilation"]) == [1, 1]
    inside = not any(pair(pool["padding"])) and not pool["ceil_mode"]
    return apart and inside and list(shape(pool["self"])[-2:]) == [int(size) for size in bound["output_size"]]


def max_unpool2d(self: Tensor, indices: Tensor, output_size: Any) -> Tensor:
    """Every value is repeated over its window, and kept where its position is."""
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
MAX_UNPOOL2D = Decomposition(aten=(aten.max_unpool2d.default,), function=max_unpool2d, takes=_goes_back)
