"""The README's table and picture are those of the benchmarks' stored results."""

import pytest

from helpers.golden import Golden, generated
from helpers.paths import ROOT

PICTURE = ROOT / "docs" / "images" / "networks.svg"


@pytest.fixture
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@pytest.mark.usefixtures("_benchmarks")
def test_the_table_and_the_picture(golden: Golden) -> None:
    import front

    readme = ROOT / "README.md"
    golden(readme, generated(readme.read_text(), "networks", front.table() + "\n"))
    golden(PICTURE, front.picture())


@pytest.mark.usefixtures("_benchmarks")
def test_every_network_is_better_in_everything() -> None:
    """What the README says is in the results, not in a wish."""
    import front

    found = front.rows()
    assert len(found) >= 5
    assert all(ratio < 1 for row in found for ratio in row.ratios.values())
