"""Results in a few words: for an interpreter's prompt, and for a notebook."""

from collections.abc import Iterable

from cortado.artifact.notebook import pictures
from cortado.artifact.precision import PrecisionReport
from cortado.artifact.report import ChoiceReport, Report
from cortado.base.names import html_text


def sizes(report: Report) -> list[tuple[str, str]]:
    """Returns what it takes of a chip: pairs of a name and a size."""
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
    """Returns what calibration chose for the outputs' sake, and what that is worth."""
    layers = chosen.corrected_layers
    biases = f", biases of {layers} layer{'s' if layers > 1 else ''} corrected" if layers else ""
    gain = f": {chosen.gain_db:+.1f} dB beside minmax alone" if layers or chosen.gain_db else ""
    return f"{chosen.method.value}{biases}{gain}"


def in_words(report: Report) -> str:
    facts = ", ".join(f"{value} {what}" for what, value in sizes(report))
    return f"{report.model} for {report.target} in {report.arithmetic}: {facts}"


def html_summary(report: Report) -> str:
    """The sizes and warnings as a table, the arena and the cycles as pictures: a compiled model in a notebook."""
    rows = [*sizes(report), *(("warning", finding.text) for finding in report.warnings)]
    title = f"{report.model} for {report.target} in {report.arithmetic}"
    return html_table(title, rows) + pictures(report)


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """Returns what a notebook shows: names and values below a title."""
    cells = "".join(f"<tr><th>{html_text(what)}</th><td>{html_text(value)}</td></tr>" for what, value in rows)
    return f"<table><caption>{html_text(title)}</caption>{cells}</table>"


def precision_text(found: PrecisionReport) -> str:
    """Returns what --precision auto has chosen, in a line."""
    wide = sum(one.element == "int16" for one in found.tensors)
    more = found.arena_bytes - found.int8_arena_bytes
    return (
        f"{wide} of {len(found.tensors)} tensors are int16: {found.reached} ({found.bar}), {more:,} bytes of RAM more "
        f"than int8 alone, which reaches {found.int8}"
    )
