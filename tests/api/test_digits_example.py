"""The tutorial, examples/digits: the commands of its README do what it says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.paths import ROOT

EXAMPLE = ROOT / "examples" / "digits"
MOST_LINES = 100


def test_it_is_short() -> None:
    assert len((EXAMPLE / "digits.py").read_text().splitlines()) < MOST_LINES


@pytest.mark.slow
@pytest.mark.qemu
def test_the_commands_of_its_readme(tmp_path: Path) -> None:
    (script,) = re.findall(r"```sh\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    accuracy = re.search(r"accuracy ([\d.]+)% in int8, ([\d.]+)% in float, SQNR ([\d.]+) dB", done.stdout)
    assert accuracy is not None
    in_int8, in_float, decibels = map(float, accuracy.groups())
    assert in_float > 93
    assert in_int8 > in_float - 1
    assert decibels > 20
    after = re.search(r"accuracy ([\d.]+)% in int8 after quantization-aware training", done.stdout)
    assert after is not None
    assert float(after[1]) > in_float - 1
    assert "bit-exact with the reference" in done.stdout
    text, data, bss = map(int, done.stdout.splitlines()[-1].split()[:3])
    assert 2000 < text < 30_000
    assert 0 < data + bss < 20_000
