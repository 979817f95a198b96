"""What long work tells of itself."""

from typing import Protocol


class Progress(Protocol):
    """Hears what is being done, and how many of how many samples are done where they are counted."""

    def __call__(self, phase: str, done: int = 0, total: int = 0) -> None: ...


def silent(phase: str, done: int = 0, total: int = 0) -> None:
    """Tells nobody."""
