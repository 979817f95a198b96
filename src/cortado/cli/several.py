"""Several targets of one compile: one table, and a page that has them side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cortado.cli.compare import figure_lines

if TYPE_CHECKING:
    from cortado.artifact.comparison import Comparison
    from cortado.artifact.report import Report

CompiledFolders = Sequence[tuple[Path, "Report"]]  # the folders and what was compiled into them


def several_text(done: CompiledFolders, facts: Mapping[Path, Sequence[tuple[str, str]]]) -> str:
    """The figures in one table; below it `facts`, what is no figure."""
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
    from cortado.artifact.index_page import build_index

    path = _index(done)
    write_file(path, build_index(_compared(done), path.parent).encode())


def _index(done: CompiledFolders) -> Path:
    from cortado.artifact.index_page import INDEX

    return done[0][0].parent / INDEX


def _compared(done: CompiledFolders) -> "Comparison":
    from cortado.artifact.comparison import compare, named

    return compare(named(done))
