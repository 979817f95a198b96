"""Progress of long work.

CPU seconds of each phase of a compile.
"""

import inspect
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

# ---- progress --------------------------------------------------------------------------------------------


class Progress(Protocol):
    """Hears what is being done, and how many of how many samples are done where they are counted."""

    def __call__(self, phase: str, done: int = 0, total: int = 0) -> None: ...


PhaseProgress = Callable[[str], None]
"""Hears what is being done, and no counts."""


def silent(phase: str, done: int = 0, total: int = 0) -> None:
    """Tells nobody."""


def with_counts(progress: Callable[..., None]) -> Progress:
    """A `progress` that takes counts; one that takes the phase alone is told each phase, and no counts."""
    try:
        inspect.signature(progress).bind("", 0, 0)
    except (TypeError, ValueError):
        return silent
    return progress


# ---- clock -----------------------------------------------------------------------------------------------

IMPORT = "import"
IMPORT_EXECUTORCH = "import executorch"


def cpu_seconds() -> float:
    """Returns the CPU seconds of this process and of those that it started and that have ended."""
    return time.process_time() + children_seconds()


def children_seconds() -> float:
    """Returns the CPU seconds of the processes that this one started and that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    """Rounds seconds for a report."""
    return {phase: round(value, 3) for phase, value in seconds.items()}


@dataclass
class Clock:
    """CPU seconds per phase, those of compilers and other programs that it starts included."""

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
