"""The emulated boards: their machines, memories, and connection to this machine.

Also builds firmware for a board, or the same program for this machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from cortado.base.errors import CortadoError
from cortado.base.system import DEVICE
from cortado.base.target import Machine
from cortado.run import toolchain
from cortado.run.elf import Image
from cortado.run.toolchain import BuildError, CompilerCommand

# ---- board -----------------------------------------------------------------------------------------------

INPUT_HEADER = 16  # device/wire.h


@dataclass(frozen=True)
class AddressRange:
    """A range of the address space."""

    origin: int
    length: int

    @property
    def end(self) -> int:
        return self.origin + self.length

    def script(self, name: str) -> str:
        return f"    {name} : ORIGIN = {self.origin:#010x}, LENGTH = {self.length:#x}"


class Wire(Enum):
    """The channel by which a program's records leave its board, as the source file that sends them."""

    MEMORY = "wire_memory.c"
    UART = "wire_uart.c"


@dataclass(frozen=True)
class Board:
    """A machine, its core and its memories. `big` is the large RAM that some have in addition to the usual one.

    `kept` is the memory that the emulator backs with a file; it includes `big`.
    """

    machine: Machine
    core: str
    code: AddressRange
    ram: AddressRange
    big: AddressRange | None = None
    kept: AddressRange | None = None
    vectors: AddressRange | None = None  # if they aren't at the start of `code`
    stack_bytes: int = 64 * 1024

    def linker_script(self, *, big: bool, stack_bytes: int | None = None) -> str:
        """Returns the whole linker script. With `big`, weights (section .cortado.weights) go to the big RAM instead of
        `code`; weights in named sections always go there if it exists."""
        regions = {"CODE": self.code, "RAM": self.ram}
        aliases = {"WEIGHTS": "CODE"}
        for name, region, other in (("BIG", self.big, "RAM"), ("VECTORS", self.vectors, "CODE")):
            if region is None:
                aliases[name] = other
            else:
                regions[name] = region
        if big:
            aliases["WEIGHTS"] = "BIG"
        aliases["EXTERNAL"] = "CODE" if self.big is None else "BIG"
        stack = self.stack_bytes if stack_bytes is None else stack_bytes
        lines = ["MEMORY", "{", *(region.script(name) for name, region in regions.items()), "}"]
        lines += [f'REGION_ALIAS("{alias}", {name})' for alias, name in aliases.items()]
        lines += [f"cortado_stack_bytes = {stack};", ""]
        # The emulator also loads zeros for everything after .data, at the place that .data is loaded from.
        in_code = "LOADADDR(.data) + cortado_bigram_end - cortado_data_start"
        behind = in_code if self.big is None else "cortado_bigram_end"
        sections = (DEVICE / "sections.ld").read_text(encoding="utf-8")
        room = (
            f"cortado_input = ALIGN({behind}, {INPUT_HEADER});\ncortado_input_end = {self._input_region.end:#010x};\n"
        )
        return "\n".join(lines) + sections + room

    @property
    def wire(self) -> Wire:
        return Wire.UART if self.kept is None else Wire.MEMORY

    @property
    def _input_region(self) -> AddressRange:
        return self.big or self.code

    def input_room(self, image: "Image") -> int:
        """Returns the bytes that a firmware leaves for inputs, and for its records if these stay in memory."""
        return max(self._input_region.end - image.require("cortado_input").address - INPUT_HEADER, 0)


MEGABYTE = 1024 * 1024
_MPS2_CODE = AddressRange(0x00000000, 4 * MEGABYTE)
_MPS2_RAM = AddressRange(0x20000000, 4 * MEGABYTE)
_MPS2_BIG = AddressRange(0x21000000, 16 * MEGABYTE)
_AN500_BIG = AddressRange(0x60000000, 16 * MEGABYTE)
_AN505_BIG = AddressRange(0x80000000, 16 * MEGABYTE)


BOARDS: Mapping[Machine, Board] = {
    board.machine: board
    for board in (
        Board(Machine.MPS2_AN385, "Cortex-M3", _MPS2_CODE, _MPS2_RAM, _MPS2_BIG, _MPS2_BIG),
        Board(Machine.MPS2_AN386, "Cortex-M4", _MPS2_CODE, _MPS2_RAM, _MPS2_BIG, _MPS2_BIG),
        Board(Machine.MPS2_AN500, "Cortex-M7", _MPS2_CODE, _MPS2_RAM, _AN500_BIG, _AN500_BIG),
        Board(
            Machine.MPS2_AN505,
            "Cortex-M33",
            AddressRange(0x10000000, 4 * MEGABYTE),
            AddressRange(0x38000000, 4 * MEGABYTE),
            _AN505_BIG,
            _AN505_BIG,
        ),
        Board(
            Machine.MPS3_AN547,
            "Cortex-M55",
            AddressRange(0x11000000, 2 * MEGABYTE),
            AddressRange(0x31000000, 4 * MEGABYTE),
            AddressRange(0x70000000, 64 * MEGABYTE),
            AddressRange(0x60000000, 2048 * MEGABYTE),
            vectors=AddressRange(0x10000000, 512 * 1024),
        ),
        Board(
            Machine.MICROBIT,
            "Cortex-M0",
            AddressRange(0x00000000, 256 * 1024),
            AddressRange(0x20000000, 16 * 1024),
            stack_bytes=4096,
        ),
    )
}


def find_board(name: str | Machine) -> Board:
    """Returns the board of a machine, by QEMU's name for it."""
    try:
        return BOARDS[Machine(name)]
    except ValueError:
        known = ", ".join(machine.value for machine in Machine)
        raise CortadoError(f"there is no board {name!r}; expected one of {known}") from None


# ---- firmware --------------------------------------------------------------------------------------------

BOARD_SOURCES = tuple(DEVICE / name for name in ("startup.c", "port_board.c", "records.c", "markers.c"))
HOST_SOURCES = tuple(DEVICE / name for name in ("port_host.c", "records.c", "markers.c"))
WASM_SOURCES = tuple(DEVICE / name for name in ("port_wasm.c", "records.c", "markers.c"))
WASM_MAIN = "cortado_main"  # a name that clang does not treat specially
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
    """Builds an ELF file for the board: the sources, the start-up code and, unless the sources have a main, the
    harness.

    Data in section .cortado.weights goes to the code memory or (`big`) to the large RAM; None takes the large RAM only
    if the code memory is too small. Data in section .bigram is always in the large RAM. For `foreign` sources see
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
    """Builds the same harness around the same sources, as a program for this machine."""
    return toolchain.build_executable([*sources, *HOST_SOURCES, HARNESS_SOURCE], [*include_dirs, DEVICE], flags, name)


def build_harness_wasm(sources: Sequence[Path], include_dirs: Sequence[Path], flags: Sequence[str], name: str) -> Path:
    """Builds the same for WebAssembly; device/wasm/run.mjs runs it."""
    everything = [*sources, *WASM_SOURCES, HARNESS_SOURCE]
    flags = [*flags, f"-Dmain={WASM_MAIN}"]
    return toolchain.build_wasm(everything, [*include_dirs, DEVICE], flags, name, (WASM_MAIN,))
