"""Variations of a recording: hops that start at another sample, another loudness, an added noise floor.

The words recognized must not depend on where the first hop starts: a device starts to listen at any sample.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cortado.artifact.opened import Artifact
from cortado.artifact.streamed import FULL_SCALE, Recording, push_many, row_values
from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError
from cortado.plan.decision import DecisionRule
from cortado.run.runner import HOST
from cortado.scoring.events import Event, EventScore, heard, score_events

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
