"""Decisions compared with events: hits, misses, false alarms, and latency.

Also a compiled classifier run on a recording with events, and the score of its decisions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cortado.artifact.opened import Artifact
from cortado.artifact.streamed import Recording, listen
from cortado.base.decision import Decision
from cortado.base.errors import CortadoError
from cortado.plan.decision import NO_DECISION, DecisionRule, class_number, rule_of

# ---- events ----------------------------------------------------------------------------------------------

HOUR = 3600.0


@dataclass(frozen=True)
class Event:
    """An event in a recording, in seconds."""

    start: float
    end: float
    label: int  # the class


@dataclass(frozen=True)
class Heard:
    """A decision, at the second when its last sample arrived."""

    at: float
    label: int


@dataclass
class ClassTally:
    """The counts of one class."""

    events: int = 0
    hits: int = 0
    repeats: int = 0  # further decisions for an event that was hit already
    false_alarms: int = 0
    latencies: list[float] = field(default_factory=list)  # from an event's start to its hit

    @property
    def misses(self) -> int:
        return self.events - self.hits


@dataclass(frozen=True)
class EventScore:
    """The score of a recording, by class; classes that are never decided for have no events."""

    seconds: float  # of the recording
    classes: tuple[ClassTally, ...]

    @property
    def events(self) -> int:
        return sum(one.events for one in self.classes)

    @property
    def hits(self) -> int:
        return sum(one.hits for one in self.classes)

    @property
    def misses(self) -> int:
        return self.events - self.hits

    @property
    def repeats(self) -> int:
        return sum(one.repeats for one in self.classes)

    @property
    def false_alarms(self) -> int:
        return sum(one.false_alarms for one in self.classes)

    @property
    def false_alarms_per_hour(self) -> float:
        return self.false_alarms * HOUR / self.seconds

    def latency(self, percent: float) -> float | None:
        """Returns the latency in seconds that `percent` of the hits do not exceed; None without hits."""
        every = [late for one in self.classes for late in one.latencies]
        return float(np.percentile(every, percent)) if every else None


def heard(decisions: Sequence[int], times: Sequence[float]) -> list[Heard]:
    """Returns the decisions of outputs that came at these times."""
    pairs = zip(times, decisions, strict=True)
    return [Heard(float(at), int(label)) for at, label in pairs if label != NO_DECISION]


def score_events(
    events: Sequence[Event], found: Sequence[Heard], deciding: Sequence[bool], seconds: float, tolerance: float
) -> EventScore:
    """Scores decisions against events.

    An event is hit by the first decision for its class from its start to `tolerance` seconds after its end; a decision
    that matches several events hits the first one not hit before. `deciding` says for each class whether it can be
    decided for; events of other classes are background.
    """
    tallies = tuple(ClassTally() for _ in deciding)
    wanted = sorted((event for event in events if deciding[event.label]), key=lambda event: event.start)
    for event in wanted:
        tallies[event.label].events += 1
    left = set(range(len(wanted)))
    for one in sorted(found, key=lambda one: one.at):
        near = [
            number
            for number, event in enumerate(wanted)
            if event.label == one.label and event.start <= one.at <= event.end + tolerance
        ]
        tally, hit = tallies[one.label], next((number for number in near if number in left), None)
        if hit is not None:
            left.discard(hit)
            tally.hits += 1
            tally.latencies.append(one.at - wanted[hit].start)
        elif near:
            tally.repeats += 1
        else:
            tally.false_alarms += 1
    return EventScore(seconds, tallies)


# ---- from files ----------------------------------------------------------------------------------------------------


def read_events(path: Path, classes: int, names: Sequence[str] | None) -> list[Event]:
    """Reads lines of start, end and class, separated by commas or tabs; the first may be a header."""
    if not path.is_file():
        raise CortadoError(f"there is no file {path}")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CortadoError(f"{path} is not readable text: {error}") from error
    found = []
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split("\t" if "\t" in line else ",")]
        is_header = number == 1 and _second(cells[0]) is None
        if line.strip() and not is_header:
            found.append(_event(cells, f"{path}:{number}", classes, names))
    if not found:
        raise CortadoError(f"{path} holds no events; expected lines of start, end and class, as in 1.25,1.80,yes")
    return found


def _second(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _event(cells: Sequence[str], where: str, classes: int, names: Sequence[str] | None) -> Event:
    start, end = (_second(cell) for cell in (*cells, "", "")[:2])
    if len(cells) != 3 or start is None or end is None or not 0 <= start <= end:
        raise CortadoError(
            f"{where}: found '{','.join(cells)[:60]}', expected start, end (in seconds, the end not before the start) "
            "and class, as in 1.25,1.80,yes"
        )
    try:
        return Event(start, end, class_number(cells[2], classes, names))
    except CortadoError as error:
        raise CortadoError(f"{where}: {error}") from None


# ---- listening -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StreamEvaluation:
    """The reference's decisions; `same_in_c` says whether the compiled C decided the same, None if it has another rule
    or none."""

    outputs: int
    decisions: tuple[Heard, ...]
    score: EventScore
    same_in_c: bool | None


def decision_rule(artifact: Artifact, decision: Decision | None) -> DecisionRule:
    """Returns the decision rule: the given one, or else the one that the model was compiled with."""
    if decision is not None:
        return rule_of(decision, artifact.report.outputs[0].scores, artifact.report.labels)
    rule = artifact.report.rule
    if rule is None:
        raise CortadoError(
            f"{artifact.folder} was compiled without --decide; expected a decision rule to score: give one with "
            "--decide"
        )
    return rule


def evaluate_stream(
    artifact: Artifact, recording: Recording, events: Sequence[Event], rule: DecisionRule, tolerance: float
) -> StreamEvaluation:
    """Runs the C kernels on the recording on this machine, and scores the decisions on their outputs."""
    found = listen(artifact, recording)
    late = max(event.start for event in events)
    if late >= found.seconds:
        raise CortadoError(
            f"an event begins at {late:g} s, but the recording has {found.seconds:g} s; expected events within it, in "
            "seconds"
        )
    decisions = rule.decisions(found.scores)
    in_c = found.decisions if rule == artifact.report.rule else None
    made = heard(decisions.tolist(), found.times)
    deciding = [threshold is not None for threshold in rule.thresholds]
    return StreamEvaluation(
        outputs=len(decisions),
        decisions=tuple(made),
        score=score_events(events, made, deciding, found.seconds, tolerance),
        same_in_c=None if in_c is None else bool(np.array_equal(decisions, in_c)),
    )
