"""Figures that are added to a folder: both files or none, hashes right, and nobody's folder becomes ours."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cortado.artifact import folder as folders
from cortado.artifact.manifest import REPORT
from cortado.artifact.opened import PAGE, Artifact
from cortado.artifact.pages import save_figures
from cortado.artifact.report import (
    CyclesReport,
    EvaluationReport,
    FidelityReport,
    LayerFidelityReport,
    LayerProfileReport,
    ProfileReport,
    Report,
)
from cortado.base.errors import CortadoError


@pytest.fixture
def artifact(tiny_artifact: Artifact, tmp_path: Path) -> Artifact:
    return Artifact.open(Path(shutil.copytree(tiny_artifact.folder, tmp_path / "tiny")))


def profiled(report: Report) -> Report:
    layers = tuple(
        LayerProfileReport(
            name=layer.name,
            instructions=700_001 + number,
            cycles=CyclesReport(low=800_001 + number, typical=900_001 + number, high=999_001 + number),
        )
        for number, layer in enumerate(report.layers)
    )
    cycles = CyclesReport(low=8_000_000, typical=9_000_000, high=9_999_999)
    found = ProfileReport(
        board="mps2-an386",
        core="cortex-m4",
        grade="table",
        instructions=7_654_321,
        cycles=cycles,
        chip="nrf52840",
        clock_hz=64_000_000,
        layers=layers,
    )
    return replace(report, profile=found)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_figures_are_added_to_report_and_page(artifact: Artifact) -> None:
    before = contents(artifact.folder)
    save_figures(artifact, profiled)
    after = contents(artifact.folder)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {REPORT, PAGE}
    again = Artifact.open(artifact.folder)  # every hash is right
    assert again.ours
    assert again.report.profile == profiled(again.report).profile
    page = after[PAGE].decode()
    for text in ("700,001", "900,001", "7,654,321", "9,000,000", "140.6 ms", "mps2-an386"):
        assert text in page
    assert "estimated cycles" not in page


def test_figures_of_several_commands_stand_beside_each_other(artifact: Artifact) -> None:
    layers = tuple(
        LayerFidelityReport(name=layer.name, sqnr_db=12.34 if number else None, exact=number == 0)
        for number, layer in enumerate(artifact.report.layers)
    )
    fidelity = FidelityReport(samples=3, float_model="tiny.py", layers=layers)
    evaluation = EvaluationReport(
        samples=60,
        float_model="tiny.py",
        accuracy=0.9,
        float_accuracy=0.925,
        auc=None,
        float_auc=None,
        sqnr_db=23.45,
        exact=False,
    )
    save_figures(artifact, lambda report: replace(report, fidelity=fidelity))
    save_figures(artifact, lambda report: replace(report, evaluation=evaluation))
    save_figures(artifact, profiled)
    report = Artifact.open(artifact.folder).report
    assert (report.fidelity, report.evaluation) == (fidelity, evaluation)
    assert report.profile is not None
    page = (artifact.folder / PAGE).read_text()
    for text in ("12.3 dB", ">exact<", "90.00%", "92.50% in float", "23.4 dB", "3 samples", "700,001"):
        assert text in page


def test_a_folder_from_elsewhere_stays_one(artifact: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CORTADO_CACHE", str(tmp_path / "another installation"))
    foreign = Artifact.open(artifact.folder)
    assert not foreign.ours
    save_figures(foreign, profiled)
    assert Artifact.open(artifact.folder).report.profile is not None
    assert not Artifact.open(artifact.folder).ours


def test_figures_of_what_was_there_before_are_refused(artifact: Artifact) -> None:
    files = {**artifact.report.artifacts, "tiny.c": "0" * 64}
    old = replace(artifact, report=replace(artifact.report, artifacts=files))
    before = contents(artifact.folder)
    with pytest.raises(CortadoError, match="compiled again in the meantime"):
        save_figures(old, profiled)
    assert contents(artifact.folder) == before


def test_a_failure_leaves_the_folder_as_it_was(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(new: Path, final: Path) -> None:
        raise OSError(28, "No space left on device")

    before = contents(artifact.folder)
    monkeypatch.setattr(folders, "exchange", full)
    with pytest.raises(CortadoError, match="No space left"):
        save_figures(artifact, profiled)
    assert contents(artifact.folder) == before
    assert [path.name for path in artifact.folder.parent.iterdir()] == [artifact.folder.name]
