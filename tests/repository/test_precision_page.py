"""docs/precision.md: its table is that of the stored results, which reach what is promised."""

import json
import sys
from itertools import groupby
from typing import Any

from helpers.golden import Golden, generated
from helpers.paths import ROOT

BENCHMARKS = ROOT / "benchmarks"
PAGE = ROOT / "docs" / "precision.md"
RESULTS: list[dict[str, Any]] = json.loads((BENCHMARKS / "precision_networks.json").read_text())
OTHERS: list[dict[str, Any]] = json.loads((BENCHMARKS / "others.json").read_text())
AUTO = "auto, half way"


def by_kind(rows: list[dict[str, Any]], name: str) -> list[dict[str, dict[str, Any]]]:
    """The rows of each network, by what was asked for."""
    return [{row["kind"].split(":")[0]: row for row in found} for _, found in groupby(rows, lambda row: row[name])]


def test_the_table_is_that_of_the_stored_results(golden: Golden) -> None:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        from precision_networks import Row, markdown
    finally:
        sys.path.remove(str(BENCHMARKS))
    golden(PAGE, generated(PAGE.read_text(), "networks", markdown([Row(**row) for row in RESULTS]) + "\n"))


def test_auto_takes_less_than_int16_everywhere_on_most_networks() -> None:
    """Of networks whose int8 misses the bar, and which can be less than all in int16."""
    found = [*by_kind(RESULTS, "network"), *by_kind(OTHERS, "model")]
    mixed = [one for one in found if AUTO in one and one[AUTO]["ram"] is not None]
    assert len(mixed) >= 10
    assert all(one[AUTO]["ram"] <= one["int16"]["ram"] for one in mixed)
    assert sum(one[AUTO]["ram"] < one["int16"]["ram"] for one in mixed) >= 6
    free = [one for one in mixed if one[AUTO]["ram"] == one["int16"]["ram"]]
    assert all(one[AUTO]["sqnr_db"] >= one["int16"]["sqnr_db"] - 6 for one in free)


def test_weights_of_4_bits_keep_what_error_feedback_gives() -> None:
    kept = {row["network"]: row["sqnr_db"] for row in RESULTS if row["kind"] == "int4 weights"}
    assert kept["ds_cnn"] > 22
    assert kept["resnet8"] > 26
    assert kept["deep_autoencoder"] > 30
