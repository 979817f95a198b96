"""Kernel descriptors as bytes, laid out as a C compiler would by the kernels' headers.

What they point to is laid out one after the other, and the pointers are then filled in.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from cortado.base.errors import CortadoError
from cortado.ir.c_structs import CODES, StructMember, structures
from cortado.ir.kernel import Array, Field, Kernel, NestedDescriptor

# ---- values ----------------------------------------------------------------------------------------------


def packed(kind: str, value: int | float) -> bytes:
    """Encodes one value as it is stored in memory."""
    return struct.pack(f"<{CODES[kind]}", value)


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
