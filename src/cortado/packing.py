"""Weights in the order each kernel reads them, and the scratch each kernel needs: known at compile time."""

import numpy as np
from numpy.typing import NDArray

Int8 = NDArray[np.int8]


def _pad(array: Int8, axis: int, multiple: int) -> Int8:
    """Zeros at the end of one axis, up to a multiple."""
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, -array.shape[axis] % multiple)
    return np.pad(array, widths)


def pack_pairs(weights: Int8, groups: int = 1, small_core: bool = False) -> Int8:
    """[out_c, ...] for the kernels that put two pixels in a word (conv2d and conv1x1, `__scalar`).

    Channels are padded with zeros to a multiple of 4 products; with a long multiply two channels are interleaved.
    """
    channels = 1 if small_core else 2
    flat = weights.reshape(groups, weights.shape[0] // groups, -1)
    flat = _pad(_pad(flat, 2, 4), 1, channels)
    tiles = flat.reshape(groups, -1, channels, flat.shape[2])
    return np.ascontiguousarray(tiles.transpose(0, 1, 3, 2)).reshape(-1)


def scratch_pairs(depth: int, pixels: int) -> int:
    """Bytes for windows of `depth` products, `pixels` of them in a row."""
    return (8 if pixels > 2 else 4) * (depth + 3 & ~3)
