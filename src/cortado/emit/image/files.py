"""Sources that firmware compiles to run images: the loader, a table of kernels, and the kernels in it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cortado.base.data import KERNELS
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


def delegate_files(thunks: Iterable[Thunk], sources: Iterable[str], core: str) -> dict[str, str]:
    """All files of a folder that a project with ExecuTorch adds: the loader, and the delegate in front of it."""
    return {
        **loader_files(thunks, sources),
        "delegate.cpp": (KERNELS / "executorch" / "delegate.cpp").read_text(),
        "CMakeLists.txt": _DELEGATE_CMAKE,
        "README.md": _DELEGATE_README.format(core=core),
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


_DELEGATE_CMAKE = """# SPDX-License-Identifier: Apache-2.0
#
#     add_subdirectory(path/to/executorch executorch)   # or: find_package(executorch REQUIRED)
#     add_subdirectory(path/to/this/folder cortado)
#     target_link_libraries(firmware PRIVATE cortado_delegate)
cmake_minimum_required(VERSION 3.19)
project(cortado_delegate LANGUAGES C CXX ASM)

add_subdirectory(loader)
# An object library: all of it is linked, so that the registration is not dropped.
add_library(cortado_delegate OBJECT delegate.cpp)
target_compile_features(cortado_delegate PUBLIC cxx_std_17)
target_compile_options(cortado_delegate PRIVATE -fno-exceptions -fno-rtti)
target_link_libraries(cortado_delegate PUBLIC cortado::image)
if(TARGET executorch_core)
  target_link_libraries(cortado_delegate PUBLIC executorch_core)
else()
  find_package(executorch REQUIRED)
  target_include_directories(cortado_delegate SYSTEM PUBLIC ${EXECUTORCH_INCLUDE_DIRS})
  target_compile_definitions(cortado_delegate PUBLIC ${EXECUTORCH_COMPILE_DEFINITIONS})
endif()
"""

_DELEGATE_README = """# CortadoBackend for an ExecuTorch runtime

What a firmware for {core} cores links to run the `.pte` files whose delegates these kernels serve: `delegate.cpp`
registers `CortadoBackend` before `main()`, `loader/` opens a delegate's blob and lists the kernels in `kernels/`.

    add_subdirectory(path/to/executorch executorch)
    add_subdirectory(path/to/this/folder cortado)
    target_link_libraries(firmware PRIVATE cortado_delegate)

`cortado_delegate` is an object library: a linker keeps all of it. Where another build system makes an archive of it,
call `cortado_delegate_registered()` somewhere. A `.pte` that calls a kernel which is not here is refused when it is
loaded, and the log has the kernel's name; `cortado kernels FILE.pte ... --executorch FOLDER` writes this folder anew.
"""
