"""Ctrl-C while a command loads: the same few words whichever import it falls into."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cortado.artifact.opened import Artifact
from helpers.paths import MODELS

# Ctrl-C comes when a module is about to be loaded, or in the middle of it.
PRESSED = """
import importlib.abc, os, signal, sys
MODULE = sys.argv.pop(1)

class Press(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Press())
from cortado.cli import main
sys.exit(main())
"""


def pressed(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PRESSED, module, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )


def check(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1] == "cortado: interrupted"
    assert "Traceback" not in done.stderr
    assert "please report" not in done.stderr
    assert done.stdout == ""


@pytest.mark.cases(2)
@pytest.mark.parametrize("module", ["argparse", "cortado.options", "numpy.linalg", "torch", "torch.fx", "torchao"])
def test_ctrl_c_while_a_compile_loads(tmp_path: Path, module: str) -> None:
    tiny = str(MODELS / "tiny.py")
    check(pressed(module, "compile", tiny, "--calibration", tiny, "-o", str(tmp_path / "out")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.cases(1)
@pytest.mark.parametrize("module", ["numpy.linalg", "torch.fx"])
def test_ctrl_c_while_another_command_loads(tiny_artifact: Artifact, module: str) -> None:
    check(pressed(module, "run", str(tiny_artifact.folder), "--on", "host"))
