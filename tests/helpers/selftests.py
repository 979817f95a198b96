"""A bundle's self-test, called by a program of its own: here and on boards."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cortado.base.target import BUNDLE_FLAGS, from_target_string
from cortado.run import toolchain
from cortado.run.board import build_firmware, find_board
from cortado.run.qemu import run_elf
from cortado.run.runner import WARNINGS, bundle_includes, bundle_sources, write_files

_CHECKED = """
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

"""
_TESTED = """    if (NAME_selftest((void *)0) != -1 ||
        NAME_selftest((void *)((char *)NAME_default_arena() + 1)) != -1) {
        return 99;
    }
    error = NAME_selftest(NAME_default_arena());
    if (error != 0) {
        return error;
    }
"""


def _main(names: Sequence[str]) -> str:
    """A program that runs the self-tests of these models."""
    included = "".join(f'#include "{name}.h"\n' for name in names)
    tested = "".join(_TESTED.replace("NAME", name) for name in names)
    return f"{included}{_CHECKED}int main(void)\n{{\n    int error;\n{tested}    return 0;\n}}\n"


def run_here(folder: Path, files: Mapping[str, str], flags: Sequence[str] = (), names: Sequence[str] = ("net",)) -> int:
    write_files(folder, {**files, "main.c": _main(names)})
    every = [*WARNINGS, *BUNDLE_FLAGS, *flags]
    program = toolchain.build_executable(bundle_sources(folder, "c"), bundle_includes(folder), every, "selftest")
    return subprocess.run([program], timeout=1800).returncode


def run_there(
    folder: Path,
    files: Mapping[str, str],
    target: str,
    flags: Sequence[str] = (),
    *,
    names: Sequence[str] = ("net",),
) -> int | None:
    config = from_target_string(target)
    write_files(folder, {**files, "main.c": _main(names)})
    board, every = find_board(config.machine), [*config.compiler_flags(), *WARNINGS, *BUNDLE_FLAGS, *flags]
    elf = build_firmware(board, bundle_sources(folder), bundle_includes(folder), every, "selftest", harness=False)
    return run_elf(elf, board, b"", check=False).said.exit_code
