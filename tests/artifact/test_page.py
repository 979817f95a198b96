"""report.html: well-formed, nothing loaded from anywhere, and the same figures as report.json."""

from html.parser import HTMLParser
from typing import Any

import pytest

from cortado.artifact.opened import PAGE, Artifact
from cortado.artifact.page import build_page

VOID = {"meta"}


class Reader(HTMLParser):
    """Collects text, tags and attributes; every tag has to be closed by its own."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_page_of_an_artifact(tiny_artifact: Artifact) -> None:
    report = tiny_artifact.report
    page = Reader((tiny_artifact.folder / PAGE).read_text())
    assert page.tags.count("rect") == len(report["memory"]["timeline"]) > 0
    assert f"{report['memory']['arena_bytes']:,}" in page.text
    assert all(layer["operator"].split("::")[1] in page.text for layer in report["layers"])
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not {"src", "href", "onload"} & {name for name, _ in page.attributes}
    assert "url(" not in page.text


def test_inputs_outputs_and_options_are_shown(tiny_artifact: Artifact) -> None:
    report = tiny_artifact.report
    text = Reader(build_page(report)).text
    for tensor in (*report["inputs"], *report["outputs"]):
        assert all(str(tensor[key]) in text for key in ("name", "model_shape", "shape", "dtype", "zero_point"))
        assert f"{tensor['scale']:.9g}" in text
    assert all(f"--{name.replace('_', '-')}" in text for name in report["options"])
    assert "A stage is" in text
    assert "Row calls: " in text


def test_buffers_have_the_names_of_modules(tiny_artifact: Artifact) -> None:
    report: dict[str, Any] = dict(tiny_artifact.report)
    layer = report["layers"][0]
    names = (report["inputs"][0]["node"], layer["name"], f"{layer['name']}.scratch", "unknown")
    report["memory"] = {**report["memory"], "peak_buffers": [{"name": name, "bytes": 1} for name in names]}
    text = Reader(build_page(report)).text
    module = layer["module"]
    assert module
    for label in (f"input '{report['inputs'][0]['name']}'", f"output of {module}", f"scratch of {module}", "unknown"):
        assert label in text


def test_bars_are_as_high_as_the_bytes_that_live(tiny_artifact: Artifact) -> None:
    page, memory = Reader(build_page(tiny_artifact.report)), tiny_artifact.report["memory"]
    heights = [float(str(value)) for name, value in page.attributes if name == "height"]
    used = [240 * moment["bytes"] / memory["arena_bytes"] for moment in memory["timeline"]]
    assert heights == pytest.approx(used, abs=0.01)
    assert max(heights) <= 240


def test_names_are_text_not_markup(tiny_artifact: Artifact) -> None:
    hostile = "<script>alert('x')</script>&amp;"
    report: dict[str, Any] = {**tiny_artifact.report, "model": hostile, "pte_missing": [hostile], "notes": [hostile]}
    report["layers"] = [{**layer, "module": hostile} for layer in report["layers"]]
    report["float_operators"] = [{"operator": hostile, "source": hostile, "reason": hostile}]
    page = Reader(build_page(report))
    assert "script" not in page.tags
    assert page.text.count(hostile) >= 6


def test_a_model_without_a_bundle_has_a_page(tiny_artifact: Artifact) -> None:
    report = {**tiny_artifact.report, **dict.fromkeys(("memory", "schedule", "flash", "macs")), "layers": []}
    page = Reader(build_page({**report, "bundle_missing": ["cumsum at model.py:7"]}))
    assert "cumsum at model.py:7" in page.text
    assert "svg" not in page.tags
