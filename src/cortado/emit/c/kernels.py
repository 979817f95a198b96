"""Ownership of kernels: a model in C calls its own, or those of several models that were compiled together.

A program has one set of kernels. Two would be two copies of most functions, of which a linker that is given archives
takes some of one and some of the other. So it is an error, by whatever is looked at first: CMake's target, the headers,
or a symbol that every set defines and whose name says what is wrong.
"""

import hashlib
import zlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from cortado import __version__
from cortado.base.data import KERNELS

if TYPE_CHECKING:
    from cortado.plan.program import Program

SHARED_ARENA = "cortado_together_arena"
TWO_SETS = "two Cortado bundles with kernels of their own in one program: compile the models with --together DIR"
_MARK = "cortado_two_sets_of_kernels__compile_the_models_with_together"


@dataclass(frozen=True)
class Kernels:
    """A set of kernels, by the models that call them; several of them may share an arena too."""

    models: tuple[str, ...]  # their names in C
    one_arena: bool = False
    together: bool = False  # the models bring no kernels themselves

    @property
    def number(self) -> int:
        """One that other sets, of this version or another, don't have."""
        return zlib.crc32("\n".join((__version__, *self.models)).encode())

    def shares_arena(self, program: "Program") -> bool:
        return self.one_arena and not lasting(program)


def lasting(program: "Program") -> bool:
    """Whether something in its arena has to last between two calls, so that nobody else may write there."""
    return bool(program.state) or program.pushed is not None or program.camera is not None


@cache
def library_hash() -> str:
    """Eight hexadecimal digits that follow from every source and header of the kernel library."""
    found = hashlib.sha256()
    for path in sorted(path for folder in ("include", "src") for path in (KERNELS / folder).iterdir()):
        found.update(f"{path.name}\n{path.stat().st_size}\n".encode() + path.read_bytes())
    return found.hexdigest()[:8]


def version_number(version: str) -> int:
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    return 10000 * major + 100 * minor + patch


def one_set_of_kernels(kernels: Kernels) -> str:
    """For MODEL.h: an error where a file includes it beside that of another set."""
    number = version_number(__version__)
    return f"""/* A program has one set of kernels, of one version. */
#if defined(CORTADO_VERSION_NUMBER) && (CORTADO_VERSION_NUMBER != {number} || CORTADO_LIBRARY != 0x{library_hash()}u)
#error "bundles of different versions of Cortado in one program: compile all models with one of them"
#endif
#define CORTADO_VERSION_NUMBER {number}
#define CORTADO_LIBRARY 0x{library_hash()}u
#if defined(CORTADO_KERNELS_OF) && CORTADO_KERNELS_OF != {kernels.number:#010x}u
#error "{TWO_SETS}"
#endif
#define CORTADO_KERNELS_OF {kernels.number:#010x}u
"""


def kernels_check(kernels: Kernels) -> str:
    """For MODEL.c: the same for compilers and linkers that see other files."""
    version = f"""#if CORTADO_KERNELS_VERSION_NUMBER != {version_number(__version__)} || \\
    CORTADO_KERNELS_HASH != 0x{library_hash()}u
#error "these kernels are not those of Cortado {__version__}, which wrote this file: take both of one bundle"
#endif
"""
    return version + (_mark_used() if kernels.together else mark())


def mark() -> str:
    """The definition of the symbol that a program has once."""
    return f"""
/* A linker that finds this twice was given two bundles with kernels of their own. */
extern const char {_MARK};
const char {_MARK} = 0;
"""


def _mark_used() -> str:
    return f"""
/* The kernels are those of cortado_together.c: a linker that finds this twice was given others beside them. */
extern const char {_MARK};
static const char *const mark __attribute__((used)) = &{_MARK};
"""
