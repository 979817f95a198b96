"""A call of a C function as data: the function and its arguments. emit/c prints it."""

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
    """One of the input rows: the one that a pixelwise kernel reads of an operand, in the C type of its element."""

    index: int


@dataclass(frozen=True)
class Written:
    """A row of a secondary output. Its pointer follows those to the input rows."""

    row: Row


@dataclass(frozen=True)
class Bytes:
    """A row passed as bytes, to a function that moves values of any element."""

    row: Row | Operand


@dataclass(frozen=True)
class Typed:
    """A row cast to a C type; rows are passed as bytes. Made by CCall.typed, not by operators."""

    row: Row | Operand | Written
    c_type: str


@dataclass(frozen=True)
class Member:
    """A member of the descriptor; of an array over the phases of the output row, the element y % phases."""

    name: str
    phases: int | None = None  # a power of two


@dataclass(frozen=True)
class Offset:
    """A pointer advanced by `by` elements."""

    pointer: Bytes | Operand
    by: Member


@dataclass(frozen=True)
class Callee:
    """A C function passed as an argument, for the callee to call."""

    name: str


@dataclass(frozen=True)
class Absent:
    """A null pointer, for an operand or result that the call doesn't have."""


@dataclass(frozen=True)
class Number:
    """One of the numbers stored after a descriptor. Made by CCall.by_data, not by operators."""

    index: int


Argument = Operand | Row | Bytes | Typed | Written | Member | Offset | Callee | Absent | Number | int


@dataclass(frozen=True)
class CCall:
    """A call of a C function."""

    function: str
    arguments: tuple[Argument, ...]

    @property
    def functions(self) -> tuple[str, ...]:
        """The called function and those that are passed to it."""
        return (self.function, *(one.name for one in self.arguments if isinstance(one, Callee)))

    def typed(self, rows: Sequence[Element], out: Element) -> "CCall":
        """Returns the same call with its rows cast to the C types of their elements. All one-byte elements are passed
        as int8_t."""

        def typed(argument: Argument) -> Argument:
            if not isinstance(argument, Row | Written) and argument is not Operand.OUT:
                return argument
            row = argument.row if isinstance(argument, Written) else argument
            element = rows[row.index] if isinstance(row, Row) else out
            return argument if element.bytes == 1 else Typed(argument, element.c_type)

        return replace(self, arguments=tuple(map(typed, self.arguments)))

    def by_data(self) -> tuple["CCall", tuple[int, ...]]:
        """Returns the same call with its numbers read from data after the descriptor, and these numbers."""
        numbers: list[int] = []

        def moved(argument: Argument) -> Argument:
            if not isinstance(argument, int):
                return argument
            numbers.append(int(argument))
            return Number(len(numbers) - 1)

        return replace(self, arguments=tuple(map(moved, self.arguments))), tuple(numbers)
