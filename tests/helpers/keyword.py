"""examples/keyword, run as its page and `make demo` do."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from helpers.paths import ROOT

COMMAND = "python examples/keyword/spot.py build/keyword yes no left"
GROUP = "keyword"  # tests that share what it wrote


@dataclass(frozen=True)
class Spotted:
    """What it printed, and the folder that it was run in. Shared: change nothing in it."""

    printed: str
    folder: Path

    @property
    def bundle(self) -> Path:
        return self.folder / "build" / "keyword"


def spot(folder: Path) -> Spotted:
    _, script, *arguments = COMMAND.split()
    (folder / "build").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / script), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Spotted(done.stdout, folder)
