"""A sweep's rows: tasks and their results, as CSV and JSON, and the Pareto front."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum
from typing import Any

from cortado.sweep.spec import Constraint, SweepTarget


class Status(Enum):
    """The outcome of a candidate."""

    FINE = "fine"
    REFUSED = "refused"  # Cortado refused it, with a reason
    FAILED = "failed"  # the user's code raised
    CRASHED = "crashed"  # its process ended
    LATE = "late"  # it took too long


@dataclass(frozen=True)
class Task:
    """A candidate for one place with one choice of options. Plain data: it is sent to other processes as JSON."""

    model: str  # as load_model takes it, or the name of a candidate
    candidates: str | None  # the function that gives it
    folder: str  # that file names are relative to
    place: SweepTarget
    options: Mapping[str, Any]
    seconds: float
    figures: str
    cache: str | None = None  # a folder with cached rows

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Task":
        return Task(**{**data, "place": SweepTarget(**data["place"])})


@dataclass(frozen=True)
class ScoreTask:
    """A candidate to be trained and judged by the user's function. Plain data, like a Task."""

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
    """The score of a candidate: a number, or a status and a reason."""

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
    """The result of a task. Figures that are unknown are None."""

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
    score: float | None = None  # the result of the user's function: more is better
    over: str = ""  # the first constraint violated
    best: bool = field(default=False, compare=False)  # no other row of its place dominates it

    @property
    def eligible(self) -> bool:
        """Returns whether the row has figures, fits the chip, and meets all constraints."""
        known = self.ram_bytes is not None and self.cycles is not None
        return known and self.fits is not False and not self.over

    @property
    def needed_flash(self) -> int:
        """Returns the flash needed; of weights alone if the code size is unknown."""
        return self.flash_bytes or self.weights_bytes or 0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "status": self.status.value}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "SweepRow":
        return SweepRow(**{**data, "status": Status(data["status"])})


def ended(task: Task, status: Status, reason: str) -> SweepRow:
    """Returns a row without figures."""
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
    """Returns the row with the first constraint that it violates."""
    figures = {"ram": row.ram_bytes, "flash": row.needed_flash, "cycles": row.cycles, "ms": row.milliseconds}
    broken = [one.text for one in constraints if (figures[one.figure] or 0) > one.most]
    return replace(row, over=broken[0] if broken else "")


def pareto(rows: Sequence[SweepRow], *, scored: bool = False) -> set[int]:
    """Returns the positions of rows on the Pareto front of their place: in RAM, flash and cycles, and in scores if
    there are any; ties count."""
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
