"""Builds the kernel library for this machine and calls it: a list of calls on buffers, described once, run anywhere.

`Calls` knows nothing of addresses: buffers are `Ref`s, descriptors are given by field name, and the layout of a
descriptor is read from the public header itself. `run_host` turns it all into ctypes calls.
"""

import ctypes
import functools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cortado.base.system import KERNEL_FOLDERS, KERNEL_SOURCES, KERNELS
from cortado.run import toolchain

HEADER = KERNELS / "include/cortado.h"
HEADERS = (HEADER, KERNELS / "include/cortado_narrow.h")
WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror")
SANITIZE = "CORTADO_TEST_SANITIZE"  # set: build with the address and undefined-behaviour sanitizers


def kernel_sources(assembly: bool = False) -> list[Path]:
    """Every source of the library but the schedule runner and the loader of images, which are no kernels."""
    kinds = (".c", ".S") if assembly else (".c",)
    files = [path for path in KERNEL_SOURCES.values() if path.suffix in kinds]
    return [path for path in files if not path.name.startswith(("cortado_run", "cortado_image"))]


def build_host(small_core: bool, sanitize: bool) -> Path:
    """The library built for this machine, cached by content; `small_core` takes the code meant for Armv6-M."""
    flags = [*WARNINGS, "-O1", "-g", "-ffp-contract=off"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"] if sanitize else []
    flags += ["-DCORTADO_SMALL_CORE=1"] if small_core else []
    return toolchain.compile_shared(kernel_sources(), KERNEL_FOLDERS, flags, "kernels")


@functools.cache
def host_library(small_core: bool = False) -> ctypes.CDLL:
    return ctypes.CDLL(str(build_host(small_core, sanitize=bool(os.environ.get(SANITIZE)))))


_NUMBERS = {"int8_t": "<i1", "uint8_t": "<u1", "int16_t": "<i2", "int32_t": "<i4", "float": "<f4"}


@dataclass(frozen=True)
class Field:
    """One member of a descriptor: its type ("*" for a pointer) and how many there are."""

    name: str
    kind: str
    count: int


def header_text() -> str:
    """The public headers of kernels."""
    return "".join(header.read_text() for header in HEADERS)


@functools.cache
def descriptors() -> dict[str, list[Field]]:
    """The members of every descriptor, read from the public header."""
    text = re.sub(r"/\*.*?\*/", "", header_text(), flags=re.S)
    found: dict[str, list[Field]] = {}
    for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", text, flags=re.S):
        members = found.setdefault(name, [])
        for declaration in filter(None, (part.strip() for part in body.split(";"))):
            kind, names = re.fullmatch(r"(?:const )?(\w+)\s+(.*)", declaration, flags=re.S).groups()  # type: ignore[union-attr]
            for item in names.split(","):
                star, member, size = re.fullmatch(r"(\*?)(\w+)(?:\[(\d+)\])?", item.strip()).groups()  # type: ignore[union-attr]
                members.append(Field(member, "*" if star else kind, int(size or 1)))
    return found


@dataclass(frozen=True)
class Ref:
    """A place in one of the buffers of a `Calls`."""

    block: int
    offset: int = 0

    def __add__(self, more: int) -> "Ref":
        return Ref(self.block, self.offset + more)


@dataclass
class Block:
    """A buffer: raw bytes, or a list of typed values laid out when the pointer size is known."""

    data: bytes = b""
    words: bool = False  # int32 data, which has to be aligned
    values: list[tuple[str, Any]] = field(default_factory=list)
    result: bytes = b""

    def layout(self, pointer: int, address: Any) -> bytes:
        """The bytes of this buffer where pointers have `pointer` bytes and `address(ref)` gives their value."""
        out = bytearray(self.data)
        for kind, value in self.values:
            size = pointer if kind == "*" else np.dtype(_NUMBERS[kind]).itemsize
            out += bytes(-len(out) % size)
            if kind == "*":
                out += (0 if value is None else address(value)).to_bytes(size, "little")
            else:
                out += np.array(value, _NUMBERS[kind]).tobytes()
        return bytes(out)


class Calls:
    """Kernel calls and the buffers they work on."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.results: list[int] = []  # what each call returned, for those that return an int32

    def _add(self, block: Block) -> Ref:
        self.blocks.append(block)
        return Ref(len(self.blocks) - 1)

    def array(self, values: np.ndarray, words: bool = False) -> Ref:
        """A buffer that holds `values`; `words` for bytes that have to be aligned."""
        return self._add(Block(np.ascontiguousarray(values).tobytes(), words=words or values.dtype.itemsize > 1))

    def space(self, size: int, words: bool = False) -> Ref:
        """A buffer to write to; `words` for one that has to be aligned."""
        return self._add(Block(b"\xa5" * size, words=words))

    def pointers(self, refs: Sequence[Ref | None]) -> Ref:
        """An array of pointers, such as the rows of a spatial kernel."""
        return self._add(Block(values=[("*", ref) for ref in refs]))

    def struct(self, name: str, **fields: Any) -> Ref:
        """A descriptor, every field given by name."""
        members = descriptors()[name]
        assert {m.name for m in members} == set(fields), f"{name}: wrong fields {sorted(fields)}"
        values = []
        for member in members:
            items = list(fields[member.name]) if member.count > 1 else [fields[member.name]]
            items += [0] * (member.count - len(items))
            values += [(member.kind, item) for item in items]
        return self._add(Block(values=values))

    def call(self, symbol: str, *args: "Ref | int | float | None") -> None:
        self.calls.append((symbol, args))

    def read(self, ref: Ref, dtype: Any, shape: Any) -> np.ndarray:
        """What a buffer holds after the run."""
        count = int(np.prod(shape))
        return np.frombuffer(self.blocks[ref.block].result, dtype, count, ref.offset).reshape(shape)


def run_host(calls: Calls, small_core: bool = False) -> None:
    """Runs the calls on this machine. Each buffer is its own allocation of exactly its size."""
    library = host_library(small_core)
    sizes = [len(block.layout(8, lambda ref: 0)) for block in calls.blocks]
    memory = [(ctypes.c_char * max(size, 1))() for size in sizes]

    def address(ref: Ref) -> int:
        return ctypes.addressof(memory[ref.block]) + ref.offset

    for block, space in zip(calls.blocks, memory, strict=True):
        data = block.layout(8, address)
        ctypes.memmove(space, data, len(data))
    calls.results = []
    for symbol, args in calls.calls:
        function = library[symbol]
        function.restype = ctypes.c_int32
        calls.results.append(function(*(_host_argument(arg, address) for arg in args)))
    for block, space, size in zip(calls.blocks, memory, sizes, strict=True):
        block.result = bytes(space)[:size]


def _host_argument(arg: Any, address: Any) -> Any:
    if arg is None or isinstance(arg, Ref):
        return ctypes.c_void_p(None if arg is None else address(arg))
    return ctypes.c_float(arg) if isinstance(arg, float) else ctypes.c_int32(int(arg))
