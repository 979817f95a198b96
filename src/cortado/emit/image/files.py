"""Sources that firmware compiles to run images: the loader, a table of kernels, and the kernels in it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cortado.base.target import BUNDLE_FLAGS
from cortado.emit.c.library import LICENSE, kernel_files, license_text
from cortado.emit.image.thunks import Thunk, table_text

if TYPE_CHECKING:
    from cortado.emit.image.writer import ModelImage

LOADER = "cortado_image.c"
TABLE = "loader/cortado_kernels.c"
# The loops over rows, and what converts real numbers; a linker takes those that are used.
_LOOPS = ("cortado_run.c", "cortado_stream.c")
_FLOATS = ("quantize_f32_s8.c", "dequantize_s8_f32.c", "quantize_f32_s16.c", "dequantize_s16_f32.c")


def image_sources(sources: Iterable[str]) -> list[str]:
    """The files of kernels/src that images with these kernels need."""
    return sorted({*sources, *_LOOPS, *_FLOATS})


def loader_files(thunks: Iterable[Thunk], sources: Iterable[str]) -> dict[str, str]:
    """All files of a folder that a firmware project adds."""
    wanted = image_sources(sources)
    kernels = kernel_files([*wanted, LOADER])
    loader = kernels.pop(f"kernels/src/{LOADER}")
    return {
        TABLE: table_text(thunks),
        f"loader/{LOADER}": loader,
        "loader/CMakeLists.txt": _cmake_text(wanted),
        LICENSE: license_text(),
        **kernels,
    }


def portable_files(image: "ModelImage") -> tuple[str, tuple[str, ...]]:
    """The table of an image's kernels, and the files of kernels/src that it needs."""
    return table_text(image.thunks), tuple(image_sources(image.sources))


def _cmake_text(sources: Iterable[str]) -> str:
    files = "\n  ".join(["cortado_image.c", "cortado_kernels.c", *(f"../kernels/src/{one}" for one in sources)])
    return f"""# SPDX-License-Identifier: Apache-2.0
#
# add_subdirectory() this folder and link cortado::image: it opens and runs images (.cortado).
cmake_minimum_required(VERSION 3.16)
project(cortado_image LANGUAGES C ASM)

add_library(cortado_image STATIC
  {files}
)
add_library(cortado::image ALIAS cortado_image)
target_include_directories(cortado_image
  PUBLIC ../kernels/include
  PRIVATE ../kernels/src
)
target_compile_options(cortado_image
  PRIVATE -std=c99 {" ".join(BUNDLE_FLAGS)}
)
set_source_files_properties(cortado_image.c PROPERTIES COMPILE_OPTIONS -Os) # it runs once for each image
"""
