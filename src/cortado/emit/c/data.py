"""The constants of a bundle: MODEL_data.h and MODEL_data.c."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cortado.base.target import Core
from cortado.ir.op import Array
from cortado.plan.program import Tensor

# How the C preprocessor tells the cores apart.
_CORE_MACRO = f"""#if defined(__ARM_FEATURE_MVE)
#define CORTADO_CORE {int(Core.MVE)}
#elif defined(__ARM_FEATURE_DSP)
#define CORTADO_CORE {int(Core.DSP)}
#elif defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
#define CORTADO_CORE {int(Core.SMALL)}
#else
#define CORTADO_CORE {int(Core.LONG)}
#endif
"""


C_TYPES = {"int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "int32": "int32_t", "float32": "float"}


@dataclass
class Piece:
    """A piece of C that only some cores compile."""

    name: str
    text: str
    cores: set[Core] = field(default_factory=set)


def guarded_by_cores(text: str, cores: Iterable[Core], every: frozenset[Core]) -> str:
    """Text that all cores of the bundle compile stands as it is."""
    if set(cores) >= every:
        return text
    test = " || ".join(f"CORTADO_CORE == {int(core)}" for core in sorted(cores))
    return f"#if {test}\n{text.rstrip()}\n#endif\n"


@dataclass(frozen=True)
class Constant:
    """An array of MODEL_data.c, for those who ask what a bundle holds."""

    name: str
    bytes: int


@dataclass
class _Stored:
    """An array of MODEL_data.c and the cores that read it."""

    name: str
    array: Array
    cores: set[Core]


class Arrays:
    """The constants of a bundle, each stored once."""

    def __init__(self, name: str, cores: frozenset[Core]) -> None:
        self.name = name
        self.every = cores
        self.seen: dict[tuple[str, bytes, int], _Stored] = {}

    def add(self, array: Array, hint: str, cores: Iterable[Core]) -> str:
        data = np.ascontiguousarray(array.data)
        key = (str(data.dtype), data.tobytes(), array.align)
        if key not in self.seen:
            self.seen[key] = _Stored(f"{self.name}_{hint}{len(self.seen)}", Array(data, array.align), set())
        self.seen[key].cores.update(cores)
        return self.seen[key].name

    @property
    def constants(self) -> tuple[Constant, ...]:
        return tuple(Constant(stored.name, stored.array.data.nbytes) for stored in self.seen.values())

    @property
    def total_bytes(self) -> int:
        """What one core's build holds; of several, the most."""
        return max(sum(c.array.data.nbytes for c in self.seen.values() if core in c.cores) for core in self.every)

    def header(self) -> str:
        guard = f"{self.name.upper()}_DATA_H"
        body = "\n".join(guarded_by_cores(_declared(c), c.cores, self.every) for c in self.seen.values())
        core_macro = _CORE_MACRO if len(self.every) > 1 else ""
        return f"""/* Constants of {self.name}. */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#include "cortado_endian.h"

{core_macro}
/* Where constants and the default arena are placed: define these to put them in sections of your own. */
#ifndef CORTADO_WEIGHTS
#define CORTADO_WEIGHTS
#endif
#ifndef CORTADO_ARENA
#define CORTADO_ARENA
#endif

{body}

#endif
"""

    def source(self) -> str:
        parts = [f'#include "{self.name}_data.h"\n']
        for constant in self.seen.values():
            data = constant.array.data
            placement = f"__attribute__((aligned({constant.array.align}))) CORTADO_WEIGHTS"
            kind = C_TYPES[str(data.dtype)]
            text = f"const {kind} {constant.name}[{data.size}] {placement} = {{\n{_numbers(data)}\n}};\n"
            parts.append(guarded_by_cores(text, constant.cores, self.every))
        return "\n".join(parts)


def _declared(constant: _Stored) -> str:
    data = constant.array.data
    return f"extern const {C_TYPES[str(data.dtype)]} {constant.name}[{data.size}];"


_BYTE_TEXTS = [str(value) for value in (*range(128), *range(-128, 0))]  # by the byte that holds an int8
_NUMBERS_A_LINE = 32
_NUMBERS_A_PIECE = 1 << 16  # turned into text at once: a list of texts takes twenty times the memory of the text


def _numbers(data: np.ndarray[Any, np.dtype[Any]]) -> str:
    """The numbers of an array, so many to a line."""
    flat = data.reshape(-1)
    pieces = (flat[start : start + _NUMBERS_A_PIECE] for start in range(0, flat.size, _NUMBERS_A_PIECE))
    return ",\n".join(_lines(piece) for piece in pieces)


def _lines(piece: np.ndarray[Any, np.dtype[Any]]) -> str:
    if piece.dtype == np.int8:
        texts = [_BYTE_TEXTS[byte] for byte in piece.tobytes()]
    elif piece.dtype == np.float32:
        texts = [float_text(float(value)) for value in piece]
    else:
        texts = [int_text(value) for value in piece.tolist()]
    starts = range(0, len(texts), _NUMBERS_A_LINE)
    return ",\n".join(",".join(texts[start : start + _NUMBERS_A_LINE]) for start in starts)


def int_text(value: int) -> str:
    return "(-2147483647 - 1)" if value == -(2**31) else str(value)


def float_text(value: float) -> str:
    """A float32 as C reads it back, to the last bit."""
    single = np.float32(value)
    text = f"{single:.9g}"  # decimal: hexadecimal constants are no C++ before C++17
    assert np.float32(text) == single
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def c_type(tensor: Tensor) -> str:
    """As bytes, what no kernel computes with: a tensor of another type can only pass through."""
    return C_TYPES.get(tensor.dtype, "uint8_t")
