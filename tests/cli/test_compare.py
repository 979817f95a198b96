"""`cortado compare`, and `compile` for several targets: one table, one page, and mistakes."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cortado.api import Model
from cortado.artifact.comparison import ComparedModel, compare, difference
from cortado.artifact.manifest import REPORT
from cortado.artifact.opened import Artifact
from cortado.artifact.pages import INDEX
from cortado.options import Border, Options
from helpers.cli import TINY, Run, refused


@pytest.fixture(scope="module")
def other(tiny: Model, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The tiny network for another core, with float inputs and outputs."""
    folder = tmp_path_factory.mktemp("compare") / "other"
    return tiny.compile("cortex-m0plus", Options(io=Border.FLOAT)).save(folder)


def test_figures_options_and_layers(run: Run, tiny_artifact: Artifact, other: Artifact) -> None:
    done = run("compare", tiny_artifact.folder, other.folder)
    assert (done.code, done.err) == (0, "")
    lines = [line.split() for line in done.out.splitlines()]
    first, second = tiny_artifact.report.memory, other.report.memory
    assert first is not None
    assert second is not None
    percent = 100 * (second.arena_bytes - first.arena_bytes) / first.arena_bytes
    arena = ["RAM:", "arena,", "bytes", f"{first.arena_bytes:,}", f"{second.arena_bytes:,}", f"{percent:+.1f}%"]
    assert arena in lines
    assert ["io", "int8", "float"] in lines
    assert ["target", "cortex-m4", "cortex-m0plus"] in lines
    assert not any(line[:1] == ["optimize"] for line in lines)  # the same in both
    layer = tiny_artifact.report.layers[0]
    cycles = [other.report.layers[1].estimated_cycles, layer.estimated_cycles]
    assert other.report.layers[1].name == layer.name  # behind the quantize
    row = next(line for line in lines if line[:1] == [layer.module])
    assert row[2:4] == [f"{cycles[1]:,}", f"{cycles[0]:,}"]


def test_the_same_for_programs(run: Run, tiny_artifact: Artifact, other: Artifact) -> None:
    found = run("compare", tiny_artifact.folder / REPORT, other.folder, "--json").json
    assert [one["name"] for one in found["models"]] == ["cortex-m4", "cortex-m0plus"]
    for name, artifact in (("cortex-m4", tiny_artifact), ("cortex-m0plus", other)):
        report = artifact.report.to_json()
        assert found["figures"]["arena_bytes"][name] == report["memory"]["arena_bytes"]
        assert found["figures"]["weights_bytes"][name] == report["flash"]["weights_bytes"]
        assert found["figures"]["macs"][name] == report["macs"]
        assert found["options"]["io"][name] == report["options"]["io"]
        known = {layer["name"]: layer for layer in report["layers"]}
        for row in found["layers"]:
            layer = row["models"][name]
            assert (layer is None) == (row["name"] not in known)
            if layer is not None:
                assert layer["cycles"] == known[row["name"]]["estimated_cycles"]
                assert layer["macs"] == known[row["name"]]["macs"]
    assert found["cycles"] == "estimated"
    assert "optimize" not in found["options"]
    assert "instructions" not in found["figures"]


def test_a_model_beside_itself_has_no_difference(run: Run, tiny_artifact: Artifact) -> None:
    done = run("compare", tiny_artifact.folder, tiny_artifact.folder)
    assert done.code == 0
    assert "CHOSEN DIFFERENTLY" not in done.out
    assert "no layer differs" in done.out
    assert "%" not in done.out
    assert f"{tiny_artifact.folder} (2)" in done.out


def test_a_figure_that_a_model_lacks_is_none(tiny_artifact: Artifact, tmp_path: Path) -> None:
    report = tiny_artifact.report
    models = [
        ComparedModel(str(number), tmp_path, replace(report, macs=macs)) for number, macs in enumerate((10, 20, None))
    ]
    found = compare(models)
    row = next(row for row in found.figures if row.key == "macs")
    assert row.values == (10, 20, None)
    assert [difference(10, 20), difference(10, 10), difference(0, 3), difference(None, 3)] == [
        "+100.0%",
        "same",
        "new",
        "",
    ]


def test_mistakes(run: Run, tiny_artifact: Artifact, tmp_path: Path) -> None:
    refused(run("compare", tiny_artifact.folder), "found one compiled model", "expected two or more")
    refused(run("compare", tiny_artifact.folder, tmp_path), f"{tmp_path} holds no report.json", "cortado compile")
    refused(run("compare", tiny_artifact.folder, tmp_path / "none"), f"{tmp_path / 'none'} is not there")
    (tmp_path / "text.json").write_text("not JSON")
    refused(run("compare", tiny_artifact.folder, tmp_path / "text.json"), "text.json can't be read")
    (tmp_path / "list.json").write_text("[]")
    refused(
        run("compare", tiny_artifact.folder, tmp_path / "list.json"), "list.json is not a report written by Cortado"
    )
    folder = ("compare", tiny_artifact.folder, tiny_artifact.folder, "--html")
    refused(run(*folder, tmp_path), "it is a folder; name a file")
    refused(run(*folder, tmp_path / "no" / "page.html"), "can't write", "choose a place")


def test_several_targets_are_one_table_and_one_page(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("compile", TINY, "--calibration", TINY, "--target", "cortex-m4,cortex-m0plus", "-o", out)
    done = run(*arguments)
    assert done.code == 0, done.err
    assert done.out.startswith("tiny for 2 targets\n")
    reports = {name: json.loads((out / name / REPORT).read_text()) for name in ("cortex-m4", "cortex-m0plus")}
    sizes = [f"{report['memory']['arena_bytes']:,}" for report in reports.values()]
    assert re.search(rf"^RAM: arena, bytes +{sizes[0]} +{sizes[1]} ", done.out, re.MULTILINE)
    assert f"side by side  {out / INDEX}" in done.out
    page = (out / INDEX).read_text()
    assert re.findall(r'href="([^"]+)"', page) == ["cortex-m4/report.html", "cortex-m0plus/report.html"]
    assert all(f">{size}" in page for size in sizes)
    # The folder of several targets is what compare takes, and its page is written again.
    assert run("compare", out, "--json").json["figures"]["arena_bytes"]["cortex-m4"] == int(sizes[0].replace(",", ""))
    (out / INDEX).write_text("<title>mine</title>")
    refused(run(*arguments), "Cortado did not write it")
    assert (out / INDEX).read_text() == "<title>mine</title>"
    shutil.rmtree(out / "cortex-m4")
    (out / INDEX).unlink()
    refused(run("compare", out), "found one compiled model")
