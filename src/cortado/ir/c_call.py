"""A call of a C function as data: a kernel and what stands between its parentheses. emit/c prints it."""

from dataclasses import dataclass
from enum import Enum


class Operand(Enum):
    """What a step's kernel is called with: the parameters of cortado_call_t (cortado_run.h), in their order."""

    LAYER = "the layer's descriptor"
    ROWS = "pointers to the input rows"
    OUT = "the output row"
    N = "the pixels, or elements, of one row"
    SCRATCH = "the scratch buffer"
    Y = "which output row; of an accumulating step, which input row"


@dataclass(frozen=True)
class Row:
    """One of the input rows: what a pixelwise kernel reads of an operand."""

    index: int


@dataclass(frozen=True)
class Written:
    """A row of a result behind the first. Its pointer comes behind those to the input rows."""

    row: Row


@dataclass(frozen=True)
class Floats:
    """A row whose bytes are float32 values."""

    row: Row | Operand


@dataclass(frozen=True)
class Words:
    """A row whose bytes are int32 values."""

    row: Row | Operand | Written


@dataclass(frozen=True)
class Member:
    """A member of the descriptor; of an array over the output row's phases, the element of phase y % phases."""

    name: str
    phases: int | None = None  # a power of two


@dataclass(frozen=True)
class Offset:
    """A pointer, so many elements further on."""

    pointer: Row | Operand
    by: Member


@dataclass(frozen=True)
class Function:
    """A C function that the called one calls."""

    name: str


Argument = Operand | Row | Floats | Words | Written | Member | Offset | Function | int


@dataclass(frozen=True)
class CCall:
    """A call of a C function."""

    function: str
    arguments: tuple[Argument, ...]
