"""Code size and stack use of compiled bundles, measured without running them."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cortado.base.target import BUNDLE_FLAGS, ONE_OF_EACH, Compiler, CortexM, CortexMTargetConfig
from cortado.emit.image.files import DELEGATE_FOLDER, LOADER_FILE, delegate_files
from cortado.run import toolchain
from cortado.run.bundle_info import BundleInfo
from cortado.run.elf import load_image
from cortado.run.runner import WARNINGS, bundle_includes, bundle_sources, write_files
from cortado.run.stack import stack_bytes

if TYPE_CHECKING:
    from cortado.emit.c.bundle import Bundle

WATCHER = "cortado_selftest_step"  # the self-test's function that the row loop calls in place of a step
PLAIN_NAMES = "-DCORTADO_PLAIN_NAMES"  # names of functions and constants without the build


@dataclass(frozen=True)
class Measured:
    """Code size and stack use of a bundle with the default flags, the maximum over the cores for a bundle for any core.

    None without a compiler; a stack use is also None if it can't be derived from the code.
    """

    code_bytes: int | None = None  # .text including descriptors, without weights
    stack_bytes: int | None = None  # of a call of MODEL_run or its equivalent, without interrupts
    selftest_stack_bytes: int | None = None  # of a call of MODEL_selftest


def code_bytes(bundle: "Bundle", info: BundleInfo, compiler: Compiler = Compiler.GCC) -> int | None:
    return measured(bundle.files, [bundle], [info], compiler).code_bytes


def methods_code_bytes(bundle: "Bundle", info: BundleInfo, entries: Sequence[str]) -> int | None:
    """Returns the code size of a bundle whose model has several methods, linked through their functions."""
    elf = linked_code(bundle.files, [bundle], [info], Compiler.GCC, entries)
    return None if elf is None else load_image(elf).sections[".text"]


def measured(
    files: Mapping[str, str],
    bundles: "Sequence[Bundle]",
    infos: Sequence[BundleInfo],
    compiler: Compiler = Compiler.GCC,
) -> Measured:
    """Measures bundles for one target whose files are together."""
    target = infos[0].target
    targets = ONE_OF_EACH if target.cpu is CortexM.ANY else (target,)
    elfs = [linked_code(files, bundles, [replace(info, target=one) for info in infos], compiler) for one in targets]
    linked = [(elf, one.cpu) for elf, one in zip(elfs, targets, strict=True) if elf is not None]
    if not linked:
        return Measured()
    entries = [entry for info in infos for entry in info.entries]
    steps = [call for bundle in bundles for call in bundle.calls]
    return Measured(
        code_bytes=max(load_image(elf).sections[".text"] for elf, _ in linked),
        stack_bytes=_most([stack_bytes(elf, cpu, entries, steps) for elf, cpu in linked]),
    )


def selftest_stack_bytes(bundle: "Bundle", info: BundleInfo) -> int | None:
    """Returns the stack use of a bundle's self-test."""
    targets = ONE_OF_EACH if info.target.cpu is CortexM.ANY else (info.target,)
    entry = f"{info.name}_selftest"
    stacks = []
    for target in targets:
        elf = linked_code(bundle.files, [bundle], [replace(info, target=target)], Compiler.GCC, (entry,))
        if elf is None:
            return None
        stacks.append(stack_bytes(elf, target.cpu, (entry,), bundle.calls, (WATCHER,)))
    return _most(stacks)


def _most(stacks: Sequence[int | None]) -> int | None:
    """Returns the maximum stack use; None if one is unknown."""
    return None if None in stacks else max(stack for stack in stacks if stack is not None)


def static_bytes(bundle: "Bundle", info: BundleInfo) -> int | None:
    """Returns the bundle's static RAM in addition to arena and stack; None without a compiler."""
    elf = linked_code(bundle.files, [bundle], [info], Compiler.GCC)
    return None if elf is None else load_image(elf).sections.get(".data", 0)


def linked_code(
    files: Mapping[str, str],
    bundles: "Sequence[Bundle]",
    infos: Sequence[BundleInfo],
    compiler: Compiler,
    also: Sequence[str] = (),
    more: Sequence[str] = (),
) -> Path | None:
    """Links MODEL_run alone, with the bundle's default flags; `also` further functions, with `more` flags."""
    target = infos[0].target
    tools = [toolchain.Tool.ARM_GCC, *([toolchain.Tool.CLANG] if compiler is Compiler.CLANG else [])]
    if any(toolchain.find(tool) is None for tool in tools):
        return None
    with tempfile.TemporaryDirectory(prefix="cortado-") as temporary:
        folder = Path(temporary)
        write_files(folder, files)
        for info in infos:
            (folder / f"{info.name}_data.c").unlink()
        return toolchain.build_elf(
            bundle_sources(folder),
            bundle_includes(folder),
            [*target.compiler_flags(compiler), *WARNINGS, *BUNDLE_FLAGS, *infos[0].flags, PLAIN_NAMES, *more],
            [_code_script(infos, [constant.name for bundle in bundles for constant in bundle.constants], also)],
            infos[0].name,
            compiler=toolchain.arm_clang() if compiler is Compiler.CLANG else None,
            machine_flags=target.compiler_flags(),
        )


_FOR_SIZE = '#pragma GCC optimize("Os")\n'  # as the loader's CMake file compiles it
# The functions of the loader that delegate.cpp calls.
_CALLED = ("open", "open_checked", "ram", "reset", "run", "row", "push", "input", "output")


def loader_bytes(files: Mapping[str, str], target: CortexMTargetConfig) -> int | None:
    """Returns the code that an application with a delegate links from the loader's `files`; None without a compiler."""
    if toolchain.find(toolchain.Tool.ARM_GCC) is None:
        return None
    with tempfile.TemporaryDirectory(prefix="cortado-") as temporary:
        folder = Path(temporary)
        write_files(folder, {**files, LOADER_FILE: _FOR_SIZE + files[LOADER_FILE]})
        elf = toolchain.build_elf(
            [*sorted((folder / "loader").glob("*.c")), *bundle_sources(folder)],
            bundle_includes(folder),
            [*target.compiler_flags(Compiler.GCC), *WARNINGS, *BUNDLE_FLAGS],
            [_script([f"cortado_image_{name}" for name in (*_CALLED, "input_tensor", "output_tensor")], ())],
            "cortado_loader",
            machine_flags=target.compiler_flags(),
        )
    return load_image(elf).sections[".text"]


def executorch_folder(files: Mapping[str, str], target: CortexMTargetConfig) -> dict[str, str]:
    """Returns the folder to add to ExecuTorch's build, a part of the compiled model."""
    linked = delegate_files(files, target.target_string, loader_bytes(files, target))
    return {f"{DELEGATE_FOLDER}/{name}": text for name, text in linked.items()}


def _code_script(infos: Sequence[BundleInfo], constants: Sequence[str], also: Sequence[str]) -> str:
    """Returns a linker script that links only what running bundles requires; constants are undefined but for their
    names."""
    return _script([*(entry for info in infos for entry in info.entries), *also], constants)


def _script(entries: Sequence[str], constants: Sequence[str]) -> str:
    entry, *others = entries
    return "\n".join(
        [
            f"ENTRY({entry})",
            f"EXTERN({' '.join(others)})",
            *(f"{constant} = 0;" for constant in constants),
            "SECTIONS { .text 0 : { *(.text* .rodata*) } .data : { *(.data* .bss* COMMON) }",
            "/DISCARD/ : { *(.ARM.exidx* .ARM.extab*) } }",
        ]
    )
