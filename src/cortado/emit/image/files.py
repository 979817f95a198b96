"""The sources that firmware compiles to run images: the loader, a table of kernels, and the kernels in it.

Firmware for any image takes every kernel call that an image can make. They are listed in every.txt, which a test
generates from the operators' kernel tables (`make golden`): one line per call, with its cores and its descriptor.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cortado.base.system import KERNELS
from cortado.base.target import BUNDLE_FLAGS, Core
from cortado.emit.c.library import LICENSE, kernel_files, license_text
from cortado.emit.image.thunks import Thunk, table_text
from cortado.ir.c_sources import functions_in, sources_of

if TYPE_CHECKING:
    from cortado.emit.image.writer import ModelImage


# ---- files -----------------------------------------------------------------------------------------------

LOADER = "cortado_image.c"
LOADER_FILE = f"loader/{LOADER}"
DELEGATE_FOLDER = "executorch"  # within a compiled model: the files to add to ExecuTorch's build
TABLE = "loader/cortado_kernels.c"
# The row loops, and the functions that save state and convert real numbers; a linker takes those that are used.
_LOOPS = ("cortado_run.c", "cortado_saved.c", "cortado_stream.c")
_FLOATS = ("quantize_f32_s8.c", "dequantize_s8_f32.c", "quantize_f32_s16.c", "dequantize_s16_f32.c")


def image_sources(sources: Iterable[str]) -> list[str]:
    """Returns the files of kernels/src that images with these kernels need."""
    return sorted({*sources, *_LOOPS, *_FLOATS})


def loader_files(thunks: Iterable[Thunk], sources: Iterable[str]) -> dict[str, str]:
    """Returns the files of the folder that a firmware project adds to open images."""
    wanted = image_sources(sources)
    kernels = kernel_files([*wanted, LOADER])
    loader = kernels.pop(f"kernels/src/{LOADER}")
    return {
        TABLE: table_text(thunks),
        LOADER_FILE: loader,
        "loader/CMakeLists.txt": _cmake_text(wanted),
        LICENSE: license_text(),
        **kernels,
    }


def delegate_files(files: Mapping[str, str], core: str, linked_bytes: int | None) -> dict[str, str]:
    """Returns the files of a folder to add to an ExecuTorch project: the loader's `files`, and the delegate that calls
    it.

    `linked_bytes` is the code size of these files in a firmware; None if unknown.
    """
    size = "not known here, without arm-none-eabi-gcc" if linked_bytes is None else f"{linked_bytes:,} bytes"
    return {
        **files,
        "delegate.cpp": (KERNELS / "executorch" / "delegate.cpp").read_text(),
        "CMakeLists.txt": _DELEGATE_CMAKE,
        "README.md": _DELEGATE_README.format(
            core=core, size=size, delegate=DELEGATE_BYTES, flags=" ".join(BUNDLE_FLAGS)
        ),
    }


def portable_files(image: "ModelImage") -> tuple[str, tuple[str, ...]]:
    """Returns the table of an image's kernels, and the files of kernels/src that it needs."""
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

DELEGATE_BYTES = 3_300  # of delegate.cpp, with gcc 12, including log messages
_DELEGATE_README = """# CortadoBackend for an ExecuTorch runtime

Firmware for {core} cores links this to run `.pte` files whose delegates need these kernels: `delegate.cpp`
registers `CortadoBackend` before `main()`, `loader/` opens a delegate's blob and lists the kernels in `kernels/`.

    add_subdirectory(path/to/executorch executorch)
    add_subdirectory(path/to/this/folder cortado)
    target_link_libraries(firmware PRIVATE cortado_delegate)

Instead of the first line, an installed ExecuTorch works too, found through `-DCMAKE_PREFIX_PATH=path/to/its/install`.
Place the `.pte` in flash at a multiple of 16 bytes, and give it to ExecuTorch as data (`BufferDataLoader`).

`cortado_delegate` is an object library: a linker keeps all of it. If another build system makes an archive of it, call
`cortado_delegate_registered()` from your code. A `.pte` that calls a kernel that is missing here is refused when it is
loaded, and the log names it; `cortado kernels FILE.pte ... --executorch FOLDER` writes this folder again.

| linked code of a {core} core | |
|---|---:|
| loader (`-Os`) and kernels (`{flags}`) | {size} |
| `delegate.cpp`, `-Os` | about {delegate:,} bytes |
"""


# ---- every -----------------------------------------------------------------------------------------------

LIST = Path(__file__).with_name("every.txt")


@dataclass(frozen=True)
class ListedThunk:
    """A kernel call, and the cores on which operators choose it."""

    thunk: Thunk
    cores: tuple[Core, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """Returns the files of kernels/src that it needs."""
        return sources_of(functions_in(self.thunk.call))

    @property
    def line(self) -> str:
        cores = ",".join(core.name.lower() for core in self.cores)
        return f"{cores} | {self.thunk.struct or '-'} | {self.thunk.call}"

    @staticmethod
    def parse(line: str) -> "ListedThunk":
        cores, struct, call = line.split(" | ")
        thunk = Thunk(None if struct == "-" else struct, call)
        return ListedThunk(thunk, tuple(Core[name.upper()] for name in cores.split(",")))


@cache
def every_thunk() -> dict[int, ListedThunk]:
    """Returns every kernel call that an image can make, by its number."""
    lines = LIST.read_text().splitlines() if LIST.is_file() else []
    return {one.thunk.id: one for one in map(ListedThunk.parse, lines)}
