"""The files of the kernel library that a C function needs, found by parsing the library itself.

These are the file that defines the function and, transitively, those that define what it calls. Files of a variant have
its instruction sets in their names (`conv2d_s8__scalar_dsp.c`); those for other instruction sets are not searched, as
the preprocessor removes the calls into them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from cortado.base.errors import CortadoError
from cortado.base.system import KERNEL_FILES, KERNELS

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'^#\s*include "([^"]+)"', re.MULTILINE)
_NAME = re.compile(r"CORTADO_ISA\(\s*(\w+)\s*\)|\b(cortado_\w+|CORTADO_\w+)")
_DEFINED = r"(CORTADO_ISA\(\s*\w+\s*\)|\bcortado_\w+)"
_PROTOTYPE = re.compile(rf"^[a-z][\w \*]*?{_DEFINED}\s*\([^;{{]*\);", re.MULTILINE)
_FUNCTION = re.compile(
    rf"^[a-z][\w \*]*?{_DEFINED}\s*\([^;{{]*\)\s*\{{(?:[^\n]*\}}$|.*?^\}})", re.MULTILINE | re.DOTALL
)
_DATA = re.compile(rf"^(?:static )?const [^;={{(]*?{_DEFINED}(?:\[[^\]]*\])+ = \{{.*?\}};", re.MULTILINE | re.DOTALL)
_MACRO = re.compile(r"^#\s*define (\w+)((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_ASSEMBLY = re.compile(r"^\s*function\s+(CORTADO_ISA\(\s*\w+\s*\)|\w+)", re.MULTILINE)
_SETS = re.compile(r"__([a-z_]+)\.")


@dataclass(frozen=True)
class _File:
    """A file of the library: its includes, the names it defines, and the names that each of its pieces refers to."""

    name: str
    included: tuple[str, ...]
    public: frozenset[str]  # functions and tables that other files may use
    pieces: dict[str, frozenset[str]]  # of a header: the names that each function and macro refers to
    read: frozenset[str]  # of a source: all names that it refers to

    @property
    def sets(self) -> frozenset[str]:
        """The instruction sets of the file; empty if it is portable."""
        found = _SETS.search(self.name)
        return frozenset(found.group(1).split("_")) if found else frozenset()

    def serves(self, kind: str) -> bool:
        return not self.sets or kind in self.sets


def _names(text: str) -> frozenset[str]:
    """Returns the library's names in a text; those completed by the instruction set end in `__`."""
    return frozenset(f"{by_set}__" if by_set else plain for by_set, plain in _NAME.findall(text))


def _parse(name: str, text: str) -> _File:
    text = _PROTOTYPE.sub("", _COMMENT.sub(" ", text))
    found = [match for pattern in (_FUNCTION, _DATA) for match in pattern.finditer(text)]
    public = {match.group(1) for match in found if not match.group(0).startswith("static")}
    public |= set(_ASSEMBLY.findall(text)) if name.endswith(".S") else set()
    pieces = {one: _names(match.group(0)) for match in found for one in _names(match.group(1))}
    pieces |= {macro: _names(body) for macro, body in _MACRO.findall(text)}
    defined = frozenset(one for written in public for one in _names(written))
    return _File(name, tuple(_INCLUDE.findall(text)), defined, pieces, _names(text))


@cache
def _library() -> dict[str, _File]:
    return {name: _parse(name, path.read_text()) for name, path in KERNEL_FILES.items()}


@cache
def _definers() -> dict[str, tuple[str, ...]]:
    """Maps each name to the sources that define it."""
    found: dict[str, list[str]] = {}
    for file in _library().values():
        for name in file.public if not file.name.endswith(".h") else ():
            for full in [f"{name}{one}" for one in file.sets] if name.endswith("__") else [name]:
                found.setdefault(full, []).append(file.name)
    return {name: tuple(files) for name, files in found.items()}


def _called(source: str, kind: str) -> set[str]:
    """Returns the names that a source uses for one instruction set, directly or through its headers."""
    library = _library()
    headers, left = dict[str, _File](), [source]
    while left:
        file = library.get(left.pop())
        if file is not None and file.name not in headers and (file.serves(kind) or not headers):
            headers[file.name] = file
            left += file.included
    pieces = {name: read for file in list(headers.values())[1:] for name, read in file.pieces.items()}
    found, names = set[str](), list(library[source].read)
    while names:
        name = names.pop()
        if name not in found:
            found.add(name)
            names += pieces.get(name, ())
    return found


def _defining(source: str, name: str, kind: str) -> list[str]:
    """Returns the sources that define a name that `source` refers to. An assembly file has a twin in C, with names in
    `__scalar`, for machines whose instruction set it doesn't have; a caller built for both needs both to link."""
    if not name.endswith("__"):
        return [one for one in _definers().get(name, ()) if _library()[one].serves(kind)]
    twins = _definers().get(f"{name}scalar", ()) if "scalar" in _library()[source].sets else ()
    return [*_definers().get(f"{name}{kind}", ()), *(one for one in twins if one.endswith(".c"))]


@cache
def _sources_of(function: str) -> frozenset[str]:
    if function not in _definers():
        raise CortadoError(f"no file of {KERNELS / 'src'} defines {function}")
    kind = function.removesuffix("_scratch").rpartition("__")[2] if "__" in function else ""
    found, left = set[str](), list(_definers()[function])
    while left:
        source = left.pop()
        if source not in found:
            found.add(source)
            left += [one for name in _called(source, kind) for one in _defining(source, name, kind)]
    return frozenset(found)


def functions_in(text: str) -> list[str]:
    """Returns the functions of the library that a piece of C names."""
    return [name for name in _names(text) if name in _definers()]


def sources_of(functions: Iterable[str]) -> tuple[str, ...]:
    """Returns the files of kernels/src that define these functions and everything that they call."""
    return tuple(sorted({source for function in functions for source in _sources_of(function)}))
