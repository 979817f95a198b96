"""Records by which a program on a board or on this machine speaks to the one who runs it (device/port.h)."""

import struct
from dataclasses import dataclass
from enum import IntEnum

from cortado.base.errors import CortadoError
from cortado.base.names import printable

_HEADER = struct.Struct("<BI")
_NUMBER = struct.Struct("<I")


class Record(IntEnum):
    """The kinds of records, as device/port.h numbers them."""

    TEXT = ord("T")
    OUTPUT = ord("O")
    TRACE = ord("R")
    STACK = ord("S")
    EXIT = ord("X")


@dataclass(frozen=True)
class Said:
    """All that a program said. Without an exit code it was cut off."""

    text: str
    outputs: bytes
    trace: bytes
    stack_bytes: int | None
    exit_code: int | None


def read_records(data: bytes, *, whole: bool) -> Said:
    """The records of a program, which may be anybody's: nothing in them is believed. `whole`: up to the exit code."""
    found: dict[Record, list[bytes]] = {kind: [] for kind in Record}
    position = 0
    while position + _HEADER.size <= len(data):
        kind, length = _HEADER.unpack_from(data, position)
        start = position + _HEADER.size
        if kind not in Record.__members__.values():
            raise CortadoError(f"the program said something that is no record, at byte {position:,} of its output")
        if found[Record.EXIT]:
            raise CortadoError(f"the program said more after its exit code, at byte {position:,} of its output")
        position = start + length
        if position > len(data):
            break
        found[Record(kind)].append(data[start:position])
    if whole and (position != len(data) or not found[Record.EXIT]):
        raise CortadoError(f"the output of the program was cut off at byte {len(data):,}, before its exit code")
    return Said(
        text=printable(b"".join(found[Record.TEXT]).decode(errors="replace")),
        outputs=b"".join(found[Record.OUTPUT]),
        trace=b"".join(found[Record.TRACE]),
        stack_bytes=_number(found[Record.STACK]),
        exit_code=_number(found[Record.EXIT]),
    )


def _number(parts: list[bytes]) -> int | None:
    if not parts:
        return None
    if len(parts) != 1 or len(parts[0]) != _NUMBER.size:
        raise CortadoError("the program said a number that is none")
    return int(_NUMBER.unpack(parts[0])[0])
