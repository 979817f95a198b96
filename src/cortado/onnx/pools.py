"""Pools over windows and over whole images; resizing."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from cortado.onnx.layers import PadPairs, padding, symmetric, window
from cortado.onnx.node import Built, Node, of, onnx_operator

Tensor = torch.Tensor
_MAX: Any = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
_AVERAGE: Any = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}


def _kernel(node: Node) -> list[int]:
    kernel = node.integers("kernel_shape")
    if len(kernel) != node.rank() - 2 or len(kernel) not in _MAX or min(kernel) < 1:
        node.refuse(f"kernel_shape {kernel} over {list(node.shape())}", "a number for each of 1 to 3 dimensions")
    return kernel


def _fits(kernel: Sequence[int], pads: PadPairs) -> list[int] | None:
    """Padding that torch's pools take: as much before as behind, and at most half of the window."""
    even = symmetric(pads)
    return even if even is not None and all(2 * pad <= size for pad, size in zip(even, kernel, strict=True)) else None


@onnx_operator("MaxPool", limits="positions are not read")
def max_pool(node: Node) -> Built:
    if node.outputs > 1:
        node.refuse("its positions are read", "the values alone")
    kernel = _kernel(node)
    strides, dilations, pads = window(node, kernel)
    ceil, even = node.flag("ceil_mode"), _fits(kernel, pads)
    pool = _MAX[len(kernel)](kernel, strides, even or 0, dilations, ceil_mode=ceil)
    if even is not None:
        return of(pool)
    pad = padding(pads, value=-math.inf)
    return of(lambda x: pool(pad(x)))


@onnx_operator("AveragePool", limits="no dilation; padding that is counted, or as much before as behind")
def average_pool(node: Node) -> Built:
    kernel = _kernel(node)
    strides, dilations, pads = window(node, kernel)
    counts, ceil, even = node.flag("count_include_pad"), node.flag("ceil_mode"), _fits(kernel, pads)
    if max(dilations) > 1:
        node.refuse(f"dilations {dilations}", "1")
    if even is not None:
        return of(_AVERAGE[len(kernel)](kernel, strides, even, ceil_mode=ceil, count_include_pad=counts))
    pool, pad = _AVERAGE[len(kernel)](kernel, strides, 0, ceil_mode=ceil), padding(pads)
    if counts:
        return of(lambda x: pool(pad(x)))
    share = pool(pad(torch.ones(1, 1, *node.shape()[2:])))  # of each window that lies in the image
    return of(lambda x: pool(pad(x)) / share)


@onnx_operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node) -> Built:
    dims = tuple(range(2, node.rank()))
    if node.kind == "GlobalAveragePool":
        return of(lambda x: x.mean(dims, keepdim=True))
    return of(lambda x: x.amax(dims, keepdim=True))


# ---- resizing ------------------------------------------------------------------------------------------------------


@onnx_operator("Resize", "Upsample", limits="nearest (floor) and linear; constant sizes; no antialiasing, no crop")
def resize(node: Node) -> Built:
    mode, sizes = node.text("mode", "nearest"), _resized(node)
    if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        node.refuse("a size that keeps the ratio of the sides", "the sizes themselves; simplify the model")
    if sizes[:2] != list(node.shape())[:2]:
        node.refuse(f"{list(node.shape())} to {sizes}", "a resize of the dimensions behind the channels")
    target = node.check_size(sizes)[2:]
    if target == list(node.shape())[2:]:
        return of(lambda x: x)
    return of(_nearest(node, target) if mode == "nearest" else _linear(node, mode, target))


def _resized(node: Node) -> list[int]:
    """The shape of the output."""
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
        node.refuse(f"factors {factors} of {before}", "factors that give integer sizes, or the sizes themselves")
    return [round(size) for size in exact]


def _coordinates(node: Node) -> str:
    default = "asymmetric" if node.kind == "Upsample" or node.opset < 11 else "half_pixel"
    return node.text("coordinate_transformation_mode", default)


def _nearest(node: Node, target: list[int]) -> Any:
    """Rows and columns picked by their numbers, as ONNX's rules of rounding give them."""
    kind, old = _coordinates(node), node.kind == "Upsample" or node.opset < 11
    rounding, sizes = node.text("nearest_mode", "floor" if old else "round_prefer_floor"), node.shape()[2:]
    places = [_places(node, kind, rounding, size, new) for size, new in zip(sizes, target, strict=True)]
    plain = [[number * size // new for number in range(new)] for size, new in zip(sizes, target, strict=True)]
    if places == plain:
        return lambda x: F.interpolate(x, size=target, mode="nearest")

    def pick(x: Tensor) -> Tensor:
        for dim, numbers in enumerate(places, start=2):
            x = x.index_select(dim, torch.tensor(numbers))
        return x

    return pick


def _places(node: Node, kind: str, rounding: str, size: int, new: int) -> list[int]:
    scale = new / size
    rules: Any = {
        "asymmetric": lambda x: x / scale,
        "half_pixel": lambda x: (x + 0.5) / scale - 0.5,
        "pytorch_half_pixel": lambda x: (x + 0.5) / scale - 0.5 if new > 1 else 0.0,
        "align_corners": lambda x: x * (size - 1) / (new - 1) if new > 1 else 0.0,
        "tf_half_pixel_for_nn": lambda x: (x + 0.5) / scale,
    }
    rounds: Any = {
        "floor": math.floor,
        "ceil": math.ceil,
        "round_prefer_floor": lambda x: math.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: math.floor(x + 0.5),
    }
    if kind not in rules or rounding not in rounds:
        node.refuse(f"coordinates '{kind}', rounding '{rounding}'", f"one of {sorted(rules)}, {sorted(rounds)}")
    return [min(max(rounds[rounding](rules[kind](x)), 0), size - 1) for x in range(new)]


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
