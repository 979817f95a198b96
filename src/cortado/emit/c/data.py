"""The constants of a bundle: MODEL_data.h and MODEL_data.c."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cortado.base.element import INT8, element_of
from cortado.base.numerics import QParams
from cortado.base.target import Core
from cortado.emit.c.text import Names, Piece, comment, core_macro, guarded
from cortado.ir.kernel import Array

# Preprocessor tests for the cores, the most capable first.
_CORE_TESTS = {
    Core.MVE: "defined(__ARM_FEATURE_MVE)",
    Core.DSP: "defined(__ARM_FEATURE_DSP)",
    Core.SMALL: "defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)",
}


@dataclass(frozen=True)
class DataArray:
    """An array of MODEL_data.c, as reports on the bundle's contents see it."""

    name: str
    bytes: int
    step: str  # the first step that reads it, by its name in the lowered graph


@dataclass(frozen=True)
class Reader:
    """A reader of an array: its step, the step's label, the descriptor field, and the kernel."""

    step: str
    label: str
    field: str
    kernel: str


@dataclass
class _Stored:
    """An array of MODEL_data.c, the cores that have it and the steps that read it."""

    name: str
    array: Array
    section: str  # the section that the user named for it; empty for the default one
    cores: set[Core]
    readers: list[Reader]

    @property
    def declaration(self) -> str:
        data = self.array.data
        return f"const {element_of(data.dtype).c_type} {self.name}[{data.size}]"

    @property
    def definition(self) -> str:
        placed = f"__attribute__((aligned({self.array.align}))) {weights_macro(self.section)}"
        return f"{comment(self._about)}\n{self.declaration}\n    {placed} = {{\n{numbers_text(self.array.data)}\n}};\n"

    @property
    def _about(self) -> str:
        """Describes the array: the layer it belongs to, its shape, and its packing."""
        first = self.readers[0]
        shape = self.array.packed or self.array.data.shape
        text = f"{first.label}: {first.field} {''.join(f'[{size}]' for size in shape)}"
        text += ", packed with biases and factors" if self.array.packed else ""
        others = list(dict.fromkeys(reader.label for reader in self.readers[1:] if reader.label != first.label))
        return f"{text} for {first.kernel}{_also(others)}"


def weights_macro(section: str) -> str:
    return f"CORTADO_WEIGHTS_{section.upper()}" if section else "CORTADO_WEIGHTS"


def _also(labels: Sequence[str], most: int = 4) -> str:
    """Names the other layers that read an array, at most `most` of them."""
    if not labels:
        return ""
    more = f" and {len(labels) - most} more" if len(labels) > most else ""
    return f"; also {', '.join(labels[:most])}{more}"


class Arrays:
    """The constants of a bundle, deduplicated."""

    def __init__(self, prefix: str, cores: frozenset[Core]) -> None:
        self.prefix = prefix
        self.every = cores
        self.names = Names()
        self.seen: dict[tuple[str, bytes, int, str], _Stored] = {}

    def add(self, array: Array, wanted: str, reader: Reader, cores: Iterable[Core], section: str = "") -> str:
        """Returns the name of an array, reusing that of an equal one in the same section; `wanted` becomes part of a
        new name."""
        data = np.ascontiguousarray(array.data)
        key = (str(data.dtype), data.tobytes(), array.align, section)
        if key not in self.seen:
            # Two underscores: no module name of the model `net` can then collide with a name of the model `net_large`.
            name = self.names.new(f"{self.prefix}__{wanted}")
            self.seen[key] = _Stored(name, Array(data, array.align, array.packed), section, set(), [])
        self.seen[key].cores.update(cores)
        self.seen[key].readers.append(reader)
        return self.seen[key].name

    @property
    def constants(self) -> tuple[DataArray, ...]:
        return tuple(
            DataArray(stored.name, stored.array.data.nbytes, stored.readers[0].step) for stored in self.seen.values()
        )

    @property
    def total_bytes(self) -> int:
        """Returns the bytes in one core's build; for several cores, the maximum."""
        return self._most(list(self.seen.values()))

    def _most(self, stored: Sequence[_Stored]) -> int:
        return max(sum(s.array.data.nbytes for s in stored if core in s.cores) for core in self.every)

    @property
    def section_bytes(self) -> dict[str, int]:
        """Returns the same maximum for each section that the user named."""
        named = sorted({stored.section for stored in self.seen.values() if stored.section})
        return {name: self._most([s for s in self.seen.values() if s.section == name]) for name in named}

    @property
    def marked(self) -> tuple[str, ...]:
        """Returns the arrays whose names carry the build, so that data of another compile does not link: the first of
        each core."""
        firsts = [next((s.name for s in self.seen.values() if core in s.cores), None) for core in sorted(self.every)]
        return tuple(dict.fromkeys(name for name in firsts if name is not None))

    def header(self, placing: str = "", renamed: str = "") -> str:
        """Returns MODEL_data.h; `placing` holds the macros of further sections, `renamed` those that rename arrays."""
        guard = f"{self.prefix.upper()}_DATA_H"
        pieces = [Piece(f"extern {stored.declaration};", stored.cores) for stored in self.seen.values()]
        return f"""/* SPDX-License-Identifier: Apache-2.0
 *
 * The constants of {self.prefix}, for {self.prefix}.c.
 */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#include "cortado_endian.h"

/* The placement of constants and the default arena: define these to put them into sections of your own. */
#ifndef CORTADO_WEIGHTS
#define CORTADO_WEIGHTS
#endif
#ifndef CORTADO_ARENA
#define CORTADO_ARENA
#endif
{placing}{renamed}
{_core_macros() if len(self.every) > 1 else ""}{guarded(pieces, self.every)}

#endif /* {guard} */
"""

    def source(self) -> str:
        pieces = [Piece(stored.definition, stored.cores) for stored in self.seen.values()]
        return f"""/* SPDX-License-Identifier: Apache-2.0
 *
 * The constants of {self.prefix}. The license covers the text around them; the numbers belong to the model.
 */
#include "{self.prefix}_data.h"

{guarded(pieces, self.every)}"""


def _core_macros() -> str:
    """Defines CORTADO_CORE, for a bundle that each core compiles differently."""
    numbers = "\n".join(f"#define {core_macro(core)} {int(core)}" for core in (*_CORE_TESTS, Core.LONG))
    tests = "\n#elif ".join(f"{test}\n#define CORTADO_CORE {core_macro(core)}" for core, test in _CORE_TESTS.items())
    return f"""/* The kind of core that this is compiled for: each kind has its own kernels, layers and constants. */
{numbers}
#if {tests}
#else
#define CORTADO_CORE {core_macro(Core.LONG)}
#endif

"""


# The text of every int8 with its comma, padded to five characters, indexed by the value's byte.
_BYTE_TEXTS = np.array([f"{value},".rjust(5) for value in (*range(INT8.high + 1), *range(INT8.low, 0))], dtype="S5")
_NUMBERS_A_LINE = {"int8": 16, "uint8": 16, "int16": 12, "int32": 8, "float32": 6}
# Numbers turned into text at a time, whole lines of every type: a list of strings takes twenty times the memory of the
# text.
_NUMBERS_A_PIECE = 3 << 16


def numbers_text(data: np.ndarray[Any, np.dtype[Any]]) -> str:
    """Formats an array's numbers as C, in lines that fit the page."""
    flat = data.reshape(-1)
    pieces = (flat[start : start + _NUMBERS_A_PIECE] for start in range(0, flat.size, _NUMBERS_A_PIECE))
    return ",\n".join(_lines(piece) for piece in pieces)


def _lines(piece: np.ndarray[Any, np.dtype[Any]]) -> str:
    if piece.dtype == np.int8:
        return _byte_lines(piece)
    if piece.dtype == np.float32:
        texts = [float_text(float(value)) for value in piece]
    else:
        texts = [int_text(value) for value in piece.tolist()]
    count = _NUMBERS_A_LINE[str(piece.dtype)]
    return ",\n".join(f"    {','.join(texts[start : start + count])}" for start in range(0, len(texts), count))


def _byte_lines(piece: np.ndarray[Any, np.dtype[Any]]) -> str:
    """Formats int8 weights, of which there are millions: an array of fixed-width strings, with the spaces removed at
    the end."""
    count = _NUMBERS_A_LINE["int8"]
    texts = _BYTE_TEXTS[piece.view(np.uint8)]
    whole = texts[: texts.size // count * count].reshape(-1, count)
    lines = np.concatenate([whole, np.full((len(whole), 1), b"\n", dtype="S5")], axis=1).tobytes()
    text = (lines + texts[whole.size :].tobytes()).translate(None, b" \0").decode().rstrip(",\n")
    return "    " + text.replace("\n", "\n    ")


def int_text(value: int) -> str:
    return "INT32_MIN" if value == -(2**31) else str(value)


def float_text(value: float) -> str:
    """Formats a float32 so that C reads back every bit; infinities and NaN need no header."""
    single = np.float32(value)
    if not np.isfinite(single):
        return "(0.0f / 0.0f)" if np.isnan(single) else f"({np.sign(single):.1f}f / 0.0f)"
    text = f"{single:.9g}"  # decimal: C++ has hexadecimal constants only since C++17
    assert np.float32(text) == single
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def qparams_text(qparams: QParams) -> str:
    """Formats scale and zero point as arguments of a C function."""
    return f"{float_text(qparams.scale)}, {qparams.zero_point}"
