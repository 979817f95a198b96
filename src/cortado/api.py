"""cortado.compile(model, example_inputs, target=..., calibration=...) -> Compiled: save, run, report."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from cortado.artifact.budget import check_flash, check_ram, in_regions
from cortado.artifact.build_report import InC, build_report
from cortado.artifact.narrowed import WeightsRequest, bundle_info, narrow_weights
from cortado.artifact.report import PteFormReport, WeightsReport
from cortado.base.errors import CortadoError, CortadoWarning, MissingTool, NotInteger, Refused
from cortado.base.findings import Finding, FindingKind
from cortado.base.names import check_name, is_of_floats
from cortado.base.progress import IMPORT_EXECUTORCH, Clock, PhaseProgress, with_counts
from cortado.base.target import ANY, ONE_OF_EACH, Core, CortexM, CortexMTargetConfig, from_target_string
from cortado.base.versions import newer_than_tested
from cortado.compiled import Compiled as Compiled
from cortado.compiled import evaluate as evaluate
from cortado.emit.c.bundle import emit_c, with_selftest_stack, with_stack
from cortado.emit.c.layers import check_limits
from cortado.emit.c.selftest import selftest_files
from cortado.emit.image.layout import check_one_core
from cortado.emit.image.writer import emit_image
from cortado.emit.pte.edge import import_executorch
from cortado.emit.pte.program import Pte, emit_pte
from cortado.frontend.capture.export import Captured, capture
from cortado.frontend.capture.inputs import Inputs, check_batches, check_example, checked_labels
from cortado.frontend.capture.numbers import with_numbers, without_numbers
from cortado.frontend.capture.torch_settings import few_collections, one_thread
from cortado.frontend.capture.watched import WIDE, watched
from cortado.frontend.precision.islands import islands_hint, with_islands
from cortado.frontend.precision.judgement import FloatRun, Measure
from cortado.frontend.precision.parts import OutputPart
from cortado.frontend.precision.search import OutOfReach
from cortado.frontend.quantize.convert import PrecisionGiven, Quantized, as_float, keep, quantize, train
from cortado.frontend.quantize.prequantized import is_quantized
from cortado.frontend.quantize.qat import QatModel
from cortado.frontend.quantize.sharing import SharedRanges
from cortado.frontend.quantize.ties import ties_finding
from cortado.frontend.rewrite.decompose import write_in_pieces
from cortado.frontend.rewrite.unpadded import longer_windows, without_padding
from cortado.ir.graph import copied, source_line
from cortado.ir.patched import alone, forgotten, late_code
from cortado.lowering import Graphs, Programs, programs_of, without_executorch
from cortado.models.sources import read_labelled
from cortado.options import (
    DEFAULTS,
    OF_CALIBRATION,
    Activations,
    Artifacts,
    Options,
    PackageKind,
    Precision,
    PteKind,
    StreamPadding,
    Weights,
)
from cortado.passes import PIPELINE, TRIED
from cortado.passes.dead_channels import removed_channels
from cortado.plan.lowered import LoweredGraph, lowered_graph
from cortado.plan.pricing import Pricing
from cortado.plan.pricing import as_read as as_read
from cortado.plan.program import Program
from cortado.plan.request import Asked, check_decision
from cortado.plan.schedule import Schedules, schedule
from cortado.run import measure
from cortado.run.doctor import require
from cortado.run.toolchain import Tool
from cortado.scoring.accuracy import AccuracyFindings, check_outputs
from cortado.scoring.blame import advice
from cortado.scoring.trials import tried_findings

Tensor = torch.Tensor
# An input of the model, or several of them; a number and None are constants of the compiled one.
Given = Tensor | float | tuple[Any, ...] | list[Any] | dict[str, Any] | None


@dataclass(frozen=True, repr=False)
class Model:
    """A model that was captured and quantized once, to be compiled for any number of targets."""

    name: str
    quantized: Quantized
    labels: tuple[str, ...] | None
    seconds: Mapping[str, float]
    progress: PhaseProgress
    delay: int | None = None  # in rows, if padding in time was dropped
    int8_form: Callable[[], Quantized] | None = None  # for a .pte that can't hold this model
    whole_form: Callable[[], Quantized] | None = None  # without islands of float32, for ExecuTorch's float kernels

    def __repr__(self) -> str:
        shapes = ", ".join(str(list(value.shape)) for value in self.quantized.example_inputs)
        return f"<Model {self.name}: quantized, inputs {shapes}; compile(target) is next>"

    @one_thread()
    @few_collections()
    def compile(
        self, target: str | CortexMTargetConfig, options: Options = DEFAULTS, intermediates: Path | None = None
    ) -> Compiled:
        """Compiles the model for one target. With `intermediates`, writes the graph after each pass to that folder."""
        target = _checked(target, options)
        clock = self._clock(target, options)
        with clock.phase("lower"), late_code():
            form = self.int8_form if _may_have_form(options) else None
            programs = programs_of(
                self.quantized, target, options, intermediates, int8_form=form, whole_form=self.whole_form
            )
            programs, weights = self._narrowed(programs, target, options, intermediates)
            graphs = Graphs.of(programs)
        runs = self._runs(options)
        with clock.phase("check"):
            kept = check_outputs(graphs.reported, runs, self.quantized.parts, self._blamed, self._classes)
            programs, pte_form = self._checked_form(programs, graphs, runs, kept)
        c = None if graphs.c is None else self._in_c(graphs.c, target, options, clock)
        pte = None if programs.pte is None else self._in_pte(programs.pte, target, options, clock)
        if c is not None and options.pte is PteKind.DELEGATE:
            pte = self._as_delegate(c, target, clock)
        if c is not None and options.selftest:
            c = _with_selftest(c, kept.first)
        report = build_report(
            name=self.name,
            target=target,
            graph=graphs.reported,
            c=c,
            pte=pte,
            seconds=clock.seconds,
            labels=self.labels,
            options=self._used(options),
            pte_missing=programs.pte_missing,
            pte_form=pte_form,
            bundle_missing=programs.bundle_missing,
            float_operators=graphs.float_operators,
            findings=(*self._tried, *kept.findings, *self._of_target(c, pte, target, programs.own_form)),
            first=kept.first,
            removed=removed_channels(programs.c or programs.pte),  # type: ignore[arg-type]
            delay=self.delay or 0,
            weights=weights,
            quantized=self.quantized,
        )
        _tell(self.name, report.warnings, options.strict)
        recorded = {tensor.node for tensor in (*report.inputs, *report.outputs)}
        return Compiled(
            name=self.name,
            target=target,
            graph=graphs.c,
            planned=None if c is None else c.planned,
            bundle=None if c is None else c.bundle,
            image=None if c is None else c.image,
            pte=pte,
            pte_graph=graphs.pte if pte is not None else graphs.c,
            example=runs[0].inputs,
            nones=self.quantized.nones,
            first={node: value for node, value in kept.first.items() if node in recorded},
            options=options,
            report=report,
        )

    def _clock(self, target: CortexMTargetConfig, options: Options) -> Clock:
        """Returns the clock of a compile; imports what float operators of a .pte need first, as a phase of its own."""
        clock = Clock(dict(self.seconds), self.progress)
        if options.allow_float and options.artifacts is not Artifacts.C:
            with clock.phase(IMPORT_EXECUTORCH):
                import_executorch(target)
        return clock

    def _narrowed(
        self, programs: Programs, target: CortexMTargetConfig, options: Options, intermediates: Path | None
    ) -> tuple[Programs, tuple[WeightsReport, ...]]:
        """Applies int4 weights to the lowered model, if asked for."""
        if programs.c is None or not options.narrows_weights:
            return programs, ()
        corrected = self.quantized.how.bias_correction
        request = WeightsRequest(self._asked(target, options), self._runs(options), correct=corrected)
        found = narrow_weights(programs.c, request, intermediates)
        if programs.pte is None or programs.pte is programs.c:
            return programs, found
        return replace(programs, pte=None, pte_missing=("of a stream int4 weights are in the C bundle only",)), found

    @property
    def _classes(self) -> int | None:
        return None if self.labels is None else len(self.labels)

    @cached_property
    def _tried(self) -> list[Finding]:
        """Findings of calibration, each with the measured effect of its advice: the same for every target."""
        return tried_findings(self.quantized)

    def _blamed(self, part: OutputPart, measure: Measure) -> str:
        """Names the tensors to which a part of an output loses most, and what would help."""
        return advice(self.quantized.converted, self.quantized.checked, part, measure)

    def _checked_form(
        self, programs: Programs, graphs: Graphs, runs: Sequence[FloatRun], kept: AccuracyFindings
    ) -> tuple[Programs, PteFormReport | None]:
        """Drops a .pte whose own form has findings that the C bundle doesn't have."""
        if not programs.own_form or graphs.pte is None or programs.c is None:
            return programs, None
        other = check_outputs(graphs.pte, runs, self.quantized.parts, classes=self._classes)
        if len(other.findings) > len(kept.findings):
            reasons = [f"in ExecuTorch's int8 operators {finding.text}" for finding in other.findings]
            hint = "--state int8 writes it all the same, --pte delegate the C bundle's network"
            return replace(programs, pte=None, pte_missing=(*reasons, hint), own_form=False), None
        return programs, PteFormReport(pte_sqnr_db=_finite(other.kept), c_sqnr_db=_finite(kept.kept))

    def _of_target(self, c: InC | None, pte: Pte | None, target: CortexMTargetConfig, own_form: bool) -> list[Finding]:
        """Returns findings specific to this target."""
        return [*self._ties(pte, target, own_form), *_soft_floats(c, target)]

    def _ties(self, pte: Pte | None, target: CortexMTargetConfig, own_form: bool) -> list[Finding]:
        """Returns inputs that ExecuTorch's own operator quantizes differently on one of the target's cores."""
        may_differ = pte is not None and Core.MVE in target.cores and not pte.is_delegate
        quantized = self.int8_form() if own_form and self.int8_form is not None else self.quantized
        return [ties_finding(tied) for tied in quantized.tied] if may_differ else []

    def _used(self, options: Options) -> Options:
        """Returns the options with those of calibration replaced by the ones that the model was calibrated with."""
        how = self.quantized.how
        dropped = StreamPadding.KEEP if self.delay is None else StreamPadding.DROP
        kept = {name: getattr(how, name) for name in OF_CALIBRATION}
        return replace(options, **kept, stream_padding=dropped)

    def _runs(self, options: Options) -> tuple[FloatRun, ...]:
        """Returns calibration inputs as the compiled model reads them, with the float model's outputs."""
        return tuple(replace(run, inputs=as_read(run.inputs, options)) for run in self.quantized.checked)

    def try_out(self, target: CortexMTargetConfig, options: Options) -> None:
        """Refuses a model that can't be compiled whatever its scales, as soon as it has any. Errors that depend on
        scales are raised when the model is compiled."""
        fed = options.input_rows or options.stream is not None  # remaining transposes decide how inputs can be fed
        try:
            with late_code():
                programs = programs_of(self.quantized, target, options, None, PIPELINE if fed else TRIED)
                graph = None if programs.c is None else lowered_graph(programs.c)
        except Refused:
            raise
        except Exception:  # can be due to scales from a single sample
            return
        if graph is not None:
            check_decision(self._program(graph, self._asked(target, options)), options.decide, self.labels)

    def _program(self, graph: LoweredGraph, asked: Asked) -> Program:
        """Builds the program of a C bundle, without a decision, and checks that its tables can hold it."""
        lines = self._lines(graph)
        program = asked.undecided(graph, lines)
        check_limits(program, lines)
        return program

    def _asked(self, target: CortexMTargetConfig, options: Options) -> Asked:
        return Asked(self.name, target, options, self.labels)

    def _lines(self, graph: LoweredGraph) -> dict[str, str]:
        """Returns the line in the user's file that each call comes from, if known."""
        lines = {node.name: source_line(node) for node in self.quantized.converted.graph.nodes}
        return {call.name: line for call in graph.calls if (line := lines.get(call.twin)) is not None}

    def _in_pte(self, program: ExportedProgram, target: CortexMTargetConfig, options: Options, clock: Clock) -> Pte:
        with clock.phase(IMPORT_EXECUTORCH):
            import_executorch(target)
        with clock.phase("emit pte"), late_code():
            return emit_pte(program, target, {"model": self.name}, etrecord=options.etrecord)

    def _as_delegate(self, c: InC, target: CortexMTargetConfig, clock: Clock) -> Pte:
        assert c.image is not None
        with clock.phase(IMPORT_EXECUTORCH):
            import_executorch(target)
            from cortado.emit.pte.delegate import emit_delegate
        with clock.phase("emit pte"), late_code():
            return emit_delegate(c.planned, c.image, {"model": self.name})

    def _single_targets(
        self, graph: LoweredGraph, target: CortexMTargetConfig, options: Options
    ) -> dict[str, int] | None:
        """Returns the arena of each kind of core, for an artifact for any core. None for a single target."""
        if target.cpu is not CortexM.ANY:
            return None
        asked = [self._asked(one, options) for one in ONE_OF_EACH]
        peaks = [schedule(one.decided(one.undecided(graph)), options.optimize).plan.peak for one in asked]
        return {one.target_string: peak for one, peak in zip(ONE_OF_EACH, peaks, strict=True)}

    def _in_c(self, graph: LoweredGraph, target: CortexMTargetConfig, options: Options, clock: Clock) -> InC:
        with clock.phase("plan"):
            asked = self._asked(target, options)
            schedules = Schedules(asked.decided(self._program(graph, asked)))
            planned = schedules.best(options.optimize)
            single = self._single_targets(graph, target, options)
        with clock.phase("plan alternatives"):
            others = schedules.alternatives()
        check_ram(planned, others, options)
        with clock.phase("plan"):
            planned = in_regions(schedules, planned, options)
        with clock.phase("emit C"):
            bundle = emit_c(planned, options.place, selftest=options.selftest, version=options.model_version)
        with clock.phase("measure code"):
            needed = measure.measured(bundle.files, [bundle], [bundle_info(planned)])
            bundle = with_stack(bundle, planned, needed.stack_bytes)
        check_flash(self.name, bundle.weights_bytes - sum(bundle.section_bytes.values()), needed.code_bytes, options)
        image = emit_image(planned) if options.image or options.pte is PteKind.DELEGATE else None
        return InC(planned, bundle, needed, single, others, image)


def _finite(kept: Sequence[float | None]) -> tuple[float | None, ...]:
    return tuple(None if one is None or not math.isfinite(one) else round(one, 2) for one in kept)


def _may_have_form(options: Options) -> bool:
    """Whether a .pte of operators is asked for without options that fix its numbers: int16 or float given by name are
    kept as given."""
    given = (options.allow_float, options.int16, options.precision is Precision.AUTO)
    elements = options.activations is Activations.INT8 and options.weights is Weights.INT8
    asked = options.artifacts is not Artifacts.C and options.pte is PteKind.OPERATORS
    return asked and elements and not any(given) and without_executorch() is None


def _soft_floats(c: InC | None, target: CortexMTargetConfig) -> list[Finding]:
    """Returns a finding about layers that compute in float32 on a core without float instructions."""
    steps = () if c is None else c.planned.program.steps
    count = sum(is_of_floats(step.operator) for step in steps)
    if target.fpu or not count:
        return []
    text = (
        f"{count} of {len(steps)} layers compute in float32, and {target.target_string} has no float unit, or stands "
        "for cores without one: a product and its sum take about 250 cycles on a Cortex-M0+, 10 on a Cortex-M4. Where "
        "that is too slow, --activations int16 keeps 16 bits in integers, and --float32 names modules that need more"
    )
    return [Finding(kind=FindingKind.SOFT_FLOAT, text=text, found=count / len(steps), limit=0.0)]


def _with_selftest(c: InC, values: Mapping[str, Tensor]) -> InC:
    """Adds the self-test, which compares with the reference's values for the example."""
    known = {name: value.numpy() for name, value in values.items() if isinstance(value, Tensor)}
    files = {**c.bundle.files, **selftest_files(c.planned, known, c.bundle.build)}
    bundle = replace(c.bundle, files=files)
    stack = measure.selftest_stack_bytes(bundle, bundle_info(c.planned))
    needed = replace(c.needed, selftest_stack_bytes=stack)
    return replace(c, bundle=with_selftest_stack(bundle, c.planned, stack), needed=needed)


def _tell(name: str, findings: Sequence[Finding], strict: bool) -> None:
    if findings and strict:
        lines = "\n  ".join(finding.text for finding in findings)
        raise CortadoError(
            f"{name}: {len(findings)} warning{'s' if len(findings) > 1 else ''}, none expected with --strict "
            f"(strict=True in Options):\n  {lines}"
        )
    for finding in findings:
        warnings.warn(f"{name}: {finding.text}", CortadoWarning, stacklevel=3)


@one_thread()
@few_collections()
@forgotten()
def prepare(
    model: torch.nn.Module | ExportedProgram,
    example_inputs: Sequence[Given],
    calibration: Tensor | Sequence[Tensor | Sequence[Given]] = (),
    name: str | None = None,
    *,
    labels: Sequence[str] | None = None,
    progress: PhaseProgress = lambda phase: None,
    options: Options = DEFAULTS,
    target: str | CortexMTargetConfig | None = None,
    intermediates: Path | None = None,
) -> Model:
    """Captures and quantizes a model: everything that doesn't depend on the target. Only the options of calibration and
    of a stream's padding are used here. If the later `target` and options are given, errors that don't depend on scales
    are raised before all calibration data are run. A model that PT2E has quantized keeps its scales, and needs no
    calibration data. With `intermediates`, its folder `float` gets the float graph after each pass."""
    return prepare_method(
        model,
        example_inputs,
        calibration,
        name,
        labels=labels,
        progress=progress,
        options=options,
        target=target,
        intermediates=intermediates,
    )


def prepare_method(
    model: torch.nn.Module | ExportedProgram,
    example_inputs: Sequence[Given],
    calibration: Tensor | Sequence[Tensor | Sequence[Given]] = (),
    name: str | None = None,
    *,
    labels: Sequence[str] | None = None,
    progress: PhaseProgress = lambda phase: None,
    options: Options = DEFAULTS,
    target: str | CortexMTargetConfig | None = None,
    intermediates: Path | None = None,
    ranges: SharedRanges | None = None,
) -> Model:
    """Prepares a model that shares the ranges of some tensors with others."""
    _check_kinds(example_inputs, name, options)
    _check_installed(options)
    clock = Clock(progress=progress)
    batches = without_numbers(calibration, example_inputs)
    module, tensors = with_numbers(model, example_inputs)
    inputs = check_example(tensors)
    chosen = check_name(name or type(model).__name__.lower())
    delay = None
    if options.stream is not None and options.stream_padding is StreamPadding.DROP:
        module, inputs, batches, delay = _unpadded(module, inputs, batches, options.stream)
    module, options = _with_surprise(module, batches, inputs, options)
    with clock.phase("export"):
        captured = capture(module, inputs)
        names = checked_labels(labels, captured.module)
    int8_form, whole_form, place = None, None, None if intermediates is None else intermediates / "float"
    with clock.phase("quantize"):
        if is_quantized(captured.module):
            _check_quantized(options)
            quantized = keep(captured, inputs, _needless(batches, inputs), options.sequence)
        elif not options.has_codes:
            quantized = as_float(captured, inputs, _needless(batches, inputs), options)
        else:
            given = check_batches(batches, inputs)
            asked = Asked(chosen, _config(target, options), options, names)
            tried = None if target is None or options.allow_float else partial(_try_out, asked)
            run = _quantizing(asked, inputs, given, progress, tried=tried, intermediates=place, ranges=ranges)
            try:
                quantized, whole_form = _with_islands(captured, asked, _for_pte_alone(options, captured), run)
            except OutOfReach as error:
                quantized = _in_float32(module, inputs, given, options, error)
            int8_form = cache(partial(_in_int8, module, inputs, given, options))
    return Model(
        name=chosen,
        quantized=quantized,
        labels=names,
        seconds=clock.seconds,
        progress=progress,
        delay=delay,
        int8_form=int8_form,
        whole_form=whole_form,
    )


def _quantizing(asked: Asked, inputs: Inputs, given: list[Inputs], progress: PhaseProgress, **more: Any) -> Any:
    """Returns the quantizer with all arguments but the model."""
    counted = partial(with_counts(progress), "quantize", total=len(given))
    return partial(
        quantize,
        example_inputs=inputs,
        batches=given,
        counted=counted,
        measured=_measured(asked, inputs),
        **more,
    )


def _unpadded(module: Any, inputs: Inputs, batches: Any, stream: int) -> tuple[Any, Inputs, list[Inputs], int]:
    """Returns the model without padding over time, its example and data with the rows that replace it, and the
    delay."""
    unpadded = without_padding(module, inputs, stream)
    longer = list(longer_windows(check_batches(batches, inputs), stream, unpadded.rows))
    return unpadded.model, next(longer_windows([inputs], stream, unpadded.rows)), longer, unpadded.delay


def _with_surprise(module: Any, batches: Any, inputs: Inputs, options: Options) -> tuple[Any, Options]:
    """Adds, with --watch, one int16 output to the module."""
    if options.watch is None:
        return module, options
    more = replace(options, int16=(*options.int16, WIDE))
    return watched(module, check_batches(batches, inputs), options.watch), more


def _needless(batches: Any, inputs: Inputs) -> list[Inputs]:
    """Checks the calibration data of a model that needs none."""
    return [] if isinstance(batches, Sized) and not len(batches) else check_batches(batches, inputs)


def _for_pte_alone(options: Options, captured: Captured) -> Options:
    """Returns the options for quantization; for a .pte of operators alone, rewrites the model in its form."""
    if options.artifacts is not Artifacts.PTE or options.pte is not PteKind.OPERATORS or options.allow_float:
        return options
    write_in_pieces(captured.module)
    return replace(options, state=Activations.INT8)


def _in_float32(
    module: torch.nn.Module | ExportedProgram,
    inputs: Inputs,
    batches: Sequence[Inputs],
    options: Options,
    error: OutOfReach,
) -> Quantized:
    """Returns a model in float32 if that reaches the bar of --precision auto which int16 does not; else raises the
    original error."""
    bars = {name: None for name in ("min_sqnr", "min_accuracy", "max_drop", "labelled")}
    kept = {"activations": Activations.FLOAT32, "weights": Weights.FLOAT32}
    whole: dict[str, Any] = {**bars, **kept, "precision": Precision.GIVEN}
    try:
        found = as_float(capture(module, inputs), inputs, batches, replace(options, **whole))
    except CortadoError:
        raise error from None
    mixed = error.in_float32(found)
    if mixed is None:
        raise error
    return replace(found, mixed=mixed)


@alone()
@forgotten()
def _in_int8(
    module: torch.nn.Module | ExportedProgram, inputs: Inputs, batches: Sequence[Inputs], options: Options
) -> Quantized:
    """Quantizes a model for ExecuTorch's int8 operators: state in 8 bits, norms and the like decomposed."""
    captured = capture(module, inputs)
    write_in_pieces(captured.module)
    return quantize(captured, inputs, batches, replace(options, state=Activations.INT8))


def _check_quantized(options: Options) -> None:
    """Refuses options that would change a quantized model's scales and elements."""
    if options.keep_float:
        raise CortadoError(
            f"--keep-float '{options.keep_float[0]}': the model is quantized already, expected a float model of which "
            "Cortado leaves modules in float; give that, or leave --keep-float out"
        )
    if options.precision is Precision.AUTO:
        raise CortadoError(
            "--precision auto: the model is quantized already, expected a float model whose tensors Cortado chooses "
            "elements for; give that, or leave --precision auto out"
        )


def _with_islands(
    captured: Captured, asked: Asked, how: Options, run: Callable[..., Quantized]
) -> tuple[Quantized, Callable[[], Quantized] | None]:
    """Quantizes a model, with calls that no integer operator takes in float32 where that is allowed and helps; also
    returns how to quantize it without these islands, for ExecuTorch's float kernels."""
    if not asked.options.has_islands:
        try:
            return run(captured, how=how), None
        except Refused as error:
            hint = "" if isinstance(error, NotInteger) else islands_hint(error.nodes, asked.options)
            if not hint:
                raise
            raise Refused(f"{error}{hint}", error.nodes) from error

    def attempt(tried: Captured) -> Quantized:
        quantized = run(tried, how=how)
        _try_out(asked, quantized)
        return quantized

    def whole() -> Quantized:
        return run(replace(captured, module=copied(captured.module)), how=replace(how, allow_float=False))

    try:
        quantized, islands = with_islands(captured, attempt)
    except Refused:
        if not asked.options.makes_operators:
            raise
        return whole(), None
    return replace(quantized, islands=islands), cache(whole) if islands else None


def _measured(asked: Asked, inputs: Inputs) -> PrecisionGiven | None:
    """Returns the criteria of --precision auto, for the target that the model is prepared for, or any core."""
    options = asked.options
    if options.precision is not Precision.AUTO:
        return None
    labelled = None if options.labelled is None else read_labelled(Path(options.labelled), inputs)
    return PrecisionGiven(Pricing(asked), labelled)


def _try_out(asked: Asked, quantized: Quantized) -> None:
    model = Model(asked.name, quantized, asked.labels, seconds={}, progress=lambda phase: None)
    model.try_out(asked.target, asked.options)


@alone()
@forgotten()
def prepare_qat(
    model: torch.nn.Module | ExportedProgram,
    example_inputs: Sequence[Given],
    weights: Weights | str = Weights.INT8,
    activations: Activations | str = Activations.INT8,
) -> QatModel:
    """Prepares a model for quantization-aware training: train it like any module, then pass it to `compile`.

    The graph is the one that is deployed: batch norms are folded with the statistics they have, dropouts are removed.
    int4 weights have one scale for each output channel: compile with `weights="int4"` and without a group.
    """
    how = Options(weights=weights, activations=activations)  # type: ignore[arg-type]
    if how.weights is Weights.AUTO:
        raise CortadoError("weights='auto' is chosen when a model is compiled; expected 'int8' or 'int4' for training")
    module, tensors = with_numbers(model, example_inputs)
    inputs = check_example(tensors)
    captured = capture(module, inputs)
    if is_quantized(captured.module):
        raise CortadoError("the model is quantized already, expected a float model to train; give that to prepare_qat")
    return train(captured, inputs, how)


def compile(
    model: torch.nn.Module | ExportedProgram,
    example_inputs: Sequence[Given],
    target: str | CortexMTargetConfig | None = None,
    calibration: Tensor | Sequence[Tensor | Sequence[Given]] = (),
    name: str | None = None,
    options: Options = DEFAULTS,
    *,
    labels: Sequence[str] | None = None,
    progress: PhaseProgress = lambda phase: None,
) -> Compiled:
    """Compiles a model for one target: by default the core of the options' chip, or else any core. `calibration` holds
    a few typical inputs: a tensor with them along the first dimension, or a sequence of tuples of tensors. A model that
    PT2E has quantized needs none. `labels` name the classes; `progress` is called with each phase."""
    config = _config(target, options)  # before the seconds that quantization takes
    given = prepare(
        model, example_inputs, calibration, name, labels=labels, progress=progress, options=options, target=config
    )
    return given.compile(config, options)


def _check_kinds(example_inputs: object, name: object, options: object) -> None:
    """Refuses arguments of wrong types with a message."""
    _check_options(options)
    if name is not None and not isinstance(name, str):
        raise CortadoError(f"name must be a text, found {name!r}")
    if not isinstance(example_inputs, Sequence | torch.Tensor):
        raise CortadoError(f"example_inputs must be a tuple of tensors, found a {type(example_inputs).__name__}")


def _check_options(options: object) -> None:
    if not isinstance(options, Options):
        raise CortadoError(
            f"options must be a cortado.Options, as in Options(optimize='ram'), found a {type(options).__name__}"
        )


def _check_installed(options: Options) -> None:
    """Reports a missing package before the work, not after it; if the C bundle can still be made, the report mentions
    it instead."""
    options.check_budget()
    floats = options.allow_float and options.artifacts is not Artifacts.C
    of_pte = (options.pte is PteKind.DELEGATE, floats, options.bundleio, options.etrecord)
    needed = options.artifacts is Artifacts.PTE or any(of_pte)
    needed = needed or (options.strict and options.artifacts is Artifacts.BOTH)
    if needed and (reason := without_executorch()) is not None:
        raise MissingTool(f"a .pte can't be written: {reason}")
    if (newer := newer_than_tested()) is not None:
        warnings.warn(f"{newer}: it should work; if anything differs, please report it", CortadoWarning, stacklevel=3)
    if PackageKind.WEB in options.package:
        require((Tool.CLANG, Tool.WASM_LD))


def _checked(target: str | CortexMTargetConfig, options: Options) -> CortexMTargetConfig:
    """Returns the target; refuses missing tools, and options for which the target must be a single kind of core."""
    config = _config(target, options)
    _check_installed(options)
    check_one_core(config, options.image or options.pte is PteKind.DELEGATE)
    return config


def _config(target: str | CortexMTargetConfig | None, options: Options) -> CortexMTargetConfig:
    _check_options(options)
    if target is None:
        return ANY if options.chip is None else options.chip.target
    if not isinstance(target, str | CortexMTargetConfig):
        raise CortadoError(f"target must be a string such as 'cortex-m55', found {type(target).__name__}")
    config = from_target_string(target) if isinstance(target, str) else target
    if options.chip is not None:
        options.chip.require(config)
    return config


__all__ = ["Compiled", "Model", "Options", "compile", "evaluate", "prepare", "prepare_qat"]
