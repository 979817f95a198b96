"""Starts a program that can open only the files it is given, through Linux's Landlock, which needs no privileges and no
package. A script of its own, run as `python -I -S landlock.py`: it imports nothing from Cortado.

Its arguments are r:PATH (a file, or everything below a folder, to be read and executed), w:PATH (a folder to be written
to), then -- and the command. Child processes inherit the restrictions.
"""

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the numbers of Linux's calls, on every architecture
_ONLY_VERSION, _BENEATH, _NO_NEW_PRIVILEGES = 1, 1, 38
# Access rights by their bits in linux/landlock.h; then all rights that each version of Landlock knows, and those that
# apply to files.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_KNOWN = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF}
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_READS = _EXECUTE | _READ_FILE | _READ_DIR


def version() -> int:
    """Returns the kernel's version of Landlock; 0 if it has none."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, _ONLY_VERSION), 0)


def restrict(reads: Sequence[str], writes: Sequence[str]) -> None:
    """Restricts this process irrevocably to opening these paths."""
    library = ctypes.CDLL(None, use_errno=True)
    handled = _KNOWN[min(version(), max(_KNOWN))]

    def call(number: int, *arguments: object) -> int:
        done = library.syscall(number, *arguments)
        if done < 0:
            raise OSError(ctypes.get_errno(), "Landlock refused")
        return int(done)

    attributes = struct.pack("=Q", handled)
    rules = call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    for paths, rights in ((reads, _READS), (writes, handled)):
        for path in paths:
            with _opened(path) as (handle, is_folder):
                allowed = rights & handled & (~0 if is_folder else _OF_FILES)
                call(_ADD_RULE, rules, _BENEATH, struct.pack("=Qi", allowed, handle), 0)
    if library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs refused")
    call(_RESTRICT_SELF, rules, 0)
    os.close(rules)


@contextmanager
def _opened(path: str) -> Iterator[tuple[int, bool]]:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        yield handle, stat.S_ISDIR(os.fstat(handle).st_mode)
    finally:
        os.close(handle)


def main(arguments: Sequence[str]) -> None:
    """Replaces this process by the restricted command; never returns."""
    end = list(arguments).index("--")
    named = {kind: [word[2:] for word in arguments[:end] if word.startswith(kind)] for kind in ("r:", "w:")}
    restrict(named["r:"], named["w:"])
    command = list(arguments[end + 1 :])
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
