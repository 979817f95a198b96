"""Systems other than Linux: a model compiles to the same C where what only Linux or POSIX has is missing."""

import os
import sys
import threading
from pathlib import Path

import pytest

from cortado.artifact.manifest import REPORT
from cortado.base import system
from cortado.cli.entry import main
from cortado.run import sandbox
from cortado.run.sandbox import Limits, TooMuch
from helpers.cli import TINY, in_new_process

MODULES = ("fcntl", "resource", "termios", "pwd", "grp", "msvcrt")
CALLS = ("sched_getaffinity", "pidfd_open", "posix_spawn", "killpg")
COMPILE = ("compile", str(TINY), "--calibration", f"{TINY}:calibration", "-t", "cortex-m4", "--artifacts", "c", "-o")
# Cortado's own code finds none of these modules and calls, no process of a shell, and opens nothing below /proc.
WITHOUT = f"""
import builtins, ctypes, importlib, os, subprocess, sys
import torch
from torchao.quantization.pt2e import quantize_pt2e

def ours(frame):
    return "cortado" in frame.f_globals.get("__name__", "").split(".")

def blocked(real):
    def call(name, *rest, **named):
        if name in {MODULES!r} and ours(sys._getframe(1)):
            raise ImportError(f"no module named {{name}}", name=name)
        return real(name, *rest, **named)
    return call

builtins.__import__ = blocked(builtins.__import__)
importlib.import_module = blocked(importlib.import_module)
for name in {CALLS!r}:
    delattr(os, name)
real = ctypes.CDLL.__init__
def opened(self, name, *rest, **named):
    if ours(sys._getframe(1)):
        raise TypeError("bad argument type for built-in operation")
    real(self, name, *rest, **named)
def watched(event, arguments):
    if event == "open" and str(arguments[0]).startswith("/proc") and ours(sys._getframe(1)):
        os._exit(99)
    if event == "subprocess.Popen" and arguments[0] == "/bin/sh":
        os._exit(98)
sys.addaudithook(watched)
from cortado.base import system
assert system._fcntl is None
from cortado.cli.entry import main
assert main(sys.argv[1:]) == 0  # a new folder
ctypes.CDLL.__init__ = opened
system.sys = type("sys", (), {{"platform": "win32"}})
assert main(sys.argv[1:]) == 0  # in place of an older model, where there is no C library to ask either
"""


@pytest.fixture(scope="module")
def tiny_c(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain") / "out"
    assert main([*COMPILE, str(folder)]) == 0
    return folder


def test_a_model_compiles_to_the_same_files_without_what_is_linuxs(tiny_c: Path, tmp_path: Path) -> None:
    done = in_new_process("-c", WITHOUT, *COMPILE, str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    made = {path.relative_to(tmp_path / "out").as_posix(): path for path in (tmp_path / "out").rglob("*.[chS]")}
    assert len(made) > 10
    assert (tmp_path / "out" / REPORT).is_file()
    assert [path for path in tmp_path.iterdir() if path.name != "out"] == [], "something was left behind"
    for relative, path in made.items():
        assert path.read_bytes() == (tiny_c / relative).read_bytes(), relative


def test_without_groups_a_program_still_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_HAS_GROUPS", False)
    done = sandbox.run([sys.executable, "-c", "print(input())"], Limits(seconds=60), doing="x", given=b"said\n")
    assert (done.code, done.stdout.split()) == (0, [b"said"])
    with pytest.raises(TooMuch, match=r"x took more than 0\.2 seconds, and was stopped"):
        sandbox.run([sys.executable, "-c", "import time; time.sleep(60)"], Limits(seconds=0.2), doing="x")


def test_a_lock_is_anothers_until_its_file_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    first, second = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert system.lock(first, wait=False)
    assert not system.lock(second, wait=False)
    waiting = threading.Thread(target=system.lock, args=(second,), kwargs={"wait": True})
    waiting.start()
    os.close(first)
    waiting.join(30)
    assert not waiting.is_alive()
    os.close(second)
    monkeypatch.setattr(system, "_fcntl", None)  # and no msvcrt: everybody has it
    assert system.lock(-1, wait=False)


def test_folders_change_places_one_after_the_other_where_they_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    for name in ("new", "final"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "which").write_text(name)
    system.exchange(tmp_path / "new", tmp_path / "final")
    assert (tmp_path / "final" / "which").read_text() == "new"
    assert (tmp_path / "old" / "which").read_text() == "final"
