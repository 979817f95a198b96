"""The files that a bundle takes from the kernel library, and the CMake target around them.

Ownership of kernels: a model calls its own set, or the set of several models that were compiled together.

A program has exactly one set of kernels. With two, most functions would exist twice, and a linker that is given
archives would take some from either. So a second set is an error, reported by whichever comes first: the CMake target,
the headers, or a symbol that every set defines and whose name states the mistake.
"""

import hashlib
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cortado import __version__
from cortado.base.names import c_identifier
from cortado.base.system import KERNEL_FILES, KERNELS
from cortado.base.target import BUNDLE_FLAGS

if TYPE_CHECKING:
    from cortado.plan.program import Program


# ---- kernels ---------------------------------------------------------------------------------------------

SHARED_ARENA = "cortado_together_arena"
TWO_SETS = "two Cortado bundles with kernels of their own in one program: compile the models with --together DIR"
_MARK = "cortado_two_sets_of_kernels__compile_the_models_with_together"


@dataclass(frozen=True)
class KernelSet:
    """A set of kernels, identified by the models that call it; these can share an arena too."""

    models: tuple[str, ...]  # their names in C
    one_arena: bool = False
    together: bool = False  # the kernels lie outside of the models' bundles

    @property
    def number(self) -> int:
        """Returns a number that no other set has, of this version or another."""
        return zlib.crc32("\n".join((__version__, *self.models)).encode())

    def shares_arena(self, program: "Program") -> bool:
        return self.one_arena and not lasting(program)


def lasting(program: "Program") -> bool:
    """Returns whether the arena holds data that must survive between two calls, so that no other model may write to
    it."""
    return bool(program.state) or program.pushed is not None or program.camera is not None


@cache
def library_hash() -> str:
    """Returns eight hexadecimal digits that hash every source and header of the kernel library."""
    found = hashlib.sha256()
    for path in KERNEL_FILES.values():
        found.update(f"{path.name}\n{path.stat().st_size}\n".encode() + path.read_bytes())
    return found.hexdigest()[:8]


def version_number(version: str) -> int:
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    return 10000 * major + 100 * minor + patch


def one_set_of_kernels(kernels: KernelSet) -> str:
    """Emits an #error in MODEL.h for a file that also includes a header of another set."""
    number = version_number(__version__)
    return f"""/* A program has one set of kernels, of one version. */
#if defined(CORTADO_VERSION_NUMBER) && (CORTADO_VERSION_NUMBER != {number} || CORTADO_LIBRARY != 0x{library_hash()}u)
#error "bundles of different versions of Cortado in one program: compile all models with one version"
#endif
#define CORTADO_VERSION_NUMBER {number}
#define CORTADO_LIBRARY 0x{library_hash()}u
#if defined(CORTADO_KERNELS_OF) && CORTADO_KERNELS_OF != {kernels.number:#010x}u
#error "{TWO_SETS}"
#endif
#define CORTADO_KERNELS_OF {kernels.number:#010x}u
"""


def kernels_check(kernels: KernelSet) -> str:
    """Emits the same check in MODEL.c, for compilers and linkers that see other files."""
    version = f"""#if CORTADO_KERNELS_VERSION_NUMBER != {version_number(__version__)} || \\
    CORTADO_KERNELS_HASH != 0x{library_hash()}u
#error "these kernels are not from Cortado {__version__}, which wrote this file: take both from one bundle"
#endif
"""
    return version + (_mark_used() if kernels.together else mark())


def mark() -> str:
    """Defines the symbol that a program may have only once."""
    return f"""
/* If a linker finds this twice, it was given two bundles with their own kernels. */
extern const char {_MARK};
const char {_MARK} = 0;
"""


def _mark_used() -> str:
    return f"""
/* The kernels are those of cortado_together.c: if a linker finds this twice, it was given others as well. */
extern const char {_MARK};
static const char *const mark __attribute__((used)) = &{_MARK};
"""


# ---- library ---------------------------------------------------------------------------------------------

LICENSE = "LICENSE"
SETTINGS_FILE = "cortado_settings.h"  # the user's own, if there is one
_VERSION, _NO_HASH = "cortado_version.h", "00000000"
# The headers that every generated source includes.
_INCLUDED = ("cortado_run.h", "cortado_endian.h")
# Those it includes only if it calls one of their functions.
_SELDOM = ("cortado_narrow.h",)
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def license_text() -> str:
    return (KERNELS / LICENSE).read_text()


def kernel_files(sources: Iterable[str]) -> dict[str, str]:
    """Returns the sources in use and the headers that they include, transitively."""
    files: dict[str, str] = {}
    left = [*sources, *_INCLUDED]
    while left:
        name = left.pop()
        path = KERNEL_FILES[name]
        file = f"kernels/{'include' if path.parent.name == 'include' else 'src'}/{name}"
        if file not in files:
            files[file] = _text(path)
            left += [one for one in _INCLUDE.findall(files[file]) if one != SETTINGS_FILE]
    return dict(sorted(files.items()))


def _text(path: Path) -> str:
    """Reads a file of the library, filling in the hash in the one that states the version."""
    text = path.read_text()
    return text.replace(_NO_HASH, library_hash()) if path.name == _VERSION else text


def more_headers(functions: Iterable[str]) -> str:
    """Includes the headers, other than cortado.h, that declare these functions."""
    texts = {name: (KERNELS / "include" / name).read_text() for name in _SELDOM}
    called = set(functions)
    found = [name for name, text in texts.items() if not called.isdisjoint(re.findall(r"\b(\w+)\(", text))]
    return "".join(f'#include "{name}"\n' for name in found)


def own_sources(program: "Program", selftest: bool) -> list[str]:
    """Names the generated sources of one network."""
    name = c_identifier(program.name)
    more = [part for part, there in (("camera", program.camera is not None), ("selftest", selftest)) if there]
    return [f"{name}.c", f"{name}_data.c", *(f"{name}_{part}.c" for part in more)]


def cmake_text(
    library: str, models: Sequence[tuple[str, Sequence[str]]], sources: Iterable[str], more: Sequence[str] = ()
) -> str:
    """Returns a CMake library target with the sources of networks, by name, and of the kernels.

    `more` are compiler flags in addition to those of all bundles.
    """
    own = [source for _, files in models for source in files]
    files = "\n  ".join([*own, *(f"kernels/src/{source}" for source in sources)])
    links = "\n".join(f"add_library({name}::{name} ALIAS {library})" for name, _ in models)
    return f"""# SPDX-License-Identifier: Apache-2.0
#
# add_subdirectory() this folder and link {" or ".join(f"{name}::{name}" for name, _ in models)}.
cmake_minimum_required(VERSION 3.16)
project({library} LANGUAGES C ASM)

# A program has one set of kernels.
if(TARGET cortado_kernels)
  message(FATAL_ERROR
    "{TWO_SETS}")
endif()
add_library(cortado_kernels INTERFACE)

add_library({library} STATIC
  {files}
)
{links}
target_include_directories({library}
  PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}}
  PRIVATE kernels/include kernels/src
)
target_compile_options({library}
  PRIVATE -std=c99 {" ".join((*BUNDLE_FLAGS, *more))}
)
"""
