"""The report of a compile: what was lowered, RAM, flash, cost."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor as Values

from cortado import __version__
from cortado.artifact.arena import arena_buffers
from cortado.artifact.cameras import camera_report
from cortado.artifact.decision_report import DecisionReport
from cortado.artifact.layers import layer_reports, longest_call
from cortado.artifact.precision import PrecisionReport, TensorPrecisionReport
from cortado.artifact.report import (
    SCHEMA_VERSION,
    AlternativeReport,
    CandidateReport,
    ChipReport,
    ChoiceReport,
    DType,
    FlashReport,
    FloatOperatorReport,
    ImageReport,
    InputRowsReport,
    MemoryReport,
    MomentReport,
    OptionsReport,
    PeakBufferReport,
    PteReport,
    RegionReport,
    Report,
    ScheduleReport,
    SearchReport,
    SectionReport,
    StateReport,
    StreamReport,
    TensorReport,
)
from cortado.artifact.spectrograms import spectrogram_reports
from cortado.artifact.weights_report import WeightsReport
from cortado.base.chips import Chip
from cortado.base.clock import rounded
from cortado.base.errors import CortadoError
from cortado.base.findings import Finding
from cortado.base.names import c_identifier, version_of
from cortado.base.target import CortexMTargetConfig
from cortado.emit.c.bundle import Bundle
from cortado.emit.image.writer import ModelImage
from cortado.emit.pte.program import Pte
from cortado.frontend.quantize.candidates import Choice
from cortado.frontend.quantize.convert import Quantized
from cortado.frontend.quantize.precision_search import Mixed
from cortado.ir.op import registry
from cortado.ir.portable import FloatOperator
from cortado.memory.timeline import peak_buffers, timeline
from cortado.options import Optimize, Options
from cortado.plan.identity import model_id
from cortado.plan.lowered import LoweredGraph, State, Value
from cortado.plan.over_regions import heat
from cortado.plan.planned import Alternative, Planned
from cortado.plan.program import Program, Tensor
from cortado.plan.stream import push_macs, state_bytes
from cortado.run.measure import Measured


@dataclass(frozen=True)
class InC:
    """A model as a C bundle: its plan, its files, and what is known of their sizes."""

    planned: Planned
    bundle: Bundle
    needed: Measured
    single_targets: Mapping[str, int] | None
    alternatives: Mapping[Optimize, Alternative]
    image: ModelImage | None = None


def build_report(
    *,
    name: str,
    target: CortexMTargetConfig,
    graph: LoweredGraph,
    c: InC | None,
    pte: Pte | None,
    seconds: Mapping[str, float],
    labels: Sequence[str] | None,
    options: Options,
    pte_missing: Sequence[str],
    bundle_missing: Sequence[str],
    float_operators: Sequence[FloatOperator],
    findings: Sequence[Finding],
    first: Mapping[str, Values],
    removed: int,
    delay: int,
    weights: tuple[WeightsReport, ...],
    quantized: Quantized,
) -> Report:
    """`graph` is what both artifacts were made of; that of the .pte where there is no C bundle. `first` has the
    reference's values for the example."""
    inputs, outputs = _ports(graph) if c is None else (c.planned.program.inputs, c.planned.program.outputs)
    report = Report(
        schema_version=SCHEMA_VERSION,
        cortado_version=__version__,
        model=name,
        target=target.target_string,
        operators=_operators(graph),
        float_operators=tuple(_float_operator(item) for item in float_operators),
        portable_operators=() if pte is None else tuple(pte.portable_operators),
        options=_options(options),
        memory=None if c is None else _memory(c),
        schedule=None if c is None else _schedule(c.planned),
        flash=None if c is None else _flash(c),
        removed_channels=removed,
        spectrograms=spectrogram_reports(graph, first),
        macs=None if c is None else sum(step.macs for step in c.planned.program.steps),
        layers=() if c is None else layer_reports(c.planned, graph),
        weights=weights,
        inputs=tuple(_tensor(tensor) for tensor in inputs),
        outputs=tuple(_tensor(tensor) for tensor in outputs),
        state=tuple(_state(graph, state, None if c is None else c.planned, quantized.reasons) for state in graph.state),
        bundle_missing=tuple(bundle_missing),
        pte=None if pte is None else _pte(pte, options),
        pte_missing=tuple(pte_missing),
        pte_limits=() if pte is None else (*pte.limits, *_pte_notes(options)),
        notes=(),
        warnings=tuple(findings),
        labels=None if labels is None else tuple(labels),
        compile_seconds=rounded(seconds),
        prefix=c_identifier(name),
        id=model_id(graph),
        model_version=options.model_version or version_of(model_id(graph)),
        calibrated=calibrated_report(quantized.choice),
        precision=precision_report(quantized.mixed),
        chip=None if options.chip is None else chip_report(options.chip),
        artifacts={},  # known when the files are written
    )
    return report if c is None else _with_bundle(report, c, options, delay)


def _with_bundle(report: Report, c: InC, options: Options, delay: int) -> Report:
    """How the C bundle takes its input and what it gives beside outputs, and the model as data."""
    return replace(
        report,
        input_rows=_input_rows(c.planned.program),
        camera=camera_report(c.planned),
        stream=_stream(c.planned, options, delay),
        decision=_decision(c.planned.program, options),
        image=None if c.image is None or not options.image else _image(c.image),
        longest_call=longest_call(report.layers),
        build=c.bundle.build,
    )


def _pte(pte: Pte, options: Options) -> PteReport:
    return PteReport(bytes=len(pte.data), arena_bytes=pte.arena_bytes, kind=options.pte)


def _image(image: ModelImage) -> ImageReport:
    kernels = tuple(sorted({thunk.name for thunk in image.thunks}))
    return ImageReport(bytes=len(image.data), ram_bytes=image.ram_bytes, kernels=kernels)


def calibrated_report(choice: Choice | None) -> ChoiceReport | None:
    if choice is None or not choice.judged:
        return None
    return ChoiceReport(
        method=choice.winner.method,
        corrected_layers=len(choice.winner.corrected),
        samples=choice.samples,
        gain_db=round(choice.gain, 2),
        candidates=tuple(
            CandidateReport(
                method=one.candidate.method,
                corrected_layers=len(one.candidate.corrected),
                outputs_db=tuple(round(kept, 2) if math.isfinite(kept) else None for kept in one.kept),
            )
            for one in choice.judged
        ),
    )


def precision_report(mixed: Mixed | None) -> PrecisionReport | None:
    if mixed is None:
        return None
    return PrecisionReport(
        bar=mixed.bar,
        reached=mixed.reached,
        int8=mixed.before,
        int8_arena_bytes=mixed.ram[0],
        arena_bytes=mixed.ram[1],
        tensors=tuple(
            TensorPrecisionReport(tensor=one.tensor, module=one.module, element=one.element.name, why=one.why)
            for one in mixed.tensors
        ),
    )


def chip_report(chip: Chip) -> ChipReport:
    return ChipReport(
        name=chip.name,
        clock_hz=chip.megahertz * 1_000_000,
        ram_bytes=chip.ram_bytes,
        flash_bytes=chip.flash_bytes,
    )


def _flash(c: InC) -> FlashReport:
    sections = c.bundle.section_bytes.items()
    return FlashReport(
        weights_bytes=c.bundle.weights_bytes,
        code_bytes=c.needed.code_bytes,
        sections=tuple(SectionReport(name=name, bytes=size) for name, size in sections),
    )


def _pte_notes(options: Options) -> list[str]:
    """Returns what does not hold for the .pte."""
    given = [flag for flag, value in (("--memory", options.memory), ("--place", options.place)) if value]
    alone = {
        "--decide: for the C bundle alone; the .pte gives scores": options.decide is not None,
        "--input-format: for the C bundle alone. The .pte takes the network's own input": options.camera is not None,
    }
    told = [text for text, asked in alone.items() if asked]
    if not given:
        return told
    return [
        *told,
        f"{' and '.join(given)}: for the C bundle alone. The .pte has one planned memory and one segment of constants, "
        "which its runtime places",
    ]


def _operators(graph: LoweredGraph) -> dict[str, int]:
    """How often each operator is called; views cost nothing, and float calls have a list of their own."""
    known = registry().operators
    called = [call.operator for call in graph.calls if call.operator in known]
    return dict(sorted(Counter(name for name in called if not known[name].view).items()))


def _float_operator(item: FloatOperator) -> FloatOperatorReport:
    return FloatOperatorReport(
        node=item.node,
        operator=item.operator,
        module=item.module,
        source=item.source,
        reason=item.reason,
        kernels=item.kernels,
    )


def _options(options: Options) -> OptionsReport:
    return OptionsReport(
        optimize=options.optimize,
        io=options.io,
        linear=options.linear,
        input_layout=options.input_layout,
        allow_float=options.allow_float,
        calibration_method=options.calibration_method,
        bias_correction=options.bias_correction,
        sequence=options.sequence,
        stream_padding=options.stream_padding,
        artifacts=options.artifacts,
        activations=options.activations,
        state=options.state,
        int16=options.int16,
        keep_float=options.keep_float,
        weights=options.weights,
        weight_group=options.weight_group,
        place=tuple(f"{place.pattern}={place.section}" for place in options.place),
    )


def _memory(c: InC) -> MemoryReport:
    planned, plan = c.planned, c.planned.plan
    buffers = peak_buffers(planned.problem, plan)
    return MemoryReport(
        arena_bytes=plan.peak,
        scratch_bytes=sum(step.scratch for step in planned.program.steps),
        lower_bound_bytes=plan.lower_bound,
        optimal=plan.optimal,
        search={
            name: SearchReport(work=spent.work, bound=spent.bound, exhausted=spent.exhausted)
            for name, spent in planned.spent.items()
        },
        peak_buffers=tuple(PeakBufferReport(name=buffer.name, bytes=buffer.size) for buffer in buffers),
        alternatives={
            optimize: AlternativeReport(arena_bytes=other.arena_bytes, row_calls=other.row_calls)
            for optimize, other in c.alternatives.items()
        },
        single_targets=c.single_targets,
        timeline=_timeline(planned),
        buffers=arena_buffers(planned),
        stack_bytes=c.needed.stack_bytes,
        selftest_stack_bytes=c.needed.selftest_stack_bytes,
        regions=_regions(planned),
    )


def _regions(planned: Planned) -> tuple[RegionReport, ...]:
    used = heat(planned)
    buffers = sorted(planned.problem.buffers, key=lambda buffer: -used[buffer.name])
    return tuple(
        RegionReport(
            name=region.name,
            bytes=region.bytes,
            size_bytes=region.room,
            buffers=tuple(PeakBufferReport(name=b.name, bytes=b.size) for b in buffers if b.name in region.buffers),
            device=region.device,
        )
        for region in planned.regions
    )


def _timeline(planned: Planned) -> tuple[MomentReport, ...]:
    """RAM over time: for each moment of the schedule, the bytes that live then."""
    moments = timeline(planned.problem, planned.plan)
    return tuple(MomentReport(stage=at.start[0], position=at.start[1], bytes=at.used) for at in moments)


def _schedule(planned: Planned) -> ScheduleReport:
    stages = planned.program.stages
    return ScheduleReport(
        stages=tuple(tuple(step.name for step in stage.steps) for stage in stages), row_calls=planned.row_calls
    )


def _input_rows(program: Program) -> InputRowsReport | None:
    step = program.pushed
    if step is None:
        return None
    ring = program.buffers[step.output].rows
    return InputRowsReport(rows=step.rows, row_bytes=step.row_bytes, ring_rows=ring, ring_bytes=ring * step.row_bytes)


def _stream(planned: Planned, options: Options, delay: int) -> StreamReport | None:
    stream = planned.program.stream
    if stream is None or options.stream is None:
        return None
    largest, output = push_macs(planned)
    return StreamReport(
        dim=options.stream,
        window_rows=stream.window,
        hop_rows=stream.hop,
        first_rows=stream.first,
        delay_rows=delay,
        state_bytes=state_bytes(planned),
        push_macs=largest,
        output_macs=output,
    )


def _decision(program: Program, options: Options) -> DecisionReport | None:
    rule = program.decision
    if rule is None:
        return None
    return DecisionReport(
        spec=str(options.decide),
        smooth=rule.smooth,
        thresholds=rule.thresholds,
        holdoffs=rule.holdoffs,
        bytes=program.decision_bytes,
    )


def _ports(graph: LoweredGraph) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs and outputs where there is only a .pte: they are the model's own."""
    outputs = [(f"output{position}", node) for position, node in enumerate(graph.outputs)]
    return (
        [_port(name, name, graph.values[name]) for name in graph.inputs],
        [_port(name, node, graph.values[node]) for name, node in outputs],
    )


def _port(name: str, node: str, value: Value) -> Tensor:
    layout = tuple(range(len(value.shape)))
    return Tensor(name, node, node, value.shape, value.element, None, layout)


def _tensor(tensor: Tensor) -> TensorReport:
    return TensorReport(
        name=tensor.name,
        node=tensor.node,
        shape=tensor.shape,
        model_shape=tuple(tensor.shape[tensor.layout.index(dim)] for dim in range(len(tensor.shape))),
        layout=tensor.layout,
        dtype=_dtype(tensor),
        scale=None if tensor.qparams is None else tensor.qparams.scale,
        zero_point=None if tensor.qparams is None else tensor.qparams.zero_point,
    )


def _state(graph: LoweredGraph, state: State, planned: Planned | None, reasons: Mapping[str, str]) -> StateReport:
    value = graph.values[state.name]
    region = planned.region_of(state.name) if planned is not None and planned.regions else None
    start = 0 if region is None else region.start
    return StateReport(
        name=state.buffer,
        node=state.name,
        shape=value.shape,
        dtype=DType(value.element.name),
        scale=None if value.qparams is None else value.qparams.scale,
        zero_point=None if value.qparams is None else value.qparams.zero_point,
        offset=None if planned is None else planned.plan.offsets[state.name] - start,
        bytes=value.bytes,
        region=None if region is None else region.name,
        why=reasons.get(state.buffer, ""),
    )


def _dtype(tensor: Tensor) -> DType:
    try:
        return DType(tensor.dtype)
    except ValueError:
        raise CortadoError(
            f"'{tensor.name}' holds {tensor.dtype} values, expected one of {', '.join(DType)}; convert it in the "
            "model, as in x.float()"
        ) from None
