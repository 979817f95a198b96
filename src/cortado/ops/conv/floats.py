"""Packs weights of float32 layers into the stream that kernels for several outputs read (cortado_sums_f32.h)."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from cortado.ops.conv.convolution import Numbers

WIDE, NARROW = 16, 8  # channels of a block; behind the last wide one, few are a narrow one


def fits(weights: Numbers, bias: Numbers, fields: Mapping[str, Any]) -> bool:
    """Whether such kernels give the bits of the portable one. They add products of zeros for taps outside of the image:
    0 * w is no zero where w is infinite or NaN, and -0 + 0 is 0. Vectors take denormal bounds for zeros."""
    bounds = np.abs([fields["act_min"], fields["act_max"]])
    denormal = (bounds > 0) & (bounds < np.finfo(np.float32).tiny)
    negative_zero = np.signbit(bias) & (bias == 0)
    return bool(fields["groups"] == 1 and np.isfinite(weights).all() and not negative_zero.any() and not denormal.any())


def blocks(channels: int) -> Iterator[tuple[int, int]]:
    """The first channel of each block, and how many it has room for."""
    for first in range(0, channels, WIDE):
        yield first, WIDE if channels - first > NARROW else NARROW


def pack_blocks(weights: Numbers, bias: Numbers) -> Numbers:
    """Blocks of channels: their biases, then the weights of one product after the other."""
    rows = np.concatenate([bias[:, None], weights.reshape(len(bias), -1)], axis=1).T  # [1 + products][channels]
    packed = []
    for first, room in blocks(len(bias)):
        block = np.zeros((len(rows), room), np.float32)
        some = rows[:, first : first + room]
        block[:, : some.shape[1]] = some
        packed.append(block.reshape(-1))
    return np.concatenate(packed)
