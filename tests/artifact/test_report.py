"""report.json: read as it was written, its schema and its page, older and newer versions."""

import json
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import cortado
from cortado.artifact.manifest import REPORT
from cortado.artifact.opened import Artifact
from cortado.artifact.report import SCHEMA_VERSION, Report
from cortado.base.codec import from_json, schema
from cortado.base.errors import CortadoError
from cortado.cli.entry import main
from helpers.golden import Golden
from helpers.json_schema import fits
from helpers.mutations import mutate
from helpers.paths import ROOT, TESTS
from helpers.report_page import page

DOCS = ROOT / "docs"
VERSIONS = sorted((TESTS / "reports").iterdir())


@pytest.fixture(scope="session")
def text(tiny_artifact: Artifact) -> str:
    return (tiny_artifact.folder / REPORT).read_text()


# ---- the schema -----------------------------------------------------------------------------------------------------


def test_the_schema_and_the_page_are_up_to_date(golden: Golden) -> None:
    found = schema(Report)
    golden(DOCS / "report.schema.json", json.dumps(found, indent=2) + "\n")
    golden(DOCS / "report.md", page(found, SCHEMA_VERSION))


def test_a_report_fits_its_schema(text: str) -> None:
    found = json.loads((DOCS / "report.schema.json").read_text())
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert fits(found, json.loads(text))


def test_the_schema_is_what_is_read(text: str) -> None:
    """Reports with anything in them: what the schema takes is what from_json takes."""
    rules, choice, refused = schema(Report), random.Random(20), 0
    for _ in range(400):
        report = json.loads(text)
        what = mutate(report, choice)
        try:
            from_json(Report, report)
            taken = True
        except CortadoError:
            taken = False
        assert fits(rules, report) == taken, what
        refused += not taken
    assert 100 < refused < 390


# ---- the report -----------------------------------------------------------------------------------------------------


def test_a_report_is_read_as_it_was_written(text: str, tiny_artifact: Artifact) -> None:
    report = Report.from_json(json.loads(text), REPORT)
    assert report == tiny_artifact.report
    assert json.dumps(report.to_json(), indent=2) + "\n" == text
    assert report.schema_version == SCHEMA_VERSION


def test_every_key_says_what_it_means_in_one_line() -> None:
    found = schema(Report)
    for cls in (found, *found["$defs"].values()):
        for name, item in cls["properties"].items():
            assert re.fullmatch(r"\S[^\n]*[^\n.]", item["description"]), name


@pytest.mark.parametrize("path", VERSIONS, ids=lambda path: path.stem)
def test_reports_of_older_versions_are_read(path: Path) -> None:
    """A report of each version as that version wrote it: keys are added, never renamed."""
    older = json.loads(path.read_text())
    report = Report.from_json(older, str(path))
    assert f"version-{report.schema_version}" == path.stem
    assert contains(report.to_json(), older)


def contains(new: Any, old: Any) -> bool:
    if isinstance(old, dict):
        return isinstance(new, dict) and all(name in new and contains(new[name], item) for name, item in old.items())
    if isinstance(old, list):
        return isinstance(new, list) and len(new) == len(old) and all(map(contains, new, old))
    return bool(new == old)


def test_there_is_a_report_of_every_version() -> None:
    assert [path.stem for path in VERSIONS] == [f"version-{number}" for number in range(SCHEMA_VERSION + 1)]


def test_a_newer_report_is_refused(
    tiny_artifact: Artifact, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(tiny_artifact.folder, tmp_path / "newer"))
    newer = {**json.loads(text), "schema_version": SCHEMA_VERSION + 1, "memory": {"pages": 3}}
    (folder / REPORT).write_text(json.dumps(newer))
    assert main(["run", str(folder), "--on", "host", "--trust"]) == 2
    said = capsys.readouterr().err
    versions = f"its schema_version is {SCHEMA_VERSION + 1}, this one reads up to {SCHEMA_VERSION}"
    assert f"{folder / REPORT} was written by a newer Cortado ({versions})" in said
    assert "update Cortado, or compile the model again with this one" in said


@pytest.mark.parametrize("version", ["1", None, True, -1, 1.5])
def test_a_version_is_a_number(text: str, version: Any) -> None:
    with pytest.raises(CortadoError, match=r"schema_version is .*, expected an integer"):
        Report.from_json({**json.loads(text), "schema_version": version}, REPORT)


@pytest.mark.host
def test_a_folder_of_an_older_version_runs(tiny_artifact: Artifact, text: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_artifact.folder, tmp_path / "older"))
    older = json.loads(text)
    for name in ("schema_version", "calibration", "zoo"):
        del older[name]
    (folder / REPORT).write_text(json.dumps(older))
    assert main(["run", str(folder), "--on", "host", "--trust"]) == 0


class Halves(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).cumsum(1).bfloat16()


def test_values_that_no_report_can_name_are_refused() -> None:
    batch = (torch.randn(1, 4),)
    options = cortado.Options(allow_float=True)
    with pytest.raises(CortadoError, match=r"'output0' holds bfloat16 values, expected one of int8, .*x\.float\(\)"):
        cortado.compile(Halves().eval(), batch, "cortex-m4", [batch], options=options)


def test_a_report_can_not_be_changed(tiny_artifact: Artifact) -> None:
    with pytest.raises(AttributeError):
        tiny_artifact.report.model = "other"  # type: ignore[misc]
    assert replace(tiny_artifact.report, model="other").model == "other"
