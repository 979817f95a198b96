"""Spectra of the example input for the report: what the integer reference, and so the device, makes of them."""

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from cortado.artifact.report import SpectrogramReport
from cortado.ops.signal.spectrum import SPECTRUM
from cortado.plan.lowered import LoweredGraph

MOST_FRAMES, MOST_BANDS = 256, 128
LAST_SHADE = 15


def spectrogram_reports(graph: LoweredGraph, first: Mapping[str, Tensor]) -> tuple[SpectrogramReport, ...]:
    """Returns the spectrogram of every spectrum, given the reference's values for the example; of several channels the
    first."""
    names = [call.name for call in graph.calls if call.operator == SPECTRUM.name and call.name in first]
    return tuple(_report(graph, name, first[name]) for name in names)


def _report(graph: LoweredGraph, name: str, codes: Tensor) -> SpectrogramReport:
    known = graph.values[name].qparams
    scale, zero = (1.0, 0) if known is None else (known.scale, known.zero_point)
    frames = codes[0, :, 0, :].numpy().astype(np.int64)
    count, bands = frames.shape
    shown = frames[:: -(-count // MOST_FRAMES), :: -(-bands // MOST_BANDS)]
    low, high = int(shown.min()), int(shown.max())
    shades = (shown - low) * LAST_SHADE // max(1, high - low)
    return SpectrogramReport(
        layer=name,
        frames=count,
        bands=bands,
        low=(low - zero) * scale,
        high=(high - zero) * scale,
        shades=tuple("".join(f"{shade:x}" for shade in band) for band in shades.T),
    )
