"""What a bundle takes from the kernel library, and the CMake target around it."""

import re
from collections.abc import Iterable, Sequence

from cortado.base.data import KERNELS
from cortado.base.target import BUNDLE_FLAGS

LICENSE = "LICENSE"
# What the files that are written for a network include.
_INCLUDED = ("cortado_run.h", "cortado_endian.h")
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
            files[file] = (KERNELS / folder / name).read_text()
            left += _INCLUDE.findall(files[file])
    return dict(sorted(files.items()))


def cmake_text(own: Sequence[str], sources: Sequence[str]) -> str:
    """A library target with the sources of the network, its name first, and of the kernels."""
    name = own[0]
    files = "\n  ".join([*(f"{file}.c" for file in own), *(f"kernels/src/{source}" for source in sources)])
    return f"""# SPDX-License-Identifier: Apache-2.0
#
# add_subdirectory() this folder and link {name}::{name}.
cmake_minimum_required(VERSION 3.16)
project({name} LANGUAGES C ASM)

add_library({name} STATIC
  {files}
)
add_library({name}::{name} ALIAS {name})
target_include_directories({name}
  PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}}
  PRIVATE kernels/include kernels/src
)
target_compile_options({name}
  PRIVATE -std=c99 {" ".join(BUNDLE_FLAGS)}
)
"""
