"""What docs/install.md shows of `make demo`."""

import re
from pathlib import Path

import pytest

from helpers.cli import Run
from helpers.golden import Golden
from helpers.keyword import COMMAND, GROUP, Spotted
from helpers.paths import ROOT

DEMO = re.compile(r"(?<=<!-- demo -->\n).*?(?=<!-- end -->)", re.DOTALL)


def without_numbers(text: str) -> str:
    """Sizes and counts change with every better kernel and every compiler; what is printed does not."""
    return re.sub(r"[\d,]+(\.\d+)?", "#", re.sub(r" +", " ", text))


@pytest.mark.qemu
@pytest.mark.xdist_group(GROUP)
def test_the_page_shows_what_the_demo_prints(
    run: Run, spotted: Spotted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    """The commands of `make demo`."""
    makefile, page = ROOT / "Makefile", ROOT / "docs" / "install.md"
    commands = re.findall(r"^\t@\$\(BIN\)/((?:cortado|python) .*)$", makefile.read_text(), re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    block = "\n"
    for command in commands:
        printed = spotted.printed if command == COMMAND else of_cortado(run, command)
        block += "".join(f"    {text}\n" for text in [f"$ {command}", *printed.splitlines()])
    assert f"$ {COMMAND}" in block
    assert "bit-exact with the reference" in block
    text = page.read_text()
    assert DEMO.search(text)
    golden(page, DEMO.sub(lambda match: block + "\n", text), alike=without_numbers)


def of_cortado(run: Run, command: str) -> str:
    program, *words = command.split()
    assert program == "cortado"
    done = run(*words)
    assert done.code == 0, done.err
    return done.out
