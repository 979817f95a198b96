"""Scores of a sweep's candidates: the user's training by the same workers, remembered, with its own time limit."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cortado.base.errors import CortadoError
from cortado.sweep import isolated
from cortado.sweep.page import build_page
from cortado.sweep.rows import ScoreTask, Status, SweepRow, held_to, pareto
from cortado.sweep.run import sweep
from cortado.sweep.spec import parsed_constraint, read_spec
from helpers.paths import ROOT

NETS = """
import pathlib
import torch
from torch import nn

def linear(width):
    return lambda: (nn.Linear(width, 2), (torch.ones(1, width),))

def candidates():
    return {f"w{width}": linear(width) for width in (4, 8, 12, 24, 2000)}

def score(model):
    width = model.in_features
    with pathlib.Path("trained.txt").open("a") as file:
        file.write(f"{width} ")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    optimizer.zero_grad()
    model.train()
    model(torch.ones(1, width)).sum().backward()
    optimizer.step()
    if width == 12:
        raise ValueError("it does not learn")
    return "good" if width == 24 else torch.tensor(width / 64)
"""
SPEC = """
candidates = "nets.py:candidates"
score = "nets.py:score"
score_seconds = 5
constraints = ["flash <= 5K", "cycles <= 0.1M"]
targets = ["cortex-m4"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


@pytest.fixture(autouse=True)
def no_children() -> Iterator[None]:
    yield
    isolated.close_all()


def swept(folder: Path) -> dict[str, SweepRow]:
    with ThreadPoolExecutor(1) as pool:
        return {row.model: row for row in sweep(read_spec(folder / "spec.toml"), folder / "out", pool)}


def trained(folder: Path) -> list[int]:
    return sorted(map(int, (folder / "trained.txt").read_text().split()))


@pytest.mark.slow
def test_candidates_are_trained_once_and_those_over_a_constraint_never(folder: Path) -> None:
    found = swept(folder)
    assert {name: (row.status, row.score) for name, row in found.items()} == {
        "w4": (Status.FINE, 0.0625),
        "w8": (Status.FINE, 0.125),
        "w12": (Status.FAILED, None),
        "w24": (Status.REFUSED, None),
        "w2000": (Status.FINE, None),
    }
    assert [row.model for row in found.values() if row.best] == ["w4", "w8"]  # cheaper, and better
    assert found["w2000"].over == "flash <= 5K"
    assert "its score: ValueError: it does not learn" in found["w12"].reason
    assert "nets.py:22" in found["w12"].reason
    assert "gives 'good', expected one number" in found["w24"].reason
    assert all(row.cycles for row in found.values())  # figures stay
    assert trained(folder) == [4, 8, 12, 24]
    page = (folder / "out" / "index.html").read_text()
    assert "beats in score, RAM" in page
    assert page.count("<svg") == 2  # over time, and over RAM

    again = swept(folder)
    assert {name: row.score for name, row in again.items()} == {name: row.score for name, row in found.items()}
    assert trained(folder) == [4, 8, 12, 12, 24, 24]  # what has a score is not trained again


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (isolated.Late(), Status.LATE, "no score after 5 seconds"),
        (isolated.Ended("its process was killed by SIGSEGV"), Status.CRASHED, "SIGSEGV"),
    ],
)
def test_a_training_that_crashes_or_hangs_is_told_of(
    error: Exception, status: Status, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        raise error

    monkeypatch.setattr(isolated, "asked", asked)
    found = isolated.run_score(ScoreTask("a", "nets.py:nets", "/", "nets.py:score", 5.0).to_json())
    assert found["status"] == status.value
    assert reason in found["reason"]


# ---- the front and constraints -------------------------------------------------------------------------------------


def _row(name: str, score: float | None, ram: int, cycles: int = 10) -> SweepRow:
    return SweepRow(name, "pico", "", Status.FINE, ram_bytes=ram, flash_bytes=9, cycles=cycles, score=score)


def test_the_front_is_over_score_and_cost() -> None:
    rows = [_row("small", 0.5, 10), _row("good", 0.9, 30), _row("beaten", 0.8, 30), _row("unknown", None, 1)]
    assert pareto(rows, scored=True) == {0, 1}
    assert pareto([*rows, replace(_row("over", 0.99, 5), over="ram <= 4")], scored=True) == {0, 1}
    page = build_page(rows)
    assert "0.9 score" in page
    assert 'class="best"' not in page


@pytest.mark.parametrize(
    ("text", "most"), [("ram <= 32K", 32768), ("flash<=1.5M", 1572864), ("cycles <= 2M", 2e6), (" ms <= 20 ", 20)]
)
def test_constraints(text: str, most: float) -> None:
    found = parsed_constraint(text)
    assert found is not None
    assert found.most == most
    row = SweepRow("a", "pico", "", Status.FINE, ram_bytes=40_000, flash_bytes=2**21, cycles=3_000_000, milliseconds=30)
    assert held_to(row, [found]).over == text.strip()
    assert not held_to(replace(row, ram_bytes=1, flash_bytes=1, cycles=1, milliseconds=1), [found]).over


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('constraints = ["ram < 3"]', "expected one of ram, flash, cycles, ms"),
        ('constraints = ["speed <= 3"]', "expected one of ram, flash, cycles, ms"),
        ('constraints = ["ms <= 3K"]', "as in 'ram <= 32K'"),
        ('constraints = ["ms <= 3"]', "a target has no clock"),
        ('score = "nets.py:score"', "score is for candidates"),
        ('score = "nets"\ncandidates = "nets.py:candidates"', "expected a function"),
        ("score_seconds = 0", "time limit"),
    ],
)
def test_a_wrong_spec_is_told_of(folder: Path, text: str, message: str) -> None:
    path = folder / "wrong.toml"
    path.write_text(f'models = ["ds_cnn"]\ntargets = ["cortex-m4"]\n{text}\n')
    with pytest.raises(CortadoError, match=message):
        read_spec(path)


def test_the_example_is_a_sweep() -> None:
    spec = read_spec(ROOT / "examples" / "search" / "search.toml")
    assert spec.score == "candidates.py:score"
    assert [one.text for one in spec.constraints] == ["ram <= 1400", "ms <= 1.5"]
