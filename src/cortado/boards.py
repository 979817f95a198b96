"""Emulated boards: QEMU machines with a Cortex-M, the firmware that runs on them, and what can be measured there.

`build_firmware` puts a model, the harness and the start-up code into an ELF file; `run_harness` feeds it inputs and
returns outputs. A `Watch` adds a QEMU plugin that counts instructions exactly and checks every store. QEMU counts
instructions, not cycles.
"""

import re
import resource
import signal
import struct
import subprocess
import tempfile
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from cortado import toolchain
from cortado.errors import CortadoError
from cortado.records import Said, read_records
from cortado.target import Machine
from cortado.toolchain import BuildError, Compiler, Tool

DEVICE_DIR = Path(__file__).parent / "device"
BOARD_SOURCES = tuple(DEVICE_DIR / name for name in ("startup.c", "port_board.c", "records.c", "markers.c"))
HOST_SOURCES = tuple(DEVICE_DIR / name for name in ("port_host.c", "records.c", "markers.c"))
HARNESS_SOURCE = DEVICE_DIR / "harness.c"
DEFAULT_TIMEOUT = 120.0
MOST_OUTPUT_BYTES = 64 << 20  # what a program may say on a serial port
INPUT_HEADER = 16  # device/wire.h

MARKER_STEP = "cortado_marker_step"
# Between the markers, but no part of the model.
UNCOUNTED = ("cortado_marker_begin", "cortado_marker_end", MARKER_STEP, "cortado_harness_once")


@dataclass(frozen=True)
class Region:
    """A piece of the address space."""

    origin: int
    length: int

    @property
    def end(self) -> int:
        return self.origin + self.length

    def script(self, name: str) -> str:
        return f"    {name} : ORIGIN = {self.origin:#010x}, LENGTH = {self.length:#x}"


class Wire(Enum):
    """The way by which what a program says leaves its board, by the source that sends it."""

    MEMORY = "wire_memory.c"
    UART = "wire_uart.c"


@dataclass(frozen=True)
class Board:
    """A machine, its core and its memories. `big` is the large RAM that some have beside the usual one.

    `kept` is the memory that the emulator keeps in a file, with `big` in it.
    """

    machine: Machine
    core: str
    code: Region
    ram: Region
    big: Region | None = None
    kept: Region | None = None
    vectors: Region | None = None  # where they aren't at the start of `code`
    stack_bytes: int = 64 * 1024

    def linker_script(self, *, big: bool, stack_bytes: int | None = None) -> str:
        """The whole script. With `big`, weights (section .cortado.weights) go to the big RAM instead of `code`."""
        regions = {"CODE": self.code, "RAM": self.ram}
        aliases = {"WEIGHTS": "CODE"}
        for name, region, other in (("BIG", self.big, "RAM"), ("VECTORS", self.vectors, "CODE")):
            if region is None:
                aliases[name] = other
            else:
                regions[name] = region
        if big:
            aliases["WEIGHTS"] = "BIG"
        stack = self.stack_bytes if stack_bytes is None else stack_bytes
        lines = ["MEMORY", "{", *(region.script(name) for name, region in regions.items()), "}"]
        lines += [f'REGION_ALIAS("{alias}", {name})' for alias, name in aliases.items()]
        lines += [f"cortado_stack_bytes = {stack};", ""]
        # The emulator also loads zeros for what lies behind .data, in the place where .data is loaded from.
        in_code = "LOADADDR(.data) + cortado_bigram_end - cortado_data_start"
        behind = in_code if self.big is None else "cortado_bigram_end"
        sections = (DEVICE_DIR / "sections.ld").read_text(encoding="utf-8")
        room = (
            f"cortado_input = ALIGN({behind}, {INPUT_HEADER});\ncortado_input_end = {self._input_region.end:#010x};\n"
        )
        return "\n".join(lines) + sections + room

    @property
    def wire(self) -> Wire:
        return Wire.UART if self.kept is None else Wire.MEMORY

    @property
    def _input_region(self) -> Region:
        return self.big or self.code

    def input_room(self, image: "Image") -> int:
        """How many bytes of input a firmware leaves room for, and of what it says where that stays in memory."""
        return max(self._input_region.end - image.require("cortado_input").address - INPUT_HEADER, 0)


_M = 1024 * 1024
_MPS2_CODE = Region(0x00000000, 4 * _M)
_MPS2_RAM = Region(0x20000000, 4 * _M)
_MPS2_BIG = Region(0x21000000, 16 * _M)
_AN500_BIG = Region(0x60000000, 16 * _M)
_AN505_BIG = Region(0x80000000, 16 * _M)

BOARDS: Mapping[Machine, Board] = {
    board.machine: board
    for board in (
        Board(Machine.MPS2_AN385, "Cortex-M3", _MPS2_CODE, _MPS2_RAM, _MPS2_BIG, _MPS2_BIG),
        Board(Machine.MPS2_AN386, "Cortex-M4", _MPS2_CODE, _MPS2_RAM, _MPS2_BIG, _MPS2_BIG),
        Board(Machine.MPS2_AN500, "Cortex-M7", _MPS2_CODE, _MPS2_RAM, _AN500_BIG, _AN500_BIG),
        Board(
            Machine.MPS2_AN505,
            "Cortex-M33",
            Region(0x10000000, 4 * _M),
            Region(0x38000000, 4 * _M),
            _AN505_BIG,
            _AN505_BIG,
        ),
        Board(
            Machine.MPS3_AN547,
            "Cortex-M55",
            Region(0x11000000, 2 * _M),
            Region(0x31000000, 4 * _M),
            Region(0x70000000, 64 * _M),
            Region(0x60000000, 2048 * _M),
            vectors=Region(0x10000000, 512 * 1024),
        ),
        Board(
            Machine.MICROBIT,
            "Cortex-M0",
            Region(0x00000000, 256 * 1024),
            Region(0x20000000, 16 * 1024),
            stack_bytes=4096,
        ),
    )
}


def board(name: str | Machine) -> Board:
    """The board of a machine, by QEMU's name for it."""
    try:
        return BOARDS[Machine(name)]
    except ValueError:
        known = ", ".join(machine.value for machine in Machine)
        raise CortadoError(f"there is no board {name!r}; the boards are {known}") from None


# ---- Building -------------------------------------------------------------------------------------------------------


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
    compiler: Compiler | None = None,
    machine_flags: Sequence[str] | None = None,
) -> Path:
    """An ELF file for the board: the sources, the start-up code and, unless the sources have a main, the harness.

    Data in section .cortado.weights goes to the code memory or (`big`) to the large RAM; None takes the large RAM only
    when the code memory is too small. Data in section .bigram is always in the large RAM.
    """
    placements = [False, True] if big is None and board.big is not None else [bool(big)]
    scripts = [board.linker_script(big=placement, stack_bytes=stack_bytes) for placement in placements]
    device = [*BOARD_SOURCES, DEVICE_DIR / board.wire.value, *([HARNESS_SOURCE] if harness else [])]
    try:
        return toolchain.build_elf(
            [*sources, *device],
            [*include_dirs, DEVICE_DIR],
            flags,
            scripts,
            name,
            compiler=compiler,
            machine_flags=machine_flags,
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
    return toolchain.build_executable(
        [*sources, *HOST_SOURCES, HARNESS_SOURCE], [*include_dirs, DEVICE_DIR], flags, name
    )


# ---- ELF files ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Symbol:
    """A function or an object in an ELF file; a function's address has its Thumb bit removed."""

    name: str
    address: int
    size: int
    is_function: bool


@dataclass(frozen=True)
class Image:
    """What an ELF file says about itself."""

    path: Path
    symbols: tuple[Symbol, ...]
    functions: tuple[Symbol, ...]  # by address, one for each
    sections: Mapping[str, int]  # bytes in memory

    def find(self, name: str) -> Symbol | None:
        """The symbol of that name, or None. Two local symbols of one name are an error: which one is meant?"""
        found = [symbol for symbol in self.symbols if symbol.name == name]
        if len(found) > 1:
            raise CortadoError(f"{self.path.name} has {len(found)} symbols called {name}: rename all but one")
        return found[0] if found else None

    def require(self, name: str) -> Symbol:
        symbol = self.find(name)
        if symbol is None:
            raise CortadoError(f"{self.path.name} has no symbol {name}: is it defined, and used so that it is linked?")
        return symbol

    def function_at(self, pc: int) -> str:
        """The function an instruction belongs to."""
        symbol = self._function(pc)
        return symbol.name if symbol else f"{pc:#010x}"

    def place(self, pc: int) -> str:
        """function+offset, for messages."""
        symbol = self._function(pc)
        return f"{symbol.name}+{pc - symbol.address:#x}" if symbol else f"{pc:#010x}"

    def _function(self, pc: int) -> Symbol | None:
        # By the nearest start below: the C library's assembly functions have no size.
        index = bisect_right(self.functions, pc, key=lambda symbol: symbol.address) - 1
        return self.functions[index] if index >= 0 else None


def load_image(path: Path) -> Image:
    """The symbols and section sizes of an ELF file."""
    stat = path.stat()
    return _load_image(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=32)
def _load_image(path: Path, mtime_ns: int, size: int) -> Image:
    with path.open("rb") as file:
        elf = ELFFile(file)
        table = elf.get_section_by_name(".symtab")
        symbols = [] if table is None else [_symbol(entry) for entry in table.iter_symbols()]
        sections = {
            section.name: int(section["sh_size"])
            for section in elf.iter_sections()
            if section["sh_flags"] & 2  # SHF_ALLOC
        }
    kept = tuple(symbol for symbol in symbols if symbol is not None)
    return Image(path, kept, _functions(kept), sections)


def _functions(symbols: Sequence[Symbol]) -> tuple[Symbol, ...]:
    """One function per address; of two names for one, the one without leading underscores (memcpy, not __memcpy)."""
    by_address: dict[int, Symbol] = {}
    for symbol in sorted(symbols, key=lambda symbol: (symbol.name.startswith("_"), symbol.name)):
        if symbol.is_function:
            by_address.setdefault(symbol.address, symbol)
    return tuple(by_address[address] for address in sorted(by_address))


def _symbol(entry: Any) -> Symbol | None:  # pyelftools has no types
    kind = entry["st_info"]["type"]
    if kind not in ("STT_FUNC", "STT_OBJECT", "STT_NOTYPE") or not entry.name or entry.name.startswith("$"):
        return None
    is_function = kind == "STT_FUNC"
    address = int(entry["st_value"])
    return Symbol(str(entry.name), address & ~1 if is_function else address, int(entry["st_size"]), is_function)


# ---- Watching -------------------------------------------------------------------------------------------------------

Range = tuple[int, int]


@dataclass(frozen=True)
class Call:
    """What one execution of a step marker may write until the next: half-open ranges of offsets. `step` is reported."""

    step: int
    ranges: tuple[Range, ...]


@dataclass(frozen=True)
class StoreTable:
    """Which bytes a run may write: entry n of `calls` holds from the n-th execution of a step marker to the next.

    Offsets count from `base`, a symbol (the arena) or an address. `always` may be written during every call, and so may
    the stack and the whole of each of `symbols`. Nothing else may, and before the first step marker only those.
    """

    base: str | int
    calls: tuple[Call, ...]
    always: tuple[Range, ...] = ()
    symbols: tuple[str, ...] = ()

    def address(self, image: Image) -> int:
        return self.base if isinstance(self.base, int) else image.require(self.base).address


@dataclass(frozen=True)
class Watch:
    """What the plugin is to watch between the begin and end markers.

    `steps` are the functions whose calls split a run: by default cortado_marker_step if the firmware has it. Naming the
    kernels themselves instead needs no marker in the firmware at all.
    """

    count: bool = False
    stores: StoreTable | None = None
    steps: tuple[str, ...] | None = None


@dataclass(frozen=True)
class SampleCount:
    """Instructions of one run: all, before the first step marker, and of each call."""

    total: int
    before: int
    calls: tuple[int, ...]


@dataclass(frozen=True)
class Counts:
    """Instructions executed between the markers (not cycles); harness and markers not counted."""

    samples: tuple[SampleCount, ...]
    functions: Mapping[str, int]  # over all samples, most first
    addresses: Mapping[int, int]


@dataclass(frozen=True)
class StrayStore:
    """A store outside the table: by which instruction, where, in which run and call.

    `step` is the table's; None before the first step marker or past the table's end.
    """

    pc: int
    place: str
    address: int
    size: int
    sample: int
    call: int
    step: int | None


class StrayStoreError(CortadoError):
    """A kernel wrote where the compiler's plan doesn't let it."""


@dataclass(frozen=True)
class StoreReport:
    """Every store of a run was compared with the table; the first that didn't fit."""

    stores: int
    strays: int
    first: StrayStore | None
    calls: tuple[int, ...]  # step markers executed, per sample
    expected_calls: int
    base: int

    def problem(self, names: Sequence[str] = ()) -> str | None:
        """What is wrong, for a person, or None. `names` are the steps' names."""
        if self.first is not None:
            return self._stray_text(self.first, names)
        wrong = [made for made in self.calls if made != self.expected_calls]
        if wrong:
            return f"a run made {wrong[0]} calls, its store table has {self.expected_calls}"
        return None

    def check(self, names: Sequence[str] = ()) -> None:
        """Raises StrayStoreError if there is a problem."""
        problem = self.problem(names)
        if problem is not None:
            raise StrayStoreError(problem)

    def _stray_text(self, stray: StrayStore, names: Sequence[str]) -> str:
        if stray.step is None:
            when = "before the first step" if stray.call < 0 else "after the last step of its table"
        else:
            when = f"in step {stray.step}"
            when += f" ({names[stray.step]})" if stray.step < len(names) else ""
            when += f", call {stray.call}"
        offset = stray.address - self.base
        return (
            f"stray store by {stray.place}: {stray.size} bytes at {stray.address:#010x} (arena {offset:+#x}) "
            f"{when}, sample {stray.sample}; {self.strays} stray of {self.stores} stores"
        )


def plugin_path() -> Path:
    """The QEMU plugin, built if need be."""
    folder = DEVICE_DIR / "plugin"
    flags = ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    return toolchain.compile_shared([folder / "watch.c"], [folder], [*flags, "-fvisibility=hidden"], "cortado-watch")


def _merge(ranges: Sequence[Range]) -> list[Range]:
    """Sorted, with touching ranges joined, so that one store may lie across two of them."""
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if low > high:
            raise CortadoError(f"a range of the store table ends at {high:#x}, before its start {low:#x}")
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _range_text(ranges: Sequence[Range], base: int) -> str:
    return " ".join(f"{base + low:#x} {base + high:#x}" for low, high in _merge(ranges))


def _store_lines(table: StoreTable, image: Image) -> list[str]:
    base = table.address(image)
    stack = (image.require("cortado_stack_limit").address, image.require("cortado_stack_top").address)
    allowed = [stack, *((base + low, base + high) for low, high in table.always)]
    for name in table.symbols:
        symbol = image.require(name)
        allowed.append((symbol.address, symbol.address + symbol.size))
    lines = ["stores", *(f"always {low:#x} {high:#x}" for low, high in _merge(allowed))]
    return lines + [f"call {call.step} {_range_text(call.ranges, base)}" for call in table.calls]


def _watch_config(watch: Watch, image: Image, report: Path) -> str:
    lines = [f"report {report.name}"]
    lines += [f"{word} {image.require(f'cortado_marker_{word}').address:#x}" for word in ("begin", "end")]
    steps = watch.steps
    if steps is None:
        steps = (MARKER_STEP,) if image.find(MARKER_STEP) else ()
    lines += [f"step {image.require(name).address:#x}" for name in steps]
    skipped = [symbol for symbol in map(image.find, UNCOUNTED) if symbol is not None]
    lines += [f"skip {symbol.address:#x} {symbol.address + symbol.size:#x}" for symbol in skipped]
    if watch.count:
        lines.append("count")
    if watch.stores is not None:
        lines += _store_lines(watch.stores, image)
    return "\n".join(lines) + "\n"


def _report_rows(path: Path) -> dict[str, list[list[int]]]:
    """The plugin's report as rows of numbers by keyword."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if not text.endswith("complete\n"):
        raise CortadoError(
            "the emulator's plugin wrote no report: is this QEMU built with TCG plugins (API version 1)?"
        )
    rows: dict[str, list[list[int]]] = {key: [] for key in ("region", "segment", "pc", "stores", "stray", "complete")}
    for line in text.splitlines():
        key, *numbers = line.split()
        rows[key].append([int(number, 0) for number in numbers])
    return rows


def _counts(rows: Mapping[str, list[list[int]]], image: Image) -> Counts:
    per_sample: list[list[int]] = [[] for _ in rows["region"]]
    for sample, _, instructions in rows["segment"]:
        if sample < len(per_sample):  # a run that faulted leaves an open region
            per_sample[sample].append(instructions)
    samples = tuple(
        SampleCount(total, segments[0], tuple(segments[1:]))
        for (total, _), segments in zip(rows["region"], per_sample, strict=True)
    )
    addresses = {pc: count for pc, count in sorted(rows["pc"])}
    functions: dict[str, int] = {}
    for pc, count in addresses.items():
        name = image.function_at(pc)
        functions[name] = functions.get(name, 0) + count
    most_first = dict(sorted(functions.items(), key=lambda item: (-item[1], item[0])))
    return Counts(samples, most_first, addresses)


def _stores(rows: Mapping[str, list[list[int]]], image: Image, table: StoreTable) -> StoreReport:
    first = None
    if rows["stray"]:
        pc, address, size, sample, call, step = rows["stray"][0]
        first = StrayStore(pc, image.place(pc), address, size, sample, call, step if step >= 0 else None)
    ((stores, strays),) = rows["stores"]
    calls = tuple(made for _, made in rows["region"])
    return StoreReport(stores, strays, first, calls, len(table.calls), table.address(image))


# ---- Running --------------------------------------------------------------------------------------------------------


class BoardFaultError(CortadoError):
    """The program faulted; the message holds its registers."""


@dataclass(frozen=True)
class BoardResult:
    """What a program left behind: what it said, and what was watched."""

    said: Said
    seconds: float
    errors: str = ""  # what the emulator wrote to standard error
    counts: Counts | None = None
    stores: StoreReport | None = None


def run_elf(
    elf: Path,
    board: Board,
    inputs: bytes = b"",
    timeout: float = DEFAULT_TIMEOUT,
    plugin: Watch | None = None,
    *,
    check: bool = True,
    most_output: int = MOST_OUTPUT_BYTES,
    arguments: Sequence[str] = (),
) -> BoardResult:
    """Runs firmware on an input, which lies in its memory (device/port.h). `arguments` are more options of QEMU's.

    It sees nothing of this machine: the emulator has no semihosting, no disk and no network, and all that leaves it is
    what the program says. A fault is a BoardFaultError; a timeout, an end without an exit code and too much output are
    CortadoErrors; so is an exit code other than 0, unless `check` is off.
    """
    with tempfile.TemporaryDirectory(prefix="cortado-") as folder:
        run = _Run(elf, board, Path(folder))
        arguments = list(arguments)
        report = run.folder / "watch-report.txt"
        if plugin is not None:
            config = run.folder / "watch-config.txt"
            config.write_text(_watch_config(plugin, run.image, report), encoding="utf-8")
            arguments += ["-plugin", f"{_escape(str(plugin_path()))},config={config.name}"]
        try:
            result = _boot(run, inputs, arguments, timeout, check, most_output)
        except BoardFaultError as fault:
            if plugin is None or plugin.stores is None:
                raise
            # A stray store before the fault is its likely cause.
            problem = _stores(_report_rows(report), run.image, plugin.stores).problem()
            raise BoardFaultError("\n".join([str(fault), *([problem] if problem else [])])) from None
        return result if plugin is None else _with_report(result, plugin, report, run.image)


def _with_report(result: BoardResult, plugin: Watch, report: Path, image: Image) -> BoardResult:
    rows = _report_rows(report)
    counts = _counts(rows, image) if plugin.count else None
    stores = _stores(rows, image, plugin.stores) if plugin.stores is not None else None
    return replace(result, counts=counts, stores=stores)


def _escape(text: str) -> str:
    """QEMU separates options with commas and takes a doubled one literally."""
    return text.replace(",", ",,")


_MEMORY, _INPUT, _OUTPUT = "memory.bin", "input.bin", "output.bin"  # the files of a run: the first, or the other two


@dataclass(frozen=True)
class _Run:
    """One boot of a board, in a folder of its own."""

    elf: Path
    board: Board
    folder: Path

    @property
    def image(self) -> Image:
        return load_image(self.elf)

    @property
    def _input_address(self) -> int:
        return self.image.require("cortado_input").address

    def command(self) -> list[str]:
        """The emulator with the firmware and the files of the run, and no sight of any other."""
        kept, machine = self.board.kept, self.board.machine.value
        if kept is None:
            files = ["-M", machine, "-chardev", f"file,id=said,path={_OUTPUT}", "-serial", "chardev:said"]
            files += ["-device", f"loader,file={_INPUT},addr={self._input_address:#x},force-raw=on"]
        else:
            memory = f"memory-backend-file,id=kept,size={kept.length},mem-path={_MEMORY},share=on"
            files = ["-M", f"{machine},memory-backend=kept", "-m", f"{kept.length // _M}M", "-object", memory]
            files += ["-serial", "none"]
        return [
            str(toolchain.require(Tool.QEMU)),
            *files,
            *("-nodefaults", "-display", "none", "-monitor", "none"),
            "-no-reboot",  # a program ends by asking for a reset
            *("-kernel", str(self.elf.resolve())),
        ]

    def write(self, inputs: bytes) -> None:
        room = self.board.input_room(self.image)
        if len(inputs) > room:
            raise CortadoError(
                f"{self.elf.name} leaves room for {room:,} bytes of input on {self.board.machine.value}, "
                f"and there are {len(inputs):,}"
            )
        data = len(inputs).to_bytes(INPUT_HEADER, "little") + inputs
        if self.board.kept is None:
            (self.folder / _INPUT).write_bytes(data)
            return
        with (self.folder / _MEMORY).open("wb") as file:
            file.seek(self._input_address - self.board.kept.origin)
            file.write(data)
            file.truncate(self.board.kept.length)

    def said(self) -> bytes:
        """What the program has said so far."""
        if self.board.kept is None:
            path = self.folder / _OUTPUT
            return path.read_bytes() if path.exists() else b""
        with (self.folder / _MEMORY).open("rb") as file:
            start = self._input_address - self.board.kept.origin
            file.seek(start)
            length, said, full, _ = struct.unpack("<4I", file.read(INPUT_HEADER))
            if full:
                raise CortadoError(f"{self.elf.name} said more than {self.board.machine.value} has room for")
            start += INPUT_HEADER + (length + INPUT_HEADER - 1) // INPUT_HEADER * INPUT_HEADER
            file.seek(start)
            return file.read(min(said, self.board.input_room(self.image)))


def _boot(
    run: _Run, inputs: bytes, arguments: Sequence[str], timeout: float, check: bool, most_output: int
) -> BoardResult:
    start = time.monotonic()
    run.write(inputs)
    name, machine = run.elf.name, run.board.machine.value
    process = subprocess.Popen(
        [*run.command(), *arguments],
        cwd=run.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    with process:
        most = max(most_output, run.board.kept.length if run.board.kept is not None else 0)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, most))
        try:
            _, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            text = read_records(run.said(), whole=False).text.strip()
            raise CortadoError(
                f"{name} did not finish on {machine} within {timeout:g} s"
                f" (an endless loop, or more work than the limit allows); it printed: {text or 'nothing'}"
            ) from None
    if process.returncode == -signal.SIGXFSZ:
        raise CortadoError(f"{name} said more than {most_output:,} bytes on {machine}: an endless loop?")
    errors = stderr.decode(errors="replace")
    said = read_records(run.said(), whole=False)
    fault = re.search(r"^cortado fault: (.*)$", said.text, re.MULTILINE)
    if fault:
        raise BoardFaultError(_fault_text(fault.group(1), run.board, run.image))
    if process.returncode != 0 or said.exit_code is None or (check and said.exit_code != 0):
        raise CortadoError(_failure_text(said, process.returncode, errors, run))
    return BoardResult(said, time.monotonic() - start, errors)


def _failure_text(said: Said, code: int, errors: str, run: _Run) -> str:
    if code < 0:
        how = f"was stopped by {signal.Signals(-code).name}"
    elif code > 0:
        how = f"did not run: QEMU ended with exit code {code}"
    elif said.exit_code is None:
        how = "ended without its exit code"
    else:
        how = f"ended with exit code {said.exit_code}"
    # The boards' network card is not connected to anything, which QEMU remarks each time.
    lines = [line for line in errors.splitlines() if "has no peer" not in line]
    text = "\n".join([*said.text.strip().splitlines(), *lines[:20]])
    return f"{run.elf.name} {how} on {run.board.machine.value}:\n{text}"


# Bits of the configurable fault status register.
_FAULTS = {
    0: "instruction fetch from forbidden memory",
    1: "data access to forbidden memory",
    3: "forbidden memory on return from an exception",
    4: "forbidden memory on entry to an exception",
    8: "bus error on an instruction fetch",
    9: "bus error on a data access",
    10: "bus error, reported late",
    11: "bus error on return from an exception",
    12: "bus error on entry to an exception",
    16: "undefined instruction",
    17: "jump to an address without its Thumb bit",
    18: "bad exception return",
    19: "FPU or MVE instruction while switched off or absent",
    20: "stack limit passed",
    24: "unaligned access",
    25: "division by zero",
}


def _fault_text(registers: str, board: Board, image: Image) -> str:
    """The registers as the board printed them, after a line that says what they mean."""
    values = {name: int(value, 16) for name, value in re.findall(r"(\w+)=(0x[0-9a-f]+)", registers)}
    causes = [text for bit, text in _FAULTS.items() if values.get("cfsr", 0) >> bit & 1]
    if "stack overflow" in registers:
        causes.insert(0, "stack overflow")
    where = f" in {image.place(values['pc'])}" if "pc" in values else ""
    cause = ", ".join(causes) or "hard fault"
    return f"{image.path.name} faulted on {board.machine.value}{where}: {cause}\n{registers}"


# ---- The harness ----------------------------------------------------------------------------------------------------


def _samples(inputs: bytes, count: int) -> bytes:
    """What the harness takes."""
    return count.to_bytes(4, "little") + inputs


def run_harness(
    elf: Path,
    board: Board,
    inputs: bytes,
    count: int,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    plugin: Watch | None = None,
    arguments: Sequence[str] = (),
) -> BoardResult:
    """Runs the model of an ELF file of `build_firmware` on `count` samples in one boot of the board."""
    return run_elf(elf, board, _samples(inputs, count), timeout, plugin, arguments=arguments)


def samples_per_boot(elf: Path, board: Board, input_bytes: int, output_bytes: int) -> int:
    """How many samples of these sizes `run_harness` has room for."""
    said = output_bytes + output_bytes // 32 + 64  # with the headers of their records
    room = board.input_room(load_image(elf)) - 1024  # the count before them, and the last words after them
    return max(room, 0) // (input_bytes + said)


def run_host(program: Path, inputs: bytes, count: int, *, timeout: float = DEFAULT_TIMEOUT) -> BoardResult:
    """Runs the model of a program of `build_host` on `count` samples on this machine."""
    start = time.monotonic()
    try:
        done = subprocess.run(
            [str(program.resolve())], input=_samples(inputs, count), capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        raise CortadoError(f"{program.name} did not finish within {timeout:g} s on this machine") from None
    if done.returncode != 0:
        output = read_records(done.stdout, whole=False).text + done.stderr.decode(errors="replace")
        raise CortadoError(f"{program.name} ended with exit code {done.returncode} on this machine:\n{output}")
    said = read_records(done.stdout, whole=True)
    return BoardResult(said, time.monotonic() - start)
