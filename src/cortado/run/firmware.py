"""Builds firmware for a board, or the same program for this machine."""

from collections.abc import Sequence
from pathlib import Path

from cortado.base.data import DEVICE
from cortado.base.errors import CortadoError
from cortado.run import toolchain
from cortado.run.board import Board
from cortado.run.toolchain import BuildError, CompilerCommand

BOARD_SOURCES = tuple(DEVICE / name for name in ("startup.c", "port_board.c", "records.c", "markers.c"))
HOST_SOURCES = tuple(DEVICE / name for name in ("port_host.c", "records.c", "markers.c"))
WASM_SOURCES = tuple(DEVICE / name for name in ("port_wasm.c", "records.c", "markers.c"))
WASM_MAIN = "cortado_main"  # a name that clang leaves as it is
HARNESS_SOURCE = DEVICE / "harness.c"


def build_firmware(
    board: Board,
    sources: Sequence[Path],
    include_dirs: Sequence[Path],
    flags: Sequence[str],
    name: str,
    *,
    big: bool | None = None,
    stack_bytes: int | None = None,
    harness: bool = True,
    compiler: CompilerCommand | None = None,
    machine_flags: Sequence[str] | None = None,
    foreign: bool = False,
) -> Path:
    """An ELF file for the board: the sources, the start-up code and, unless the sources have a main, the harness.

    Data in section .cortado.weights goes to the code memory or (`big`) to the large RAM; None takes the large RAM only
    when the code memory is too small. Data in section .bigram is always in the large RAM. Of `foreign` sources see
    `toolchain.build_elf`.
    """
    placements = [False, True] if big is None and board.big is not None else [bool(big)]
    scripts = [board.linker_script(big=placement, stack_bytes=stack_bytes) for placement in placements]
    device = [*BOARD_SOURCES, DEVICE / board.wire.value, *([HARNESS_SOURCE] if harness else [])]
    try:
        return toolchain.build_elf(
            [*sources, *device],
            [*include_dirs, DEVICE],
            flags,
            scripts,
            name,
            compiler=compiler,
            machine_flags=machine_flags,
            foreign=foreign,
        )
    except BuildError as error:
        overflow = toolchain.OVERFLOW.search(str(error))
        if overflow is None:
            raise
        region, excess = overflow.groups()
        raise CortadoError(
            f"{name} does not fit on {board.machine.value}: its {region} memory is {excess} bytes too small.\n"
            "Choose a board with more memory, or place weights in .cortado.weights and buffers in .bigram."
        ) from error


def build_host(sources: Sequence[Path], include_dirs: Sequence[Path], flags: Sequence[str], name: str) -> Path:
    """The same harness around the same sources, as a program for this machine."""
    return toolchain.build_executable([*sources, *HOST_SOURCES, HARNESS_SOURCE], [*include_dirs, DEVICE], flags, name)


def build_harness_wasm(sources: Sequence[Path], include_dirs: Sequence[Path], flags: Sequence[str], name: str) -> Path:
    """The same for WebAssembly; device/wasm/run.mjs runs it."""
    everything = [*sources, *WASM_SOURCES, HARNESS_SOURCE]
    flags = [*flags, f"-Dmain={WASM_MAIN}"]
    return toolchain.build_wasm(everything, [*include_dirs, DEVICE], flags, name, (WASM_MAIN,))
