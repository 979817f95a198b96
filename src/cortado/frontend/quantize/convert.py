"""From a captured graph to a quantized one: prepare, calibrate, convert. On all data the graph is checked against the
model."""

import contextlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial, reduce
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree
from torchao.quantization.pt2e import DerivedObserverOrFakeQuantize
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from cortado.base.element import FLOAT32, USUAL
from cortado.base.errors import CortadoError
from cortado.base.findings import Finding, FindingKind
from cortado.frontend.capture.eager import Eager, RightKernels
from cortado.frontend.capture.export import Captured, capture, infinite_constant, leaves_open
from cortado.frontend.capture.incoming import as_module, evaluating
from cortado.frontend.capture.inputs import Inputs, note_ranges
from cortado.frontend.precision.elements import WHY, note_floats, scheme_for
from cortado.frontend.precision.islands import Island, check_taken
from cortado.frontend.precision.judgement import CALL, FloatRun, drawn, drawn_runs, folds
from cortado.frontend.precision.parts import OutputParts
from cortado.frontend.precision.search import (
    Attempts,
    Bar,
    Bottleneck,
    Chosen,
    Mixed,
    MixedSearch,
    Noise,
    OutOfReach,
    Price,
    TensorPrecision,
    Tensors,
    limits_of,
    measure_noise,
    samples_for,
)
from cortado.frontend.precision.targets import Goal, Labelled
from cortado.frontend.quantize.bias import Means, correct_biases, give_biases, samples_to_correct
from cortado.frontend.quantize.calibration import Settled, give_ranges, hide_masked, settle
from cortado.frontend.quantize.candidates import (
    ENOUGH,
    REMEMBERED,
    Calibrated,
    Candidate,
    Choice,
    Judge,
    observers_of,
    size_of,
)
from cortado.frontend.quantize.fake_quant_run import Correction, Rounded, Scales
from cortado.frontend.quantize.known_ranges import know_ranges
from cortado.frontend.quantize.observer_replay import Sightings
from cortado.frontend.quantize.observers import SMALLEST_SCALE, RangeObserver, make_room_for_bias
from cortado.frontend.quantize.prequantized import is_dequantize, is_quantized, qparams_of
from cortado.frontend.quantize.qat import QatModel, prepare_graph
from cortado.frontend.quantize.quantizer import CortexMQuantizer, move_clamps_to_kernels
from cortado.frontend.quantize.scales import take
from cortado.frontend.quantize.sharing import SharedRanges, meet, share
from cortado.frontend.quantize.ties import Tied, avoid_ties, tied_inputs
from cortado.frontend.quantize.training import as_deployed
from cortado.frontend.rewrite.pipeline import FloatContext, canonicalize, run_float
from cortado.frontend.rewrite.state import StateBuffer, StateSequence, as_codes, holders, keep_needed, tie_state
from cortado.frontend.rewrite.writes import written
from cortado.ir.facts import STATE, is_float32
from cortado.ir.graph import copied, describe, lift, module_path, output_node
from cortado.ir.matching import settle as settle_matches
from cortado.ir.patched import counted_on, late_code
from cortado.ops.elementwise.pointwise import attribute, is_pointwise
from cortado.ops.float_graph import constant_data
from cortado.options import DEFAULTS, Activations, CalibrationMethod, Options

Tensor = torch.Tensor
AS_IT_CAME = Options(calibration_method=CalibrationMethod.MINMAX, bias_correction=False)
SAMPLES_JUDGED, STEPS_JUDGED = 16, 64  # judged in the search of --precision auto, without and with state
STEPS = 16_384  # of a model with state whose float outputs are kept
CONFIRMED = 200_000_000  # values computed, at most, to confirm that the choice reaches the bar


@dataclass(frozen=True)
class Quantized:
    """A model after PT2E conversion, in float with quantize/dequantize pairs. It doesn't depend on the target."""

    converted: GraphModule
    example_inputs: Inputs
    checked: tuple[FloatRun, ...] = ()  # calibration inputs: all, or as many as can be kept; always the first
    findings: tuple[Finding, ...] = ()  # about the calibration data
    narrow: tuple[str, ...] = ()  # the tensor with the fewest codes, if few, and the call that joins it with others
    tied: tuple[Tied, ...] = ()  # inputs whose codes can differ between cores
    reasons: Mapping[str, str] = field(default_factory=dict)  # by state buffer: why it has 8 or 16 bits
    nones: tuple[int, ...] = ()  # positions of the outputs for which the model returns None
    how: Options = DEFAULTS  # the options used for calibration
    choice: Choice | None = None  # which candidate won; None: the model came quantized
    islands: tuple[Island, ...] = ()  # calls in float32 because no integer operator takes them
    mixed: Mixed | None = None  # the int16 tensors chosen by measurement
    parts: OutputParts = field(default_factory=lambda: OutputParts(()))  # the parts of the outputs

    def program(self) -> ExportedProgram:
        """Returns a new ExportedProgram over the same weights, to be lowered in place."""
        state = [STATE.must(node).initial for node in holders(self.converted.graph)]
        return lift(copied(self.converted), (*self.example_inputs, *state))


def _check_finite(module: GraphModule, infinite: str | None) -> None:
    """Checks that constants are finite. In the canonical graph masks are part of the softmax that reads them; otherwise
    infinity is allowed only outside of parameters, where it becomes part of a table."""
    for node in module.graph.nodes:
        data = attribute(node) if node.op == "get_attr" else None
        if data is None or not data.is_floating_point() or not bool(data.isinf().any()):
            continue
        readers = [user for user in node.users if infinite is not None or not is_pointwise(user)]
        if readers:
            raise CortadoError(
                f"{infinite or 'a constant'} holds infinity, expected finite numbers; check the checkpoint. It is read "
                f"by {describe(readers[0])}; -inf is allowed only in a mask that is added to scores, if a softmax "
                "reads the sum"
            )


def quantize(
    captured: Captured,
    example_inputs: Sequence[Tensor],
    batches: Sequence[Inputs],
    how: Options = DEFAULTS,
    *,
    counted: Callable[[int], None] = lambda done: None,
    tried: Callable[[Quantized], None] | None = None,
    measured: "PrecisionGiven | None" = None,
    intermediates: Path | None = None,
    ranges: SharedRanges | None = None,
) -> Quantized:
    """Prepares, calibrates and converts with CortexMQuantizer; on all data the graph must compute what the model does.
    `counted` is called with the number of finished batches, `tried` with the model quantized from the first batch, to
    refuse it early. With `measured`, tensors are int16 where needed; `ranges` are shared between methods."""
    module = captured.module
    writes = [describe(node) for node in module.graph.nodes if written(node)]
    infinite, static = infinite_constant(module), list[Finding]()
    note_ranges(module, how.range, [tuple(example_inputs), *batches])
    with captured.eager.blamed("the example inputs", example_inputs):
        state = _canonical(captured, example_inputs, how, static, intermediates)
    _check_finite(module, infinite)
    stream = _sequences(state, how)
    layers = give_biases(module) if how.bias_correction else {}
    with torch.no_grad(), _right_kernels(module), late_code(), counted_on():
        if not any(_same(example_inputs, batch) for batch in batches):
            _check_example(captured, stream, example_inputs, writes)
        pristine = copied(module) if measured is not None else None
        prepared = _checked_islands(_prepare(module, how), how)
        know_ranges(prepared, batches)
        float_model, parts = Means(prepared, layers), OutputParts.of(prepared)

        def seen(number: int) -> None:
            counted(number + 1)
            if number == 0 and tried is not None and len(batches) > 1:
                tried(_first_form(prepared, example_inputs, how))

        data = _calibrated(captured, float_model, stream, batches, writes, seen, parts)
        choice = _choose(prepared, float_model, data, how)
        mixed = None
        if measured is not None and pristine is not None:
            work = MixedWork(pristine, how, float_model, data, choice.winner, tuple(example_inputs))
            mixed = work.choose(prepared, measured, captured.eager)
            prepared = work.prepared(mixed.calls)
        settled = _settle(prepared, choice.winner, batches, ranges)
        converted = _converted(prepared, module.graph, float_model, data, settled, choice.winner)
    return Quantized(
        converted=converted,
        example_inputs=tuple(example_inputs),
        checked=tuple(replace(run, usual=run.number not in settled.odd) for run in data.runs),
        findings=(*static, *settled.findings, *(() if mixed is None else mixed.findings)),
        narrow=settled.narrow,
        tied=tied_inputs(converted, batches),
        reasons={STATE.must(one).buffer: WHY.of(one) or "" for one in holders(prepared.graph)},
        nones=captured.nones,
        how=how,
        choice=choice,
        mixed=mixed,
        parts=parts,
    )


def _check_example(
    captured: Captured, stream: StateSequence, example_inputs: Sequence[Tensor], writes: Sequence[str]
) -> None:
    """Checks the graph against the model on the example inputs."""
    with captured.eager.blamed("the example inputs", example_inputs):
        found = pytree.tree_leaves(captured.module(*stream.inputs(0, example_inputs)))
    captured.eager.check("the example inputs", example_inputs, stream.outputs(found), writes)


def _calibrated(
    captured: Captured,
    float_model: Means,
    stream: StateSequence,
    batches: Sequence[Inputs],
    writes: Sequence[str],
    seen: Callable[[int], None],
    parts: OutputParts,
) -> Calibrated:
    """Runs all data through the observers, and checks each batch. Outputs are kept for judging."""
    fed: list[Inputs] = []  # the inputs of each step, state included
    runs, kept = list[FloatRun](), set[int]()
    begins = [not stream.state or stream.begins(number) for number in range(len(batches))]
    for number, batch in enumerate(batches):
        if stream.begins(number):
            captured.eager.reset()
        fed.append(stream.inputs(number, batch))
        with captured.eager.blamed(f"calibration batch {number}", batch):
            found = pytree.tree_leaves(float_model.run_sample(number, fed[-1]))
        outputs = stream.outputs(found)
        captured.eager.check(f"calibration batch {number}", batch, outputs, writes)
        kept = kept or _remembered(begins, outputs)
        if number in kept:
            runs.append(FloatRun(batch, tuple(outputs), number, begins[number]))
        seen(number)
    return Calibrated(batches, fed, runs, begins, stream.state, parts)


def _remembered(begins: Sequence[bool], outputs: Sequence[Tensor]) -> set[int]:
    """Returns the numbers of the samples whose float outputs are kept, the first among them."""
    most = max(1, REMEMBERED // max(sum(output.numel() for output in outputs), 1))
    return {0, *drawn_runs(begins, most if all(begins) else min(STEPS, most))}


def _converted(
    prepared: GraphModule,
    graph: Graph,
    means: Means,
    data: Calibrated,
    settled: Settled,
    winner: Candidate,
    without: Collection[int] = (),
) -> GraphModule:
    """Converts a graph with settled observers. Biases are corrected on typical samples, as many as the float graph's
    size allows, `without` the held-out ones."""
    avoid_ties(prepared, data.batches)
    usual = [number for number in range(len(data.fed)) if number not in settled.odd and number not in without]
    places = drawn(len(usual), samples_to_correct(graph, means.layers))
    samples = {usual[place]: data.fed[usual[place]] for place in places}
    for node in prepared.graph.nodes:
        if node.op == "call_module":
            _check_observer(prepared, node)
    converted: GraphModule = convert_pt2e(prepared, fold_quantize=False)
    if winner.corrected:
        correct_biases(converted, means, samples, winner.corrected)
    as_codes(converted)
    return converted


def _settle(
    prepared: GraphModule, candidate: Candidate, batches: Sequence[Inputs], ranges: SharedRanges | None = None
) -> Settled:
    """Gives every tensor its range, after deciding which share one. `ranges`: those that other methods also need."""
    _share(prepared, candidate)
    settled = settle(prepared, candidate.method, batches, candidate.widened)
    if ranges is not None:
        ranges.meet(prepared)
    return settled


def _share(prepared: GraphModule, candidate: Candidate) -> None:
    share(prepared, candidate.method)
    tie_state(prepared)
    meet(prepared)


def _try_ranges(prepared: GraphModule, candidate: Candidate) -> None:
    """Gives every tensor its range for a trial."""
    _share(prepared, candidate)
    give_ranges(prepared, candidate.method, candidate.widened)


def _choose(prepared: GraphModule, means: Means, data: Calibrated, how: Options) -> Choice:
    """Chooses ranges by the user's method, or by what is best for the outputs."""
    if how.calibration_method is not CalibrationMethod.AUTO:
        return Choice(Candidate(how.calibration_method, tuple(means.layers), widened=False))
    judge = Judge(prepared, means, data, how.sequence, partial(_try_ranges, prepared))
    choice = judge.choose(how)
    judge.recall()
    return choice


def _first_form(prepared: GraphModule, example_inputs: Sequence[Tensor], how: Options) -> Quantized:
    """Quantizes the model with the values seen so far; the observers are unaffected."""
    other = copied(prepared)
    other.meta = dict(prepared.meta)  # that PT2E has prepared it
    converted = convert_pt2e(other, fold_quantize=False)
    as_codes(converted)
    return Quantized(converted=converted, example_inputs=tuple(example_inputs), how=how)


def _sequences(state: Sequence[StateBuffer], how: Options) -> StateSequence:
    if how.sequence is not None and not state:
        raise CortadoError(NO_STATE)
    return StateSequence(state, how.sequence)


NO_STATE = (
    "a sequence length was given (--sequence), but the model has no state: forward changes no buffer; leave it out"
)


def _canonical(
    captured: Captured,
    example_inputs: Sequence[Tensor],
    how: Options,
    found: list[Finding],
    intermediates: Path | None = None,
) -> tuple[StateBuffer, ...]:
    """Canonicalizes the captured graph and returns the state that is needed. If feedback is to be int8, filters stay
    separate calls. Findings for the user are added to `found`."""
    note_floats(captured.module.graph, how.float32)
    inputs = (*example_inputs, *(one.initial for one in captured.state))
    filters = how.state is not Activations.INT8
    context = FloatContext(captured.module, USUAL, inputs, state=tuple(captured.state), filters=filters, findings=found)
    run_float(context, intermediates)
    if filters:
        captured.eager.drift = context.drift
    return context.state or ()


def as_float(
    captured: Captured, example_inputs: Sequence[Tensor], batches: Sequence[Inputs], how: Options = DEFAULTS
) -> Quantized:
    """Prepares a model whose real numbers are all float32: nothing is quantized, and no data is needed. On any given
    data the graph must compute what the model does."""
    module, initial = captured.module, [one.initial for one in captured.state]
    writes = [describe(node) for node in module.graph.nodes if written(node)]
    note_ranges(module, how.range, [tuple(example_inputs), *batches])
    findings: list[Finding] = []
    with captured.eager.blamed("the example inputs", example_inputs):
        canonicalize(module, (*example_inputs, *initial), FLOAT32, findings)
    stream = StateSequence(keep_needed(module, captured.state), how.sequence)
    if how.sequence is not None and not stream.state:
        raise CortadoError(NO_STATE)
    move_clamps_to_kernels(module)
    settle_matches(module.graph)

    def run(where: str, number: int, batch: Inputs) -> list[Tensor]:
        with captured.eager.blamed(where, batch):
            found = pytree.tree_leaves(module(*stream.inputs(number, batch)))
        outputs = stream.outputs(found)
        captured.eager.check(where, batch, outputs, writes)
        return outputs

    with torch.no_grad(), _right_kernels(module), late_code(), counted_on():
        checked = _checked_runs(captured, stream, example_inputs, batches, run)
    as_codes(module)
    return Quantized(
        converted=module,
        example_inputs=tuple(example_inputs),
        checked=checked,
        findings=tuple(findings),
        nones=captured.nones,
        how=how,
    )


def _no_state(captured: Captured, what: str) -> None:
    if captured.state:
        names = ", ".join(f"'{one.name}'" for one in captured.state)
        raise CortadoError(
            f"{captured.state[0].where} changes {names}, which would have to persist until the next call, but {what} "
            "can't have state yet: give the float model, which Cortado quantizes itself, or pass it in as an input "
            "and return it as an output"
        )


def _checked_runs(
    captured: Captured,
    stream: StateSequence,
    example_inputs: Sequence[Tensor],
    batches: Sequence[Inputs],
    run: Callable[[str, int, Inputs], list[Tensor]],
) -> tuple[FloatRun, ...]:
    """Runs the calibration batches, or the example inputs, in their sequences; returns the runs that are kept."""
    given, checked, kept = batches or [tuple(example_inputs)], list[FloatRun](), set[int]()
    begins = [not stream.state or stream.begins(number) for number in range(len(given))]
    for number, batch in enumerate(given):
        if stream.begins(number):
            captured.eager.reset()
        outputs = run(f"calibration batch {number}" if batches else "the example inputs", number, batch)
        kept = kept or _remembered(begins, outputs)
        if number in kept:
            checked.append(FloatRun(batch, tuple(outputs), number, begins[number]))
    return tuple(checked)


def keep(
    captured: Captured, example_inputs: Sequence[Tensor], batches: Sequence[Inputs], sequence: int | None = None
) -> Quantized:
    """Prepares a model that PT2E has quantized, with its own scales; it must compute what the model does on the given
    data."""
    module = take(captured.module, (*example_inputs, *(one.initial for one in captured.state)))
    state = keep_needed(module, captured.state)
    stream = StateSequence(state, sequence)
    returned = pytree.tree_leaves(output_node(module.graph).args)
    steps = [qparams_of(node).scale if is_dequantize(node) else None for node in returned[: len(returned) - len(state)]]

    def run(where: str, number: int, batch: Inputs) -> list[Tensor]:
        found = stream.outputs(pytree.tree_leaves(module(*stream.inputs(number, batch))))
        return captured.eager.check_codes(where, batch, found, steps)

    with torch.no_grad(), _right_kernels(module):
        checked = _checked_runs(captured, stream, example_inputs, batches, run)
        as_codes(module)
    return Quantized(
        converted=module,
        example_inputs=tuple(example_inputs),
        checked=checked,
        tied=tied_inputs(module, batches),
        nones=captured.nones,
        how=AS_IT_CAME,
        parts=OutputParts.of(module),
    )


def train(captured: Captured, example_inputs: Sequence[Tensor], how: Options = DEFAULTS) -> QatModel:
    """Returns the model with fake quantization, for training."""
    _no_state(captured, "a model that is trained with quantization")
    module = captured.module
    writes = [describe(node) for node in module.graph.nodes if written(node)]
    as_deployed(module)
    infinite = infinite_constant(module)
    canonicalize(module, example_inputs)
    _check_finite(module, infinite)
    with torch.no_grad(), _right_kernels(module):
        captured.eager.check("the example inputs", example_inputs, module(*example_inputs), writes)
    return prepare_graph(module, example_inputs, how)


def _same(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def _right_kernels(module: GraphModule) -> contextlib.AbstractContextManager[Any]:
    """Uses the same backend kernels as the eager run."""
    return RightKernels() if leaves_open(module) else contextlib.nullcontext()


def _check_observer(prepared: GraphModule, node: Node) -> None:
    """Checks that an observer has a range. Single infinite values saturate; a tensor with no finite value has no
    range."""
    observer, source = prepared.get_submodule(str(node.target)), node.all_input_nodes[0]
    if isinstance(observer, DerivedObserverOrFakeQuantize):
        make_room_for_bias(constant_data(source), *observer.obs_or_fqs)
    if not isinstance(observer, RangeObserver) or observer.leader is not None:
        return
    if not observer.saw_finite:
        raise CortadoError(
            f"{describe(source)}: calibration saw only NaN or infinity, expected numbers to choose a scale from; check "
            "the calibration data, and the weights before this call"
        )
    if 0.0 < observer.largest < SMALLEST_SCALE * (observer.element.steps + 1):
        raise CortadoError(
            f"{describe(source)}: no value of this tensor exceeds {observer.largest:g} on the calibration data, but "
            f"the smallest scale of an {observer.element.name} tensor is {SMALLEST_SCALE:g}; scale the model so that "
            "its values are larger"
        )


def _prepare(module: GraphModule, how: Options = DEFAULTS, wide: Collection[str] = ()) -> GraphModule:
    prepared: GraphModule = prepare_pt2e(module, CortexMQuantizer(scheme=scheme_for(how, wide)))
    hide_masked(prepared)
    return prepared


def _checked_islands(prepared: GraphModule, how: Options) -> GraphModule:
    if how.has_islands:
        check_taken(prepared.graph)
    return prepared


class Priced(Protocol):
    """The questions of --precision auto to later stages."""

    def price(self, quantized: Quantized) -> Price | None: ...
    def outputs(self, quantized: Quantized, runs: Sequence[FloatRun]) -> list[list[Tensor]] | None: ...


@dataclass(frozen=True)
class PrecisionGiven:
    """The inputs of --precision auto apart from the calibration data."""

    pricing: Priced
    labelled: Labelled | None = None


@dataclass(frozen=True)
class Division:
    """The runs that a choice is judged by, and the samples held out of its ranges and biases."""

    runs: Sequence[FloatRun]
    held: frozenset[int] = frozenset()  # if not empty, only these are judged: others are steps on the way to them
    telling: Sequence[FloatRun] = ()  # runs to measure the noise of tensors on, the most important first; (): any

    def judges(self, run: FloatRun) -> bool:
        return not self.held or run.number in self.held


class MixedWork:
    """The network with various tensors in 16 bits, as often as needed, without observing data again."""

    search: type[MixedSearch] = MixedSearch

    def __init__(
        self,
        pristine: GraphModule,
        how: Options,
        means: Means,
        data: Calibrated,
        winner: Candidate,
        example: Inputs,
    ) -> None:
        self._pristine, self._how, self._means, self._data = pristine, how, means, data
        self._winner, self._example = winner, example
        self._runs = self._some(STEPS_JUDGED if data.state else SAMPLES_JUDGED)

    def _some(self, most: int) -> list[FloatRun]:
        """Returns a sample of the runs."""
        return [self._data.runs[place] for place in drawn_runs([run.begins for run in self._data.runs], most)]

    def choose(self, first: GraphModule, measured: PrecisionGiven, eager: Eager) -> Mixed:
        """Chooses the int16 tensors; `first` is the graph that has seen all data."""
        self._sightings = Sightings.of(first)
        self._goal = goal = Goal(self._how, self._data.parts, self._runs[0].outputs, eager, measured.labelled)
        self._pricing = measured.pricing

        @cache
        def confirm(chosen: Chosen) -> float:
            return self._quality(chosen, Division(self._all))

        try:
            mixed = self._search([Division(self._runs)], confirm, goal.bar).choose()
        except OutOfReach as error:
            error.in_float32 = partial(self._in_float32, error, goal, measured.pricing)
            raise
        if len(self._all) < ENOUGH:
            return mixed
        return self._for_new_data(mixed, confirm)

    def _search(self, divisions: Sequence[Division], confirm: Callable[[Chosen], float], bar: Bar) -> MixedSearch:
        """Returns a search that judges choices by the division of the samples that keeps least, and its results by
        `confirm`."""
        graphs = [self._settled((), one.held) for one in divisions]
        found = [Tensors.of(one.graph) for one in graphs]
        noise = reduce(Noise.beside, map(self._noise, graphs, found, divisions))

        def price(chosen: Chosen) -> Price | None:
            return self._pricing.price(self._quantized(chosen, corrected=False))

        def measure(chosen: Chosen) -> tuple[float, Price | None]:
            trials = [self._quantized(chosen, without=one.held) for one in divisions]
            judged = [self._judged(*pair) for pair in zip(trials, divisions, strict=True)]
            return min(judged), self._pricing.price(trials[0])

        attempts = Attempts(price, measure, confirm, self._limits)
        return self.search(found[0], noise, attempts, bar)

    def _quality(self, chosen: Chosen, division: Division) -> float:
        return self._judged(self._quantized(chosen, without=division.held), division)

    def _judged(self, quantized: Quantized, division: Division) -> float:
        """Measures the bar's unit: decibels on the runs of a division, or the share of all labelled samples."""
        if not self._goal.bar.decibels:
            return self._goal.accuracy(quantized.converted)
        outputs = self._pricing.outputs(quantized, division.runs)
        if outputs is None:
            return -math.inf
        judged = [pair for pair in zip(division.runs, outputs, strict=True) if division.judges(pair[0])]
        return self._goal.kept([run for run, _ in judged], [found for _, found in judged])

    def _in_float32(self, error: OutOfReach, goal: Goal, pricing: Priced, quantized: Quantized) -> Mixed | None:
        """Returns the last resort, the whole network in float32; None if that does not reach the bar."""
        price = pricing.price(quantized)
        if price is None:
            return None
        if goal.bar.decibels:
            outputs = pricing.outputs(quantized, self._all)
            reached = -math.inf if outputs is None else goal.kept(self._all, outputs)
        else:
            reached = goal.accuracy(quantized.converted)
        if reached < goal.bar.least:
            return None
        why = "float32: no choice of int16 tensors reaches the bar"
        nodes = [node for node in quantized.converted.graph.nodes if node.op == "call_function" and is_float32(node)]
        rows = tuple(TensorPrecision(node.name, module_path(node) or "", FLOAT32, why) for node in nodes)
        shown = goal.bar.shown(reached)
        return Mixed(frozenset(), rows, goal.bar.option, shown, error.before, (error.ram, price.ram))

    @cached_property
    def _all(self) -> list[FloatRun]:
        """Returns all runs; for a large network, as many as the work allows."""
        calls = sum(node.op == "call_function" for node in self._pristine.graph.nodes)
        return self._some(max(SAMPLES_JUDGED, CONFIRMED // (size_of(self._pristine) + CALL * calls + 1)))

    def _for_new_data(self, mixed: Mixed, confirm: Callable[[Chosen], float]) -> Mixed:
        """Searches on if new data are expected to miss the bar. If nothing reaches it there, takes the cheapest of the
        best choices, with a warning."""
        bar, tried = self._goal.bar, dict[Chosen, tuple[float, Division]]()

        def expected(chosen: Chosen) -> tuple[float, Division]:
            tried[chosen] = tried.get(chosen) or self._on_new_data(chosen)
            return tried[chosen]

        found = self._lasting(mixed, confirm, expected, bar.least)
        if found is None:
            every = Tensors.of(self._settled((), ()).graph).every
            found = self._lasting(mixed, confirm, expected, expected(every)[0] - bar.nearly) or mixed
        new, reached = expected(found.calls)[0], bar.shown(confirm(found.calls))
        missed = [] if new >= bar.least else [_below(bar, new, reached, [kept for kept, _ in tried.values()])]
        return replace(found, reached=reached, before=mixed.before, new=bar.shown(new), findings=tuple(missed))

    def _lasting(
        self,
        mixed: Mixed,
        confirm: Callable[[Chosen], float],
        expected: Callable[[Chosen], tuple[float, Division]],
        least: float,
    ) -> Mixed | None:
        """Returns a choice that is expected to keep `least` of new data, and the bar on all of the data. It is judged
        by the division that the choice before it misses `least` on, and by all earlier ones; None if no choice
        reaches it."""
        missed, asked = list[Division](), self._goal.bar.least

        def holds(chosen: Chosen) -> float:
            return min([confirm(chosen) - asked + least, *(self._quality(chosen, one) for one in missed)])

        found = mixed
        while expected(found.calls)[0] < least:
            worst = expected(found.calls)[1]
            if worst.held in [one.held for one in missed]:
                return None
            missed.append(self._with_telling(worst, found.calls))
            try:
                found = self._search(missed, holds, replace(self._goal.bar, least=least)).choose()
            except OutOfReach:
                return None
        return found

    def _on_new_data(self, chosen: Chosen) -> tuple[float, Division]:
        """Estimates the least quality on new data, and the division of the samples that gives it: ranges and biases are
        taken from each quarter of the samples and judged on the others, which exceed them about as new data exceed
        the samples."""
        found = [(self._quality(chosen, division), division) for division in self._divisions]
        return min(found, key=lambda one: one[0])

    def _with_telling(self, division: Division, chosen: Chosen) -> Division:
        """Adds the runs to measure the noise of tensors on: those with the largest errors, without state."""
        if self._data.state:
            return division
        outputs = self._pricing.outputs(self._quantized(chosen, without=division.held), division.runs)
        return replace(division, telling=() if outputs is None else self._goal.worst_first(division.runs, outputs))

    @cached_property
    def _divisions(self) -> list[Division]:
        begins, found = self._data.begins, list[Division]()
        for part in folds(begins):
            without, runs = frozenset(range(len(begins))) - part, self._all
            if not self._data.state:
                held = [run for run in runs if run.number in without]
                runs = [held[place] for place in drawn(len(held), max(1, len(runs) // 2))]
            found.append(Division(runs, without))
        return found

    def prepared(self, wide: Collection[str]) -> GraphModule:
        """Returns a prepared graph whose observers have the statistics of all data."""
        module = copied(self._pristine)
        module.meta = dict(self._pristine.meta)
        prepared = _prepare(module, self._how, wide)
        know_ranges(prepared, self._data.batches)
        self._sightings.carry_to(prepared, self._data.fed[0])
        return prepared

    def _quantized(self, wide: Collection[str], *, corrected: bool = True, without: Collection[int] = ()) -> Quantized:
        """Quantizes a trial model; its price does not depend on bias correction. Samples in `without` are held out."""
        prepared = self._recalled(wide, without)
        settled = _settle(prepared, self._winner, ())
        winner = self._winner if corrected else replace(self._winner, corrected=())
        converted = _converted(prepared, self._pristine.graph, self._means, self._data, settled, winner, without)
        return Quantized(converted=converted, example_inputs=self._example, how=self._how)

    def _recalled(self, wide: Collection[str], without: Collection[int]) -> GraphModule:
        """Returns a prepared graph whose observers have the statistics of all data but those in `without`."""
        prepared = self.prepared(wide)
        for observer in observers_of(prepared) if without else ():
            observer.recall(observer.observed(), without)
        return prepared

    def _settled(self, wide: Collection[str], without: Collection[int]) -> GraphModule:
        prepared = self._recalled(wide, without)
        _try_ranges(prepared, self._winner)
        return prepared

    def _noise(self, narrow: GraphModule, tensors: Tensors, division: Division) -> Noise:
        """Measures the noise of each tensor, on a few samples or steps."""
        rounded = Rounded(narrow, {})
        wanted, run = self._few(narrow, rounded, division)
        return measure_noise(narrow, rounded.scales(), tensors, wanted, run)

    def _limits(self, wide: Collection[str]) -> list[Bottleneck]:
        """Returns the noise that remains with these calls in 16 bits."""
        prepared = self._settled(wide, ())
        rounded = Rounded(prepared, {})
        wanted, run = self._few(prepared, rounded, Division(self._runs))
        return limits_of(prepared, rounded.scales(), wanted, run)

    def _few(
        self, prepared: GraphModule, rounded: Rounded, division: Division
    ) -> tuple[list[list[Tensor]], Callable[[Scales], list[list[Tensor]]]]:
        """Returns the float model's outputs for a few samples or steps, and a function that computes those of a rounded
        graph."""
        no_shift, split = Correction({}, 0), self._data.parts.split
        count = samples_for(size_of(prepared), len(self._runs))
        runs = self._runs if self._data.state else division.telling[:count] or self._some(count)

        def run(scales: Scales) -> list[list[Tensor]]:
            if not self._data.state:
                fed = [self._data.fed[one.number] for one in runs]
                return [split(outputs) for outputs in rounded.run(fed, scales, no_shift)]
            steps, outputs = StateSequence(self._data.state, self._how.sequence), []
            for one in runs:
                (found,) = rounded.run([steps.inputs(one.number, one.inputs)], scales, no_shift)
                outputs.append(split(steps.outputs(found)))
            return outputs

        return [split(one.outputs) for one in runs], run


def _below(bar: Bar, new: float, reached: str, tried: Collection[float]) -> Finding:
    """Returns the warning that new data are expected to miss the bar."""
    judged, others = ("the calibration data", "the others") if bar.decibels else ("the labelled samples", "these")
    return Finding(
        kind=FindingKind.NEW_DATA,
        text=(
            f"{bar.option}: {judged} keep {reached}, but new data are expected to keep only {bar.shown(new)}, which is "
            f"what {others} keep with ranges from a quarter of the calibration samples. The best of {len(tried)} "
            f"choices, up to int16 wherever it is possible, is expected to keep {bar.shown(max(tried))}. "
            "Give more samples, and ones that reach as far as new data will"
        ),
        found=new if math.isfinite(new) else None,
        limit=bar.least,
    )


class FloatModel:
    """A model in float: the user's own module, and its graph just before quantization."""

    def __init__(
        self,
        model: torch.nn.Module | ExportedProgram,
        example_inputs: Sequence[Tensor],
        how: Options = DEFAULTS,
    ) -> None:
        self._model, self._example_inputs, self._how = evaluating(as_module(model)), example_inputs, how
        self._eager = Eager(self._model)

    def outputs(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Returns the module's output for one sample, after all samples since the last `reset`."""
        return self._eager(inputs)

    def reset(self) -> None:
        """Resets state to its initial values."""
        self._eager.reset()

    @cached_property
    def _graph(self) -> GraphModule:
        captured = capture(self._model, self._example_inputs)
        if is_quantized(captured.module):
            return take(captured.module, (*self._example_inputs, *(one.initial for one in captured.state)))
        note_ranges(captured.module, self._how.range, ())
        _canonical(captured, self._example_inputs, self._how, [])
        return _prepare(captured.module)  # its observers don't change values

    def twins(self, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
        """Returns every node's value by name, for one sample: these nodes are the twins of the lowered graph's calls.
        State has its initial values."""
        interpreter = torch.fx.Interpreter(self._graph, garbage_collect_values=False)
        state = [STATE.must(node).initial for node in holders(self._graph.graph)]
        with torch.no_grad(), _right_kernels(self._graph):
            interpreter.run(*inputs, *state)
        return {node.name: value for node, value in interpreter.env.items() if isinstance(value, Tensor)}
