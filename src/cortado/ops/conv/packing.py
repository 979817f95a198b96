"""Kernel variants: which layers each takes, its constants in the order it reads them, and its scratch.

All of it is known at compile time. The portable kernels take unpacked weights, need no scratch, and are the fallback
where a `fits_` function here returns False. Biases already contain the folded input offset. The operators guarantee
that shifts are between -31 and 30 and that acc * 2^shift fits in 32 bits.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cortado.base.element import INT8
from cortado.base.target import Core

Int8 = NDArray[np.int8]
Int32 = NDArray[np.int32]


def _largest_sums(weights: Int8, bias: Int32, channel_axis: int) -> NDArray[np.int64]:
    """Returns an upper bound of each channel's sum over all inputs."""
    axes = tuple(axis for axis in range(weights.ndim) if axis != channel_axis)
    return 128 * np.abs(weights.astype(np.int64)).sum(axis=axes) + np.abs(bias.astype(np.int64))


def _doubling_fits(weights: Int8, bias: Int32, shift: Int32, channel_axis: int) -> bool:
    """Whether every sum, shifted left, stays below 2^30: kernels that use a long multiply's upper word double it."""
    largest = _largest_sums(weights, bias, channel_axis)
    return bool(np.all(largest << np.maximum(shift, 0).astype(np.int64) < 1 << 30))


def _no_minimum(weights: Int8) -> bool:
    """Whether no weight is -128, so that the sum of two products of a byte and a weight fits 16 bits."""
    return not np.any(weights == INT8.low)


def fits_conv_tile(weights: Int8, bias: Int32, shift: Int32, core: Core) -> bool:
    """Whether conv2d or conv1x1 `__scalar` (`__dsp` on DSP cores) takes a layer. weights [out_c, ...]."""
    return _no_minimum(weights) if core is Core.SMALL else _doubling_fits(weights, bias, shift, 0)


def fits_conv_lanes(weights: Int8, bias: Int32, shift: Int32) -> bool:
    """Whether conv2d_lanes or conv1x1_lanes `__dsp` takes a layer: weights of two channels in 16 bits, sums of 24
    bits."""
    small = bool(np.all(_largest_sums(weights, bias, 0) < 1 << 23))
    return small and _no_minimum(weights) and bool(np.all(shift < 0))


def fits_linear_group(weights: Int8, bias: Int32, shift: Int32) -> bool:
    """Whether linear `__scalar` (`__dsp` on DSP cores) takes a layer: right shifts only. weights [out_c, in_c]."""
    return bool(np.all(shift < 0)) and _doubling_fits(weights, bias, shift, 0)


def fits_linear_lanes(weights: Int8, bias: Int32, shift: Int32) -> bool:
    """Whether linear_lanes `__dsp` takes a layer: weights of two channels in 16 bits."""
    return _no_minimum(weights) and fits_linear_group(weights, bias, shift)


def fits_depthwise(weights: Int8, bias: Int32, shift: Int32, core: Core) -> bool:
    """Whether depthwise `__scalar` (`__dsp` on DSP cores) takes a layer. weights [kernel_h, kernel_w, channels], one
    output channel for each input channel."""
    return weights.shape[2] >= 4 and (core is Core.SMALL or _doubling_fits(weights, bias, shift, 2))


def fits_depthwise3x3_dsp(
    weights: Int8,
    bias: Int32,
    shift: Int32,
    act: tuple[int, int],
    columns: tuple[int, int],
    slide: tuple[int, int, int],
) -> bool:
    """Whether depthwise3x3 `__dsp` takes a layer.

    `act` is the clamp, `columns` the widths of input and output, `slide` horizontal stride, left padding and dilation.
    """
    (in_w, out_w), (stride, pad, dilation) = columns, slide
    over = (out_w - 1) * stride - pad + 2 - (in_w - 1)  # by how many columns the last window extends past the row
    geometry = weights.shape[:2] == (3, 3) and stride in (1, 2) and dilation == 1 and pad in (0, 1) and over <= 1
    inside = in_w >= 3 - pad  # the first window's third column
    return (
        geometry
        and inside
        and weights.shape[2] < 1 << 16
        and out_w <= 1 << 15
        and act == INT8.codes
        and bool(np.all(shift < 0))
        and _doubling_fits(weights, bias, shift, 2)
    )


LONG_LANE = 21  # bits between the outputs of one long multiply


def fits_depthwise_long(
    weights: Int8, bias: Int32, shift: Int32, in_c: int, columns: tuple[int, int], slide: tuple[int, int, int]
) -> bool:
    """Whether depthwise_long `__dsp` takes a layer: words of two columns and of two weights, sums of 20 bits and a
    sign.

    weights [kernel_h, kernel_w, out_c]; `columns` and `slide` as above.
    """
    (_, out_w), (stride, _, dilation) = columns, slide
    kernel_h, kernel_w, out_c = weights.shape
    sums = 128 * np.abs(weights.astype(np.int64)).sum(axis=(0, 1))
    return (
        in_c >= 4
        and out_c % in_c == 0
        and stride in (1, 2)
        and dilation == 1
        and 2 <= long_words(kernel_w, stride) <= 5
        and kernel_h < 1 << 8
        and out_w <= 1 << 15
        and bool(np.all(shift < 0))
        and bool(np.all(sums < 1 << (LONG_LANE - 1)))
        and _doubling_fits(weights, bias, shift, 2)
    )


def fits_conv_tile_mve(shift: Int32) -> bool:
    """Whether conv2d or conv1x1 `__mve` takes a layer: every output is shifted right."""
    return bool(np.all(shift < 0))


def fits_conv_shallow_mve(weights: Int8, shift: Int32) -> bool:
    """Whether conv1x1_shallow `__mve` takes a layer: four channels' weights fit four vectors. weights [out_c, in_c]."""
    return weights.shape[0] >= 4 and weights.shape[1] <= 16 and fits_conv_tile_mve(shift)


def fits_depthwise_mve(weights: Int8, shift: Int32) -> bool:
    """Whether depthwise `__mve`, or depthwise_few `__mve` of fewer than 16 channels, takes a layer."""
    return _no_minimum(weights) and bool(np.all(shift <= 0))


def fits_depthwise_several_mve(weights: Int8, shift: Int32, in_c: int) -> bool:
    """Whether depthwise_several `__mve` takes a layer: places of sixteen channels' outputs that fit bytes."""
    return 1 < weights.shape[2] // in_c <= 255 // 15 and fits_depthwise_mve(weights, shift)


def fits_depthwise_words_mve(weights: Int8, shift: Int32, in_c: int, dilation: int) -> bool:
    """Whether depthwise_words `__mve` takes a layer: fewer than sixteen channels or several outputs of each, a window
    that fits a vector and fills a third of it, and columns that are not too far apart to be laid out."""
    high, wide, out_c = weights.shape
    pays = (in_c < 16 or out_c > in_c) and high * wide >= 6
    return pays and max(high, wide) <= 4 and dilation <= 4 and bool(np.all(shift < 0))


def fits_depthwise3x3_mve(weights: Int8, shift: Int32) -> bool:
    """Whether depthwise3x3 `__mve` takes a layer."""
    plain = weights.shape[:2] == (3, 3) and weights.shape[2] >= 16
    return plain and fits_depthwise_mve(weights, shift) and bool(np.all(shift < 0))


ADD_HALF = (1 << 30, 0)  # the factor of add's operand with the larger scale, which its variants expect as b


def fits_add(a: tuple[int, int], b: tuple[int, int], out: tuple[int, int], act: tuple[int, int]) -> bool:
    """Whether add `__scalar` (not on small cores) or `__dsp` takes a layer with these (multiplier, shift) pairs."""
    return b == ADD_HALF and a[1] <= 0 and out[1] <= 0 and act == INT8.codes


def fits_add_mve(a: tuple[int, int], b: tuple[int, int], out: tuple[int, int]) -> bool:
    """Whether add `__mve` takes a layer: any clamp, and the output is shifted right."""
    return b == ADD_HALF and a[1] <= 0 and out[1] < 0


def fits_mul_mve(shift: int) -> bool:
    """Whether mul_channel `__mve` takes a layer: the output is shifted right."""
    return shift < 0


def fits_mul_dsp(shift: int) -> bool:
    """Whether mul_channel `__dsp` takes a layer with any codes: the rounded product before the shift fits 32 bits."""
    return -20 <= shift < 0


def fits_means_mve(count: int) -> bool:
    """Whether means `__mve` divides sums of `count` bytes exactly. |sum| + count / 2 < 129 * count, and the rounding
    error of 2^32 / count is below count; their product has to stay below 2^32."""
    return 129 * count**2 < 1 << 32


def fits_avg_pool2d(kernel_h: int, kernel_w: int) -> bool:
    """Whether avg_pool2d `__dsp` (at least 4 channels) or `__mve` takes a window: sums that fit 16 bits."""
    return kernel_h * kernel_w <= 256


def fits_batch_matmul(rows: int, cols: int, depth: int, shift: int, core: Core) -> bool:
    """Whether batch_matmul `__dsp` or `__mve` takes a product: tiles of two rows, a right shift of every output, and
    doubled sums of products of two bytes, each with its zero point subtracted, that fit 32 bits."""
    return rows >= 2 and cols >= (4 if core is Core.MVE else 2) and shift < 0 and depth * 255 * 255 < 1 << 30


LANES_PACKED = 1024  # bytes of columns that batch_matmul_lanes `__dsp` packs at a time, at least 16 columns


def fits_batch_matmul_lanes(rows: int, cols: int, depth: int, shift: int) -> bool:
    """Whether batch_matmul_lanes `__dsp` takes a product: sums of products of two bytes that fit 24 bits, and enough
    rows for the packing of the columns to pay off."""
    small = depth * INT8.low * INT8.low < 1 << 23
    return small and rows >= 8 and cols >= 4 and fits_batch_matmul(rows, cols, depth, shift, Core.DSP)


def columns_batch_matmul_lanes(cols: int, depth: int) -> int:
    """Returns how many columns batch_matmul_lanes `__dsp` packs at a time."""
    most = LANES_PACKED // (depth + 3 & ~3) & ~3
    return min(cols + 3 & ~3, max(most, 16))


def scratch_batch_matmul_lanes(cols: int, depth: int) -> int:
    """Returns the bytes for two rows as halfwords, and for packed columns with a 32-bit sum each."""
    words = depth + 3 & ~3
    return 4 * words + columns_batch_matmul_lanes(cols, depth) * (words + 4)


def pad_to(array: NDArray[np.generic], axis: int, multiple: int) -> NDArray[np.generic]:
    """Pads one axis at its end with zeros, up to a multiple."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, -array.shape[axis] % multiple)
    return np.pad(array, widths)


def _shift_words(shift: Int32, core: Core) -> NDArray[np.uint32]:
    """Returns left shift, right shift << 8, and the sign bit if there is a right shift.

    Cores with a long multiply use its upper word, so their left shift is one more (doubling).
    """
    right = np.maximum(-shift, 0).astype(np.uint32)
    left = np.maximum(shift, 0).astype(np.uint32) + np.uint32(core is not Core.SMALL)
    return left | right << np.uint32(8) | (right > 0).astype(np.uint32) << np.uint32(31)


def _multiplier_words(multiplier: Int32, core: Core) -> NDArray[np.uint32]:
    """Returns multipliers as words. Small cores multiply by signed halves, so the upper half is one more if the lower
    one is negative."""
    words = multiplier.astype(np.int64)
    if core is Core.SMALL:
        low = words.astype(np.int16).astype(np.int64)
        words = (words - low) | (low & 0xFFFF)
    return words.astype(np.uint32)


def as_bytes(words: NDArray[np.generic]) -> Int8:
    """Returns 32-bit words as their bytes, along a new last axis."""
    return words.astype("<u4")[..., None].view(np.int8)


def pack_conv_tile(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, core: Core, groups: int = 1) -> Int8:
    """Packs the stream of conv_tile_s8__scalar_dsp.S: [out_c, ...] weights with biases and factors in between.

    Products are padded with zeros to a multiple of 4, channels to the number that the kernel computes together.
    """
    together = 2 if core is Core.LONG else 1
    words = factor_words(bias, multiplier, shift, core)
    tables = pad_to(words.reshape(groups, -1, 3), 1, together).reshape(-1, together, 3)
    flat = pad_to(pad_to(weights.reshape(groups, len(weights) // groups, -1), 2, 4), 1, together)
    products = flat.reshape(-1, together, flat.shape[2]).transpose(0, 2, 1).reshape(len(tables), -1)
    biases = as_bytes(tables[:, :, 0]).reshape(len(tables), -1)
    factors = as_bytes(tables[:, :, 1:]).reshape(len(tables), -1)
    parts = [products, biases, factors] if core is Core.SMALL else [biases, products, factors]
    return np.ascontiguousarray(np.concatenate(parts, axis=1)).reshape(-1)


def pack_conv_lanes(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, groups: int = 1) -> Int8:
    """The stream of conv_lanes_s8__dsp.S: [out_c, ...] weights, four channels each, two of them in every halfword."""
    flat = pad_to(pad_to(weights.reshape(groups, len(weights) // groups, -1), 2, 4), 1, 4)
    words = np.stack([bias, multiplier, -shift], axis=1).reshape(groups, -1, 3)
    tables = pad_to(words, 1, 4).astype(np.int64).reshape(-1, 2, 2, 3)
    starts = tables[..., 0].copy()
    starts[:, :, 1] = 256 * starts[:, :, 1] + starts[:, :, 0]
    return joined(as_bytes(starts), _lanes(flat), as_bytes(tables[..., 1:]))


def pack_linear_lanes(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of linear_lanes_s8__dsp.S: [out_c, in_c] weights, four channels each, two of them in a halfword."""
    words = pad_to(np.stack([bias, multiplier, -shift], axis=1), 0, 4).astype(np.int64).reshape(-1, 4, 3)
    return joined(as_bytes(words[..., 0]), _lanes(pad_to(pad_to(weights, 1, 4), 0, 4)), as_bytes(words[..., 1:]))


def _lanes(weights: NDArray[np.generic]) -> Int8:
    """Packs [.., channels, products] weights, both multiples of four: halfwords 256 * b + a of two channels, for
    products k and k + 2 of either two, then for k + 1 and k + 3."""
    fours = weights.astype(np.int64).reshape(-1, 2, 2, weights.shape[-1])  # [four, pair, channel of the pair, product]
    lanes = (fours[:, :, 0] + 256 * fours[:, :, 1]).reshape(len(fours), 2, -1, 2, 2)  # [.., k // 4, k // 2 % 2, k % 2]
    return np.ascontiguousarray(lanes.transpose(0, 2, 4, 1, 3).astype("<i2")).view(np.int8)


def joined(*parts: NDArray[np.generic]) -> Int8:
    """Concatenates the parts for each group of channels."""
    return np.ascontiguousarray(np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)).reshape(-1)


def scratch_conv1x1_tile(in_c: int, pixels: int, core: Core) -> int:
    """Bytes of scratch for conv1x1 `__scalar` and `__dsp`, and conv1x1_lanes `__dsp`, at most `pixels` at a time."""
    return (8 if pixels > 2 and core is Core.SMALL else 4) * (in_c + 3 & ~3)


def scratch_conv2d_tile(taps: int, depth: int, out_w: int, core: Core, lean: bool = False) -> int:
    """Returns the bytes of scratch for conv2d `__scalar` and `__dsp`, and conv2d_lanes `__dsp`; depth = in_c / groups.

    Small cores compute four pixels at a time, two in a lean layer; other cores always two. DSP cores gather windows as
    bytes first unless the depth of a tap is a multiple of 4.
    """
    padded = taps * depth + 3 & ~3
    if core is Core.DSP:
        return (5 if depth % 4 else 4) * padded
    return (8 if core is Core.SMALL and out_w > 2 and not lean else 4) * padded


def pack_depthwise(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, core: Core) -> Int8:
    """Packs the stream of depthwise_pixel_s8__scalar_dsp.S: [kernel_h, kernel_w, channels] weights, four channels at a
    time.

    Needs at least 4 channels and a depth multiplier of 1. The last four channels can overlap the four before.
    """
    channels = weights.shape[2]
    taps = pad_to(weights.reshape(-1, channels), 0, 2 if core is Core.DSP else 1)
    words = np.stack([_multiplier_words(multiplier, core), _shift_words(shift, core)], axis=1)
    parts = []
    for first in [*range(0, channels - 3, 4), *([channels - 4] if channels % 4 else [])]:
        four = slice(first, first + 4)
        products = taps[:, four]
        if core is Core.DSP:  # of two taps: channels 0 and 1 of both, then channels 2 and 3 of both
            products = products.reshape(-1, 2, 2, 2).transpose(0, 2, 1, 3)
        parts += [as_bytes(bias[four]).reshape(-1), products.reshape(-1), as_bytes(words[four]).reshape(-1)]
    return np.ascontiguousarray(np.concatenate(parts))


def pack_depthwise3x3_dsp(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, offset: int) -> Int8:
    """The stream of depthwise3x3_row_s8__dsp.S for depthwise3x3 `__dsp`: [3, 3, channels] weights, output offset."""
    order = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0), (1, 2), (2, 1)]
    products = np.stack([weights[row, column] for row, column in order], axis=1)
    last = weights[2, 2].astype(np.uint16).astype(np.uint32) | np.uint32(offset & 0xFFFF) << np.uint32(16)
    words = np.stack([last, 2 * bias.astype(np.int64), multiplier, -shift], axis=1)
    parts = [products, as_bytes(words).reshape(len(bias), -1)]
    return np.ascontiguousarray(np.concatenate(parts, axis=1)).reshape(-1)


def long_words(kernel_w: int, stride: int) -> int:
    """Returns the number of words in a row of weights of depthwise_long `__dsp`."""
    return -(-kernel_w // 2) if stride == 1 else kernel_w // 4 * 2 + min(kernel_w % 4, 2)


@dataclass(frozen=True)
class LongRow:
    """The layout of the columns under one row of outputs, as depthwise_long `__dsp` reads them."""

    tiles: int  # of four outputs; the first begins one output before the row
    words: int  # of a row of weights
    places: int  # words of two columns each
    inside: int  # words of these that are copied four columns at a time
    edges: int  # words that are set one by one

    @staticmethod
    def of(in_w: int, out_w: int, pad_left: int, stride: int, kernel_w: int) -> "LongRow":
        more = pad_left % 2 == 1 if stride == 1 else pad_left % 4 == 2
        more = more and (out_w + 1) // 4 == out_w // 4
        pad, tiles, words = pad_left + stride * more, (out_w + more) // 4 + 1, long_words(kernel_w, stride)
        places = (2 * tiles - 1) * stride + words
        first = (pad + 1) // 2 if stride == 1 else (pad + 3) // 4 * 2
        left = in_w - (2 * first - pad)
        room, have = (places - first, left // 2) if stride == 1 else ((places - first) // 2 * 2, left // 4 * 2)
        inside = max(min(have, room), 0)
        lower = [(2 * at if stride == 1 else at // 2 * 4 + at % 2) - pad for at in range(places)]
        outer = [at for place, at in enumerate(lower) if not first <= place < first + inside]
        edges = sum(0 <= at < in_w or 0 <= at + stride < in_w for at in outer)
        return LongRow(tiles, words, places, inside, edges)


def pack_depthwise_long(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, in_c: int, stride: int) -> Int8:
    """Packs the stream of depthwise_long_rows_s8__dsp.S: [kernel_h, kernel_w, out_c] weights, four input channels at a
    time; the last four can overlap the four before."""
    _, kernel_w, out_c = weights.shape
    words, each = long_words(kernel_w, stride), out_c // in_c
    wide = np.pad(weights.astype(np.int64), ((0, 0), (0, 4 * words), (0, 0)))
    lower = [2 * word if stride == 1 else word // 2 * 4 + word % 2 for word in range(words)]
    order = [lower[-1], *lower[:-1]]
    rows = (wide[:, [at + stride for at in order]] + (wide[:, order] << LONG_LANE)).transpose(2, 0, 1)
    tables = np.stack([2 * bias.astype(np.int64) - (1 << LONG_LANE), multiplier, -shift], axis=1)
    streams = np.concatenate([tables, rows.reshape(out_c, -1)], axis=1).reshape(in_c, each, -1)
    firsts = [*range(0, in_c - 3, 4), *([in_c - 4] if in_c % 4 else [])]
    return as_bytes(np.concatenate([streams[first : first + 4].reshape(-1) for first in firsts])).reshape(-1)


def scratch_depthwise_long(kernel: tuple[int, int], columns: tuple[int, int], slide: tuple[int, int, int]) -> int:
    """Bytes of scratch for depthwise_long `__dsp`: a word for two columns of four channels, and a list of edges."""
    (kernel_h, kernel_w), (in_w, out_w), (stride, pad, _) = kernel, columns, slide
    return 16 * LongRow.of(in_w, out_w, pad, stride, kernel_w).places * kernel_h + 128


def scratch_depthwise(kernel_h: int, kernel_w: int, core: Core) -> int:
    """Bytes of scratch for depthwise `__scalar` and `__dsp`: a pointer per tap, on DSP cores an even number of them."""
    taps = kernel_h * kernel_w
    return 4 * (taps + taps % 2 if core is Core.DSP else taps)


def scratch_depthwise_mve(kernel_h: int, kernel_w: int) -> int:
    """Bytes of scratch for depthwise, depthwise_few and depthwise_several `__mve` (depthwise3x3 needs none)."""
    return 4 * kernel_h * kernel_w


def scratch_depthwise_words_mve(kernel_w: int, columns: tuple[int, int], slide: tuple[int, int, int], in_c: int) -> int:
    """Bytes of scratch for depthwise_words `__mve`: words of the columns under a run of pixels. columns: widths of the
    input and the output; slide: horizontal stride, left padding, dilation."""
    run = words_run(kernel_w, columns[1], slide, in_c)
    return 4 * min(in_c, 16) * _words_reach(kernel_w, run, slide) + 64


def words_run(kernel_w: int, out_w: int, slide: tuple[int, int, int], in_c: int) -> int:
    """Pixels that depthwise_words `__mve` lays out columns for at a time: all of a row, or an even number."""
    spare = 288 // min(in_c, 16) - _words_reach(kernel_w, 1, slide)
    run = 1 if spare < 0 else spare // slide[0] + 1
    return max(run // 2 * 2, min(out_w, 2)) if run < out_w else out_w


def _words_reach(kernel_w: int, pixels: int, slide: tuple[int, int, int]) -> int:
    """Columns under the windows of some pixels."""
    return (pixels - 1) * slide[0] + (kernel_w - 1) * slide[2] + 1


def group_channels(core: Core) -> int:
    """Returns how many output channels the inner loop of linear layers computes together."""
    return 3 if core is Core.SMALL else 4


def pack_group_stream(weights: Int8, tables: NDArray[np.generic], core: Core) -> Int8:
    """Packs the stream of linear_group_s8__scalar_dsp.S or gates_s8.c: [out_c, in_c] weights, a few channels at a time,
    each group followed, at a multiple of 4 bytes, by its rows of `tables`."""
    together = group_channels(core)
    flat = pad_to(weights, 0, together)
    if core is Core.DSP:  # four products of each channel in turn
        flat = _by_blocks(flat, together, 4)
    elif core is not Core.SMALL:
        flat = flat.reshape(-1, together, weights.shape[1]).transpose(0, 2, 1)
    tables = pad_to(tables.astype(np.int64), 0, together)
    groups = len(tables) // together
    return joined(pad_to(flat.reshape(groups, -1), 1, 4), as_bytes(tables).reshape(groups, -1))


def factor_words(bias: Int32, multiplier: Int32, shift: Int32, core: Core) -> NDArray[np.generic]:
    """Returns each channel's words as cortado_asm.h describes them."""
    words = [bias.astype(np.uint32), _multiplier_words(multiplier, core), _shift_words(shift, core)]
    return np.stack(words, axis=1)


def _by_blocks(weights: NDArray[np.generic], together: int, size: int) -> NDArray[np.generic]:
    """Interleaves the channels of a group, `size` products of each in turn; the last ones are padded with zeros."""
    padded = pad_to(weights, 1, size)
    return padded.reshape(-1, together, padded.shape[1] // size, size).transpose(0, 2, 1, 3)


def pack_gates(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, core: Core) -> Int8:
    """The stream of gates `__scalar` and `__dsp`, or of the portable one."""
    if core is Core.PORTABLE:
        return pack_group_stream(weights, np.stack([bias, multiplier, shift], axis=1), core)
    return pack_group_stream(weights, factor_words(bias, multiplier, shift, core), core)


def pack_gates_mve(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, together: int) -> Int8:
    """A stream of recurrent_units__mve.h: [rows, in_c] weights, four rows each, `together` products of a row in one
    vector."""
    products = _by_blocks(weights, 4, together)
    biases, *factors = (as_bytes(table).reshape(len(products), -1) for table in (bias, multiplier, shift))
    return joined(biases, products, *factors)


def pack_linear_group(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, core: Core) -> Int8:
    """Packs the stream of linear `__scalar` and `__dsp`: right shifts only, stored less 1; on small cores with the
    words of conv_tile, after products that are padded to a multiple of 4 bytes."""
    if core is Core.SMALL:
        return pack_group_stream(weights, factor_words(bias, multiplier, shift, core), core)
    return pack_group_stream(weights, np.stack([bias, multiplier, -1 - shift], axis=1), core)


def pack_conv_tile_mve(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, groups: int = 1) -> Int8:
    """The stream of conv_tile_s8__mve.S: [out_c, ...] weights, four channels each."""
    flat = pad_to(weights.reshape(groups, len(weights) // groups, -1), 1, 4)
    fours = flat.reshape(-1, 4, flat.shape[2])
    first = (flat.shape[2] - 1) % 16 + 1
    blocks = fours[:, :, first:].reshape(len(fours), 4, -1, 16).transpose(0, 2, 1, 3)
    tables = [as_bytes(pad_to(table.reshape(groups, -1), 1, 4)) for table in (bias, multiplier, shift)]
    biases, *factors = (table.reshape(len(fours), -1) for table in tables)
    return joined(biases, pad_to(fours[:, :, :first], 2, 16), blocks, *factors)


def pack_conv_shallow_mve(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of conv_shallow_s8__mve.S: the same, but the last four channels can overlap the four before."""
    channels = np.arange(-(-len(weights) // 4) * 4)
    channels[-4:] = np.arange(len(weights) - 4, len(weights))
    return pack_conv_tile_mve(weights[channels], bias[channels], multiplier[channels], shift[channels])


def scratch_conv2d_mve(depth: int, out_w: int) -> int:
    """Bytes of scratch for conv2d `__mve`: two windows; depth = kernel_h * kernel_w * in_c / groups."""
    return (2 if out_w > 1 else 1) * depth


# The order in which the vector kernel of depthwise holds sixteen channels.
_MVE_LANES = np.array([0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15])


def pack_depthwise_mve(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """Packs the stream of depthwise3x3_pixels_s8__mve.S and depthwise_pixel_s8__mve.S, sixteen channels at a time.

    Weights are [kernel_h, kernel_w, channels]. Needs a depth multiplier of 1 and no weight of -128; all shifts to the
    right, for the second kernel also shifts of 0. The last sixteen channels can overlap the sixteen before; fewer than
    sixteen are repeated, so that a vector holds several pixels.
    """
    channels = weights.shape[2]
    taps = weights.reshape(-1, channels)
    if channels < 16:
        lanes = np.resize(np.arange(channels), 16)
        taps, bias, multiplier, shift = taps[:, lanes], bias[lanes], multiplier[lanes], shift[lanes]
        channels = 16
    firsts = [*range(0, channels - 15, 16), *([channels - 16] if channels % 16 else [])]
    return _depthwise_sixteens(taps, bias, multiplier, shift, [np.arange(first, first + 16) for first in firsts])


def pack_depthwise_several_mve(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, in_c: int) -> Int8:
    """Packs the stream of cortado_depthwise_several_pixels_s8__mve: as above, for each output of sixteen channels.

    The last sixteen channels are padded with zeros; fewer than sixteen are repeated.
    """
    taps, each = weights.reshape(-1, weights.shape[2]), weights.shape[2] // in_c
    zeros = np.zeros((len(taps), 1), np.int8)
    taps = np.concatenate([taps, zeros], axis=1)
    bias, multiplier, shift = (np.append(table, np.int32(0)) for table in (bias, multiplier, shift))
    channels = np.resize(np.arange(in_c), 16) if in_c < 16 else np.arange(-(-in_c // 16) * 16)
    sixteens = [
        np.where(sixteen < in_c, sixteen * each + output, -1)
        for sixteen in channels.reshape(-1, 16)
        for output in range(each)
    ]
    return _depthwise_sixteens(taps, bias, multiplier, shift, sixteens)


def pack_depthwise_words_mve(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, in_c: int) -> Int8:
    """Packs the stream of depthwise_words_pixels_s8__mve.S: four outputs each, of sixteen channels each, whose factors
    are packed with the next four, and the last ones' with the first four."""
    high, wide, out_c = weights.shape
    each = out_c // in_c
    taps = np.pad(weights.transpose(2, 1, 0), ((0, 0), (0, 4 - wide), (0, 4 - high))).reshape(out_c, 16)
    places = (4 * (np.arange(out_c) // each % 16)).astype(np.int32)
    parts = []
    for first in range(0, out_c, 16 * each):
        own = slice(first, first + 16 * each)
        channels, products, *factors = (pad_to(table[own], 0, 4) for table in (places, taps, bias, multiplier, shift))
        factors = [np.roll(as_bytes(table).reshape(-1, 16), 1, axis=0) for table in factors]
        pairs = np.concatenate([as_bytes(channels).reshape(-1, 2, 8), products.reshape(-1, 2, 32)], axis=2)
        parts.append(joined(*factors, pairs.reshape(-1, 80)))
    return np.concatenate(parts)


def _depthwise_sixteens(
    taps: Int8, bias: Int32, multiplier: Int32, shift: Int32, sixteens: Iterable[NDArray[np.intp]]
) -> Int8:
    """Packs biases, taps and factors of the output channels of each vector."""
    parts = []
    for sixteen in sixteens:
        lanes = sixteen[_MVE_LANES]
        factors = np.stack([multiplier[lanes].reshape(4, 4), shift[lanes].reshape(4, 4)], axis=1)
        parts += [as_bytes(bias[lanes]).reshape(-1), taps[:, sixteen].reshape(-1), as_bytes(factors).reshape(-1)]
    return np.ascontiguousarray(np.concatenate(parts))
