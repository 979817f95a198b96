"""The tables of a spectrum in the order in which the kernels of each kind of core read them.

Portable: the window, places and words of twiddles, as they are. Without vector instructions: the window as a stream,
with the places (spectrum_loops_s16__scalar_dsp.h). With them: all tables for four butterflies at a time
(spectrum_loops_s16__mve.h).
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

import numpy as np

from cortado.base.arrays import ArrayType
from cortado.base.target import Core
from cortado.ir.kernel import Array, Field
from cortado.ops._fft import Fft

FOUR = 4
LEGS = (0, 2, 1, 3)  # in the order in which butterflies of radix 4 take them


class SpectrumLayout(Enum):
    PLAIN = auto()
    STREAM = auto()
    VECTORS = auto()


def layout_of(fft: Fft, core: Core) -> SpectrumLayout:
    """Vectors take four butterflies of every stage; other lengths run without."""
    if core is Core.MVE and fft.pairs % FOUR == 0:
        return SpectrumLayout.VECTORS
    return SpectrumLayout.PLAIN if core is Core.PORTABLE else SpectrumLayout.STREAM


def scratch_bytes(fft: Fft, window: int, layout: SpectrumLayout) -> int:
    """Complex numbers, one more than there are pairs, and the samples; vectors read those of two legs at least."""
    pairs = -(-window // 2)
    return 8 * (fft.pairs + 1) + 4 * (max(pairs, fft.pairs // 2) if layout is SpectrumLayout.VECTORS else pairs)


def spectrum_tables(
    fft: Fft, window: ArrayType, weights: ArrayType, counts: ArrayType, layout: SpectrumLayout
) -> dict[str, Field]:
    """Of all stages the radix, and their twiddles one after the other; window and weights."""
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
    """Cosine below, sine above."""
    return ((sines << 16) | (cosines & 0xFFFF)).astype(np.uint32).astype(np.int32).reshape(-1)


def _stream(fft: Fft, window: ArrayType) -> ArrayType:
    """Of each butterfly the window of the legs that hold samples, and the byte at which its results begin."""
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
    """Butterflies, four at a time: the window of even and of odd samples of each leg, and where results begin."""
    found = []
    for first in numbers[::FOUR]:
        at = np.arange(first, min(first + FOUR, numbers.stop))
        for leg in (leg for leg in LEGS if leg < legs):
            pair = 2 * (at + leg * (fft.pairs // FOUR))
            found += [_four(window[pair]), _four(window[pair + 1])]
        found.append(_four(4 * FOUR * fft.places[at]))
    return found


def _twiddles(cosines: ArrayType, sines: ArrayType) -> ArrayType:
    """Of [k][leg]: four k at a time, the cosines and the sines of each leg."""
    found = []
    for k in range(0, len(cosines), FOUR):
        for leg in range(cosines.shape[1]):
            found += [_four(cosines[k : k + FOUR, leg]), _four(sines[k : k + FOUR, leg])]
    return _joined(found, np.int16)


def _padded_weights(weights: ArrayType, counts: ArrayType) -> ArrayType:
    """Each band's with zeros up to a multiple of four."""
    bands = np.split(weights, np.cumsum(counts)[:-1])
    return np.concatenate([_four(band) for band in bands])


def _four(values: ArrayType) -> ArrayType:
    return np.pad(values, (0, -len(values) % FOUR))
