"""Whole layers made of kernel calls: what a schedule does row by row, for the conformance and battery tests."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels import Calls, Ref

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

    def fields(self, calls: Calls) -> dict[str, Any]:
        return {
            "out_offset": self.out_zero,
            "act_min": self.act_min,
            "act_max": self.act_max,
            "multiplier": calls.array(self.multiplier.astype("<i4")),
            "shift": calls.array(self.shift.astype("<i4")),
        }


def _offset_and_bias(calls: Calls, zero: int, bias: Array | None, sums: Array, fold: bool) -> dict[str, Any]:
    """The input offset as the kernel applies it, or folded into the bias as bundles do."""
    if fold:
        start = (0 if bias is None else bias.astype(np.int64)) - zero * sums
        return {"in_offset": 0, "bias": calls.array(start.astype("<i4"))}
    return {"in_offset": -zero, "bias": None if bias is None else calls.array(bias.astype("<i4"))}


def _each_row(calls: Calls, x: Array, window: Window, call: Callable[[Ref, Ref], None], out: Ref, out_row: int) -> None:
    """One call per output row: call(rows, output)."""
    batch, height, width, channels = x.shape
    image, row_bytes, at = calls.array(x), width * channels, 0
    for n in range(batch):
        for y in range(window.output(height, 0)):
            taps = [None if r is None else image + (n * height + r) * row_bytes for r in window.rows(y, height)]
            call(calls.pointers(taps), out + at)
            at += out_row


def conv2d(calls: Calls, x: Array, weights: Array, bias: Array | None, zero: int, window: Window, requant: Requant,
           groups: int = 1, fold: bool = False, symbol: str = "cortado_conv2d_s8",
           pack: Callable[[Array], Array] = lambda w: w, scratch: int = 0) -> tuple[Ref, tuple[int, ...]]:  # fmt: skip
    """weights OHWI; returns the output and its shape."""
    batch, height, width, channels = x.shape
    shape = (batch, window.output(height, 0), window.output(width, 1), len(weights))
    layer = calls.struct(
        "cortado_conv2d_t", in_w=width, in_c=channels, out_w=shape[2], out_c=shape[3], groups=groups,
        kernel_h=window.kernel[0], kernel_w=window.kernel[1], **window.horizontal(), **requant.fields(calls),
        **_offset_and_bias(calls, zero, bias, weights.sum((1, 2, 3), dtype=np.int64), fold),
        weights=calls.array(pack(weights), words="__" in symbol), zero=calls.array(np.full(channels, zero, np.int8)))  # fmt: skip
    out, space = calls.space(int(np.prod(shape))), calls.space(scratch, words=True) if scratch else None
    _each_row(calls, x, window, lambda rows, at: calls.call(symbol, layer, rows, at, space), out, shape[2] * shape[3])
    return out, shape


def conv1x1(calls: Calls, x: Array, weights: Array, bias: Array | None, zero: int, requant: Requant,
            fold: bool = False, symbol: str = "cortado_conv1x1_s8", pack: Callable[[Array], Array] = lambda w: w,
            scratch: int = 0) -> tuple[Ref, tuple[int, ...]]:  # fmt: skip
    """x [pixels, in_c], weights [out_c, in_c]."""
    layer = calls.struct(
        "cortado_conv1x1_t", in_c=x.shape[1], out_c=len(weights), **requant.fields(calls),
        **_offset_and_bias(calls, zero, bias, weights.sum(1, dtype=np.int64), fold),
        weights=calls.array(pack(weights), words="__" in symbol))  # fmt: skip
    shape = (len(x), len(weights))
    out, space = calls.space(shape[0] * shape[1]), calls.space(scratch, words=True) if scratch else None
    calls.call(symbol, layer, calls.array(x), out, len(x), space)
    return out, shape


def depthwise(calls: Calls, x: Array, weights: Array, bias: Array | None, zero: int, window: Window, requant: Requant,
              fold: bool = False, symbol: str = "cortado_depthwise_s8", pack: Callable[[Array], Array] = lambda w: w,
              scratch: int = 0) -> tuple[Ref, tuple[int, ...]]:  # fmt: skip
    """weights HWO."""
    batch, height, width, channels = x.shape
    shape = (batch, window.output(height, 0), window.output(width, 1), weights.shape[2])
    layer = calls.struct(
        "cortado_depthwise_t", in_w=width, in_c=channels, out_w=shape[2], out_c=shape[3],
        depth_multiplier=shape[3] // channels, kernel_h=window.kernel[0], kernel_w=window.kernel[1],
        **window.horizontal(), **requant.fields(calls),
        **_offset_and_bias(calls, zero, bias, weights.sum((0, 1), dtype=np.int64), fold),
        weights=calls.array(pack(weights), words="__" in symbol), zero=calls.array(np.full(channels, zero, np.int8)))  # fmt: skip
    out, space = calls.space(int(np.prod(shape))), calls.space(scratch, words=True) if scratch else None
    _each_row(calls, x, window, lambda rows, at: calls.call(symbol, layer, rows, at, space), out, shape[2] * shape[3])
    return out, shape


def pool2d(calls: Calls, x: Array, window: Window, act_min: int, act_max: int, symbol: str,
           size: tuple[int, int] | None = None) -> tuple[Ref, tuple[int, ...]]:  # fmt: skip
    """Average or maximum, by symbol."""
    batch, height, width, channels = x.shape
    shape = (batch, window.output(height, 0), window.output(width, 1), channels)
    layer = calls.struct("cortado_pool2d_t", in_w=width, channels=channels, out_w=shape[2], kernel_h=window.kernel[0],
                         kernel_w=window.kernel[1], **window.horizontal(), act_min=act_min, act_max=act_max)  # fmt: skip
    extra = (None,) if "avg" in symbol else ()
    out = calls.space(int(np.prod(shape)))
    _each_row(calls, x, window, lambda rows, at: calls.call(symbol, layer, rows, at, *extra), out, shape[2] * shape[3])
    return out, shape
