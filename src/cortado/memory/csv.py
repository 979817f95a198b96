"""Problems and plans as CSV files."""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cortado.base.errors import CortadoError
from cortado.memory.problem import ALIGN, Buffer, Overlay, Plan, Problem, fault_of

# CSV in and out
_STAGED = ("id", "lower_stage", "lower_pos", "upper_stage", "upper_pos", "size")
_PLAIN = ("id", "lower", "upper", "size")
_OPTIONAL = ("align", "alignment", "persists", "overlay_of", "lead", "offset")
_PLAIN_ALIGN = 1
"""Files with lifetimes on a one-level clock come from other tools, where buffers without an alignment have none."""


def write_csv(problem: Problem, plan: Plan | None = None) -> str:
    """Writes the problem, with the offsets of a plan if there is one, as CSV text that `read_csv` can read."""
    columns = [*_STAGED, "align"]
    if any(buffer.persists for buffer in problem.buffers):
        columns.append("persists")
    if problem.overlays:
        columns += ["overlay_of", "lead"]
    if plan is not None:
        columns.append("offset")
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for buffer in problem.buffers:
        times = zip(_STAGED[1:5], (*buffer.start, *buffer.end), strict=True)
        row: dict[str, str | int] = {"id": buffer.name, **dict(times), "size": buffer.size, "align": buffer.align}
        if "persists" in columns:
            row["persists"] = int(buffer.persists)
        if plan is not None:
            row["offset"] = plan.offsets[buffer.name]
        for overlay in problem.overlays:
            if overlay.out == buffer.name:
                writer.writerow({**row, "overlay_of": overlay.inp, "lead": overlay.lead})
                row = {"id": buffer.name}  # further overlays get rows of their own, with nothing else in them
        if len(row) > 1:
            writer.writerow(row)
    return text.getvalue()


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of a CSV file, by column."""

    line: int
    cells: Mapping[str, str]

    def error(self, column: str, message: str) -> CortadoError:
        """Builds the error to raise about a cell."""
        return CortadoError(f"line {self.line}, column '{column}': {message}")

    def text(self, column: str) -> str:
        """Returns a cell; empty if there is no such column."""
        return self.cells.get(column, "").strip()

    def integer(self, column: str) -> int:
        """Returns a cell that must hold an integer."""
        text = self.text(column)
        try:
            return int(text)
        except ValueError:
            raise self.error(column, f"found '{text}', expected an integer") from None


def read_csv(text: str) -> Problem:
    """Reads a problem from CSV text, as `write_csv` writes it or with the four columns id,lower,upper,size."""
    buffers: list[Buffer] = []
    overlays: list[tuple[_Row, Overlay]] = []
    lines: dict[str, int] = {}
    for row in _rows(text):
        extra = row.text("overlay_of") and not row.text("size")
        if not extra:
            buffer = _read_buffer(row)
            if buffer.name in lines:
                raise row.error("id", f"'{buffer.name}' is already the buffer of line {lines[buffer.name]}")
            lines[buffer.name] = row.line
            buffers.append(buffer)
        if row.text("overlay_of"):
            overlays.append((row, Overlay(row.text("id"), row.text("overlay_of"), row.integer("lead"))))
        elif row.text("lead"):
            raise row.error("overlay_of", "found nothing, but column 'lead' is filled: name the buffer to lie over")
    pairs: set[tuple[str, str]] = set()
    for row, overlay in overlays:
        _check_read_overlay(row, overlay, lines)
        if (overlay.out, overlay.inp) in pairs:
            raise row.error("overlay_of", f"'{overlay.out}' is laid over '{overlay.inp}' twice: keep the lower lead")
        pairs.add((overlay.out, overlay.inp))
    return Problem(tuple(buffers), tuple(overlay for _, overlay in overlays))


def _rows(text: str) -> Iterator[_Row]:
    """Yields the lines of a CSV file as rows, after checking its header."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        _check_header(header)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                found = f"found {len(cells)} cells, expected the {len(header)} of the header"
                raise CortadoError(f"line {reader.line_num}: {found}")
            yield _Row(reader.line_num, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise CortadoError(f"line {reader.line_num}: this is not CSV: {error}") from None


def _check_header(header: list[str]) -> None:
    """Refuses missing, duplicate and unknown columns."""
    needed = _PLAIN if "lower" in header else _STAGED
    for column in needed:
        if column not in header:
            raise CortadoError(f"line 1: column '{column}' is missing: expected {','.join(needed)}")
    for number, column in enumerate(header):
        if column not in needed + _OPTIONAL:
            known = ",".join(needed + _OPTIONAL)
            raise CortadoError(f"line 1, column {number + 1}: found '{column}', expected one of {known}")
        if column in header[:number]:
            raise CortadoError(f"line 1, column {number + 1}: '{column}' is there twice")
    if ("lead" in header) != ("overlay_of" in header):
        raise CortadoError("line 1: columns 'overlay_of' and 'lead' only make sense together: add the other one")


def _read_buffer(row: _Row) -> Buffer:
    """Reads the buffer of a row."""
    plain = "lower" in row.cells
    align_column = "alignment" if "alignment" in row.cells else "align"
    if plain:
        start, end = (row.integer("lower"), 0), (row.integer("upper"), 0)
    else:
        start = row.integer("lower_stage"), row.integer("lower_pos")
        end = row.integer("upper_stage"), row.integer("upper_pos")
    align = _PLAIN_ALIGN if plain else ALIGN
    if row.text(align_column):
        align = row.integer(align_column)
    persists = bool(row.text("persists")) and bool(row.integer("persists"))
    buffer = Buffer(row.text("id"), row.integer("size"), start, end, align, persists)
    if fault := fault_of(buffer):
        column = {"name": "id", "end": "upper" if plain else "upper_stage", "align": align_column}
        raise row.error(column.get(fault[0], fault[0]), fault[1])
    return buffer


def _check_read_overlay(row: _Row, overlay: Overlay, names: Mapping[str, int]) -> None:
    """Refuses an overlay that names no buffer of the file, or lies over itself."""
    for column, name in (("id", overlay.out), ("overlay_of", overlay.inp)):
        if name not in names:
            raise row.error(column, f"'{name}' is not a buffer of this file")
    if overlay.out == overlay.inp:
        raise row.error("overlay_of", f"'{overlay.out}' is laid over itself: an overlay needs two different buffers")
