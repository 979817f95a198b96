"""Accuracy of a model's outputs on its own calibration data: outputs that lose their signal are reported."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from cortado.base.findings import Finding, FindingKind
from cortado.frontend.precision.judgement import (
    AGREES,
    ALIKE,
    CALL,
    DECIDES,
    ENOUGH,
    SIGNAL,
    Flips,
    FloatRun,
    Measure,
    TruthAgreement,
    agreement,
    class_dim,
    decibels,
    decided,
    decisions,
    drawn_runs,
    flips,
    truth_agreement,
)
from cortado.frontend.precision.parts import OutputPart, OutputParts
from cortado.plan.lowered import LoweredGraph, run_reference
from cortado.plan.pricing import references

Tensor = torch.Tensor

FEWEST_GROWING = 10  # differences from which on their growth over a sequence is no chance
WORK = 32_000_000  # values computed for the judgement, at most: about a second
SEQUENCE_WORK = 5 * WORK  # the same for a model with state: its rounding errors accumulate over steps
FLIPPED = 0.01  # the fraction of new samples whose class may change
FLIPPED_PERHAPS = 0.05  # the same if it is not known that values are scores
FEWEST_FLIPS = 2  # of these
SURE = 0.25  # a decision's distance from 0.5: most scores of a decision are further away
TOLD = 3  # parts of an output, at most


NOBODY = (
    "Its values, or those of a tensor before it, are too small compared with the largest value of their tensor; "
    "`cortado validate --per-layer` shows where"
)


Blamed = Callable[[OutputPart, Measure], str]


@dataclass(frozen=True)
class AccuracyFindings:
    """The reference's values for the first sample, findings for outputs that lose too much to int8, and each output's
    SQNR: decibels for real numbers, None for others."""

    first: dict[str, Tensor]
    findings: tuple[Finding, ...]
    kept: tuple[float | None, ...]


class _Calls(TorchFunctionMode):
    """A counter of torch calls: the work of layers that run step by step on small tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class JudgedPart:
    """A part of an output: its name in words, and the float model's and the integer reference's values of it, by
    sample."""

    part: OutputPart
    tensor: str
    pairs: Sequence[tuple[Tensor, Tensor]]
    begins: Sequence[bool]  # whether state has its initial values, by sample

    @cached_property
    def kept(self) -> float:
        """Returns its SQNR in decibels."""
        return decibels(self.pairs)

    @property
    def is_real(self) -> bool:
        return self.pairs[0][0].is_floating_point()


def check_outputs(
    graph: LoweredGraph,
    runs: Sequence[FloatRun],
    parts: OutputParts,
    blamed: Blamed = lambda part, measure: "",
    classes: int | None = None,
) -> AccuracyFindings:
    """Judges the outputs on calibration inputs `runs`, at least one, with the float model's outputs.

    All runs are used, or for a large network a sample of them that the work allows. With state they are steps of
    sequences and judged over all steps: a value that moves by less than its code's step each time never moves. `blamed`
    explains what a part of an output loses most to, and what would help; `classes` is the number of class names the
    user gave.
    """
    with _Calls() as calls:
        first = run_reference(graph, runs[0].inputs)
    size = sum(math.prod(value.shape) for value in graph.values.values()) + CALL * calls.count
    most = max(1, (SEQUENCE_WORK if graph.state else WORK) // size)
    usual = runs if graph.state else [run for run in runs if run.usual] or runs
    looked_at = [usual[place] for place in drawn_runs([run.begins for run in usual], most)]
    found = [[values[name] for name in graph.outputs] for values in references(graph, looked_at)]
    findings, outputs = list[Finding](), range(len(graph.outputs))
    for position, name in enumerate(graph.outputs):
        tensor, joined = _tensor(graph, position, name), parts.of_output(position)
        judged = [
            JudgedPart(
                part,
                tensor if part.box is None else f"part {part.where} of {tensor}, made by {part.made_by}",
                [(part.of(run.outputs), part.of(one)) for run, one in zip(looked_at, found, strict=True)],
                [run.begins for run in looked_at],
            )
            for part in joined
        ]
        findings += _of_output(judged, blamed, classes)
    whole = [[(run.outputs[place], one[place]) for run, one in zip(looked_at, found, strict=True)] for place in outputs]
    kept = tuple(decibels(pairs) if pairs[0][0].is_floating_point() else None for pairs in whole)
    return AccuracyFindings(first, tuple(findings), kept)


def _of_output(parts: Sequence[JudgedPart], blamed: Blamed, classes: int | None) -> list[Finding]:
    """Returns the findings of an output: among its parts, those with the lowest SQNR."""
    low = sorted((one for one in parts if one.is_real and one.kept < ENOUGH), key=lambda one: one.kept)
    found: list[Finding | None] = [_low(one, len(low) - TOLD, blamed) for one in low[:TOLD]]
    for one in parts:
        if not one.is_real:
            found.append(_unlike(one, blamed) or _growing(one, blamed))
        elif one not in low:
            found.append(_other_classes(one, blamed, classes))
    return [finding for finding in found if finding is not None]


def _unlike(one: JudgedPart, blamed: Blamed) -> Finding | None:
    """Reports integers and truth values that disagree with the float model's; having no signal, they either agree or
    not, and each truth value counts by itself."""
    kept, truth = agreement(one.pairs), None
    if one.pairs[0][0].dtype is torch.bool:
        truth = truth_agreement(one.pairs)
        kept = truth.part if truth is not None and _is_lost(truth) else 1.0
    if kept >= ALIKE:
        return None
    values = "values" if truth is None else f"{str(truth.value).lower()} values ({_told(truth)})"
    return Finding(
        kind=FindingKind.LOW_AGREEMENT,
        text=(
            f"{one.tensor} agrees with the float model in {kept:.1%} of its {values}, expected {ALIKE:.0%} or more: on "
            "the calibration data its integers or truth values differ. They depend on real numbers that int8 rounds "
            "(a comparison of close numbers, the largest of almost equal ones), or they exceed 32 bits; compare "
            "integers before they are converted to real numbers, or compare numbers that are further apart"
        )
        + _sentence(blamed(one.part, AGREES)),
        found=kept,
        limit=ALIKE,
        tensor=one.tensor,
    )


def _growing(one: JudgedPart, blamed: Blamed) -> Finding | None:
    """Reports integers and truth values that disagree with the float model's the more often the longer a sequence is:
    differences stay in state, as in a truth value that is toggled, or a counter."""
    starts = [number for number, begins in enumerate(one.begins) if begins]
    early = late = count = 0
    for start, end in zip(starts, [*starts[1:], len(one.pairs)], strict=True):
        apart = [int((wanted.to(torch.int64) != found.to(torch.int64)).sum()) for wanted, found in one.pairs[start:end]]
        half = len(apart) // 2
        early, late = early + sum(apart[:half]), late + sum(apart[len(apart) - half :])
        count += half * one.pairs[start][0].numel()
    if early + late < FEWEST_GROWING or late < 2 * early + 2:
        return None
    return Finding(
        kind=FindingKind.LOW_AGREEMENT,
        text=(
            f"{one.tensor} differs from the float model in {late:,} of {count:,} values of the second half of the "
            f"calibration sequences, and in {early:,} of the first: differences stay in state, so that there are more "
            "the longer it runs. They come from real numbers that int8 rounds (a comparison whose result is toggled or "
            "counted); compare integers, or numbers that are further apart, or reset the state more often"
        )
        + _sentence(blamed(one.part, AGREES)),
        found=late / count,
        limit=early / count,
        tensor=one.tensor,
    )


def _is_lost(truth: TruthAgreement) -> bool:
    """Returns whether a truth value is lost: one difference of many may be a borderline case, but an event that never
    occurs again is lost."""
    return truth.part < ALIKE and (truth.others > 1 or truth.both == 0)


def _told(truth: TruthAgreement) -> str:
    value = str(truth.value).lower()
    return f"{value} {truth.wanted:,} times in float and {truth.found:,} times here, {truth.both:,} times both"


def _other_classes(one: JudgedPart, blamed: Blamed, classes: int | None) -> Finding | None:
    """Reports changed classes and decisions of an output that keeps its signal."""
    wanted = [values for values, _ in one.pairs]
    dim, limit = class_dim(wanted), FLIPPED
    if dim is None and one.part.is_chance:
        undecided = _undecided(one, blamed) or _other_decisions(one, blamed)
        if undecided is not None or not _names_one(one):
            return undecided
        dim = -1
    if dim is None and classes is not None and wanted[0].shape[-1] == classes:
        dim = -1
    if dim is None and _may_be_scores(one):
        dim, limit = -1, FLIPPED_PERHAPS
    changed = None if dim is None else flips(one.pairs, dim)
    if changed is None or not _are_many(changed, limit):
        return None
    perhaps = "" if limit == FLIPPED else " (if its values are scores of classes)"
    return Finding(
        kind=FindingKind.CHANGED_CLASSES,
        text=f"{one.tensor} has a different best class than the float model{perhaps} for {_counted(changed, limit)}, "
        f"though it keeps {one.kept:.1f} dB of its signal: {_why(changed, 'closer together')}"
        f"{_sentence(blamed(one.part, SIGNAL))}",
        found=_share(changed),
        limit=limit,
        tensor=one.tensor,
    )


def _are_many(found: Flips, limit: float) -> bool:
    """Whether classes change for too many samples, or may for too many new ones: by the number that changed or, if none
    did, by the distances of their scores; if no score was ever in doubt, by the number of samples. Where values need be
    no scores, only what was seen counts."""
    if limit == FLIPPED:
        return max(found.part, found.at_most if found.changed or found.is_untried else found.likely) > limit
    return found.changed >= FEWEST_FLIPS and found.part > limit


def _share(found: Flips) -> float:
    """Returns the share of changes that is reported: among the samples or, if none changed, expected of new ones."""
    return found.part or (found.at_most if found.is_untried else found.likely)


def _why(found: Flips, closer: str) -> str:
    if found.is_untried:
        return (
            f"in float each of these samples leads by {found.nearest:.2%} or more, so nothing is known of doubtful "
            "ones. Give more samples, and ones of which the model is less sure"
        )
    return f"the scores of these samples are {closer} than int8 can tell apart"


def _counted(found: Flips, limit: float) -> str:
    if found.is_untried:
        return (
            f"none of {found.choices:,} calibration samples, but maybe for up to {found.at_most:.1%} of new ones, "
            f"expected {limit:.0%} or less"
        )
    if not found.changed:
        return (
            f"none of {found.choices:,} calibration samples, but probably for {found.likely:.1%} of new ones, expected "
            f"{limit:.0%} or less"
        )
    new = f" (of new samples it may be up to {found.at_most:.1%})" if found.part <= limit else ""
    return (
        f"{found.changed:,} of {found.choices:,} calibration samples, {found.part:.1%}{new}, expected {limit:.0%} or "
        "less"
    )


def _may_be_scores(one: JudgedPart) -> bool:
    """Returns whether a part looks like class scores rather than coordinates or an embedding: a vector from a layer
    with weights, in which one value is mostly far above all others."""
    sizes = one.pairs[0][0].shape
    if len(sizes) != 2 or sizes[0] != 1 or sizes[1] < 3 or one.part.box is not None or not one.part.is_layer:
        return False
    best = torch.stack([torch.topk(wanted[0], 2).values for wanted, _ in one.pairs])
    apart = torch.stack([wanted[0].std() for wanted, _ in one.pairs])
    return bool((best[:, 0] - best[:, 1] > apart).double().mean() > 0.5)


def _names_one(one: JudgedPart) -> bool:
    """Returns whether a part looks like independent scores from 0 to 1 of which the best, mostly above one half, is the
    answer."""
    sizes = one.pairs[0][0].shape
    if len(sizes) != 2 or sizes[0] != 1 or sizes[1] < 3 or one.part.box is not None:
        return False
    return bool(torch.stack([wanted.max() > 0.5 for wanted, _ in one.pairs]).double().mean() > 0.5)


def _sentence(advice: str) -> str:
    """Formats advice as a further sentence; empty without advice."""
    return f". {advice}" if advice else ""


def _undecided(one: JudgedPart, blamed: Blamed) -> Finding | None:
    truth = truth_agreement(decided(one.pairs))
    if truth is None or not _is_lost(truth):
        return None
    side = "above" if truth.value else "below"
    return Finding(
        kind=FindingKind.LOW_AGREEMENT,
        text=(
            f"{one.tensor}: of {truth.wanted:,} scores clearly {side} 0.5 in float, {truth.both:,} still are, expected "
            f"{ALIKE:.0%} or more, though it keeps {one.kept:.1f} dB of its signal. Return the numbers "
            f"before the sigmoid, or move the threshold{_sentence(blamed(one.part, DECIDES))}"
        ),
        found=truth.part,
        limit=ALIKE,
        tensor=one.tensor,
    )


def _other_decisions(one: JudgedPart, blamed: Blamed) -> Finding | None:
    """Reports changed decisions of a single score that is mostly far from 0.5, as in voice detection."""
    if any(wanted.numel() != 1 for wanted, _ in one.pairs):
        return None
    scores = torch.stack([wanted.reshape(()) for wanted, _ in one.pairs])
    changed, sure = decisions(one.pairs), bool(((scores - 0.5).abs() > SURE).double().mean() > 0.5)
    if not sure or not _are_many(changed, FLIPPED):
        return None
    return Finding(
        kind=FindingKind.CHANGED_CLASSES,
        text=f"{one.tensor} is on the opposite side of 0.5 from the float model's for {_counted(changed, FLIPPED)}, "
        f"though it keeps {one.kept:.1f} dB of its signal: {_why(changed, 'closer to 0.5')}"
        f"{_sentence(blamed(one.part, SIGNAL))}",
        found=_share(changed),
        limit=FLIPPED,
        tensor=one.tensor,
    )


def _low(one: JudgedPart, more: int, blamed: Blamed) -> Finding:
    kept, above, advice = one.kept, _above(one), blamed(one.part, SIGNAL) or NOBODY
    others = f" ({more} other parts of this output keep less than that, too)" if more > 0 else ""
    return Finding(
        kind=FindingKind.LOW_SQNR,
        text=(
            f"{one.tensor} keeps {_amount(kept)} of its signal, expected {ENOUGH:g} dB or more{others}: on the "
            f"calibration data its int8 values are that far from the float model's{above}. {advice}"
        ),
        found=kept if math.isfinite(kept) else None,
        limit=ENOUGH,
        tensor=one.tensor,
    )


def _above(one: JudgedPart) -> str:
    """Counts the scores above one half, for a part that has scores."""
    wanted, found = (sum(int((pair[side] > 0.5).sum()) for pair in one.pairs) for side in (0, 1))
    return f" ({wanted:,} are above 0.5 in float, {found:,} here)" if one.part.is_chance and wanted else ""


def _tensor(graph: LoweredGraph, position: int, name: str) -> str:
    """Describes an output in terms of the model."""
    call = graph.by_name.get(name)
    module = f" of module '{call.module}'" if call is not None and call.module else ""
    return f"output {position} ('{call.twin if call is not None and call.twin else name}'{module})"


def _amount(kept: float) -> str:
    return "nothing" if kept < 1 else f"{kept:.1f} dB"
