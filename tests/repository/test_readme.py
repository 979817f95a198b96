"""The README is short, and what it says to type works; so are the packages of docs/install.md and the Dockerfile."""

import re
from pathlib import Path

import numpy as np
import pytest

from helpers.cli import Run
from helpers.paths import ROOT

README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
MOST_WORDS = 900
MODEL = """
import torch
ModelUnderTest = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
ModelInputs = (torch.randn(1, 4),)
"""


def commands(page: str) -> list[str]:
    """The lines of a page's sh blocks, without their comments."""
    lines = "".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL)).replace("\\\n", " ").splitlines()
    return [line.partition("  #")[0].strip() for line in lines]


def test_it_is_read_in_a_minute_or_three() -> None:
    assert len(README.split()) <= MOST_WORDS


def test_it_goes_from_what_it_is_to_how_to_work_on_it() -> None:
    headings = re.findall(r"^## (.*)$", README, re.MULTILINE)
    assert headings == ["Install", "Use", "Try it in a browser", "What it takes", "Features", "Limits", "Working on it"]


def test_the_targets_of_make_exist() -> None:
    named = re.findall(r"\bmake ([a-z-]+)", README)
    assert {"setup", "demo", "test"} <= set(named)
    assert [name for name in named if not re.search(rf"^{name}:", MAKEFILE, re.MULTILINE)] == []


@pytest.mark.qemu
def test_the_commands_work_as_they_stand(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL)
    np.save("samples.npy", np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32))
    typed = [line.split()[1:] for line in commands(README) if line.startswith("cortado ")]
    assert [words[0] for words in typed] == ["compile", "run", "profile"]
    for words in typed:
        done = run(*words)
        assert done.code == 0, done.err


def test_the_packages_to_install_are_those_of_the_makefile() -> None:
    """Those of `make setup`; the Dockerfile, which nothing builds, has GDB for probes too."""
    setup = MAKEFILE.partition("\ntools:\n")[2].partition("\n\n")[0]
    needed = {name for names in re.findall(r"[\w-]+:([\w,-]+)", setup) for name in names.split(",")}
    (line,) = [one for one in commands((ROOT / "docs" / "install.md").read_text()) if "apt-get install" in one]
    assert set(line.partition("install ")[2].split()) == needed
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "Nothing in this repository builds this file" in dockerfile
    assert needed | {"gdb-multiarch"} <= set(dockerfile.split())
