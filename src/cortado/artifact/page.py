"""report.html: the report for people. One file, nothing loaded from anywhere, made from report.json's data alone."""

from collections.abc import Iterable, Sequence
from typing import Any

from cortado.artifact.report import FloatOperatorReport, MemoryReport, Report, ScheduleReport
from cortado.base.codec import to_json
from cortado.base.names import html_text, operator_base

WIDTH, HEIGHT = 960, 240  # of the picture

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1d2733; max-width: 980px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em } h2 { font-size: 1.1em; margin-top: 2em }
table { border-collapse: collapse; width: 100% } td, th { padding: 3px 10px 3px 0; text-align: left }
th { border-bottom: 1px solid #9aa7b5; font-weight: 600 } tr:nth-child(even) td { background: #f4f6f8 }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
svg { width: 100%; height: auto; background: #f4f6f8 } svg rect:hover { fill: #c2571a }
.bar { background: #4f86b8; height: 9px } p.note { color: #5b6875 }
"""


def build_page(report: Report) -> str:
    title = f"{report.model} for {report.target}"
    parts = [
        _section("Warnings", _list([finding.text for finding in report.warnings])),
        _summary(report),
        _section("Inputs and outputs", _tensors(report)),
        _section("Options", _options(report)),
    ]
    if report.memory is not None and report.schedule is not None:
        parts += [
            _section("RAM over time", _timeline(report, report.memory, report.schedule)),
            _section("What lives at the peak", _peak(report, report.memory)),
            _section("Other ways to optimize", _alternatives(report.memory)),
            _section("One artifact for any core", _single_targets(report.memory)),
        ]
    parts += [
        _section("In float", _list([_float(item) for item in report.float_operators])),
        _section("Why there is no C bundle", _list(report.bundle_missing)),
        _section("Why there is no .pte", _list(report.pte_missing)),
        _section("Notes", _list([*report.pte_limits, *report.notes])),
        _section("Layers", _layers(report)),
    ]
    body = "\n".join(part for part in parts if part)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{html_text(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{html_text(title)}</h1>
{body}
<p class="note">Written by Cortado {html_text(report.cortado_version)}.</p>
</body>
</html>
"""


def _section(title: str, content: str) -> str:
    return f"<h2>{html_text(title)}</h2>\n{content}" if content else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]], numbers: frozenset[int] = frozenset({1})) -> str:
    """`numbers` are the columns of numbers."""

    def line(tag: str, cells: Sequence[Any]) -> str:
        texts = []
        for column, cell in enumerate(cells):
            kind = ' class="number"' if column in numbers else ""
            text = f"{cell:,}" if isinstance(cell, int) else html_text(str(cell))
            texts.append(f"<{tag}{kind}>{text}</{tag}>")
        return f"<tr>{''.join(texts)}</tr>"

    return "<table>\n" + "\n".join([line("th", head), *(line("td", row) for row in rows)]) + "\n</table>"


def _list(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{html_text(item)}</li>" for item in items) + "</ul>" if items else ""


def _summary(report: Report) -> str:
    memory, flash, pte = report.memory, report.flash, report.pte
    rows: list[Sequence[Any]] = []
    if memory is not None:
        least = f"no plan of these stages can need less than {memory.lower_bound_bytes:,}"
        proof = "no plan of these stages needs less" if memory.optimal else least
        rows.append(("RAM: the arena, inputs and outputs included", memory.arena_bytes, proof))
    for one in report.state:
        where = "" if one.offset is None else f"from byte {one.offset:,} of the arena on"
        rows.append((f"state: {one.name}", one.bytes, where))
    if flash is not None:
        rows.append(("flash: constants", flash.weights_bytes, ""))
    if flash is not None and flash.code_bytes is not None:
        rows.append(("flash: code", flash.code_bytes, ""))
    if pte is not None:
        rows.append((".pte file", pte.bytes, f"its arena: {pte.arena_bytes:,} bytes"))
    if report.macs is not None:
        rows.append(("multiply-accumulates", report.macs, f"{len(report.layers)} layers"))
    return _table(("", "bytes", ""), rows)


def _tensors(report: Report) -> str:
    """What the C bundle reads and writes; of a .pte alone, what that does."""
    rows = []
    for kind, tensors in (("input", report.inputs), ("output", report.outputs)):
        for tensor in tensors:
            scale = "" if tensor.scale is None else f"{tensor.scale:.9g}"
            zero = "" if tensor.zero_point is None else str(tensor.zero_point)
            shapes = (str(list(tensor.model_shape)), str(list(tensor.shape)))
            rows.append((kind, tensor.name, *shapes, tensor.dtype, scale, zero))
    return _table(("", "name", "shape in the model", "shape here", "type", "scale", "zero point"), rows, frozenset())


def _options(report: Report) -> str:
    options = {f"--{name.replace('_', '-')}": value for name, value in to_json(report.options).items()}
    texts = {name: ("yes" if value else "no") if isinstance(value, bool) else value for name, value in options.items()}
    return _table(("option", "value"), list(texts.items()), frozenset())


def _timeline(report: Report, memory: MemoryReport, schedule: ScheduleReport) -> str:
    """One bar per moment of the schedule, as high as the bytes that live then."""
    moments, arena, stages = memory.timeline, max(memory.arena_bytes, 1), schedule.stages
    modules = _modules(report)
    if not moments:
        return ""
    step = WIDTH / len(moments)
    bars = []
    for number, moment in enumerate(moments):
        high = HEIGHT * moment.bytes / arena
        names = stages[moment.stage] if moment.stage < len(stages) else ()
        layer = modules.get(names[moment.position], "") if moment.position < len(names) else "end"
        label = f"stage {moment.stage}, {layer}: {moment.bytes:,} bytes"
        shade = "#4f86b8" if moment.stage % 2 else "#7ba7cf"
        bars.append(
            f'<rect x="{number * step:.2f}" y="{HEIGHT - high:.2f}" width="{step:.2f}" height="{high:.2f}" '
            f'fill="{shade}"><title>{html_text(label)}</title></rect>'
        )
    text = (
        "Bytes in use from the first step to the last; the full height is the arena. A stage is one layer, or "
        "several that run interleaved, a few rows at a time, so that the tensors between them are never whole. Stages "
        "alternate in colour."
    )
    picture = "\n".join(bars)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">\n{picture}\n</svg>\n<p class="note">{text}</p>'


def _peak(report: Report, memory: MemoryReport) -> str:
    buffers = sorted(memory.peak_buffers, key=lambda buffer: -buffer.bytes)
    rows = [(_label(report, buffer.name), buffer.bytes) for buffer in buffers]
    return _table(("buffer", "bytes"), rows) if rows else ""


def _modules(report: Report) -> dict[str, str]:
    """The module that each layer comes from; the layer's own name where there is none."""
    return {layer.name: layer.module or layer.name for layer in report.layers}


def _label(report: Report, buffer: str) -> str:
    """A buffer in the words of the model."""
    for tensor in report.inputs:
        if buffer == tensor.node:
            return f"input '{tensor.name}'"
    layer = buffer.removesuffix(".scratch")
    what = "output" if layer == buffer else "scratch"
    module = _modules(report).get(layer)
    return buffer if module is None else f"{what} of {module}"


def _alternatives(memory: MemoryReport) -> str:
    rows = [
        (f"--optimize {optimize.value}", other.arena_bytes, other.row_calls)
        for optimize, other in memory.alternatives.items()
    ]
    text = "Row calls: how often a kernel is called for one inference, each time for one or a few rows of its output."
    table = _table(("", "arena bytes", "row calls"), rows, frozenset({1, 2}))
    return f'{table}\n<p class="note">{text}</p>'


def _single_targets(memory: MemoryReport) -> str:
    single = memory.single_targets
    return _table(("compiled for one core", "arena bytes"), list(single.items())) if single else ""


def _float(item: FloatOperatorReport) -> str:
    where = f" at {item.source}" if item.source else ""
    return f"{item.operator}{where}: {item.reason}"


def _layers(report: Report) -> str:
    if not report.layers:
        return ""
    most = max(layer.macs for layer in report.layers) or 1
    stages = () if report.schedule is None else report.schedule.stages
    where = {name: number for number, names in enumerate(stages) for name in names}
    head = "<tr><th>stage</th><th>module</th><th>operator</th><th class=number>MACs</th><th></th></tr>"
    rows = []
    for layer in report.layers:
        operator = operator_base(layer.operator)
        share = 100 * layer.macs / most
        rows.append(
            f"<tr><td>{where.get(layer.name, '')}</td><td>{html_text(layer.module or layer.name)}</td>"
            f'<td>{html_text(operator)}</td><td class="number">{layer.macs:,}</td>'
            f'<td style="width:20%"><div class="bar" style="width:{share:.1f}%"></div></td></tr>'
        )
    return "<table>\n" + "\n".join([head, *rows]) + "\n</table>"
