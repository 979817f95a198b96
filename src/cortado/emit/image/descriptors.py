"""The descriptors of kernels as bytes."""

import struct
from collections.abc import Sequence

import numpy as np

from cortado.base.errors import CortadoError
from cortado.emit.image.pieces import ImageConstants, ImagePiece
from cortado.emit.image.structs import StructMember, packed, structures
from cortado.ir.kernel import Array, Field, Kernel, NestedDescriptor


class Descriptors:
    """Collects those of a network, and the constants that they point to."""

    def __init__(self, pointer: int, constants: ImageConstants) -> None:
        self.pointer, self.constants = pointer, constants
        self.pieces: list[ImagePiece] = []

    def add(self, kernel: Kernel, numbers: Sequence[int]) -> ImagePiece | None:
        """Adds the descriptor of a kernel, with the numbers of its call behind it; None where it has neither."""
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
