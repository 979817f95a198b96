"""Linear filters as cascades of second-order sections: from a filter's responses to its poles and zeros, and to
integers.

A section is y[n] = b0 * u[n] + b1 * u[n-1] + b2 * u[n-2] - a1 * y[n-1] - a2 * y[n-2].
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cortado.base.arrays import ArrayType

Section = tuple[float, float, float, float, float]  # b0, b1, b2, a1, a2

LONGEST_ORDER = 16  # poles or zeros
_SEEN = 1e-10  # relative to the largest singular value of the responses
_SMALL_POLE = 1e-2  # a pole nearer to 0 is the rounding error of one at 0, of a delay
_EXACT = 1e-6  # of an impulse response: 120 dB


class Unstable(Exception):
    """A filter with a pole on the unit circle or outside it; `size` is the pole's magnitude."""

    def __init__(self, size: float, order: int) -> None:
        super().__init__(size)
        self.size, self.order = size, order


# ---- poles and zeros -----------------------------------------------------------------------------------------


def sections_of(impulse: ArrayType, responses: ArrayType) -> tuple[Section, ...] | None:
    """Returns the cascade with this impulse response. The columns of `responses` are the later outputs for each thing
    that a filter can remember; one sample later, each column is a linear combination of all, and the eigenvalues of
    that map are the poles. None if no filter of bounded order fits; a filter without feedback has no poles."""
    poles = _poles(responses)
    if poles is None:
        return None
    if len(poles) and float(np.abs(poles).max()) >= 1.0 - 1e-12:
        raise Unstable(float(np.abs(poles).max()), len(poles))
    below = np.real(np.poly(poles)) if len(poles) else np.ones(1)
    above = np.convolve(below, impulse)[: LONGEST_ORDER + 1]
    above = np.where(np.abs(above) > 1e-9 * np.abs(above).max(), above, 0.0)
    if not above.any():
        return None
    found = _paired(_factors(above), poles, float(above[np.nonzero(above)[0][0]]))
    made = response(found, len(impulse))
    return found if float(np.abs(made - impulse).max()) <= _EXACT * float(np.abs(impulse).max()) else None


def _poles(responses: ArrayType) -> ArrayType | None:
    sizes = np.abs(responses).max(axis=0)
    kept = responses[:, sizes > 0] / sizes[sizes > 0]
    if not kept.size:
        return np.zeros(0, complex)
    left, singular, _ = np.linalg.svd(kept, full_matrices=False)
    rank = int((singular > _SEEN * singular[0]).sum())
    if rank > LONGEST_ORDER or rank >= len(responses):
        return None
    basis = left[:, :rank]
    later = np.linalg.lstsq(basis[:-1], basis[1:], rcond=None)[0]
    if float(np.abs(basis[:-1] @ later - basis[1:]).max()) > 1e-6:
        return None
    poles = np.linalg.eigvals(later)
    found: ArrayType = poles[np.abs(poles) > _SMALL_POLE]
    return found


def _factors(above: ArrayType) -> tuple[list[complex], int]:
    """Returns the zeros of a numerator, and its delay in samples."""
    used = np.nonzero(above)[0]
    return [complex(one) for one in np.roots(above[used[0] : used[-1] + 1])], int(used[0])


def _pairs(numbers: Sequence[complex]) -> list[tuple[complex, ...]]:
    """Groups conjugate numbers, and real ones two by two; those nearest to the unit circle first."""
    upper = [one for one in numbers if one.imag > 1e-9 * abs(one)]
    real = sorted((one for one in numbers if abs(one.imag) <= 1e-9 * abs(one)), key=lambda one: -abs(one))
    found: list[tuple[complex, ...]] = [(one, one.conjugate()) for one in upper]
    found += [tuple(real[at : at + 2]) for at in range(0, len(real), 2)]
    return sorted(found, key=lambda pair: -max(map(abs, pair)))


def _polynomial(roots: Sequence[complex]) -> ArrayType:
    return np.real(np.poly(np.array(roots))) if roots else np.ones(1)


def _paired(factors: tuple[list[complex], int], poles: ArrayType, gain: float) -> tuple[Section, ...]:
    """Combines each pair of poles, beginning with the most resonant, with the zeros nearest to it; the least resonant
    section comes first."""
    zeros, late = factors
    left = _pairs(zeros)
    found: list[Section] = []
    for pair in _pairs([complex(one) for one in poles]):
        near = min(left, key=lambda one: abs(one[0] - pair[0]), default=())
        left = [one for one in left if one is not near]
        found.append(_section(_polynomial(near), _polynomial(pair)))
    found += [_section(_polynomial(one), np.ones(1)) for one in left]
    found = _delayed(found or [_section(np.ones(1), np.ones(1))], late)
    ordered = found[::-1]
    first = ordered[0]
    return ((first[0] * gain, first[1] * gain, first[2] * gain, first[3], first[4]), *ordered[1:])


def _section(above: ArrayType, below: ArrayType) -> Section:
    b = np.pad(above, (0, 3 - len(above)))
    a = np.pad(below, (0, 3 - len(below)))
    return float(b[0]), float(b[1]), float(b[2]), float(a[1]), float(a[2])


def _delayed(found: Sequence[Section], late: int) -> list[Section]:
    """Puts samples of delay into sections with room for them."""
    ready = []
    for b0, b1, b2, a1, a2 in found:
        while late and b2 == 0.0:
            b0, b1, b2, late = 0.0, b0, b1, late - 1
        ready.append((b0, b1, b2, a1, a2))
    while late:
        ready.append((0.0, 0.0, 1.0, 0.0, 0.0) if late > 1 else (0.0, 1.0, 0.0, 0.0, 0.0))
        late -= min(late, 2)
    return ready


# ---- responses of sections -----------------------------------------------------------------------------------

_MOST_POINTS = 1 << 22


def pole_size(found: Sequence[Section]) -> float:
    """Returns the largest magnitude of a pole."""
    return max((float(np.abs(np.roots([1.0, a1, a2])).max()) for *_, a1, a2 in found if a1 or a2), default=0.0)


def points_of(found: Sequence[Section]) -> int | None:
    """Returns a number of samples after which an impulse response has died out; None if it is too large."""
    largest = pole_size(found)
    wanted = 30.0 / max(1.0 - largest, 1e-30) + 64
    return None if wanted > _MOST_POINTS else 1 << math.ceil(math.log2(wanted))


def spectrum(found: Sequence[Section], points: int) -> tuple[ArrayType, ArrayType]:
    """Returns numerators and denominators at `points` frequencies, [sections, points / 2 + 1]."""
    z = np.exp(-2j * np.pi * np.arange(points // 2 + 1) / points)
    above = np.stack([b0 + (b1 + b2 * z) * z for b0, b1, b2, _, _ in found])
    below = np.stack([1 + (a1 + a2 * z) * z for *_, a1, a2 in found])
    return above, below


def response(found: Sequence[Section], count: int) -> ArrayType:
    """Returns the first samples of the impulse response."""
    signal = np.zeros(count)
    signal[0] = 1.0
    for b0, b1, b2, a1, a2 in found:
        u1 = u2 = y1 = y2 = 0.0
        for at, u in enumerate(signal):
            y = b0 * u + b1 * u1 + b2 * u2 - a1 * y1 - a2 * y2
            u1, u2, y1, y2 = u, u1, y, y1
            signal[at] = y
    return signal


def noise_gain(found: Sequence[Section]) -> float:
    """Returns how far an error of 1 in each sum can move the output, counting the poles only."""
    points = points_of(found)
    return math.inf if points is None else _sum(1 / np.prod(spectrum(found, points)[1], axis=0), points)


# ---- integers ------------------------------------------------------------------------------------------------

COEFFICIENT_BITS = 30  # fractional
LIFT = 13  # by which samples are shifted left
LARGEST = (1 << 29) - 1  # of a section's output
_ROOM = 0.98  # headroom for rounding


@dataclass(frozen=True)
class SectionIntegers:
    """Coefficients with 30 fractional bits, [sections, 5]; an output of the last section is 2^13 * `gain` times the
    filter's output; `error`: the largest total rounding error, in the section's own steps."""

    coefficients: ArrayType
    gain: float
    error: float


def in_integers(found: Sequence[Section]) -> SectionIntegers | None:
    """Scales each section as much as its sum stays within 30 bits for all 16-bit samples."""
    points = points_of(found)
    if points is None:
        return None
    above, below = spectrum(found, points)
    gains, rows, before = [], [], 1.0
    for at, (b0, b1, b2, a1, a2) in enumerate(found):
        through = np.prod(above[: at + 1] / below[: at + 1], axis=0)
        gain = _ROOM * 2.0 / max(_sum(through, points), 1e-30)
        largest = max(abs(b0), abs(b1), abs(b2)) * gain / before
        gain *= min(1.0, 1.99 / largest) if largest else 1.0
        rows.append([b0 * gain / before, b1 * gain / before, b2 * gain / before, a1, a2])
        gains.append(gain)
        before = gain
    coefficients = np.round(np.array(rows) * 2.0**COEFFICIENT_BITS)
    z = np.exp(-2j * np.pi * np.arange(points // 2 + 1) / points)
    error = 0.0
    for at, gain in enumerate(gains):
        after = np.prod(above[at + 1 :] / below[at + 1 :], axis=0) * gains[-1] / gain
        error += 0.5 * _sum((1 - z) / below[at] * after, points)
    return SectionIntegers(np.clip(coefficients, -(2.0**31), 2.0**31 - 1).astype(np.int64), gains[-1], error)


def _sum(through: ArrayType, points: int) -> float:
    """Returns the sum of the magnitudes of an impulse response."""
    return float(np.abs(np.fft.irfft(through, points)).sum())
