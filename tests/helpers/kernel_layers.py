"""Whole layers made of kernel calls: what a schedule does row by row, for the conformance and battery tests."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.kernels import Calls, Ref

Array = np.ndarray


@dataclass(frozen=True)
class Window:
    """How a spatial operator slides over its input: (vertical, horizontal) pairs."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)

    def output(self, size: int, axis: int) -> int:
        reach = (self.kernel[axis] - 1) * self.dilation[axis] + 1
        return (size + 2 * self.padding[axis] - reach) // self.stride[axis] + 1

    def rows(self, y: int, height: int) -> list[int | None]:
        """The input rows under the taps of output row y."""
        first = y * self.stride[0] - self.padding[0]
        rows = [first + k * self.dilation[0] for k in range(self.kernel[0])]
        return [row if 0 <= row < height else None for row in rows]

    def horizontal(self) -> dict[str, int]:
        return {"stride_w": self.stride[1], "pad_left": self.padding[1], "dilation_w": self.dilation[1]}


@dataclass(frozen=True)
class Requant:
    """Per-channel factors, output zero point and clamp of a layer with weights."""

    multiplier: Array
    shift: Array
    out_zero: int
    act_min: int = -128
    act_max: int = 127


@dataclass(frozen=True)
class Variant:
    """Which kernel computes a layer: its symbol's suffix, its packing and its scratch.

    The portable kernel takes weights as they are; `pack` makes one stream of (weights, bias, multiplier, shift).
    """

    suffix: str = ""
    pack: Callable[[Array, Array, Array, Array], Array] | None = None
    scratch: int = 0
    fold: bool = False  # the input offset into the bias, as bundles do
    lean: bool = False  # conv2d: less scratch

    def struct(self, operator: str) -> str:
        """The descriptor that the variant takes."""
        return f"cortado_{operator}{'_t' if self.pack is None else '_packed_t'}"


# Kernels of depthwise layers that have the descriptor of a grouped convolution.
GROUPED = ("cortado_depthwise_long_s8", "cortado_depthwise_several_s8", "cortado_depthwise_words_s8")
PORTABLE = Variant()
FOLDED = Variant(fold=True)


def _constants(
    calls: Calls, weights: Array, sums: Array, bias: Array | None, zero: int, requant: Requant, variant: Variant
) -> dict[str, Any]:
    """The fields of a descriptor that hold constants, as the variant wants them."""
    limits = {"out_offset": requant.out_zero, "act_min": requant.act_min, "act_max": requant.act_max}
    factors = requant.multiplier.astype("<i4"), requant.shift.astype("<i4")
    folded = ((0 if bias is None else bias.astype(np.int64)) - zero * sums).astype("<i4")
    if variant.pack is not None:
        stream = calls.array(variant.pack(weights, folded, *factors), words=True)
        return {**limits, "weights": stream}
    start = folded if variant.fold else bias
    return {
        **limits,
        "in_offset": 0 if variant.fold else -zero,
        "weights": calls.array(weights),
        "bias": None if start is None else calls.array(start.astype("<i4")),
        "multiplier": calls.array(factors[0]),
        "shift": calls.array(factors[1]),
    }


def _each_row(calls: Calls, x: Array, window: Window, call: Callable[[Ref, Ref], None], out: Ref, out_row: int) -> None:
    """One call per output row: call(rows, output)."""
    batch, height, width, channels = x.shape
    image, row_bytes, at = calls.array(x), width * channels, 0
    for n in range(batch):
        for y in range(window.output(height, 0)):
            taps = [None if r is None else image + (n * height + r) * row_bytes for r in window.rows(y, height)]
            call(calls.pointers(taps), out + at)
            at += out_row


def conv2d(
    calls: Calls,
    x: Array,
    weights: Array,
    bias: Array | None,
    zero: int,
    window: Window,
    requant: Requant,
    variant: Variant = PORTABLE,
    groups: int = 1,
    kernel: str = "cortado_conv2d_s8",
) -> tuple[Ref, tuple[int, ...]]:
    """weights OHWI; returns the output and its shape."""
    batch, height, width, channels = x.shape
    shape = (batch, window.output(height, 0), window.output(width, 1), len(weights))
    sums = weights.sum((1, 2, 3), dtype=np.int64)
    lean = {} if variant.pack is None else {"lean": int(variant.lean)}
    layer = calls.struct(
        variant.struct("conv2d"), in_w=width, in_c=channels, out_w=shape[2], out_c=shape[3], groups=groups,
        kernel_h=window.kernel[0], kernel_w=window.kernel[1], **window.horizontal(), **lean,
        **_constants(calls, weights, sums, bias, zero, requant, variant),
        zero=calls.array(np.full(channels, zero, np.int8)))  # fmt: skip
    return _spatial(calls, kernel, variant, layer, x, window, shape), shape


def conv1x1(
    calls: Calls,
    x: Array,
    weights: Array,
    bias: Array | None,
    zero: int,
    requant: Requant,
    variant: Variant = PORTABLE,
    kernel: str = "cortado_conv1x1_s8",
) -> tuple[Ref, tuple[int, ...]]:
    """x [pixels, in_c], weights [out_c, in_c]."""
    constants = _constants(calls, weights, weights.sum(1, dtype=np.int64), bias, zero, requant, variant)
    layer = calls.struct(variant.struct("conv1x1"), in_c=x.shape[1], out_c=len(weights), **constants)
    shape = (len(x), len(weights))
    out = calls.space(shape[0] * shape[1])
    calls.call(kernel + variant.suffix, layer, calls.array(x), out, len(x), _scratch(calls, variant))
    return out, shape


def depthwise(
    calls: Calls,
    x: Array,
    weights: Array,
    bias: Array | None,
    zero: int,
    window: Window,
    requant: Requant,
    variant: Variant = PORTABLE,
    kernel: str = "cortado_depthwise_s8",
) -> tuple[Ref, tuple[int, ...]]:
    """weights HWO."""
    batch, height, width, channels = x.shape
    shape = (batch, window.output(height, 0), window.output(width, 1), weights.shape[2])
    sums = weights.sum((0, 1), dtype=np.int64)
    more = {"out_c": shape[3], "depth_multiplier": shape[3] // channels} if variant.pack is None else {}
    grouped = kernel in GROUPED
    more = {"out_c": shape[3], "groups": channels, "lean": 0} if grouped else more
    layer = calls.struct(
        variant.struct("conv2d" if grouped else "depthwise"), in_w=width, in_c=channels, out_w=shape[2], **more,
        kernel_h=window.kernel[0], kernel_w=window.kernel[1],
        **window.horizontal(), **_constants(calls, weights, sums, bias, zero, requant, variant),
        zero=calls.array(np.full(channels, zero, np.int8)))  # fmt: skip
    return _spatial(calls, kernel, variant, layer, x, window, shape), shape


def _scratch(calls: Calls, variant: Variant) -> Ref | None:
    return calls.space(variant.scratch, words=True) if variant.scratch else None


def _spatial(
    calls: Calls, kernel: str, variant: Variant, layer: Ref, x: Array, window: Window, shape: tuple[int, ...]
) -> Ref:
    out, scratch, symbol = calls.space(int(np.prod(shape))), _scratch(calls, variant), kernel + variant.suffix
    _each_row(calls, x, window, lambda rows, at: calls.call(symbol, layer, rows, at, scratch), out, shape[2] * shape[3])
    return out


def pool2d(
    calls: Calls, x: Array, window: Window, act_min: int, act_max: int, symbol: str
) -> tuple[Ref, tuple[int, ...]]:
    """Average or maximum, by symbol."""
    batch, height, width, channels = x.shape
    shape = (batch, window.output(height, 0), window.output(width, 1), channels)
    layer = calls.struct(
        "cortado_pool2d_t", in_w=width, channels=channels, out_w=shape[2], kernel_h=window.kernel[0],
        kernel_w=window.kernel[1], **window.horizontal(), act_min=act_min, act_max=act_max)  # fmt: skip
    extra = (None,) if "avg" in symbol else ()
    out = calls.space(int(np.prod(shape)))
    _each_row(calls, x, window, lambda rows, at: calls.call(symbol, layer, rows, at, *extra), out, shape[2] * shape[3])
    return out, shape
