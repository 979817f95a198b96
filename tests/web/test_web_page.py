"""The page of a model in headless Chromium: sound, pictures, tables; the bits of the device; refusals in words."""

import base64
import json
import re
import time
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from selenium.webdriver import ActionChains, Keys
from torch import nn

import cortado
from cortado.artifact.opened import Artifact
from cortado.artifact.streamed import push_codes
from cortado.base.arrays import ArrayType
from cortado.web.facts import PageSound, Shown
from cortado.web.package import INDEX, web_files
from helpers.browser import Browser, chromium
from helpers.keyword import GROUP, Spotted

pytestmark = [pytest.mark.host, pytest.mark.xdist_group(GROUP)]
HOSTILE = "</script><img src=x onerror=\"document.title='taken'\"><!--"


def sound_of(spotted: Spotted) -> tuple[Path, ArrayType]:
    path = spotted.bundle.with_suffix(".wav")
    with wave.open(str(path)) as file:
        return path, np.frombuffer(file.readframes(file.getnframes()), "<i2")


@pytest.fixture(scope="module")
def browser(spotted: Spotted) -> Iterator[Browser]:
    """Its microphone hears the recording of the example, again and again."""
    path, _ = sound_of(spotted)
    fakes = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    with chromium(*fakes, f"--use-file-for-fake-audio-capture={path}") as found:
        yield found


@pytest.fixture(scope="module")
def spotter(spotted: Spotted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    _, samples = sound_of(spotted)
    return written(cortado.load(spotted.bundle, trust=True), tmp_path_factory.mktemp("spotter"), samples)


def written(artifact: Artifact, folder: Path, samples: ArrayType | None = None) -> Path:
    recordings = [] if samples is None else [PageSound("words", 16_000, samples)]
    (folder / INDEX).write_text(str(web_files(Shown.opened(artifact, recordings))[INDEX]))
    return folder / INDEX


def compiled(folder: Path, model: nn.Module, shape: tuple[int, ...], **options: Any) -> Artifact:
    torch.manual_seed(0)
    batches = [(torch.rand(shape),) for _ in range(16)]
    labels = options.pop("labels", None)
    chosen = cortado.Options(artifacts="c", **options)
    made = cortado.compile(model.eval(), batches[0], "cortex-m4", batches, name="pro be", options=chosen, labels=labels)
    return made.save(folder / "probe")


def opened(browser: Browser, page: Path, width: int = 1000, scheme: str = "light") -> None:
    browser.open(page, width, scheme)
    browser.wait("window.cortado && cortado.ready")


def state(browser: Browser, name: str) -> Any:
    return json.loads(browser.run(f"return JSON.stringify(cortado.{name})"))


# ---- sound ----------------------------------------------------------------------------------------------------------


def test_a_recording_gives_the_words_of_the_board(browser: Browser, spotter: Path, spotted: Spotted) -> None:
    opened(browser, spotter)
    browser.one("#recording-0").click()
    browser.one("#compare").click()
    assert browser.said() == []
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    assert browser.text("#compared") == "bit-exact: all 12 output values"
    heard = [f"{one['seconds']:5.2f} s: {one['label']}" for one in state(browser, "heard")]
    assert heard == re.findall(r"^ *\d+\.\d+ s: \w+$", spotted.printed, re.MULTILINE)
    pushed = push_codes(cortado.load(spotted.bundle, trust=True), sound_of(spotted)[1], "host")
    assert state(browser, "scores") == pushed.codes[0].reshape(-1, 12).tolist()


def test_what_the_microphone_heard_gives_the_same_bits_again(browser: Browser, spotter: Path, spotted: Spotted) -> None:
    """Which words are heard depends on where a hop begins; the bits of what was heard do not."""
    opened(browser, spotter)
    browser.one("#microphone").click()
    browser.wait("cortado.scores.length > 40")
    browser.one("#stop").click()
    browser.wait("document.getElementById('say').textContent === 'Stopped.'")
    assert browser.said() == []
    track = state(browser, "track")
    assert [track[name] for name in ("echoCancellation", "noiseSuppression", "autoGainControl")] == [False] * 3
    hops = np.array(state(browser, "hops"), np.int16)
    assert hops.any()
    pushed = push_codes(cortado.load(spotted.bundle, trust=True), hops.reshape(-1), "host")
    assert state(browser, "scores") == pushed.codes[0].reshape(-1, 12).tolist()


def test_a_tab_in_the_background_loses_no_sound(browser: Browser, spotter: Path, spotted: Spotted) -> None:
    opened(browser, spotter)
    browser.run(
        "window.seen = []; document.addEventListener('visibilitychange', () => "
        "seen.push([document.visibilityState, performance.now(), cortado.hops.length]))"
    )
    browser.one("#microphone").click()
    browser.wait("cortado.scores.length > 10")
    page = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("tab")
    time.sleep(2)
    browser.driver.close()
    browser.driver.switch_to.window(page)
    browser.wait("seen.length === 2")
    (gone, begin, before), (back, end, after) = browser.run("return seen")
    assert (gone, back) == ("hidden", "visible")
    assert (after - before) * 20 == pytest.approx(end - begin, rel=0.2)  # a hop has 20 ms
    browser.wait(f"cortado.hops.length > {after + 10}")
    browser.one("#stop").click()
    browser.wait("document.getElementById('say').textContent === 'Stopped.'")
    pushed = push_codes(
        cortado.load(spotted.bundle, trust=True), np.array(state(browser, "hops"), np.int16).ravel(), "host"
    )
    assert state(browser, "scores") == pushed.codes[0].reshape(-1, 12).tolist()
    assert browser.said() == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NotAllowedError", "The browser denied access."),
        ("NotFoundError", "No such device was found."),
        ("NotReadableError", "Another program is using the device."),
        (None, "browsers allow it on https, on localhost and from a file"),
    ],
)
def test_a_microphone_that_cannot_be_used_is_told(
    browser: Browser, spotter: Path, name: str | None, words: str
) -> None:
    opened(browser, spotter)
    fails = (
        "Object.defineProperty(navigator, 'mediaDevices', {value: undefined})"
        if name is None
        else f"navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('', '{name}'))"
    )
    browser.run(fails)
    browser.one("#microphone").click()
    browser.wait("cortado.error !== null")
    assert words in browser.text("#say")
    browser.one("#recording-0").click()  # goes on
    assert len(state(browser, "heard")) == 3


def give(browser: Browser, name: str, data: bytes) -> None:
    browser.run(
        "const bytes = Uint8Array.from(atob(arguments[1]), (one) => one.charCodeAt(0));"
        "return cortado.open(new File([bytes], arguments[0]))",
        name,
        base64.b64encode(data).decode(),
    )


def test_sound_files_of_any_rate_are_heard(browser: Browser, spotter: Path, spotted: Spotted, tmp_path: Path) -> None:
    path, samples = sound_of(spotted)
    opened(browser, spotter)
    give(browser, "same.wav", path.read_bytes())
    assert [one["label"] for one in state(browser, "heard")] == ["yes", "no", "left"]
    twice = tmp_path / "twice.wav"
    with wave.open(str(twice), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(32_000)
        file.writeframes(np.repeat(samples, 2).tobytes())
    give(browser, "twice.wav", twice.read_bytes())
    assert len(state(browser, "hops")) == pytest.approx(len(samples) / 320, abs=2)
    assert "yes" in [one["label"] for one in state(browser, "heard")]
    give(browser, "none.wav", b"RIFF\0\0\0\0WAVEfmt ")
    assert "none.wav is no sound that this browser can read." in browser.text("#say")


# ---- pictures and tables --------------------------------------------------------------------------------------------


class Lines(nn.Module):
    """Whether a picture of 12x12 has more in its left or in its right half."""

    mask: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        half = torch.zeros(1, 1, 1, 12)
        half[..., :6] = 1
        self.register_buffer("mask", half)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = (x * self.mask).mean((1, 2, 3)), (x * (1 - self.mask)).mean((1, 2, 3))
        return (8 * torch.stack([left, right], 1)).softmax(1)


def draw_left(browser: Browser) -> None:
    canvas = browser.one("canvas.seen")
    actions = ActionChains(browser.driver).move_to_element_with_offset(canvas, -70, -60).click_and_hold()
    actions.move_by_offset(0, 60).move_by_offset(0, 50).release().perform()


def test_what_is_drawn_is_recognised(browser: Browser, tmp_path: Path) -> None:
    artifact = compiled(tmp_path, Lines(), (1, 1, 12, 12), labels=("left", "right"))
    opened(browser, written(artifact, tmp_path))
    browser.one("#clear").click()
    draw_left(browser)
    assert browser.text(".bars .best") == "left"
    values = np.array(browser.run("return Array.from(cortado.picture.inputs()[0])"), np.float32)
    checked = artifact.run([[values.reshape(1, 1, 12, 12)]], "host")
    assert checked.bit_exact
    assert state(browser, "results") == [codes.ravel().tolist() for codes in checked.result.samples[0]]
    assert [browser.one(f"#{end}").get_property("value") for end in ("black", "white")] == ["0", "1"]
    browser.one("#example").click()
    assert state(browser, "results") == [codes.ravel().tolist() for codes in artifact.recorded()[1]]
    assert browser.said() == []


@pytest.mark.parametrize("form", ["rgb565", "rgb888", "yuyv"])
def test_a_camera_goes_through_the_integers_of_the_device(browser: Browser, tmp_path: Path, form: str) -> None:
    artifact = compiled(tmp_path, Lines(), (1, 3, 12, 12), input_format=form, input_size="24x24", resize="12x12")
    opened(browser, written(artifact, tmp_path))
    browser.one("#camera").click()
    browser.wait("!document.getElementById('stop').disabled")
    browser.wait("cortado.picture.context.getImageData(12, 12, 1, 1).data[1] > 0")
    browser.one("#stop").click()
    draw_left(browser)
    lines = np.array(browser.run("return Array.from(cortado.picture.inputs()[0])"), np.uint8).reshape(24, -1)
    checked = artifact.run([[lines]], "host")
    assert checked.bit_exact
    assert state(browser, "results") == [codes.ravel().tolist() for codes in checked.result.samples[0]]
    browser.one("#compare").click()
    assert browser.text("#compared").startswith("bit-exact")
    assert browser.said() == []


def test_numbers_are_set_by_keys_alone(browser: Browser, tmp_path: Path) -> None:
    artifact = compiled(tmp_path, nn.Linear(4, 3), (1, 4))
    opened(browser, written(artifact, tmp_path))
    before = state(browser, "results")
    browser.run("document.getElementById('example').focus()")
    ActionChains(browser.driver).send_keys(Keys.TAB, Keys.TAB, Keys.HOME).perform()
    assert browser.run("return document.activeElement.type") == "range"
    assert state(browser, "results") != before
    ActionChains(browser.driver).key_down(Keys.SHIFT).send_keys(Keys.TAB, Keys.TAB).key_up(Keys.SHIFT).perform()
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    assert state(browser, "results") == before
    assert browser.said() == []


def test_rows_of_motion_are_pushed(browser: Browser, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, (4, 3)), nn.ReLU(), nn.Flatten())
    artifact = compiled(tmp_path, model, (1, 1, 4, 3), stream=2)
    opened(browser, written(artifact, tmp_path))
    browser.one("#random").click()
    browser.one("#run").click()
    browser.wait("cortado.scores.length > 3")
    browser.one("#stop").click()
    rows = np.array(state(browser, "hops"), np.float32)
    found = push_codes(artifact, rows, "host").codes[0].reshape(-1, 4).tolist()
    assert state(browser, "scores") == found
    assert browser.said() == []


# ---- the page itself ------------------------------------------------------------------------------------------------


def test_a_difference_is_shown(browser: Browser, tmp_path: Path) -> None:
    page = written(compiled(tmp_path, nn.Linear(4, 3), (1, 4)), tmp_path)
    text = page.read_text()
    (wanted,) = re.findall(r'"outputs": \["([^"]+)"\]\}', text)
    codes = bytearray(base64.b64decode(wanted))
    codes[1] ^= 1
    page.write_text(text.replace(wanted, base64.b64encode(codes).decode()))
    opened(browser, page)
    browser.one("#compare").click()
    assert browser.text("#compared").startswith("differs first at output0[1]: ")


def test_names_stay_text_and_no_other_script_runs(browser: Browser, tmp_path: Path) -> None:
    artifact = compiled(tmp_path, nn.Linear(4, 3), (1, 4), labels=(HOSTILE, "@FACTS@", "c"))
    opened(browser, written(artifact, tmp_path))
    assert browser.said() == []
    assert browser.all("img") == []
    assert browser.driver.title == "pro be: try it"
    assert [one.text for one in browser.all(".bars li > span:first-child")][:2] == [HOSTILE, "@FACTS@"]
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'document.title = 1'; document.body.append(s)"
    )
    assert browser.driver.title == "pro be: try it"
    (told,) = browser.said()
    assert "Content Security Policy" in told
    loaded = browser.run("return fetch('data:text/plain,x').then(() => 'loaded', () => 'refused')")
    assert loaded == "refused"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_has_room_for_the_page(browser: Browser, spotter: Path, scheme: str) -> None:
    opened(browser, spotter, 390, scheme)
    browser.one("#recording-0").click()
    assert browser.run("return document.documentElement.scrollWidth") <= 390
    ratios = browser.run(CONTRAST, ["h1", ".note", "button", "#say", ".bars .number", "#cost dt", "#cost .figure"])
    assert min(ratios) >= 4.5


CONTRAST = """
const parse = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = (rgb) => { const [r, g, b] = rgb.map(linear); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
const behind = (one) => { for (; one; one = one.parentElement) { const c = getComputedStyle(one).backgroundColor;
  if (!c.startsWith('rgba(0, 0, 0, 0')) return c } return 'rgb(255, 255, 255)' };
return arguments[0].map((selector) => { const one = document.querySelector(selector);
  const text = light(parse(getComputedStyle(one).color)), back = light(parse(behind(one)));
  return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05) });
"""


def test_a_chip_that_is_chosen_has_its_figures(browser: Browser, spotter: Path, spotted: Spotted) -> None:
    opened(browser, spotter)
    report = cortado.load(spotted.bundle, trust=True).report
    assert report.memory is not None
    chips = state(browser, "facts.chips")
    assert browser.run("return document.getElementById('chip').value").startswith("stm32f401")
    small = next(i for i, chip in enumerate(chips) if chip["ram"] < 32_768 and chip["cpu"] == "cortex-m0")
    figures = {}
    for index in (small, next(i for i, chip in enumerate(chips) if chip["cpu"] == "cortex-m55")):
        browser.run("const c = document.getElementById('chip'); c.selectedIndex = arguments[0]; c.onchange()", index)
        figures[chips[index]["cpu"]] = [one.text for one in browser.all("#cost .figure")]
    assert all(f"{report.memory.arena_bytes:,} bytes" == found[2] for found in figures.values())
    slow, fast = (float(figures[cpu][0].split()[0]) for cpu in ("cortex-m0", "cortex-m55"))
    assert slow > 20 * fast > 0
