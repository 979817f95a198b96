"""The picture of a spectrum in report.html: what the device sees of the example input."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado.api import Compiled
from cortado.api import compile as compile_model
from cortado.artifact.build_report import MOST_BANDS, MOST_FRAMES, spectrogram_reports
from cortado.artifact.page import build_page
from cortado.artifact.report import Report, SpectrogramReport
from cortado.base.errors import CortadoError
from cortado.options import Options

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # one sample
LENGTH, HOP, SAMPLES = 64, 32, 1024


class Rising(nn.Module):
    """Logarithms of the power of a sound."""

    window: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(LENGTH))

    def forward(self, x: Tensor) -> Tensor:
        found = torch.stft(x.float() / 32768, LENGTH, HOP, window=self.window, center=False, return_complex=True)
        return torch.log(found.abs().square() + 1e-2)


def sweep() -> Tensor:
    time = torch.arange(SAMPLES) / SAMPLES
    return (20000 * torch.sin(2 * torch.pi * (20 + 200 * time) * time)).round().to(torch.int16)[None]


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return compile_model(Rising(), (sweep(),), "cortex-m4", [(sweep(),)], name="rising", options=Options(artifacts="c"))  # type: ignore[arg-type]


def test_the_shades_are_those_of_the_models_own_spectrum(compiled: Compiled) -> None:
    (found,) = compiled.report.spectrograms
    wanted = Rising()(sweep())[0].numpy()
    assert (found.bands, found.frames) == wanted.shape == (len(found.shades), len(found.shades[0]))
    shades = np.array([[int(digit, 16) for digit in band] for band in found.shades])
    real = found.low + (found.high - found.low) * shades / 15
    assert np.abs(real + (found.high - found.low) / 30 - wanted).max() < (found.high - found.low) / 15 * 1.1
    assert shades.min() == 0
    assert shades.max() == 15


def test_the_page_has_the_picture_and_says_what_it_is(compiled: Compiled, tmp_path: Path) -> None:
    page = build_page(compiled.report)
    assert page.count('<svg class="spectrogram"') == 1
    assert "31 frames to the right, 33 bands upwards" in page
    assert build_page(Report.from_json(compiled.report.to_json(), "here")) == page
    assert "spectrogram" not in build_page(replace(compiled.report, spectrograms=())).partition("<body>")[2]


def test_a_long_recording_is_drawn_with_fewer_frames(compiled: Compiled) -> None:
    (found,) = compiled.report.spectrograms
    assert compiled.graph is not None
    codes = torch.zeros(1, 3 * MOST_FRAMES, 1, 2 * MOST_BANDS + 1, dtype=torch.int8)
    (long,) = spectrogram_reports(compiled.graph, {found.layer: codes})
    assert (long.frames, long.bands) == (3 * MOST_FRAMES, 2 * MOST_BANDS + 1)
    assert len(long.shades) <= MOST_BANDS
    assert len(long.shades[0]) <= MOST_FRAMES


def test_a_report_of_somebody_else_has_digits_or_is_refused(compiled: Compiled) -> None:
    (found,) = compiled.report.spectrograms
    bad: SpectrogramReport = replace(found, shades=("<script>",))
    with pytest.raises(CortadoError, match="hexadecimal digits"):
        Report.from_json(replace(compiled.report, spectrograms=(bad,)).to_json(), "here")
