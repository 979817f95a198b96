"""docs/tutorial.md: its files and commands, as they stand there, in an empty folder."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.paths import ROOT

BLOCK = re.compile(r"```(\w+)(?: file=(\S+))?\n(.*?)```", re.DOTALL)
LONGEST_TYPING = 130  # lines of code and commands: what a reader types or pastes


def blocks() -> list[tuple[str, str, str]]:
    return BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text())


def test_it_is_short() -> None:
    assert sum(len(text.splitlines()) for _, _, text in blocks()) < LONGEST_TYPING


@pytest.mark.slow
@pytest.mark.qemu
def test_from_an_empty_folder_to_a_prediction_and_firmware(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    said = []
    for kind, name, text in blocks():
        if name:
            (tmp_path / name).write_text(text)
        else:
            assert kind == "sh"
            command = ["bash", "-euc", text]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, text + done.stdout + done.stderr
            said.append(done.stdout)
    trained, compiled, ran, scored, built, taught = said
    assert trained == ""
    assert taught.endswith("[0, 1] True\n")
    assert "nrf52840" in compiled
    assert "bit-exact with the reference" in ran
    answer = int(np.load(tmp_path / "answers.npy")[0])
    assert f"top-1: {('still', 'shake', 'circle', 'tap')[answer]}\n" in ran
    assert np.load(tmp_path / "predicted.npy").argmax() == np.load(tmp_path / "answers.npy")[0]
    assert float(re.search(r"accuracy +([\d.]+)%", scored)[1]) > 97  # type: ignore[index]
    arena = json.loads((tmp_path / "build/gestures/report.json").read_text())["memory"]["arena_bytes"]
    static = sum(map(int, built.splitlines()[-1].split()[1:3]))
    assert arena < static < arena + 4000
