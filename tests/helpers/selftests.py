"""A bundle's self-test, called by a program of its own: here and on boards."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cortado.base.target import BUNDLE_FLAGS, from_target_string
from cortado.run import toolchain
from cortado.run.board import build_firmware, find_board
from cortado.run.qemu import run_elf
from cortado.run.runner import WARNINGS, bundle_includes, bundle_sources, write_files

MAIN = """#include "net.h"
#ifdef CORTADO_ENABLE_RUNTIME_CHECKS
#include "cortado_run.h"
void cortado_check_failed(const char *step, const char *what, const char *buffer)
{
    (void)step;
    (void)what;
    (void)buffer;
    __builtin_trap();
}
#endif
#ifdef CORTADO_PROFILE
void net_profile(uint32_t step) { (void)step; }
#endif

int main(void)
{
    if (net_selftest((void *)0) != -1 || net_selftest((void *)((char *)net_default_arena() + 1)) != -1) { return 99; }
    return net_selftest(net_default_arena());
}
"""


def run_here(folder: Path, files: Mapping[str, str], flags: Sequence[str] = ()) -> int:
    write_files(folder, {**files, "main.c": MAIN})
    every = [*WARNINGS, *BUNDLE_FLAGS, *flags]
    program = toolchain.build_executable(bundle_sources(folder, "c"), bundle_includes(folder), every, "selftest")
    return subprocess.run([program], timeout=1800).returncode


def run_there(folder: Path, files: Mapping[str, str], target: str, flags: Sequence[str] = ()) -> int | None:
    config = from_target_string(target)
    write_files(folder, {**files, "main.c": MAIN})
    board, every = find_board(config.machine), [*config.compiler_flags(), *WARNINGS, *BUNDLE_FLAGS, *flags]
    elf = build_firmware(board, bundle_sources(folder), bundle_includes(folder), every, "selftest", harness=False)
    return run_elf(elf, board, b"", check=False).said.exit_code
