"""The descriptors of kernels as a C compiler lays them out, read from the kernels' headers."""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from cortado.base.data import KERNELS
from cortado.base.errors import CortadoError

_HEADERS = ("cortado.h", "cortado_narrow.h", "cortado_run.h")
_COMMENT = re.compile(r"/\*.*?\*/|^#.*?$", re.S | re.M)
_STRUCTURE = re.compile(r"typedef struct \{([^{}]*)\} (\w+);")
_DECLARATION = re.compile(r"(?:const )?(\w+)\s+(.*)", re.S)
_ITEM = re.compile(r"(\*?)\s*(\w+)(?:\[(\w+)\])?")
# Codes of Python's struct module.
_CODES = {"int32_t": "i", "uint32_t": "I", "int16_t": "h", "uint16_t": "H", "int8_t": "b", "uint8_t": "B", "float": "f"}
POINTER = "*"


@dataclass(frozen=True)
class StructMember:
    """A member: its type, POINTER for any pointer, and how many of them it has."""

    name: str
    kind: str
    to: str  # of a pointer, the type that it points to
    count: int


@dataclass(frozen=True)
class Structure:
    """A descriptor's type."""

    name: str
    members: tuple[StructMember, ...]

    @property
    def text(self) -> str:
        """Returns what tells it from one of the same name whose members are others."""
        parts = [f"{m.to if m.kind == POINTER else ''}{m.kind} {m.name}[{m.count}]" for m in self.members]
        return f"{self.name} {{{'; '.join(parts)}}}"

    @property
    def inner(self) -> "Structure | None":
        """The type of the descriptors that it points to."""
        found = {m.to for m in self.members if m.kind == POINTER} & structures().keys()
        if len(found) > 1:
            raise CortadoError(f"{self.name} points to descriptors of {len(found)} types, expected one")
        return structures()[found.pop()] if found else None

    def offsets(self, pointer: int) -> dict[str, int]:
        """Returns where each member lies, with pointers of `pointer` bytes."""
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
    """Every descriptor of the kernel library."""
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
    """One value as it lies in memory."""
    return struct.pack(f"<{_CODES[kind]}", value)
