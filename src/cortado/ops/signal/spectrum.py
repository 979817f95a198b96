"""out = clamp(requant(curve(sum over bins of w * |X|^p)) + zero_point): frames of a signal as features, at once.

Spectra span 100 dB, so no intermediate tensor between samples and features is quantized. A frame has one exponent, the
number of bits s by which its samples can be shifted left; with x = floor(window * (sample << s) / 2^16), which is at
most 2^23, the FFT (fft.py) needs no other. With pre-emphasis, `emphasis` / 2^15 of the previous sample (0 before the
first) is subtracted from each sample; the difference is halved, and rounded after the shift. Then, with p = 2 for power
and 1 for magnitude:

  power      P = re^2 + im^2, exact in 60 bits; acc = (sum w * (P >> 32) << 16) + (sum w * (P mod 2^32) >> 16)
  magnitude  a table of roots over 16-bit mantissas; acc = sum w * A, with A = 2 * sqrt(re^2 + im^2)
  floor      acc + (floor >> p * (headroom - s)), or the larger of both; s is at most `headroom`
  logarithm  log2(acc) with 16 fractional bits, by leading zeros and a table; requant((log2 - E - p * s + offset) << 7)
  otherwise  acc or its integer root, of 61 or 62 bits, times a factor, over 2^(p * s)
"""

from collections.abc import Mapping
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np
import torch

from cortado.base.arrays import ArrayType
from cortado.base.element import CODES, INT16
from cortado.base.numerics import Tensor, requant
from cortado.base.target import Core
from cortado.ir.c_call import Bytes, Operand
from cortado.ir.kernel import Array, Field, RowRule, Rows
from cortado.ir.kernel_table import EVERY_CORE, KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Operator
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Work, loops
from cortado.ops.pool import measures
from cortado.ops.signal.fft import (
    FOUR,
    LONGEST,
    SHORTEST,
    Fft,
    SpectrumLayout,
    fft_of,
    mulw,
    scratch_bytes,
    spectrum,
    spectrum_tables,
)

WEIGHT_BITS = 15  # of a band's weight of 1
LARGEST_SUM = 1 << 20  # of a band's weights
EMPHASIS_BITS = 15  # of pre-emphasis by 1
FLOOR_BITS = 61
LOG_BITS, LOG_ROOM = 16, 7  # fractional bits of a logarithm; how far it is shifted left before it is rescaled
LARGEST_OFFSET = 1 << 23  # the largest number added to a logarithm


ROOTS = np.minimum(65535, np.round(4096 * np.sqrt(np.arange(64, 257)))).astype(np.int64)
LOGARITHMS = np.round(65536 * np.log2(1 + np.arange(129) / 128)).astype(np.int64)


class Power(IntEnum):
    MAGNITUDE = 1
    POWER = 2


class Curve(IntEnum):
    """Functions of a band's sum."""

    LOGARITHM = 0
    LINEAR = 1
    ROOT = 2


# ---- what it computes ----------------------------------------------------------------------------------------


def bit_length(value: ArrayType) -> ArrayType:
    """Returns the bit length of numbers that are not negative and below 2^62."""
    length = np.zeros(value.shape, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        long = value >= 1 << step
        length, value = length + step * long, np.where(long, value >> step, value)
    return length + (value > 0)


def magnitude(real: ArrayType, imaginary: ArrayType) -> ArrayType:
    """Returns 2 * sqrt(re^2 + im^2) with an error of at most 2^-13."""
    sizes = (real ^ (real >> 31)) | (imaginary ^ (imaginary >> 31))
    right = np.maximum(0, bit_length(sizes) - 15)
    squares = (real >> right) ** 2 + (imaginary >> right) ** 2
    left = (32 - bit_length(squares)) & ~1
    mantissa = (squares << left) & 0xFFFFFFFF
    place, rest = np.maximum(mantissa >> 24, 64) - 64, (mantissa >> 8) & 0xFFFF
    root = ROOTS[place] + ((ROOTS[place + 1] - ROOTS[place]) * rest >> 16)
    return np.where(squares == 0, 0, (root << 16) >> (15 + left // 2 - right))


def log2(value: ArrayType) -> ArrayType:
    """Returns the log2 of numbers from 1, with 16 fractional bits."""
    length = bit_length(value)
    mantissa = np.where(length >= 32, value >> np.maximum(length - 32, 0), value << np.maximum(32 - length, 0))
    place, rest = (mantissa >> 24) & 127, (mantissa >> 8) & 0xFFFF
    between = (LOGARITHMS[place + 1] - LOGARITHMS[place]) * rest >> 16
    return ((length - 1) << LOG_BITS) + LOGARITHMS[place] + between


def exponents(frames: ArrayType, headroom: int) -> ArrayType:
    """Returns the number of bits by which each frame is shifted left."""
    sizes = np.bitwise_or.reduce(frames ^ (frames >> 15), axis=1)
    return np.minimum(15 - bit_length(sizes), headroom)


def shifted(input: Tensor, arguments: Mapping[str, Any]) -> tuple[ArrayType, ArrayType]:
    """Returns the samples of every frame, shifted left, and the shifts."""
    signal, headroom, emphasis = _signal(input), arguments["headroom"], arguments["emphasis"]
    if emphasis == 0:
        frames = framed(signal, arguments)
        shifts = exponents(frames, headroom)
        return frames << shifts[:, None], shifts
    before = np.pad(signal, ((0, 0), (1, 0)))[:, :-1]
    frames = framed((signal << EMPHASIS_BITS) - emphasis * before, arguments)
    sizes = np.bitwise_or.reduce(frames ^ (frames >> 31), axis=1)
    shifts = np.minimum(31 - bit_length(sizes), headroom)
    return np.minimum(((frames >> (15 - shifts)[:, None]) + 1) >> 1, INT16.high), shifts


def band_sums(input: Tensor, arguments: Mapping[str, Any]) -> tuple[ArrayType, ArrayType]:
    """Returns acc of every frame and band, and the frames' exponents."""
    fft, window, power = fft_of(arguments["points"]), arguments["window"].numpy().astype(np.int64), arguments["power"]
    frames, shifts = shifted(input, arguments)
    windowed = np.zeros((len(frames), fft.points), np.int64)
    windowed[:, : len(window)] = mulw(window, frames)
    real, imaginary = spectrum(fft, windowed)
    sizes = real**2 + imaginary**2 if power == Power.POWER else magnitude(real, imaginary)
    sums, first = [], 0
    starts, counts = (arguments[name].tolist() for name in ("starts", "counts"))
    weights = arguments["weights"].numpy().astype(np.int64)
    for start, count in zip(starts, counts, strict=True):
        part, factors = sizes[:, start : start + count], weights[first : first + count]
        low = ((part & 0xFFFFFFFF) * factors).sum(1)
        sums.append((((part >> 32) * factors).sum(1) << 16) + (low >> 16) if power == Power.POWER else low)
        first += count
    floor = arguments["floor"] >> power * (arguments["headroom"] - shifts)[:, None]
    acc = np.stack(sums, 1)
    return np.maximum(acc, floor) if arguments["clamped"] else acc + floor, shifts


def base_exponent(fft: Fft, power: int) -> int:
    """Returns E: acc is the sum of |X|^p * 2^(E + p * s), for unshifted samples and a window up to 1."""
    return 2 * fft.bits - 1 if power == Power.POWER else fft.bits + 1 + WEIGHT_BITS


def logarithms(acc: ArrayType, shifts: ArrayType, arguments: Mapping[str, Any]) -> ArrayType:
    """Returns logarithms with 16 fractional bits, before the single rounding to codes."""
    power = arguments["power"]
    base = base_exponent(fft_of(arguments["points"]), power)
    return log2(np.maximum(acc, 1)) - ((base + power * shifts[:, None]) << LOG_BITS) + arguments["offset"]


def _curved(acc: ArrayType, shifts: ArrayType, arguments: Mapping[str, Any]) -> Tensor:
    multiplier, shift, power = (arguments[name] for name in ("multiplier", "shift", "power"))
    if arguments["curve"] == Curve.LOGARITHM:
        return requant(torch.from_numpy(logarithms(acc, shifts, arguments) << LOG_ROOM), multiplier, shift)
    right = torch.from_numpy(power * shifts[:, None])
    values = torch.from_numpy(acc)
    if arguments["curve"] == Curve.ROOT:
        wide, left = measures.normalized(values << (right & 1))
        return measures.rescaled(measures.root(wide), multiplier, 31 + (left + right + (right & 1)) // 2 - shift)
    wide, left = measures.normalized(values)
    return measures.rescaled(wide >> 31, multiplier, left + right - shift)


def _signal(input: Tensor) -> ArrayType:
    """Returns [images, samples] of samples [images, blocks, 1, block]."""
    found: ArrayType = input.reshape(input.shape[0], -1).numpy().astype(np.int64)
    return found


def framed(signal: ArrayType, arguments: Mapping[str, Any]) -> ArrayType:
    """Returns [images * frames, window] of samples [images, samples]."""
    starts = np.arange(arguments["frames"])[:, None] * arguments["hop"] + arguments["skip"]
    found: ArrayType = signal[:, starts + np.arange(len(arguments["window"]))]
    return found.reshape(-1, found.shape[-1])


def reference(*, input: Tensor, **arguments: Any) -> Tensor:
    acc, shifts = band_sums(input, arguments)
    codes = _curved(acc, shifts, arguments) + arguments["output_zero_point"]
    codes = codes.clamp(arguments["activation_min"], arguments["activation_max"]).to(arguments["dtype"])
    return codes.reshape(input.shape[0], arguments["frames"], 1, acc.shape[1]).contiguous()


def output_shape(call: Call) -> tuple[int, ...]:
    return call.shape("input")[0], call["frames"], 1, call.shape("starts")[0]


# ---- the C kernel --------------------------------------------------------------------------------------------


def rows(call: Call) -> Rows:
    """Returns the row rule: a frame needs the blocks with its samples, and with pre-emphasis possibly the one
    before."""
    block, pad = call.shape("input")[3], _blocks_before(call)
    taps = pad - (-(call["skip"] + call.shape("window")[0]) // block)
    return Rows((RowRule(taps=taps, stride=call["hop"] // block, pad=pad),))


def _blocks_before(call: Call) -> int:
    """Returns 1 if a frame's first sample needs the last one of the block before."""
    return int(call["emphasis"] != 0 and call["skip"] == 0)


def _bins(call: Call) -> int:
    return int((call.array("starts") + call.array("counts")).max())


def _fields(layout: SpectrumLayout, call: Call) -> dict[str, Field]:
    fft, weights, counts = fft_of(call["points"]), call.array("weights"), call.array("counts")
    starts = call.array("starts")
    logarithm, log_table = call["curve"] == Curve.LOGARITHM, (LOGARITHMS & 0xFFFF).astype(np.uint16).view(np.int16)
    roots = Array(ROOTS.astype(np.uint16).view(np.int16)) if call["power"] == Power.MAGNITUDE else None
    return {
        "block": call.shape("input")[3],
        "skip": call["skip"] + _blocks_before(call) * call.shape("input")[3],
        "window_length": call.shape("window")[0],
        "emphasis": call["emphasis"],
        "pairs": fft.pairs,
        "bins": _bins(call),
        "bands": len(starts),
        "power": call["power"],
        "curve": call["curve"],
        "clamped": int(call["clamped"]),
        "headroom": call["headroom"],
        "floor_high": call["floor"] >> 31,
        "floor_low": call["floor"] & 0x7FFFFFFF,
        "offset": call["offset"] - (base_exponent(fft, call["power"]) << LOG_BITS),
        "out_multiplier": call["multiplier"],
        "out_shift": call["shift"],
        "out_zero": call["output_zero_point"],
        "act_min": call["activation_min"],
        "act_max": call["activation_max"],
        "wide": int(call.element.bytes > 1),
        **spectrum_tables(fft, call.array("window"), weights, counts, layout),
        "starts": Array(starts.astype(np.int16)),
        "counts": Array(counts.astype(np.int16)),
        "roots": roots,
        "logarithms": Array(log_table) if logarithm else None,
    }


def _row(symbol: str, layout: SpectrumLayout, cores: tuple[Core, ...]) -> KernelRow:
    vectors = layout is SpectrumLayout.VECTORS
    return KernelRow(
        symbol,
        INT16,
        cores=cores,
        fits=(lambda call: fft_of(call["points"]).pairs % FOUR == 0) if vectors else None,
        arguments=(Operand.LAYER, Operand.ROWS, Bytes(Operand.OUT), Operand.SCRATCH),
        struct="cortado_spectrum_t",
        fields=partial(_fields, layout),
        scratch=lambda call: scratch_bytes(fft_of(call["points"]), call.shape("window")[0], layout),
        scratch_check=None if vectors else "spectrum_s16_scratch",
        work=lambda call: _work(4 if vectors else 1, call),
    )


# The vector kernel computes four butterflies of every stage; other lengths use the kernel without vectors.
KERNELS = KernelTable(
    (
        _row("spectrum_s16__mve", SpectrumLayout.VECTORS, (Core.MVE,)),
        _row("spectrum_s16__dsp", SpectrumLayout.STREAM, (Core.DSP, Core.MVE)),
        _row("spectrum_s16__scalar", SpectrumLayout.STREAM, (Core.SMALL, Core.LONG)),
        _row("spectrum_s16", SpectrumLayout.PLAIN, EVERY_CORE),
    )
)


def _work(at_once: int, call: Call) -> Work:
    """Counts samples, butterflies of each radix and the groups that share their twiddles, bins, weights and bands of a
    frame; weights that are multiplied together, and logarithms computed together, count once; sums with a least value
    are not computed together. A first stage of radix 4 has a loop of its own, others are put into order before."""
    fft, bins = fft_of(call["points"]), _bins(call)
    ordered = 0 if fft.pairs % FOUR == 0 else fft.pairs
    stages = [*([(fft.first, 1)] if ordered else []), *((one.radix, one.span) for one in fft.stages)]
    flies = {f"by{radix}": sum(fft.pairs // radix for one, _ in stages if one == radix) for radix in (2, 3, 4, 5)}
    squared, curve = call["power"] == Power.POWER, call["curve"]
    logs_at_once = 1 if call["clamped"] else at_once
    bands, weights = call.shape("starts")[0], int((-(-call.array("counts") // at_once)).sum())
    return loops(
        "calls calls*samples calls*emphasized calls*firsts calls*ordered calls*by2 calls*by3 calls*by4 calls*by5 "
        "calls*groups calls*stages calls*powers calls*sizes calls*bands calls*products calls*sums calls*logs "
        "calls*single_logs calls*linears calls*roots",
        samples=call.shape("window")[0],
        emphasized=call.shape("window")[0] * (call["emphasis"] != 0),
        firsts=0 if ordered else fft.pairs // FOUR,
        ordered=ordered,
        **flies,
        groups=sum(fft.pairs // (radix * span) for radix, span in stages),
        stages=len(stages),
        powers=bins * squared,
        sizes=bins * (not squared),
        bands=bands,
        products=weights * squared,
        sums=weights * (not squared),
        logs=-(-bands // logs_at_once) * (curve == Curve.LOGARITHM),
        single_logs=bands * (curve == Curve.LOGARITHM and logs_at_once < at_once),
        linears=bands * (curve == Curve.LINEAR),
        roots=bands * (curve == Curve.ROOT),
    )


# ---- samples -------------------------------------------------------------------------------------------------


def _drawn_bands(rng: np.random.Generator, bins: int, bands: int) -> dict[str, Tensor]:
    starts = np.sort(rng.integers(0, bins, bands))
    counts = np.minimum(rng.integers(1, rng.choice([9, 41, bins + 1]), bands), bins - starts)
    weights = rng.integers(0, min(65536, LARGEST_SUM // int(counts.max())), int(counts.sum()))
    found = {"starts": starts, "counts": counts, "weights": weights}
    return {name: torch.from_numpy(data.astype(np.int32)) for name, data in found.items()}


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws every length, any window and hop, all curves, from silence to full scale."""
    points = draw.pick([32, 36, 50, 64, 96, 128, 150, 240, 256, 400, 512])
    window = draw.whole(max(points // 2, 1), points)
    block, parts = draw.whole(1, 40), draw.whole(1, 3)
    hop, frames, skip = block * parts, draw.whole(1, 3), draw.whole(0, 9)
    rng = np.random.default_rng(draw.seed())
    blocks = -(-(skip + window + (frames - 1) * hop) // block)
    if blocks * 1 > 250:
        block, hop = 40, 40 * parts
        blocks = -(-(skip + window + (frames - 1) * hop) // block)
    level = 2 ** draw.whole(0, 15)
    signal = rng.integers(-level, level, (draw.whole(1, 2), blocks, 1, block))
    power, curve = draw.pick(list(Power)), draw.pick(list(Curve))
    kind = draw.pick(CODES)
    low, high = draw.bounds(kind)
    headroom = draw.pick([15, 15, 7, 0])
    logarithm = curve is Curve.LOGARITHM
    usual = 8 - LOG_BITS - LOG_ROOM - 6 if logarithm else (14 - 62 if curve is Curve.LINEAR else 10 - 46)
    return {
        "input": torch.from_numpy(signal.astype(np.int16)),
        "window": torch.from_numpy(rng.integers(-(1 << 24), (1 << 24) + 1, window).astype(np.int32)),
        **_drawn_bands(rng, points // 2 + 1, draw.whole(1, 12)),
        "points": points,
        "hop": hop,
        "skip": skip,
        "frames": frames,
        "emphasis": draw.pick([0, 0, 31785, 1 << EMPHASIS_BITS, -9000]),
        "power": int(power),
        "curve": int(curve),
        "floor": draw.pick([0, 1, 2**20, 2**40, 2**FLOOR_BITS - 1]),
        "clamped": draw.flag(),
        "headroom": headroom,
        "offset": draw.whole(-LARGEST_OFFSET, LARGEST_OFFSET) if logarithm else 0,
        "multiplier": draw.whole(2**30, 2**31 - 1),
        "shift": usual + draw.whole(-3, 3),
        "output_zero_point": draw.zero_point(kind),
        "activation_min": low,
        "activation_max": high,
        "dtype": kind.torch_dtype,
    }


SPECTRUM = Operator(
    name="cortado::spectrum",
    summary="windowed frames of a signal: the power or magnitude of their spectra in bands, or its logarithm",
    parameters=(
        "Tensor input, Tensor window, Tensor weights, Tensor starts, Tensor counts, int points, int hop, int skip, "
        "int frames, int emphasis, int power, int curve, int floor, bool clamped, int headroom, int offset, "
        "int multiplier, int shift, int output_zero_point, int activation_min, int activation_max, ScalarType dtype"
    ),
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=rows,
    element=ElementOf(("dtype",)),
    macs=lambda call: call["frames"] * call.shape("weights")[0],
    constraints=f"even lengths 2^a 3^b 5^c from {SHORTEST} to {LONGEST}",
    no_pte="the runtime has no integer operator for it",
    samples=samples,
)
