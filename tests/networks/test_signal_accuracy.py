"""docs/signals.md has the decibels of front ends that benchmarks/signal_accuracy.py prints."""

from typing import Any

import pytest

from helpers.paths import ROOT

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import signal_accuracy

    return signal_accuracy


def rows() -> dict[str, list[str]]:
    lines = (ROOT / "docs" / "signals.md").read_text().split("| front end | dB | arena |\n")[1].split("\n\n")[0]
    return {cells[0]: cells[1:] for cells in (line.strip("| ").split(" | ") for line in lines.splitlines()[1:])}


def test_the_page_has_every_front_end(benchmark: Any) -> None:
    assert list(rows()) == list(benchmark.cases())


@pytest.mark.parametrize("name", ["real samples", "pre-emphasis, loud tones"])
def test_the_figures_are_those_of_the_page(benchmark: Any, name: str) -> None:
    found, (decibels, arena) = benchmark.measure(benchmark.cases()[name]), rows()[name]
    assert found["decibels"] == pytest.approx(float(decibels), abs=0.3)
    assert f"{found['arena']:,}" == arena
