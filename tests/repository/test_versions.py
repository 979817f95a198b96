"""Other versions of Python and torch: docs/versions.md is what was measured, for each combination, without a gap."""

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cortado.base.versions import PYTHON, TORCH, TORCHAO, numbers
from helpers.paths import ROOT


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import versions

    return versions


def test_the_page_is_what_was_measured(versions: Any) -> None:
    known = versions.results()
    assert list(known) == [one.name for one in versions.COMBINATIONS], "run make test-versions"
    assert versions.NOT_RUN not in versions.PAGE.read_text()
    assert versions.table(known) in versions.PAGE.read_text(), "make test-versions writes it"
    assert all(one.passed > 100 for one in known.values())


def test_the_combinations_span_what_is_taken_without_a_word(versions: Any) -> None:
    """The oldest and the newest torch, torchao and Python."""
    for package, found in (
        (TORCH, {one.torch for one in versions.COMBINATIONS}),
        (TORCHAO, {one.torchao for one in versions.COMBINATIONS}),
    ):
        minors = sorted(numbers(version)[:2] for version in found | {package.pinned})
        assert (minors[0], minors[-1]) == (numbers(package.oldest), numbers(package.newest))
        assert len({minor[1] for minor in minors}) == minors[-1][1] - minors[0][1] + 1, "a minor version is left out"
    pythons = {one.python for one in versions.COMBINATIONS}
    assert pythons == {"3.11", "3.12", "3.13"}
    assert (min(pythons), max(pythons)) == (PYTHON.oldest, PYTHON.newest)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={PYTHON.oldest}"
    assert all((ROOT / path).exists() for path in versions.TESTS)


def test_what_fails_and_what_differs_is_told(versions: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, second, *_ = versions.COMBINATIONS
    monkeypatch.setattr(versions, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(versions, "KEPT", tmp_path / "kept.json")
    versions.PAGE.write_text(f"before\n{versions.BEGIN}\n{versions.END}\nbehind\n")
    wrong = versions.Result(600, ("test_a::test_b",), ("attention",))
    versions.keep({second.name: wrong, "python2.7-torch0.1": wrong})
    assert versions.results() == {second.name: wrong}, "one that is no more is left out"
    versions.keep({**versions.results(), first.name: versions.Result(601, (), ())})
    text = versions.PAGE.read_text()
    assert text.startswith("before\n")
    assert text.endswith(f"{versions.END}\nbehind\n")
    assert f"\n| {first.python} | {first.torch} | {first.torchao} | 601 of 601 | the same bytes |\n" in text
    assert f"\n| {second.python} | {second.torch} | {second.torchao} | 600 of 601 | differ: attention |\n" in text
    assert f"- {second.name}: `test_a::test_b` fails.\n" in text
    assert text.count("not run | not run") == len(versions.COMBINATIONS) - 2
    assert not wrong.is_whole
    assert not versions.Result(0, (), ()).is_whole
    assert dataclasses.replace(wrong, failed=(), differing=()).is_whole
