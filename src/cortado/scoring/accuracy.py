"""Accuracy of a model's outputs on its own calibration data: outputs that lose their signal are reported."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from cortado.base.findings import Finding, FindingKind
from cortado.frontend.quantize.judgement import FloatRun, agreement, decibels, drawn_runs
from cortado.plan.lowered import LoweredGraph, run_reference
from cortado.plan.pricing import references
from cortado.scoring.blame import Culprit

Tensor = torch.Tensor

ENOUGH = 20.0  # decibels: below, what was rounded away is more than a hundredth of the signal's power
ALIKE = 0.95  # of the integers or truth values of an output: fewer are told of
WORK = 32_000_000  # values that are computed, at most, to judge by: about a second
SEQUENCE_WORK = 5 * WORK  # the same of a model with state: what is rounded away at each step adds up over them
CALL = 500  # values that take as long as one call of torch, however small


NOBODY = (
    "Its values, or those of a tensor before it, are too small beside the largest one of their tensor; "
    "`cortado validate --per-layer` shows where"
)


@dataclass(frozen=True)
class AccuracyFindings:
    """The reference's values for the first sample, a finding for each output that int8 loses too much of, and what
    each keeps: decibels of real numbers, None of others."""

    first: dict[str, Tensor]
    findings: tuple[Finding, ...]
    kept: tuple[float | None, ...]


class _Calls(TorchFunctionMode):
    """Counts the calls of torch: the work of layers that go step by step, in small tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def check_outputs(
    graph: LoweredGraph,
    runs: Sequence[FloatRun],
    blamed: Callable[[int], Sequence[Culprit]] = lambda output: (),
) -> AccuracyFindings:
    """`runs` are calibration inputs, at least one, with the float model's outputs: all of them are looked at, or of a
    large network as many as the work allows, drawn from all. Of a model with state they are steps of sequences, and
    judged over all of them: a value that moves by less than its code's step in each never moves. `blamed` gives the
    tensors that an output loses most to."""
    with _Calls() as calls:
        first = run_reference(graph, runs[0].inputs)
    size = sum(math.prod(value.shape) for value in graph.values.values()) + CALL * calls.count
    most = max(1, (SEQUENCE_WORK if graph.state else WORK) // size)
    looked_at = [runs[place] for place in drawn_runs([run.begins for run in runs], most)]
    found = [[values[name] for name in graph.outputs] for values in references(graph, looked_at)]
    findings, kept = [], []
    for position, output in enumerate(runs[0].outputs):
        tensor = _tensor(graph, position, graph.outputs[position])
        pairs = [(run.outputs[position], outputs[position]) for run, outputs in zip(looked_at, found, strict=True)]
        real = output.is_floating_point()
        kept.append(decibels(pairs) if real else None)
        findings.append(_low(tensor, pairs, partial(blamed, position)) if real else _unlike(tensor, pairs))
    return AccuracyFindings(first, tuple(finding for finding in findings if finding is not None), tuple(kept))


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
