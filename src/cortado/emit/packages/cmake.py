"""CMake: add_subdirectory(), or find_package() after an install."""

from cortado.emit.packages.content import Content, below, example, lines, readme

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
    """A static library that can be added or installed."""
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
