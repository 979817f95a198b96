"""Storage of the bytes of a .pte's values."""

from dataclasses import dataclass

from cortado.pte.info import DataSegment, TensorInfo, ValueKind


@dataclass(frozen=True)
class ConstantStorage:
    """A constant's place in the file."""

    offset: int
    size: int


@dataclass(frozen=True)
class Storage:
    """Storage that the program's methods refer to by index."""

    segments: tuple[DataSegment, ...]
    constants: tuple[ConstantStorage, ...]
    initial_states: tuple[tuple[ConstantStorage, ...], ...]
    delegate_blobs: tuple[ConstantStorage, ...]


@dataclass(frozen=True)
class MethodValue:
    """One of a method's values, as far as it matters here: a tensor, a text or a list of other values."""

    kind: ValueKind
    tensor: TensorInfo | None = None
    text: str | None = None
    items: tuple[int, ...] = ()
    count: int = 0  # of a list of integers
