"""The firmware that a debugger loads: a bundle, start-up code for any chip, and a loop that executes commands."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from cortado.base.errors import CortadoError
from cortado.base.system import DEVICE
from cortado.base.target import BUNDLE_FLAGS, Compiler, CortexMTargetConfig
from cortado.run import toolchain
from cortado.run.bundle_info import BundleInfo, untyped
from cortado.run.harness import push_source
from cortado.run.runner import WARNINGS, bundle_includes, bundle_sources
from cortado.run.silicon.place import ProbePlace
from cortado.run.toolchain import BuildError

PROFILE = "-DCORTADO_PROFILE"
_SOURCES = tuple(DEVICE / name for name in ("probe_start.c", "probe.c"))
_LARGE_STACK, _SMALL_STACK, _SMALL_RAM = 4096, 1024, 16 * 1024


def glue(info: BundleInfo) -> str:
    """Returns the C that presents the model to the command loop."""
    name, reads = info.name, f"{info.name}_arena_t"
    kept = "const " if info.regions else ""
    own = [f"{kept}{reads} *const arena = {name}_default_arena();", "cortado_probe_model.arena = (void *)arena;"]
    inputs = [] if info.row_bytes else [f"{name}_input(arena, {i})" for i in range(len(info.inputs))]
    outputs = [f"{name}_output(arena, {i})" for i in range(len(info.outputs))]
    own += [f"cortado_probe_places[{i}] = (uint32_t)(uintptr_t){one};" for i, one in enumerate([*inputs, *outputs])]
    reset = untyped("void ", f"{name}_reset") if info.state or info.row_bytes else "NULL"
    run = f"{untyped('int ', f'{name}_run')}, {reset}, NULL, NULL"
    if info.row_bytes:
        run = f"NULL, {reset}, {untyped('int8_t *', f'{name}_row')}, PUSH"
    body = "\n".join(f"    {line}" for line in own)
    return f"""#include "probe.h"
#include "{name}.h"

#ifdef CORTADO_PROFILE
static uint32_t step_cycles[2 * {name.upper()}_STEPS];
void {name}_profile(uint32_t step) {{ cortado_probe_step(step); }}
#define STEPS {name.upper()}_STEPS, step_cycles
#else
#define STEPS 0, NULL
#endif

{push_source(name) if info.row_bytes else ""}uint32_t cortado_probe_places[{max(len(inputs) + len(outputs), 1)}];
cortado_probe_model_t cortado_probe_model = {{NULL, {run}, STEPS}};

void cortado_probe_fill(void)
{{
{body}
}}
"""


def _script(place: ProbePlace) -> str:
    """Returns the whole linker script. If everything is in RAM, code comes first."""
    lines = ["MEMORY", "{", place.ram.script("RAM"), *([] if place.in_ram else [place.code.script("CODE")]), "}"]
    lines += ['REGION_ALIAS("CODE", RAM)'] if place.in_ram else []
    stack = _SMALL_STACK if place.ram.length < _SMALL_RAM else _LARGE_STACK
    return "\n".join([*lines, f"cortado_stack_bytes = {stack};", (DEVICE / "probe.ld").read_text(encoding="utf-8")])


def build_probe(
    folder: Path, info: BundleInfo, core: CortexMTargetConfig, place: ProbePlace, flags: Sequence[str] = ()
) -> Path:
    """Builds the bundle's ELF file for the chip."""
    with tempfile.TemporaryDirectory(prefix="cortado-") as temporary:
        own = Path(temporary) / "probe_model.c"
        own.write_text(glue(info))
        sources = [*bundle_sources(folder), own, *_SOURCES]
        machine = core.compiler_flags(Compiler.GCC)
        every = [*machine, *WARNINGS, *BUNDLE_FLAGS, *info.flags, *flags]
        try:
            return toolchain.build_elf(
                sources,
                [*bundle_includes(folder), DEVICE],
                every,
                _script(place),
                info.name,
                machine_flags=machine,
                foreign=info.foreign,
            )
        except BuildError as error:
            overflow = toolchain.OVERFLOW.search(str(error))
            if overflow is None:
                raise
            region, excess = overflow.groups()
            memory, kind = (place.ram, "RAM (--ram)") if region == "RAM" else (place.code, "flash (--flash)")
            raise CortadoError(
                f"{info.name} does not fit the chip: its {kind} of {memory.length:,} bytes at {memory.origin:#010x} is "
                f"{excess} bytes too small"
            ) from error
