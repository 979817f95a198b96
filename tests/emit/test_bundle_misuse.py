"""A bundle used wrongly: indices and arenas that are none, and compiled for the other byte order."""

import subprocess
from pathlib import Path

import pytest

from cortado.api import Model
from cortado.base.errors import CortadoError
from cortado.base.system import KERNEL_FOLDERS, KERNEL_SOURCES
from cortado.base.target import BUNDLE_FLAGS, Core, from_target_string
from cortado.emit.c.bundle import emit_c
from cortado.plan.program import build_program
from cortado.plan.schedule import schedule
from cortado.run import toolchain
from cortado.run.board import build_firmware, find_board
from cortado.run.qemu import run_elf
from cortado.run.runner import WARNINGS, bundle_includes, bundle_sources, write_files
from helpers.cores import THREE, each_core
from helpers.sanitizers import SANITIZERS

# Every question a bundle is asked; the exit code is the number of the first one with a wrong answer.
MISUSE = """#include <stddef.h>
#include <string.h>

#include "tiny.h"

static uint8_t bytes[TINY_ARENA_BYTES + TINY_ARENA_ALIGN] __attribute__((aligned(TINY_ARENA_ALIGN)));
static uint8_t before[sizeof bytes];
static float values[TINY_INPUT0_BYTES + TINY_OUTPUT0_BYTES];

static int first_wrong(void)
{
    tiny_arena_t *const memory = tiny_arena(bytes, sizeof bytes);
    if (memory == NULL || tiny_arena(bytes, TINY_ARENA_BYTES) != memory) { return 9; }
    if (tiny_arena(bytes, TINY_ARENA_BYTES - 1) != NULL || tiny_arena(NULL, TINY_ARENA_BYTES) != NULL) { return 10; }
    if (tiny_arena(bytes + 1, TINY_ARENA_BYTES) != NULL) { return 11; }
    const int none[] = {-1, TINY_INPUTS, TINY_OUTPUTS, 1000, -2147483647 - 1, 2147483647};
    for (unsigned i = 0; i < sizeof none / sizeof none[0]; i++) {
        if (tiny_input(memory, none[i]) != NULL) { return 1; }
        if (tiny_output(memory, none[i]) != NULL) { return 2; }
        tiny_quantize_input(memory, none[i], values);
        tiny_dequantize_output(memory, none[i], values);
    }
    if (tiny_input(NULL, 0) != NULL || tiny_output(NULL, 0) != NULL) { return 3; }
    tiny_quantize_input(NULL, 0, values);
    tiny_dequantize_output(NULL, 0, values);
    if (tiny_run(NULL) == 0) { return 4; }
    for (int offset = 1; offset < TINY_ARENA_ALIGN; offset++) {
        if (tiny_run((void *)(bytes + offset)) == 0) { return 5; }
    }
    if (memcmp(bytes, before, sizeof bytes) != 0) { return 6; }
    if (tiny_input(memory, 0) == NULL || tiny_output(memory, 0) == NULL) { return 7; }
    memset(tiny_input(memory, 0), 1, TINY_INPUT0_BYTES);
    return tiny_run(memory) == 0 ? 0 : 8;
}

int main(void)
{
    memset(bytes, 0x5A, sizeof bytes);
    memset(before, 0x5A, sizeof before);
    return first_wrong();
}
"""


def write(model: Model, folder: Path, target: str, cores: tuple[Core, ...] | None = None) -> list[Path]:
    config = from_target_string(target)
    graph = model.compile(config).graph
    assert graph is not None
    write_files(folder, emit_c(schedule(build_program("tiny", graph, config, cores=cores))).files)
    (folder / "main.c").write_text(MISUSE)
    return bundle_sources(folder, "c" if cores else "cS")


@pytest.mark.host
def test_wrong_indices_and_arenas_are_answered_here(tiny: Model, tmp_path: Path) -> None:
    sources = write(tiny, tmp_path, "cortex-m4", (Core.PORTABLE,))
    flags = [*WARNINGS, *BUNDLE_FLAGS, *SANITIZERS]
    program = toolchain.build_executable(sources, bundle_includes(tmp_path), flags, "misuse")
    done = subprocess.run([program], capture_output=True, timeout=1800)
    assert done.returncode == 0, done.stderr


# What a DMA channel writes beside the data cache must share no line with another variable; the exit code as above.
LINES = """#include "tiny.h"

static uint8_t memory[sizeof(tiny_arena_t) + CORTADO_CACHE_LINE] __attribute__((aligned(CORTADO_CACHE_LINE)));

int main(void)
{
    if (sizeof(tiny_arena_t) % CORTADO_CACHE_LINE != 0 || TINY_ARENA_ALIGN != CORTADO_CACHE_LINE) { return 1; }
    if ((uintptr_t)tiny_default_arena() % CORTADO_CACHE_LINE != 0) { return 2; }
    if (tiny_arena(memory, sizeof(tiny_arena_t) - 1) != NULL) { return 3; }
    if (tiny_arena(memory + CORTADO_CACHE_LINE / 2, sizeof(tiny_arena_t)) != NULL) { return 4; }
    return tiny_run(tiny_arena(memory, sizeof(tiny_arena_t)));
}
"""


@pytest.mark.host
def test_the_arena_takes_whole_lines_of_the_data_cache(tiny: Model, tmp_path: Path) -> None:
    sources = write(tiny, tmp_path, "cortex-m7", (Core.PORTABLE,))
    (tmp_path / "main.c").write_text(LINES)
    flags = [*WARNINGS, *BUNDLE_FLAGS]
    program = toolchain.build_executable(
        sources, bundle_includes(tmp_path), [*flags, "-DCORTADO_CACHE_LINE=32"], "lines"
    )
    assert subprocess.run([program], timeout=1800).returncode == 0
    with pytest.raises(CortadoError, match="CORTADO_CACHE_LINE is the length of a line of the data cache: 32 on most"):
        toolchain.build_executable(sources, bundle_includes(tmp_path), [*flags, "-DCORTADO_CACHE_LINE=20"], "lines")


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m4"))
def test_wrong_indices_and_arenas_are_answered_on_boards(tiny: Model, tmp_path: Path, target: str) -> None:
    config = from_target_string(target)
    sources = write(tiny, tmp_path, target)
    flags = [*config.compiler_flags(), *WARNINGS, *BUNDLE_FLAGS]
    board = find_board(config.machine)
    elf = build_firmware(board, sources, bundle_includes(tmp_path), flags, "misuse", harness=False)
    assert run_elf(elf, board, b"", check=False).said.exit_code == 0


@pytest.mark.host
def test_no_source_compiles_for_the_other_byte_order(tiny: Model, tmp_path: Path) -> None:
    write(tiny, tmp_path, "cortex-m4")
    (tmp_path / "main.c").unlink()
    flags = [*from_target_string("cortex-m4").compiler_flags(), *BUNDLE_FLAGS, "-mbig-endian"]
    own = [source for source in bundle_sources(tmp_path) if source.parent == tmp_path]
    assert len(own) == 2
    includes = [*bundle_includes(tmp_path), *KERNEL_FOLDERS]
    for source in [*own, *KERNEL_SOURCES.values()]:
        with pytest.raises(CortadoError, match="this bundle is little-endian, its weights included; compile it w"):
            toolchain.compile_object(source, includes, flags, toolchain.arm_gcc())
