"""Progress reports of long work, and CPU seconds of each phase of a compile."""

import inspect
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

# ---- progress --------------------------------------------------------------------------------------------


class Progress(Protocol):
    """Receives the current phase and, if samples are counted, how many of how many are done."""

    def __call__(self, phase: str, done: int = 0, total: int = 0) -> None: ...


PhaseProgress = Callable[[str], None]
"""Receives the current phase, without counts."""


def silent(phase: str, done: int = 0, total: int = 0) -> None:
    """Ignores progress."""


def with_counts(progress: Callable[..., None]) -> Progress:
    """Returns a `progress` that takes counts; one that takes only the phase is replaced by `silent`."""
    try:
        inspect.signature(progress).bind("", 0, 0)
    except (TypeError, ValueError):
        return silent
    return progress


# ---- clock -----------------------------------------------------------------------------------------------

IMPORT = "import"
IMPORT_EXECUTORCH = "import executorch"


def cpu_seconds() -> float:
    """Returns the CPU seconds of this process and of its child processes that have ended."""
    return time.process_time() + children_seconds()


def children_seconds() -> float:
    """Returns the CPU seconds of the child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    """Rounds seconds for a report."""
    return {phase: round(value, 3) for phase, value in seconds.items()}


@dataclass
class Clock:
    """CPU seconds per phase, including those of compilers and other programs that it starts."""

    seconds: dict[str, float] = field(default_factory=dict)
    progress: Callable[[str], None] = lambda phase: None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.progress(name)
        start = cpu_seconds()
        yield
        self.add(name, cpu_seconds() - start)

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
