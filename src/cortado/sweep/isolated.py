"""Tasks in separate processes: a crash or a hang affects one row only, whatever executor runs it.

Each thread of an executor keeps one such process, since torch takes seconds to import. After a crash it is replaced.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from cortado.sweep.rows import CandidateScore, Status, Task, ended

START_SECONDS = 300.0  # for imports, on a busy machine
TASKS = 100  # per process: torch keeps what it has traced
_local = threading.local()
_living: set["Child"] = set()


class Ended(Exception):
    """The process ended; the text says how."""


class Late(Exception):
    """The error of a candidate that did not answer in time."""


class Child:
    """A process that answers requests, one at a time."""

    def __init__(self, command: Sequence[str] = (sys.executable, "-m", "cortado.sweep.child")) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # there are as many processes as cores
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        self.asked = 0
        self.left = b""
        _living.add(self)
        self._read(START_SECONDS)

    def ask(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.asked += 1
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Ended(self._how()) from None
        return self._read(seconds)

    def _read(self, seconds: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.left:
                if not ready.select(max(end - time.monotonic(), 0)):
                    raise Late
                piece = os.read(self.process.stdout.fileno(), 1 << 16)
                if not piece:
                    raise Ended(self._how())
                self.left += piece
        line, _, self.left = self.left.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _how(self) -> str:
        code = self.process.wait()
        if code >= 0:
            return f"its process exited with code {code}"
        with contextlib.suppress(ValueError):
            return f"its process was killed by {signal.Signals(-code).name}"
        return f"its process was killed by signal {-code}"

    def close(self) -> None:
        """Kills the process and its descendants."""
        _living.discard(self)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def _child() -> Child:
    found: Child | None = getattr(_local, "child", None)
    if found is not None and (found not in _living or found.asked >= TASKS):
        _drop()
        found = None
    if found is None:
        found = _local.child = Child()
    return found


def _drop() -> None:
    found: Child | None = getattr(_local, "child", None)
    _local.child = None
    if found is not None:
        found.close()


def close_all() -> None:
    """Kills the processes of all threads."""
    for child in list(_living):
        child.close()


def asked(request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Returns the answer of this thread's process; one that crashed or timed out is replaced on the next request."""
    try:
        return _child().ask({**request, "seconds": seconds}, seconds)
    except BaseException:
        _drop()
        raise


def run_task(data: Mapping[str, Any]) -> dict[str, Any]:
    """Runs a task for an executor: takes it as JSON, and returns its row."""
    task = Task.from_json(data)
    try:
        return asked(data, task.seconds)
    except Late:
        return ended(task, Status.LATE, f"not finished after {task.seconds:g} seconds").to_json()
    except Ended as error:
        return ended(task, Status.CRASHED, str(error)).to_json()


def run_score(data: Mapping[str, Any]) -> dict[str, Any]:
    """Runs a score in the same way."""
    seconds = float(data["seconds"])
    try:
        return asked(data, seconds)
    except Late:
        return CandidateScore(None, Status.LATE, f"no score after {seconds:g} seconds").to_json()
    except Ended as error:
        return CandidateScore(None, Status.CRASHED, str(error)).to_json()


def run_names(candidates: str, folder: str, seconds: float) -> dict[str, Any]:
    """Returns the names of a function's candidates, or an error."""
    try:
        return asked({"names": candidates, "folder": folder}, seconds)
    except Late:
        return {"error": f"{candidates} did not return its candidates in {seconds:g} seconds"}
    except Ended as error:
        return {"error": f"{candidates}: {error}"}
