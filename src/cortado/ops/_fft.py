"""The real FFT of integers, exactly: radices, tables, and the reference of every stage.

N reals are M = N/2 complex numbers z[n] = x[2n] + j x[2n+1] in 32 bits, transformed in place, decimation in time. All
right shifts are floors. mulw(a, w) = floor(a * w / 2^16) multiplies 32 bits by 16 (SMULWB, VMULH, or four products of
halves). Every stage behind the first halves by its products: twiddles are 15-bit fractions and mulw keeps 16 bits less,
so noise keeps its size, a tone grows by radix / 2, and nothing overflows up to N = 4,096. Twiddles are stored negated:
-1, which is exact, is the one that is used most.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from cortado.base.arrays import ArrayType

SHORTEST, LONGEST = 32, 4096
WINDOW_BITS = 24  # a window of 1 is 2^24
THIRD = -8780  # sin(60 degrees) - 1, as a 16-bit fraction
FIFTH_NEAR, FIFTH_FAR = 20252, 12516  # cos(72 degrees), 1 + cos(144 degrees)
FIFTH_HIGH, FIFTH_LOW = -3208, -27015  # sin(72 degrees) - 1, sin(144 degrees) - 1


@dataclass(frozen=True)
class FftStage:
    """One pass over the numbers: radix, how many butterflies have twiddles of their own, and these, [k][leg]."""

    radix: int
    span: int
    cosines: ArrayType
    sines: ArrayType


@dataclass(frozen=True)
class Fft:
    """The tables of one length. `places`: where butterfly b of the first stage puts its results, in radices of it.
    Behind the last stage `cosines` and `sines` make the spectrum of the reals of that of the pairs."""

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
        """Of the spectrum of integers times a window: X * 2^bits; mulw takes 16 bits off the window's."""
        return WINDOW_BITS - 16 - len(self.stages)


def radices(count: int) -> list[int] | None:
    """A 4 first, then a 2 where one is left over, 4s, 3s, 5s: of a multiple of 4, every later span is one too. None
    where there is another factor."""
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
    """Digits of the butterfly's number in mixed radices, reversed."""
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
    """j * value; complex numbers are arrays of two."""
    return np.stack([-value[1], value[0]])


def _butterfly(first: ArrayType, legs: list[ArrayType]) -> list[ArrayType]:
    """The DFT of `first` and the negatives of `legs`."""
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
    """Minus half the product."""
    return np.stack(
        [mulw(real, cosines) + mulw(imaginary, sines), mulw(imaginary, cosines) - mulw(real, sines)],
    )


def spectrum(fft: Fft, windowed: ArrayType) -> tuple[ArrayType, ArrayType]:
    """Real and imaginary parts [frames, pairs + 1] of windowed integers [frames, points], times 2^-stages."""
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
    """Bins 0 to M: those of E + W * O, where E and O are the spectra of the even and the odd reals."""
    low = np.arange(fft.pairs // 2 + 1)
    high = (fft.pairs - low) % fft.pairs
    a, b = found[:, :, low], found[:, :, high]
    even = np.stack([(a[0] + b[0]) >> 1, (a[1] - b[1]) >> 1])
    odd = _twiddled(a[1] + b[1], b[0] - a[0], fft.cosines, fft.sines)
    result = np.empty((2, found.shape[1], fft.pairs + 1), np.int64)
    result[:, :, fft.pairs - low] = even + odd  # conjugate; of the middle bin the other form is taken
    result[:, :, low] = even - odd
    return result[0], result[1]
