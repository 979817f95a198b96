"""A sweep's rows: what was asked, what came of it; as CSV and JSON, and which of them nothing else beats."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum
from typing import Any

from cortado.sweep.spec import Constraint, SweepTarget


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
class ScoreTask:
    """One candidate, to be trained and judged by the user's function. Plain data, as a Task."""

    model: str
    candidates: str
    folder: str
    score: str  # file.py:function
    seconds: float
    cache: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class CandidateScore:
    """Score of a candidate: a number, or a status and a reason."""

    value: float | None
    status: Status = Status.FINE
    reason: str = ""
    key: str = ""
    cached: bool = False

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "status": self.status.value}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "CandidateScore":
        return CandidateScore(**{**data, "status": Status(data["status"])})


@dataclass(frozen=True)
class SweepRow:
    """Result of a task. Figures are None where there are none."""

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
    score: float | None = None  # what the user's function makes of its candidate: more is better
    over: str = ""  # the first constraint that it doesn't meet
    best: bool = field(default=False, compare=False)  # no other row of its place beats it in all figures

    @property
    def eligible(self) -> bool:
        """Whether there are figures, the chip has room, and no constraint is in the way."""
        known = self.ram_bytes is not None and self.cycles is not None
        return known and self.fits is not False and not self.over

    @property
    def needed_flash(self) -> int:
        """Returns the flash needed, that of the weights alone where code is not known."""
        return self.flash_bytes or self.weights_bytes or 0

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


def held_to(row: SweepRow, constraints: Sequence[Constraint]) -> SweepRow:
    """The row with the first constraint that it doesn't meet."""
    figures = {"ram": row.ram_bytes, "flash": row.needed_flash, "cycles": row.cycles, "ms": row.milliseconds}
    broken = [one.text for one in constraints if (figures[one.figure] or 0) > one.most]
    return replace(row, over=broken[0] if broken else "")


def pareto(rows: Sequence[SweepRow], *, scored: bool = False) -> set[int]:
    """The positions of rows that no other row of the same place beats: in RAM, flash and cycles, and where there are
    scores in these; equal counts."""
    points = {
        position: (row.place, (-(row.score or 0.0), row.ram_bytes or 0, row.needed_flash, row.cycles or 0))
        for position, row in enumerate(rows)
        if row.eligible and (row.score is not None or not scored)
    }
    return {
        position
        for position, (place, point) in points.items()
        if not any(_beats(other, point) for where, other in points.values() if where == place)
    }


def _beats(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other
