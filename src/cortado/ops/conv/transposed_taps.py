"""The taps of transposed convolutions: which are zero, which reach an output pixel, which CMSIS-NN needs to be correct.

Weights are OHWI; taps are `dilation` positions apart.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cortado.base.numerics import Tensor

# ---- groups and gaps written out, and detected again ------------------------------------------------------------


def dense(weight: Tensor, groups: int) -> Tensor:
    """Writes [in_c, out_c / groups, kh, kw] weights out as one group: [in_c, out_c, kh, kw]."""
    in_c, group_out, kh, kw = weight.shape
    if groups == 1:
        return weight
    blocks = weight.new_zeros(groups, in_c // groups, groups, group_out, kh, kw)
    for group, block in enumerate(weight.reshape(groups, in_c // groups, group_out, kh, kw)):
        blocks[group, :, group] = block
    return blocks.reshape(in_c, groups * group_out, kh, kw)


def dilated(weight: Tensor, dilation: list[int]) -> Tensor:
    """Writes the gaps of dilated OHWI weights out as zeros."""
    out_c, kh, kw, in_c = weight.shape
    sizes = [d * (k - 1) + 1 for k, d in zip((kh, kw), dilation, strict=True)]
    wide = weight.new_zeros(out_c, *sizes, in_c)
    wide[:, :: dilation[0], :: dilation[1]] = weight
    return wide


def group_count(weights: np.ndarray[Any, Any]) -> int:
    """Returns the largest number of groups that OHWI weights split into, with only zeros between them."""
    used = (weights != 0).any(axis=(1, 2))
    out_c, in_c = used.shape
    for groups in range(math.gcd(out_c, in_c), 1, -1):
        if out_c % groups == 0 and in_c % groups == 0:
            blocks = used.reshape(groups, out_c // groups, groups, in_c // groups).any(axis=(1, 3))
            if not (blocks & ~np.eye(groups, dtype=bool)).any():
                return groups
    return 1


def split_groups(weights: np.ndarray[Any, Any], groups: int) -> np.ndarray[Any, Any]:
    """Returns [out_c, kh, kw, in_c / groups] of dense weights."""
    out_c, kh, kw, in_c = weights.shape
    blocks = weights.reshape(groups, out_c // groups, kh, kw, groups, in_c // groups)
    return np.concatenate([blocks[group, :, :, :, group] for group in range(groups)])


@dataclass(frozen=True)
class Taps:
    """The taps of one axis that are not zero: first, first + step, ..."""

    first: int
    step: int
    count: int

    @staticmethod
    def of(used: np.ndarray[Any, np.dtype[np.bool_]]) -> "Taps":
        places = [int(place) for place in np.flatnonzero(used)] or [0]
        step = math.gcd(*(place - places[0] for place in places)) or 1
        return Taps(places[0], step, (places[-1] - places[0]) // step + 1)

    @property
    def slice(self) -> slice:
        return slice(self.first, self.first + (self.count - 1) * self.step + 1, self.step)


# ---- shapes that CMSIS-NN computes correctly -----------------------------------------------------------------


# CMSIS-NN turns the layer into a convolution with reversed weights for strides up to 2 and more channels than this.
REVERSE_CHANNELS = 16


@dataclass(frozen=True)
class TransposedAxis:
    """One axis of a transposed convolution without dilation."""

    kernel: int
    stride: int
    pad: int
    extra: int  # output padding

    def with_zeros(self, front: int, back: int) -> "TransposedAxis":
        """Adds zero taps before and after its own, and adjusts the padding so that the layer computes the same."""
        taps = self.kernel + front + back
        return replace(self, kernel=taps, pad=self.pad + front, extra=self.extra + front - back)


def rolling_rows(axis: TransposedAxis) -> tuple[int, int]:
    """Returns the zero taps (front, back) for the rows of CMSIS-NN's rolling buffer.

    It writes out stride rows for every input row, counted from the padding, which has to be a multiple of the stride;
    all of them must be rows of the output, and the rows that remain after the last input row must be among the kernel_h
    - stride rows that follow.
    """
    back = max(0, axis.extra - axis.pad)
    front = max(0, axis.stride + axis.pad - axis.kernel - axis.extra)
    return front + -(axis.pad + front) % axis.stride, back


def rolling_columns(axis: TransposedAxis, stride_h: int) -> tuple[int, int]:
    """Returns the zero taps (front, back) for its columns: a row has room for max(kernel, stride) columns per pixel.

    CMSIS-NN's size function uses the vertical stride in place of the horizontal one.
    """
    front = max(0, axis.stride - axis.kernel) if axis.stride > stride_h else 0
    return front, max(0, axis.extra - axis.pad)


def uses_reversed_weights(in_c: int, stride: list[int]) -> bool:
    return max(stride) <= 2 and in_c > REVERSE_CHANNELS


def zero_taps(rows: TransposedAxis, columns: TransposedAxis, sizes: tuple[int, ...]) -> list[tuple[int, int]] | None:
    """Returns zero taps (front, back) per axis that make CMSIS-NN correct for an NHWC input; None if there are none."""
    images, height, _, in_c = sizes
    if uses_reversed_weights(in_c, [rows.stride, columns.stride]):
        # A convolution padded by the distance that the taps reach past the layer's padding, which must not be negative.
        taps = [(0, max(0, axis.pad - axis.kernel + 1)) for axis in (rows, columns)]
        fits = all(back <= axis.extra for (_, back), axis in zip(taps, (rows, columns), strict=True))
        return taps if fits and images == 1 else None  # never observed correct for several images
    taps = [rolling_rows(rows), rolling_columns(columns, rows.stride)]
    # If the input ends within the padding, the rolling buffer stops at the wrong row.
    return taps if rows.pad + taps[0][0] <= height * rows.stride else None


# ---- as ordinary convolutions --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Phases:
    """One axis as convolutions: phase p computes the output positions p, p + stride, ... from `taps` of the kernel.

    Tap t of phase p reads the input `taps[p][t]` positions after that of the output; all of them lie in first .. last.
    """

    taps: tuple[Mapping[int, int], ...]
    first: int
    last: int

    @staticmethod
    def of(kernel: int, stride: int, pad: int, dilation: int) -> "Phases":
        taps = tuple(
            {
                tap: (phase + pad - tap * dilation) // stride
                for tap in range(kernel)
                if (phase + pad - tap * dilation) % stride == 0
            }
            for phase in range(stride)
        )
        places = [0, *(place for phase in taps for place in phase.values())]
        return Phases(taps, min(places), max(places))

    def range(self, phase: int) -> tuple[int, int]:
        """Returns the first and the last position that a phase reads."""
        places = self.taps[phase].values() or (0,)
        return min(places), max(places)

    def reach(self, phase: int) -> tuple[int, int]:
        """Returns the same range, extended to include the output's own position: a window can't begin after it."""
        first, last = self.range(phase)
        return min(first, 0), max(last, 0)


def column_weights(
    weights: np.ndarray[Any, Any], down: Phases, across: Phases, place: tuple[int, int]
) -> np.ndarray[Any, Any]:
    """Returns the weights of the convolution for one phase of rows and one of columns, with groups still written
    out."""
    out_c, _, _, in_c = weights.shape
    (top, bottom), (left, right) = down.range(place[0]), across.reach(place[1])
    wide = np.zeros((out_c, bottom - top + 1, right - left + 1, in_c), dtype=weights.dtype)
    for ky, row in down.taps[place[0]].items():
        for kx, column in across.taps[place[1]].items():
            wide[:, row - top, column - left] = weights[:, ky, kx]
    return wide


def phase_weights(weights: np.ndarray[Any, Any], down: Phases, across: Phases, phase: int) -> np.ndarray[Any, Any]:
    """Returns the weights of the convolution for one phase of rows; its output channels are the column phases, side by
    side."""
    out_c, _, _, in_c = weights.shape
    top, bottom = down.range(phase)
    width = across.last - across.first + 1
    wide = np.zeros((len(across.taps), out_c, bottom - top + 1, width, in_c), dtype=weights.dtype)
    for ky, row in down.taps[phase].items():
        for column_phase, columns in enumerate(across.taps):
            for kx, column in columns.items():
                wide[column_phase, :, row - top, column - across.first] = weights[:, ky, kx]
    return wide.reshape(-1, *wide.shape[2:])
