"""Kernels for int16 codes: which layers they take, and weights in the order they read them, as in packing.py."""

import numpy as np

from cortado.base.target import Core
from cortado.ops.conv.packing import Int8, Int32, as_bytes, factor_words, joined, pack_conv_tile, pad_to


def fits(multiplier: Int32, shift: Int32) -> bool:
    """Whether any kernel with packed weights takes a layer whose sums fit 32 bits."""
    return bool(np.all(multiplier >= 1 << 30) and np.all(shift < 0))


def pack_conv_tile_dsp(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, groups: int = 1) -> Int8:
    """The stream of conv_tile_s16__dsp.S: [out_c, ...] weights, four channels each."""
    flat = pad_to(pad_to(weights.reshape(groups, len(weights) // groups, -1), 2, 2), 1, 4)
    pairs = flat.reshape(-1, 2, 2, flat.shape[2] // 2, 2)  # [four, pair, channel of the pair, k // 2, k % 2]
    words = np.stack([bias, 2 * multiplier.astype(np.int64), -shift], axis=1).reshape(groups, -1, 3)
    tables = pad_to(words, 1, 4).reshape(-1, 4, 3)
    return joined(as_bytes(tables[..., 0]), pairs.transpose(0, 3, 1, 4, 2), as_bytes(tables[..., 1:]))


def scratch_conv1x1_dsp(in_c: int, pixels: int) -> int:
    """Returns the bytes of scratch for conv1x1 `__dsp`, at most `pixels` at a time."""
    return 4 * (in_c + 1 & ~1) if pixels > 1 else 0


def scratch_conv2d_dsp(taps: int, depth: int) -> int:
    """Bytes of scratch for conv2d `__dsp`; depth = in_c / groups."""
    return (6 if depth % 2 else 4) * (taps * depth + 1 & ~1)


def pack_conv_tile_mve(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, groups: int = 1) -> Int8:
    """The stream of conv_tile_s16__mve.S: [out_c, ...] weights, four channels each."""
    flat = pad_to(pad_to(weights.reshape(groups, len(weights) // groups, -1), 2, 8), 1, 4)
    blocks = flat.reshape(-1, 4, flat.shape[2] // 8, 8).transpose(0, 2, 1, 3)
    tables = [pad_to(table.reshape(groups, -1), 1, 4).reshape(-1, 4) for table in (bias, multiplier, shift)]
    return joined(as_bytes(tables[0]), blocks, as_bytes(tables[1]), as_bytes(tables[2]))


def scratch_conv2d_mve(products: int, out_w: int) -> int:
    """Bytes of scratch for conv2d `__mve`: two windows, or one."""
    return (4 if out_w > 1 else 2) * products


def _overlapping(channels: int, together: int) -> list[slice]:
    """Returns slices of `together` channels each; the last one can overlap the one before."""
    rest = [channels - together] if channels % together else []
    return [slice(first, first + together) for first in [*range(0, channels - together + 1, together), *rest]]


def pack_depthwise_dsp(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of depthwise_s16__dsp.c: [taps, channels] weights, at least four channels."""
    words = np.stack([2 * multiplier.astype(np.int64), -shift], axis=1)
    parts = []
    for four in _overlapping(weights.shape[1], 4):
        parts += [
            as_bytes(bias[four]).ravel(),
            weights[:, four].astype("<i2").reshape(-1, 1).view(np.int8).ravel(),
            as_bytes(words[four]).ravel(),
        ]
    return np.concatenate(parts)


def pack_depthwise_mve(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of depthwise_pixel_s16__mve.S: [taps, channels] weights, at least eight channels."""
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    parts = []
    for eight in _overlapping(weights.shape[1], 8):
        factors = np.concatenate([multiplier[eight][order], shift[eight][order]])
        parts += [as_bytes(bias[eight][order]).ravel(), weights[:, eight].ravel(), as_bytes(factors).ravel()]
    return np.concatenate(parts)


# ---- small cores -----------------------------------------------------------------------------------------------------


def pack_conv_tile_small(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, groups: int = 1) -> Int8:
    """Packs the stream of conv_tile_s16__scalar.S: the one for int8 codes, with the bias in front of the weights."""
    stream = pack_conv_tile(weights, bias, multiplier, shift, Core.SMALL, groups).reshape(len(weights), -1)
    return np.concatenate([stream[:, -12:-8], stream[:, :-12], stream[:, -8:]], axis=1).ravel()


def pack_linear_small(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """Packs the stream of cortado_linear_s16__scalar: six channels at a time, the first and the fourth interleaved, and
    so on."""
    six = pad_to(weights, 0, 6).reshape(-1, 2, 3, weights.shape[1])
    rows = pad_to(six.transpose(0, 2, 3, 1).reshape(len(six), -1), 1, 4)
    words = pad_to(np.stack([bias, multiplier, shift], axis=1), 0, 6).reshape(len(six), -1)
    return np.concatenate([rows, as_bytes(words).reshape(len(six), -1)], axis=1).ravel()


def pack_depthwise_small(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of depthwise_s16__scalar.c: [taps, channels] weights, at least four channels."""
    words = factor_words(bias, multiplier, shift, Core.SMALL)[:, 1:]
    parts = []
    for four in _overlapping(weights.shape[1], 4):
        parts += [as_bytes(bias[four]).ravel(), weights[:, four].ravel(), as_bytes(words[four]).ravel()]
    return np.concatenate(parts)


def scratch_conv_small(products: int) -> int:
    """Bytes of scratch for conv1x1 and conv2d `__scalar`: four windows, a word for each product."""
    return 16 * (products + 3 & ~3)
