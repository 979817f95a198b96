"""What the kernels for 4-bit weights can take, and their weights in the order they read them (as packing.py for
int8)."""

import numpy as np
from numpy.typing import NDArray

from cortado.ops.packing import Int8, pad_to


def pack_pairs(codes: Int8) -> NDArray[np.uint8]:
    """[channels, products] codes, two in a byte, the first in its lower half; of conv2d_narrow_s8.c."""
    halves = pad_to(codes, 1, 2).astype(np.int64) & 15
    return (halves[:, 0::2] + 16 * halves[:, 1::2]).astype(np.uint8)
