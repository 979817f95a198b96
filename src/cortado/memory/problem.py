"""A memory problem and its plan, as plain data: buffers with lifetimes, overlays, offsets.

Also the timeline: which buffers of a plan are live when. Both can be CSV files.
"""

import csv
import enum
import io
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cortado.base.errors import CortadoError

# ---- problem ---------------------------------------------------------------------------------------------

Time = tuple[int, int]
"""A point on the two-level clock: (stage, position of the step inside it), compared in that order."""


# Problem and plan
ALIGN = 16
"""The default alignment: the widest load or store of any Cortex-M."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """`size` bytes that hold data in the half-open interval [start, end) and begin at a multiple of `align`.

    A buffer that `persists` keeps its data from run to run: it shares no byte with any other, whatever their lifetimes,
    and lies below all buffers that don't, so that the first bytes of the arena are the ones to keep.
    """

    name: str
    size: int
    start: Time
    end: Time
    align: int = ALIGN
    persists: bool = False


@dataclass(frozen=True, slots=True)
class Overlay:
    """`out` and `inp` can share bytes while both are live if offset(out) + lead <= offset(inp).

    `lead` is the number of bytes by which writing `out` can run ahead of the last read of `inp`: 0 means exactly in
    place (or lower), a negative lead means that this many bytes of `inp` are dead before the first byte of `out` is
    written.
    """

    out: str
    inp: str
    lead: int


@dataclass(frozen=True, slots=True)
class Problem:
    """A memory planning problem: the buffers to place. Checked on construction."""

    buffers: tuple[Buffer, ...]
    overlays: tuple[Overlay, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "buffers", tuple(self.buffers))
        object.__setattr__(self, "overlays", tuple(self.overlays))
        names: set[str] = set()
        for buffer in self.buffers:
            if fault := fault_of(buffer):
                raise CortadoError(fault[1])
            if buffer.name in names:
                raise CortadoError(f"two buffers are called '{buffer.name}': give each buffer its own name")
            names.add(buffer.name)
        pairs: set[tuple[str, str]] = set()
        persistent = {buffer.name for buffer in self.buffers if buffer.persists}
        for overlay in self.overlays:
            _check_overlay(overlay, names, persistent)
            if (overlay.out, overlay.inp) in pairs:
                raise CortadoError(
                    f"'{overlay.out}' is laid over '{overlay.inp}' twice: keep the overlay with the lower lead"
                )
            pairs.add((overlay.out, overlay.inp))


def fault_of(buffer: Buffer) -> tuple[str, str] | None:
    """Returns why a buffer can't be planned, as the field and a message; None if it can."""
    if not buffer.name or buffer.name != buffer.name.strip():
        return "name", f"found a buffer called '{buffer.name}': expected a name without space around it"
    if buffer.size < 0:
        return "size", f"buffer '{buffer.name}' has size {buffer.size}: expected 0 or more bytes"
    if not buffer.start < buffer.end:
        lifetime = f"from {buffer.start} to {buffer.end}"
        return "end", f"buffer '{buffer.name}' lives {lifetime}: expected an end, which is exclusive, after the start"
    if buffer.align < 1 or buffer.align & (buffer.align - 1):
        return "align", f"buffer '{buffer.name}' has alignment {buffer.align}: expected a power of two"
    return None


def _check_overlay(overlay: Overlay, names: set[str], persistent: set[str]) -> None:
    """Refuses an overlay of an unknown buffer, of a buffer over itself, or of a persistent one."""
    for name in (overlay.out, overlay.inp):
        if name not in names:
            raise CortadoError(
                f"the overlay of '{overlay.out}' over '{overlay.inp}' names '{name}', which is not a buffer of the "
                "problem"
            )
    if overlay.out == overlay.inp:
        raise CortadoError(f"'{overlay.out}' is laid over itself: an overlay needs two different buffers")
    for name in (overlay.out, overlay.inp):
        if name in persistent:
            raise CortadoError(
                f"the overlay of '{overlay.out}' over '{overlay.inp}' names '{name}', which persists: nothing can "
                "overlay it"
            )


@dataclass(frozen=True, slots=True)
class SearchEffort:
    """The work of a search and its bound; `exhausted` means that it stopped there and a better result may exist.

    Work is counted in candidates, never in seconds: the same problem ends the same way on every machine.
    """

    work: int
    bound: int
    exhausted: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """An offset for every buffer. `lower_bound` is proven: no plan of the problem has a lower peak."""

    offsets: Mapping[str, int]
    peak: int
    lower_bound: int
    optimal: bool
    spent: SearchEffort = field(
        default=SearchEffort(0, 0, exhausted=False), compare=False, repr=False
    )  # how it was found


class Effort(enum.Enum):
    """How hard `plan` tries."""

    QUICK = enum.auto()
    """A few orders and a short random walk, about a millisecond: for a search that plans hundreds of times."""
    FULL = enum.auto()
    """Restarts, then the exact search, until the plan is proven optimal or the work is used up."""


# ---- timeline --------------------------------------------------------------------------------------------


# A plan over time
@dataclass(frozen=True, slots=True)
class Moment:
    """An interval of time [start, end) in which the same buffers are live."""

    start: Time
    end: Time
    live: tuple[str, ...]
    used: int
    """Bytes that hold data: shared ones count once, holes don't count."""
    top: int
    """Bytes of the arena from 0 to the highest live byte, holes included."""


def timeline(problem: Problem, plan: Plan) -> tuple[Moment, ...]:
    """Returns the moments of a plan from the first birth to the last death, without gaps."""
    times = sorted({t for buffer in problem.buffers for t in (buffer.start, buffer.end)})
    return tuple(_moment(problem, plan, start, end) for start, end in itertools.pairwise(times))


def _moment(problem: Problem, plan: Plan, start: Time, end: Time) -> Moment:
    """Builds the moment between two times with no birth or death in between."""
    live = [b for b in problem.buffers if b.start <= start < b.end]
    used = top = 0
    for low, high in sorted((plan.offsets[b.name], plan.offsets[b.name] + b.size) for b in live):
        used += max(0, high - max(low, top))
        top = max(top, high)
    return Moment(start, end, tuple(b.name for b in live), used, top)


def peak_buffers(problem: Problem, plan: Plan) -> tuple[Buffer, ...]:
    """Returns the buffers live at the peak of the arena, lowest first; of several such moments, the one with the most
    data."""
    moments = timeline(problem, plan)
    if not moments:
        return ()
    fullest = max(moments, key=lambda moment: (moment.top, moment.used))
    live = [b for b in problem.buffers if b.name in set(fullest.live)]
    return tuple(sorted(live, key=lambda b: (plan.offsets[b.name], b.name)))


# ---- as CSV -----------------------------------------------------------------------------------------

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
