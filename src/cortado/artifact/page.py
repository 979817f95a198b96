"""report.html: the report for people. A single file that loads nothing, made from report.json's data alone.

Its parts: tensors and their elements, spectrograms, the map of the arena, and the per-layer tables.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from cortado.artifact.html import Markup, Table, TableCell, bullets, document, embedded, note, section
from cortado.artifact.report import (
    ArenaBufferReport,
    BufferKind,
    ChoiceReport,
    FloatOperatorReport,
    IslandReport,
    LayerReport,
    MemoryReport,
    Report,
    SpectrogramReport,
    StateReport,
    TensorReport,
    WeightScalesReport,
)
from cortado.artifact.summary import chosen_ranges
from cortado.base.codec import to_json
from cortado.base.element import INT8, element_of
from cortado.base.names import html_text, operator_base

# ---- page precision --------------------------------------------------------------------------------------


def precision_table(report: Report) -> Markup:
    """Tabulates tensors with their elements; empty where the user chose these."""
    found = report.precision
    if found is None:
        return Markup("")
    rows = [(one.tensor, one.module, one.element, one.why) for one in found.tensors]
    new = "" if found.new_data is None else f", {found.new_data} or more expected on new data"
    text = (
        f"`{found.bar}`: {found.reached}{new}, {found.int8} with int8 alone. RAM {found.arena_bytes:,} bytes, "
        f"{found.int8_arena_bytes:,} with int8 alone."
    )
    table = Table(("tensor", "module", "element", "why"), rows, name="precision").markup()
    return Markup(f"{table}\n{note(text)}")


# ---- page spectrograms -----------------------------------------------------------------------------------

_SHADES = "0123456789abcdef"
_WIDTH, _TALL = 3, 4  # pixels per frame and per band


def spectrograms(report: Report) -> Markup:
    return Markup("\n".join(_picture(one) for one in report.spectrograms))


def _picture(one: SpectrogramReport) -> str:
    width, height = max((len(band) for band in one.shades), default=0), len(one.shades)
    paths = "".join(
        f'<path fill-opacity="{_SHADES.index(shade) / 15:.2f}" d="{path}"></path>'
        for shade in _SHADES[1:]
        if (path := _path(one, shade))
    )
    title = html_text(f"Spectrum of the example input: {one.layer}")
    return (
        f'<svg class="spectrogram" role="img" aria-label="{title}" viewBox="0 0 {width} {height}" '
        f'width="{_WIDTH * width}" height="{_TALL * height}" preserveAspectRatio="none">{paths}</svg>\n'
        + note(
            f"`{one.layer}`: {one.frames:,} frames to the right, {one.bands:,} bands upwards, as the device sees the "
            f"example input; from {one.low:.4g} (empty) to {one.high:.4g} (full)."
        )
    )


def _path(one: SpectrogramReport, shade: str) -> str:
    """Draws the runs of frames with one shade, band by band, the lowest at the bottom."""
    pieces = []
    for number, band in enumerate(reversed(one.shades)):
        at = 0
        for found, run in groupby(band):
            length = len(list(run))
            if found == shade:
                pieces.append(f"M{at} {number}h{length}v1h-{length}z")
            at += length
    return "".join(pieces)


# ---- page arena ------------------------------------------------------------------------------------------

_KINDS = {
    BufferKind.INPUT: "input",
    BufferKind.OUTPUT: "output",
    BufferKind.STATE: "state",
    BufferKind.TENSOR: "whole tensor",
    BufferKind.RING: "ring: a few rows of a tensor",
    BufferKind.SCRATCH: "scratch",
    BufferKind.COUNTERS: "counters",
}
_TEXT = (
    "Each rectangle is a buffer: from its first byte to its last, from the layer that writes it to the last that "
    "reads it. A stage is one layer, or several that run interleaved, a few rows at a time, so that the tensors "
    "between them are rings of rows and never stored whole. Hatched: an output reuses bytes of an input that is no "
    "longer read."
)


def arena_map(report: Report, memory: MemoryReport) -> Markup:
    """Draws the map of the arena; empty for an older report without buffers."""
    if not memory.buffers or not memory.timeline:
        return Markup("")
    kinds = {buffer.kind for buffer in memory.buffers}
    entries = [(f"kind-{kind.value}", text) for kind, text in _KINDS.items() if kind in kinds]
    if any(buffer.over for buffer in memory.buffers):
        entries.append(("kind-over", "laid over an input"))
    if any(buffer.persists for buffer in memory.buffers):
        entries.append(
            ("kind-lasts", "persists from call to call" if report.stream is None else "persists from row to row")
        )
    legend = "".join(f'<span class="{kind}">{html_text(text)}</span>' for kind, text in entries)
    return Markup(f"""<div class="arena">
<div class="tools"><span><button type="button" id="zoom-in" aria-label="zoom in">+</button>
<button type="button" id="zoom-out" aria-label="zoom out">&minus;</button>
<button type="button" id="zoom-all">all</button></span><span class="legend">{legend}</span></div>
<div id="arena-picture"><noscript><p>The picture is drawn by a script, and scripts are off. The tables below have the
same.</p></noscript></div>
<div class="tip" id="arena-tip" hidden></div>
<div class="details" id="arena-details" aria-live="polite"><p class="note">Point at a buffer, or reach the picture with
Tab and move: left and right in the order of creation, up and down by address. Enter zooms in, Escape out.</p></div>
</div>
{note(_TEXT)}
{embedded("arena-data", _data(report, memory))}""")


def _data(report: Report, memory: MemoryReport) -> dict[str, Any]:
    modules, shapes = modules_of(report), {layer.name: list(layer.shape) for layer in report.layers}
    shapes |= {tensor.node: list(tensor.shape) for tensor in report.inputs}
    shapes |= {state.node: list(state.shape) for state in report.state}
    stages = () if report.schedule is None else report.schedule.stages

    def moment_label(stage: int, position: int) -> str:
        names = stages[stage] if stage < len(stages) else ()
        return modules.get(names[position], names[position]) if position < len(names) else "the end"

    last = len(memory.timeline)
    return {
        "title": f"The arena of {report.model}: addresses upwards, time to the right",
        "arena_bytes": memory.arena_bytes,
        "peak": peak_moment(memory),
        "moments": [
            {"stage": at.stage, "bytes": at.bytes, "label": moment_label(at.stage, at.position)}
            for at in memory.timeline
        ],
        "buffers": [
            {
                "name": one.name,
                "label": buffer_label(report, one.name, modules),
                "short": _short(one.name, buffer_label(report, one.name, modules), modules),
                "kind": one.kind.value,
                "offset": one.offset,
                "bytes": one.bytes,
                "start": min(one.start, last - 1),
                "end": min(max(one.end, one.start + 1), last),
                "persists": one.persists,
                "ring_rows": one.ring_rows,
                "rows": one.rows or one.ring_rows,
                "over": list(one.over),
                "shape": shapes.get(one.name, []),
            }
            for one in memory.buffers
        ],
    }


def _short(name: str, label: str, modules: dict[str, str]) -> str:
    """Abbreviates a label to fit a rectangle: for a layer's output, the module alone."""
    return modules[name] if label.startswith("output of") else label


def peak_moment(memory: MemoryReport) -> int:
    """Returns the moment at which live buffers reach the highest address; the fullest of these if there are several."""

    def top(number: int) -> int:
        live = [one for one in memory.buffers if one.start <= number < one.end]
        return max((one.offset + one.bytes for one in live), default=0)

    return max(range(len(memory.timeline)), key=lambda number: (top(number), memory.timeline[number].bytes), default=0)


def modules_of(report: Report) -> dict[str, str]:
    """Maps each layer to its module; without one, to the input it reads, or its own name."""
    inputs = {tensor.node: f"input '{tensor.name}'" for tensor in report.inputs}
    return {layer.name: layer.module or inputs.get(layer.name, layer.name) for layer in report.layers}


def buffer_label(report: Report, buffer: str, modules: dict[str, str]) -> str:
    """Names a buffer in terms of the model."""
    for tensor in report.inputs:
        if buffer == tensor.node:
            return f"input '{tensor.name}'"
    for state in report.state:
        if buffer == state.node:
            return f"state '{state.name}'"
    layer, _, what = buffer.partition(".")
    module = modules.get(layer)
    return buffer if module is None else f"{what or 'output'} of {module}"


def peak_table(report: Report, memory: MemoryReport) -> Markup:
    modules, places = modules_of(report), {one.name: one for one in memory.buffers}
    buffers = sorted(memory.peak_buffers, key=lambda buffer: -buffer.bytes)
    rows = [(buffer_label(report, one.name, modules), *_place(places.get(one.name)), one.bytes) for one in buffers]
    head = ("buffer", "kind", "address", "bytes")
    return Table(head, rows, frozenset({2, 3}), name="peak").markup() if rows else Markup("")


def _place(buffer: ArenaBufferReport | None) -> tuple[str, int | None]:
    return ("", None) if buffer is None else (buffer.kind.value, buffer.offset)


# ---- page layers -----------------------------------------------------------------------------------------

_ESTIMATED = (
    "Estimated cycles come from a table of kernel costs. `cortado profile DIR --save` measures instructions and "
    "cycles and writes them here."
)


def layer_table(report: Report) -> Markup:
    """Tabulates the layers: shape, constants, products, cycles (estimated until measured), and decibels where known."""
    if not report.layers:
        return Markup("")
    spent = {} if report.profile is None else {one.name: one for one in report.profile.layers}
    kept = {} if report.fidelity is None else {one.name: one for one in report.fidelity.layers}
    measured: tuple[str, ...] = ("instructions", "cycles") if report.profile is not None else ("estimated cycles",)
    chip = _on_chip(report)
    measured += ("on the chip",) if chip else ()
    head = ("layer", "stage", "operator", "output", "weights, bytes", "products", *measured)
    head += ("SQNR",) if report.fidelity is not None else ()
    stages = () if report.schedule is None else report.schedule.stages
    where = {name: number for number, names in enumerate(stages) for name in names}
    cycles = {
        layer.name: spent[layer.name].cycles.typical if layer.name in spent else layer.estimated_cycles
        for layer in report.layers
    }
    most, modules = max(count or 0 for count in cycles.values()) or 1, modules_of(report)
    rows = []
    for layer in report.layers:
        row: list[Any] = [modules[layer.name], where.get(layer.name), operator_base(layer.operator)]
        row += [shape_text(layer.shape), layer.weights_bytes, layer.macs]
        if report.profile is not None:
            row.append(spent[layer.name].instructions if layer.name in spent else None)
        row.append(_cycles(cycles[layer.name], most))
        row += [chip.get(layer.name)] if chip else []
        if report.fidelity is not None:
            one = kept.get(layer.name)
            row.append("" if one is None else decibels(one.sqnr_db, exact=one.exact))
        rows.append(row)
    numbers = frozenset({1, *range(4, len(head))})
    table = Table(head, rows, numbers, foot=_sums(report, len(head)), sortable=True, name="layers").markup()
    return Markup(f"{table}\n{note(_profiled(report))}")


def _on_chip(report: Report) -> dict[str, int]:
    """Returns the cycles of each layer on a chip behind a debug probe."""
    found = None if report.profile is None else report.profile.measured
    names = (layer.name for layer in report.layers)
    return {} if found is None else dict(zip(names, found.layer_cycles, strict=False))


def _cycles(cycles: int | None, most: int) -> TableCell:
    return TableCell("not estimated", 0) if cycles is None else TableCell(f"{cycles:,}", cycles, share=cycles / most)


def _sums(report: Report, columns: int) -> Sequence[Any]:
    """Returns the row of sums; constants count once, as in the bundle, because layers may share them."""
    flash, profile = report.flash, report.profile
    row: list[Any] = ["all", None, "", "", None if flash is None else flash.weights_bytes, report.macs]
    if profile is not None:
        row += [profile.instructions, profile.cycles.typical]
    else:
        row.append(sum(layer.estimated_cycles or 0 for layer in report.layers))
    return row + [""] * (columns - len(row))


def _profiled(report: Report) -> str:
    profile, fidelity = report.profile, report.fidelity
    texts = [_ESTIMATED]
    if profile is not None:
        texts = [
            f"Instructions are exact, counted on the emulated board {profile.board}; the sum includes what runs before "
            f"the first layer. Cycles come from a model of the {profile.core} at zero wait states (grade "
            f"{profile.grade}), {profile.cycles.low:,} to {profile.cycles.high:,} in total."
        ]
    if fidelity is not None:
        count = f"{fidelity.samples:,} sample{'s' if fidelity.samples > 1 else ''}"
        texts.append(
            f"SQNR: signal-to-noise ratio of a layer's output against {fidelity.float_model} in float, on {count}."
        )
    else:
        texts.append("`cortado validate DIR --per-layer --save` adds how far each layer is from the float model.")
    return " ".join(texts)


def decibels(value: float | None, *, exact: bool) -> TableCell:
    if exact:
        return TableCell("exact", 1000.0)
    return TableCell("") if value is None else TableCell(f"{value:.1f} dB", value)


def shape_text(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))  # noqa: RUF001


# ---- quantization ---------------------------------------------------------------------------------------------------


def tensor_table(report: Report) -> Markup:
    """Tabulates inputs and outputs of the C bundle, or of a .pte alone."""
    rows = [
        (
            f"{kind} {tensor.name}",
            str(list(tensor.model_shape)),
            str(list(tensor.shape)),
            tensor.dtype.value,
            *_codes(tensor),
        )
        for kind, tensors in (("input", report.inputs), ("output", report.outputs))
        for tensor in tensors
    ]
    rows += [
        (f"state {one.name}", str(list(one.shape)), str(list(one.shape)), one.dtype.value, *_codes(one))
        for one in report.state
    ]
    head = ("", "shape in the model", "shape here", "type", "scale", "zero point", "smallest", "largest")
    return Table(head, rows, frozenset(range(4, 8)), name="tensors").markup()


def quantization_table(report: Report) -> Markup:
    modules = modules_of(report)
    rows = [
        (
            modules[layer.name],
            operator_base(layer.operator),
            layer.element or "",
            *_codes(layer),
            *_weights(layer.weight_scales),
        )
        for layer in report.layers
        if layer.scale is not None or layer.seen is not None
    ]
    head = (
        "layer",
        "operator",
        "type",
        "scale",
        "zero point",
        "smallest",
        "largest",
        "weight scales",
        "least",
        "most",
    )
    table = Table(head, rows, frozenset(range(3, 10)), sortable=True, name="quantization").markup()
    text = (
        "A real value is scale * (code - zero point); smallest and largest are the values that the codes can "
        "represent; for float32, those of the example input."
    )
    return Markup(f"{table}\n{note(text)}") if rows else Markup("")


def _codes(value: TensorReport | StateReport | LayerReport) -> tuple[Any, ...]:
    """Returns scale, zero point and range of a quantized tensor. A tensor that callers see as real numbers has int8
    codes; only the .pte has such."""
    scale, zero = value.scale, value.zero_point
    if scale is None or zero is None:
        seen = None if isinstance(value, StateReport) else value.seen
        ends = ("", "") if seen is None else (TableCell(f"{end:.4g}", end) for end in (seen.least, seen.largest))
        return ("", "", *ends)
    shown, kind = TableCell(f"{scale:.9g}", scale), value.element if isinstance(value, LayerReport) else value.dtype
    if kind is None:
        return shown, zero, "", ""
    element = element_of(kind.value)
    low, high = ((code - zero) * scale for code in (INT8 if element.floating else element).codes)
    return shown, zero, TableCell(f"{low:.4g}", low), TableCell(f"{high:.4g}", high)


def _weights(scales: WeightScalesReport | None) -> tuple[Any, ...]:
    if scales is None:
        return ("", "", "")
    least, largest = (TableCell(f"{value:.4g}", value) for value in (scales.least, scales.largest))
    return scales.channels, least, largest


# ---- page ------------------------------------------------------------------------------------------------


def build_page(report: Report) -> str:
    title = f"{report.model} for {report.target}"
    head = f"<header><h1>{html_text(title)}</h1>\n{note(_subtitle(report))}</header>"
    foot = (
        f"<footer>Written by Cortado {html_text(report.cortado_version)}, from report.json beside this file.</footer>"
    )
    return document(title, [head, "<main>", *_body(report), "</main>", foot])


def _body(report: Report) -> Iterator[str]:
    yield warnings(report)
    yield cards(report)
    memory = report.memory
    if memory is not None:
        yield section("Arena", arena_map(report, memory))
        yield '<div class="two">'
        yield section("Buffers at the peak", peak_table(report, memory))
        yield section("Other ways to optimize", _alternatives(memory), _single_targets(memory))
        yield "</div>"
    yield section("Layers", layer_table(report))
    yield section("Inputs and outputs", tensor_table(report))
    yield section("Spectra of the example input", spectrograms(report))
    yield section("Quantization", quantization_table(report))
    yield section("Precision", precision_table(report))
    yield section("In float32", bullets([_island(item) for item in report.islands]))
    yield section("In float", bullets([_float(item) for item in report.float_operators]))
    yield section("Why there is no C bundle", bullets(report.bundle_missing))
    yield section("Why there is no .pte", bullets(report.pte_missing))
    yield section("Notes", bullets([*report.pte_limits, *report.notes]))
    if report.calibrated is not None:
        yield section("Calibration", _candidates(report.calibrated))
    yield section("Options", _options(report))


def _subtitle(report: Report) -> str:
    texts = [f"--optimize {report.options.optimize.value}", f"{len(report.layers)} layers"]
    if report.schedule is not None:
        texts.append(f"{len(report.schedule.stages)} stages")
    if report.chip is not None:
        texts.append(f"{report.chip.name} at {report.chip.clock_hz / 1e6:g} MHz")
    if report.calibration is not None:
        texts.append(f"calibrated with {report.calibration.batches} inputs ({report.calibration.data})")
    return ", ".join(texts)


def warnings(report: Report) -> Markup:
    texts = [finding.text for finding in report.warnings]
    return Markup(f'<div class="warnings">\n{section("Warnings", bullets(texts))}\n</div>') if texts else Markup("")


# ---- the figures ----------------------------------------------------------------------------------------------------


def cards(report: Report) -> Markup:
    shown = "\n".join(
        f'<div class="card"><dt>{html_text(what)}</dt><dd class="figure">{html_text(figure)}</dd>'
        f'<dd class="more">{html_text(more)}</dd></div>'
        for what, figure, more in _figures(report)
    )
    return Markup(f'<dl class="cards">\n{shown}\n</dl>')


def _figures(report: Report) -> Iterator[tuple[str, str, str]]:
    """Yields the name of a figure, its value, and a remark."""
    yield from _memory_figures(report)
    flash, pte, macs = report.flash, report.pte, report.macs
    if flash is not None:
        code = "code unknown without arm-none-eabi-gcc" if flash.code_bytes is None else f"{flash.code_bytes:,} of code"
        total = flash.weights_bytes + (flash.code_bytes or 0)
        yield "flash", f"{total:,} bytes", f"{flash.weights_bytes:,} of constants, {code}"
    if macs is not None:
        less = (
            f"; {report.removed_channels:,} channels that nothing needs were removed" if report.removed_channels else ""
        )
        yield "products", f"{macs:,}", f"multiply-accumulates of one inference{less}"
    yield from _time_figures(report)
    yield from _accuracy_figures(report)
    if pte is not None:
        yield ".pte", f"{pte.bytes:,} bytes", f"its arena: {pte.arena_bytes:,} bytes"


def _memory_figures(report: Report) -> Iterator[tuple[str, str, str]]:
    memory, stream = report.memory, report.stream
    if memory is not None:
        least = f"no plan of these stages can need less than {memory.lower_bound_bytes:,}"
        proof = "no plan of these stages needs less" if memory.optimal else least
        yield "RAM: the arena", f"{memory.arena_bytes:,} bytes", f"inputs and outputs included; {proof}"
        if memory.stack_bytes is not None:
            yield "RAM: the stack", f"{memory.stack_bytes:,} bytes", "of one call, without interrupts"
    if report.state:
        names = ", ".join(one.name for one in report.state)
        yield "state", f"{sum(one.bytes for one in report.state):,} bytes", f"persist from call to call: {names}"
    if stream is not None:
        yield "persists from row to row", f"{stream.state_bytes:,} bytes", f"of the arena; {stream.windows.in_words}"


def _time_figures(report: Report) -> Iterator[tuple[str, str, str]]:
    profile, longest = report.profile, report.longest_call
    if longest is not None:
        yield (
            "longest kernel call",
            f"{longest.cycles:,} cycles",
            f"estimated: {longest.layer}; CORTADO_YIELD runs between calls",
        )
    if profile is None:
        estimates = [layer.estimated_cycles for layer in report.layers if layer.estimated_cycles is not None]
        if estimates:
            left = len(report.layers) - len(estimates)
            of = f"of {len(estimates)} kernels; {left} have no estimate" if left else "of the kernels"
            yield "estimated cycles", f"{sum(estimates):,}", f"{of}; not measured yet (cortado profile --save)"
        return
    more = f"{profile.instructions:,} instructions; {profile.cycles.low:,} to {profile.cycles.high:,} cycles"
    yield "cycles", f"{profile.cycles.typical:,}", f"{more}, a model of the {profile.core}"
    if profile.measured is not None:
        chip = profile.measured
        least = min((chip.first_cycles, *chip.later_cycles))
        yield "measured cycles", f"{least:,}", f"{chip.first_cycles:,} in the first run; {chip.core}, {chip.conditions}"
    if profile.clock_hz is not None:
        low, typical, high = (1000 * count / profile.clock_hz for count in vars(profile.cycles).values())
        yield (
            "time",
            f"{typical:.4g} ms",
            f"{low:.4g} to {high:.4g} ms, {profile.chip} at {profile.clock_hz / 1e6:g} MHz",
        )


def _accuracy_figures(report: Report) -> Iterator[tuple[str, str, str]]:
    found = report.evaluation
    if found is None:
        return
    for what, value, before, style in (
        ("accuracy", found.accuracy, found.float_accuracy, ".2%"),
        ("AUC", found.auc, found.float_auc, ".4f"),
    ):
        if value is not None:
            beside = "" if before is None else f"{before:{style}} in float, "
            yield what, f"{value:{style}}", f"{beside}{found.samples:,} samples"
    if found.exact or found.sqnr_db is not None:
        figure = "exact" if found.exact else f"{found.sqnr_db:.1f} dB"
        yield "SQNR of the outputs", figure, f"against the float model, {found.samples:,} samples"


# ---- the small tables -----------------------------------------------------------------------------------------------


def _options(report: Report) -> Markup:
    options = {
        f"--{name.replace('_', '-')}": ", ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in to_json(report.options).items()
    }
    return Table(("option", "value"), list(options.items()), name="options").markup()


def _candidates(chosen: ChoiceReport) -> Markup:
    """Tabulates the candidates, each with its worst output."""
    rows = [(one.method.value, one.corrected_layers, _least(one.outputs_db)) for one in chosen.candidates]
    text = f"Judged by {chosen.samples} calibration samples. Chosen: {chosen_ranges(chosen)}."
    table = Table(
        ("ranges", "layers with corrected biases", "dB of the worst output"), rows, frozenset({1, 2})
    ).markup()
    return Markup(f"{table}\n{note(text)}")


def _least(kept: Sequence[float | None]) -> str:
    known = [one for one in kept if one is not None]
    return f"{min(known):.1f}" if known else "-"


def _alternatives(memory: MemoryReport) -> Markup:
    rows = [
        (f"--optimize {optimize.value}", other.arena_bytes, other.row_calls)
        for optimize, other in memory.alternatives.items()
    ]
    text = "Row calls: how often a kernel is called in one inference, each time for one or a few rows of its output."
    table = Table(("", "arena, bytes", "row calls"), rows, frozenset({1, 2})).markup()
    return Markup(f"{table}\n{note(text)}")


def _single_targets(memory: MemoryReport) -> Markup:
    single = memory.single_targets
    if not single:
        return Markup("")
    rows = [(target, TableCell(f"{size:,}", size)) for target, size in single.items()]
    return Table(("compiled for one core", "arena, bytes"), rows, frozenset({1})).markup()


def _island(item: IslandReport) -> str:
    where = f" at {item.source}" if item.source else ""
    cycles = "" if item.estimated_cycles is None else f", about {item.estimated_cycles:,} cycles"
    return f"{item.operator}{where}{cycles}: {item.reason}"


def _float(item: FloatOperatorReport) -> str:
    where = f" at {item.source}" if item.source else ""
    return f"{item.operator}{where}: {item.reason}"
