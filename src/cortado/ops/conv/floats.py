"""Packs weights of float32 layers into the stream that kernels for several outputs read (cortado_sums_f32.h)."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from cortado.ops.conv.convolution import Numbers

WIDE, NARROW = 16, 8  # channels of a block; after the last wide block, at most NARROW channels make a narrow one


def fits(weights: Numbers, bias: Numbers, fields: Mapping[str, Any]) -> bool:
    """Whether such kernels return the same bits as the portable one. They add products with zeros for taps outside the
    image, which matters if w is infinite or NaN (0 * w is not 0), or if a bias is -0 (-0 + 0 is 0)."""
    negative_zero = np.signbit(bias) & (bias == 0)
    return bool(fits_codes(fields) and np.isfinite(weights).all() and not negative_zero.any())


def fits_codes(fields: Mapping[str, Any]) -> bool:
    """Checks the same for weights that are codes, whose sums begin with 0. Vector instructions flush denormal bounds to
    zero."""
    bounds = np.abs([fields["act_min"], fields["act_max"]])
    denormal = (bounds > 0) & (bounds < np.finfo(np.float32).tiny)
    return bool(fields["groups"] == 1 and not denormal.any())


def blocks(channels: int) -> Iterator[tuple[int, int]]:
    """Yields the first channel of each block, and how many channels it has room for."""
    for first in range(0, channels, WIDE):
        yield first, WIDE if channels - first > NARROW else NARROW


def pack_blocks(weights: Numbers, bias: Numbers) -> Numbers:
    """Packs blocks of channels: their biases, then the weights, one product after the other."""
    rows = np.concatenate([bias[:, None], weights.reshape(len(bias), -1)], axis=1).T  # [1 + products][channels]
    packed = []
    for first, room in blocks(len(bias)):
        block = np.zeros((len(rows), room), np.float32)
        some = rows[:, first : first + room]
        block[:, : some.shape[1]] = some
        packed.append(block.reshape(-1))
    return np.concatenate(packed)


def pack_codes(codes: Numbers, bias: Numbers, scale: Numbers) -> Numbers:
    """Packs blocks of channels: their biases and scales, then the codes, one product after the other
    (cortado_codes_f32.h)."""
    rows = codes.reshape(len(bias), -1)
    packed = []
    for first in range(0, len(bias), NARROW):
        some = slice(first, first + NARROW)
        heads, block = np.zeros((2, NARROW), np.float32), np.zeros((rows.shape[1], NARROW), np.int8)
        heads[:, : len(bias[some])] = bias[some], scale[some]
        block[:, : len(bias[some])] = rows[some].T
        packed += [heads.reshape(-1).view(np.int8), block.reshape(-1)]
    return np.concatenate(packed)
