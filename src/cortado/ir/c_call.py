"""A call of a C function as data: a kernel and what stands between its parentheses. emit/c prints it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from cortado.base.element import Element


class Operand(Enum):
    """Parameters of a step's kernel call, those of cortado_call_t (cortado_run.h), in their order."""

    LAYER = "the layer's descriptor"
    ROWS = "pointers to the input rows"
    OUT = "the output row"
    N = "the pixels, or elements, of one row"
    SCRATCH = "the scratch buffer"
    Y = "which output row; of an accumulating step, which input row"


@dataclass(frozen=True)
class Row:
    """One of the input rows: what a pixelwise kernel reads of an operand, in the C type of the operand's element."""

    index: int


@dataclass(frozen=True)
class Written:
    """A row of a result behind the first. Its pointer comes behind those to the input rows."""

    row: Row


@dataclass(frozen=True)
class Bytes:
    """A row for a function that takes bytes, whatever their element: it moves them."""

    row: Row | Operand


@dataclass(frozen=True)
class Typed:
    """A row as values of a C type; rows are handed over as bytes. Operators don't say this: see CCall.typed."""

    row: Row | Operand | Written
    c_type: str


@dataclass(frozen=True)
class Member:
    """A member of the descriptor; of an array over the output row's phases, the element of phase y % phases."""

    name: str
    phases: int | None = None  # a power of two


@dataclass(frozen=True)
class Offset:
    """A pointer, `by` elements further on."""

    pointer: Bytes | Operand
    by: Member


@dataclass(frozen=True)
class Callee:
    """A C function that the called one calls."""

    name: str


@dataclass(frozen=True)
class Absent:
    """A pointer to an operand or result that the call doesn't have."""


@dataclass(frozen=True)
class Number:
    """One of the numbers that stand behind a descriptor. Operators don't say this: see CCall.by_data."""

    index: int


Argument = Operand | Row | Bytes | Typed | Written | Member | Offset | Callee | Absent | Number | int


@dataclass(frozen=True)
class CCall:
    """A call of a C function."""

    function: str
    arguments: tuple[Argument, ...]

    @property
    def functions(self) -> tuple[str, ...]:
        """The called one, and those that it is given to call."""
        return (self.function, *(one.name for one in self.arguments if isinstance(one, Callee)))

    def typed(self, rows: Sequence[Element], out: Element) -> "CCall":
        """The same call with rows in the C types of their elements. Those of one byte are all passed as int8_t."""

        def typed(argument: Argument) -> Argument:
            if not isinstance(argument, Row | Written) and argument is not Operand.OUT:
                return argument
            row = argument.row if isinstance(argument, Written) else argument
            element = rows[row.index] if isinstance(row, Row) else out
            return argument if element.bytes == 1 else Typed(argument, element.c_type)

        return replace(self, arguments=tuple(map(typed, self.arguments)))

    def by_data(self) -> tuple["CCall", tuple[int, ...]]:
        """The same call with its numbers behind the descriptor, and these."""
        numbers: list[int] = []

        def moved(argument: Argument) -> Argument:
            if not isinstance(argument, int):
                return argument
            numbers.append(int(argument))
            return Number(len(numbers) - 1)

        return replace(self, arguments=tuple(map(moved, self.arguments))), tuple(numbers)
