"""docs/misra.md: what cppcheck finds has a reason, and what has none is told."""

import re
from pathlib import Path
from typing import Any

import pytest

from cortado.base.system import KERNEL_FILES, KERNEL_FOLDERS
from helpers.paths import ROOT


@pytest.fixture
def misra(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import misra

    return misra


def test_every_rule_of_the_page_has_its_reason(misra: Any) -> None:
    text = misra.PAGE.read_text().split(misra.BEGIN)[1]
    rows = re.findall(r"^\| (\d+\.\d+) \| (\d+) \| `[^`]+` \| (.+) \|$", text, re.MULTILINE)
    assert len(rows) > 20
    assert {rule: reason for rule, _, reason in rows} == {rule: misra.DEVIATIONS[rule].reason for rule, _, _ in rows}
    required, advisory = text.split("## Advisory rules")
    for rule, _, _ in rows:
        assert f"| {rule} |" in (required if misra.DEVIATIONS[rule].required else advisory)


def test_a_rule_without_a_reason_is_found(misra: Any, tmp_path: Path) -> None:
    """A source of the library, and one that breaks a rule more."""
    other = tmp_path / "other.c"
    other.write_text("int octal(void);\nint octal(void)\n{\n    return 017;\n}\n")
    includes = [*KERNEL_FOLDERS]
    found = misra.findings([KERNEL_FILES["copy2d.c"], other], includes)
    assert {(one.rule, one.file) for one in misra.undecided(found)} == {("7.1", "other.c")}
    assert {one.rule for one in found if one.file == "copy2d.c"}
