"""A sweep's rows: what was asked, what came of it; as CSV and JSON, and which of them nothing else beats."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Any

from cortado.sweep.spec import SweepTarget


class Status(Enum):
    """How a candidate ended."""

    FINE = "fine"
    REFUSED = "refused"  # Cortado says why
    FAILED = "failed"  # the user's code raised
    CRASHED = "crashed"  # its process ended
    LATE = "late"  # it took too long


@dataclass(frozen=True)
class Task:
    """One candidate on one place with one choice of options. Plain data: it goes to other processes as JSON."""

    model: str  # as load_model takes it, or the name of a candidate
    candidates: str | None  # the function that gives it
    folder: str  # from which files are named
    place: SweepTarget
    options: Mapping[str, Any]
    seconds: float
    figures: str
    cache: str | None = None  # a folder with rows that are known

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Task":
        return Task(**{**data, "place": SweepTarget(**data["place"])})


@dataclass(frozen=True)
class SweepRow:
    """What came of a task. Figures are None where there are none."""

    model: str
    place: str
    options: str
    status: Status
    reason: str = ""
    target: str | None = None
    macs: int | None = None
    ram_bytes: int | None = None
    weights_bytes: int | None = None
    code_bytes: int | None = None
    flash_bytes: int | None = None
    cycles: int | None = None
    milliseconds: float | None = None
    fits: bool | None = None
    key: str = ""  # of its content, in the cache
    cached: bool = False
    best: bool = field(default=False, compare=False)  # no other row of its place beats it in all figures

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "status": self.status.value}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "SweepRow":
        return SweepRow(**{**data, "status": Status(data["status"])})


def ended(task: Task, status: Status, reason: str) -> SweepRow:
    """A row without figures."""
    return SweepRow(task.model, task.place.label, options_text(task.options), status, reason)


def options_text(options: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items())


def as_csv(rows: Sequence[SweepRow]) -> str:
    text = io.StringIO()
    names = [one.name for one in fields(SweepRow)]
    lines = csv.DictWriter(text, names, lineterminator="\n")
    lines.writeheader()
    lines.writerows(row.to_json() for row in rows)
    return text.getvalue()


def pareto(rows: Sequence[SweepRow]) -> set[int]:
    """The positions of rows that no other row of the same place beats: in RAM, flash and cycles, equal counts."""
    points = {
        position: (row.place, (row.ram_bytes, row.flash_bytes or row.weights_bytes or 0, row.cycles))
        for position, row in enumerate(rows)
        if row.ram_bytes is not None and row.cycles is not None and row.fits is not False
    }
    return {
        position
        for position, (place, point) in points.items()
        if not any(_beats(other, point) for where, other in points.values() if where == place)
    }


def _beats(one: Sequence[int | None], other: Sequence[int | None]) -> bool:
    pairs = [(a or 0, b or 0) for a, b in zip(one, other, strict=True)]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
