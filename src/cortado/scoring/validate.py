"""A compiled model in every place where it runs: float model, integer reference, C on this machine, boards,
ExecuTorch."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations

import numpy as np
import torch

from cortado.artifact.opened import Artifact, Reference
from cortado.artifact.report import FidelityReport, LayerFidelityReport
from cortado.base.arrays import ArrayType
from cortado.base.progress import Progress, silent
from cortado.base.target import ONE_OF_EACH, CortexM, CortexMTargetConfig
from cortado.frontend.capture.torch_settings import one_thread
from cortado.frontend.quantize.convert import FloatModel
from cortado.plan.lowered import LoweredGraph
from cortado.run.qemu import BoardFaultError
from cortado.run.runner import EXECUTORCH, HOST, NO_LIMITS, WASM, RunLimits
from cortado.run.silicon.place import is_probe
from cortado.run.silicon.probe import Interrupted
from cortado.scoring.dataset import Dataset, scores_of
from cortado.scoring.floats import float_inputs, float_outputs
from cortado.scoring.metrics import Agreement, Error
from cortado.scoring.scores import UNSCORED, Scored, check_labels, score, then_lost

Tensor = torch.Tensor
Sample = Sequence[ArrayType]


# ---- the result ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fidelity:
    """The deviation of outputs from the float model's: decibels (inf if equal), the number of samples with the same
    best class, and the fraction of integers and truth values that agree."""

    sqnr: float | None
    same_top1: int | None  # None if no output has classes
    agreement: float | None = None  # None if all outputs are real numbers


@dataclass(frozen=True)
class PlaceResult:
    """A place where the network ran; `exact` counts the samples that are bit-exact with the reference."""

    name: str
    what: str
    exact: int | None = None  # None for the reference itself
    fidelity: Fidelity | None = None  # None without a float model
    instructions: int | None = None
    fault: str | None = None
    close: bool = False  # not bit-exact, but within the tolerance of float libraries: a .pte with float operators
    ran: int | None = None  # samples run before the place was lost, if it was
    lost: str | None = None  # the reason for that


@dataclass(frozen=True)
class LayerResult:
    """A kernel of the network; `differing` counts, for each place, its output values that differ from the
    reference's."""

    name: str
    operator: str
    module: str
    sqnr: float | None  # of the reference against the float model; None without one, or if it has no such value
    differing: Mapping[str, int]


@dataclass(frozen=True)
class Validation:
    """The result of `validate`. `layers` is empty unless requested."""

    samples: int
    places: tuple[PlaceResult, ...]
    layers: tuple[LayerResult, ...]
    scored: Scored = UNSCORED  # the reference's outputs

    def first_difference(self, place: PlaceResult) -> LayerResult | None:
        """Returns the layer at fault: the first that differs, so that its inputs are right."""
        return next((layer for layer in self.layers if layer.differing.get(place.name)), None)

    def problems(self) -> list[str]:
        """Returns a sentence for each place that is not bit-exact."""
        return [text for place in self.places if (text := self._problem(place)) is not None]

    def _problem(self, place: PlaceResult) -> str | None:
        if place.fault is not None:
            return f"{place.name}: {place.fault}"
        ran = self.samples if place.ran is None else place.ran
        wrong = 0 if place.exact is None or place.close else ran - place.exact
        first = self.first_difference(place)
        if not wrong and first is None:
            return None
        text = f"{place.name} differs from the reference in the outputs of {wrong} of {ran} samples"
        if first is not None:
            where = f" in module '{first.module}'" if first.module else ""
            return f"{text}; the first layer that differs is {first.name} ({first.operator}){where}"
        traced = any(place.name in layer.differing for layer in self.layers)
        return f"{text}; every layer gave the reference's bits, so something overwrote them later" if traced else text

    def cut_short(self) -> list[str]:
        """Returns a sentence for each place that was lost before all samples had run, after correct results."""
        lost = [place for place in self.places if place.lost is not None and place.exact == place.ran]
        return [then_lost(place.name, place.ran or 0, place.lost or "") for place in lost]


def fidelity_report(found: Validation, float_model: str | None) -> FidelityReport:
    """Returns the entry of the layers in report.json."""
    return FidelityReport(
        samples=found.samples,
        float_model=float_model,
        layers=tuple(
            LayerFidelityReport(
                name=layer.name,
                sqnr_db=None if layer.sqnr == math.inf else layer.sqnr,
                exact=layer.sqnr == math.inf,
            )
            for layer in found.layers
        ),
    )


# ---- validating ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    """A place to run in: the artifact for one core, and the board or program that runs it."""

    name: str
    what: str
    artifact: Artifact
    on: str | None


@one_thread()
def validate(
    artifact: Artifact,
    samples: Sequence[Sample],
    *,
    targets: Sequence[CortexMTargetConfig] = (),
    floats: FloatModel | None = None,
    labels: ArrayType | None = None,
    per_layer: bool = False,
    sequence: int | None = None,
    on: str | None = None,
    progress: Progress = silent,
    limits: RunLimits = NO_LIMITS,
) -> Validation:
    """Runs the samples in every place; `targets` choose the boards (by default the artifact's own). `on` adds a chip
    behind a debug probe, or WebAssembly.

    Samples of a model with state are steps, of one sequence or of several that are `sequence` long; its layers are
    compared at the start of each sequence.
    """
    artifact.check_bundle()
    artifact.check_sequence(sequence)
    data = Dataset([list(sample) for sample in samples], labels, scores_of(artifact))
    check_labels(labels, data.scores)
    runs = _runs(artifact, targets, on)
    reference = artifact.reference(samples, partial(progress, "reference", total=len(samples)), sequence=sequence)
    compared = None if floats is None else _Compared(artifact, floats, sequence)
    if compared is not None:
        compared.add(samples, progress)
    made = [artifact.real(sample) for sample in reference.expected]
    places = [
        PlaceResult("reference", "exact integers", fidelity=None if compared is None else compared.fidelity(made))
    ]
    for run in runs:
        progress(run.name, 0, len(samples))
        places.append(_place(run, samples, reference, compared, sequence, progress, limits))
    layers: list[LayerResult] = []
    if per_layer:
        faulted = {place.name for place in places if place.fault is not None or place.lost is not None}
        traced = [run for run in runs if run.on != EXECUTORCH and not is_probe(run.on) and run.name not in faulted]
        length = sequence or len(samples)
        looked = [number for number in range(len(samples)) if not artifact.report.state or number % length == 0]
        pairs = {number: (samples[number], reference.feeds[number]) for number in looked}
        layers = _layers(artifact, pairs, traced, compared, progress)
    wanted = None if compared is None else compared.outputs
    return Validation(len(samples), tuple(places), tuple(layers), score(artifact, data, made, wanted))


def _runs(artifact: Artifact, targets: Sequence[CortexMTargetConfig], on: str | None) -> list[_Run]:
    runs = [_Run(HOST, "C with portable kernels", artifact, HOST)]
    for target in _single(targets or [artifact.info.target]):
        built = artifact.for_target(target)
        runs.append(_Run(target.machine.value, f"C for {target.target_string}", built, None))
    if on is not None:
        what = "C as WebAssembly" if on == WASM else "C on the chip"
        runs.append(_Run(on.partition("?")[0], what, artifact, on))
    if artifact.report.pte is not None:
        runs.append(_Run(EXECUTORCH, f"{artifact.report.prefix}.pte", artifact, EXECUTORCH))
    names = [run.name for run in runs]
    return [
        run if names.count(run.name) == 1 else _Run(f"{run.name} ({run.what})", run.what, run.artifact, run.on)
        for run in runs
    ]


def _single(targets: Sequence[CortexMTargetConfig]) -> list[CortexMTargetConfig]:
    """Expands `cortex-m` to one core of each kind."""
    groups = [ONE_OF_EACH if target.cpu is CortexM.ANY else (target,) for target in targets]
    return list(dict.fromkeys(target for group in groups for target in group))


def _place(
    run: _Run,
    samples: Sequence[Sample],
    reference: Reference,
    compared: "_Compared | None",
    sequence: int | None,
    progress: Progress,
    limits: RunLimits,
) -> PlaceResult:
    """Runs one place. A fault of the firmware is a finding like any other."""
    try:
        if run.on == EXECUTORCH:
            checked = run.artifact.run_on_executorch(samples, reference, sequence=sequence, limits=limits)
        else:
            counted = partial(progress, run.name, total=len(samples))
            made = run.artifact.execute(reference.feeds, run.on, sequence=sequence, progress=counted, limits=limits)
            checked = run.artifact.checked(made, reference.expected)
    except BoardFaultError as fault:
        return PlaceResult(run.name, run.what, fault=str(fault), exact=0)
    except Interrupted as lost:
        pairs = zip(lost.made, reference.expected, strict=False)
        exact = sum(all(map(np.array_equal, made, wanted)) for made, wanted in pairs)
        return PlaceResult(run.name, run.what, exact=exact, ran=len(lost.made), lost=str(lost))
    return PlaceResult(
        name=run.name,
        what=run.what,
        exact=checked.exact_samples,
        fidelity=None if compared is None else compared.fidelity(checked.values),
        instructions=checked.result.instructions,
        close=checked.right and not checked.bit_exact,
    )


def _layers(
    artifact: Artifact,
    samples: Mapping[int, tuple[Sample, Sample]],  # by number, with the bundle's inputs
    runs: Sequence[_Run],
    compared: "_Compared | None",
    progress: Progress,
) -> list[LayerResult]:
    """Compares every kernel's output in network order, one sample at a time, since traces may be large."""
    steps = artifact.report.layers
    differing = {step.name: dict.fromkeys((run.name for run in runs), 0) for step in steps}
    for done, (number, (sample, feed)) in enumerate(samples.items()):
        progress("layers", done, len(samples))
        values = {name: value.numpy() for name, value in artifact.values(sample).items()}
        if compared is not None:
            compared.add_layers(number, values)
        for run in runs:
            for name, made in run.artifact.trace(feed, run.on).items():
                layer = artifact.graph.by_name[name].name if name in artifact.graph.by_name else name
                differing[layer][run.name] += made.differing(values[name])
    sqnr = {} if compared is None else compared.layers()
    return [
        LayerResult(step.name, step.operator, step.module, sqnr.get(step.name), differing[step.name]) for step in steps
    ]


# ---- beside the float model ---------------------------------------------------------------------------------------


@dataclass
class _Compared:
    """The float model's values, and the deviations of others from them."""

    artifact: Artifact
    floats: FloatModel
    sequence: int | None = None
    inputs: list[list[Tensor]] = field(default_factory=list)
    outputs: list[list[ArrayType]] = field(default_factory=list)
    errors: dict[str, dict[tuple[int, ...], Error]] = field(default_factory=dict)  # by layer and order of dimensions

    def add(self, samples: Sequence[Sample], progress: Progress) -> None:
        self.inputs += [float_inputs(self.artifact, sample) for sample in samples]
        self.outputs += float_outputs(self.artifact, self.floats, self.inputs, progress, self.sequence)

    def fidelity(self, outputs: Sequence[Sample]) -> Fidelity:
        error, agreement = Error(), Agreement()
        same: list[bool] = []
        for wanted, found in zip(self.outputs, outputs, strict=True):
            best = True
            for a, b in zip(wanted, found[: self.artifact.report.own_outputs], strict=True):
                (error if a.dtype.kind == "f" else agreement).add(a, b)
                best = best and bool((_classes(a) == _classes(b)).all())
            same.append(best)
        classes = any(_classes(output).size for output in self.outputs[0])
        return Fidelity(error.decibels, sum(same) if classes else None, agreement.part)

    def add_layers(self, number: int, values: Mapping[str, ArrayType]) -> None:
        twins = self.floats.twins(self.inputs[number])
        for call in self.artifact.graph.calls:
            real = _real(self.artifact.graph, call.name, values[call.name])
            if real is not None and call.twin in twins:
                twin = twins[call.twin].numpy()
                orders = self.errors.setdefault(call.name, {order: Error() for order in _orders(twin, real)})
                for order, error in orders.items():
                    error.add(twin.transpose(order).reshape(real.shape), real)

    def layers(self) -> dict[str, float | None]:
        """Returns the SQNR of each layer; if several orders of its dimensions give its shape, the one with the least
        noise is taken."""
        found = {name: orders.values() for name, orders in self.errors.items() if orders}
        best = {name: min(errors, key=lambda error: error.noise) for name, errors in found.items()}
        return {name: error.decibels for name, error in best.items()}


def _classes(output: ArrayType) -> ArrayType:
    """Returns the best class of each row of a classifier's output; empty for any other output."""
    scores = output.ndim == 2 and output.shape[1] > 1 and output.dtype.kind == "f"
    return output.argmax(axis=1) if scores else np.empty(0, dtype=np.int64)


def _real(graph: LoweredGraph, name: str, value: ArrayType) -> ArrayType | None:
    """Dequantizes a value; None if it is not quantized."""
    qparams = graph.values[name].qparams
    if value.dtype.kind == "f":
        return value
    return None if qparams is None else (value.astype(np.float64) - qparams.zero_point) * qparams.scale


def _orders(twin: ArrayType, real: ArrayType) -> Iterator[tuple[int, ...]]:
    """Yields the permutations of the twin's dimensions that give the other's shape, if neighbours may be merged."""
    long = [dim for dim, size in enumerate(twin.shape) if size > 1]
    short = [dim for dim, size in enumerate(twin.shape) if size == 1]
    wanted = [size for size in real.shape if size > 1]
    for order in permutations(long):
        if _merges([twin.shape[dim] for dim in order], wanted):
            yield (*short, *order)


def _merges(sizes: list[int], wanted: list[int]) -> bool:
    """Returns whether products of neighbours in `sizes` give `wanted`."""
    rest = list(sizes)
    for size in wanted:
        product = 1
        while product < size and rest:
            product *= rest.pop(0)
        if product != size:
            return False
    return not rest
