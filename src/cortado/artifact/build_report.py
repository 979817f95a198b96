"""The report of a compile, filled in: what was lowered, RAM, flash and cost.

It has sections for layers, a camera's front end, spectrograms of the example input, and the arena's buffers.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from torch import Tensor as Values

from cortado import __version__
from cortado.artifact.report import (
    SCHEMA_VERSION,
    AlternativeReport,
    ArenaBufferReport,
    BufferKind,
    CameraReport,
    CandidateReport,
    ChipReport,
    ChoiceReport,
    DecisionReport,
    DType,
    FlashReport,
    FloatOperatorReport,
    ImageReport,
    InputRowsReport,
    IslandReport,
    LayerReport,
    LongestCallReport,
    MemoryReport,
    MomentReport,
    OptionsReport,
    PeakBufferReport,
    PrecisionReport,
    PteFormReport,
    PteReport,
    RegionReport,
    Report,
    ScheduleReport,
    SearchReport,
    SectionReport,
    SeenReport,
    SpectrogramReport,
    StateReport,
    StreamReport,
    TensorPrecisionReport,
    TensorReport,
    WeightScalesReport,
    WeightsReport,
)
from cortado.base.chips import Chip
from cortado.base.codec import filled
from cortado.base.errors import CortadoError
from cortado.base.findings import Finding
from cortado.base.names import c_identifier, is_of_floats, text_of, version_of
from cortado.base.numerics import QParams
from cortado.base.progress import rounded
from cortado.base.target import CortexMTargetConfig
from cortado.emit.c.bundle import Bundle
from cortado.emit.c.camera import camera_kernel, table_bytes
from cortado.emit.image.writer import ModelImage
from cortado.emit.pte.program import Pte
from cortado.frontend.precision.islands import Island
from cortado.frontend.precision.search import Mixed
from cortado.frontend.quantize.candidates import Choice
from cortado.frontend.quantize.convert import Quantized
from cortado.ir.facts import ORIGIN
from cortado.ir.kernel import Array, Field, NestedDescriptor
from cortado.ir.op import registry
from cortado.ir.portable import FloatOperator
from cortado.memory.problem import Buffer, Time, peak_buffers, timeline
from cortado.ops.signal.spectrum import SPECTRUM
from cortado.options import Optimize, Options
from cortado.plan.cameras import camera_input_of
from cortado.plan.decision import DECISION
from cortado.plan.kernel_costs import front_end_cycles
from cortado.plan.lowered import LoweredCall, LoweredGraph, Ref, State, Value, model_id
from cortado.plan.over_regions import heat
from cortado.plan.planned import Alternative, Planned, calls_of, estimated_cycles
from cortado.plan.program import CAMERA_LINE, CAMERA_PLACE, PUSHED_ROWS, STATE_MARK, Program, Step, Tensor
from cortado.plan.segments import counters_name, scratch_name
from cortado.plan.stream import push_macs, state_bytes
from cortado.run.measure import Measured

# ---- layers ----------------------------------------------------------------------------------------------

_FIXED_POINT_BITS = 31  # a factor is multiplier * 2^(shift - 31)


def layer_reports(planned: Planned, graph: LoweredGraph, first: Mapping[str, Values]) -> tuple[LayerReport, ...]:
    pairs = zip(planned.program.steps, estimated_cycles(planned), calls_of(planned), strict=True)
    return tuple(
        replace(_layer(step, graph, cycles, calls), seen=_seen(first.get(step.name))) for step, cycles, calls in pairs
    )


def longest_call(layers: Sequence[LayerReport]) -> LongestCallReport | None:
    """Returns the most expensive kernel call; None if the cycles of some layer are unknown, since that could be it."""
    if not layers or any(layer.estimated_cycles is None for layer in layers):
        return None
    spent = {layer.name: (layer.estimated_cycles or 0) // max(layer.calls, 1) for layer in layers}
    name = max(spent, key=lambda one: spent[one])
    return LongestCallReport(layer=name, cycles=spent[name])


def _layer(step: Step, graph: LoweredGraph, cycles: float | None, calls: int) -> LayerReport:
    value, call = graph.values.get(step.name), graph.by_name.get(step.name)
    codes = None if value is None else value.qparams
    return filled(
        LayerReport,
        step,
        shape=() if value is None else value.shape,
        element=DType(step.element.name),
        weights_bytes=_weights_bytes(step),
        estimated=cycles is not None,
        estimated_cycles=None if cycles is None else round(cycles),
        calls=calls,
        **_codes(codes),
        weight_scales=None if call is None or value is None else _weight_scales(call, value, graph),
    )


def _seen(values: Values | None) -> SeenReport | None:
    finite = None if values is None or not values.is_floating_point() else values[values.isfinite()]
    if finite is None or not finite.numel():
        return None
    return SeenReport(least=float(finite.min()), largest=float(finite.max()))


def _weights_bytes(step: Step) -> int:
    """Returns the bytes of a step's constants, on the core whose kernel has the most."""
    operands = sum(port.source.data.nbytes for port in step.inputs if isinstance(port.source, Array))
    most = max((sum(_arrays(kernel.fields)) for kernel in step.kernels.values()), default=0)
    return operands + most


def _arrays(fields: Mapping[str, Field]) -> Iterator[int]:
    """Yields the bytes of every array that a descriptor points to."""
    for field in fields.values():
        if isinstance(field, Array):
            yield field.data.nbytes
        elif isinstance(field, tuple):
            for item in field:
                if isinstance(item, NestedDescriptor):
                    yield from _arrays(item.fields)


def _weight_scales(call: LoweredCall, value: Value, graph: LoweredGraph) -> WeightScalesReport | None:
    """Recovers the range of a layer's weight scales.

    A requantization factor is the weight scale times the input's scale over the output's; a float32 layer holds the
    scales themselves.
    """
    weighted = value.element.floating and "weight" in call.arguments
    known = _numbers(call.arguments.get("scale"), graph) if weighted else None
    if known is not None:
        return WeightScalesReport(channels=len(known), least=float(known.min()), largest=float(known.max()))
    multipliers, shifts = (
        _numbers(call.arguments.get(f"requantize_{name}"), graph) for name in ("multipliers", "shifts")
    )
    weight, given = call.arguments.get("weight", call.arguments.get("weights")), call.arguments.get("input")
    if multipliers is None or shifts is None or not isinstance(weight, Ref) or not isinstance(given, Ref):
        return None
    read = graph.values[given.name].qparams if given.name in graph.values else None
    if weight.name not in graph.constants or read is None or value.qparams is None:
        return None
    factors = np.ldexp(multipliers, shifts.astype(np.int64) - _FIXED_POINT_BITS)
    scales = factors * (value.qparams.scale / read.scale)
    scales = scales[scales > 0]  # a channel whose weights are all zero has no scale
    if not scales.size:
        return None
    return WeightScalesReport(channels=len(factors), least=float(scales.min()), largest=float(scales.max()))


def _numbers(argument: object, graph: LoweredGraph) -> "np.ndarray[tuple[int], np.dtype[np.float64]] | None":
    """Returns a constant, or a list of numbers, as an array; None for anything else."""
    if isinstance(argument, Ref):
        constant = graph.constants.get(argument.name)
        return None if constant is None else constant.numpy().astype(np.float64).reshape(-1)
    return np.array(argument, np.float64) if isinstance(argument, list) else None


# ---- cameras ---------------------------------------------------------------------------------------------


def camera_report(planned: Planned) -> CameraReport | None:
    """Returns the report of the camera in front of the network; None without one."""
    camera_input = camera_input_of(planned.program)
    if camera_input is None:
        return None
    camera = camera_input.camera
    return filled(
        CameraReport,
        camera,
        size=str(camera.size),
        crop=str(camera.crop),
        resize=str(camera.resize),
        held_bytes=camera_input.held_bytes,
        table_bytes=table_bytes(camera_input),
        cycles=front_end_cycles(planned.program.target, camera_kernel(camera_input), camera),
    )


# ---- spectrograms ----------------------------------------------------------------------------------------

MOST_FRAMES, MOST_BANDS = 256, 128
LAST_SHADE = 15


def spectrogram_reports(graph: LoweredGraph, first: Mapping[str, Values]) -> tuple[SpectrogramReport, ...]:
    """Returns the spectrogram of every spectrum call, from the reference's values for the example; with several
    channels, the first one's."""
    names = [call.name for call in graph.calls if call.operator == SPECTRUM.name and call.name in first]
    return tuple(_report(graph, name, first[name]) for name in names)


def _report(graph: LoweredGraph, name: str, codes: Values) -> SpectrogramReport:
    known = graph.values[name].qparams
    scale, zero = (1.0, 0) if known is None else (known.scale, known.zero_point)
    frames = codes[0, :, 0, :].numpy().astype(np.int64)
    count, bands = frames.shape
    shown = frames[:: -(-count // MOST_FRAMES), :: -(-bands // MOST_BANDS)]
    low, high = int(shown.min()), int(shown.max())
    shades = (shown - low) * LAST_SHADE // max(1, high - low)
    return SpectrogramReport(
        layer=name,
        frames=count,
        bands=bands,
        low=(low - zero) * scale,
        high=(high - zero) * scale,
        shades=tuple("".join(f"{shade:x}" for shade in band) for band in shades.T),
    )


# ---- arena -----------------------------------------------------------------------------------------------


def arena_buffers(planned: Planned) -> tuple[ArenaBufferReport, ...]:
    """Returns the arena's buffers in order of creation, then by address."""
    starts = [moment.start for moment in timeline(planned.problem, planned.plan)]
    kinds, over = _kinds(planned.program), dict(_laid_over(planned))
    buffers = [*planned.problem.buffers, *_where_state_lies(planned)]
    found = [_arena_report(planned, buffer, starts, kinds, over.get(buffer.name, ())) for buffer in buffers]
    return tuple(sorted(found, key=lambda one: (one.start, one.offset, one.name)))


def _arena_report(
    planned: Planned,
    buffer: Buffer,
    starts: Sequence[Time],
    kinds: Mapping[str, BufferKind],
    over: tuple[str, ...],
) -> ArenaBufferReport:
    program, name = planned.program, buffer.name
    tensor = program.buffers.get(name)
    ring = 0 if tensor is None else tensor.rows
    kind = kinds.get(name, BufferKind.TENSOR)
    return ArenaBufferReport(
        name=name,
        kind=BufferKind.RING if ring and kind is BufferKind.TENSOR else kind,
        offset=planned.plan.offsets[name],
        bytes=buffer.size,
        start=bisect_right(starts, buffer.start) - 1,
        end=bisect_left(starts, buffer.end),
        persists=buffer.persists or (program.stream is not None and buffer.start <= (0, 0)),
        ring_rows=ring or None,
        rows=_rows(program, name) if ring else None,
        over=over,
    )


def _kinds(program: Program) -> dict[str, BufferKind]:
    """Classifies the buffers that are no layer's plain output. Being the model's input or output takes precedence."""
    kinds = {scratch_name(step): BufferKind.SCRATCH for step in program.steps}
    if program.pushed is not None:
        kinds |= {counters_name(program.pushed): BufferKind.COUNTERS, PUSHED_ROWS: BufferKind.COUNTERS}
    kinds |= dict.fromkeys([CAMERA_LINE, CAMERA_PLACE] if program.camera is not None else [], BufferKind.COUNTERS)
    kinds |= dict.fromkeys([kept.tensor.buffer for kept in program.state] + [STATE_MARK, DECISION], BufferKind.STATE)
    kinds |= {tensor.buffer: BufferKind.OUTPUT for tensor in program.outputs}
    return kinds | {tensor.buffer: BufferKind.INPUT for tensor in program.inputs}


def _rows(program: Program, name: str) -> int | None:
    return next((step.rows for step in program.steps if name in step.outputs), None)


def _where_state_lies(planned: Planned) -> Iterator[Buffer]:
    """Yields new values of state that are written in place: tensors, but no buffers of the planning problem."""
    buffers = {buffer.name: buffer for buffer in planned.problem.buffers}
    stages = enumerate(planned.program.stages)
    made = {name: number for number, stage in stages for step in stage.steps for name in step.outputs}
    for new, old in planned.in_place.items():
        yield replace(buffers[old], name=new, start=(made[new], 0), persists=False)


def _laid_over(planned: Planned) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the overlays that the plan uses: pairs that share bytes while both are live."""
    offsets, found = planned.plan.offsets, {new: (old,) for new, old in planned.in_place.items()}
    buffers = {buffer.name: buffer for buffer in planned.problem.buffers}
    for overlay in planned.problem.overlays:
        out, inp = buffers[overlay.out], buffers[overlay.inp]
        live = max(out.start, inp.start) < min(out.end, inp.end)
        low, high = offsets[out.name], offsets[inp.name]
        if live and low < high + inp.size and high < low + out.size:
            found[out.name] = (*found.get(out.name, ()), inp.name)
    yield from found.items()


# ---- build report ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InC:
    """A model as a C bundle: its plan, its files, and the sizes known so far."""

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
    pte_form: PteFormReport | None,
    bundle_missing: Sequence[str],
    float_operators: Sequence[FloatOperator],
    findings: Sequence[Finding],
    first: Mapping[str, Values],
    removed: int,
    delay: int,
    weights: tuple[WeightsReport, ...],
    quantized: Quantized,
) -> Report:
    """Fills in a report; `graph` is that of both artifacts or of the .pte alone, `first` the example's values."""
    inputs, outputs = _ports(graph) if c is None else (c.planned.program.inputs, c.planned.program.outputs)
    report = Report(
        schema_version=SCHEMA_VERSION,
        cortado_version=__version__,
        model=name,
        target=target.target_string,
        operators=_operators(graph),
        float_operators=tuple(filled(FloatOperatorReport, one) for one in float_operators),
        portable_operators=() if pte is None else tuple(pte.portable_operators),
        options=_options(options),
        memory=None if c is None else _memory(c),
        schedule=None if c is None else _schedule(c.planned),
        flash=None if c is None else _flash(c),
        removed_channels=removed,
        spectrograms=spectrogram_reports(graph, first),
        macs=None if c is None else sum(step.macs for step in c.planned.program.steps),
        layers=() if c is None else layer_reports(c.planned, graph, first),
        weights=weights,
        inputs=tuple(_tensor(tensor, first) for tensor in inputs),
        outputs=tuple(_tensor(tensor, first) for tensor in outputs),
        state=tuple(_state(graph, state, None if c is None else c.planned, quantized.reasons) for state in graph.state),
        bundle_missing=tuple(bundle_missing),
        pte=None if pte is None else _pte(pte, options),
        pte_form=None if pte is None else pte_form,
        pte_missing=tuple(pte_missing),
        pte_limits=() if pte is None else (*pte.limits, *_pte_notes(options)),
        warnings=tuple(findings),
        labels=None if labels is None else tuple(labels),
        compile_seconds=rounded(seconds),
        prefix=c_identifier(name),
        id=model_id(graph),
        model_version=options.model_version or version_of(model_id(graph)),
        calibrated=calibrated_report(quantized.choice),
        precision=precision_report(quantized.mixed),
        chip=None if options.chip is None else _chip(options.chip),
        artifacts={},  # known when the files are written
    )
    return report if c is None else _with_bundle(report, c, _islands(c.planned, graph, quantized), options, delay)


def _with_bundle(report: Report, c: InC, islands: tuple[IslandReport, ...], options: Options, delay: int) -> Report:
    """Adds the sections that only a C bundle has: how its input arrives, its results besides outputs, and the image."""
    return replace(
        report,
        islands=islands,
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
    return filled(
        PrecisionReport,
        mixed,
        new_data=mixed.new,
        int8=mixed.before,
        int8_arena_bytes=mixed.ram[0],
        arena_bytes=mixed.ram[1],
        tensors=tuple(filled(TensorPrecisionReport, one, element=one.element.name) for one in mixed.tensors),
    )


def _chip(chip: Chip) -> ChipReport:
    return filled(ChipReport, chip, clock_hz=chip.megahertz * 1_000_000)


def _flash(c: InC) -> FlashReport:
    sections = c.bundle.section_bytes.items()
    return FlashReport(
        weights_bytes=c.bundle.weights_bytes,
        code_bytes=c.needed.code_bytes,
        sections=tuple(SectionReport(name=name, bytes=size) for name, size in sections),
    )


def _pte_notes(options: Options) -> list[str]:
    """Lists the options that do not apply to the .pte."""
    given = [flag for flag, value in (("--memory", options.memory), ("--place", options.place)) if value]
    alone = {
        "--decide: in the C bundle only; the .pte gives scores": options.decide is not None,
        "--input-format: in the C bundle only. The .pte takes the network's own input": options.camera is not None,
    }
    told = [text for text, asked in alone.items() if asked]
    if not given:
        return told
    return [
        *told,
        f"{' and '.join(given)}: in the C bundle only. The .pte has one planned memory and one segment of constants, "
        "which its runtime places",
    ]


def _operators(graph: LoweredGraph) -> dict[str, int]:
    """Counts the calls of each operator, without views, which cost nothing, and float calls, which are listed
    separately."""
    known = registry().operators
    called = [call.operator for call in graph.calls if call.operator in known]
    return dict(sorted(Counter(name for name in called if not known[name].view).items()))


def _islands(planned: Planned, graph: LoweredGraph, quantized: Quantized) -> tuple[IslandReport, ...]:
    """Returns the islands, calls computed in float32 for lack of an integer operator, with their cost."""
    if not quantized.islands:
        return ()
    origins = {node.name: ORIGIN.of(node) for node in quantized.converted.graph.nodes}
    layers: dict[str | None, list[tuple[str, float | None]]] = {}
    for step, cycles in zip(planned.program.steps, estimated_cycles(planned), strict=True):
        call = graph.by_name.get(step.name)
        origin = None if call is None or not is_of_floats(step.operator) else origins.get(call.twin)
        layers.setdefault(origin, []).append((step.name, cycles))
    return tuple(_island(one, layers.get(one.name, [])) for one in quantized.islands)


def _island(island: Island, layers: Sequence[tuple[str, float | None]]) -> IslandReport:
    spent = [cycles for _, cycles in layers if cycles is not None]
    return filled(
        IslandReport,
        island,
        layers=tuple(name for name, _ in layers),
        estimated_cycles=round(sum(spent)) if len(spent) == len(layers) else None,
    )


def _options(options: Options) -> OptionsReport:
    """Returns the options that the report includes, under the names of their fields."""
    told = {"range": tuple(map(str, options.range)), "place": tuple(str(text_of(one)) for one in options.place)}
    return OptionsReport(**{one.name: told.get(one.name, getattr(options, one.name)) for one in fields(OptionsReport)})


def _memory(c: InC) -> MemoryReport:
    planned, plan = c.planned, c.planned.plan
    buffers = peak_buffers(planned.problem, plan)
    return MemoryReport(
        arena_bytes=plan.peak,
        scratch_bytes=sum(step.scratch for step in planned.program.steps),
        lower_bound_bytes=plan.lower_bound,
        optimal=plan.optimal,
        search={name: filled(SearchReport, spent) for name, spent in planned.spent.items()},
        peak_buffers=tuple(PeakBufferReport(name=buffer.name, bytes=buffer.size) for buffer in buffers),
        alternatives={optimize: filled(AlternativeReport, other) for optimize, other in c.alternatives.items()},
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
        filled(
            RegionReport,
            region,
            size_bytes=region.room,
            buffers=tuple(PeakBufferReport(name=b.name, bytes=b.size) for b in buffers if b.name in region.buffers),
        )
        for region in planned.regions
    )


def _timeline(planned: Planned) -> tuple[MomentReport, ...]:
    """Returns the bytes live at each moment of the schedule."""
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
    return filled(DecisionReport, rule, spec=str(options.decide), bytes=program.decision_bytes)


def _ports(graph: LoweredGraph) -> tuple[list[Tensor], list[Tensor]]:
    """Returns inputs and outputs if there is only a .pte: they are the model's own."""
    outputs = [(f"output{position}", node) for position, node in enumerate(graph.outputs)]
    return (
        [_port(name, name, graph.values[name]) for name in graph.inputs],
        [_port(name, node, graph.values[node]) for name, node in outputs],
    )


def _port(name: str, node: str, value: Value) -> Tensor:
    layout = tuple(range(len(value.shape)))
    return Tensor(name, node, node, value.shape, value.element, None, layout)


def _tensor(tensor: Tensor, first: Mapping[str, Values]) -> TensorReport:
    return filled(
        TensorReport,
        tensor,
        model_shape=tuple(tensor.shape[tensor.layout.index(dim)] for dim in range(len(tensor.shape))),
        dtype=_dtype(tensor),
        **_codes(tensor.qparams),
        seen=_seen(first.get(tensor.node)),
    )


def _codes(qparams: QParams | None) -> dict[str, Any]:
    """Returns scale and zero point; None where values are not quantized."""
    return {name: getattr(qparams, name, None) for name in ("scale", "zero_point")}


def _state(graph: LoweredGraph, state: State, planned: Planned | None, reasons: Mapping[str, str]) -> StateReport:
    value = graph.values[state.name]
    region = planned.region_of(state.name) if planned is not None and planned.regions else None
    start = 0 if region is None else region.start
    return StateReport(
        name=state.buffer,
        node=state.name,
        shape=value.shape,
        dtype=DType(value.element.name),
        **_codes(value.qparams),
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
