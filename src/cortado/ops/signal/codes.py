"""Spectra in bands as one call of the float graph, and its lowering: window, weights, floor and curve as integers."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.errors import CortadoError, Reject
from cortado.base.numerics import Fixed
from cortado.ir.facts import dtype, qparams
from cortado.ir.graph import Bound, describe, shape
from cortado.ir.op import Lowering, Pattern, SignalReader, operator_of
from cortado.ir.roles import Activation, Quantization
from cortado.ir.schemas import Functions
from cortado.ops.signal.fft import WINDOW_BITS, fft_of
from cortado.ops.signal.input_codes import SAMPLES, as_samples
from cortado.ops.signal.spectrum import (
    EMPHASIS_BITS,
    FLOOR_BITS,
    LARGEST_OFFSET,
    LARGEST_SUM,
    LOG_BITS,
    LOG_ROOM,
    SPECTRUM,
    WEIGHT_BITS,
    Curve,
    base_exponent,
)

Tensor = torch.Tensor

MOST_BLOCKS = 64  # blocks of samples in a frame

# ---- in the float graph --------------------------------------------------------------------------------------

_LIBRARY = Functions(portable=False)  # the runtime has no FFT
_LIBRARY.define(
    "spectrum_of(Tensor signal, Tensor window, Tensor bands, int points, int hop, int skip, int lead, int frames, "
    "float emphasis, int power, int curve, float factor, float offset, float floor, bool clamped) -> Tensor"
)


def _in_float(
    signal: Tensor,
    window: Tensor,
    bands: Tensor,
    points: int,
    hop: int,
    skip: int,
    lead: int,
    frames: int,
    emphasis: float,
    power: int,
    curve: int,
    factor: float,
    offset: float,
    floor: float,
    clamped: bool,
) -> Tensor:
    signal = signal - emphasis * torch.nn.functional.pad(signal, (1, 0))[:, :-1] if emphasis else signal
    pieces = signal[:, skip:].unfold(1, len(window), hop)[:, :frames] * window
    padded = torch.nn.functional.pad(pieces, (lead, points - lead - len(window)))  # samples where the model has them
    sizes = torch.fft.rfft(padded).abs() ** power @ bands.T
    sums = sizes.clamp(min=floor) if clamped else sizes + floor
    curved = sums.log() if curve == Curve.LOGARITHM else sums.sqrt() if curve == Curve.ROOT else sums
    return curved * factor + offset


_LIBRARY.impl("spectrum_of", _in_float, "CompositeExplicitAutograd")
_LIBRARY.impl(
    "spectrum_of",
    lambda signal, window, bands, points, hop, skip, lead, frames, *others: signal.new_empty(
        (signal.shape[0], frames, bands.shape[0])
    ),
    "Meta",
)
SPECTRUM_OF: OpOverload = torch.ops.cortado.spectrum_of.default


def block_of(hop: int, length: int, span: int) -> int | None:
    """Returns the largest block of samples that both the hop and the signal are multiples of; None if frames have too
    many blocks."""
    block = math.gcd(hop, length)
    return block if -(-span // block) <= MOST_BLOCKS and hop // block < 256 else None


# ---- from the float graph to codes ---------------------------------------------------------------------------


def match(bound: Bound) -> Quantization | Reject:
    known = qparams(bound["signal"])
    element = None if known is None else known.element
    return Quantization({"signal": Activation(element)}, Activation(bound.element))


@dataclass(frozen=True)
class SampleIntegers:
    """Window and weights as integers; |X|^p of real samples is `unit` times the kernel's value, without its
    exponents."""

    window: Tensor
    weights: dict[str, Tensor]
    unit: float
    emphasis: int


def _integers(lowering: Lowering, scale: float) -> SampleIntegers:
    window, bands = (lowering.data(name) for name in ("window", "bands"))
    assert window is not None
    assert bands is not None
    largest, window, bands = float(window.abs().max()), window.to(torch.float64), bands.to(torch.float64)
    room = min(65535 / float(bands.max()), LARGEST_SUM / float(bands.sum(1).max())) / 2.0**WEIGHT_BITS
    power, emphasis = math.floor(math.log2(room)), round(lowering.bound["emphasis"] * 2**EMPHASIS_BITS)
    scale *= 1 if emphasis == 0 else 2  # pre-emphasis halves the samples
    return SampleIntegers(
        window=torch.round(window / largest * 2.0**WINDOW_BITS).to(torch.int32),
        weights=_packed(torch.round(bands * 2.0 ** (WEIGHT_BITS + power)).to(torch.int32)),
        unit=(scale * largest) ** lowering.bound["power"] * 2.0**-power,
        emphasis=emphasis,
    )


def _packed(bands: Tensor) -> dict[str, Tensor]:
    """Packs the bins of each band, from the first nonzero weight to the last; for a band of zeros, bin 0."""
    starts, counts, weights = [], [], []
    for row in bands:
        used = row.nonzero().flatten().tolist() or [0]
        starts.append(used[0])
        counts.append(used[-1] + 1 - used[0])
        weights.append(row[used[0] : used[-1] + 1])
    return {
        "starts": torch.tensor(starts, dtype=torch.int32),
        "counts": torch.tensor(counts, dtype=torch.int32),
        "weights": torch.cat(weights),
    }


def _floor(lowering: Lowering, unit: float, base: int) -> dict[str, int]:
    """Returns the floor in units of the largest exponent that a frame can have, with headroom for that exponent."""
    power, value = lowering.bound["power"], lowering.bound["floor"] / unit * 2.0**base
    headroom = next((bits for bits in range(15, -1, -1) if value * 2.0 ** (power * bits) < 2.0**FLOOR_BITS), None)
    if headroom is None:
        raise CortadoError(
            f"{describe(lowering.bound.node)}: {lowering.bound['floor']:g} is added to bands, beside which even the "
            "largest signal would vanish; scale the signal, or add less"
        )
    return {"headroom": headroom, "floor": round(value * 2.0 ** (power * headroom))}


def _curve(lowering: Lowering, unit: float, base: int) -> dict[str, int]:
    bound, scale = lowering.bound, lowering.out.scale
    if bound["curve"] == Curve.LOGARITHM:
        octave = bound["factor"] * math.log(2)
        offset = round((math.log2(unit) + bound["offset"] / octave) * 2**LOG_BITS)
        fixed = Fixed.of(min(octave / scale, 2.0 ** (LOG_BITS + LOG_ROOM - 1)) / 2 ** (LOG_BITS + LOG_ROOM))
        if abs(offset) > LARGEST_OFFSET:
            raise CortadoError(
                f"{describe(bound.node)}: {bound['offset']:g} is added to logarithms, expected at most "
                f"{100 * octave:.0f}; subtract the rest after the spectrum"
            )
        return {"offset": offset, "multiplier": fixed.multiplier, "shift": fixed.shift}
    unit = unit * 2.0**-base
    value = bound["factor"] * (math.sqrt(unit) if bound["curve"] == Curve.ROOT else unit) / scale
    mantissa, exponent = math.frexp(value)
    return {"offset": 0, "multiplier": min(round(mantissa * 2**31), 2**31 - 1), "shift": exponent}


def _blocks(lowering: Lowering, signal: Node, sizes: tuple[int, ...], zero_point: int) -> Node:
    """Returns 16-bit samples in rows; a conversion to them then runs row by row."""
    if dtype(signal) == torch.int8:
        return as_samples(lowering, lowering.view(signal, sizes), zero_point)
    if operator_of(signal.target) is SAMPLES:
        given: Any = signal.kwargs
        return lowering.call(SAMPLES, **{**given, "input": lowering.view(given["input"], sizes)})
    return lowering.view(signal, sizes)


def lower(lowering: Lowering) -> Node:
    bound, q = lowering.bound, lowering.q("signal")
    signal = lowering.node("signal")
    images, length = shape(signal)
    found = _integers(lowering, q.scale)
    block = block_of(bound["hop"], length, bound["skip"] + len(found.window))
    assert block is not None
    base = base_exponent(fft_of(bound["points"]), bound["power"])
    low, high = lowering.bounds()
    constants = {"window": found.window, **found.weights}
    result = lowering.call(
        SPECTRUM,
        input=_blocks(lowering, signal, (images, length // block, 1, block), q.zero_point),
        **{name: lowering.constant(name, data) for name, data in constants.items()},
        **{name: bound[name] for name in ("points", "hop", "skip", "frames", "power", "curve", "clamped")},
        emphasis=found.emphasis,
        **_floor(lowering, found.unit, base),
        **_curve(lowering, found.unit, base),
        output_zero_point=lowering.out.zero_point,
        activation_min=low,
        activation_max=high,
        dtype=lowering.out.element.torch_dtype,
    )
    return lowering.view(result, shape(bound.node))


def is_spectrum(node: Node) -> bool:
    """Whether a call computes the spectrum of samples."""
    return node.target is SPECTRUM_OF


SPECTRUM_PATTERN = Pattern(
    aten=(SPECTRUM_OF,), match=match, lower=lower, fuses_clamp=True, reader=SignalReader("signal")
)
