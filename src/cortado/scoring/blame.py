"""Attribution of an output's loss: the tensors that cost it most signal, each rounded alone with all others in float;
and what would help.

Every remedy printed has been tried: the quantized graph was run with some of its tensors in 16 bits, or with a scale of
their own.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from cortado.base.element import USUAL, WIDE, Element
from cortado.base.numerics import QParams
from cortado.frontend.precision.elements import MAY_BE_WIDE
from cortado.frontend.precision.judgement import CALL, SIGNAL, FloatRun, Measure, drawn_runs, folds
from cortado.frontend.precision.parts import OutputPart, joined_by, moves
from cortado.frontend.quantize.bias import attribute
from cortado.frontend.quantize.prequantized import is_quantize, qparams_of
from cortado.frontend.quantize.ranges import INPUT_ROOM, ROOM
from cortado.frontend.rewrite.state import holders
from cortado.ir.facts import STATE, VALUE
from cortado.ir.graph import describe
from cortado.ops.meaning import DEQUANTIZES, QUANTIZES, CallKind, means

Tensor = torch.Tensor
WORK = 40_000_000  # values computed to find out, at most
SAMPLES, STEPS = 2, 32  # runs per tensor, for a model without and with state
LONG = 512  # steps, at most, where the work allows more than these: errors of a loop grow
NAMED = 3  # tensors, at most
WITHIN = 10.0  # dB from the worst, within which a tensor is named
FEW_STEPS = 4.0  # steps of its scale, below which a tensor's typical value is lost
NEW, PASSES = 16, 5  # samples, at least, to estimate what new ones keep; how often each is run
TRIED, MANY = 32, 256  # samples a cure is tried on, at most: for a signal; for integers and truth values
SATURATED = 0.002  # fraction of a tensor's values
PROBABILITIES = 256  # the most that int8 can tell from zero if all are equal


@dataclass(frozen=True)
class Culprit:
    """A tensor, and the SQNR that an output keeps if only this tensor is rounded."""

    place: Node
    tensor: str
    kept: float
    remedy: str

    def __str__(self) -> str:
        return f"{self.tensor} ({max(self.kept, 0):.0f} dB alone): {self.remedy}"


Roundings = Mapping[Node, Callable[[Tensor], Tensor]]  # by quantize call: the function that replaces it
Reached = Mapping[Node, tuple[float, float]]  # by quantize call: the range of a tensor's values


@dataclass(frozen=True)
class RoundedRange:
    """A function that rounds to the codes of an element for a range, which includes zero."""

    low: float
    high: float
    element: Element

    def __call__(self, value: Tensor) -> Tensor:
        if self.element.symmetric:
            scale = max(-self.low, self.high) / WIDE.high
            return torch.fake_quantize_per_tensor_affine(value, scale, 0, *WIDE.codes)
        scale = (self.high - self.low) / self.element.steps
        zero = round(self.element.low - self.low / scale)
        return torch.fake_quantize_per_tensor_affine(value, scale, zero, *self.element.codes)

    def without(self, mine: tuple[float, float], theirs: tuple[float, float]) -> "RoundedRange":
        """Returns the range without some samples, which reach as far as `mine` while the others reach `theirs`."""
        low, high = _part(-mine[0], -theirs[0]), _part(mine[1], theirs[1])
        if self.element.symmetric:
            low = high = _part(max(-mine[0], mine[1]), max(-theirs[0], theirs[1]))
        found = replace(self, low=self.low * low, high=self.high * high)
        return found if found.high - found.low > 0.0 else self


def exact(value: Tensor) -> Tensor:
    """Leaves a tensor unrounded, as int16 nearly does."""
    return value


class Alone:
    """A quantized graph run in float, except for one selected rounding."""

    def __init__(self, converted: GraphModule) -> None:
        self._nodes = list(converted.graph.nodes)
        self._last = {read: node for node in self._nodes for read in node.all_input_nodes}
        self._roundings = {node for node in self._nodes if _quantizes(node) or _dequantizes(node)}
        self._constants = {node: attribute(converted, node) for node in self._nodes if node.op == "get_attr"}
        self.places = [node for node in self._nodes if _quantizes(node) and not _is_bias(node)]
        self.returned = pytree.tree_leaves(self._nodes[-1].args)
        self.initial = [STATE.must(node).initial for node in holders(converted.graph)]
        self.size = sum(value.numel() for node in self._nodes if isinstance(value := VALUE.of(node), Tensor))
        self.seen: dict[Node, Tensor] = {}  # by quantize call: the unrounded tensor
        self._fixed = set(self._constants)  # calls of constants alone
        for node in self._nodes:
            if node.op == "call_function" and self._fixed.issuperset(node.all_input_nodes):
                self._fixed.add(node)
        self._changing = [node for node in self._nodes if node not in self._fixed and node.op != "output"]

    def runs(self, most: int, tries: int = 1) -> int:
        """Returns how many runs to take for each of some trials: `most`, or as many steps as the work allows."""
        if not self.initial:
            return most
        step = self.size + CALL * len(self._nodes)
        return max(STEPS, min(LONG, WORK // (step * max(tries, 1))))

    def alone(self, rounded: Node | None) -> "Roundings":
        """Returns what leaves every tensor but one unrounded."""
        return {place: exact for place in self._roundings if place is not rounded}

    def run(self, runs: Iterable[Sequence[Any]], others: "Roundings", noted: bool = False) -> Iterator[list[Any]]:
        """Runs the graph on the inputs of each run, with other roundings at some places, and yields all of its outputs;
        with `noted`, records the tensors there."""
        fixed = self._fixed_values(others, noted)
        for inputs in runs:
            values, given = dict(fixed), iter(inputs)
            for node in self._changing:
                values[node] = next(given) if node.op == "placeholder" else self._result(node, values, others, noted)
                for read in node.all_input_nodes:
                    if self._last[read] is node and read not in fixed:
                        del values[read]
            yield [values[node] for node in self.returned]

    def _fixed_values(self, others: "Roundings", noted: bool) -> dict[Node, Any]:
        """Computes the calls of constants alone, and keeps what other calls read."""
        values = dict(self._constants)
        for node in self._nodes:
            if node in self._fixed and node not in values:
                values[node] = self._result(node, values, others, noted)
        read = {one for node in self._changing for one in node.all_input_nodes}.union(self.returned)
        return {node: value for node, value in values.items() if node in read}

    def _result(self, node: Node, values: Mapping[Node, Any], others: "Roundings", noted: bool) -> Any:
        value = values[node.all_input_nodes[0]] if node in self._roundings else None
        if value is not None and value.is_floating_point() and (node in others or _dequantizes(node)):
            self.seen.update({node: value} if noted else {})
            return others.get(node, exact)(value)
        args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
        return node.target(*args, **kwargs)  # type: ignore[operator]


def advice(converted: GraphModule, runs: Sequence[FloatRun], part: OutputPart, measure: Measure = SIGNAL) -> str:
    """Explains what a part of an output loses most to, and what would help, by how much."""
    model = Alone(converted)
    with torch.no_grad():
        cures = Cures(model, runs, part, measure)
        apart = cures.apart()
        if apart:
            return apart
        found = _culprits(model, runs, part) if measure is SIGNAL else []
        why = f"It loses most to {'; to '.join(str(culprit) for culprit in found)}" if found else ""
        return ". ".join(one for one in (why, cures.wider([culprit.place for culprit in found])) if one)


def _part(mine: float, theirs: float) -> float:
    return theirs / mine if 0.0 <= theirs < mine else 1.0


def _culprits(model: Alone, runs: Sequence[FloatRun], part: OutputPart) -> list[Culprit]:
    """Returns the tensors that a part loses most to, the worst first."""
    runs = _some(runs, model.runs(SAMPLES, len(model.places)))
    most = max(8, WORK // max(model.size * len(runs), 1))
    _kept(model, runs, part, model.alone(None), noted=True)
    kept = {place: _kept(model, runs, part, model.alone(place)) for place in model.places[:most]}
    found = sorted((place for place in kept if math.isfinite(kept[place]) or kept[place] < 0), key=lambda p: kept[p])
    worst = [place for place in found if kept[place] <= kept[found[0]] + WITHIN]
    worst = list({_name(place): place for place in reversed(worst)}.values())[::-1][:NAMED]  # each tensor once
    return [Culprit(place, _name(place), kept[place], remedy(place, model.seen.get(place))) for place in worst]


def _some(runs: Sequence[FloatRun], most: int) -> list[FloatRun]:
    return [runs[place] for place in drawn_runs([run.begins for run in runs], most)]


def _kept(
    model: Alone,
    runs: Sequence[FloatRun],
    part: OutputPart,
    others: Roundings,
    measure: Measure = SIGNAL,
    noted: bool = False,
) -> float:
    """Measures a part against the float model, over samples or steps."""
    state, pairs = list[Any](), list[tuple[Tensor, Tensor]]()

    def given() -> Iterator[Sequence[Any]]:
        for one in runs:
            yield [*one.inputs, *(model.initial if one.begins or not state else state)]

    for one, found in zip(runs, model.run(given(), others, noted), strict=True):
        state[:] = found[len(found) - len(model.initial) :]
        pairs.append((part.of(one.outputs), part.of(found)))
    return measure.of(pairs)


# ---- what would help -------------------------------------------------------------------------------------------------


class Cures:
    """Remedies for a part of an output, tried one by one."""

    def __init__(self, model: Alone, runs: Sequence[FloatRun], part: OutputPart, measure: Measure) -> None:
        most = max(SAMPLES, min(MANY, WORK // max(model.size, 1)))
        self._model, self._part, self._measure = model, part, measure
        self._seen = _some(runs, model.runs(most))  # the ranges come from these
        self._runs = _some(self._seen, len(self._seen) if measure is not SIGNAL or model.initial else TRIED)
        self.now = self.kept({})

    def kept(self, others: Roundings, runs: Sequence[FloatRun] = ()) -> float:
        """Measures the part with other roundings, over some runs or those that cures are tried on."""
        return _kept(self._model, runs or self._runs, self._part, others, self._measure)

    def helps(self, kept: float) -> bool:
        return self._measure.helps(self.now, kept)

    def shown(self, kept: float) -> str:
        return self._measure.in_words(kept)

    def apart(self) -> str:
        """Suggests a scale of its own for a part that is concatenated with others; empty if that does not help."""
        output, source = self._model.returned[self._part.output], self._part.source
        way = [] if source is None or self._part.box is None else _way(output, lambda node: node.name == source.name)
        places = [node for node in way if _quantizes(node)]
        seen = [self._part.of(run.outputs) for run in self._runs]
        low, high = min(0.0, *(float(one.min()) for one in seen)), max(0.0, *(float(one.max()) for one in seen))
        if not places or high <= low:
            return ""
        apart: Roundings = {**dict.fromkeys(places, exact), places[-1]: RoundedRange(low, high, USUAL)}
        alone = self.kept(apart)
        if not self.helps(alone):
            return ""
        joins = [node for node in _way(output, lambda node: not _passes(node)) if len(node.all_input_nodes) > 1]
        names = "|".join(sorted(node.name for node in joins))
        wide = self.kept({place: _wide_grid(place) for place in places})
        return (
            f"It shares its scale with larger values in {describe(joins[0])}: as a separate output it "
            f"{self.shown(alone)}, with --int16 '{names}' it {self.shown(wide)} (it {self.shown(self.now)} now, on the "
            f"same samples{self.told_of_new(apart, alone)})"
        )

    def wider(self, places: Sequence[Node]) -> str:
        """Suggests ranges that include all values, int16 for a few tensors or for all, or float32: the first that
        helps, and the next as long as what is kept is not enough; empty if nothing helps."""
        said, last, taken = list[str](), self.now, dict[Node, Callable[[Tensor], Tensor]]()
        for text, others in (self._unsaturated(), self.wide(places), self._all_wide(), *self._floats()):
            kept = self.kept(others) if others else self.now
            if self._measure.helps(last, kept):
                said.append(f"with {text} it {self.shown(kept)}")
                last, taken = kept, dict(others)
            if said and last >= self._measure.enough:
                break
        if not said:
            return ""
        new = self.told_of_new(taken, last)
        text = f"{', '.join(said)} (it {self.shown(self.now)} now, on the same samples{new})"
        return text[0].upper() + text[1:]

    def reached(self, runs: Sequence[FloatRun] = ()) -> dict[Node, tuple[float, float]]:
        """Returns the value ranges of int8 tensors over some runs or all, extended to zero, by quantize call."""
        reached: dict[Node, tuple[float, float]] = {}

        def seen(place: Node, value: Tensor) -> Tensor:
            low, high = reached.get(place, (0.0, 0.0))
            finite = value[torch.isfinite(value)]
            if finite.numel():
                reached[place] = min(low, float(finite.min())), max(high, float(finite.max()))
            return value

        places = [place for place in self._model.places if is_quantize(place) and USUAL.torch_dtype in place.args]
        self.kept({place: partial(seen, place) for place in places}, runs or self._seen)
        return reached

    def on_new(self, others: Roundings, always: Sequence[FloatRun] = ()) -> float:
        """Estimates what new samples keep: ranges are taken from each quarter of the samples, together with those in
        `always`, and judged on the others; the least of the four. Infinity without an estimate, as for the steps of a
        sequence."""
        runs = _some(self._seen, max(1, WORK // (PASSES * max(self._model.size, 1))))
        if self._model.initial or len(runs) < NEW:
            return math.inf
        mine, kept = self.reached([*runs, *always]), list[float]()
        for part in folds([True] * len(runs)):
            theirs = self.reached([*(runs[number] for number in sorted(part)), *always])
            both = mine.keys() & theirs.keys()
            roundings = {place: RoundedRange(*qparams_of(place).range, USUAL) for place in both} | dict(others)
            for place, rounding in roundings.items():
                if isinstance(rounding, RoundedRange) and place in mine and place in theirs:
                    roundings[place] = rounding.without(mine[place], theirs[place])
            kept.append(self.kept(roundings, [run for number, run in enumerate(runs) if number not in part]))
        return min(kept)

    def told_of_new(self, others: Roundings, told: float, always: Sequence[FloatRun] = ()) -> str:
        """Formats what new samples may keep with a remedy, if that is less than what was told."""
        new = self.on_new(others, always)
        return (
            f"; of new samples, by a cautious estimate, it {self.shown(new)}" if new <= told - self._measure.gap else ""
        )

    def _unsaturated(self) -> tuple[str, Roundings]:
        """Returns the option that extends the ranges of saturating int8 tensors to all their values."""
        return "--calibration-method minmax", unsaturated(self.reached())

    def wide(self, places: Sequence[Node]) -> tuple[str, Roundings]:
        """Returns the option that makes tensors int16, together with the calls around them and those calls' results;
        empty if one of these supports only 8 bits."""
        chosen = [place for place in places if is_quantize(place)]
        calls = [call for place in chosen for call in _around(place)]
        if not calls or not all(MAY_BE_WIDE.known(call) for call in calls):
            return "", {}
        names = "|".join(dict.fromkeys(call.name for call in calls))
        same = {*calls, *map(_source, chosen)}
        found = [place for place in self._model.places if is_quantize(place) and _source(place) in same]
        return f"--int16 '{names}'", {place: _wide_grid(place) for place in found}

    def _all_wide(self) -> tuple[str, Roundings]:
        found = [place for place in self._model.places if is_quantize(place)]
        return "--activations int16", {place: _wide_grid(place) for place in found}

    def _floats(self) -> Iterator[tuple[str, Roundings]]:
        """Yields the options with which nothing is rounded, but weights in the first."""
        weights = [place for place in self._model.places if means(place, CallKind.QUANTIZE_CHANNELS)]
        others = [place for place in self._model.places if place not in weights]
        yield "--activations float32", dict.fromkeys(others, exact)
        yield "--activations float32 --weights float32", dict.fromkeys([*others, *weights], exact)


def unsaturated(reached: Mapping[Node, tuple[float, float]]) -> Roundings:
    """Returns extended ranges for the tensors whose values exceed their codes."""
    return {place: RoundedRange(*ends, USUAL) for place, ends in reached.items() if _passes_range(place, *ends)}


def _passes_range(place: Node, low: float, high: float) -> bool:
    """Returns whether values lie more than a step outside of a tensor's codes."""
    qparams = qparams_of(place)
    least, most = qparams.range
    return low < least - qparams.scale or high > most + qparams.scale


def _wide_grid(place: Node) -> RoundedRange:
    """Returns the rounding to int16 codes with the headroom that int16 tensors have."""
    room = INPUT_ROOM if place.all_input_nodes[0].op == "placeholder" else ROOM
    most = room * max(abs(end) for end in qparams_of(place).range)
    return RoundedRange(-most, most, WIDE)


def _passes(node: Node) -> bool:
    """Returns whether a node passes values through unchanged, except for rounding."""
    return _quantizes(node) or _dequantizes(node) or moves(node)


def _way(output: Node, ends: Callable[[Node], bool]) -> list[Node]:
    """Returns the nodes between an output and the nodes where `ends` holds, those furthest from the output last."""
    found: list[Node] = []

    def leads(node: Node) -> bool:
        if ends(node):
            return True
        if not _passes(node) or not any([leads(read) for read in node.all_input_nodes]):
            return False
        found.insert(0, node)
        return True

    leads(output)
    return list(dict.fromkeys(found))


def _around(place: Node) -> list[Node]:
    """Returns the call that produces a tensor and those that read it."""
    source = place.all_input_nodes[0]
    readers = [user for reader in place.users if _dequantizes(reader) for user in reader.users if not _quantizes(user)]
    calls = [*([source] if source.op == "call_function" else []), *readers]
    return [call for call in calls if call.op == "call_function" and not _dequantizes(call)]


def _quantizes(node: Node) -> bool:
    return means(node, *QUANTIZES)


def _dequantizes(node: Node) -> bool:
    return means(node, *DEQUANTIZES)


def _is_bias(node: Node) -> bool:
    """Returns whether a constant has 32 bits, as biases do."""
    return torch.int32 in node.args


def _source(place: Node) -> Node:
    """Returns the producer of a tensor's values, before any other rounding of them."""
    source = place.all_input_nodes[0]
    while source.op == "call_function" and (_quantizes(source) or _dequantizes(source)):
        source = source.all_input_nodes[0]
    return source


def _name(place: Node) -> str:
    """Describes the call that made a tensor's values, before anything moved them."""
    source = _source(place)
    while moves(source) and len(source.all_input_nodes) == 1:
        source = _source(source)
    if source.op == "placeholder":
        return f"input '{source.name}'"
    if source.op == "get_attr":
        kind = "weights" if means(place, CallKind.QUANTIZE_CHANNELS) else "constant"
        return f"the {kind} of {describe(next(iter(next(iter(place.users)).users)))}"
    return describe(source)


# ---- what to do ------------------------------------------------------------------------------------------------------


def remedy(place: Node, values: Tensor | None) -> str:
    """Suggests a remedy for a tensor that an output loses to, given its float values."""
    if means(place, CallKind.QUANTIZE_CHANNELS):
        return "a few weights of a channel are far larger than the others; train with quantization (prepare_qat)"
    if values is None or not is_quantize(place):
        return "`cortado validate --per-layer` shows more"
    qparams, finite = qparams_of(place), values[torch.isfinite(values)]
    low, high = qparams.range
    if not finite.numel():
        return "none of its values is finite; use a number of ordinary size instead of infinity"
    usual, largest = float(finite.abs().median()), float(finite.abs().max())
    saturated = _saturated(finite, qparams)
    source = place.all_input_nodes[0]
    if saturated > SATURATED:
        return f"{saturated:.1%} of its values saturate beyond {low:.4g} to {high:.4g}; give more samples that do"
    if source.op == "placeholder":
        return (
            f"half of its values are below {usual:.3g} and a step of its int8 codes is {qparams.scale:.3g}; give it in "
            "another form: the logarithm or root of powers and spectra, the difference from its mean, or parts of "
            "different size as separate inputs"
        )
    if means(source, CallKind.SOFTMAX):
        return _remedy_of_probabilities(values.shape[-1], usual, qparams.scale)
    join = joined_by(source)
    if largest < FEW_STEPS * 8 * qparams.scale and join is not None:
        return (
            f"its values are below {largest:.3g} in the range of {low:.4g} to {high:.4g} that it shares with larger "
            f"values in {describe(join)}; keep them apart"
        )
    return (
        f"half of its values are below {usual:.3g} in a range of {low:.4g} to {high:.4g}; normalize before it, take a "
        "logarithm or a root, or train with quantization (prepare_qat)"
    )


def _remedy_of_probabilities(count: int, usual: float, step: float) -> str:
    if count > PROBABILITIES:
        return f"{count} probabilities share 256 codes; return the scores before the softmax"
    return (
        f"half of its {count} probabilities are below {usual:.3g} and a step of its int8 codes is {step:.3g}; give "
        "sums over them 16 bits (--int16), or train with quantization (prepare_qat)"
    )


def _saturated(values: Tensor, qparams: QParams) -> float:
    low, high = qparams.range
    half = qparams.scale / 2
    return float(((values < low - half) | (values > high + half)).double().mean()) if values.numel() else 0.0
