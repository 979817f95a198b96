"""Where a .pte keeps the bytes of its values."""

from dataclasses import dataclass

from cortado.pte.info import Segment, TensorInfo, ValueKind


@dataclass(frozen=True)
class Room:
    """A constant's place in the file."""

    offset: int
    size: int


@dataclass(frozen=True)
class Storage:
    """What the program's methods refer to by index."""

    segments: tuple[Segment, ...]
    constants: tuple[Room, ...]
    initial_states: tuple[tuple[Room, ...], ...]
    delegate_blobs: tuple[int, ...]


@dataclass(frozen=True)
class MethodValue:
    """One of a method's values, as far as it matters here: a tensor, a text or a list of other values."""

    kind: ValueKind
    tensor: TensorInfo | None = None
    text: str | None = None
    items: tuple[int, ...] = ()
    count: int = 0  # of a list of whole numbers
