"""Compiled models side by side as a page: index.html for several targets, and the output of `cortado compare --html`.

Also report.html of a model with several methods, which links to their reports, and figures added to report.json and
report.html after a model was written.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cortado import __version__
from cortado.artifact.comparison import ComparedModel, Comparison, ComparisonRow, Figure, LayerRow, difference
from cortado.artifact.folder import METHODS, locked, write_folder
from cortado.artifact.html import GENERATOR, Markup, Table, TableCell, document, note, section
from cortado.artifact.opened import PAGE, Artifact
from cortado.artifact.page import build_page
from cortado.artifact.report import Report
from cortado.base.errors import CortadoError
from cortado.base.names import html_text

# ---- index page ------------------------------------------------------------------------------------------

INDEX = "index.html"


def check_index(folder: Path) -> None:
    """Raises if another page exists where the index of several targets would be written."""
    path = folder / INDEX
    try:
        ours = not path.exists() or GENERATOR in path.read_text(errors="replace")
    except OSError as error:
        raise CortadoError(f"can't read {path}: {error.strerror}; choose another folder") from error
    if not ours:
        raise CortadoError(f"can't write {path}: Cortado did not write it; choose another folder, or move it away")


def build_index(comparison: Comparison, folder: Path) -> str:
    """Builds the index; `folder` is its destination, to which links to the models' own pages are relative."""
    models = comparison.models
    names = list(dict.fromkeys(one.report.model for one in models))
    title = f"{', '.join(names)}: {len(models)} compiles side by side"
    head = ("", *(one.name for one in models))
    numbers = frozenset(range(1, len(head)))
    links = ("report", *(_link(one, folder) for one in models))
    figures = Table(head, [links, *(_figure_cells(row) for row in comparison.figures)], numbers, name="figures")
    options = [(_option(name), *(option_text(value) for value in values)) for name, values in comparison.options]
    cycles = "Cycles are measured." if comparison.measured else "Cycles are estimates, because not all were measured."
    layers = Table(
        ("layer", "operator", *head[1:]), map(_layer_cells, comparison.layers), frozenset(range(2, len(head) + 1))
    )
    body = [
        f"<header><h1>{html_text(title)}</h1></header>\n<main>",
        section("Figures", figures.markup(), note("Differences are from the first column.")),
        section("What was chosen differently", Table(head, options).markup() if options else ""),
        section("Layers that differ", layers.markup() if comparison.layers else "", note(cycles))
        if comparison.layers
        else "",
        f"</main>\n<footer>Written by Cortado {html_text(models[0].report.cortado_version)}.</footer>",
    ]
    return document(title, body)


def _link(model: ComparedModel, folder: Path) -> TableCell:
    page = (model.path if model.path.is_dir() else model.path.parent) / PAGE
    if not page.is_file():
        return TableCell("")
    return _page_link(Path(os.path.relpath(page, folder)).as_posix())


def _page_link(place: str) -> TableCell:
    return TableCell(Markup(f'<a href="{html_text(quote(place))}">report.html</a>'))


def _figure_cells(row: ComparisonRow) -> list[str | TableCell]:
    return [row.title, *_beside(row.values, row.smaller_is_better)]


def _layer_cells(row: LayerRow) -> list[str | TableCell]:
    return [row.title, row.operator, *_beside(row.cycles, True)]


def _beside(values: Sequence[Figure], smaller_is_better: bool | None) -> list[TableCell]:
    first, *others = values
    return [TableCell(figure_text(first)), *(_cell(first, other, smaller_is_better) for other in others)]


def _cell(first: Figure, other: Figure, smaller_is_better: bool | None) -> TableCell:
    change = difference(first, other)
    text = figure_text(other) + (f" ({change})" if change not in ("", "same") else "")
    if smaller_is_better is None or first is None or other is None or first == other:
        return TableCell(text)
    return TableCell(text, kind="better" if (other < first) == smaller_is_better else "worse")


def figure_text(value: Figure) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _option(name: str) -> str:
    return name.replace("_", " ")


def option_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


# ---- methods page ----------------------------------------------------------------------------------------


def build_methods_page(facts: Mapping[str, Any]) -> str:
    """Builds the page from the facts of together.json; the methods' own pages are in methods/NAME."""
    methods = [_method_cells(name, one) for name, one in facts["methods"].items()]
    state = [(name, figure_text(size)) for name, size in facts["state"].items()]
    image = facts.get("image")
    memory = [
        ("arena of all methods", figure_text(facts["arena_bytes"])),
        ("state in it", figure_text(sum(facts["state"].values()))),
        ("constants, shared by all", figure_text(facts["weights_bytes"])),
        *([("image of all methods", figure_text(image["bytes"]))] if image else []),
    ]
    title = f"{facts['model']}: {', '.join(facts['methods'])}"
    body = [
        f"<header><h1>{html_text(title)}</h1>\n{note(facts['target'] + ', id ' + facts['id'])}</header>\n<main>",
        section(
            "Methods",
            Table(("method", "in C", "cycles", "report"), methods, frozenset({2}), name="methods").markup(),
            note("Cycles are estimates. The report of a method lists its state as inputs and outputs after its own."),
        ),
        section("Memory", Table(("", "bytes"), memory, frozenset({1})).markup()),
        section("State", Table(("buffer", "bytes"), state, frozenset({1})).markup()) if state else "",
        f"</main>\n<footer>Written by Cortado {html_text(__version__)}, from together.json beside this file.</footer>",
    ]
    return document(title, body)


def _method_cells(name: str, facts: Mapping[str, Any]) -> list[str | int | TableCell]:
    cycles = facts.get("cycles")
    page = _page_link(f"{METHODS}/{name}/{PAGE}")
    return [name, f"{facts['function']}()", "-" if cycles is None else cycles, page]


# ---- figures ---------------------------------------------------------------------------------------------


def save_figures(artifact: Artifact, add: Callable[[Report], Report]) -> None:
    """Applies `add` to the report and rewrites it with its page: both or none, and no other file."""
    folder = artifact.folder
    with locked(folder):
        now = Artifact.open(folder)
        if _without_page(now.report.artifacts) != _without_page(artifact.report.artifacts):
            raise CortadoError(
                f"{folder} was compiled again in the meantime, and the figures belong to what it held before"
            )
        report = add(now.report)
        files: dict[str, str | bytes] = {name: (folder / name).read_bytes() for name in report.artifacts}
        files[PAGE] = build_page(report)
        write_folder(folder, files, report, ours=now.ours)


def _without_page(files: Mapping[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in files.items() if name != PAGE}
