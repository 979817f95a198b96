"""Weights in the order each kernel reads them, and the scratch each kernel needs: known at compile time."""

from enum import Enum

import numpy as np
from numpy.typing import NDArray

Int8 = NDArray[np.int8]
Int32 = NDArray[np.int32]


class Core(Enum):
    """What decides how the kernels without vector instructions read their weights."""

    SMALL = "no long multiply (Armv6-M, Armv8-M Baseline)"
    LONG = "a long multiply, no DSP instructions (Armv7-M, Armv8-M Mainline)"
    DSP = "DSP instructions"


def _pad(array: NDArray[np.generic], axis: int, multiple: int) -> NDArray[np.generic]:
    """Zeros at the end of one axis, up to a multiple."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, -array.shape[axis] % multiple)
    return np.pad(array, widths)


def _shift_words(shift: Int32, core: Core) -> NDArray[np.uint32]:
    """Left shift, right shift << 8, and the sign bit if there is a right shift.

    Cores with a long multiply use its upper word, so they double first.
    """
    right = np.maximum(-shift, 0).astype(np.uint32)
    left = np.maximum(shift, 0).astype(np.uint32) + np.uint32(core is not Core.SMALL)
    return left | right << np.uint32(8) | (right > 0).astype(np.uint32) << np.uint32(31)


def _multiplier_words(multiplier: Int32, core: Core) -> NDArray[np.uint32]:
    """Small cores multiply by signed halves: the upper one is one more where the lower one is negative."""
    words = multiplier.astype(np.int64)
    if core is Core.SMALL:
        low = words.astype(np.int16).astype(np.int64)
        words = (words - low) | (low & 0xFFFF)
    return words.astype(np.uint32)


def _bytes(words: NDArray[np.generic]) -> Int8:
    """32-bit words as their bytes, along a new last axis."""
    return words.astype("<u4")[..., None].view(np.int8)


def pack_block(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, core: Core, groups: int = 1) -> Int8:
    """The stream of cortado_block.h for conv2d and conv1x1: [out_c, ...] weights with bias and factors between them.

    Products are padded with zeros to a multiple of 4, channels to what the kernel takes together.
    """
    together = 2 if core is Core.LONG else 1
    words = np.stack([bias.astype(np.uint32), _multiplier_words(multiplier, core), _shift_words(shift, core)], axis=1)
    tables = _pad(words.reshape(groups, -1, 3), 1, together).reshape(-1, together, 3)
    flat = _pad(_pad(weights.reshape(groups, len(weights) // groups, -1), 2, 4), 1, together)
    products = flat.reshape(-1, together, flat.shape[2]).transpose(0, 2, 1).reshape(len(tables), -1)
    biases = _bytes(tables[:, :, 0]).reshape(len(tables), -1)
    factors = _bytes(tables[:, :, 1:]).reshape(len(tables), -1)
    parts = [products, biases, factors] if core is Core.SMALL else [biases, products, factors]
    return np.ascontiguousarray(np.concatenate(parts, axis=1)).reshape(-1)


def scratch_conv1x1_block(in_c: int, pixels: int) -> int:
    """Bytes of scratch for conv1x1 `__scalar` and `__dsp`, at most `pixels` at a time."""
    return (8 if pixels > 2 else 4) * (in_c + 3 & ~3)


def scratch_conv2d_block(depth: int, out_w: int, core: Core) -> int:
    """Bytes of scratch for conv2d `__scalar` and `__dsp`; depth = kernel_h * kernel_w * in_c / groups."""
    padded = depth + 3 & ~3
    window = padded if core is Core.DSP else 0
    return (8 if out_w > 2 else 4) * padded + window


def pack_taps(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, core: Core) -> Int8:
    """The stream of cortado_taps.h for depthwise: [kernel_h, kernel_w, channels] weights, four channels at a time.

    Needs at least 4 channels and a depth multiplier of 1. The last four channels may repeat some of those before.
    """
    channels = weights.shape[2]
    taps = weights.reshape(-1, channels)
    if core is Core.DSP:
        taps = _pad(taps, 0, 2)
    words = np.stack([_multiplier_words(multiplier, core), _shift_words(shift, core)], axis=1)
    parts = []
    for first in [*range(0, channels - 3, 4), *([channels - 4] if channels % 4 else [])]:
        four = slice(first, first + 4)
        products = taps[:, four]
        if core is Core.DSP:  # of two taps, channels 0 and 1 of both, then channels 2 and 3 of both
            products = products.reshape(-1, 2, 2, 2).transpose(0, 2, 1, 3)
        parts += [_bytes(bias[four]).reshape(-1), products.reshape(-1), _bytes(words[four]).reshape(-1)]
    return np.ascontiguousarray(np.concatenate(parts))


def scratch_taps(kernel_h: int, kernel_w: int) -> int:
    """Bytes of scratch for depthwise `__scalar` and `__dsp`: a pointer per tap, an even number of them."""
    return 4 * (kernel_h * kernel_w + 1 & ~1)


def pack_linear(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, core: Core) -> Int8:
    """The stream of cortado_linear.h for linear layers: [out_c, in_c] weights, a few channels at a time."""
    together = 3 if core is Core.SMALL else 4
    flat = _pad(weights, 0, together)
    if core is Core.DSP:  # four products of each channel in turn
        flat = _pad(flat, 1, 4).reshape(-1, together, -(-weights.shape[1] // 4), 4).transpose(0, 2, 1, 3)
    elif core is Core.LONG:
        flat = flat.reshape(-1, together, weights.shape[1]).transpose(0, 2, 1)
    tables = _pad(np.stack([bias, multiplier, shift], axis=1).astype(np.int64), 0, together)
    groups = len(tables) // together
    parts = [flat.reshape(groups, -1), _bytes(tables).reshape(groups, -1)]
    return np.ascontiguousarray(np.concatenate(parts, axis=1)).reshape(-1)


def pack_mve(weights: Int8, bias: Int32, multiplier: Int32, shift: Int32, groups: int = 1) -> Int8:
    """The stream of cortado_mve.h for conv2d, conv1x1 and linear layers: [out_c, ...] weights, four channels at a time."""
    flat = _pad(weights.reshape(groups, len(weights) // groups, -1), 1, 4)
    fours = flat.reshape(-1, 4, flat.shape[2])
    whole = flat.shape[2] & ~15
    blocks = fours[:, :, :whole].reshape(len(fours), 4, -1, 16).transpose(0, 2, 1, 3).reshape(len(fours), -1)
    rest = fours[:, :, whole:].reshape(len(fours), -1)
    tables = [
        _bytes(_pad(table.reshape(groups, -1), 1, 4)).reshape(len(fours), -1) for table in (bias, multiplier, shift)
    ]
    mixed = _bytes(np.array([np.any(shift >= 0)])).reshape(-1)
    stream = np.concatenate([blocks, rest, *tables], axis=1).reshape(-1)
    return np.ascontiguousarray(np.concatenate([mixed, stream]))


def scratch_conv2d_mve(depth: int) -> int:
    """Bytes of scratch for conv2d `__mve`: two windows; depth = kernel_h * kernel_w * in_c / groups."""
    return 2 * depth
