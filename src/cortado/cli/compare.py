"""cortado compare.

Also the summary of one compile for several targets: one table, and a page that has them side by side.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cortado.base.errors import CortadoError
from cortado.cli.tables import in_columns

if TYPE_CHECKING:
    from cortado.artifact.comparison import Comparison, Figure, LayerRow
    from cortado.artifact.report import Report


# ---- compare ---------------------------------------------------------------------------------------------

SHOWN_LAYERS = 30


def compare_command(arguments: argparse.Namespace) -> None:
    from cortado.artifact.comparison import compare, read_models
    from cortado.artifact.folder import write_file
    from cortado.artifact.pages import build_index

    found = compare(read_models(arguments.models))
    if arguments.html is not None:
        if arguments.html.is_dir():
            raise CortadoError(f"can't write {arguments.html}: it is a folder; name a file to write the page to")
        write_file(arguments.html, build_index(found, arguments.html.absolute().parent).encode())
    print(json.dumps(found.to_json(), indent=2) if arguments.json else "\n".join(comparison_lines(found)))


def comparison_lines(found: "Comparison") -> list[str]:
    from cortado.artifact.pages import option_text

    lines = figure_lines(found)
    if found.options:
        head = ("CHOSEN DIFFERENTLY", *(one.name for one in found.models))
        rows = [(name.replace("_", " "), *map(option_text, values)) for name, values in found.options]
        lines += ["", *in_columns([head, *rows])]
    return [*lines, *_layer_lines(found)]


def figure_lines(found: "Comparison") -> list[str]:
    """Tabulates the figures, with the difference if there are two models."""
    head = ["", *(one.name for one in found.models), *(["DIFFERENCE"] if len(found.models) == 2 else [])]
    return _to_the_right([head, *([row.title, *_cells(row.values)] for row in found.figures)], first=1)


def _layer_lines(found: "Comparison") -> list[str]:
    """Lists the layers that differ, at most those whose cycles differ most."""
    if not found.layers:
        return ["", "no layer differs in operator, shape, constants, MACs or cycles"]
    order = {id(row): _difference(row) for row in found.layers}
    worst = sorted(found.layers, key=lambda row: -order[id(row)])[:SHOWN_LAYERS]
    shown = [row for row in found.layers if row in worst]
    cycles = "cycles" if found.measured else "estimated cycles"
    more = ["DIFFERENCE"] if len(found.models) == 2 else []
    head = ["LAYER", f"OPERATOR ({cycles})", *(one.name for one in found.models), *more]
    lines = _to_the_right([head, *([row.title, row.operator, *_cells(row.cycles)] for row in shown)], first=2)
    left = len(found.layers) - len(shown)
    return ["", *lines, *([f"and {left} layers that differ less (--json has all)"] if left else [])]


def _difference(row: "LayerRow") -> int:
    known = [cycles or 0 for cycles in row.cycles]
    return max(known) - min(known)


def _cells(values: "Sequence[Figure]") -> list[str]:
    from cortado.artifact.comparison import difference
    from cortado.artifact.pages import figure_text

    shown = [figure_text(value) for value in values]
    return [*shown, difference(values[0], values[1])] if len(values) == 2 else shown


def _to_the_right(rows: Sequence[Sequence[str]], first: int) -> list[str]:
    """Formats a table whose columns from `first` on are numbers, aligned right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return in_columns([[c.rjust(widths[at]) if at >= first else c for at, c in enumerate(row)] for row in rows])


# ---- several ---------------------------------------------------------------------------------------------

CompiledFolders = Sequence[tuple[Path, "Report"]]  # each folder, with the report of what was compiled into it


def several_text(done: CompiledFolders, facts: Mapping[Path, Sequence[tuple[str, str]]]) -> str:
    """Summarizes all compiles: the figures in one table, followed by `facts` that are no figures."""
    rows = [(f"{report.target}: {label}", text) for folder, report in done for label, text in facts[folder]]
    rows += [("written to", str(folder)) for folder, _ in done]
    rows.append(("side by side", str(_index(done))))
    width = max(len(label) for label, _ in rows)
    title = f"{done[0][1].model} for {len(done)} targets"
    return "\n".join(
        [title, *figure_lines(_compared(done)), "", *(f"{label:>{width}}  {text}" for label, text in rows)]
    )


def write_index(done: CompiledFolders) -> None:
    from cortado.artifact.folder import write_file
    from cortado.artifact.pages import build_index

    path = _index(done)
    write_file(path, build_index(_compared(done), path.parent).encode())


def _index(done: CompiledFolders) -> Path:
    from cortado.artifact.pages import INDEX

    return done[0][0].parent / INDEX


def _compared(done: CompiledFolders) -> "Comparison":
    from cortado.artifact.comparison import compare, named

    return compare(named(done))
