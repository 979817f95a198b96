"""Accuracy of a model's outputs on its own calibration data: outputs that lose their signal are reported."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from cortado.base.findings import Finding, FindingKind
from cortado.frontend.quantize.accuracy_targets import agreement, decibels
from cortado.frontend.quantize.convert import FloatRun
from cortado.plan.lowered import LoweredGraph, after, run_reference
from cortado.scoring.blame import Culprit

Tensor = torch.Tensor

ENOUGH = 20.0  # decibels: below, what was rounded away is more than a hundredth of the signal's power
ALIKE = 0.95  # of the integers or truth values of an output: fewer are told of
WORK = 2_000_000  # values that are computed, at most, beyond the first sample
SEQUENCE_WORK = 20 * WORK  # the same of a model with state: what is rounded away at each step adds up over them


NOBODY = (
    "Its values, or those of a tensor before it, are too small beside the largest one of their tensor; "
    "`cortado validate --per-layer` shows where"
)


@dataclass(frozen=True)
class AccuracyFindings:
    """The reference's values for the first sample, and a finding for each output that int8 loses too much of."""

    first: dict[str, Tensor]
    findings: tuple[Finding, ...]


def check_outputs(
    graph: LoweredGraph,
    runs: Sequence[FloatRun],
    sequence: int | None = None,
    blamed: Callable[[int], Sequence[Culprit]] = lambda output: (),
) -> AccuracyFindings:
    """`runs` are calibration inputs, at least one, with the float model's outputs; how many are looked at depends on
    the size of the network. Of a model with state they are steps of sequences, of that length or one, and judged over
    all of them: a value that moves by less than its code's step in each never moves. `blamed` gives the tensors that an
    output loses most to."""
    size = sum(math.prod(value.shape) for value in graph.values.values())
    values = first = run_reference(graph, runs[0].inputs)
    found = [[first[name] for name in graph.outputs]]
    most = (SEQUENCE_WORK if graph.state else WORK) // max(size, 1)
    for number, run in enumerate(runs[1 : 1 + most], start=1):
        state = None if sequence is not None and number % sequence == 0 else after(graph, values)
        values = run_reference(graph, run.inputs, state)
        found.append([values[name] for name in graph.outputs])
    findings = []
    for position, output in enumerate(runs[0].outputs):
        tensor = _tensor(graph, position, graph.outputs[position])
        pairs = [(run.outputs[position], outputs[position]) for run, outputs in zip(runs, found, strict=False)]
        findings.append(
            _low(tensor, pairs, partial(blamed, position)) if output.is_floating_point() else _unlike(tensor, pairs)
        )
    return AccuracyFindings(first, tuple(finding for finding in findings if finding is not None))


def _unlike(tensor: str, pairs: Sequence[tuple[Tensor, Tensor]]) -> Finding | None:
    """Integers and truth values have no signal: they are the float model's, or not."""
    kept = agreement(pairs)
    if kept >= ALIKE:
        return None
    return Finding(
        kind=FindingKind.LOW_AGREEMENT,
        text=f"{tensor} agrees with the float model in {kept:.1%} of its values, expected {ALIKE:.0%} or more: on the "
        "calibration data its integers or truth values are others. They depend on real numbers that int8 rounds (a "
        "comparison of numbers that lie close together, the largest of some that are almost equal), or they leave 32 "
        "bits; compare integers before they are made real, or numbers that lie further apart",
        found=kept,
        limit=ALIKE,
        tensor=tensor,
    )


def _low(
    tensor: str, pairs: Sequence[tuple[Tensor, Tensor]], blamed: Callable[[], Sequence[Culprit]]
) -> Finding | None:
    kept = decibels(pairs)
    if kept >= ENOUGH:
        return None
    found = blamed()
    why = f"It loses most to {'; to '.join(str(culprit) for culprit in found)}" if found else NOBODY
    return Finding(
        kind=FindingKind.LOW_SQNR,
        text=f"{tensor} keeps {_amount(kept)} of its signal, expected {ENOUGH:g} dB or more: on the calibration data "
        f"its int8 values are that far from the float model's. {why}",
        found=kept if math.isfinite(kept) else None,
        limit=ENOUGH,
        tensor=tensor,
    )


def _tensor(graph: LoweredGraph, position: int, name: str) -> str:
    """An output in the words of the model."""
    call = graph.by_name.get(name)
    module = f" of module '{call.module}'" if call is not None and call.module else ""
    return f"output {position} ('{call.twin if call is not None and call.twin else name}'{module})"


def _amount(kept: float) -> str:
    return "nothing" if kept < 1 else f"{kept:.1f} dB"
