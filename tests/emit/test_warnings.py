"""C bundles and kernels build without a warning: with every compiler, for every core."""

from pathlib import Path

import pytest

from cortado.base.system import KERNEL_FOLDERS, KERNEL_SOURCES
from cortado.base.target import BUNDLE_FLAGS, Compiler, CortexM, from_target_string
from cortado.models import zoo
from cortado.options import Optimize
from cortado.run import toolchain
from cortado.run.runner import WARNINGS
from helpers.bundles import SLOW, compile_all, portable, write
from helpers.networks import TARGETS, networks, planned

# An ANY bundle is compiled for whichever core it ends up on.
ANY_CORES = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55")


def compiler_of(kind: Compiler) -> toolchain.CompilerCommand:
    return toolchain.arm_gcc() if kind is Compiler.GCC else toolchain.arm_clang()


@pytest.mark.cases(3)
@pytest.mark.host
@pytest.mark.parametrize("kind", [Compiler.GCC, pytest.param(Compiler.CLANG, marks=pytest.mark.slow)])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", networks(zoo.names(), slow=SLOW))
def test_builds_without_a_warning(name: str, target: str, kind: Compiler, tmp_path: Path) -> None:
    folder = write(tmp_path, planned(name, target, Optimize.BALANCED))
    for core in ANY_CORES if target == CortexM.ANY.value else (target,):
        flags = [*from_target_string(core).compiler_flags(kind), *WARNINGS, *BUNDLE_FLAGS]
        compile_all(folder, flags, compiler_of(kind))


@pytest.mark.host
@pytest.mark.parametrize("tool", [toolchain.Tool.CC, toolchain.Tool.CLANG])
@pytest.mark.parametrize("name", networks(zoo.names(), slow=SLOW))
def test_builds_without_a_warning_here(name: str, tool: toolchain.Tool, tmp_path: Path) -> None:
    folder = write(tmp_path, portable(name))
    compile_all(folder, [*WARNINGS, *BUNDLE_FLAGS], toolchain.CompilerCommand(toolchain.require(tool)), "c")


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.parametrize("kind", list(Compiler))
@pytest.mark.parametrize("target", [target for target in TARGETS if target != CortexM.ANY.value])
def test_every_kernel_builds_without_a_warning(target: str, kind: Compiler) -> None:
    """Those that no network of the zoo needs too."""
    flags = [*from_target_string(target).compiler_flags(kind), *WARNINGS, *BUNDLE_FLAGS]
    for source in KERNEL_SOURCES.values():
        toolchain.compile_object(source, KERNEL_FOLDERS, flags, compiler_of(kind))


@pytest.mark.host
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_all_assembly_is_taken_by_clang(target: str) -> None:
    """Its assembler refuses some of what GCC's takes; the boards run what GCC's makes."""
    flags = from_target_string(target).compiler_flags(Compiler.CLANG)
    for source in (path for path in KERNEL_SOURCES.values() if path.suffix == ".S"):
        toolchain.compile_object(source, KERNEL_FOLDERS, flags, toolchain.arm_clang())
