"""Programs that process untrusted data: with limits on time, memory and file sizes, in a process group that never
outlives this process.

A compiler starts other programs. All of them are in one process group, which is killed as a whole: on a timeout, on an
exception, and when this process ends in any way. For the last case a small shell waits on a pipe that only this process
holds open, and kills the groups it was told of when the pipe breaks.
"""

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from cortado.base.errors import CortadoError

MEGABYTE = 1 << 20
_HAS_GROUPS = hasattr(os, "posix_spawn") and hasattr(os, "killpg")


@dataclass(frozen=True)
class Limits:
    """A program's resource limits; None for no limit."""

    seconds: float | None = None  # wall-clock time
    cpu_seconds: int | None = None
    memory_bytes: int | None = None  # address space of each process
    file_bytes: int | None = None  # of each file, and of its output


COMPILER = Limits(seconds=1800, cpu_seconds=900, memory_bytes=6144 * MEGABYTE, file_bytes=1024 * MEGABYTE)
"""More than the largest network for a microcontroller's address space needs, and far less than would harm a machine."""


@dataclass(frozen=True)
class RunLimits:
    """The limits of a run; None for defaults that no inference reaches."""

    seconds: float | None = None  # per boot, or per process on this machine
    instructions: int | None = None  # per sample on a board

    def __post_init__(self) -> None:
        for name, value in (("timeout", self.seconds), ("max-instructions", self.instructions)):
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (is_number and 0 < value < 1 << 62):
                raise CortadoError(f"--{name} {value!r} is not a limit; expected a number above 0")


NO_LIMITS = RunLimits()


class Limit(StrEnum):
    """The kinds of limits, named as the fields of Limits."""

    SECONDS = "seconds"
    CPU_SECONDS = "cpu_seconds"
    MEMORY_BYTES = "memory_bytes"
    FILE_BYTES = "file_bytes"


class TooMuch(CortadoError):
    """A program was killed at one of its limits, which the message names."""

    def __init__(self, limit: Limit, message: str) -> None:
        super().__init__(message)
        self.limit = limit


@dataclass(frozen=True)
class Done:
    """The exit code and output of a program."""

    code: int  # negative: the signal that killed it
    stdout: bytes
    stderr: bytes

    @property
    def errors(self) -> str:
        return self.stderr.decode(errors="replace")


def run(
    command: Sequence[str | Path], limits: Limits, *, doing: str, folder: Path | None = None, given: bytes = b""
) -> Done:
    """Runs a program to its end. Its output goes to files, whose size can be limited, unlike that of pipes."""
    with tempfile.TemporaryDirectory(prefix="cortado-") as own, contextlib.ExitStack() as stack:
        paths = [Path(own) / name for name in ("in", "out", "err")]
        paths[0].write_bytes(given)
        stdout, stderr = (stack.enter_context(path.open("wb")) for path in paths[1:])
        with _started(command, limits, paths[0], stdout, stderr, folder) as process:
            try:
                code = _wait(process, limits.seconds)
            except subprocess.TimeoutExpired:
                raise TooMuch(
                    Limit.SECONDS, f"{doing} took more than {limits.seconds:g} seconds, and was stopped"
                ) from None
        done = Done(code, *(path.read_bytes() for path in paths[1:]))
    _check(done, limits, doing)
    return done


@contextlib.contextmanager
def _started(
    command: Sequence[str | Path],
    limits: Limits,
    given: Path,
    stdout: BinaryIO,
    stderr: BinaryIO,
    folder: Path | None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Starts a program with its limits in its own process group. A system without a shell and groups supports neither:
    there the program ends on a timeout or with this block."""
    if not _HAS_GROUPS:
        with given.open("rb") as stdin:
            words = list(map(str, command))
            process = subprocess.Popen(words, stdin=stdin, stdout=stdout, stderr=stderr, cwd=folder)
            try:
                yield process
            finally:
                process.kill()
                process.wait()
        return
    words = _limited(command, limits, given)
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, cwd=folder, process_group=0)
    with _kept(process):
        _begin(process)
        yield process


def _wait(process: "subprocess.Popen[bytes]", seconds: float | None) -> int:
    """Waits until the program ends. With a timeout Python polls, up to 50 ms apart, which is longer than many
    compilations take; Linux's pidfd reports the end at once."""
    if seconds is not None and hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):  # an old kernel, or one that forbids it
            handle = os.pidfd_open(process.pid)
            try:
                ended = select.poll()
                ended.register(handle, select.POLLIN)
                if not ended.poll(seconds * 1000):
                    raise subprocess.TimeoutExpired(process.args, seconds)
            finally:
                os.close(handle)
    return process.wait(seconds)


def _begin(process: "subprocess.Popen[bytes]") -> None:
    """Releases a program that `_limited` holds back, once the shell that would kill it knows of its group."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(b"go\n")


def _limited(command: Sequence[str | Path], limits: Limits, given: Path) -> list[str]:
    """Wraps a command in a shell that sets its limits before it starts; stricter ones are kept. The shell waits for a
    line before it runs the command, with a file as its input, and exits if the line never comes."""
    wanted = {
        "-St": limits.cpu_seconds,
        "-v": None if limits.memory_bytes is None else limits.memory_bytes // 1024,
        "-f": None if limits.file_bytes is None else limits.file_bytes // 512,
    }
    sets = [f"ulimit {option} {value} 2>/dev/null" for option, value in wanted.items() if value is not None]
    begins = 'read -r go || exit; given="$1"; shift; exec "$@" <"$given"'
    return ["/bin/sh", "-c", "; ".join(["ulimit -c 0", *sets, begins]), "sh", str(given), *map(str, command)]


def _check(done: Done, limits: Limits, doing: str) -> None:
    """Raises TooMuch for a limit that was hit: a compiler driver whose subprocess was killed says so in its output, and
    exits normally."""
    by_signal = signal.Signals(-done.code).name if done.code < 0 else ""
    text = done.stderr[-20_000:].decode(errors="replace")
    if by_signal == "SIGXFSZ" or "File size limit exceeded" in text or _is_full(done, limits):
        raise TooMuch(Limit.FILE_BYTES, f"{doing} wrote more than {_amount(limits.file_bytes)}, and was stopped")
    if by_signal == "SIGXCPU" or "CPU time limit exceeded" in text:
        seconds = limits.cpu_seconds
        raise TooMuch(Limit.CPU_SECONDS, f"{doing} took more than {seconds} seconds of CPU time, and was stopped")
    words = ("out of memory", "Cannot allocate memory", "virtual memory exhausted", "memory exhausted", "bad_alloc")
    if done.code != 0 and limits.memory_bytes is not None and any(word in text for word in words):
        most = _amount(limits.memory_bytes)
        raise TooMuch(Limit.MEMORY_BYTES, f"{doing} needs more than {most} of memory, and was stopped")


def _is_full(done: Done, limits: Limits) -> bool:
    return limits.file_bytes is not None and max(len(done.stdout), len(done.stderr)) >= limits.file_bytes


def _amount(size: int | None) -> str:
    return "there is room for" if size is None else f"{size // MEGABYTE:,} MB"


# ---- which ends with this process -----------------------------------------------------------------------------------


@contextlib.contextmanager
def _kept(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Kills the program's whole group when the block or this process ends, however that happens."""
    _tell(process.pid, runs=True)
    try:
        yield
    finally:
        _end_group(process)
        _tell(process.pid, runs=False)


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """Kills a program that has its own process group, and all its descendants."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


_WAITS = """
while read -r line; do groups=$line; done
for group in $groups; do kill -s KILL -- "-$group"; done
"""
"""Every line lists all running groups."""


@dataclass
class _Shell:
    """The waiting shell, and the process that owns it."""

    owner: int
    pipe: int
    groups: set[int] = field(default_factory=set)


_lock = threading.Lock()
_shells: list[_Shell] = []


def _tell(group: int, *, runs: bool) -> None:
    with _lock, contextlib.suppress(OSError):  # if this fails, only the limits end the groups
        if not _shells or _shells[-1].owner != os.getpid():
            _shells.append(_start())
        groups = _shells[-1].groups
        (groups.add if runs else groups.discard)(group)
        os.write(_shells[-1].pipe, f"{' '.join(map(str, sorted(groups)))}\n".encode())


def _start() -> _Shell:
    read, write = os.pipe()
    null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    files = [(os.POSIX_SPAWN_DUP2, read, 0), null, (os.POSIX_SPAWN_DUP2, 1, 2)]
    try:
        os.posix_spawn("/bin/sh", ["sh", "-c", _WAITS], os.environ, file_actions=files, setpgroup=0)
    finally:
        os.close(read)
    return _Shell(os.getpid(), write)
