"""docs/accuracy.md: made from what benchmarks/accuracy.py measured, which reaches what is promised."""

import json
from typing import Any

import pytest

from cortado.models import zoo
from helpers.paths import ROOT

RESULTS: dict[str, Any] = json.loads((ROOT / "benchmarks" / "accuracy.json").read_text())
# Hundredths of accuracy or AUC that int8 may cost.
MOST_LOST = dict.fromkeys(RESULTS, 0.3) | {"mobilenet_tiny": 0.5, "mobilenet_v1_pruned": 0.5}
MOST_LOST_WITH_ODD_SAMPLE = 0.5


def lost(name: str, way: str) -> float:
    return 100 * float(RESULTS[name]["float_score"] - RESULTS[name]["ways"][way]["score"])


def test_the_page_has_every_figure() -> None:
    page = (ROOT / "docs" / "accuracy.md").read_text().split("\n## ")[0]  # the first table
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in page.splitlines() if line.startswith("| ")}
    assert sorted(rows) == sorted(["network", *RESULTS])
    for name, one in RESULTS.items():
        assert f"{one['metric']} {one['float_score']:.4f}" in rows[name]
        for way, kept in one["ways"].items():
            assert f"{-lost(name, way):+.2f} ({kept['sqnr_db']:.1f} dB)" in rows[name]


def test_every_trained_network_was_measured() -> None:
    assert sorted(RESULTS) == sorted(name for name in zoo.names() if zoo.get(name).trained)
    assert all(one["full"] or one["samples"] >= 1000 for one in RESULTS.values())


@pytest.mark.parametrize("name", RESULTS)
def test_int8_costs_little(name: str) -> None:
    assert lost(name, "default") <= MOST_LOST[name]
    assert round(lost(name, "default, one odd sample"), 6) <= MOST_LOST_WITH_ODD_SAMPLE
    assert RESULTS[name]["odd_sample_named"]
