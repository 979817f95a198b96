"""Counters of saturated values for builds with CORTADO_CHECK_RANGES: the tensors that have a range, and its ends."""

from collections.abc import Iterator
from dataclasses import dataclass

from cortado.base.names import c_identifier, c_string
from cortado.emit.c.arena import place
from cortado.emit.c.text import comment, listed
from cortado.plan.lowered import Ends
from cortado.plan.planned import Planned
from cortado.plan.program import Program, Step, Walk


@dataclass(frozen=True)
class CountedRange:
    """A tensor whose saturated values are counted: an input, or a result of a step."""

    name: str
    ends: Ends
    result: int = 0
    last: bool = False  # available only after the last call

    @property
    def row(self) -> str:
        low = "CORTADO_NO_CODE" if self.ends.low is None else str(self.ends.low)
        return f"{{{low}, {self.ends.high}, {self.ends.element.bytes}, {self.result}, {int(self.last)}}}"


def _inputs(program: Program) -> list[CountedRange]:
    """Returns the ranges of whole inputs; one that comes row by row is a step's result."""
    whole = program.inputs if program.pushed is None else ()
    return [CountedRange(one.name, program.ends[one.buffer]) for one in whole if one.buffer in program.ends]


def _results(program: Program, step: Step) -> Iterator[CountedRange]:
    for number, buffer in enumerate(step.outputs):
        if buffer in program.ends:
            yield CountedRange(buffer, program.ends[buffer], number, step.kind is Walk.ACCUMULATE)


def _counted(program: Program) -> tuple[list[CountedRange], list[int]]:
    """Returns all ranges, inputs first, and the index of each step's first."""
    found, firsts = _inputs(program), []
    for step in program.steps:
        firsts.append(len(found))
        found += _results(program, step)
    return found, [*firsts, len(found)]


def ranges_declaration(planned: Planned) -> str:
    """Declares the counters in MODEL.h."""
    name = c_identifier(planned.program.name)
    found, _ = _counted(planned.program)
    about = comment(
        "For each tensor, how many values were at an end of its range, where they may have saturated. Counts add up "
        "over all runs and arenas; set them to 0 to start again."
    )
    return f"""#ifdef CORTADO_CHECK_RANGES
{about}
#define {name.upper()}_RANGES {len(found)}u
extern uint32_t {name}_saturated[{max(len(found), 1)}];
extern const char *const {name}_range_names[{max(len(found), 1)}];
#endif
"""


def ranges_text(planned: Planned) -> str:
    """Defines the tables of MODEL.c."""
    name = c_identifier(planned.program.name)
    found, firsts = _counted(planned.program)
    rows = "\n".join(f"    {one.row}," for one in found) or "    {0, 0, 1, 0, 0},"
    names = "\n".join(f"    {c_string(one.name)}," for one in found) or "    NULL,"
    return f"""#ifdef CORTADO_CHECK_RANGES
/* The ranges of inputs, then of the results of each step: their ends in codes. */
static const cortado_range_t ranges[] = {{
{rows}
}};
static const uint16_t first_range[] = {{
    {listed(map(str, firsts), indent=4)}
}};
uint32_t {name}_saturated[{max(len(found), 1)}];
const char *const {name}_range_names[{max(len(found), 1)}] = {{
{names}
}};
#endif
"""


def counted_inputs(planned: Planned) -> str:
    """Returns the statements of MODEL_run, before its first stage, that count the inputs' saturated values."""
    program = planned.program
    name = c_identifier(program.name)
    given = [one for one in program.inputs if one.buffer in program.ends]
    lines = "\n".join(
        f"    {name}_saturated[{number}] +=\n"
        f"        cortado_at_ends(&ranges[{number}], {place(planned, one.buffer, 'const uint8_t')}, {one.bytes}u);"
        for number, one in enumerate(given)
    )
    return f"#ifdef CORTADO_CHECK_RANGES\n{lines}\n#endif\n" if lines else ""
