"""Weights of 4 bits: how int8 codes are reduced to them, and how they are stored.

A 4-bit code q lies in [-7, 7] and represents the int8 code factor * q. Each run of `RUN` products of an output channel,
in the order kernel_h, kernel_w, in_c, has its own factor; or the whole channel has one, which is then part of the
multiplier.

Also which layers the kernels for 4-bit weights take, and weights in the order they read them, as packing.py has them
for int8: a byte of the C bundle holds two of them. Factors of runs are 3 to 18.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from cortado.base.arrays import ArrayType
from cortado.base.element import INT4
from cortado.base.errors import CortadoError
from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir import sampling
from cortado.ops.conv.packing import Int8, Int32, as_bytes, factor_words, joined, pad_to

RUN = 32  # products of a channel that share one factor
LEAST = 3  # factors of runs are stored in 4 bits: 3 to 18, and 7 * 18 = 126 is an int8 code
MOST_OF_LINEAR = 65536  # products of a channel, with DSP instructions
MOST_PRODUCTS = 4096  # of a channel without factors, with DSP instructions: its sum fits 24 bits
NARROW_ROWS = 4  # of a gate, computed together
CHUNK = 512  # products of a gate without factors summed at a time: 2^12 times their sum fits 32 bits
UInt8 = NDArray[np.uint8]
_EIGHTS = 8  # added to a 4-bit weight to make it positive


def pack_pairs(codes: Int8) -> UInt8:
    """Packs [channels, products] codes, two in a byte, the first in its lower half, for conv2d_narrow_s8.c."""
    halves = pad_to(codes, 1, 2).astype(np.int64) & 15
    return (halves[:, 0::2] + 16 * halves[:, 1::2]).astype(np.uint8)


def fits(codes: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> bool:
    """Whether a core's specialized kernel takes a layer: right shifts only, and sums that can be doubled."""
    most = 128 * np.abs(codes.astype(np.int64)).sum(axis=1) + np.abs(bias.astype(np.int64))
    return bool(np.all(shift < 0) and np.all(most < 1 << 30))


def pack_narrow_dsp(codes: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of conv_narrow_s8__dsp.S and linear_narrow_s8__dsp.S: four channels in every halfword."""
    words = pad_to(np.stack([2 * bias.astype(np.int64), multiplier, -shift], axis=1), 0, 4).reshape(-1, 4, 3)
    return joined(_fours(pad_to(pad_to(codes, 1, 4), 0, 4)), as_bytes(words[..., 0]), as_bytes(words[..., 1:]))


def _fours(codes: NDArray[np.generic]) -> NDArray[np.generic]:
    """Packs [channels, products] codes, both multiples of four: halfwords of four channels each, for products k and k +
    2, then for k + 1 and k + 3."""
    fours = codes.astype(np.int64).reshape(-1, 4, codes.shape[1])
    lower = fours[:, 0] + 16 * fours[:, 1] + 256 * fours[:, 2] + 273 * _EIGHTS
    halfwords = (lower + 4096 * fours[:, 3]).reshape(len(fours), -1, 2, 2)  # [four, k // 4, k // 2 % 2, k % 2]
    return np.ascontiguousarray(halfwords.transpose(0, 1, 3, 2).astype("<i2")).view(np.int8).reshape(len(fours), -1)


def pack_runs_dsp(codes: Int8, factors: UInt8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of conv_runs_s8__dsp.S."""
    words = pad_to(np.stack([multiplier, -shift], axis=1).astype(np.int64), 0, 4).reshape(-1, 4, 2)
    products = _fours(pad_to(pad_to(codes, 1, 8), 0, 4))
    return joined(_by_fours(bias), _factor_halfwords(factors), products, as_bytes(words))


def _factor_halfwords(factors: UInt8) -> NDArray[np.generic]:
    """Returns [fours, bytes]: the factors of four channels in a halfword, for each run; padded to a multiple of 4
    bytes."""
    even = pad_to(pad_to(factors.astype(np.int64) - LEAST, 1, 2), 0, 4).astype(np.int64)
    fours = even.reshape(-1, 4, even.shape[1])
    halfwords = fours[:, 0] + 16 * fours[:, 1] + 256 * fours[:, 2] + 4096 * fours[:, 3]
    return np.ascontiguousarray((halfwords & 0xFFFF).astype("<u2")).view(np.int8).reshape(len(fours), -1)


def _rounded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _runs(products: int) -> int:
    return -(-products // RUN)


def scratch_conv1x1_dsp(in_c: int, factors: bool) -> int:
    """Bytes of scratch for conv1x1_narrow `__dsp`, or conv1x1_runs."""
    return 4 * _rounded(in_c, 8) + 8 * _runs(in_c) if factors else 4 * _rounded(in_c, 4)


def scratch_linear_dsp(in_c: int) -> int:
    """Bytes of scratch for linear_runs `__dsp`."""
    return 4 * _runs(in_c)


def scratch_conv2d_dsp(taps: int, depth: int, factors: bool) -> int:
    """Bytes of scratch for conv2d_narrow `__dsp`, or conv2d_runs."""
    windows = (5 if depth % 4 else 4) * _rounded(taps * depth, 4)
    return max(windows, scratch_conv1x1_dsp(taps * depth, factors)) if factors else windows


def scratch_conv_small(products: int) -> int:
    """Bytes of scratch for conv1x1_narrow, conv2d_narrow and the same with runs, `__scalar`."""
    return 8 * _rounded(products, 8)


def scratch_linear_small(in_c: int, factors: bool) -> int:
    """Bytes of scratch for linear_narrow `__scalar`, or linear_runs."""
    return _rounded(in_c, RUN) + 4 * _runs(in_c) if factors else _rounded(in_c, 16)


def _by_fours(table: Int32) -> NDArray[np.generic]:
    """Returns a table of channels as bytes, four channels in each row."""
    return as_bytes(pad_to(table.astype(np.int64), 0, 4).reshape(-1, 4))


def _blocks(codes: Int8) -> NDArray[np.generic]:
    """Returns [fours, blocks, 32]: for sixteen products of four channels a to d, the bytes 16 * b + a, then 16 * d +
    c."""
    fours = pad_to(pad_to(codes, 1, 16), 0, 4).astype(np.int64).reshape(-1, 2, 2, -(-codes.shape[1] // 16), 16)
    pairs = fours[:, :, 0] + 16 * fours[:, :, 1]
    return pairs.transpose(0, 2, 1, 3).astype(np.int8).reshape(len(fours), -1, 32)


def pack_narrow_mve(codes: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of conv_narrow_s8__mve.S."""
    return joined(_blocks(codes), _by_fours(bias), _by_fours(multiplier), _by_fours(shift))


def _factor_bytes(factors: UInt8) -> NDArray[np.generic]:
    """Returns [fours, 4, pairs of runs]: the factors of two runs of a channel in a byte, the first one's in its lower
    half."""
    even = pad_to(pad_to(factors.astype(np.int64) - LEAST, 1, 2), 0, 4).astype(np.int64)
    halves = even.reshape(-1, 4, even.shape[1] // 2, 2)
    return (halves[..., 0] + 16 * halves[..., 1]).astype(np.uint8).view(np.int8)


def pack_runs_mve(codes: Int8, factors: UInt8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of conv_runs_s8__mve.S."""
    blocks, pairs = _blocks(codes), _factor_bytes(factors)
    parts = [_by_fours(bias)]
    for pair in range(pairs.shape[2]):
        parts += [pairs[:, :, pair], blocks[:, 4 * pair : 4 * pair + 4]]
    return joined(*parts, _by_fours(multiplier), _by_fours(shift))


# ---- small cores -----------------------------------------------------------------------------------------------------


def pack_narrow_small(codes: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of conv_narrow_s8__scalar.S: one channel after the other."""
    return joined(_eights(codes), as_bytes(factor_words(bias, multiplier, shift, Core.SMALL)))


def pack_runs_small(codes: Int8, factors: UInt8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """Packs the same stream with factors: five in the word of the shifts, then seven in each word."""
    tables = factor_words(bias, multiplier, shift, Core.SMALL)
    shifts = np.maximum(shift, 0).astype(np.int64) + 32 * np.maximum(-shift, 0).astype(np.int64)
    words = [shifts + 1024 * _in_a_word(factors[:, :5])]
    words += [_in_a_word(factors[:, first : first + 7]) for first in range(5, factors.shape[1], 7)]
    return joined(as_bytes(np.stack(words, axis=1)), _eights(codes), as_bytes(tables[:, :2]))


def _eights(codes: Int8) -> Int8:
    """Returns [channels, words, bytes]: eight weights in each word."""
    halves = (pad_to(codes, 1, 8).astype(np.int64) & 15).reshape(len(codes), -1, 8)
    return as_bytes((halves << 4 * np.arange(8)).sum(axis=2))


def _in_a_word(factors: UInt8) -> NDArray[np.int64]:
    """Returns [channels]: the factors, four bits each, and a 1 above the last to mark the end."""
    halves = factors.astype(np.int64) - LEAST
    count = halves.shape[1]
    return np.asarray((halves << 4 * np.arange(count)).sum(axis=1) + (1 << 4 * count))


def pack_linear_small(codes: Int8, factors: UInt8 | None, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of linear_narrow_s8__scalar.c: four channels each."""
    products = pad_to(pad_to(codes, 1, 16 if factors is None else RUN), 0, 4).astype(np.int64) + _EIGHTS
    fours = products.reshape(-1, 4, products.shape[1] // 4, 4)
    halfwords = (fours << 4 * np.arange(4)).sum(axis=3).transpose(0, 2, 1)  # [four, k // 4, channel]
    weights = np.ascontiguousarray(halfwords.astype("<u2")).view(np.int8).reshape(len(fours), -1)
    words = pad_to(np.stack([bias, multiplier, shift], axis=1).astype(np.int64), 0, 4).reshape(-1, 12)
    parts = [] if factors is None else [_factor_halfwords(factors)]
    return joined(*parts, weights, as_bytes(words))


# ---- gates of recurrent layers ---------------------------------------------------------------------------------------


def pack_narrow_gates(
    codes: Int8, factors: UInt8 | None, bias: Int32, multiplier: Int32, shift: Int32, core: Core
) -> Int8:
    """The streams of gates_narrow_s8.c, `__dsp` and `__mve`: [rows, products] codes, four rows each."""
    packed = {Core.DSP: _gate_halfwords, Core.MVE: _blocks}.get(core, _gate_lanes)
    words = np.stack([bias, multiplier, shift], axis=1).astype(np.int64)
    tables = as_bytes(factor_words(bias, multiplier, shift, Core.DSP) if core in (Core.DSP, Core.MVE) else words)
    end = tables.reshape(len(codes) // NARROW_ROWS, -1)
    if factors is None:
        return joined(packed(codes), end)
    parts: list[NDArray[np.generic]] = []
    for run in range(factors.shape[1]):
        parts += [] if run % 2 else [as_bytes(_gate_factors(factors[:, run : run + 2]))]
        parts += [packed(codes[:, RUN * run : RUN * (run + 1)])]
    return joined(*parts, end)


def _gate_factors(factors: UInt8) -> NDArray[np.generic]:
    """Returns [fours of rows, 1]: the factors of one run or two, less 3, from the lowest bits up."""
    fours = (factors.astype(np.int64) - LEAST).reshape(-1, NARROW_ROWS, factors.shape[1]).transpose(0, 2, 1)
    return (fours.reshape(len(fours), -1) << 4 * np.arange(fours[0].size)).sum(axis=1)[:, None]


def _gate_halfwords(codes: Int8) -> NDArray[np.generic]:
    """Returns a halfword for each product; every four products come in the order k, k + 2, k + 1, k + 3."""
    halves = codes.reshape(-1, NARROW_ROWS, codes.shape[1]).astype(np.int64) & 15
    words = pad_to((halves << (4 * np.arange(NARROW_ROWS))[:, None]).sum(axis=1), 1, 4)
    ordered = words.reshape(len(words), -1, 2, 2).transpose(0, 1, 3, 2)
    return np.ascontiguousarray(ordered.astype("<u2")).view(np.int8).reshape(len(words), -1)


def _gate_lanes(codes: Int8) -> NDArray[np.generic]:
    """Returns a word for every two products of rows a to d: a, b, a, b, c, d, c, d, each plus 8."""
    more = pad_to(codes, 1, 2).astype(np.int64).reshape(-1, 2, 2, -(-codes.shape[1] // 2), 2) + _EIGHTS
    ordered = more.transpose(0, 3, 1, 4, 2).reshape(
        len(more), -1, 8
    )  # [four, pair, ab or cd, product, first or second]
    return as_bytes((ordered << 4 * np.arange(8)).sum(axis=2))


# ---- narrow ----------------------------------------------------------------------------------------------

LARGEST = INT4.high
FACTORS = range(LEAST, LEAST + 16)
ROW_FACTORS = range(1, max(FACTORS) + 1)  # of a whole row: it is not stored, or has a byte of its own


def rounded(codes: Tensor, factor: Tensor | int) -> Tensor:
    """Returns q of each code, rounded to nearest, ties away from zero."""
    half = torch.div(factor if isinstance(factor, Tensor) else torch.tensor(factor), 2, rounding_mode="floor")
    found = torch.sign(codes) * torch.div(codes.abs() + half, factor, rounding_mode="floor")
    return found.clamp(-LARGEST, LARGEST)


def chosen_factors(codes: Tensor, weights: Tensor, factors: range) -> Tensor:
    """Returns, for each row of int8 codes, the factor with the least squared error; `weights` weights the columns."""
    wide, best, least = codes.to(torch.int64), torch.zeros(len(codes), dtype=torch.int64), None
    for factor in factors:
        error = (((wide - factor * rounded(wide, factor)) ** 2).to(torch.float64) * weights).sum(1)
        better = error < least if least is not None else torch.ones_like(error, dtype=torch.bool)
        best = torch.where(better, factor, best)
        least = error if least is None else torch.minimum(error, least)
    return best


def padded_runs(flat: Tensor) -> Tensor:
    """Reshapes [channels, products] to [channels, runs, RUN], with zeros after the last product."""
    short = -flat.shape[1] % RUN
    return torch.nn.functional.pad(flat, (0, short)).reshape(len(flat), -1, RUN)


def drawn(seed: int, sizes: tuple[int, ...], run: int) -> Tensor:
    """Draws 4-bit weights for samples of operators: [channels, ...]."""
    codes = sampling.codes(seed, sizes, -LARGEST, LARGEST)
    if run == 0:
        return codes
    flat = codes.reshape(sizes[0], -1)
    runs = -(-flat.shape[1] // run)
    factors = sampling.codes(seed + 1, (sizes[0], runs), min(FACTORS), max(FACTORS))
    repeated = factors.repeat_interleave(run, dim=1)[:, : flat.shape[1]]
    return (flat * repeated).to(torch.int8).reshape(sizes)


@dataclass(frozen=True)
class StoredWeights:
    """The stored form of a call's weights: q as [channels, products], and the factors of runs as [channels, runs]."""

    codes: ArrayType
    factors: ArrayType | None

    @staticmethod
    def of(weight: ArrayType, run: int) -> "StoredWeights":
        flat = weight.reshape(len(weight), -1).astype(np.int64)
        if run == 0:
            if np.any(np.abs(flat) > LARGEST):
                raise CortadoError(f"a 4-bit weight is {int(np.abs(flat).max())}, expected at most {LARGEST}")
            return StoredWeights(flat.astype(np.int8), None)
        runs = padded_runs(torch.from_numpy(flat)).numpy()
        fits = np.stack([np.all((runs % f == 0) & (np.abs(runs) <= LARGEST * f), axis=2) for f in FACTORS])
        if not np.all(fits.any(axis=0)):
            raise CortadoError(f"{RUN} 4-bit weights have no common factor from {FACTORS[0]} to {FACTORS[-1]}")
        factors = fits.argmax(axis=0) + LEAST
        codes = (runs // factors[:, :, None]).reshape(len(flat), -1)[:, : flat.shape[1]]
        return StoredWeights(codes.astype(np.int8), factors.astype(np.uint8))
