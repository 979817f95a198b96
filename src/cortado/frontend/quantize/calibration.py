"""Calibration: the ranges that observers choose from the calibration data, and findings about the data: outliers among
the samples (which are left out), samples that determine a range alone, tensors that use few codes, and uninformative
data: repeated samples, or constant inputs.

Headroom is how far new data will exceed what calibration has seen, estimated by leaving samples out. Values that a
constant mask hides are never read, so they don't count in the range.
"""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.observer import ObserverBase

from cortado.base.findings import Finding, FindingKind
from cortado.frontend.capture.inputs import Inputs
from cortado.frontend.precision.parts import joined_by
from cortado.frontend.quantize.observers import EdgeObserver, RangeObserver
from cortado.frontend.quantize.ranges import (
    FEWEST_CODES,
    LONE,
    ODD,
    ROOM,
    Seen,
    choose_range,
    lone_sample,
    room_of_input,
    used_codes,
)
from cortado.frontend.rewrite.state import returned_nodes
from cortado.ir.facts import STATE
from cortado.ir.graph import bind, describe, is_call, shape, sole_user
from cortado.ir.matching import Match, find, patterns_of
from cortado.ir.roles import Bias
from cortado.ops.integer.truth import compares
from cortado.ops.move.reshape import VIEW_CALLS
from cortado.options import CalibrationMethod

# ---- calibration -----------------------------------------------------------------------------------------

ENOUGH = 32
"""With fewer samples than this, ranges are a matter of luck."""


@dataclass(frozen=True)
class Settled:
    """The results of calibration."""

    odd: frozenset[int]  # samples that are left out of some tensor's range
    findings: tuple[Finding, ...]
    narrow: tuple[str, ...] = ()  # the tensor with the fewest codes, and the call that joins it with larger ones


@dataclass(frozen=True)
class _Beyond:
    """A tensor in which a sample reaches this many times as far as usual."""

    tensor: Node
    times: float


@dataclass(frozen=True)
class _Narrow:
    """A tensor that uses few codes, and the range that they cover."""

    tensor: Node
    codes: int
    low: float
    high: float


@dataclass(frozen=True)
class _Passed:
    """A tensor that new data are expected to saturate."""

    tensor: Node
    expected: "LastingRange"


@dataclass(frozen=True)
class _Notes:
    """Observations collected from all tensors."""

    odd: dict[int, list[_Beyond]] = field(default_factory=lambda: defaultdict(list))  # by sample
    lone: dict[int, list[_Beyond]] = field(default_factory=lambda: defaultdict(list))
    narrow: dict[Node, _Narrow] = field(default_factory=dict)  # each where it has the fewest codes
    passed: list["_Passed"] = field(default_factory=list)


def settle(
    prepared: GraphModule, method: CalibrationMethod, batches: Sequence[Inputs], widened: bool = False
) -> Settled:
    """Gives every observer its range, unless it follows another. `batches` are the data that were seen. `widened`:
    ranges of regressing tensors are widened for new data."""
    notes, observers = _Notes(), _observers(prepared)
    _give_ranges(prepared, observers, method, widened, notes)
    for observer, tensors in observers.items():  # now all leaders have their parameters
        if observer.seen and (observer.leader is None or isinstance(observer, EdgeObserver)):
            _note_narrow(observer, tensors, notes)
    for observer in observers:
        observer.seen.clear()
    findings = _of_the_data(batches, [node.name for node in prepared.graph.nodes if node.op == "placeholder"])
    findings += [_odd(sample, tensors) for sample, tensors in sorted(notes.odd.items())]
    findings += [_lone(sample, tensors) for sample, tensors in sorted(notes.lone.items()) if sample not in notes.odd]
    findings += [_few_codes(list(notes.narrow.values()))] if notes.narrow else []
    findings += [_saturation(notes.passed)] if notes.passed else []
    return Settled(frozenset(notes.odd), tuple(findings), _narrowest(list(notes.narrow.values())))


def give_ranges(prepared: GraphModule, method: CalibrationMethod, widened: bool) -> None:
    """Gives every observer its range as `settle` does, for a trial of which nothing is told."""
    _give_ranges(prepared, _observers(prepared), method, widened, _Notes())


def _give_ranges(
    prepared: GraphModule,
    observers: Mapping[RangeObserver, dict[str, Node]],
    method: CalibrationMethod,
    widened: bool,
    notes: _Notes,
) -> None:
    widening = regressing(prepared) if widened else frozenset()
    for observer, tensors in observers.items():
        if observer.seen and observer.leader is None:
            _settle_one(observer, tensors, method, notes)
            if observer in widening and observer.element.affine and not observer.exact:
                _widen(observer, tensors, method, notes)


def _of_the_data(batches: Sequence[Inputs], names: Sequence[str]) -> list[Finding]:
    """Returns findings about the data itself. Repeated samples count once."""
    different = len({_digest(batch) for batch in batches})
    findings = [_few_samples(different, len(batches))] if different < ENOUGH else []
    for name, values in zip(names, zip(*batches, strict=True), strict=False):
        if values[0].is_floating_point():
            low = min(float(value.min()) for value in values)
            high = max(float(value.max()) for value in values)
            findings += [_constant(name, low)] if low == high else []
    return findings


def _digest(batch: Inputs) -> bytes:
    state = hashlib.sha256()
    for value in batch:
        state.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return state.digest()


def _observers(prepared: GraphModule) -> dict[RangeObserver, dict[str, Node]]:
    """Maps each observer to the tensors it observes, by place: several if they share one range."""
    found: dict[RangeObserver, dict[str, Node]] = defaultdict(dict)
    origins: dict[Node, Node] = {}  # observer call -> the tensor observed; an edge observer follows another one
    for node in prepared.graph.nodes:
        observer = prepared.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(observer, ObserverBase):
            place = node.all_input_nodes[0]
            origins[node] = origins.get(place, place)
            if isinstance(observer, RangeObserver):
                found[observer][place.name] = origins[node]
    return found


def _settle_one(observer: RangeObserver, tensors: dict[str, Node], method: CalibrationMethod, notes: _Notes) -> None:
    first = next(iter(tensors.values()))
    usual, odd = observer.usual_samples(method)
    given = any(tensor.op == "placeholder" and not STATE.known(tensor) for tensor in tensors.values())
    low, high = choose_range(usual, method, observer.element, room_of_input(usual) if given else ROOM)
    if observer.known is not None:
        low, high = observer.known.within(low, high)
    observer.set_range(low, high)
    if any(_is_compared(tensor) for tensor in tensors.values()):
        observer.keep_integers()
    for sample, times in odd.items():
        notes.odd[sample].append(_Beyond(first, times))
    lone = lone_sample(usual, low, high) if observer.element.affine else None
    if lone is not None:
        notes.lone[lone.sample].append(_Beyond(first, lone.times))


def _widen(observer: RangeObserver, tensors: dict[str, Node], method: CalibrationMethod, notes: _Notes) -> None:
    """Widens a range for new data that exceed what was seen."""
    usual, _ = observer.usual_samples(method)
    low, high = min(0.0, float(observer.min_val)), max(0.0, float(observer.max_val))
    found = lasting(usual, low, high, observer.element.steps)
    if found is not None:
        observer.set_range(low * found.factor, high * found.factor)
        if found.ratio > EXPECTED:
            notes.passed.append(_Passed(next(iter(tensors.values())), found))


def _is_compared(tensor: Node) -> bool:
    """Whether a tensor's values are compared with others."""
    readers = [user for reader in tensor.users for user in (reader, *reader.users)]
    return any(compares(reader) for reader in readers)


def _note_narrow(observer: RangeObserver, tensors: dict[str, Node], notes: _Notes) -> None:
    """Notes a tensor that uses few codes, in its own parameters or, where it enters a join, in those of the join's
    output.

    Values beyond all values of that output, such as a bound that a minimum never reaches, need no codes.
    """
    if observer.exact:
        return
    scale, zero_point = (float(one) for one in observer.calculate_qparams())
    low, high = ((code - zero_point) * scale for code in observer.element.codes)
    output = observer.leader.seen if isinstance(observer.leader, RangeObserver) else []
    reached = output or observer.seen
    least, most = min(one.low for one in reached), max(one.high for one in reached)
    for place, tensor in tensors.items():
        seen = [one for one in observer.seen if one.place == place and one.low <= most and one.high >= least]
        codes = used_codes(seen, scale) if seen else None
        if codes is not None and (tensor not in notes.narrow or codes < notes.narrow[tensor].codes):
            notes.narrow[tensor] = _Narrow(tensor, codes, low, high)


# ---- in words ------------------------------------------------------------------------------------------------------


def _few_samples(samples: int, given: int) -> Finding:
    plural = "s" if samples != 1 else ""
    times = f" that differ{'s' if samples == 1 else ''}, of {given} that were given" if given > samples else ""
    return Finding(
        kind=FindingKind.FEW_SAMPLES,
        text=(
            f"{samples} calibration sample{plural}{times}, expected {ENOUGH} or more: with so few, int8 ranges are a "
            "matter of luck; give more inputs like those that the model will get"
        ),
        found=float(samples),
        limit=float(ENOUGH),
    )


def _constant(name: str, value: float) -> Finding:
    return Finding(
        kind=FindingKind.CONSTANT_INPUT,
        text=(
            f"input '{name}' is {value:g} everywhere in every calibration sample, expected values like those that the "
            "model will get: a constant says nothing about the range that is needed. Check how the data is read"
        ),
        found=1.0,
        limit=2.0,
        tensor=f"input '{name}'",
    )


def _odd(sample: int, tensors: Sequence[_Beyond]) -> Finding:
    worst = max(tensors, key=lambda one: one.times)
    text = (
        f"calibration sample {sample} is left out of the range of {_names(worst.tensor, len(tensors))}: its values "
        f"reach {worst.times:.1f} times the range of nine in ten samples (more than {ODD:g} is taken for a mistake); "
        "check that sample, or keep all values with --calibration-method minmax"
    )
    return _of_sample(FindingKind.ODD_SAMPLE, text, worst, ODD, sample)


def _lone(sample: int, tensors: Sequence[_Beyond]) -> Finding:
    worst = max(tensors, key=lambda one: one.times)
    text = (
        f"calibration sample {sample} alone sets the range of {_names(worst.tensor, len(tensors))}: its largest value "
        f"is {worst.times:.1f} times the bound that 999 of 1,000 values of the others stay within (expected {LONE:g} "
        "or less), so the others share the codes that are left; check that sample, or use --calibration-method mse"
    )
    return _of_sample(FindingKind.LONE_SAMPLE, text, worst, LONE, sample)


def _of_sample(kind: FindingKind, text: str, worst: _Beyond, limit: float, sample: int) -> Finding:
    tensor = describe(worst.tensor)
    return Finding(kind=kind, text=text, found=worst.times, limit=limit, tensor=tensor, sample=sample)


def _narrowest(tensors: Sequence[_Narrow]) -> tuple[str, ...]:
    if not tensors:
        return ()
    worst = min(tensors, key=lambda one: one.codes).tensor
    join = joined_by(worst)
    return (worst.name,) if join is None else (worst.name, join.name)


def _few_codes(tensors: Sequence[_Narrow]) -> Finding:
    worst = min(tensors, key=lambda one: one.codes)
    plural = "s" if worst.codes != 1 else ""
    more = f" ({len(tensors) - 1} more use few)" if len(tensors) > 1 else ""
    return Finding(
        kind=FindingKind.FEW_CODES,
        text=f"{describe(worst.tensor)} uses {worst.codes} code{plural} of 256 on the calibration data{more}, expected "
        f"{FEWEST_CODES} or more: its values vary little within their range of {worst.low:.4g} to {worst.high:.4g}. "
        f"{_remedy(worst.tensor)}",
        found=float(worst.codes),
        limit=float(FEWEST_CODES),
        tensor=describe(worst.tensor),
    )


def _remedy(tensor: Node) -> str:
    join = joined_by(tensor)
    if join is None:
        return "Subtract what is the same in all of them, or divide by their largest deviation, before it"
    return (
        f"It shares that range with larger values in {describe(join)}: return it as a separate output, or bring both "
        "to the same size before they are joined"
    )


def _saturation(tensors: Sequence[_Passed]) -> Finding:
    worst = max(tensors, key=lambda one: one.expected.ratio)
    expected = worst.expected
    return Finding(
        kind=FindingKind.SATURATION,
        text=f"{_names(worst.tensor, len(tensors))} will saturate in about {expected.often:.1%} of new samples: "
        f"calibration sample {expected.sample} reaches {expected.beyond:.0%} further than all others, and calibrating "
        f"without it would cost {expected.ratio:.0f} times the rounding noise (expected {EXPECTED:g} or less); give "
        "more samples, including the largest values that the model will see (`cortado evaluate --saturation` counts "
        "what saturates)",
        found=expected.ratio,
        limit=EXPECTED,
        tensor=describe(worst.tensor),
        sample=expected.sample,
    )


def _names(worst: Node, count: int) -> str:
    others = f" and {count - 1} other tensor{'s' if count > 2 else ''}" if count > 1 else ""
    return f"{describe(worst)}{others}"


# ---- masks -----------------------------------------------------------------------------------------------


def hide_masked(prepared: GraphModule) -> None:
    """Tells the observers of masked scores which values are masked, back to the call that computes the scores."""
    for node in list(prepared.graph.nodes):
        for hidden in (pattern.hidden for pattern in patterns_of(node.target) if pattern.hidden is not None):
            bound = bind(node)
            mask = hidden(bound)
            if mask is not None:
                _hide(prepared, bound["input"], mask)


def _hide(prepared: GraphModule, reader: Node, mask: torch.Tensor) -> None:
    """Hides masked values in the observers before `reader`, through observers and views that only the softmax reads."""
    while sole_user(reader) is not None:
        observer = prepared.get_submodule(str(reader.target)) if reader.op == "call_module" else None
        if isinstance(observer, RangeObserver):
            source = reader.all_input_nodes[0]
            observer.hidden[source.name] = mask.reshape(shape(_observed(source)))
        elif not is_call(reader, *VIEW_CALLS):
            return
        reader = reader.all_input_nodes[0]


def _observed(node: Node) -> Node:
    """Returns the tensor behind an observer that reads another one's output, for codes of another element."""
    return _observed(node.all_input_nodes[0]) if node.op == "call_module" else node


# ---- headroom --------------------------------------------------------------------------------------------------------


LEAST_TO_LEAVE_ONE_OUT = 8  # samples that allow leaving one out
FACTORS = np.array([1.0, 1.05, 1.1, 1.2, 1.3, 1.5])  # of a range, that are tried
EXPECTED = 10.0  # times the noise of rounding: more saturation is reported


@dataclass(frozen=True)
class LastingRange:
    """A range for new data: the widening factor, and the saturation that remains relative to rounding."""

    factor: float
    beyond: float  # by which part of the seen range a new sample can exceed it
    often: float  # the share of new samples that do
    ratio: float  # the noise of saturation relative to that of rounding
    sample: int  # the sample that reaches furthest


def regressing(prepared: GraphModule) -> frozenset[RangeObserver]:
    """Returns the observers of outputs and state, and of everything between them and the last layers with weights."""
    found: set[RangeObserver] = set()
    ahead = [node for node in returned_nodes(prepared.graph) if isinstance(node, Node)]
    known = set(ahead)
    while ahead:
        node = ahead.pop()
        observer = prepared.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(observer, RangeObserver):
            found.add(observer)
        if not _is_layer(node):
            behind = [read for read in node.all_input_nodes if read not in known and read.op != "get_attr"]
            known.update(behind)
            ahead += behind
    return frozenset(found)


def _is_layer(node: Node) -> bool:
    match = find(node) if node.op == "call_function" else None
    return isinstance(match, Match) and Bias() in match.quantization.inputs.values()


def lasting(seen: Sequence[Seen], low: float, high: float, steps: int) -> LastingRange | None:
    """Returns the widening with the least expected noise for a range from `low` to `high`; None if too few samples were
    seen."""
    samples = {one.sample for one in seen}
    if len(samples) < LEAST_TO_LEAVE_ONE_OUT or high <= low:
        return None
    above = _excess(seen, high, len(samples))
    below = _excess([_mirrored(one) for one in seen], -low, len(samples))
    rounding = ((high - low) / steps * FACTORS) ** 2 / 12
    best = int((rounding + above.noise + below.noise).argmin())
    return LastingRange(
        factor=float(FACTORS[best]),
        beyond=max(above.beyond, below.beyond),
        often=((above.beyond > 0) + (below.beyond > 0)) / (len(samples) + 1),
        ratio=float((above.noise[best] + below.noise[best]) / rounding[best]),
        sample=max(above, below, key=lambda one: one.noise[best]).sample,
    )


@dataclass(frozen=True)
class _Excess:
    noise: np.ndarray[tuple[int, ...], np.dtype[np.float64]]  # mean square beyond the end, for each factor
    beyond: float
    sample: int


def _excess(seen: Sequence[Seen], end: float, samples: int) -> _Excess:
    """Returns the excess of the sample that reaches furthest, beyond the end that the range would have without it."""
    reached: dict[int, float] = {}
    for one in seen:
        reached[one.sample] = max(reached.get(one.sample, 0.0), one.high)
    first, second = sorted(reached, key=lambda sample: -reached[sample])[:2]
    if end <= 0.0 or reached[second] <= 0.0:
        return _Excess(np.zeros(len(FACTORS)), 0.0, first)
    without = end * reached[second] / reached[first]
    mine = [one for one in seen if one.sample == first]
    values, counts = np.concatenate([one.centers for one in mine]), np.concatenate([one.counts for one in mine])
    over = np.maximum(values[None] - FACTORS[:, None] * without, 0.0)
    noise = (over**2 * counts).sum(1) / counts.sum() / samples
    return _Excess(noise, reached[first] / reached[second] - 1, first)


def _mirrored(one: Seen) -> Seen:
    return Seen(one.sample, one.place, -one.high, -one.low, one.counts[::-1])
