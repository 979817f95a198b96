"""Decisions compared with events: hits, misses, false alarms, and latency.

Also a compiled classifier run on a recording with events, and the score of its decisions.

Variations of a recording: hops that start at another sample, another loudness, an added noise floor.

The words recognized must not depend on where the first hop starts: a device starts to listen at any sample.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cortado.artifact.opened import Artifact
from cortado.artifact.streamed import FULL_SCALE, Recording, listen, push_many, row_values
from cortado.base.arrays import ArrayType
from cortado.base.decision import Decision
from cortado.base.errors import CortadoError
from cortado.plan.decision import NO_DECISION, DecisionRule, class_number, rule_of
from cortado.run.runner import HOST

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


# ---- variations of a recording ----------------------------------------------------------------------

ALL_PHASES = -1  # as many as a hop has samples
MOST = 100_000  # variations of one evaluation


@dataclass(frozen=True)
class Variation:
    """One variation of a recording."""

    phase: int = 0  # samples before the first hop
    loudness: float = 1.0  # the factor of all samples
    noise_db: float | None = None  # white noise relative to full scale; None for none

    def __str__(self) -> str:
        noise = "" if self.noise_db is None else f", noise at {self.noise_db:g} dB"
        return f"phase {self.phase}, loudness {self.loudness:g}{noise}"

    def of(self, samples: ArrayType, count: int) -> ArrayType:
        """Returns `count` samples, in their original type. The noise is the same in every run."""
        part = samples[self.phase : self.phase + count].astype(np.float64) * self.loudness
        full = FULL_SCALE if samples.dtype.kind == "i" else 1.0
        if self.noise_db is not None:
            part += np.random.default_rng(0).normal(scale=full * 10 ** (self.noise_db / 20), size=count)
        if samples.dtype.kind != "i":
            return part.astype(samples.dtype)
        return np.clip(np.rint(part), -full, full - 1).astype(samples.dtype)


@dataclass(frozen=True)
class VariedScore:
    """The score of the decisions, and whether the compiled C made the same ones (None if it has another rule)."""

    variation: Variation
    score: EventScore
    same_in_c: bool | None


def variations_of(
    hop: int, phases: int, loudness: Sequence[float] = (), noise_db: float | None = None
) -> list[Variation]:
    """Returns phases evenly spaced over a hop of `hop` samples, each at every loudness, with and without noise."""
    wanted = hop if phases == ALL_PHASES else min(phases, hop)
    starts = [number * hop // wanted for number in range(wanted)]
    noises = [None] if noise_db is None else [None, noise_db]
    found = [Variation(*one) for one in itertools.product(starts, loudness or (1.0,), noises)]
    if len(found) > MOST:
        raise CortadoError(f"{len(found):,} variations were requested, expected at most {MOST:,}: give fewer phases")
    return found


def hop_samples(artifact: Artifact) -> int:
    """Returns the samples per push; raises for a model whose rows are no signal."""
    given, stream = artifact.report.inputs[0], artifact.report.stream
    if stream is None or math.prod(given.model_shape) != max(given.model_shape):
        raise CortadoError(
            f"{artifact.folder} takes no samples of a signal, so hops can't begin elsewhere; leave --phases, "
            "--loudness and --noise out"
        )
    return row_values(artifact.report)


def evaluate_variations(
    artifact: Artifact,
    recording: Recording,
    events: Sequence[Event],
    rule: DecisionRule,
    tolerance: float,
    variations: Sequence[Variation],
) -> list[VariedScore]:
    """Runs the C kernels on all variations, on all cores of this machine. Times are relative to the original
    recording."""
    hop, report = hop_samples(artifact), artifact.report
    count = (len(recording.values) - max(one.phase for one in variations)) // hop * hop
    classes = report.outputs[0].scores.classes
    deciding = [threshold is not None for threshold in rule.thresholds]
    found = []
    pushed = push_many(artifact, [one.of(recording.values, count) for one in variations], HOST)
    for variation, one in zip(variations, pushed, strict=True):
        decisions = rule.decisions(one.codes[0].reshape(-1, classes))
        times = [((end + 1) * hop + variation.phase) / recording.rate for end in one.ends]
        made = heard(decisions.tolist(), times)
        in_c = one.decisions if rule == report.rule else None
        same = None if in_c is None else bool(np.array_equal(decisions, in_c))
        score = score_events(events, made, deciding, count / recording.rate, tolerance)
        found.append(VariedScore(variation, score, same))
    return found
