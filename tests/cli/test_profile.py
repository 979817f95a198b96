"""`cortado profile`: layers that add up, every format, and mistakes."""

import csv
import io
import re
import shutil
from pathlib import Path

import pytest

from cortado.artifact.opened import Artifact
from cortado.base.target import ONE_OF_EACH, CortexM
from cortado.cli.profile import CSV_COLUMNS
from cortado.timing.models import MODELS
from cortado.timing.work import Part
from helpers.cli import Run, compile_tiny, forge_checksums, one_sentence


@pytest.mark.qemu
def test_layers_and_parts_add_up_to_what_run_says(run: Run, tiny_artifact: Artifact) -> None:
    found = run("profile", tiny_artifact.folder, "--chip", "nrf52840", "--json").json
    ran = run("run", tiny_artifact.folder, "--json").json
    assert (found["instructions"], found["cycles"], found["bit_exact"]) == (ran["instructions"], ran["cycles"], True)
    assert [layer["name"] for layer in found["layers"]] == [layer.name for layer in tiny_artifact.report.layers]
    everything = [found["before"], *found["layers"]]
    for group in (everything, list(found["parts"].values())):
        assert sum(one["instructions"] for one in group) == found["instructions"]
        for end, total in found["cycles"].items():
            assert sum(one["cycles"][end] for one in group) == pytest.approx(total, abs=len(group))
    for layer in found["layers"]:
        assert sum(part["instructions"] for part in layer["parts"].values()) == layer["instructions"]
        assert layer["percent"] == pytest.approx(
            100 * layer["cycles"]["typical"] / found["cycles"]["typical"], abs=0.01
        )
    assert (found["chip"], found["clock_hz"], found["grade"]) == ("nrf52840", 64_000_000, "table")
    assert found["milliseconds"]["high"] == pytest.approx(found["cycles"]["high"] / 64e3)
    assert "zero wait states" in found["note"]
    assert found["parts"]["products"]["instructions"] > 0


@pytest.mark.qemu
def test_figures_are_kept_in_the_report(run: Run, tiny_artifact: Artifact, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_artifact.folder, tmp_path / "tiny"))
    found = run("profile", folder, "--chip", "nrf52840", "--json", "--save").json
    kept = Artifact.open(folder).report.to_json()["profile"]
    for key in ("board", "core", "grade", "instructions", "cycles", "chip", "clock_hz"):
        assert kept[key] == found[key]
    layers = [{key: layer[key] for key in ("name", "instructions", "cycles")} for layer in found["layers"]]
    assert kept["layers"] == layers
    page = (folder / "report.html").read_text()
    assert all(f"{layer['instructions']:,}" in page for layer in layers)


@pytest.mark.qemu
def test_the_same_as_text_and_as_csv(run: Run, tiny_artifact: Artifact) -> None:
    found = run("profile", tiny_artifact.folder, "--json").json
    assert (found["chip"], found["milliseconds"]) == (None, None)
    rows = list(csv.DictReader(io.StringIO(run("profile", tiny_artifact.folder, "--csv").out)))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert [(row["layer"], int(row["cycles_typical"])) for row in rows[1:]] == [
        (layer["name"], layer["cycles"]["typical"]) for layer in found["layers"]
    ]
    assert sum(int(row["instructions"]) for row in rows) == found["instructions"]
    text = run("profile", tiny_artifact.folder, "--chip", "stm32l4r5").out
    assert f"{found['instructions']:,} instructions (exact)" in text
    assert re.search(r"^[\d.]+ ms, [\d.]+ to [\d.]+ on stm32l4r5 at 120 MHz$", text, re.MULTILINE)
    bars = [len(line) - len(line.rstrip("#")) for line in text.splitlines() if line.endswith("#")]
    assert bars.count(24) == 2  # the longest of the layers, and of the parts
    for part in Part:
        assert f"\n{part.value} " in text
    assert "cycles at zero wait states: a model" in text
    assert "Arm 100166" in text


@pytest.mark.qemu
def test_one_core_of_each_kind(run: Run, tmp_path: Path) -> None:
    """A model for any core: on each it has another core's cycles."""
    assert compile_tiny(run, "-t", "cortex-m", "-o", tmp_path / "any").code == 0
    one_sentence(
        run("profile", tmp_path / "any", "--chip", "pico"), "for any core; name one with --target cortex-m0plus"
    )
    for name in (*(target.target_string for target in ONE_OF_EACH), "cortex-m7", "cortex-m85"):
        found = run("profile", tmp_path / "any", "-t", name, "--json").json
        assert (found["core"], found["bit_exact"]) == (name, True)
        assert found["grade"] == MODELS[CortexM(name)].grade.value
        cycles = found["cycles"]
        assert 0.5 * found["instructions"] < cycles["low"] <= cycles["typical"] <= cycles["high"]
        assert cycles["high"] < 6 * found["instructions"]


@pytest.mark.qemu
def test_a_model_of_an_earlier_version_runs_without_cycles(run: Run, tiny_artifact: Artifact, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    shutil.copytree(tiny_artifact.folder, folder)
    (folder / "checks.json").write_text('{"steps": ["conv"], "calls": []}')
    forge_checksums(folder)
    done = run("run", folder, "--json").json
    assert (done["bit_exact"], done["cycles"]) == (True, None)
    one_sentence(run("profile", folder), "is not a table of this version")


def test_mistakes(run: Run, tiny_artifact: Artifact, tmp_path: Path) -> None:
    folder = tiny_artifact.folder
    assert (
        run("profile", folder, "--json", "--csv").json["error"]["message"] == "--json and --csv: give only one of them"
    )
    one_sentence(run("profile", folder, "--on", "host"), "a profile needs an emulated board, and host is not one")
    one_sentence(run("profile", folder, "--chip", "pico"), "pico has a cortex-m0plus, the target is cortex-m4")
    one_sentence(run("run", folder, "--chip", "picco"), "unknown chip 'picco'; nearest: pico")
    one_sentence(run("profile", folder, "-t", "cortex-m55"), "was compiled for cortex-m4, expected cortex-m55")
    one_sentence(run("profile", tmp_path), "holds no report.json")
