"""Spectrograms in report.html: drawn without a script, a path for each shade."""

from itertools import groupby

from cortado.artifact.html import Markup, note
from cortado.artifact.report import Report, SpectrogramReport
from cortado.base.names import html_text

_SHADES = "0123456789abcdef"
_WIDTH, _TALL = 3, 4  # pixels of a frame and of a band


def spectrograms(report: Report) -> Markup:
    return Markup("\n".join(_picture(one) for one in report.spectrograms))


def _picture(one: SpectrogramReport) -> str:
    width, height = max((len(band) for band in one.shades), default=0), len(one.shades)
    paths = "".join(
        f'<path fill-opacity="{_SHADES.index(shade) / 15:.2f}" d="{path}"></path>'
        for shade in _SHADES[1:]
        if (path := _path(one, shade))
    )
    title = html_text(f"Spectrum of the example input: {one.layer}")
    return (
        f'<svg class="spectrogram" role="img" aria-label="{title}" viewBox="0 0 {width} {height}" '
        f'width="{_WIDTH * width}" height="{_TALL * height}" preserveAspectRatio="none">{paths}</svg>\n'
        + note(
            f"`{one.layer}`: {one.frames:,} frames to the right, {one.bands:,} bands upwards, as the device sees the "
            f"example input; from {one.low:.4g} (empty) to {one.high:.4g} (full)."
        )
    )


def _path(one: SpectrogramReport, shade: str) -> str:
    """Runs of frames of one shade, band by band, the lowest at the bottom."""
    pieces = []
    for number, band in enumerate(reversed(one.shades)):
        at = 0
        for found, run in groupby(band):
            length = len(list(run))
            if found == shade:
                pieces.append(f"M{at} {number}h{length}v1h-{length}z")
            at += length
    return "".join(pieces)
