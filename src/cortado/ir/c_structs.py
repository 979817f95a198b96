"""The structures of the kernel library's headers, and a descriptor's members that are a call's own parameters."""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from cortado.base.errors import CortadoError
from cortado.base.system import KERNELS
from cortado.ir.kernel import Array, Field

if TYPE_CHECKING:
    from cortado.ir.op import Call

_HEADERS = ("cortado.h", "cortado_narrow.h", "cortado_run.h")
_COMMENT = re.compile(r"/\*.*?\*/|^#.*?$", re.S | re.M)
_STRUCTURE = re.compile(r"typedef struct \{([^{}]*)\} (\w+);")
_DECLARATION = re.compile(r"(?:const )?(\w+)\s+(.*)", re.S)
_ITEM = re.compile(r"(\*?)\s*(\w+)(?:\[(\w+)\])?")
# The type codes of Python's struct module.
CODES = {"int32_t": "i", "uint32_t": "I", "int16_t": "h", "uint16_t": "H", "int8_t": "b", "uint8_t": "B", "float": "f"}
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
            size = pointer if member.kind == POINTER else struct.calcsize(CODES[member.kind])
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
        if all(member.kind in {POINTER, *CODES} for member in members):
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


# ---- members that are parameters ---------------------------------------------------------------------------------

# C's names for the operands and the result.
_SIDES = {"a": "self", "b": "other", "in": "input", "out": "output"}
_ENDS = {"zero": "zero_point"}
_BOUNDS = {"act_min": "activation_min", "act_max": "activation_max"}


def descriptor(name: str, call: "Call", own: Mapping[str, Field]) -> Mapping[str, Field]:
    """Completes a descriptor by its structure: `own` are the members that a row computes, the others are the call's
    parameters of the same name. Bounds that a call doesn't have are those of its element."""
    members = structures()[name].members
    found = {one.name: value for one in members if one.name not in own for value in _parameter(call, one)}
    if not found:
        return own
    fields = {**own, **found}
    return {one.name: fields[one.name] for one in members if one.name in fields}


def _parameter(call: "Call", member: StructMember) -> tuple[Field, ...]:
    """Returns the value of the parameter that a member holds; nothing if there is none."""
    side, _, rest = member.name.partition("_")
    known = (
        member.name,
        _BOUNDS.get(member.name, ""),
        f"{_SIDES.get(side, side)}_{_ENDS.get(rest, rest)}",
        f"output_{member.name}",
    )
    name = next((one for one in known if one in call.arguments), None)
    if name is None:
        bounds = dict(zip(_BOUNDS, call.element.codes, strict=True))
        return (bounds[member.name],) if member.name in bounds else ()
    if member.kind == POINTER:
        return (Array(call.array(name)),)
    return (float(call[name]) if member.kind == "float" else int(call[name]),)
