"""Pooling over windows and over whole images; sums, means and extrema over dimensions; resizing."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from cortado.onnx.layers import WINDOWS, PadPairs, padding, symmetric, window
from cortado.onnx.node import Built, Node, of, onnx_operator

Tensor = torch.Tensor
_MAX: Any = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
_AVERAGE: Any = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}


def _kernel(node: Node) -> list[int]:
    kernel = node.integers("kernel_shape")
    if len(kernel) != node.rank() - 2 or len(kernel) not in _MAX:
        node.refuse(f"kernel_shape {kernel} over {list(node.shape())}", "one number for each of 1 to 3 dimensions")
    return kernel


def _fits(kernel: Sequence[int], pads: PadPairs) -> list[int] | None:
    """Returns padding if torch's pools support it: symmetric, and at most half of the window; else None."""
    even = symmetric(pads)
    return even if even is not None and all(2 * pad <= size for pad, size in zip(even, kernel, strict=True)) else None


def _whole(node: Node, kernel: Sequence[int]) -> tuple[PadPairs, PadPairs]:
    """Returns the node's padding, and the same extended at the end by what ceil_mode needs to fill the last window.

    A window that would start after the input and the padding before it is dropped.
    """
    strides, dilations, pads = window(node, kernel)
    if not node.flag("ceil_mode"):
        return pads, pads
    whole: PadPairs = []
    for size, width, stride, dilation, (before, behind) in zip(
        node.shape()[2:], kernel, strides, dilations, pads, strict=True
    ):
        reach = (width - 1) * dilation + 1
        count = -(-(size + before + behind - reach) // stride) + 1
        count -= (count - 1) * stride >= size + before
        whole.append((before, max((count - 1) * stride + reach - size - before, 0)))
    return pads, whole


@onnx_operator("MaxPool", limits="positions are not read", **WINDOWS)
def max_pool(node: Node) -> Built:
    if node.outputs > 1:
        node.refuse("its positions are read", "only the values")
    kernel = _kernel(node)
    strides, dilations, pads = window(node, kernel)
    ceil, even = node.flag("ceil_mode"), _fits(kernel, pads)
    if even is not None:
        return of(_MAX[len(kernel)](kernel, strides, even, dilations, ceil_mode=ceil))
    pool, pad = _MAX[len(kernel)](kernel, strides, 0, dilations), padding(_whole(node, kernel)[1], value=-math.inf)
    return of(lambda x: pool(pad(x)))


@onnx_operator("AveragePool", limits="no dilation", **WINDOWS)
def average_pool(node: Node) -> Built:
    kernel = _kernel(node)
    strides, dilations, pads = window(node, kernel)
    counts, even = node.flag("count_include_pad"), _fits(kernel, pads)
    if max(dilations) > 1:
        node.refuse(f"dilations {dilations}", "1")
    if even is not None:
        ceil = node.flag("ceil_mode")
        return of(_AVERAGE[len(kernel)](kernel, strides, even, ceil_mode=ceil, count_include_pad=counts))
    pads, whole = _whole(node, kernel)
    pool, pad = _AVERAGE[len(kernel)](kernel, strides, 0), padding(whole)
    counted = torch.ones(1, 1, *node.shape()[2:])
    counted = padding(pads, value=1.0)(counted) if counts else counted
    rest = [
        (0 if counts else before, end - behind if counts else end)
        for (_, behind), (before, end) in zip(pads, whole, strict=True)
    ]
    share = pool(padding(rest)(counted))  # the part of each window that counts
    return of(lambda x: pool(pad(x))) if bool((share == 1).all()) else of(lambda x: pool(pad(x)) / share)


@onnx_operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node) -> Built:
    dims = tuple(range(2, node.rank()))
    if node.kind == "GlobalAveragePool":
        return of(lambda x: x.mean(dims, keepdim=True))
    return of(lambda x: x.amax(dims, keepdim=True))


# ---- reductions -----------------------------------------------------------------------------------------------------

_REDUCTIONS: Mapping[str, Callable[..., Tensor]] = {
    "ReduceSum": torch.sum,
    "ReduceMean": torch.mean,
    "ReduceMax": torch.amax,
    "ReduceMin": torch.amin,
    "ReduceSumSquare": lambda x, dim, keepdim: torch.sum(x * x, dim, keepdim=keepdim),
    "ReduceL1": lambda x, dim, keepdim: torch.sum(torch.abs(x), dim, keepdim=keepdim),
    "ReduceL2": lambda x, dim, keepdim: torch.linalg.vector_norm(x, 2, dim, keepdim),
    "ReduceLogSum": lambda x, dim, keepdim: torch.log(torch.sum(x, dim, keepdim=keepdim)),
    "ReduceLogSumExp": lambda x, dim, keepdim: torch.logsumexp(x, dim, keepdim=keepdim),
}


_OF_ONE: Mapping[str, Callable[[Tensor], Tensor]] = {  # their effect on each single value
    "ReduceSumSquare": torch.square,
    "ReduceL1": torch.abs,
    "ReduceL2": torch.abs,
    "ReduceLogSum": torch.log,
}


@onnx_operator(*_REDUCTIONS)
def reduction(node: Node) -> Built:
    call, keep = _REDUCTIONS[node.kind], node.flag("keepdims", True)
    given = node.either("axes", 1)
    if not given and node.flag("noop_with_empty_axes"):
        return of(_OF_ONE.get(node.kind, lambda x: x))
    dims = tuple(node.axes(given or range(node.rank())))
    return of(lambda x: call(x, dim=dims, keepdim=keep))


@onnx_operator("ReduceProd")
def product(node: Node) -> Built:
    keep, given = node.flag("keepdims", True), node.either("axes", 1)
    dims = node.axes(given or ([] if node.flag("noop_with_empty_axes") else range(node.rank())))

    def call(x: Tensor) -> Tensor:
        for dim in sorted(dims, reverse=True):
            x = torch.prod(x, dim, keepdim=keep)
        return x

    return of(call)


@onnx_operator("ArgMax", "ArgMin", limits="of equal values, the first")
def argmax(node: Node) -> Built:
    if node.flag("select_last_index"):
        node.refuse("select_last_index", "the first of equal values")
    call: Any = torch.argmax if node.kind == "ArgMax" else torch.argmin
    return of(partial(call, dim=node.axis(node.integer("axis", 0)), keepdim=node.flag("keepdims", True)))


@onnx_operator("TopK", limits="a constant number; sorted, equal values in any order")
def topk(node: Node) -> Built:
    count = node.integer("k") if "k" in node.attributes else int(node.scalar(1))
    axis, largest = node.axis(node.integer("axis", -1)), node.flag("largest", True)
    return of(lambda x: tuple(torch.topk(x, count, axis, largest=largest, sorted=True)))


@onnx_operator("CumSum", limits="a constant axis")
def cumsum(node: Node) -> Built:
    axis, reverse, exclusive = node.axis(int(node.scalar(1))), node.flag("reverse"), node.flag("exclusive")

    def call(x: Tensor) -> Tensor:
        total = torch.cumsum(x.flip(axis), axis).flip(axis) if reverse else torch.cumsum(x, axis)
        return total - x if exclusive else total

    return of(call)


# ---- resizing ------------------------------------------------------------------------------------------------------


@onnx_operator(
    "Resize",
    "Upsample",
    limits="nearest (floor) and linear; constant sizes; no antialiasing, no crop",
    among={
        "mode": ("nearest", "linear", "bilinear"),
        "keep_aspect_ratio_policy": ("stretch",),
        "nearest_mode": ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"),
        "coordinate_transformation_mode": (
            *("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners", "tf_half_pixel_for_nn"),
        ),
    },
)
def resize(node: Node) -> Built:
    mode, sizes = node.text("mode", "nearest"), _resized(node)
    if sizes[:2] != list(node.shape())[:2]:
        node.refuse(f"{list(node.shape())} to {sizes}", "a resize of the dimensions after the channels")
    target = sizes[2:]
    if target == list(node.shape())[2:]:
        return of(lambda x: x)
    return of(_nearest(node, target) if mode == "nearest" else _linear(node, mode, target))


def _resized(node: Node) -> list[int]:
    """Returns the shape of the output."""
    before = list(node.shape())
    if node.kind == "Resize" and node.has(3) and node.value(3).shape[0]:
        given, positions = node.constants(3), node.axes(node.integers("axes", range(node.rank())))
        return [dict(zip(positions, given, strict=True)).get(dim, size) for dim, size in enumerate(before)]
    position = 1 if node.kind == "Upsample" or node.opset < 11 else 2
    factors = node.constant(position).reshape(-1).tolist()
    dims = node.axes(node.integers("axes", range(node.rank())))
    if len(factors) != len(dims):
        node.refuse(f"{len(factors)} factors", f"{len(dims)}")
    scale = dict(zip(dims, factors, strict=True))
    exact = [size * scale.get(dim, 1.0) for dim, size in enumerate(before)]
    if any(abs(size - round(size)) > 1e-3 for size in exact):
        node.refuse(f"factors {factors} of {before}", "factors that give integer sizes, or sizes")
    return [round(size) for size in exact]


def _coordinates(node: Node) -> str:
    default = "asymmetric" if node.kind == "Upsample" or node.opset < 11 else "half_pixel"
    return node.text("coordinate_transformation_mode", default)


def _nearest(node: Node, target: list[int]) -> Any:
    """Builds a lookup of rows and columns by index, following ONNX's rounding rules."""
    kind, old = _coordinates(node), node.kind == "Upsample" or node.opset < 11
    rounding, sizes = node.text("nearest_mode", "floor" if old else "round_prefer_floor"), node.shape()[2:]
    places = [_places(kind, rounding, size, new) for size, new in zip(sizes, target, strict=True)]
    plain = [torch.arange(new) * size // new for size, new in zip(sizes, target, strict=True)]
    if all(torch.equal(one, other) for one, other in zip(places, plain, strict=True)):
        return lambda x: F.interpolate(x, size=target, mode="nearest")

    def pick(x: Tensor) -> Tensor:
        for dim, numbers in enumerate(places, start=2):
            x = x.index_select(dim, numbers)
        return x

    return pick


_COORDINATES: Mapping[str, Callable[[Tensor, int, int], Tensor]] = {
    "asymmetric": lambda x, size, new: x * size / new,
    "half_pixel": lambda x, size, new: (x + 0.5) * size / new - 0.5,
    "pytorch_half_pixel": lambda x, size, new: (x + 0.5) * size / new - 0.5 if new > 1 else x * 0,
    "align_corners": lambda x, size, new: x * (size - 1) / (new - 1) if new > 1 else x * 0,
    "tf_half_pixel_for_nn": lambda x, size, new: (x + 0.5) * size / new,
}
_ROUNDINGS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round_prefer_floor": lambda x: torch.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: torch.floor(x + 0.5),
}


def _places(kind: str, rounding: str, size: int, new: int) -> Tensor:
    where = _COORDINATES[kind](torch.arange(new, dtype=torch.float64), size, new)
    return _ROUNDINGS[rounding](where).clamp(0, size - 1).to(torch.int64)


def _linear(node: Node, mode: str, target: list[int]) -> Any:
    kind, names = _coordinates(node), {1: "linear", 2: "bilinear", 3: "trilinear"}
    if mode != "linear" and not (mode == "bilinear" and node.kind == "Upsample"):
        node.refuse(f"mode '{mode}'", "nearest or linear")
    if node.flag("antialias") or kind not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        node.refuse(f"coordinates '{kind}'", "half_pixel, pytorch_half_pixel or align_corners, without antialiasing")
    single = any(new == 1 < size for new, size in zip(target, node.shape()[2:], strict=True))
    if kind == "pytorch_half_pixel" and single:
        node.refuse(f"{list(node.shape())} to {target} with pytorch_half_pixel", "sizes above 1")
    corners = kind == "align_corners"
    return lambda x: F.interpolate(x, size=target, mode=names[len(target)], align_corners=corners)
