"""A compiled classifier on a recording with events: the decisions of its scores, and what they are worth."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cortado.artifact.listened import Recording, listen
from cortado.artifact.opened import Artifact
from cortado.base.decision import Decision
from cortado.base.errors import CortadoError
from cortado.plan.decision import DecisionRule, rule_of
from cortado.scoring.events import Event, EventScore, Heard, heard, score_events


@dataclass(frozen=True)
class StreamEvaluation:
    """Decisions of the reference; `same_in_c`: the compiled C gave the same, None where it decides by another rule or
    by none."""

    outputs: int
    decisions: tuple[Heard, ...]
    score: EventScore
    same_in_c: bool | None


def decision_rule(artifact: Artifact, decision: Decision | None) -> DecisionRule:
    """By what is decided: what is given, or else what the model was compiled with."""
    if decision is not None:
        return rule_of(decision, artifact.report.outputs[0].scores, artifact.report.labels)
    rule = artifact.report.rule
    if rule is None:
        raise CortadoError(
            f"{artifact.folder} was compiled without --decide; expected a decision to score: give it one with --decide"
        )
    return rule


def evaluate_stream(
    artifact: Artifact, recording: Recording, events: Sequence[Event], rule: DecisionRule, tolerance: float
) -> StreamEvaluation:
    """The C kernels hear the recording on this machine; their scores are decided by."""
    found = listen(artifact, recording)
    late = max(event.start for event in events)
    if late >= found.seconds:
        raise CortadoError(
            f"an event begins at {late:g} s, and the recording has {found.seconds:g} s; expected events within it, in "
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
