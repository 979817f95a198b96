"""The example of a model that is taught, examples/teach: new words are found as a computer's training finds them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.paths import ROOT

CLOSED, OPEN = 0.95, 0.85  # of a layer that was trained offline on the same utterances


@pytest.mark.slow
@pytest.mark.host
@pytest.mark.parametrize("voices", ["one", "several"])
def test_taught_words_are_found_and_old_words_kept(tmp_path: Path, voices: str) -> None:
    command = [sys.executable, str(ROOT / "examples" / "teach" / "teach.py"), str(tmp_path / "out"), voices, "host"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("on host, bit-exact") == 2
    near, offline, found, reached, rejected, now, before = map(float, re.findall(r" (\d\.\d{3})$", done.stdout, re.M))
    assert near >= CLOSED * offline
    assert found >= OPEN * reached
    assert rejected > 0.75
    assert now == before
    assert (tmp_path / "out" / "teach_learn.h").is_file()
