"""Weights of 4 bits: how int8 codes become such, and what of them is stored.

A code of 4 bits lies in [-7, 7]: it is factor * q of an int8 code. `RUN` products of an output channel, in the order
kernel_h, kernel_w, in_c, have a factor of their own, or all of them have one, which is then part of the multiplier.

What the kernels for 4-bit weights can take, and their weights in the order they read them (as packing.py for
int8).

The kernels of convolutions and linear layers with 4-bit weights.

conv2d whose weights have 4 bits: two of them are a byte of the C bundle.

The weights of a call are codes as conv2d's, so what it computes is what conv2d computes. Within a run they are
factor * q, |q| <= 7: `run` products in the order kernel_h, kernel_w, in_c have one factor, 3 to 18. With `run` 0 all
factors are 1. One group of channels. What cores have kernels for is in _narrow_kernels.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.fx import Node

from cortado.base.arrays import ArrayType
from cortado.base.element import INT4, INT8
from cortado.base.errors import CortadoError
from cortado.base.numerics import Tensor
from cortado.base.target import Core, CortexMTargetConfig
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.kernel import Array, Kernel
from cortado.ir.op import Call, Operator, PteWriter
from cortado.ir.work import Work, loops
from cortado.ops.conv import conv2d
from cortado.ops.conv.conv2d import is_pointwise
from cortado.ops.conv.convolution import (
    Numbers,
    Variant,
    codes_of,
    common_fields,
    macs,
    packed,
    weighted_case,
    window_fields,
    window_fits,
    window_of,
)
from cortado.ops.conv.convolution_work import pixels_work, window_work
from cortado.ops.conv.packing import Int8, Int32, as_bytes, factor_words, joined, pad_to, scratch_conv2d_mve

# ---- narrow packing --------------------------------------------------------------------------------------

RUN = 32  # products of a channel that have one factor
LEAST = 3  # factors of runs take 4 bits: 3 to 18, whose 7 times is the largest int8 code but one
MOST_OF_LINEAR = 65536  # products of a channel, with DSP instructions
MOST_PRODUCTS = 4096  # of a channel without factors, with DSP instructions: its sum fits 24 bits
NARROW_ROWS = 4  # of a gate, whose products are computed together
CHUNK = 512  # products of a gate without factors that are summed up at a time: 2^12 times their sum fits 32 bits
UInt8 = NDArray[np.uint8]
_EIGHTS = 8  # what makes a 4-bit weight positive


def pack_pairs(codes: Int8) -> UInt8:
    """[channels, products] codes, two in a byte, the first in its lower half; of conv2d_narrow_s8.c."""
    halves = pad_to(codes, 1, 2).astype(np.int64) & 15
    return (halves[:, 0::2] + 16 * halves[:, 1::2]).astype(np.uint8)


def fits(codes: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> bool:
    """Whether a core's own kernel takes a layer: right shifts only, sums that can be doubled."""
    most = 128 * np.abs(codes.astype(np.int64)).sum(axis=1) + np.abs(bias.astype(np.int64))
    return bool(np.all(shift < 0) and np.all(most < 1 << 30))


def pack_narrow_dsp(codes: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of conv_narrow_s8__dsp.S and linear_narrow_s8__dsp.S: four channels in every halfword."""
    words = pad_to(np.stack([2 * bias.astype(np.int64), multiplier, -shift], axis=1), 0, 4).reshape(-1, 4, 3)
    return joined(_fours(pad_to(pad_to(codes, 1, 4), 0, 4)), as_bytes(words[..., 0]), as_bytes(words[..., 1:]))


def _fours(codes: NDArray[np.generic]) -> NDArray[np.generic]:
    """[channels, products] codes, both by fours: halfwords of four channels, those of products k and k + 2, then those
    of k + 1 and k + 3."""
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
    """[fours, bytes]: the factors of four channels in a halfword, for each run; a multiple of 4 bytes."""
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
    """A table of channels as bytes, for each four of them."""
    return as_bytes(pad_to(table.astype(np.int64), 0, 4).reshape(-1, 4))


def _blocks(codes: Int8) -> NDArray[np.generic]:
    """[fours, blocks, 32]: of sixteen products, bytes 16 * b + a of the first two of four channels, then 16 * d + c."""
    fours = pad_to(pad_to(codes, 1, 16), 0, 4).astype(np.int64).reshape(-1, 2, 2, -(-codes.shape[1] // 16), 16)
    pairs = fours[:, :, 0] + 16 * fours[:, :, 1]
    return pairs.transpose(0, 2, 1, 3).astype(np.int8).reshape(len(fours), -1, 32)


def pack_narrow_mve(codes: Int8, bias: Int32, multiplier: Int32, shift: Int32) -> Int8:
    """The stream of conv_narrow_s8__mve.S."""
    return joined(_blocks(codes), _by_fours(bias), _by_fours(multiplier), _by_fours(shift))


def _factor_bytes(factors: UInt8) -> NDArray[np.generic]:
    """[fours, 4, pairs of runs]: the factors of two runs of a channel in a byte, the first one's in its lower half."""
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
    """The same with factors: five beside the shifts, then seven in a word."""
    tables = factor_words(bias, multiplier, shift, Core.SMALL)
    shifts = np.maximum(shift, 0).astype(np.int64) + 32 * np.maximum(-shift, 0).astype(np.int64)
    words = [shifts + 1024 * _in_a_word(factors[:, :5])]
    words += [_in_a_word(factors[:, first : first + 7]) for first in range(5, factors.shape[1], 7)]
    return joined(as_bytes(np.stack(words, axis=1)), _eights(codes), as_bytes(tables[:, :2]))


def _eights(codes: Int8) -> Int8:
    """[channels, words, bytes]: eight weights in each word."""
    halves = (pad_to(codes, 1, 8).astype(np.int64) & 15).reshape(len(codes), -1, 8)
    return as_bytes((halves << 4 * np.arange(8)).sum(axis=2))


def _in_a_word(factors: UInt8) -> NDArray[np.int64]:
    """[channels]: some factors, four bits each, and a 1 above the last."""
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
    """[fours of rows, 1]: those of one run or two, less 3, from the lowest bits on."""
    fours = (factors.astype(np.int64) - LEAST).reshape(-1, NARROW_ROWS, factors.shape[1]).transpose(0, 2, 1)
    return (fours.reshape(len(fours), -1) << 4 * np.arange(fours[0].size)).sum(axis=1)[:, None]


def _gate_halfwords(codes: Int8) -> NDArray[np.generic]:
    """A halfword for each product, of every four k, k + 2, k + 1, k + 3."""
    halves = codes.reshape(-1, NARROW_ROWS, codes.shape[1]).astype(np.int64) & 15
    words = pad_to((halves << (4 * np.arange(NARROW_ROWS))[:, None]).sum(axis=1), 1, 4)
    ordered = words.reshape(len(words), -1, 2, 2).transpose(0, 1, 3, 2)
    return np.ascontiguousarray(ordered.astype("<u2")).view(np.int8).reshape(len(words), -1)


def _gate_lanes(codes: Int8) -> NDArray[np.generic]:
    """A word for each two products of rows a to d: a, b, a, b, c, d, c, d, each 8 more."""
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
    """The q of each code, to nearest, ties away from zero."""
    half = torch.div(factor if isinstance(factor, Tensor) else torch.tensor(factor), 2, rounding_mode="floor")
    found = torch.sign(codes) * torch.div(codes.abs() + half, factor, rounding_mode="floor")
    return found.clamp(-LARGEST, LARGEST)


def chosen_factors(codes: Tensor, weights: Tensor, factors: range) -> Tensor:
    """For each row of int8 codes the factor with the least squared error; `weights` say how much each column counts."""
    wide, best, least = codes.to(torch.int64), torch.zeros(len(codes), dtype=torch.int64), None
    for factor in factors:
        error = (((wide - factor * rounded(wide, factor)) ** 2).to(torch.float64) * weights).sum(1)
        better = error < least if least is not None else torch.ones_like(error, dtype=torch.bool)
        best = torch.where(better, factor, best)
        least = error if least is None else torch.minimum(error, least)
    return best


def padded_runs(flat: Tensor) -> Tensor:
    """[channels, products] as [channels, runs, RUN], with zeros behind the last."""
    short = -flat.shape[1] % RUN
    return torch.nn.functional.pad(flat, (0, short)).reshape(len(flat), -1, RUN)


def drawn(seed: int, sizes: tuple[int, ...], run: int) -> Tensor:
    """Weights of 4 bits, for samples of operators: [channels, ...]."""
    from cortado.ir import sampling

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
    """Stored form of a call's weights: q as [channels, products], and the factors of runs as [channels, runs]."""

    codes: ArrayType
    factors: ArrayType | None

    @staticmethod
    def of(weight: ArrayType, run: int) -> "StoredWeights":
        flat = weight.reshape(len(weight), -1).astype(np.int64)
        if run == 0:
            if np.any(np.abs(flat) > LARGEST):
                raise CortadoError(f"a weight of 4 bits is {int(np.abs(flat).max())}, expected {LARGEST} at most")
            return StoredWeights(flat.astype(np.int8), None)
        runs = padded_runs(torch.from_numpy(flat)).numpy()
        fits = np.stack([np.all((runs % f == 0) & (np.abs(runs) <= LARGEST * f), axis=2) for f in FACTORS])
        if not np.all(fits.any(axis=0)):
            raise CortadoError(f"{RUN} weights of 4 bits have no factor of {FACTORS[0]} to {FACTORS[-1]} in common")
        factors = fits.argmax(axis=0) + LEAST
        codes = (runs // factors[:, :, None]).reshape(len(flat), -1)[:, : flat.shape[1]]
        return StoredWeights(codes.astype(np.int8), factors.astype(np.uint8))


# ---- narrow kernels --------------------------------------------------------------------------------------

STRUCT = "cortado_narrow_t"


@dataclass(frozen=True)
class _Layer:
    """A call: the portable kernels' descriptor, and what else a variant's packing reads."""

    fields: dict[str, Any]
    stored: StoredWeights
    weights: Numbers  # [channels, products], times their factors
    pixels: int  # of all its outputs

    @staticmethod
    def of(call: Call) -> "_Layer":
        weights = call.array("weight")
        stored = StoredWeights.of(weights, call["run"])
        common = common_fields(call, weights.reshape(len(weights), -1).sum(axis=1, dtype=np.int64))
        # The input's zero point is part of the bias: what a sum is without any input fits 32 bits.
        assert common.pop("in_offset") == 0
        fields = {
            **window_fields(call, weights.shape[1:3]),
            **common,
            "weights": Array(pack_pairs(stored.codes), packed=stored.codes.shape),
            "factors": None if stored.factors is None else Array(stored.factors),
        }
        return _Layer(fields, stored, weights.reshape(len(weights), -1), math.prod(call.out_shape[:3]))

    @property
    def kind(self) -> str:
        return "narrow" if self.stored.factors is None else "runs"

    @property
    def tables(self) -> tuple[Numbers, Numbers, Numbers]:
        """Biases, multipliers and shifts."""
        bias, multiplier, shift = (self.fields[name].data for name in ("bias", "multiplier", "shift"))
        return bias, multiplier, shift

    def deeper(self, most: int) -> bool:
        """Too deep for the DSP kernels of a layer without factors."""
        return self.stored.factors is None and math.prod(self.sizes) > most

    def stream(self, narrow: Callable[..., Numbers], runs: Callable[..., Numbers]) -> Numbers:
        """Returns the stream as one of two functions packs it, the second with factors."""
        factors = self.stored.factors
        if factors is None:
            return narrow(self.stored.codes, *self.tables)
        return runs(self.stored.codes, factors, *self.tables)

    @property
    def sizes(self) -> tuple[int, int]:
        """Taps, and the products of each."""
        return self.fields["kernel_h"] * self.fields["kernel_w"], self.fields["in_c"]

    def fits(self, core: Core) -> bool:
        """Whether a core has a kernel of its own for it."""
        has_one = core not in (Core.PORTABLE, Core.LONG)
        return has_one and window_fits(self.fields, np.int16) and fits(self.weights, *self.tables)

    def packed(self, stream: Numbers, *names: str) -> dict[str, Any]:
        """The descriptor of a variant: of the fields in it, those with these names."""
        whole = {**self.fields, "weights": Array(self.stored.codes), "groups": 1}
        kept = packed(whole, stream)
        return {name: kept[name] for name in (*names, "out_offset", "act_min", "act_max", "weights")}


_OF_PIXELS = ("in_c", "out_c")
_OF_WINDOWS = (
    *("in_w", "in_c", "out_w", "out_c", "groups"),
    *("kernel_h", "kernel_w", "stride_w", "pad_left", "dilation_w", "zero"),
)


def kernel(call: Call, core: Core) -> Kernel:
    return _pixels_kernel(call, core) if is_pointwise(call) else _window_kernel(call, core)


# ---- 1x1: over spans of pixels ---------------------------------------------------------------------------------------


def _pixels_kernel(call: Call, core: Core) -> Kernel:
    layer = _Layer.of(call)
    variant = _pixels_variant(layer, core) if layer.fits(core) else None
    chosen = variant or Variant("conv1x1_narrow_s8", layer.fields, packed=False)
    return Kernel(
        call=CCall(f"cortado_{chosen.symbol}", (Operand.LAYER, Row(0), Operand.OUT, Operand.N, Operand.SCRATCH)),
        struct=chosen.struct("conv1x1") if chosen.packed else STRUCT,
        fields=chosen.fields,
        scratch=chosen.scratch,
        scratch_check=chosen.scratch_check(Operand.LAYER, layer.pixels),
        tile=chosen.tile,
        work=_pixels_work(call, chosen, layer),
    )


def _pixels_work(call: Call, chosen: Variant, layer: _Layer) -> Work:
    if not chosen.packed:
        return loops("calls outputs macs outputs*runs", runs=_kernel_runs(layer))
    codes = codes_of(call, {"in_offset": 0})
    return pixels_work(chosen.symbol, layer.fields["in_c"], layer.fields["out_c"], codes, _kernel_runs(layer))


def _kernel_runs(layer: _Layer) -> int:
    return 0 if layer.stored.factors is None else layer.stored.factors.shape[1]


def _pixels_variant(layer: _Layer, core: Core) -> Variant | None:
    """A single pixel is a linear layer, for which cores without vectors have kernels of their own."""
    kind, factors = layer.kind, layer.stored.factors is not None
    if core is Core.MVE:
        fields = layer.packed(layer.stream(pack_narrow_mve, pack_runs_mve), *_OF_PIXELS)
        return Variant(f"conv1x1_{kind}_s8__mve", fields, tile=2)
    if core is Core.SMALL:
        return _pixels_small(layer)
    if layer.deeper(MOST_OF_LINEAR if layer.pixels == 1 else MOST_PRODUCTS):
        return None
    fields = layer.packed(layer.stream(pack_narrow_dsp, pack_runs_dsp), *_OF_PIXELS)
    if layer.pixels == 1:
        scratch = scratch_linear_dsp(layer.fields["in_c"]) if factors else 0
        return Variant(f"linear_{kind}_s8__dsp", fields, scratch)
    scratch = scratch_conv1x1_dsp(layer.fields["in_c"], factors)
    return Variant(f"conv1x1_{kind}_s8__dsp", fields, scratch, tile=2)


def _pixels_small(layer: _Layer) -> Variant:
    kind, factors, in_c = layer.kind, layer.stored.factors is not None, layer.fields["in_c"]
    if layer.pixels == 1:
        stream = pack_linear_small(layer.stored.codes, layer.stored.factors, *layer.tables)
        scratch = scratch_linear_small(in_c, factors)
        fields = layer.packed(stream, *_OF_PIXELS)
        return Variant(f"linear_{kind}_s8__scalar", fields, scratch)
    stream = layer.stream(pack_narrow_small, pack_runs_small)
    scratch, fields = scratch_conv_small(in_c), layer.packed(stream, *_OF_PIXELS)
    return Variant(f"conv1x1_{kind}_s8__scalar", fields, scratch, tile=4)


# ---- windows: one output row from the rows under it ------------------------------------------------------------------


def _window_kernel(call: Call, core: Core) -> Kernel:
    layer = _Layer.of(call)
    variant = _window_variant(layer, core) if layer.fits(core) else None
    chosen = variant or Variant("conv2d_narrow_s8", layer.fields, packed=False)
    return Kernel(
        call=CCall(f"cortado_{chosen.symbol}", (Operand.LAYER, Operand.ROWS, Operand.OUT, Operand.SCRATCH)),
        struct=chosen.struct("conv2d") if chosen.packed else STRUCT,
        fields=chosen.fields,
        scratch=chosen.scratch,
        scratch_check=chosen.scratch_check(Operand.LAYER),
        work=_window_work(call, chosen, layer),
    )


def _window_work(call: Call, chosen: Variant, layer: _Layer) -> Work:
    _, kernel_h, kernel_w, _ = call.shape("weight")
    if not chosen.packed:
        return loops("calls outputs outputs*taps outputs*runs macs", taps=kernel_h * kernel_w, runs=_kernel_runs(layer))
    return window_work(chosen.symbol, window_of(call, (kernel_h, kernel_w)), codes_of(call, {"in_offset": 0}))


def _window_variant(layer: _Layer, core: Core) -> Variant | None:
    kind, factors, products = layer.kind, layer.stored.factors is not None, math.prod(layer.sizes)
    if core is Core.MVE:
        fields = layer.packed(layer.stream(pack_narrow_mve, pack_runs_mve), *_OF_WINDOWS)
        scratch = scratch_conv2d_mve(products, fields["out_w"])
        return Variant(f"conv2d_{kind}_s8__mve", fields, scratch)
    if core is Core.SMALL:
        fields = layer.packed(layer.stream(pack_narrow_small, pack_runs_small), *_OF_WINDOWS)
        scratch = scratch_conv_small(products)
        return Variant(f"conv2d_{kind}_s8__scalar", fields, scratch)
    if layer.deeper(MOST_PRODUCTS):
        return None
    fields = layer.packed(layer.stream(pack_narrow_dsp, pack_runs_dsp), *_OF_WINDOWS)
    scratch = scratch_conv2d_dsp(*layer.sizes, factors)
    return Variant(f"conv2d_{kind}_s8__dsp", fields, scratch)


# ---- narrow conv2d ---------------------------------------------------------------------------------------


def reference(*, run: int, **arguments: Any) -> Tensor:
    """The weights say it all."""
    return conv2d.reference(**arguments)


def in_pte(arguments: Mapping[str, Any], add: PteWriter, target: CortexMTargetConfig) -> Node:
    """The same weights in a byte each."""
    return conv2d.in_pte({name: value for name, value in arguments.items() if name != "run"}, add, target)


# Kernel, whether it is a linear layer, run: cores have other kernels for each.
_FORMS = [
    (kernel, pixel, run)
    for kernel, pixel in [*2 * [((1, 1), True), ((1, 1), False)], ((3, 3), False), ((2, 5), False), ((1, 3), False)]
    for run in (0, RUN)
]


def samples() -> Any:
    """Draws calls as conv2d's, with one group, runs or none, and layers deep enough for several runs."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        seed = draw(sampling.SEEDS)
        kernel, pixel, run = Random(seed).choice(_FORMS)
        deep = st.sampled_from([32, 63, 64, 65, 96, 640, 1200]) if kernel == (1, 1) else sampling.CHANNELS
        in_c, out_c = draw(st.one_of(sampling.CHANNELS, deep)), draw(sampling.CHANNELS)
        sizes = (out_c, *kernel, in_c)
        usual = draw(st.sampled_from([True, True, True, False]))
        case = weighted_case(draw, kernel, (in_c, out_c), sizes, usual, kinds=(INT8,))
        if pixel:
            case["input"] = case["input"][:1, :1, :1].contiguous()
        if draw(st.sampled_from([True, True, True, False])):  # for which cores have kernels of their own
            case["requantize_shifts"] = case["requantize_shifts"].clamp(max=-1)
        return {**case, "weight": drawn(seed, sizes, run), "run": run}

    return draw_case()


NARROW_CONV2D = Operator(
    name="cortado::narrow_conv2d",
    summary="2-D convolution or linear layer with 4-bit weights (--weights int4)",
    arguments=conv2d.CONV2D.arguments.removesuffix(", Tensor scratch") + ", int run",
    reference=reference,
    shape=conv2d.output_shape,
    kernel=kernel,
    element=INT8,
    rows=conv2d.rows,
    macs=macs,
    pte=in_pte,
    constraints="constant weights of 4 bits, with a factor for each 32 of them or none; the .pte has them as int8",
    samples=samples,
)
