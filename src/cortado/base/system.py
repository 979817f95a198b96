"""Portable functions for what differs between systems: locks of files, the atomic exchange of two folders, the
processors of this process. Everything else that only Linux or POSIX has is left to programs that Cortado runs
(`run/sandbox`, `run/confined`).

Also paths of the package's data: C kernels, the code of boards, style and script of report.html and of the web page.
"""

import ctypes
import errno
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

# ---- system ----------------------------------------------------------------------------------------------


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_fcntl, _msvcrt = _module("fcntl"), _module("msvcrt")
LOCKS_FOLDERS = _fcntl is not None  # elsewhere a folder can't be opened at all


def lock(handle: int, *, wait: bool) -> bool:
    """Locks an open file until it is closed; False if it could not. Where there are no locks, as on some network
    folders, it always succeeds."""
    try:
        if _fcntl is not None:
            _fcntl.flock(handle, _fcntl.LOCK_EX | (0 if wait else _fcntl.LOCK_NB))
        elif _msvcrt is not None:
            _msvcrt.locking(handle, _msvcrt.LK_LOCK if wait else _msvcrt.LK_NBLCK, 1)
    except OSError as error:
        return wait or error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)
    return True


_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def exchange(new: Path, final: Path) -> None:
    """Exchanges two folders, atomically if the system can; else one after the other, with the old one moved to `old`
    next to the new one."""
    rename = None if sys.platform == "win32" else getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is not None:
        done = rename(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(final), _RENAME_EXCHANGE)
        if done == 0:
            return
        code = ctypes.get_errno()
        if code not in (errno.ENOSYS, errno.EINVAL):  # an older kernel, a file system that can't
            raise OSError(code, os.strerror(code))
    old = new.with_name("old")
    os.rename(final, old)
    os.rename(new, final)


def processors() -> int:
    """Returns the number of processors that this process can use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# ---- data ------------------------------------------------------------------------------------------------

PACKAGE = Path(__file__).parents[1]
KERNELS = PACKAGE / "kernels"
# Public headers, then the library's own files by family; a bundle has the latter in one folder.
KERNEL_FOLDERS = (KERNELS / "include", *sorted(path for path in (KERNELS / "src").iterdir() if path.is_dir()))


def _kernel_files() -> dict[str, Path]:
    own = sorted((path for folder in KERNEL_FOLDERS[1:] for path in folder.iterdir()), key=lambda path: path.name)
    return {path.name: path for path in [*sorted(KERNEL_FOLDERS[0].iterdir()), *own]}


KERNEL_FILES = _kernel_files()  # every header and source, by its name
KERNEL_SOURCES = {name: path for name, path in KERNEL_FILES.items() if path.suffix in (".c", ".S")}
DEVICE = PACKAGE / "device"
WEB = PACKAGE / "artifact" / "web"
WEB_PAGE = PACKAGE / "web" / "page"
