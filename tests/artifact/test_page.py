"""report.html: well-formed, nothing loaded from anywhere, and the same figures as report.json."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from cortado.artifact.opened import PAGE, Artifact
from cortado.artifact.page import buffer_label, build_page, modules_of, peak_moment
from cortado.artifact.report import FloatOperatorReport
from cortado.models.sources import load_model
from helpers.paths import MODELS

VOID = {"meta"}


class Reader(HTMLParser):
    """Collects text, tags and attributes; every tag has to be closed by its own."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.scripts: list[str] = []  # what stands in them is no text, and no markup
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
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        else:
            self.text += data

    def arena(self) -> dict[str, Any]:
        """The data of the map."""
        found: dict[str, Any] = json.loads(self.scripts[0])
        return found


def test_page_of_an_artifact(tiny_artifact: Artifact) -> None:
    report = tiny_artifact.report
    page = Reader((tiny_artifact.folder / PAGE).read_text())
    assert report.memory is not None
    assert len(page.scripts) == 2
    assert f"{report.memory.arena_bytes:,}" in page.text
    assert all(layer.operator.split("::")[1] in page.text for layer in report.layers)
    assert not {"link", "img", "iframe", "svg"} & set(page.tags)
    assert not {"src", "href", "onload"} & {name for name, _ in page.attributes}
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'") in page.attributes
    assert "url(" not in page.text
    forbidden = ("innerHTML", "outerHTML", "insertAdjacentHTML", "fetch(", "eval(")
    assert not any(word in page.scripts[1] for word in forbidden)


def test_inputs_outputs_and_options_are_shown(tiny_artifact: Artifact) -> None:
    report = tiny_artifact.report
    text = Reader(build_page(report)).text
    for tensor in (*report.inputs, *report.outputs):
        shown = (tensor.name, list(tensor.model_shape), list(tensor.shape), tensor.dtype, tensor.zero_point)
        assert all(str(value) in text for value in shown)
        assert f"{tensor.scale:.9g}" in text
    for name, value in report.to_json()["options"].items():
        several = isinstance(value, list)
        option = ", ".join(value) if several else {True: "yes", False: "no", None: ""}.get(value, value)
        assert f"--{name.replace('_', '-')}{option}" in text
    assert "A stage is" in text
    assert "Row calls: " in text


def test_buffers_have_the_names_of_modules(tiny_artifact: Artifact) -> None:
    report, modules = tiny_artifact.report, modules_of(tiny_artifact.report)
    layer = report.layers[0]
    assert layer.module
    names = (report.inputs[0].node, layer.name, f"{layer.name}.scratch", "unknown")
    labels = (f"input '{report.inputs[0].name}'", f"output of {layer.module}", f"scratch of {layer.module}", "unknown")
    assert tuple(buffer_label(report, name, modules) for name in names) == labels


def test_the_map_has_every_buffer_of_the_report(tiny_artifact: Artifact) -> None:
    memory, data = tiny_artifact.report.memory, Reader(build_page(tiny_artifact.report)).arena()
    assert memory is not None
    keys = ("name", "offset", "bytes", "start", "end", "persists")
    found = [[*(one[key] for key in keys), tuple(one["over"])] for one in data["buffers"]]
    assert found == [[*(getattr(one, key) for key in keys), one.over] for one in memory.buffers]
    assert [moment["bytes"] for moment in data["moments"]] == [moment.bytes for moment in memory.timeline]
    at = data["peak"]
    assert at == peak_moment(memory)
    alive = {one["name"] for one in data["buffers"] if one["start"] <= at < one["end"]}
    assert alive == {one.name for one in memory.peak_buffers}


def test_layers_have_shape_constants_products_and_cycles(tiny_artifact: Artifact) -> None:
    report = tiny_artifact.report
    text = Reader(build_page(report)).text
    for layer in report.layers:
        for figure in (layer.weights_bytes, layer.macs, layer.estimated_cycles):
            assert f"{figure:,}" in text
        assert " × ".join(map(str, layer.shape)) in text  # noqa: RUF001
        if layer.macs and layer.scale is not None:
            assert layer.weight_scales is not None
            assert f"{layer.weight_scales.largest:.4g}" in text
    assert report.flash is not None
    assert sum(layer.weights_bytes for layer in report.layers) >= report.flash.weights_bytes > 0


def test_scales_of_weights_are_those_that_they_were_quantized_with(tiny_artifact: Artifact) -> None:
    """A channel's scale gives its largest weight the code 127; multipliers of 31 bits keep nine digits of it."""
    source = load_model(str(MODELS / "tiny.py"))
    state = source.model.state_dict()
    for layer in tiny_artifact.report.layers:
        weight = state.get(f"{layer.module}.weight")
        if weight is None or layer.weight_scales is None:
            continue
        largest = weight.abs().amax().item()
        assert layer.weight_scales.channels in (1, len(weight))
        assert layer.weight_scales.largest == pytest.approx(largest / 127.5, rel=0.005)


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
    assert page.tags.count("script") == 2
    assert page.text.count(hostile) >= 6
    assert any(hostile in one["label"] for one in page.arena()["buffers"])


def test_a_model_without_a_bundle_has_a_page(tiny_artifact: Artifact) -> None:
    gone: dict[str, Any] = dict.fromkeys(("memory", "schedule", "flash", "macs"))
    report = replace(tiny_artifact.report, **gone, layers=(), bundle_missing=("cumsum at model.py:7",))
    page = Reader(build_page(report))
    assert "cumsum at model.py:7" in page.text
    assert len(page.scripts) == 1  # no data of a map
