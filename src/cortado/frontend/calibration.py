"""From what the observers saw on calibration data to the ranges they keep, and what there is to tell of the data:
samples that are unlike all others (they are left out), or that set a range alone, and tensors that get few codes."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch.fx import GraphModule, Node

from cortado.base.findings import Finding, FindingKind
from cortado.frontend.observers import RangeObserver
from cortado.frontend.ranges import (
    FEWEST_CODES,
    LONE,
    ODD,
    Seen,
    choose_range,
    lone_sample,
    odd_samples,
    used_codes,
)
from cortado.ir.graph import describe
from cortado.options import CalibrationMethod

ENOUGH = 32
"""Samples below which ranges are a matter of luck."""


@dataclass(frozen=True)
class Settled:
    """What calibration has to tell."""

    odd: frozenset[int]  # samples that some tensor's range leaves out
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class _Beyond:
    """A tensor in which a sample reaches this many times as far as what is usual."""

    tensor: Node
    times: float


@dataclass(frozen=True)
class _Narrow:
    """A tensor of few codes, and the range they are taken from."""

    tensor: Node
    codes: int
    low: float
    high: float


@dataclass(frozen=True)
class _Notes:
    """What is found on the way from tensor to tensor."""

    odd: dict[int, list[_Beyond]] = field(default_factory=lambda: defaultdict(list))  # by sample
    lone: dict[int, list[_Beyond]] = field(default_factory=lambda: defaultdict(list))
    narrow: list[_Narrow] = field(default_factory=list)


def settle(prepared: GraphModule, method: CalibrationMethod, samples: int) -> Settled:
    """Gives every observer its range."""
    notes = _Notes()
    for observer, tensors in _observers(prepared).items():
        if observer.seen:
            _settle_one(observer, tensors, method, notes)
            observer.seen.clear()
    findings = [_few_samples(samples)] if samples < ENOUGH else []
    findings += [_odd(sample, tensors) for sample, tensors in sorted(notes.odd.items())]
    findings += [_lone(sample, tensors) for sample, tensors in sorted(notes.lone.items()) if sample not in notes.odd]
    findings += [_few_codes(notes.narrow)] if notes.narrow else []
    return Settled(frozenset(notes.odd), tuple(findings))


def _observers(prepared: GraphModule) -> dict[RangeObserver, dict[str, Node]]:
    """Each with the tensors it observes: more than one where they have one range."""
    found: dict[RangeObserver, dict[str, Node]] = defaultdict(dict)
    for node in prepared.graph.nodes:
        observer = prepared.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(observer, RangeObserver):
            tensor = node.all_input_nodes[0]
            found[observer][tensor.name] = tensor
    return found


def _settle_one(observer: RangeObserver, tensors: dict[str, Node], method: CalibrationMethod, notes: _Notes) -> None:
    first = next(iter(tensors.values()))
    odd = {} if method is CalibrationMethod.MINMAX else odd_samples(observer.seen)
    usual = [one for one in observer.seen if one.sample not in odd]
    low, high = choose_range(usual, method)
    observer.set_range(low, high)
    for sample, times in odd.items():
        notes.odd[sample].append(_Beyond(first, times))
    lone = lone_sample(usual, low, high)
    if lone is not None:
        notes.lone[lone.sample].append(_Beyond(first, lone.times))
    scale = float(observer.calculate_qparams()[0])
    places: dict[str, list[Seen]] = defaultdict(list)
    for one in observer.seen:
        places[one.place].append(one)
    for place, seen in places.items():
        codes = used_codes(seen, scale)
        if codes is not None:
            notes.narrow.append(_Narrow(tensors[place], codes, low, high))


# ---- in words ------------------------------------------------------------------------------------------------------


def _few_samples(samples: int) -> Finding:
    plural = "s" if samples != 1 else ""
    return Finding(
        kind=FindingKind.FEW_SAMPLES,
        text=f"{samples} calibration sample{plural}, expected {ENOUGH} or more: the ranges of int8 values are a matter "
        "of luck; give more inputs like those that the model will get",
        found=float(samples),
        limit=float(ENOUGH),
    )


def _odd(sample: int, tensors: Sequence[_Beyond]) -> Finding:
    worst = max(tensors, key=lambda one: one.times)
    return Finding(
        kind=FindingKind.ODD_SAMPLE,
        text=f"calibration sample {sample} is left out of the range of {_names(worst.tensor, len(tensors))}: its "
        f"values reach {worst.times:.1f} times what nine of ten samples stay within (more than {ODD:g} is taken for a "
        "mistake); check that sample, or keep all values with --calibration-method minmax",
        found=worst.times,
        limit=ODD,
        tensor=describe(worst.tensor),
        sample=sample,
    )


def _lone(sample: int, tensors: Sequence[_Beyond]) -> Finding:
    worst = max(tensors, key=lambda one: one.times)
    return Finding(
        kind=FindingKind.LONE_SAMPLE,
        text=f"calibration sample {sample} alone sets the range of {_names(worst.tensor, len(tensors))}: its largest "
        f"value is {worst.times:.1f} times what 999 of 1,000 values of the others stay within (expected {LONE:g} or "
        "less), and these share the codes that are left; check that sample, or use --calibration-method mse",
        found=worst.times,
        limit=LONE,
        tensor=describe(worst.tensor),
        sample=sample,
    )


def _few_codes(tensors: Sequence[_Narrow]) -> Finding:
    worst = min(tensors, key=lambda one: one.codes)
    plural = "s" if worst.codes != 1 else ""
    more = f" ({len(tensors) - 1} more use few)" if len(tensors) > 1 else ""
    return Finding(
        kind=FindingKind.FEW_CODES,
        text=f"{describe(worst.tensor)} uses {worst.codes} code{plural} of 256 on the calibration data{more}, expected "
        f"{FEWEST_CODES} or more: its values differ by little within their range of {worst.low:.4g} to "
        f"{worst.high:.4g}. Where they share it with larger ones, as in torch.cat, return them as an output of their "
        "own, or bring both to one size before they are joined",
        found=float(worst.codes),
        limit=float(FEWEST_CODES),
        tensor=describe(worst.tensor),
    )


def _names(worst: Node, count: int) -> str:
    others = f" and {count - 1} other tensor{'s' if count > 2 else ''}" if count > 1 else ""
    return f"{describe(worst)}{others}"
