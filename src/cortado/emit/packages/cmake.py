"""CMake: add_subdirectory(), or find_package() after an install.

The Raspberry Pi Pico SDK: a CMake library next to the program's own targets.
"""

from cortado.emit.packages.content import Content, below, example, lines, readme

# ---- cmake -----------------------------------------------------------------------------------------------

_USE = """
Put this folder into your project:

```cmake
add_subdirectory({name})
target_link_libraries(firmware {name}::{name})
```

or install it (`cmake -S . -B build; cmake --install build --prefix PREFIX`) and use `find_package({name})`. The flags
of the core come from your toolchain file, for C and for assembly (`CMAKE_C_FLAGS`, `CMAKE_ASM_FLAGS`). `example/` is a
program that runs the self-test: `cmake -S example -B build -DCMAKE_TOOLCHAIN_FILE=...`.
"""
TOGETHER = "cortado_together.h"


def library(content: Content) -> str:
    """Returns a static library target that can be added or installed."""
    name = content.name
    return f"""# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.16)
project({name} VERSION {content.version} LANGUAGES C ASM)

add_library({name} STATIC
{lines(content.sources)}
)
add_library({name}::{name} ALIAS {name})
target_include_directories({name}
  PUBLIC $<BUILD_INTERFACE:${{CMAKE_CURRENT_SOURCE_DIR}}> $<INSTALL_INTERFACE:include>
  PRIVATE kernels/include kernels/src
)
target_compile_options({name} PRIVATE {" ".join(content.options)})
"""


def _installing(content: Content) -> str:
    name = content.name
    headers = [*content.headers, *([TOGETHER] if TOGETHER in content.files else [])]
    return f"""
install(TARGETS {name} EXPORT {name}Config ARCHIVE DESTINATION lib)
install(FILES {" ".join(headers)} DESTINATION include)
install(EXPORT {name}Config NAMESPACE {name}:: DESTINATION lib/cmake/{name})
"""


def cmake(content: Content) -> dict[str, str]:
    name = content.name
    project = f"""# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.16)
project({name}_example LANGUAGES C ASM)
add_subdirectory(.. {name})
add_executable({name}_example main.c)
target_link_libraries({name}_example {name}::{name})
"""
    return {
        **content.files,
        "CMakeLists.txt": library(content) + _installing(content),
        "README.md": readme(content, "CMake", _USE.format(name=name)),
        "LICENSE": content.license,
        **below(
            "example",
            {
                "CMakeLists.txt": project,
                "main.c": example(content, "<stdio.h>", "", "printf", "    return wrong;\n"),
            },
        ),
    }


# ---- pico ------------------------------------------------------------------------------------------------

_PICO_USE = """
In a project of the Pico SDK, after `pico_sdk_init()`:

```cmake
add_subdirectory({name})
target_link_libraries(firmware {name}::{name} pico_stdlib)
```

`example/` is such a project. It runs the self-test and says so on the board's USB serial port:

    cmake -S example -B build -DPICO_SDK_PATH=/path/to/pico-sdk -DPICO_BOARD={board}
    cmake --build build

and copy `build/{name}_example.uf2` onto the board; the result appears when the serial port is opened. A Pico has a
Cortex-M0+ and a Pico 2 a Cortex-M33: compile the models with `--chip pico` or `--chip pico2`.
"""
_BOARDS = {"Cortex-M0+": "pico", "Cortex-M33": "pico2"}


def pico(content: Content) -> dict[str, str]:
    name = content.name
    board = next((board for core, board in _BOARDS.items() if core in content.cores), "pico")
    project = f"""# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.16)
set(PICO_BOARD {board} CACHE STRING "the board")
if(NOT PICO_SDK_PATH)
  set(PICO_SDK_PATH $ENV{{PICO_SDK_PATH}})
endif()
if(NOT EXISTS "${{PICO_SDK_PATH}}/pico_sdk_init.cmake")
  message(FATAL_ERROR "no Pico SDK at '${{PICO_SDK_PATH}}'; give its folder with -DPICO_SDK_PATH=...")
endif()
include(${{PICO_SDK_PATH}}/pico_sdk_init.cmake)
project({name}_example C CXX ASM)
pico_sdk_init()

add_subdirectory(.. {name})
add_executable({name}_example main.c)
target_link_libraries({name}_example {name}::{name} pico_stdlib)
pico_enable_stdio_usb({name}_example 1)
pico_enable_stdio_uart({name}_example 0)
pico_add_extra_outputs({name}_example)
"""
    start = """    stdio_init_all();
    while (!stdio_usb_connected()) { /* until someone opens the serial port */
        sleep_ms(100);
    }
"""
    main = example(content, '"pico/stdlib.h"\n#include <stdio.h>', start, "printf", "    return wrong;\n")
    return {
        **content.files,
        "CMakeLists.txt": library(content),
        "README.md": readme(content, "the Pico SDK", _PICO_USE.format(name=name, board=board)),
        "LICENSE": content.license,
        **below("example", {"CMakeLists.txt": project, "main.c": main}),
    }
