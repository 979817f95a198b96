"""Masks, heat maps and boxes over the picture, in headless Chromium: what is drawn is what the codes say."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cortado
from cortado.artifact.opened import Artifact
from cortado.base.arrays import ArrayType
from cortado.web.facts import Shown
from cortado.web.package import INDEX, web_files
from helpers.browser import Browser, chromium

pytestmark = [pytest.mark.host]
HEIGHT, WIDTH = 12, 20
AREA = HEIGHT * WIDTH
CLASSES = ("sky", "road", "tree")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


class Segmenter(nn.Module):
    """Scores of classes at half the resolution."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.ReLU(), nn.Conv2d(8, classes, 1, bias=False)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layers(x - 0.4)
        return scores


class Labeller(Segmenter):
    """The number of the class of each place."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).argmax(1)


class Detector(nn.Module):
    """A box and scores for each of 15 places, in two outputs or side by side."""

    def __init__(self, *, joined: bool, size: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.ReLU(), nn.Conv2d(8, 7, 1))
        self.joined, self.size = joined, size

    def forward(self, x: torch.Tensor) -> Any:
        found = (4 * self.layers(x)).flatten(2).transpose(1, 2).sigmoid()
        if self.joined:
            return found * self.size
        return found[..., :4] * self.size, found[..., 4:]


def page_of(folder: Path, model: nn.Module, labels: tuple[str, ...] | None = None, **options: Any) -> Artifact:
    """The page, with random weights and colours."""
    batches = [(torch.rand(1, 3, HEIGHT, WIDTH),) for _ in range(16)]
    chosen = cortado.Options(artifacts="c", **options)
    made = cortado.compile(model.eval(), batches[0], "cortex-m4", batches, name="seen", options=chosen, labels=labels)
    artifact = made.save(folder / "seen")
    (folder / INDEX).write_text(str(web_files(Shown.opened(artifact))[INDEX]))
    return artifact


def opened(browser: Browser, folder: Path) -> None:
    """With a picture of its own, which no network was calibrated with."""
    browser.open(folder / INDEX, 1000, "light")
    browser.wait("window.cortado && cortado.ready")
    browser.run(
        "const g = cortado.picture.context;"
        "for (const [colour, ...box] of arguments[0]) { g.fillStyle = colour; g.fillRect(...box); }"
        "cortado.picture.changed();",
        [["#30a0f0", 0, 0, 9, 7], ["#d02010", 9, 2, 11, 4], ["#10c040", 3, 7, 9, 5], ["#ffffff", 12, 8, 5, 3]],
    )


def outputs(browser: Browser, artifact: Artifact) -> list[ArrayType]:
    """The codes that the C gives for what the page shows, in the model's order."""
    values = np.array(browser.run("return Array.from(cortado.picture.inputs()[0])"))
    if artifact.report.camera is None:
        checked = artifact.run([[values.astype(np.float32).reshape(1, 3, HEIGHT, WIDTH)]], "host")
    else:
        lines = artifact.report.camera.camera.size.height
        checked = artifact.run([[values.astype(np.uint8).reshape(lines, -1)]], "host")
    assert checked.bit_exact
    found = []
    for report, codes in zip(artifact.report.outputs, checked.result.samples[0], strict=True):
        memory = [report.model_shape[dim] for dim in report.layout]
        found.append(np.asarray(codes).astype(int).reshape(memory).transpose(np.argsort(report.layout)))
    return found


def scale_of(artifact: Artifact, at: int) -> tuple[float, int]:
    report = artifact.report.outputs[at]
    assert report.scale is not None
    assert report.zero_point is not None
    return report.scale, report.zero_point


def pixels(browser: Browser, selector: str) -> ArrayType:
    found = browser.run(
        "const one = document.querySelector(arguments[0]);"
        "const image = one.getContext('2d').getImageData(0, 0, one.width, one.height);"
        "return [one.width, one.height, Array.from(image.data)]",
        selector,
    )
    return np.array(found[2]).reshape(found[1], found[0], 4)


def legend(browser: Browser) -> dict[tuple[int, ...], str]:
    """The text beside each colour."""
    rows = browser.run(
        "return [...document.querySelectorAll('.legend li')].map((one) => "
        "[getComputedStyle(one.firstChild).backgroundColor.match(/\\d+/g).map(Number), one.textContent])"
    )
    return {tuple(colour): text for colour, text in rows}


def covers(browser: Browser) -> list[float]:
    """Where the drawing lies in the picture, as parts of it: left, top, right, bottom."""
    found: list[float] = browser.run(
        "const [a, b] = ['.over', '.stack'].map((one) => document.querySelector(one).getBoundingClientRect());"
        "return [(a.left - b.left) / b.width, (a.top - b.top) / b.height,"
        " (a.right - b.left) / b.width, (a.bottom - b.top) / b.height]"
    )
    return found


def choose(browser: Browser, name: str, text: str) -> None:
    browser.run(
        "const one = document.getElementById(arguments[0]);"
        "one.selectedIndex = [...one.options].findIndex((option) => option.text === arguments[1]);"
        "one.dispatchEvent(new Event('change'))",
        name,
        text,
    )


def views(browser: Browser, output: int = 0) -> list[str]:
    return [one.text for one in browser.all(f"#view-{output} option")]


# ---- masks and heat maps --------------------------------------------------------------------------------------------


def shares(best: ArrayType, names: tuple[str, ...]) -> dict[str, str]:
    """The lines of a legend by the class's name."""
    return {names[k]: f"{names[k]}: {100 * (best == k).mean():.1f} %" for k in np.unique(best)}


@pytest.fixture(scope="module")
def segmented(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    torch.manual_seed(3)
    return page_of(tmp_path_factory.mktemp("segmented"), Segmenter(3), CLASSES)


def check_mask(browser: Browser, best: ArrayType, names: tuple[str, ...]) -> None:
    assert len(np.unique(best)) > 1
    found = legend(browser)
    assert {text.partition(":")[0]: text for text in found.values()} == shares(best, names)
    drawn = pixels(browser, ".over")
    assert (drawn[..., 3] == 255).all()
    of = [[found[tuple(one)].partition(":")[0] for one in row] for row in drawn[..., :3].tolist()]
    assert of == [[names[k] for k in row] for row in best]
    assert covers(browser) == pytest.approx([0, 0, 1, 1], abs=1e-3)
    assert browser.run("return getComputedStyle(document.querySelector('.over')).opacity") == "0.5"
    assert browser.said() == []


def test_a_mask_has_the_best_class_of_each_place(browser: Browser, segmented: Artifact) -> None:
    opened(browser, segmented.folder.parent)
    (codes,) = outputs(browser, segmented)
    assert codes.shape == (1, 3, HEIGHT // 2, WIDTH // 2)
    check_mask(browser, codes[0].argmax(0), CLASSES)


def test_numbers_of_classes_are_a_mask(browser: Browser, tmp_path: Path) -> None:
    torch.manual_seed(3)
    artifact = page_of(tmp_path, Labeller(3))
    opened(browser, tmp_path)
    (codes,) = outputs(browser, artifact)
    check_mask(browser, codes[0], ("0", "1", "2"))


def test_a_heat_map_has_the_codes_of_its_channel(browser: Browser, segmented: Artifact) -> None:
    opened(browser, segmented.folder.parent)
    assert views(browser) == ["mask", *(f"heat map of {name}" for name in CLASSES), "picture", "curve", "numbers"]
    choose(browser, "view-0", "heat map of road")
    (codes,) = outputs(browser, segmented)
    drawn = pixels(browser, ".over")
    assert (drawn[..., 0] == codes[0, 1] + 128).all()
    assert (drawn[..., 2] == 127 - codes[0, 1]).all()
    ends = browser.run("return [...document.querySelectorAll('.legend span')].map((one) => Number(one.textContent))")
    scale, zero = scale_of(segmented, 0)
    assert ends == pytest.approx([scale * (-128 - zero), scale * (127 - zero)], rel=1e-3)
    choose(browser, "view-0", "numbers")
    assert browser.all(".over") == []
    choose(browser, "view-0", "picture")
    assert browser.all(".over") == []
    assert (pixels(browser, "#results canvas")[..., 0] == codes[0, 0] + 128).all()
    assert browser.said() == []


def test_one_channel_is_a_heat_map_and_stays_where_the_camera_looks(browser: Browser, tmp_path: Path) -> None:
    torch.manual_seed(5)
    artifact = page_of(tmp_path, Segmenter(1), input_format="rgb888", input_size="40x32", crop="10,8,20x12")
    opened(browser, tmp_path)
    assert views(browser) == ["heat map", "picture", "numbers"]
    (codes,) = outputs(browser, artifact)
    assert (pixels(browser, ".over")[..., 0] == codes[0, 0] + 128).all()
    assert covers(browser) == pytest.approx([10 / 40, 8 / 32, 30 / 40, 20 / 32], abs=2e-3)
    assert browser.said() == []


# ---- boxes ----------------------------------------------------------------------------------------------------------


def overlap(a: ArrayType, b: ArrayType) -> float:
    both = np.prod(np.maximum(0, np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])))
    return float(both / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - both))


def detections(boxes: ArrayType, scores: ArrayType, least: float, most: float) -> list[tuple[int, int]]:
    """Rows and classes of the boxes that are to be drawn, best first."""
    kept: list[tuple[int, int]] = []
    for row in np.argsort(-scores.max(1), kind="stable"):
        index = int(scores[row].argmax())
        better = [other for other, its in kept if its == index]
        if scores[row].max() >= least and all(overlap(boxes[one], boxes[row]) <= most for one in better):
            kept.append((int(row), index))
    return kept


def reals(artifact: Artifact, codes: list[ArrayType]) -> list[ArrayType]:
    scales = [scale_of(artifact, at) for at in range(len(codes))]
    return [(one[0] - zero) * scale for one, (scale, zero) in zip(codes, scales, strict=True)]


def check_drawn(browser: Browser, boxes: ArrayType, scores: ArrayType, least: float, most: float) -> None:
    """`boxes`: left, top, right, bottom, as parts of the picture."""
    expected = detections(boxes, scores, least, most)
    assert expected
    drawn = browser.run("return cortado.boxes")
    assert [(one["row"], one["index"]) for one in drawn] == expected
    where = [[one[side] for side in ("left", "top", "right", "bottom")] for one in drawn]
    assert np.allclose(where, boxes[[row for row, _ in expected]], atol=1e-5)
    image = pixels(browser, ".over")
    height, width = image.shape[:2]
    left, top, right, bottom = (boxes[expected[0][0]] * [width, height, width, height]).round().astype(int)
    colour = browser.run("return classColour(arguments[0])", expected[0][1])
    inside = [
        (y, x)
        for y, x in ((bottom, (left + right) // 2), ((top + bottom) // 2, right))
        if 0 < y < height and 0 < x < width
    ]
    assert inside
    for y, x in inside:  # the best one's frame lies on top
        assert [*colour, 255] in image[y - 1 : y + 1, x - 1 : x + 1].reshape(-1, 4).tolist()


def corners(found: ArrayType) -> ArrayType:
    x, y, w, h = found.T
    return np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 1)


def test_boxes_of_two_outputs_are_corners_of_the_whole_picture(browser: Browser, tmp_path: Path) -> None:
    torch.manual_seed(6)
    artifact = page_of(tmp_path, Detector(joined=False, size=1.0), CLASSES)
    opened(browser, tmp_path)
    boxes, scores = reals(artifact, outputs(browser, artifact))
    assert views(browser) == ["boxes", "numbers"]
    check_drawn(browser, boxes, scores, 0.5, 0.5)
    shown = browser.text("#results .note")
    first = detections(boxes, scores, 0.5, 0.5)[0]
    assert shown.startswith(f"{CLASSES[first[1]]} {scores[first[0]].max():.2f}")
    browser.run("const one = document.getElementById('most-0'); one.value = 1; one.dispatchEvent(new Event('change'))")
    check_drawn(browser, boxes, scores, 0.5, 1)
    choose(browser, "form-0", "centre x, y, width, height")
    check_drawn(browser, corners(boxes), scores, 0.5, 1)
    assert browser.said() == []


def test_boxes_beside_their_scores_are_centres_and_pixels(browser: Browser, tmp_path: Path) -> None:
    torch.manual_seed(7)
    artifact = page_of(tmp_path, Detector(joined=True, size=12.0))
    opened(browser, tmp_path)
    (found,) = reals(artifact, outputs(browser, artifact))
    assert views(browser) == ["boxes", "curve", "numbers"]
    assert browser.run("return document.getElementById('unit-0').value") == "pixels"
    in_parts = corners(found[:, :4]) / [WIDTH, HEIGHT, WIDTH, HEIGHT]
    check_drawn(browser, in_parts, found[:, 4:], 0.5, 0.5)
    browser.run(
        "const one = document.getElementById('least-0'); one.value = 99; one.dispatchEvent(new Event('change'))"
    )
    assert browser.text("#results .note") == "No box has that score."
    assert not pixels(browser, ".over").any()
    assert browser.said() == []
