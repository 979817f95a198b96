"""The real FFT of integers, exactly: radices, tables, and the reference of every stage.

N reals are M = N/2 complex numbers z[n] = x[2n] + j x[2n+1] in 32 bits, transformed in place, with decimation in time.
All right shifts round down. mulw(a, w) = floor(a * w / 2^16) multiplies 32 bits by 16 (SMULWB, VMULH, or four products
of halves). Every stage after the first one halves its values: twiddles are 15-bit fractions, and mulw drops 16 bits, so
noise keeps its size, a tone grows by radix / 2, and nothing overflows up to N = 4,096. Twiddles are stored negated,
because -1, the most frequent one, is exactly representable.

The tables of a spectrum in the order in which the kernels of each kind of core read them. Portable: the window, places
and words of twiddles, unchanged. Without vector instructions: the window as a stream, with the places
(spectrum_loops_s16__scalar_dsp.h). With them: all tables for four butterflies at a time (spectrum_loops_s16__mve.h).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import Any

import numpy as np

from cortado.base.arrays import ArrayType
from cortado.ir.kernel import Array, Field

# ---- fft -------------------------------------------------------------------------------------------------

SHORTEST, LONGEST = 32, 4096
WINDOW_BITS = 24  # a window of 1 is stored as 2^24
THIRD = -8780  # sin(60 degrees) - 1, as a 16-bit fraction
FIFTH_NEAR, FIFTH_FAR = 20252, 12516  # cos(72 degrees), 1 + cos(144 degrees)
FIFTH_HIGH, FIFTH_LOW = -3208, -27015  # sin(72 degrees) - 1, sin(144 degrees) - 1


@dataclass(frozen=True)
class FftStage:
    """One pass over the numbers: radix, number of butterflies with distinct twiddles, and these twiddles, [k][leg]."""

    radix: int
    span: int
    cosines: ArrayType
    sines: ArrayType


@dataclass(frozen=True)
class Fft:
    """The tables of one length. `places`: where butterfly b of the first stage writes its results, in units of its
    radix. `cosines` and `sines`, applied after the last stage, convert the spectrum of the pairs to that of the
    reals."""

    points: int
    first: int
    places: ArrayType
    stages: tuple[FftStage, ...]
    cosines: ArrayType
    sines: ArrayType

    @property
    def pairs(self) -> int:
        return self.points // 2

    @property
    def bits(self) -> int:
        """The binary exponent of the result: a spectrum X of windowed integers is stored as X * 2^bits; mulw drops 16
        of the window's bits."""
        return WINDOW_BITS - 16 - len(self.stages)


def radices(count: int) -> list[int] | None:
    """Returns the radices: a 4 first, then a remaining 2, 4s, 3s, 5s, so that if 4 divides the count, it divides every
    later span too. None if there are other prime factors."""
    twos = (count & -count).bit_length() - 1
    rest = count >> twos
    found = [4] * min(twos // 2, 1) + [2] * (twos % 2) + [4] * max(twos // 2 - 1, 0)
    for radix in (3, 5):
        while rest % radix == 0:
            rest //= radix
            found.append(radix)
    return found if rest == 1 else None


def is_length(points: int) -> bool:
    """Whether there is a transform of `points` real numbers."""
    return SHORTEST <= points <= LONGEST and points % 2 == 0 and radices(points // 2) is not None


def _negated(values: ArrayType) -> ArrayType:
    return np.clip(np.round(-32768 * values), -32768, 32767).astype(np.int64)


@cache
def fft_of(points: int) -> Fft:
    count = points // 2
    found = radices(count)
    assert found is not None
    stages, span = [], found[0]
    for radix in found[1:]:
        angles = 2 * np.pi * np.arange(span)[:, None] * np.arange(1, radix)[None] / (span * radix)
        stages.append(FftStage(radix, span, _negated(np.cos(angles)), _negated(np.sin(angles))))
        span *= radix
    angles = 2 * np.pi * np.arange(count // 2 + 1) / points
    places = _places(count, found)
    return Fft(points, found[0], places, tuple(stages), _negated(np.cos(angles)), _negated(np.sin(angles)))


def _places(count: int, found: list[int]) -> ArrayType:
    """Returns the butterflies' numbers with their mixed-radix digits reversed."""
    rest: ArrayType = np.arange(count // found[0])
    places, block = np.zeros_like(rest), count // found[0]
    for radix in reversed(found[1:]):
        block //= radix
        places = places + rest % radix * block
        rest = rest // radix
    return places


# ---- the reference -------------------------------------------------------------------------------------------


def mulw(a: ArrayType, w: ArrayType | int) -> ArrayType:
    product: ArrayType = a * w
    return product >> 16


def _turned(value: ArrayType) -> ArrayType:
    """Returns j * value; complex numbers are arrays of two."""
    return np.stack([-value[1], value[0]])


def _butterfly(first: ArrayType, legs: list[ArrayType]) -> list[ArrayType]:
    """Returns the DFT of `first` and the negatives of `legs`."""
    if len(legs) == 1:
        return [first - legs[0], first + legs[0]]
    if len(legs) == 2:
        total, apart = legs[0] + legs[1], legs[0] - legs[1]
        middle, side = first + (total >> 1), _turned(apart + mulw(apart, THIRD))
        return [first - total, middle + side, middle - side]
    if len(legs) == 3:
        even, odd, total = first - legs[1], first + legs[1], legs[0] + legs[2]
        side = _turned(legs[0] - legs[2])
        return [even - total, odd + side, even + total, odd - side]
    return _butterfly5(first, legs)


def _butterfly5(first: ArrayType, legs: list[ArrayType]) -> list[ArrayType]:
    outer, inner, out, inside = legs[0] + legs[3], legs[1] + legs[2], legs[0] - legs[3], legs[1] - legs[2]
    near = first - mulw(outer, FIFTH_NEAR) + inner - mulw(inner, FIFTH_FAR)
    far = first - mulw(inner, FIFTH_NEAR) + outer - mulw(outer, FIFTH_FAR)
    high = _turned(out + mulw(out, FIFTH_HIGH) + inside + mulw(inside, FIFTH_LOW))
    low = _turned(out + mulw(out, FIFTH_LOW) - inside - mulw(inside, FIFTH_HIGH))
    return [first - outer - inner, near + high, far + low, far - low, near - high]


def _twiddled(real: ArrayType, imaginary: ArrayType, cosines: ArrayType, sines: ArrayType) -> ArrayType:
    """Returns minus half the product."""
    return np.stack(
        [mulw(real, cosines) + mulw(imaginary, sines), mulw(imaginary, cosines) - mulw(real, sines)],
    )


def spectrum(fft: Fft, windowed: ArrayType) -> tuple[ArrayType, ArrayType]:
    """Returns real and imaginary parts [frames, pairs + 1] of windowed integers [frames, points], times 2^-stages."""
    frames = len(windowed)
    pairs = windowed.reshape(frames, fft.pairs, 2).transpose(2, 0, 1)
    parts = np.split(pairs, fft.first, axis=2)
    found = np.empty((2, frames, fft.pairs), np.int64)
    for leg, made in enumerate(_butterfly(parts[0], [-part for part in parts[1:]])):
        found[:, :, fft.places * fft.first + leg] = made
    for stage in fft.stages:
        block = found.reshape(2, frames, -1, stage.radix, stage.span)
        legs = [
            _twiddled(block[0, :, :, leg], block[1, :, :, leg], stage.cosines[:, leg - 1], stage.sines[:, leg - 1])
            for leg in range(1, stage.radix)
        ]
        found = np.stack(_butterfly(block[:, :, :, 0] >> 1, legs), axis=3).reshape(2, frames, fft.pairs)
    return _of_reals(fft, found)


def _of_reals(fft: Fft, found: ArrayType) -> tuple[ArrayType, ArrayType]:
    """Returns bins 0 to M: E + W * O, where E and O are the spectra of the even and the odd reals."""
    low = np.arange(fft.pairs // 2 + 1)
    high = (fft.pairs - low) % fft.pairs
    a, b = found[:, :, low], found[:, :, high]
    even = np.stack([(a[0] + b[0]) >> 1, (a[1] - b[1]) >> 1])
    odd = _twiddled(a[1] + b[1], b[0] - a[0], fft.cosines, fft.sines)
    result = np.empty((2, found.shape[1], fft.pairs + 1), np.int64)
    result[:, :, fft.pairs - low] = even + odd  # the conjugate; the middle bin comes from the other form
    result[:, :, low] = even - odd
    return result[0], result[1]


# ---- spectrum tables -------------------------------------------------------------------------------------

FOUR = 4
LEGS = (0, 2, 1, 3)  # in the order in which radix 4 butterflies read them


class SpectrumLayout(Enum):
    PLAIN = auto()
    STREAM = auto()
    VECTORS = auto()


def scratch_bytes(fft: Fft, window: int, layout: SpectrumLayout) -> int:
    """Returns the bytes of scratch: one complex number more than there are pairs, and the samples; vectors read those
    of at least two legs."""
    pairs = -(-window // 2)
    return 8 * (fft.pairs + 1) + 4 * (max(pairs, fft.pairs // 2) if layout is SpectrumLayout.VECTORS else pairs)


def spectrum_tables(
    fft: Fft, window: ArrayType, weights: ArrayType, counts: ArrayType, layout: SpectrumLayout
) -> dict[str, Field]:
    """Returns the radices and the concatenated twiddles of all stages, window and weights."""
    radices = [fft.first, *(stage.radix for stage in fft.stages)]
    whole = np.pad(window, (0, len(window) % 2)).astype(np.int32)
    fields: dict[str, Field] = {"stages": len(radices), "radix": tuple(radices + [0] * (8 - len(radices)))}
    if layout is SpectrumLayout.VECTORS:
        return fields | _vectors(fft, whole) | {"weights": _codes(_padded_weights(weights, counts))}
    stages = [_words(stage.cosines, stage.sines) for stage in fft.stages]
    streams = layout is SpectrumLayout.STREAM and fft.first == FOUR and len(whole) >= fft.pairs
    return fields | {
        "places": None if streams else Array(fft.places.astype(np.int16)),
        "window": Array(_stream(fft, whole) if streams else whole),
        "twiddles": Array(_joined(stages, np.int32)),
        "turns": Array(_words(fft.cosines, fft.sines)),
        "weights": _codes(weights),
    }


def _codes(weights: ArrayType) -> Array:
    return Array(weights.astype(np.uint16).view(np.int16))


def _joined(parts: Sequence[ArrayType], kind: type[np.signedinteger[Any]]) -> ArrayType:
    return np.concatenate([*parts, np.zeros(0, kind)]).astype(kind)


def _words(cosines: ArrayType, sines: ArrayType) -> ArrayType:
    """Packs a cosine in the lower half and a sine in the upper half of each word."""
    return ((sines << 16) | (cosines & 0xFFFF)).astype(np.uint32).astype(np.int32).reshape(-1)


def _stream(fft: Fft, window: ArrayType) -> ArrayType:
    """Returns, for each butterfly, the window of the legs that hold samples, and the byte offset of its results."""
    quarter, found = fft.pairs // FOUR, []
    for number in range(quarter):
        pairs = [number + leg * quarter for leg in LEGS]
        found += [window[2 * at : 2 * at + 2] for at in pairs if 2 * at < len(window)]
        found.append(np.array([8 * FOUR * int(fft.places[number])]))
    return _joined(found, np.int32)


def _vectors(fft: Fft, window: ArrayType) -> dict[str, Field]:
    quarter, pairs = fft.pairs // FOUR, len(window) // 2
    legs = 3 if pairs >= 3 * quarter else 2
    more = max(pairs - legs * quarter, 0)
    whole = np.pad(window, (0, 2 * fft.pairs - len(window)))
    parts = [*_side_by_side(fft, whole, range(more), legs + 1), *_side_by_side(fft, whole, range(more, quarter), legs)]
    half = fft.pairs // 2 + 1
    turns = _twiddles(fft.cosines[:half, None], fft.sines[:half, None])
    stages = [_twiddles(stage.cosines, stage.sines) for stage in fft.stages]
    return {
        "places": None,
        "window": Array(_joined(parts, np.int32)),
        "twiddles": Array(_joined(stages, np.int16).view(np.int32)),
        "turns": Array(turns.view(np.int32)),
    }


def _side_by_side(fft: Fft, window: ArrayType, numbers: range, legs: int) -> list[ArrayType]:
    """Returns, for four butterflies at a time, the windows of even and odd samples of each leg, and the offset of the
    results."""
    found = []
    for first in numbers[::FOUR]:
        at = np.arange(first, min(first + FOUR, numbers.stop))
        for leg in (leg for leg in LEGS if leg < legs):
            pair = 2 * (at + leg * (fft.pairs // FOUR))
            found += [_four(window[pair]), _four(window[pair + 1])]
        found.append(_four(4 * FOUR * fft.places[at]))
    return found


def _twiddles(cosines: ArrayType, sines: ArrayType) -> ArrayType:
    """Returns the twiddles [k][leg]: four k at a time, the cosines and the sines of each leg."""
    found = []
    for k in range(0, len(cosines), FOUR):
        for leg in range(cosines.shape[1]):
            found += [_four(cosines[k : k + FOUR, leg]), _four(sines[k : k + FOUR, leg])]
    return _joined(found, np.int16)


def _padded_weights(weights: ArrayType, counts: ArrayType) -> ArrayType:
    """Pads each band's weights with zeros to a multiple of four."""
    bands = np.split(weights, np.cumsum(counts)[:-1])
    return np.concatenate([_four(band) for band in bands])


def _four(values: ArrayType) -> ArrayType:
    return np.pad(values, (0, -len(values) % FOUR))
