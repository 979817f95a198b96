"""docs/models.md: its table is that of the stored results."""

import json
import sys

from helpers.paths import ROOT


def test_the_table_of_architectures() -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from architectures import RESULTS, table
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
    page = (ROOT / "docs" / "models.md").read_text()
    assert f"<!-- table -->\n\n{table(json.loads(RESULTS.read_text()))}\n<!-- end -->" in page
