"""Programs with limits: what ends them, and that nothing of them is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cortado.run import sandbox
from cortado.run.sandbox import Limits, TooMuch

MB = 1 << 20


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def ends(pid: int, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_running(pid)


def started(file: Path, seconds: float = 60.0) -> int:
    """The process that has written its number there."""
    end = time.monotonic() + seconds
    while not (file.exists() and file.read_text().endswith("\n")) and time.monotonic() < end:
        time.sleep(0.02)
    return int(file.read_text())


def test_a_program_that_stays_within_them_is_as_ever() -> None:
    done = sandbox.run(["cat"], Limits(60, 60, 500 * MB, MB), doing="cat", given=b"said")
    assert (done.code, done.stdout, done.errors) == (0, b"said", "")
    assert sandbox.run(["sh", "-c", "echo no >&2; exit 3"], Limits(), doing="sh").code == 3


@pytest.mark.parametrize(
    ("command", "limits", "limit", "message"),
    [
        (
            "sleep 600 & sleep 600",
            Limits(seconds=0.5),
            "seconds",
            "job took more than 0.5 seconds, and was stopped",
        ),
        ("while :; do :; done", Limits(cpu_seconds=1), "cpu_seconds", "more than 1 seconds of CPU time"),
        ("yes", Limits(file_bytes=MB), "file_bytes", "job wrote more than 1 MB, and was stopped"),
        ("yes > file", Limits(file_bytes=MB), "file_bytes", "job wrote more than 1 MB, and was stopped"),
    ],
)
def test_a_program_ends_at_its_limit(tmp_path: Path, command: str, limits: Limits, limit: str, message: str) -> None:
    with pytest.raises(TooMuch, match=message) as caught:
        sandbox.run(["sh", "-c", f"cd {tmp_path}; {command}"], limits, doing="job")
    assert caught.value.limit == limit


@pytest.mark.host
def test_a_compiler_that_needs_too_much_memory_ends(tmp_path: Path) -> None:
    (tmp_path / "zero.c").write_text('#include "/dev/zero"\n')
    with pytest.raises(TooMuch, match="compiling needs more than 256 MB of memory, and was stopped"):
        sandbox.run(["cc", "-E", tmp_path / "zero.c"], Limits(300, 200, 256 * MB, MB), doing="compiling")


GRANDCHILD = "(echo $$ > {file}; exec sleep 600) & wait"


def test_what_a_program_started_ends_with_it(tmp_path: Path) -> None:
    """At its limit, and when it is done and leaves something behind."""
    for command, limits in (
        (f"echo x; {GRANDCHILD}", Limits(seconds=2)),
        ("sleep 600 & echo $! > {file}", Limits()),
    ):
        file = tmp_path / "pid"
        try:
            sandbox.run(
                ["sh", "-c", command.format(file=file).replace("$$", "$(exec sh -c 'echo $PPID')")], limits, doing="job"
            )
        except TooMuch:
            assert limits.seconds is not None
        assert ends(started(file))
        file.unlink()


@pytest.mark.cases(1)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_program_ends_with_the_process_that_started_it(tmp_path: Path, how: signal.Signals) -> None:
    file = tmp_path / "pid"
    inner = f"sleep 600 & echo $! > {file}; wait"
    code = f"from cortado.run import sandbox; sandbox.run(['sh', '-c', {inner!r}], sandbox.Limits(), doing='job')"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    pid = started(file)
    assert is_running(pid)
    os.kill(process.pid, how)
    process.wait(60)
    assert ends(pid)
