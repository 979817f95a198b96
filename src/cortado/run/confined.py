"""Sandboxing of compilers for untrusted C.

A source can name any file (.incbin, #include, #embed, a linker's INCLUDE), in more spellings than a search of its text
could find. So its compiler and linker can open only the files they are given, the system's programs, their own files,
and one output folder; of the environment they see a few variables only.

Landlock enforces this if the kernel has it; otherwise bubblewrap, if it is installed and may create namespaces.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import lru_cache
from pathlib import Path

from cortado.base.errors import MissingTool
from cortado.run import landlock

BWRAP = "bwrap"
INSTALL = "apt-get install bubblewrap"
NEEDS = f"a Linux kernel with Landlock (5.13 or newer), or bubblewrap ({INSTALL})"
# Programs, their libraries and headers; no user's files are there.
_SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")
# The same for a compiler installed elsewhere, below its own folder: ~/.local contains other things too.
_OWN = ("bin", "lib", "lib64", "libexec", "include", "arm-none-eabi")
_KEPT = ("PATH", "LANG", "LC_ALL", "LC_MESSAGES")  # of the environment


class Confinement(Enum):
    """The mechanism that isolates a program from the rest of this machine."""

    LANDLOCK = "Landlock"
    BUBBLEWRAP = "bubblewrap"


@lru_cache(maxsize=1)
def confinement() -> Confinement | None:
    """Returns the first mechanism that works here, found by trying."""
    if landlock.version() > 0:
        return Confinement.LANDLOCK
    return Confinement.BUBBLEWRAP if _namespaces_work() else None


def _namespaces_work() -> bool:
    """Returns whether namespaces can be created: containers often have the program but forbid its use."""
    try:
        command = [BWRAP, "--unshare-all", "--ro-bind", "/", "/", "/bin/sh", "-c", ":"]
        return subprocess.run(command, capture_output=True, check=False, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def confined(
    command: Sequence[str | Path], *, reads: Iterable[Path], writes: Path, tools: Iterable[Path]
) -> list[str | Path]:
    """Wraps a command so that it can open nothing but `reads`, the compilers `tools`, and the folder `writes`."""
    means = confinement()
    if means is None:
        raise MissingTool(
            "C from another installation is compiled only in a sandbox that can't read your files, which needs "
            f"{NEEDS}; neither works here. If you would let its maker run a program here, add --trust"
        )
    wanted = [*_SYSTEM, *(str(path) for tool in tools for path in _own_folders(tool)), *map(os.path.abspath, reads)]
    seen = [path for path in dict.fromkeys(wanted) if os.path.exists(path)]
    folder = os.path.abspath(writes)
    own = [f"{name}={os.environ[name]}" for name in _KEPT if name in os.environ]
    wrapped = (_by_landlock if means is Confinement.LANDLOCK else _by_bubblewrap)(seen, folder)
    return ["/usr/bin/env", "-i", *own, f"TMPDIR={folder}", *wrapped, *command]


def _own_folders(tool: Path) -> list[Path]:
    whole = tool.resolve().parent.parent
    return [] if whole.is_relative_to("/usr") else [whole / name for name in _OWN]


def _by_landlock(seen: Sequence[str], folder: str) -> list[str]:
    places = [*(f"r:{path}" for path in seen), "r:/dev/null", "w:/dev/null", f"w:{folder}"]
    return [sys.executable, "-I", "-S", landlock.__file__, *places, "--"]


def _by_bubblewrap(seen: Sequence[str], folder: str) -> list[str]:
    binds = [word for path in seen for word in ("--ro-bind", path, path)]
    here = os.getcwd()  # keeps relative paths valid; the folder appears empty
    own = ["--dir", here, *binds, "--dev-bind", "/dev/null", "/dev/null", "--bind", folder, folder, "--chdir", here]
    return [BWRAP, "--unshare-all", "--die-with-parent", *own, "--"]
