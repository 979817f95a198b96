"""Zephyr: a module with its Kconfig symbols, and a sample."""

from dataclasses import dataclass

from cortado.emit.packages.content import Content, below, example, lines, readme

_USE = """
This folder is a Zephyr module. Enable it in `prj.conf` of your application:

{settings}

and pass its path to the build,

    west build -b BOARD APPLICATION -- -DZEPHYR_EXTRA_MODULES=/path/to/this/folder

or list its repository in your west manifest:

```yaml
manifest:
  projects:
    - name: {name}
      url: https://example.com/{name}.git
      revision: v{version}
      path: modules/{name}
```

Board, core and ABI flags reach the sources through `zephyr_interface`.{vectors}

| setting | what it does |
|---|---|
{options}

`samples/selftest` runs the self-test in a thread whose stack is computed from `{upper}_SELFTEST_STACK_BYTES`. Here:

    west build -b BOARD samples/selftest -- -DZEPHYR_EXTRA_MODULES=$PWD
"""
_VECTORS = """
Without `CONFIG_FPU` Zephyr compiles for a core without vector instructions, and an `#error` of the sources says so.
With `CONFIG_FPU_SHARING` other threads may use these registers too."""


@dataclass(frozen=True)
class _Setting:
    """A Kconfig symbol below the model's, and its effect in CMake."""

    name: str
    kind: str  # its type in Kconfig
    about: str
    define: str  # the macro to define; $ is replaced by the value of a symbol that is no bool
    everywhere: bool = True  # also defined for sources that include the header
    lines: tuple[str, ...] = ()  # further lines of its Kconfig entry
    flags: str = ""


_SETTINGS = (
    _Setting("CHECKS", "bool", "Guards around every buffer", "CORTADO_ENABLE_RUNTIME_CHECKS"),
    _Setting("PROFILE", "bool", "Call MODEL_profile(step) before every kernel call", "CORTADO_PROFILE"),
    _Setting("YIELD", "bool", "Call cortado_yield() before every kernel call", "CORTADO_YIELD"),
    _Setting(
        "ALIGNED_ONLY",
        "bool",
        "No unaligned access, for device memory and TRAP_UNALIGNED_ACCESS",
        "CORTADO_ALIGNED_ONLY",
        everywhere=False,
        lines=("default y if TRAP_UNALIGNED_ACCESS",),
        flags="-mno-unaligned-access",
    ),
    _Setting(
        "CACHE_LINE",
        "int",
        "Bytes of a cache line; arenas occupy whole lines, for DMA (0: none)",
        "CORTADO_CACHE_LINE=$",
        lines=("default 0",),
    ),
    _Setting(
        "ARENA_SECTION",
        "string",
        "Linker section of the default arena",
        'CORTADO_ARENA=__attribute__((section(\\"$\\")))',
        everywhere=False,
        lines=('default ""',),
    ),
    _Setting(
        "WEIGHTS_SECTION",
        "string",
        "Linker section of the constants",
        'CORTADO_WEIGHTS=__attribute__((section(\\"$\\")))',
        everywhere=False,
        lines=('default ""',),
    ),
)
_CODE_IN_RAM = "CODE_IN_RAM"


def zephyr(content: Content) -> dict[str, str]:
    symbol = f"CORTADO_{content.name.upper()}"  # a model can have the name of a Zephyr symbol: sensor
    settings = [f"CONFIG_{symbol}=y", *(["CONFIG_FPU=y", "CONFIG_FPU_SHARING=y"] if content.vectors else [])]
    use = _USE.format(
        settings=lines(settings, "    "),
        vectors=_VECTORS if content.vectors else "",
        name=content.name,
        version=content.version,
        upper=content.models[0].upper(),
        options=_table(symbol),
    )
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
                "prj.conf": "\n".join([*settings, ""]),
                "sample.yaml": _twister(content),
                "src/main.c": _main(content),
            },
        ),
    }


def _table(symbol: str) -> str:
    rows = [f"| `CONFIG_{symbol}_{one.name}` | {one.about[0].lower() + one.about[1:]} |" for one in _SETTINGS]
    ram = (
        "the code runs from RAM (`zephyr_code_relocate`); with `CONFIG_CODE_DATA_RELOCATION=y`, and the folder named "
        "like the module, because Zephyr finds its objects by that name"
    )
    return "\n".join([*rows, f"| `CONFIG_{symbol}_{_CODE_IN_RAM}` | {ram} |"])


def _kconfig(content: Content, symbol: str) -> str:
    registers = "\timply FPU_SHARING\n"  # for real numbers at the model's interface, and for vectors
    settings = "\n".join(
        f'config {symbol}_{one.name}\n\t{one.kind} "{one.about}"\n' + "".join(f"\t{line}\n" for line in one.lines)
        for one in _SETTINGS
    )
    return f"""# SPDX-License-Identifier: Apache-2.0
menuconfig {symbol}
\tbool "{content.name}"
{registers}\thelp
\t  {content.about}.

if {symbol}

{settings}
config {symbol}_{_CODE_IN_RAM}
\tbool "Run the code from RAM"
\tdepends on CODE_DATA_RELOCATION

endif
"""


def _set(symbol: str, one: _Setting) -> str:
    """Applies a setting to the build."""
    value = f"CONFIG_{symbol}_{one.name}"
    scope = "zephyr_compile_definitions" if one.everywhere else "zephyr_library_compile_definitions"
    flags = f"    zephyr_library_compile_options({one.flags})\n" if one.flags else ""
    define = one.define.replace("$", f"${{{value}}}")
    quoted = f'"{define}"' if "(" in define else define
    return f"  if({value})\n    {scope}({quoted})\n{flags}  endif()"


def _library(content: Content, symbol: str) -> str:
    settings = "\n".join(_set(symbol, one) for one in _SETTINGS)
    return f"""# SPDX-License-Identifier: Apache-2.0
if(CONFIG_{symbol})
  zephyr_include_directories(.)
  zephyr_library_named({content.name})
  zephyr_library_sources(
{lines(content.sources, "    ")}
  )
  zephyr_library_include_directories(. kernels/include kernels/src)
  zephyr_library_compile_options({" ".join(content.options)})
{settings}
  if(CONFIG_{symbol}_{_CODE_IN_RAM})
    zephyr_code_relocate(LIBRARY {content.name} LOCATION RAM_TEXT)
  endif()
endif()
"""


def _main(content: Content) -> str:
    """Runs the self-tests in a thread of their own, whose stack printk and interrupts use too."""
    include = "<zephyr/kernel.h>\n#include <zephyr/sys/printk.h>"
    start, end = "", "    failed = wrong;\n"
    text = example(content, include, start, "printk", end).replace(
        "int main(void)\n{",
        "static void selftests(void *a, void *b, void *c)\n{\n    (void)a;\n    (void)b;\n    (void)c;",
    )
    known = "\n".join(
        f"#ifndef {model.upper()}_SELFTEST_STACK_BYTES /* compiled without arm-none-eabi-gcc */\n"
        f"#define {model.upper()}_SELFTEST_STACK_BYTES 4096\n#define {model.upper()}_STACK_MARGIN_BYTES 0\n#endif"
        for model in content.models
    )
    needed = "0"
    for model in content.models:
        needed = f"MAX({model.upper()}_SELFTEST_STACK_BYTES + {model.upper()}_STACK_MARGIN_BYTES, {needed})"
    thread = f"""
{known}
/* The self-test's own stack, and what printk and the kernel take. */
#define STACK_BYTES ({needed} + 1024)
K_THREAD_STACK_DEFINE(stack, STACK_BYTES);
static struct k_thread thread;
static int failed;

"""
    text = text.replace("\nstatic void selftests(", f"{thread}static void selftests(")
    return f"""{text}
int main(void)
{{
    uint32_t options = 0;
#if defined(CONFIG_FPU) && defined(CONFIG_FPU_SHARING)
    options = K_FP_REGS;
#endif
    k_thread_create(&thread, stack, K_THREAD_STACK_SIZEOF(stack), selftests, NULL, NULL, NULL, 0, options, K_NO_WAIT);
    k_thread_join(&thread, K_FOREVER);
    return failed;
}}
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
