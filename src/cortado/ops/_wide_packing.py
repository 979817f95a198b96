"""What the kernels for int16 codes can take, and their weights in the order they read them (as packing.py for int8)."""

import numpy as np

from cortado.ops.packing import Int8, Int32, as_bytes, joined, pad_to


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
    """Bytes of scratch for conv1x1 `__dsp`, at most `pixels` at a time."""
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
    """So many channels each, the last of which may repeat some of those before."""
    rest = [channels - together] if channels % together else []
    return [slice(first, first + together) for first in [*range(0, channels - together + 1, together), *rest]]


def pack_depthwise_dsp(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of depthwise_s16__dsp.c: [taps, channels] weights, at least four channels."""
    words = np.stack([2 * multiplier.astype(np.int64), -shift], axis=1)
    parts = []
    for four in _overlapping(weights.shape[1], 4):
        parts += [
            as_bytes(bias[four]).ravel(),
            weights[:, four][:, [0, 2, 1, 3]].ravel(),
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
