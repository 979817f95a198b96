"""The template of an operator file: a copy of it works."""

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings

import cortado
import cortado.ops
from cortado.base.errors import CortadoError
from cortado.base.target import CortexM, CortexMTargetConfig
from cortado.ir.op import Operator, registry
from cortado.ops.elementwise import add
from cortado.options import Activations, Artifacts, Options
from helpers import cases
from helpers.operator_cases import cases_of
from helpers.single import Expression, lower_with, randn


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    """The template as a file of the operators' folder."""
    shutil.copy(Path(cortado.ops.__path__[0]) / "_TEMPLATE.py", tmp_path / "lerp.py")
    monkeypatch.setattr(cortado.ops, "__path__", [str(tmp_path), *cortado.ops.__path__])
    monkeypatch.delattr(add, "LERP_REWRITE")
    registry.cache_clear()
    yield registry().operators["cortado::lerp"]
    registry.cache_clear()
    sys.modules.pop("cortado.ops.lerp")
    vars(cortado.ops).pop("lerp")
    importlib.invalidate_caches()


def test_the_template_is_not_an_operator_itself() -> None:
    assert "cortado::lerp" not in registry().operators


def test_a_copy_of_the_template_lowers_a_model(template: Operator) -> None:
    lowered = lower_with(
        Expression(lambda a, b: F.relu(torch.lerp(a, b, 0.3))), randn(2, 9), randn(2, 9, scale=2.0, seed=1)
    )
    assert lowered.kernels == ["lerp"]
    assert lowered.steps_apart() <= 1.01
    tensor_weight = lower_with(
        Expression(lambda a, b, w: torch.lerp(a, b, w), w=torch.tensor(0.4)), randn(2, 9), randn(2, 9)
    )
    assert tensor_weight.kernels == ["lerp"]
    with pytest.raises(CortadoError, match="supported are weights between 0 and 1"):
        lower_with(Expression(lambda a, b: torch.lerp(a, b, 2.0)), randn(2, 9), randn(2, 9, seed=1))


def test_what_takes_int8_codes_only_is_refused_by_name(template: Operator) -> None:
    model, data = Expression(lambda a: torch.lerp(a, a.flip(0), 0.3)).eval(), [(randn(2, 9),)]
    options = Options(activations=Activations.INT16, artifacts=Artifacts.C)
    with pytest.raises(
        CortadoError, match=r"(?s)lerp.*takes int8 codes only, but int16 was requested \(--activations, --int16\)"
    ):
        cortado.prepare(model, data[0], data, name="net", options=options).compile("cortex-m4")


@pytest.mark.host
def test_a_copy_of_the_template_has_a_working_kernel(template: Operator, tmp_path: Path) -> None:
    drawn: list[dict[str, Any]] = []

    @settings(max_examples=20)
    @given(arguments=cases_of(template))
    def draw(arguments: dict[str, Any]) -> None:
        drawn.append(arguments)

    draw()
    work = [(template, arguments) for arguments in drawn]
    found = cases.run_cases(work, CortexMTargetConfig(CortexM.M4), "host", tmp_path / "bundle")
    for got, want in zip(found, cases.references(work), strict=True):
        assert np.array_equal(got, want.numpy())
