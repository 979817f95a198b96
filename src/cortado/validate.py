"""A compiled model everywhere it runs: float model, integer reference, C on this machine, boards, ExecuTorch."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
import torch

from cortado.artifact.opened import Artifact, Checked
from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError
from cortado.base.target import ONE_OF_EACH, CortexM, CortexMTargetConfig
from cortado.frontend.export import FloatModel
from cortado.ir.graph import TO_NCHW
from cortado.options import InputLayout
from cortado.plan.lowered import LoweredGraph
from cortado.run.qemu import BoardFaultError
from cortado.run.runner import EXECUTORCH, HOST

Tensor = torch.Tensor
Sample = Sequence[ArrayType]


# ---- the result ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fidelity:
    """How far outputs are from the float model's: decibels (inf: equal), and samples with the same best class."""

    sqnr: float | None
    same_top1: int | None  # None where no output has classes


@dataclass(frozen=True)
class Place:
    """One place where the network ran; `exact` counts the samples with just the reference's bits."""

    name: str
    what: str
    exact: int | None = None  # None: the reference itself
    fidelity: Fidelity | None = None  # None without a float model
    instructions: int | None = None
    fault: str | None = None
    close: bool = False  # not bit-exact, but as close as two float libraries are: a .pte with float operators


@dataclass(frozen=True)
class Layer:
    """One kernel of the network; `differing` counts, for each place, its output values that are not the reference's."""

    name: str
    operator: str
    module: str
    sqnr: float | None  # of the reference to the float model; None without one, or where that has no such value
    differing: Mapping[str, int]


@dataclass(frozen=True)
class Validation:
    """What `validate` found. `layers` is empty unless they were asked for."""

    samples: int
    places: tuple[Place, ...]
    layers: tuple[Layer, ...]

    def first_difference(self, place: Place) -> Layer | None:
        """The layer at fault: everything before it, so all it reads, is right."""
        return next((layer for layer in self.layers if layer.differing.get(place.name)), None)

    def problems(self) -> list[str]:
        """A sentence for each place that is not bit-exact."""
        return [text for place in self.places if (text := self._problem(place)) is not None]

    def _problem(self, place: Place) -> str | None:
        if place.fault is not None:
            return f"{place.name}: {place.fault}"
        wrong = 0 if place.exact is None or place.close else self.samples - place.exact
        first = self.first_difference(place)
        if not wrong and first is None:
            return None
        text = f"{place.name} differs from the reference in the outputs of {wrong} of {self.samples} samples"
        if first is not None:
            where = f" in module '{first.module}'" if first.module else ""
            return f"{text}; the first layer that differs is {first.name} ({first.operator}){where}"
        traced = any(place.name in layer.differing for layer in self.layers)
        return f"{text}; every layer gave the reference's bits, something overwrote them later" if traced else text


# ---- validating ---------------------------------------------------------------------------------------------------


def float_model(artifact: Artifact, model: torch.nn.Module, example_inputs: Sequence[Tensor]) -> FloatModel:
    """The float model behind an artifact; one with other inputs is refused."""
    found = [list(value.shape) for value in example_inputs]
    wanted = [list(_model_order(artifact, np.empty(t.model_shape)).shape) for t in artifact.report.inputs]
    if found != wanted:
        raise CortadoError(f"the float model takes inputs of shapes {found}, the one in {artifact.folder} {wanted}")
    return FloatModel(model, example_inputs)


def _model_order(artifact: Artifact, value: ArrayType) -> ArrayType:
    """An input as the float model takes it: the compiled one may take its images channels last."""
    nhwc = artifact.report.options.input_layout is InputLayout.NHWC
    return value.transpose(TO_NCHW) if nhwc and value.ndim == 4 else value


@dataclass(frozen=True)
class _Run:
    """A place to run in: the artifact built for one core, and where."""

    name: str
    what: str
    artifact: Artifact
    on: str | None


def validate(
    artifact: Artifact,
    samples: Sequence[Sample],
    *,
    targets: Sequence[CortexMTargetConfig] = (),
    floats: FloatModel | None = None,
    per_layer: bool = False,
    progress: Callable[[str], None] = lambda phase: None,
) -> Validation:
    """Runs the samples everywhere; `targets` choose the boards (none: the artifact's own)."""
    artifact.check_bundle()
    runs = _runs(artifact, targets)
    progress("reference")
    feeds, expected = artifact.reference(samples)
    compared = None if floats is None else _Compared(artifact, floats)
    if compared is not None:
        progress("float model")
        compared.add(samples)
    places = [_reference(artifact, compared, expected)]
    for run in runs:
        progress(run.name)
        places.append(_place(run, samples, feeds, expected, compared))
    layers: list[Layer] = []
    if per_layer:
        faulted = {place.name for place in places if place.fault is not None}
        traced = [run for run in runs if run.on != EXECUTORCH and run.name not in faulted]
        layers = _layers(artifact, samples, feeds, traced, compared, progress)
    return Validation(len(samples), tuple(places), tuple(layers))


def _runs(artifact: Artifact, targets: Sequence[CortexMTargetConfig]) -> list[_Run]:
    runs = [_Run(HOST, "C with portable kernels", artifact, HOST)]
    for target in _single(targets or [artifact.info.target]):
        built = artifact.for_target(target)
        runs.append(_Run(target.machine.value, f"C for {target.target_string}", built, None))
    if artifact.report.pte is not None:
        runs.append(_Run(EXECUTORCH, f"{artifact.report.prefix}.pte", artifact, EXECUTORCH))
    names = [run.name for run in runs]
    return [
        run if names.count(run.name) == 1 else _Run(f"{run.name} ({run.what})", run.what, run.artifact, run.on)
        for run in runs
    ]


def _single(targets: Sequence[CortexMTargetConfig]) -> list[CortexMTargetConfig]:
    """`cortex-m` stands for one core of each kind."""
    groups = [ONE_OF_EACH if target.cpu is CortexM.ANY else (target,) for target in targets]
    return list(dict.fromkeys(target for group in groups for target in group))


def _reference(artifact: Artifact, compared: "_Compared | None", expected: Sequence[Sample]) -> Place:
    outputs = [artifact.real(sample) for sample in expected]
    return Place("reference", "exact integers", fidelity=None if compared is None else compared.fidelity(outputs))


def _place(
    run: _Run,
    samples: Sequence[Sample],
    feeds: Sequence[Sample],
    expected: Sequence[Sample],
    compared: "_Compared | None",
) -> Place:
    """One place. A fault of the firmware is a finding like any other."""
    try:
        if run.on == EXECUTORCH:
            checked = run.artifact.run(samples, run.on)
        else:
            checked = Checked(run.artifact.execute(feeds, run.on), [list(sample) for sample in expected])
    except BoardFaultError as fault:
        return Place(run.name, run.what, fault=str(fault), exact=0)
    found = checked.result.samples
    outputs = found if checked.real else [run.artifact.real(sample) for sample in found]
    return Place(
        name=run.name,
        what=run.what,
        exact=checked.exact_samples,
        fidelity=None if compared is None else compared.fidelity(outputs),
        instructions=checked.result.instructions,
        close=checked.right and not checked.bit_exact,
    )


def _layers(
    artifact: Artifact,
    samples: Sequence[Sample],
    feeds: Sequence[Sample],
    runs: Sequence[_Run],
    compared: "_Compared | None",
    progress: Callable[[str], None],
) -> list[Layer]:
    """Every kernel's output, in the order of the network; one sample after the other, for they may be large."""
    steps = artifact.report.layers
    differing = {step.name: dict.fromkeys((run.name for run in runs), 0) for step in steps}
    for number, (sample, feed) in enumerate(zip(samples, feeds, strict=True)):
        progress(f"layers of sample {number + 1} of {len(samples)}")
        values = {name: value.numpy() for name, value in artifact.values(sample).items()}
        if compared is not None:
            compared.add_layers(number, values)
        for run in runs:
            for name, made in run.artifact.trace(feed, run.on).items():
                differing[name][run.name] += _count_differing(made, values[name])
    sqnr = {} if compared is None else compared.layers()
    return [Layer(step.name, step.operator, step.module, sqnr.get(step.name), differing[step.name]) for step in steps]


def _count_differing(made: bytes, value: ArrayType) -> int:
    """Rows that nothing reads are never made: of each image, only the first ones are there."""
    images = 1 if len(made) == value.nbytes else value.shape[0]
    found = np.frombuffer(made, dtype=value.dtype).reshape(images, -1)
    wanted = value.reshape(images, -1)
    return int((found != wanted[:, : found.shape[1]]).sum())


# ---- beside the float model ---------------------------------------------------------------------------------------


@dataclass
class _Ratio:
    """Signal and noise, summed up over samples."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, wanted: ArrayType, found: ArrayType) -> None:
        exact = wanted.astype(np.float64)
        self.signal += float((exact**2).sum())
        self.noise += float(((exact - found.astype(np.float64)) ** 2).sum())

    @property
    def decibels(self) -> float | None:
        if not self.signal:
            return None
        return 10 * math.log10(self.signal / self.noise) if self.noise else math.inf


@dataclass
class _Compared:
    """The float model's values, and how far others are from them."""

    artifact: Artifact
    floats: FloatModel
    inputs: list[list[Tensor]] = field(default_factory=list)
    outputs: list[list[ArrayType]] = field(default_factory=list)
    ratios: dict[str, dict[tuple[int, ...], _Ratio]] = field(default_factory=dict)  # by layer and order of dimensions

    def add(self, samples: Sequence[Sample]) -> None:
        for sample in samples:
            self.inputs.append([self._input(position, value) for position, value in enumerate(sample)])
            self.outputs.append([output.numpy() for output in self.floats.outputs(self.inputs[-1])])
        found = [list(output.shape) for output in self.outputs[0]]
        wanted = [list(tensor.model_shape) for tensor in self.artifact.report.outputs]
        if found != wanted:
            raise CortadoError(
                f"the float model gives outputs of shapes {found}, the one in {self.artifact.folder} {wanted}"
            )

    def _input(self, position: int, value: ArrayType) -> Tensor:
        real = self.artifact.as_float(position, value)
        return torch.from_numpy(np.asarray(_model_order(self.artifact, real), order="C"))

    def fidelity(self, outputs: Sequence[Sample]) -> Fidelity:
        ratio = _Ratio()
        same: list[bool] = []
        for wanted, found in zip(self.outputs, outputs, strict=True):
            best = True
            for a, b in zip(wanted, found, strict=True):
                ratio.add(a, b)
                best = best and bool((_classes(a) == _classes(b)).all())
            same.append(best)
        classes = any(_classes(output).size for output in self.outputs[0])
        return Fidelity(ratio.decibels, sum(same) if classes else None)

    def add_layers(self, number: int, values: Mapping[str, ArrayType]) -> None:
        twins = self.floats.twins(self.inputs[number])
        for call in self.artifact.graph.calls:
            real = _real(self.artifact.graph, call.name, values[call.name])
            if real is not None and call.twin in twins:
                twin = twins[call.twin].numpy()
                orders = self.ratios.setdefault(call.name, {order: _Ratio() for order in _orders(twin, real)})
                for order, ratio in orders.items():
                    ratio.add(twin.transpose(order).reshape(real.shape), real)

    def layers(self) -> dict[str, float | None]:
        """Where two orders of a layer's dimensions give its shape, the one it lies in is the one that fits."""
        best = {name: min(orders.values(), key=lambda r: r.noise) for name, orders in self.ratios.items() if orders}
        return {name: ratio.decibels for name, ratio in best.items()}


def _classes(output: ArrayType) -> ArrayType:
    """The best class of each row of a classifier's output; nothing for any other output."""
    scores = output.ndim == 2 and output.shape[1] > 1
    return output.argmax(axis=1) if scores else np.empty(0, dtype=np.int64)


def _real(graph: LoweredGraph, name: str, value: ArrayType) -> ArrayType | None:
    """The numbers that a value's codes stand for."""
    qparams = graph.values[name].qparams
    if value.dtype.kind == "f":
        return value
    return None if qparams is None else (value.astype(np.float64) - qparams.zero_point) * qparams.scale


def _orders(twin: ArrayType, real: ArrayType) -> Iterator[tuple[int, ...]]:
    """The orders of the twin's dimensions in which it has the other's shape, neighbours taken together."""
    long = [dim for dim, size in enumerate(twin.shape) if size > 1]
    short = [dim for dim, size in enumerate(twin.shape) if size == 1]
    wanted = [size for size in real.shape if size > 1]
    for order in permutations(long):
        if _merges([twin.shape[dim] for dim in order], wanted):
            yield (*short, *order)


def _merges(sizes: list[int], wanted: list[int]) -> bool:
    """Whether products of neighbours in `sizes` give `wanted`."""
    rest = list(sizes)
    for size in wanted:
        product = 1
        while product < size and rest:
            product *= rest.pop(0)
        if product != size:
            return False
    return not rest
