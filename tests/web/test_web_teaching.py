"""The page of a model that is taught, in headless Chromium: a synthetic microphone, and the bits of the reference."""

import json
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import cortado
from cortado import Options
from cortado.base.errors import CortadoError
from cortado.learning import prototypes
from cortado.methods import CompiledMethods
from helpers.browser import Browser, chromium
from helpers.cli import Run

pytestmark = [
    pytest.mark.host,
    pytest.mark.xdist_group("teaching"),
    pytest.mark.filterwarnings("ignore::cortado.CortadoWarning"),
]
RATE, SAMPLES, FRAME, BANDS = 16_000, 4_096, 256, 16


class Bands(nn.Module):
    """How loud each band of a quarter of a second is; with a score of its own for how loud all of them are."""

    window: Tensor
    mel: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(FRAME))
        at = torch.arange(FRAME // 2 + 1)[:, None] * BANDS // (FRAME // 2 + 1)
        self.register_buffer("mel", (at == torch.arange(BANDS)).float())

    def forward(self, samples: Tensor) -> Tensor:
        frames = (samples.float() / 32768).unfold(1, FRAME, FRAME) * self.window
        energy = torch.fft.rfft(frames, FRAME).abs() @ self.mel
        found: Tensor = torch.relu(torch.log(energy + 1e-2) + 4.0).mean(1)
        return found


def tones(count: int, seed: int) -> Tensor:
    """Utterances of one frequency each, in 16 bits."""
    rng = np.random.default_rng(seed)
    at = np.arange(SAMPLES) / RATE
    waves = [rng.uniform(0.1, 0.6) * np.sin(2 * np.pi * rng.uniform(200, 7_000) * at) for _ in range(count)]
    return torch.from_numpy(np.round(32767 * np.stack(waves)).astype(np.int16))


@pytest.fixture(scope="module")
def taught() -> CompiledMethods:
    x = tones(24, 1)
    module = prototypes(Bands().eval(), 3, samples=x)
    options = module.options(Options(package=("web",)))
    return cortado.compile_methods(module, module.methods(x[:1]), "cortex-m4", module.calls(x), "tones", options)


@pytest.fixture(scope="module")
def folder(taught: CompiledMethods, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("taught") / "out"
    taught.save(place)
    return place


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream") as found:
        yield found


MICROPHONE = """
const hertz = arguments[0];
navigator.mediaDevices.getUserMedia = async () => {
  const context = new AudioContext(), tone = context.createOscillator(), loud = context.createGain();
  const to = context.createMediaStreamDestination();
  tone.frequency.value = hertz;
  loud.gain.value = 0.4;
  tone.connect(loud).connect(to);
  tone.start();
  await new Promise((done) => setTimeout(done, 300));
  return to.stream;
};
"""


def opened(browser: Browser, folder: Path) -> None:
    browser.open(folder / "web" / "index.html")
    browser.wait("window.cortado && cortado.ready")


def record(browser: Browser, hertz: float) -> None:
    """What a microphone hears that is held to a tone."""
    browser.run(MICROPHONE, hertz)
    calls = len(made(browser))
    browser.one("#microphone").click()
    browser.wait(f"cortado.calls.length > {calls} || cortado.error")
    assert browser.run("return cortado.error") is None
    browser.wait("document.getElementById('stop').disabled")


def made(browser: Browser) -> list[dict[str, Any]]:
    return list(json.loads(browser.run("return JSON.stringify(cortado.calls)")))


def test_what_a_microphone_hears_is_taught_and_found_again(
    browser: Browser, folder: Path, taught: CompiledMethods
) -> None:
    opened(browser, folder)
    for at, (name, hertz) in enumerate((("low", 600.0), ("high", 4_100.0))):
        browser.run(f"document.getElementById('name-{at}').value = '{name}'")
        for _ in range(2):
            record(browser, hertz)
            browser.one(f"#teach-{at}").click()
        assert browser.text(f"#count-{at}") == "2 examples"
    for name, hertz in (("low", 620.0), ("high", 4_000.0)):
        record(browser, hertz)
        assert browser.text("#heard .chip") == name
    browser.one("#forget-1").click()
    assert browser.text("#count-1") == "0 examples"
    assert browser.text("#heard .chip") == "low"
    calls = made(browser)
    assert [one["method"] for one in calls].count("learn") == 4
    script = [(one["method"], *map(_tensor, one["values"])) for one in calls]
    given, expected = taught.reference(script)
    assert [[one.ravel().tolist() for one in outputs] for outputs in expected] == [one["codes"] for one in calls]
    assert any(np.abs(one[0]).max() > 3_000 for one in given if one[0].size == SAMPLES)
    assert browser.said() == []


def _tensor(values: list[int]) -> Tensor:
    kind = torch.int16 if len(values) == SAMPLES else torch.int32
    return torch.tensor([values] if len(values) == SAMPLES else values, dtype=kind)


def test_a_sound_file_is_taught_by_its_loudest_part(browser: Browser, folder: Path, tmp_path: Path) -> None:
    opened(browser, folder)
    samples = np.zeros(4 * SAMPLES, np.int16)
    samples[2 * SAMPLES : 3 * SAMPLES] = tones(1, 5)[0].numpy()
    path = tmp_path / "tone.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    browser.one("input[type=file]").send_keys(str(path))
    browser.wait("cortado.calls.length === 1")
    assert made(browser)[0]["values"][0] == samples[2 * SAMPLES : 3 * SAMPLES].tolist()
    browser.one("#teach-2").click()
    assert browser.text("#heard .chip") == "class 2"
    assert browser.said() == []


def test_the_page_compares_calls_with_the_reference_and_knows_the_costs(browser: Browser, folder: Path) -> None:
    opened(browser, folder)
    browser.one("#compare").click()
    assert browser.text("#compared").startswith("bit-exact: all ")
    cards = [one.text for one in browser.all("#cost dt")]
    assert cards == ["time", "learning", "RAM", "flash"]
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.said() == []


def test_show_gives_the_page_of_the_folder(folder: Path, tmp_path: Path, run: Run) -> None:
    run("show", str(folder), "--write", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").read_bytes() == (folder / "web" / "index.html").read_bytes()


class Pictures(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


def test_methods_that_take_no_sound_have_no_page() -> None:
    x = torch.rand(12, 3, 8, 8)
    module = prototypes(Pictures().eval(), 2, samples=x)
    options = module.options(Options(package=("web",)))
    with pytest.raises(CortadoError, match=r"there is no page for them; expected .* samples of sound"):
        cortado.compile_methods(module, module.methods(x[:1]), "cortex-m4", module.calls(x), "pictures", options)
