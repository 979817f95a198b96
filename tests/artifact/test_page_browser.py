"""report.html in headless Chromium: nothing on the console, a picture that says what report.json says."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from selenium.webdriver import ActionChains, Keys
from torch import Tensor, nn

import cortado
from cortado.artifact.comparison import compare, named
from cortado.artifact.manifest import REPORT
from cortado.artifact.opened import PAGE, Artifact
from cortado.artifact.page import build_page
from cortado.artifact.pages import INDEX, build_index
from helpers.browser import Browser, chromium
from helpers.networks import prepared

pytestmark = pytest.mark.xdist_group("browser")


class Smoothed(nn.Module):
    """Rings (convolutions in one stage), an overlay (a ReLU behind an addition), and state."""

    level: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()
        )
        self.shrink = nn.Conv2d(8, 4, 3, stride=2)
        self.register_buffer("level", torch.zeros(1, 4, 7, 7))

    def forward(self, x: Tensor) -> Tensor:
        y = self.shrink(self.features(x))
        self.level = 0.5 * self.level + 0.5 * y
        return y - self.level


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    batches = [(torch.randn(1, 3, 16, 16),) for _ in range(32)]
    compiled = cortado.compile(Smoothed().eval(), batches[0], "cortex-m4", batches, name="smoothed")
    return compiled.save(tmp_path_factory.mktemp("page") / "smoothed").folder


@pytest.fixture(scope="module")
def report(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / REPORT).read_text())
    return found


def rectangle(browser: Browser, name: str) -> dict[str, float]:
    return {
        key: float(value)
        for key, value in browser.run(
            "const r = document.querySelector(`.buffer[data-name='${arguments[0]}']`);"
            "return Object.fromEntries(['x', 'y', 'width', 'height'].map((key) => [key, r.getAttribute(key)]))",
            name,
        ).items()
    }


# ---- the picture ----------------------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400])
def test_every_buffer_is_drawn_where_it_lies(
    browser: Browser, folder: Path, report: dict[str, Any], width: int, scheme: str
) -> None:
    browser.open(folder / PAGE, width, scheme)
    assert browser.said() == []
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    memory = report["memory"]
    kinds = {one["kind"] for one in memory["buffers"]}
    assert {"ring", "state", "input", "output"} <= kinds
    assert any(one["over"] for one in memory["buffers"])
    drawn = [rect.get_attribute("data-name") for rect in browser.all(".buffer")]
    assert sorted(map(str, drawn)) == sorted(one["name"] for one in memory["buffers"])
    plot = browser.run(
        "const r = document.querySelector('#map-clip rect'); return r.getBBox().toJSON?.() ?? "
        "{x: r.getBBox().x, y: r.getBBox().y, width: r.getBBox().width, height: r.getBBox().height}"
    )
    per_byte, per_moment = plot["height"] / memory["arena_bytes"], plot["width"] / len(memory["timeline"])
    for one in memory["buffers"]:
        found = rectangle(browser, one["name"])
        assert found["x"] - plot["x"] == pytest.approx(one["start"] * per_moment, abs=1)
        assert found["width"] == pytest.approx((one["end"] - one["start"]) * per_moment, abs=2)
        bottom = plot["y"] + plot["height"] - found["y"] - found["height"]
        assert bottom == pytest.approx(one["offset"] * per_byte, abs=3)
        assert found["height"] == pytest.approx(one["bytes"] * per_byte, abs=3)
    hatched = sum(len(one["over"]) for one in memory["buffers"])
    rings = sum(one["ring_rows"] is not None for one in memory["buffers"])
    assert (len(browser.all(".hatch.hatch")), len(browser.all(".hatch.rows"))) == (hatched + rings, rings)
    assert len(browser.all(".lasting")) == sum(one["persists"] for one in memory["buffers"]) > len(report["state"]) > 0


def test_the_page_fits_a_narrow_screen(browser: Browser, folder: Path) -> None:
    browser.open(folder / PAGE, 400)
    assert browser.run("return document.documentElement.scrollWidth") <= 400
    outside = browser.run(
        "return [...document.querySelectorAll('.arena text')].filter((t) => { const r = t.getBoundingClientRect();"
        "return r.left < 0 || r.right > 400 }).map((t) => t.textContent)"
    )
    assert outside == []


CONTRAST = """
const parse = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = (rgb) => { const [r, g, b] = rgb.map(linear);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b };
const behind = (one) => { for (; one; one = one.parentElement) { const c = getComputedStyle(one).backgroundColor;
  if (!c.startsWith('rgba(0, 0, 0, 0')) return c } return 'rgb(255, 255, 255)' };
return arguments[0].map((selector) => { const one = document.querySelector(selector), style = getComputedStyle(one);
  const text = light(parse(one.closest('svg') ? style.fill : style.color)), back = light(parse(behind(one)));
  return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05) });
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(browser: Browser, folder: Path, scheme: str) -> None:
    """4.5 to 1, as WCAG asks for."""
    browser.open(folder / PAGE, scheme=scheme)
    ratios = browser.run(
        CONTRAST, ["h1", ".note", ".card .more", "th", "td", ".arena svg text", "text.peak", ".details"]
    )
    assert min(ratios) >= 4.5
    dark = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(18, 23, 29)") == (scheme == "dark")


# ---- figures --------------------------------------------------------------------------------------------------------


def test_figures_are_those_of_the_report(browser: Browser, folder: Path, report: dict[str, Any]) -> None:
    browser.open(folder / PAGE)
    memory = report["memory"]
    assert browser.text("#arena-top") == f"arena {memory['arena_bytes']:,} bytes"
    most = max(moment["bytes"] for moment in memory["timeline"])
    assert browser.text("#ram-peak").startswith(f"peak: {most:,} bytes, stage ")
    cards = [card.text for card in browser.all(".card")]
    flash = report["flash"]
    assert any(f"{memory['arena_bytes']:,} bytes" in card for card in cards)
    assert any(f"{flash['weights_bytes'] + flash['code_bytes']:,} bytes" in card for card in cards)
    rows = browser.run(
        "return [...document.querySelectorAll('#layers tbody tr')].map((row) => [...row.cells].slice(4).map("
        "(cell) => Number(cell.dataset.value)))"
    )
    keys = ("weights_bytes", "macs", "estimated_cycles")
    assert rows == [[layer[key] for key in keys] for layer in report["layers"]]
    curve = browser.run("const r = document.getElementById('ram-curve').getBBox(); return [r.width, r.height]")
    assert min(curve) > 50


def test_a_table_is_sorted_by_its_columns(browser: Browser, folder: Path, report: dict[str, Any]) -> None:
    browser.open(folder / PAGE)

    def products() -> list[float]:
        cells = (
            "return [...document.querySelectorAll('#layers tbody tr')].map((row) => Number(row.cells[5].dataset.value))"
        )
        found: list[float] = browser.run(cells)
        return found

    given = [layer["macs"] for layer in report["layers"]]
    head = browser.all("#layers th button")[5]
    for expected in (sorted(given, reverse=True), sorted(given), given):
        head.click()
        assert products() == expected


# ---- hover and keys -------------------------------------------------------------------------------------------------


def test_pointing_at_a_buffer_names_it(browser: Browser, folder: Path, report: dict[str, Any]) -> None:
    browser.open(folder / PAGE)
    level = report["state"][0]
    ActionChains(browser.driver).move_to_element(browser.one(f".buffer[data-name='{level['node']}']")).perform()
    tip, said = browser.text("#arena-tip"), browser.text("#arena-details")
    assert tip == f"state 'level': {level['bytes']:,} bytes at {level['offset']:,}"
    assert "persists from call to call" in said
    ring = next(one for one in report["memory"]["buffers"] if one["kind"] == "ring")
    ActionChains(browser.driver).move_to_element(browser.one(f".buffer[data-name='{ring['name']}']")).perform()
    assert f"{ring['bytes']:,} bytes at {ring['offset']:,}" in browser.text("#arena-tip")
    assert f"a ring: {ring['ring_rows']} of {ring['rows']} rows" in browser.text("#arena-details")
    assert browser.said() == []


def test_keys_walk_from_buffer_to_buffer(browser: Browser, folder: Path, report: dict[str, Any]) -> None:
    browser.open(folder / PAGE)
    buffers = report["memory"]["buffers"]

    def press(key: str) -> str:
        ActionChains(browser.driver).send_keys(key).perform()
        return str(browser.run("return document.activeElement.dataset.name ?? document.activeElement.id"))

    browser.run("document.getElementById('zoom-all').focus()")
    assert press(Keys.TAB) == buffers[0]["name"]
    assert [press(Keys.ARROW_RIGHT) for _ in buffers[2:]] == [one["name"] for one in buffers[1:-1]]
    assert press(Keys.END) == buffers[-1]["name"]
    assert press(Keys.ARROW_LEFT) == buffers[-2]["name"]
    assert press(Keys.HOME) == buffers[0]["name"]
    assert f"{buffers[0]['bytes']:,} bytes" in browser.text("#arena-tip")
    above = press(Keys.ARROW_UP)
    live = [one for one in buffers[1:] if one["start"] < buffers[0]["end"] and one["offset"] >= buffers[0]["offset"]]
    assert above == min(live, key=lambda one: one["offset"])["name"]
    assert press(Keys.ARROW_DOWN) == buffers[0]["name"]
    before = rectangle(browser, buffers[0]["name"])
    assert press(Keys.ENTER) == buffers[0]["name"]
    assert rectangle(browser, buffers[0]["name"])["height"] > before["height"]
    assert press(Keys.ESCAPE) == buffers[0]["name"]
    assert rectangle(browser, buffers[0]["name"]) == before
    names = [str(rect.get_attribute("aria-label")) for rect in browser.all(".buffer")]
    assert all(" bytes, addresses " in name for name in names)
    assert browser.said() == []


# ---- strange and large ones -----------------------------------------------------------------------------------------


def test_names_stay_text(browser: Browser, tiny_artifact: Artifact, tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=\"document.title='taken'\"><!--&lt;'"
    layers = tuple(replace(layer, module=hostile) for layer in tiny_artifact.report.layers)
    page = tmp_path / PAGE
    page.write_text(build_page(replace(tiny_artifact.report, layers=layers)))
    browser.open(page)
    assert browser.said() == []
    assert browser.all("img") == []
    assert browser.driver.title == f"{tiny_artifact.report.model} for {tiny_artifact.report.target}"
    name = tiny_artifact.report.layers[0].name
    ActionChains(browser.driver).move_to_element(browser.one(f".buffer[data-name='{name}']")).perform()
    assert f"output of {hostile}: " in browser.text("#arena-tip")
    scripts = "return [...document.scripts].map((script) => [script.id, script.src, script.type].join())"
    found = browser.run(scripts)
    browser.open(tiny_artifact.folder / PAGE)
    assert found == browser.run(scripts)  # no script but the page's own


@pytest.mark.cases(1)
@pytest.mark.parametrize("width", [1200, 400])
def test_models_side_by_side(browser: Browser, tiny_artifact: Artifact, tmp_path: Path, width: int) -> None:
    first = tiny_artifact.report
    assert first.macs is not None
    hostile = replace(first, target="<b>", macs=first.macs * 2, layers=first.layers[:-1])
    page = tmp_path / INDEX
    models = named([(tiny_artifact.folder, first), (tmp_path, hostile)])
    page.write_text(build_index(compare(models), tmp_path))
    browser.open(page, width)
    assert browser.said() == []
    assert browser.all("b") == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    script = "const rows = [...document.querySelectorAll('#figures tbody tr')];"
    texts = browser.run(f"{script} return rows.map((row) => [...row.cells].map((cell) => cell.textContent))")
    rows = {row[0]: row[1:] for row in texts}
    assert rows["products"] == [f"{first.macs:,}", f"{2 * first.macs:,} (+100.0%)"]
    assert len(browser.all("td.worse")) >= 1
    browser.one("#figures a").click()
    assert browser.text("h1") == f"{first.model} for {first.target}"


@pytest.mark.slow
def test_a_large_network_has_a_small_page(browser: Browser, tmp_path: Path) -> None:
    report = prepared("mobilenet_v2").compile("cortex-m55").report
    page = tmp_path / PAGE
    page.write_text(build_page(report))
    assert page.stat().st_size < 1_500_000
    browser.open(page)
    assert browser.said() == []
    assert report.memory is not None
    assert len(browser.all(".buffer")) == len(report.memory.buffers) > 50
    assert browser.run("return performance.getEntriesByType('navigation')[0].loadEventEnd") < 20_000  # busy machines
