"""Zephyr: a module with its Kconfig symbol, and a sample."""

from cortado.emit.packages.content import Content, below, example, lines, readme

_USE = """
This folder is a Zephyr module. Switch it on in `prj.conf` of your application:

{settings}

and name it to the build, or list it as a project of your west manifest:

    west build -b BOARD APPLICATION -- -DZEPHYR_EXTRA_MODULES=/path/to/this/folder

Board, core and ABI flags reach the sources through `zephyr_interface`.{vectors}

`samples/selftest` runs the self-test; in this folder:

    west build -b BOARD samples/selftest -- -DZEPHYR_EXTRA_MODULES=$PWD
"""
_VECTORS = """
Without `CONFIG_FPU` Zephyr compiles for a core without vector instructions, and an `#error` of the sources says so.
With `CONFIG_FPU_SHARING` other threads may use these registers too."""


def zephyr(content: Content) -> dict[str, str]:
    symbol = f"CORTADO_{content.name.upper()}"  # a model may be called as one of Zephyr's own: sensor, display
    settings = [f"CONFIG_{symbol}=y", *(["CONFIG_FPU=y", "CONFIG_FPU_SHARING=y"] if content.vectors else [])]
    use = _USE.format(settings=lines(settings, "    "), vectors=_VECTORS if content.vectors else "")
    main = example(content, "<zephyr/kernel.h>\n#include <zephyr/sys/printk.h>", "", "printk", "    return wrong;\n")
    return {
        **content.files,
        "zephyr/module.yml": f"name: {content.name}\nbuild:\n  cmake: .\n  kconfig: Kconfig\nsamples:\n  - samples\n",
        "Kconfig": _kconfig(content, symbol),
        "CMakeLists.txt": _library(content, symbol),
        "README.md": readme(content, "Zephyr", use),
        "LICENSE": content.license,
        **below(
            "samples/selftest",
            {
                "CMakeLists.txt": _sample(content),
                "prj.conf": "\n".join([*settings, "CONFIG_MAIN_STACK_SIZE=4096", ""]),
                "sample.yaml": _twister(content),
                "src/main.c": main,
            },
        ),
    }


def _kconfig(content: Content, symbol: str) -> str:
    return f"""# SPDX-License-Identifier: Apache-2.0
config {symbol}
\tbool "{content.name}"
\thelp
\t  {content.about}.
"""


def _library(content: Content, symbol: str) -> str:
    return f"""# SPDX-License-Identifier: Apache-2.0
if(CONFIG_{symbol})
  zephyr_include_directories(.)
  zephyr_library_named({content.name})
  zephyr_library_sources(
{lines(content.sources, "    ")}
  )
  zephyr_library_include_directories(. kernels/include kernels/src)
  zephyr_library_compile_options({" ".join(content.options)})
endif()
"""


def _sample(content: Content) -> str:
    return f"""# SPDX-License-Identifier: Apache-2.0
cmake_minimum_required(VERSION 3.20)
find_package(Zephyr REQUIRED HINTS $ENV{{ZEPHYR_BASE}})
project({content.name}_selftest)
target_sources(app PRIVATE src/main.c)
"""


def _twister(content: Content) -> str:
    regex = lines((f'- "{model}: every bit as expected"' for model in content.models), "        ")
    return f"""sample:
  name: {content.name} self-test
tests:
  sample.{content.name}.selftest:
    tags: {content.name}
    harness: console
    harness_config:
      type: multi_line
      regex:
{regex}
"""
