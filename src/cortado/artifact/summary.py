"""Results in a few words for an interpreter's prompt, and in pictures for a notebook.

The pictures show the arena over time and the cycles of each layer. They are plain SVG without scripts or page styles,
since a notebook has its own.
"""

from collections.abc import Iterable

from cortado.artifact.report import BufferKind, ChoiceReport, LayerReport, MemoryReport, PrecisionReport, Report
from cortado.base.names import html_text

# ---- notebook --------------------------------------------------------------------------------------------

_WIDTH = 640
_ARENA_HEIGHT = 220
_BAR = 16
_LABEL = 190
_COLORS = {
    BufferKind.INPUT: "#2f6fed",
    BufferKind.OUTPUT: "#12a37f",
    BufferKind.STATE: "#8f5fd6",
    BufferKind.TENSOR: "#5b8def",
    BufferKind.RING: "#3fb6c6",
    BufferKind.SCRATCH: "#c9c9c9",
    BufferKind.COUNTERS: "#e08a1e",
}


def pictures(report: Report) -> str:
    """Returns the pictures for which there are data, one below the other."""
    arena = "" if report.memory is None else arena_picture(report.memory)
    return arena + cycles_picture(report.layers)


def arena_picture(memory: MemoryReport) -> str:
    """Draws every buffer as a rectangle: its lifetime from left to right, its addresses from bottom to top."""
    moments, size = len(memory.timeline), memory.arena_bytes
    if moments == 0 or size == 0:
        return ""
    across, up = _WIDTH / moments, _ARENA_HEIGHT / size
    parts = [
        _rectangle(
            x=buffer.start * across,
            y=_ARENA_HEIGHT - (buffer.offset + buffer.bytes) * up,
            width=(buffer.end - buffer.start) * across,
            height=buffer.bytes * up,
            color=_COLORS[buffer.kind],
            title=f"{buffer.name} ({buffer.kind.value}): {buffer.bytes:,} bytes at {buffer.offset:,}",
        )
        for buffer in memory.buffers
    ]
    return _figure(f"Arena over time: {size:,} bytes", _ARENA_HEIGHT, parts)


def cycles_picture(layers: tuple[LayerReport, ...]) -> str:
    """Draws a bar for each layer whose cycles are estimated."""
    found = [(layer, layer.estimated_cycles) for layer in layers if layer.estimated_cycles]
    if not found:
        return ""
    most, total = max(cycles for _, cycles in found), sum(cycles for _, cycles in found)
    parts = []
    for at, (layer, cycles) in enumerate(found):
        top, width = at * _BAR, max(cycles / most * (_WIDTH - _LABEL - 90), 1.0)
        name, share = layer.module or layer.name, f"{cycles:,} ({cycles / total:.0%})"
        parts.append(_text(_LABEL - 6, top + 12, name, "end"))
        parts.append(_rectangle(_LABEL, top + 2, width, _BAR - 4, "#e08a1e", f"{layer.operator} {name}: {share}"))
        parts.append(_text(_LABEL + width + 6, top + 12, share, "start"))
    return _figure(f"Estimated cycles by layer: {total:,}", len(found) * _BAR, parts)


def _rectangle(x: float, y: float, width: float, height: float, color: str, title: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} fill="{color}" stroke="#fff" stroke-width="0.5"><title>{html_text(title)}</title></rect>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="11" fill="currentColor">{html_text(text)}</text>'


def _figure(title: str, height: int, parts: list[str]) -> str:
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}">{"".join(parts)}</svg>'
    return f"<figure><figcaption>{html_text(title)}</figcaption>{drawing}</figure>"


# ---- summary ---------------------------------------------------------------------------------------------


def sizes(report: Report) -> list[tuple[str, str]]:
    """Returns RAM and flash as pairs of name and size."""
    found = []
    if report.memory is not None:
        found.append(("RAM", f"{report.memory.arena_bytes:,} bytes"))
    if report.flash is not None:
        found.append(("weights", f"{report.flash.weights_bytes:,} bytes"))
        if report.flash.code_bytes is not None:
            found.append(("code", f"{report.flash.code_bytes:,} bytes"))
    if report.pte is not None:
        found.append((".pte", f"{report.pte.bytes:,} bytes"))
    return found


def chosen_ranges(chosen: ChoiceReport) -> str:
    """Describes the calibration method that was chosen, and its gain."""
    layers = chosen.corrected_layers
    biases = f", biases of {layers} layer{'s' if layers > 1 else ''} corrected" if layers else ""
    gain = f": {chosen.gain_db:+.1f} dB over minmax alone" if layers or chosen.gain_db else ""
    return f"{chosen.method.value}{biases}{gain}"


def in_words(report: Report) -> str:
    facts = ", ".join(f"{value} {what}" for what, value in sizes(report))
    return f"{report.model} for {report.target} in {report.arithmetic}: {facts}"


def html_summary(report: Report) -> str:
    """Summarizes a compiled model for a notebook: sizes and warnings as a table, arena and cycles as pictures."""
    rows = [*sizes(report), *(("warning", finding.text) for finding in report.warnings)]
    title = f"{report.model} for {report.target} in {report.arithmetic}"
    return html_table(title, rows) + pictures(report)


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Returns a table of names and values under a title, as HTML for a notebook."""
    cells = "".join(f"<tr><th>{html_text(what)}</th><td>{html_text(value)}</td></tr>" for what, value in rows)
    return f"<table><caption>{html_text(title)}</caption>{cells}</table>"


def precision_text(found: PrecisionReport) -> str:
    """Describes the choice of --precision auto in one line."""
    wide = sum(one.element == "int16" for one in found.tensors)
    more = found.arena_bytes - found.int8_arena_bytes
    new = "" if found.new_data is None else f", {found.new_data} or more expected on new data"
    return (
        f"{wide} of {len(found.tensors)} tensors are int16: {found.reached}{new} ({found.bar}), {more:,} bytes of RAM "
        f"more than with int8 alone, which reaches {found.int8}"
    )
