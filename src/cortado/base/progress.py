"""Progress of long work."""

import inspect
from collections.abc import Callable
from typing import Protocol


class Progress(Protocol):
    """Hears what is being done, and how many of how many samples are done where they are counted."""

    def __call__(self, phase: str, done: int = 0, total: int = 0) -> None: ...


PhaseProgress = Callable[[str], None]
"""Hears what is being done, and no counts."""


def silent(phase: str, done: int = 0, total: int = 0) -> None:
    """Tells nobody."""


def with_counts(progress: Callable[..., None]) -> Progress:
    """Who hears counts: a `progress` that takes the phase alone is told each phase, and no counts."""
    try:
        inspect.signature(progress).bind("", 0, 0)
    except (TypeError, ValueError):
        return silent
    return progress
