"""Files that a bundle takes from the kernel library, and the CMake target around them."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cortado.base.data import KERNELS
from cortado.base.names import c_identifier
from cortado.base.target import BUNDLE_FLAGS
from cortado.emit.c.kernels import TWO_SETS, library_hash

if TYPE_CHECKING:
    from cortado.plan.program import Program

LICENSE = "LICENSE"
SETTINGS_FILE = "cortado_settings.h"  # of the user's, where there is one
_VERSION, _NO_HASH = "cortado_version.h", "00000000"
# What the files that are written for a network include.
_INCLUDED = ("cortado_run.h", "cortado_endian.h")
# What they include beside that where they call one of its functions.
_SELDOM = ("cortado_narrow.h",)
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def license_text() -> str:
    return (KERNELS / LICENSE).read_text()


def kernel_files(sources: Iterable[str]) -> dict[str, str]:
    """The sources in use and the headers that they include, and no others."""
    files: dict[str, str] = {}
    left = [*sources, *_INCLUDED]
    while left:
        name = left.pop()
        folder = next(folder for folder in ("include", "src") if (KERNELS / folder / name).is_file())
        file = f"kernels/{folder}/{name}"
        if file not in files:
            files[file] = _text(KERNELS / folder / name)
            left += [one for one in _INCLUDE.findall(files[file]) if one != SETTINGS_FILE]
    return dict(sorted(files.items()))


def _text(path: Path) -> str:
    """A file of the library; the one that says which library it is gets its hash."""
    text = path.read_text()
    return text.replace(_NO_HASH, library_hash()) if path.name == _VERSION else text


def more_headers(functions: Iterable[str]) -> str:
    """The lines of C that include what declares these functions, beside cortado.h."""
    texts = {name: (KERNELS / "include" / name).read_text() for name in _SELDOM}
    called = set(functions)
    found = [name for name, text in texts.items() if not called.isdisjoint(re.findall(r"\b(\w+)\(", text))]
    return "".join(f'#include "{name}"\n' for name in found)


def own_sources(program: "Program", selftest: bool) -> list[str]:
    """The sources that are written for one network."""
    name = c_identifier(program.name)
    more = [part for part, there in (("camera", program.camera is not None), ("selftest", selftest)) if there]
    return [f"{name}.c", f"{name}_data.c", *(f"{name}_{part}.c" for part in more)]


def cmake_text(
    library: str, models: Sequence[tuple[str, Sequence[str]]], sources: Iterable[str], more: Sequence[str] = ()
) -> str:
    """A library target with the sources of networks, by their names, and of the kernels. `more`: flags beside those of
    all bundles."""
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
