"""The kernel calls that an image names: each is the same function in every firmware, identified by a number.

A bundle writes a model's numbers into its calls. In an image they are data and follow the descriptor, so that a few
dozen functions cover every call. A call's number is a hash of the call and of its descriptor's members: firmware whose
kernels take other parameters has no function with that number.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from cortado.emit.c.library import more_headers
from cortado.emit.c.text import call_text, parameters
from cortado.ir.c_structs import POINTER, Structure, structures
from cortado.ir.kernel import Kernel

_NUMBER = re.compile(r"\bnumber\[(\d+)\]")
_NAME = re.compile(r"\w+")


@dataclass(frozen=True)
class Thunk:
    """A kernel call whose parameters all come from the descriptor L and the numbers that follow it."""

    struct: str | None
    call: str  # in C

    @property
    def numbers(self) -> int:
        return len(_NUMBER.findall(self.call))

    @property
    def structure(self) -> Structure | None:
        return None if self.struct is None else structures()[self.struct]

    @cached_property
    def text(self) -> str:
        """Returns the text whose hash is the call's number."""
        inner = None if self.structure is None else self.structure.inner
        return "\n".join([self.call, *(part.text for part in (self.structure, inner) if part is not None)])

    @cached_property
    def id(self) -> int:
        return int.from_bytes(hashlib.sha256(self.text.encode()).digest()[:4], "little")

    @property
    def name(self) -> str:
        """Returns its kernel's name, for people."""
        return self.call.partition("(")[0].removeprefix("cortado_")

    @property
    def function(self) -> str:
        return f"call_{self.name}_{self.id:08x}"

    def definition(self) -> str:
        """Defines the C function of this call. Descriptors end at a whole word, where the numbers follow."""
        used = {*_NAME.findall(self.call), *(["layer"] if self.struct or self.numbers else [])}
        lines = [] if self.struct is None else [f"const {self.struct} *L = layer;"]
        if self.numbers:
            behind = "layer" if self.struct is None else f"CORTADO_BEHIND(layer, {self.struct})"
            lines.append(f"const int32_t *number = {behind};")
        lines += [f"(void){name};" for name in ("layer", "rows", "out", "n", "scratch", "y") if name not in used]
        lines += ["(void)L;"] if self.struct is not None and "L" not in used else []
        head = f"static void {self.function}("
        body = "".join(f"    {line}\n" for line in [*lines, f"{self.call};"])
        return f"{head}{parameters(len(head))})\n{{\n{body}}}\n"


def thunk_of(kernel: Kernel) -> tuple[Thunk, tuple[int, ...]]:
    """Returns a kernel's call, and the model's own numbers in it."""
    call, numbers = kernel.call.by_data()
    return Thunk(kernel.struct, call_text(call)), numbers


def table_text(thunks: Iterable[Thunk]) -> str:
    """Returns cortado_kernels.c: the functions, and the table that maps an image's numbers to them."""
    known = sorted(set(thunks), key=lambda one: (one.name, one.id))
    layouts = sorted({(one.struct, one.numbers) for one in known if one.struct or one.numbers}, key=str)
    inner = {one.structure.inner for one in known if one.structure is not None} - {None}
    functions = "\n".join(one.definition() for one in known)
    described = "\n".join(
        [
            *(_layout(name.name, 0) for name in sorted(inner, key=str) if name is not None),
            *(_layout(*one) for one in layouts if structures().get(one[0] or "") not in inner or one[1]),
        ]
    )
    named = [name for one in known for name in re.findall(r"\w+", one.call)]
    rows = "\n".join(f"    {{0x{one.id:08x}u, {one.function}, {_pointer(one)}}}," for one in known)
    return f"""/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that this firmware has for images: what cortado_image_open finds them by.
 */
#include "cortado_image.h"
{more_headers(named)}
/* ---- kernels, called with what an image says ---- */

{functions}
/* ---- their descriptors: bytes, and which words of them are pointers ---- */

{described}

const cortado_thunk_t cortado_thunks[] = {{
{rows}
}};
const uint32_t cortado_thunk_count = {len(known)};
"""


def _layout_name(struct: str | None, numbers: int) -> str:
    base = "numbers" if struct is None else struct.removeprefix("cortado_").removesuffix("_t")
    return f"of_{base}{f'_{numbers}' if numbers else ''}"


def _pointer(thunk: Thunk) -> str:
    has = thunk.struct is not None or thunk.numbers
    return f"&{_layout_name(thunk.struct, thunk.numbers)}" if has else "NULL"


def _layout(struct: str | None, numbers: int) -> str:
    size, pointers, to = "0u", "0u", "NULL"
    if struct is not None:
        structure = structures()[struct]
        bits = [_bits(struct, member.name, member.count) for member in structure.members if member.kind == POINTER]
        size, pointers = f"CORTADO_WORDS({struct})", " | ".join(bits) or "0u"
        to = "NULL" if structure.inner is None else f"&{_layout_name(structure.inner.name, 0)}"
    return (
        f"static const cortado_structure_t {_layout_name(struct, numbers)} = {{\n"
        f"    {size} + {4 * numbers}u, {pointers}, {to}\n}};"
    )


def _bits(struct: str, member: str, count: int) -> str:
    return f"CORTADO_POINTERS({struct}, {member}, {count})"
