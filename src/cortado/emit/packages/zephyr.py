"""Zephyr: a module with its Kconfig symbol, and a sample."""

from cortado.emit.packages.content import Content, below, example, lines, readme

_USE = """
This folder is a Zephyr module. Name it to the build, and switch it on in `prj.conf`:

    west build -b BOARD app -- -DZEPHYR_EXTRA_MODULES=$PWD/{name}
    CONFIG_{upper}=y

or list it as a project of your west manifest. Board, core and ABI flags reach the sources through `zephyr_interface`.
`samples/selftest` runs the self-test:

    west build -b BOARD samples/selftest -- -DZEPHYR_EXTRA_MODULES=$PWD
"""


def zephyr(content: Content) -> dict[str, str]:
    upper = content.name.upper()
    main = example(content, "<zephyr/kernel.h>\n#include <zephyr/sys/printk.h>", "", "printk", "    return wrong;\n")
    return {
        **content.files,
        "zephyr/module.yml": f"name: {content.name}\nbuild:\n  cmake: .\n  kconfig: Kconfig\n",
        "Kconfig": _kconfig(content, upper),
        "CMakeLists.txt": _library(content, upper),
        "README.md": readme(content, "Zephyr", _USE.format(name=content.name, upper=upper)),
        "LICENSE": content.license,
        **below(
            "samples/selftest",
            {
                "CMakeLists.txt": _sample(content),
                "prj.conf": f"CONFIG_{upper}=y\nCONFIG_MAIN_STACK_SIZE=4096\n",
                "sample.yaml": _twister(content),
                "src/main.c": main,
            },
        ),
    }


def _kconfig(content: Content, upper: str) -> str:
    return f"""# SPDX-License-Identifier: Apache-2.0
config {upper}
\tbool "{content.name}"
\thelp
\t  {content.about}.
"""


def _library(content: Content, upper: str) -> str:
    return f"""# SPDX-License-Identifier: Apache-2.0
if(CONFIG_{upper})
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
