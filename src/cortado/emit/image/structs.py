"""Kernel descriptors as bytes, laid out as a C compiler would by the kernels' headers.

What they point to is laid out one after the other, and the pointers are then filled in.
"""

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from cortado.base.errors import CortadoError
from cortado.base.system import KERNELS
from cortado.ir.kernel import Array, Field, Kernel, NestedDescriptor

# ---- structs ---------------------------------------------------------------------------------------------

_HEADERS = ("cortado.h", "cortado_narrow.h", "cortado_run.h")
_COMMENT = re.compile(r"/\*.*?\*/|^#.*?$", re.S | re.M)
_STRUCTURE = re.compile(r"typedef struct \{([^{}]*)\} (\w+);")
_DECLARATION = re.compile(r"(?:const )?(\w+)\s+(.*)", re.S)
_ITEM = re.compile(r"(\*?)\s*(\w+)(?:\[(\w+)\])?")
# The type codes of Python's struct module.
_CODES = {"int32_t": "i", "uint32_t": "I", "int16_t": "h", "uint16_t": "H", "int8_t": "b", "uint8_t": "B", "float": "f"}
POINTER = "*"


@dataclass(frozen=True)
class StructMember:
    """A member: its type, which is POINTER for any pointer, and its element count."""

    name: str
    kind: str
    to: str  # for a pointer, the type it points to
    count: int


@dataclass(frozen=True)
class Structure:
    """A descriptor's type."""

    name: str
    members: tuple[StructMember, ...]

    @property
    def text(self) -> str:
        """Returns a fingerprint that differs for a structure of the same name with other members."""
        parts = [f"{m.to if m.kind == POINTER else ''}{m.kind} {m.name}[{m.count}]" for m in self.members]
        return f"{self.name} {{{'; '.join(parts)}}}"

    @property
    def inner(self) -> "Structure | None":
        """Returns the type of the descriptors that it points to."""
        found = {m.to for m in self.members if m.kind == POINTER} & structures().keys()
        if len(found) > 1:
            raise CortadoError(f"{self.name} points to descriptors of {len(found)} types, expected one")
        return structures()[found.pop()] if found else None

    def offsets(self, pointer: int) -> dict[str, int]:
        """Returns each member's offset, with pointers of `pointer` bytes."""
        return self._layout(pointer)[0]

    def bytes(self, pointer: int) -> int:
        return self._layout(pointer)[1]

    def _layout(self, pointer: int) -> tuple[dict[str, int], int]:
        offsets: dict[str, int] = {}
        end, widest = 0, 1
        for member in self.members:
            size = pointer if member.kind == POINTER else struct.calcsize(_CODES[member.kind])
            end += -end % size
            offsets[member.name] = end
            end += size * member.count
            widest = max(widest, size)
        return offsets, end + -end % widest


@cache
def structures() -> Mapping[str, Structure]:
    """Returns every descriptor type of the kernel library."""
    text = "".join(_COMMENT.sub("", (KERNELS / "include" / name).read_text()) for name in _HEADERS)
    found = {}
    for body, name in _STRUCTURE.findall(text):
        members = [item for part in body.split(";") if part.strip() for item in _members(part.strip())]
        if all(member.kind in {POINTER, *_CODES} for member in members):
            found[name] = Structure(name, tuple(members))
    return found


def _members(declaration: str) -> list[StructMember]:
    found = _DECLARATION.fullmatch(declaration)
    assert found is not None, declaration
    kind, names = found.groups()
    members = []
    for item in names.split(","):
        parts = _ITEM.fullmatch(item.strip())
        if parts is None or not (parts[3] or "1").isdigit():
            return [StructMember(item, declaration, "", 1)]  # a pointer to a function: no kernel's descriptor has one
        members.append(StructMember(parts[2], POINTER if parts[1] else kind, kind, int(parts[3] or 1)))
    return members


def packed(kind: str, value: int | float) -> bytes:
    """Encodes one value as it is stored in memory."""
    return struct.pack(f"<{_CODES[kind]}", value)


# ---- pieces ----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class ImagePiece:
    """Aligned bytes; at some of their offsets they hold the place of another piece."""

    data: bytearray
    align: int = 4
    points: list[tuple[int, "ImagePiece"]] = field(default_factory=list)
    place: int = 0  # set when it is laid out

    @property
    def end(self) -> int:
        return self.place + len(self.data)


def lay_out(pieces: Iterable[ImagePiece], start: int) -> int:
    """Assigns each piece its place, from `start` on, and returns where the last one ends."""
    for piece in pieces:
        piece.place = start + -start % piece.align
        start = piece.end
    return start


def point(pieces: Iterable[ImagePiece], start: int = 0) -> None:
    """Writes the places of the pieces pointed to, counted from `start`."""
    for piece in pieces:
        for offset, other in piece.points:
            struct.pack_into("<I", piece.data, offset, other.place - start)


def joined(pieces: Iterable[ImagePiece], start: int) -> bytes:
    """Joins pieces that are laid out, with the gaps between them."""
    data = bytearray()
    for piece in pieces:
        data += bytes(piece.place - start - len(data)) + piece.data
    return bytes(data)


class ImageConstants:
    """Constant pieces, deduplicated."""

    def __init__(self) -> None:
        self.seen: dict[tuple[bytes, int], ImagePiece] = {}

    def add(self, data: bytes, align: int) -> ImagePiece:
        return self.seen.setdefault((data, align), ImagePiece(bytearray(data), align))

    @property
    def pieces(self) -> list[ImagePiece]:
        return list(self.seen.values())


# ---- descriptors -----------------------------------------------------------------------------------------


class Descriptors:
    """The descriptors of a network, and the constants that they point to."""

    def __init__(self, pointer: int, constants: ImageConstants) -> None:
        self.pointer, self.constants = pointer, constants
        self.pieces: list[ImagePiece] = []

    def add(self, kernel: Kernel, numbers: Sequence[int]) -> ImagePiece | None:
        """Adds a kernel's descriptor, followed by the numbers of its call; None if it has neither."""
        piece = ImagePiece(bytearray(), self.pointer)
        if kernel.struct is not None:
            piece = self._of(NestedDescriptor(kernel.struct, kernel.fields))
            piece.data += bytes(-len(piece.data) % 4)
        elif not numbers:
            return None
        piece.data += struct.pack(f"<{len(numbers)}i", *numbers)
        self.pieces.append(piece)
        return piece

    def _of(self, layer: NestedDescriptor) -> ImagePiece:
        structure = structures()[layer.struct]
        offsets = structure.offsets(self.pointer)
        piece = ImagePiece(bytearray(structure.bytes(self.pointer)), self.pointer)
        for member in structure.members:
            if member.name in layer.fields:
                self._set(piece, offsets[member.name], member, layer.fields[member.name])
        return piece

    def _set(self, piece: ImagePiece, offset: int, member: StructMember, value: Field) -> None:
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Array):
                piece.points.append((offset, self.array(item)))
            elif isinstance(item, NestedDescriptor):
                inner = self._of(item)
                self.pieces.append(inner)
                piece.points.append((offset, inner))
            elif item is not None:
                data = packed(member.kind, item)
                piece.data[offset : offset + len(data)] = data
                offset += len(data)
                continue
            offset += self.pointer

    def array(self, array: Array) -> ImagePiece:
        if array.align > 16:
            raise CortadoError(f"a constant is aligned to {array.align} bytes, and an image to 16")
        return self.constants.add(np.ascontiguousarray(array.data).tobytes(), array.align)
