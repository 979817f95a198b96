"""Bytes that point to one another: laid out one behind the other, and then told where the others lie."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(eq=False)
class ImagePiece:
    """Some bytes, aligned; at some of their offsets stands where another piece begins."""

    data: bytearray
    align: int = 4
    points: list[tuple[int, "ImagePiece"]] = field(default_factory=list)
    place: int = 0  # once it is laid out

    @property
    def end(self) -> int:
        return self.place + len(self.data)


def lay_out(pieces: Iterable[ImagePiece], start: int) -> int:
    """Gives each its place, from `start` on; where the last one ends."""
    for piece in pieces:
        piece.place = start + -start % piece.align
        start = piece.end
    return start


def point(pieces: Iterable[ImagePiece]) -> None:
    """Writes the places of the pieces that others point to."""
    for piece in pieces:
        for offset, other in piece.points:
            struct.pack_into("<I", piece.data, offset, other.place)


def joined(pieces: Iterable[ImagePiece], start: int) -> bytes:
    """Pieces that are laid out, with the gaps between them."""
    data = bytearray()
    for piece in pieces:
        data += bytes(piece.place - start - len(data)) + piece.data
    return bytes(data)


class ImageConstants:
    """Constant pieces, equal ones only once."""

    def __init__(self) -> None:
        self.seen: dict[tuple[bytes, int], ImagePiece] = {}

    def add(self, data: bytes, align: int) -> ImagePiece:
        return self.seen.setdefault((data, align), ImagePiece(bytearray(data), align))

    @property
    def pieces(self) -> list[ImagePiece]:
        return list(self.seen.values())
