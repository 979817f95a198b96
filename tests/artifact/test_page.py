"""report.html: well-formed, nothing loaded from anywhere, and the same figures as report.json."""

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from cortado.artifact.opened import PAGE, Artifact
from cortado.artifact.page import build_page
from cortado.artifact.report import FloatOperatorReport, PeakBufferReport

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
    assert report.memory is not None
    assert page.tags.count("rect") == len(report.memory.timeline) > 0
    assert f"{report.memory.arena_bytes:,}" in page.text
    assert all(layer.operator.split("::")[1] in page.text for layer in report.layers)
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not {"src", "href", "onload"} & {name for name, _ in page.attributes}
    assert "url(" not in page.text


def test_inputs_outputs_and_options_are_shown(tiny_artifact: Artifact) -> None:
    report = tiny_artifact.report
    text = Reader(build_page(report)).text
    for tensor in (*report.inputs, *report.outputs):
        shown = (tensor.name, list(tensor.model_shape), list(tensor.shape), tensor.dtype, tensor.zero_point)
        assert all(str(value) in text for value in shown)
        assert f"{tensor.scale:.9g}" in text
    for name, value in report.to_json()["options"].items():
        assert f"--{name.replace('_', '-')}{ {True: 'yes', False: 'no'}.get(value, value) }" in text
    assert "A stage is" in text
    assert "Row calls: " in text


def test_buffers_have_the_names_of_modules(tiny_artifact: Artifact) -> None:
    report = tiny_artifact.report
    layer, memory = report.layers[0], report.memory
    assert memory is not None
    names = (report.inputs[0].node, layer.name, f"{layer.name}.scratch", "unknown")
    buffers = tuple(PeakBufferReport(name=name, bytes=1) for name in names)
    text = Reader(build_page(replace(report, memory=replace(memory, peak_buffers=buffers)))).text
    module = layer.module
    assert module
    for label in (f"input '{report.inputs[0].name}'", f"output of {module}", f"scratch of {module}", "unknown"):
        assert label in text


def test_bars_are_as_high_as_the_bytes_that_live(tiny_artifact: Artifact) -> None:
    page, memory = Reader(build_page(tiny_artifact.report)), tiny_artifact.report.memory
    assert memory is not None
    heights = [float(str(value)) for name, value in page.attributes if name == "height"]
    used = [240 * moment.bytes / memory.arena_bytes for moment in memory.timeline]
    assert heights == pytest.approx(used, abs=0.01)
    assert max(heights) <= 240


def test_names_are_text_not_markup(tiny_artifact: Artifact) -> None:
    hostile = "<script>alert('x')</script>&amp;"
    kept = FloatOperatorReport(
        node="node", operator=hostile, module=hostile, source=hostile, reason=hostile, kernels=()
    )
    report = replace(
        tiny_artifact.report,
        model=hostile,
        pte_missing=(hostile,),
        notes=(hostile,),
        layers=tuple(replace(layer, module=hostile) for layer in tiny_artifact.report.layers),
        float_operators=(kept,),
    )
    page = Reader(build_page(report))
    assert "script" not in page.tags
    assert page.text.count(hostile) >= 6


def test_a_model_without_a_bundle_has_a_page(tiny_artifact: Artifact) -> None:
    gone: dict[str, Any] = dict.fromkeys(("memory", "schedule", "flash", "macs"))
    report = replace(tiny_artifact.report, **gone, layers=(), bundle_missing=("cumsum at model.py:7",))
    page = Reader(build_page(report))
    assert "cumsum at model.py:7" in page.text
    assert "svg" not in page.tags
