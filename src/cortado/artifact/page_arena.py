"""The arena in report.html: the data of the map that the page's script draws, and what stands around it."""

from typing import Any

from cortado.artifact.html import Markup, Table, embedded, note
from cortado.artifact.report import ArenaBufferReport, BufferKind, MemoryReport, Report
from cortado.base.names import html_text

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
    "A rectangle is a buffer: from its first byte to its last, from the layer that makes it to the last that reads it. "
    "A stage is one layer, or several that run interleaved, a few rows at a time, so that the tensors between them are "
    "rings of rows and never whole. Hatched: an output takes bytes of an input that nobody reads any more."
)


def arena_map(report: Report, memory: MemoryReport) -> Markup:
    """Nothing of a report that was written before buffers were in it."""
    if not memory.buffers or not memory.timeline:
        return Markup("")
    kinds = {buffer.kind for buffer in memory.buffers}
    entries = [(f"kind-{kind.value}", text) for kind, text in _KINDS.items() if kind in kinds]
    if any(buffer.over for buffer in memory.buffers):
        entries.append(("kind-over", "laid over an input"))
    if any(buffer.persists for buffer in memory.buffers):
        entries.append(("kind-lasts", "lasts from call to call" if report.stream is None else "lasts from row to row"))
    legend = "".join(f'<span class="{kind}">{html_text(text)}</span>' for kind, text in entries)
    return Markup(f"""<div class="arena">
<div class="tools"><span><button type="button" id="zoom-in" aria-label="zoom in">+</button>
<button type="button" id="zoom-out" aria-label="zoom out">&minus;</button>
<button type="button" id="zoom-all">all</button></span><span class="legend">{legend}</span></div>
<div id="arena-picture"><noscript><p>The picture is drawn by a script, and scripts are off. The tables below say the
same.</p></noscript></div>
<div class="tip" id="arena-tip" hidden></div>
<div class="details" id="arena-details" aria-live="polite"><p class="note">Point at a buffer, or reach the picture with
Tab and walk: left and right in the order of birth, up and down by address. Enter zooms in, Escape out.</p></div>
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
    """Returns what fits into a rectangle: of a layer's output the module alone."""
    return modules[name] if label.startswith("output of") else label


def peak_moment(memory: MemoryReport) -> int:
    """The moment whose live buffers reach highest; of several such, the fullest."""

    def top(number: int) -> int:
        live = [one for one in memory.buffers if one.start <= number < one.end]
        return max((one.offset + one.bytes for one in live), default=0)

    return max(range(len(memory.timeline)), key=lambda number: (top(number), memory.timeline[number].bytes), default=0)


def modules_of(report: Report) -> dict[str, str]:
    """The module that each layer comes from; where there is none, the input that it takes, or its own name."""
    inputs = {tensor.node: f"input '{tensor.name}'" for tensor in report.inputs}
    return {layer.name: layer.module or inputs.get(layer.name, layer.name) for layer in report.layers}


def buffer_label(report: Report, buffer: str, modules: dict[str, str]) -> str:
    """A buffer in the words of the model."""
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
