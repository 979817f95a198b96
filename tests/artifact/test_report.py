"""report.json: read as it was written, and never changed."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

import cortado
from cortado.artifact.manifest import REPORT
from cortado.artifact.opened import Artifact
from cortado.artifact.report import Report
from cortado.base.errors import CortadoError


@pytest.fixture(scope="session")
def text(tiny_artifact: Artifact) -> str:
    return (tiny_artifact.folder / REPORT).read_text()


def test_a_report_is_read_as_it_was_written(text: str, tiny_artifact: Artifact) -> None:
    report = Report.from_json(json.loads(text), REPORT)
    assert report == tiny_artifact.report
    assert json.dumps(report.to_json(), indent=2) + "\n" == text


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
