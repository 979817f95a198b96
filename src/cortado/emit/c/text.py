"""C text within 120 columns: names, comments and lists.

Also C calls: the functions of MODEL.c that call kernels, and those that compute a kernel's scratch size.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from cortado.base.names import c_identifier, identifier_part, plain
from cortado.base.target import Core
from cortado.ir.c_call import (
    Absent,
    Argument,
    Bytes,
    Callee,
    CCall,
    Member,
    Number,
    Offset,
    Operand,
    Row,
    Typed,
    Written,
)

if TYPE_CHECKING:
    from cortado.plan.planned import Planned
    from cortado.plan.program import Program, Step


# ---- text ------------------------------------------------------------------------------------------------

WIDTH = 120
LONGEST_TITLE = 80


@dataclass(frozen=True)
class OfPlan:
    """A file generated for a planned program, and the names it is written with."""

    planned: "Planned"

    @property
    def program(self) -> "Program":
        return self.planned.program

    @property
    def name(self) -> str:
        return c_identifier(self.program.name)

    @property
    def upper(self) -> str:
        return self.name.upper()

    @property
    def owner(self) -> str:
        return c_identifier(self.program.owner)


def entry_of(program: "Program") -> str:
    """Returns the function that runs the program: MODEL_run, MODEL_push, or MODEL_METHOD for a further method."""
    name = c_identifier(program.name)
    return name if program.method_of else f"{name}_{'run' if program.pushed is None else 'push'}"


def operation(step: "Step") -> str:
    """Returns a step's operator without the parts that all of ExecuTorch's names share, as in conv2d."""
    return step.operator.rpartition("::")[2].removeprefix("quantized_").removesuffix("_nhwc")


def label(step: "Step") -> str:
    """Returns a step's name in comments: its module, or else its operator."""
    return plain(step.module or operation(step))[:LONGEST_TITLE]


def title(step: "Step") -> str:
    """Returns a step's module and operator, as in `features.0: conv2d`."""
    return plain(f"{step.module}: {operation(step)}" if step.module else operation(step))[:LONGEST_TITLE]


class Names:
    """Unique C names: the second features_0 becomes features_0_2."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def new(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self.taken:
            number += 1
            name = f"{wanted}_{number}"
        self.taken.add(name)
        return name

    def of_step(self, step: "Step") -> str:
        return self.new(identifier_part(step.module) or identifier_part(operation(step)) or "step")


def comment(text: str, indent: int = 0) -> str:
    """Wraps text into a C comment."""
    lines = textwrap.wrap(text, WIDTH - indent - len("/*  */"))
    return "/* " + f"\n{' ' * indent} * ".join(lines) + " */"


def titled(text: str, rows: Iterable[str]) -> str:
    """Puts a comment above rows of a table."""
    return "\n".join([f"    {comment(text, indent=4)}", *rows])


def listed(items: Iterable[str], indent: int) -> str:
    """Joins items with commas, as many per line as fit; the first line is indented already."""
    lines: list[str] = []
    for item in items:
        if lines and indent + len(lines[-1]) + len(f", {item})}},") <= WIDTH:  # with room to close the list
            lines[-1] += f", {item}"
        else:
            lines.append(item)
    return f",\n{' ' * indent}".join(lines)


def designated(values: Mapping[str, object]) -> list[str]:
    """Returns designated initializers for a structure's members."""
    return [f".{name} = {value}" for name, value in values.items()]


@dataclass
class Piece:
    """A piece of C that only some cores compile."""

    text: str
    cores: set[Core] = field(default_factory=set)


def guarded(pieces: Iterable[Piece], every: frozenset[Core]) -> str:
    """Joins pieces: first those that every core compiles, then those of some cores inside #if and #endif."""

    def order(piece: Piece) -> tuple[bool, list[Core]]:
        return not piece.cores >= every, sorted(piece.cores)

    parts = []
    for (partly, cores), group in groupby(sorted(pieces, key=order), key=order):
        text = "\n".join(piece.text for piece in group)
        parts.append(f"#if {_test(cores)}\n{text.rstrip()}\n#endif\n" if partly else text)
    return "\n".join(parts)


def core_macro(core: Core) -> str:
    return f"CORTADO_CORE_{core.name}"


def _test(cores: Sequence[Core]) -> str:
    return " || ".join(f"CORTADO_CORE == {core_macro(core)}" for core in cores)


def bad_arena(model: str) -> str:
    """Returns the C condition true of an arena that no function can work in; `model` is the prefix of the model's
    macros."""
    return f"arena == NULL || (uintptr_t)arena % {model}_ARENA_ALIGN != 0"


# ---- calls -----------------------------------------------------------------------------------------------

# The parameters of cortado_call_t. A function with a typed descriptor names it L.
_DECLARED = {
    Operand.LAYER: "const void *layer",
    Operand.ROWS: "const int8_t *const rows[]",
    Operand.OUT: "int8_t *out",
    Operand.N: "int32_t n",
    Operand.SCRATCH: "void *scratch",
    Operand.Y: "int32_t y",
}
_NAMES = {
    Operand.LAYER: "layer",
    Operand.ROWS: "rows",
    Operand.OUT: "out",
    Operand.N: "n",
    Operand.SCRATCH: "scratch",
    Operand.Y: "y",
}


def parameters(indent: int) -> str:
    """Returns the parameters of cortado_call_t."""
    return listed((_DECLARED[operand] for operand in Operand), indent=indent)


def call_function(name: str, struct: str | None, call: CCall) -> str:
    """Defines a step's function that makes this kernel call."""
    head = f"static void {name}("
    used = {operand for argument in call.arguments for operand in _read(argument)}
    used |= {Operand.LAYER} if struct else set()
    unused = "".join(f"    (void){_NAMES[operand]};\n" for operand in Operand if operand not in used)
    return f"{head}{parameters(len(head))})\n{{\n{_binding(struct)}{unused}    {call_text(call)};\n}}\n"


def need_function(name: str, struct: str | None, call: CCall) -> str:
    """Defines the checks build's function that computes a kernel's scratch size from its descriptor."""
    return f"static int32_t {name}(const void *layer)\n{{\n{_binding(struct)}    return {call_text(call)};\n}}\n"


def call_text(call: CCall) -> str:
    return f"{call.function}({', '.join(map(_text, call.arguments))})"


def _binding(struct: str | None) -> str:
    return f"    const {struct} *L = layer;\n" if struct else ""


def _text(argument: Argument) -> str:
    """Formats an argument inside a function that names its descriptor L."""
    match argument:
        case Operand():
            return "L" if argument is Operand.LAYER else _NAMES[argument]
        case Row(index):
            return f"{_NAMES[Operand.ROWS]}[{index}]"
        case Bytes(row):
            return _text(row)
        case Written(row):  # one of the row pointers, which are const unless written
            return f"(int8_t *)(uintptr_t){_text(row)}"
        case Typed(row, c_type):
            const = "const " if isinstance(row, Row) else ""
            return f"({const}{c_type} *)({const}void *){_text(row)}"
        case Member(name, phases):
            return f"L->{name}" + ("" if phases is None else f"[{_NAMES[Operand.Y]} & {phases - 1}]")
        case Offset(pointer, by):
            return f"{_text(pointer)} + {_text(by)}"
        case Callee(name):
            return name
    return _plain(argument)


def _plain(argument: Argument) -> str:
    """Formats an argument that is no operand."""
    if isinstance(argument, Number):
        return f"number[{argument.index}]"
    return "0" if isinstance(argument, Absent) else str(argument)


def _read(argument: Argument) -> set[Operand]:
    """Returns the parameters that an argument reads."""
    match argument:
        case Operand():
            return {argument}
        case Row():
            return {Operand.ROWS}
        case Bytes(row) | Typed(row, _) | Written(row):
            return _read(row)
        case Member(_, phases):
            return {Operand.LAYER} | ({Operand.Y} if phases is not None else set())
        case Offset(pointer, by):
            return _read(pointer) | _read(by)
        case Number():
            return {Operand.LAYER}
    return set()
