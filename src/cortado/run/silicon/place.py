"""A chip behind a debug probe as a place to run on: `gdb:HOST:PORT`, and the memories that firmware is loaded to.

Also the readings of a chip's own counter, as plain data.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import parse_qsl

from cortado.base.chips import chip_memory, find_chip
from cortado.base.errors import CortadoError
from cortado.base.regions import parse_bytes
from cortado.run.board import AddressRange

# ---- probe place -----------------------------------------------------------------------------------------

GDB = "gdb"
DEFAULT_HOST, DEFAULT_PORT = "localhost", 3333
_FORM = "expected gdb, gdb:PORT or gdb:HOST:PORT"


def is_probe(on: str | None) -> bool:
    return on is not None and re.match(rf"{GDB}(?:[:?]|$)", on) is not None


@dataclass(frozen=True)
class ProbePlace:
    """A GDB server, and the memories of the chip behind it."""

    host: str
    port: int
    code: AddressRange  # flash; with `in_ram` the same as `ram`
    ram: AddressRange
    in_ram: bool
    writes: tuple[tuple[int, int], ...] = field(default=())  # to registers, before anything runs

    @property
    def name(self) -> str:
        return f"{GDB}:{self.host}:{self.port}"

    @property
    def where(self) -> str:
        """Describes the place in words."""
        return (
            f"code and weights in RAM at {self.ram.origin:#010x}"
            if self.in_ram
            else (f"code and weights in flash at {self.code.origin:#010x}")
        )


def probe_text(on: str, settings: Mapping[str, str | None]) -> str:
    """Appends settings to a place: those that the command line gives in options other than --on."""
    given = "&".join(f"{name}={value}" for name, value in settings.items() if value is not None)
    return f"{on}{'&' if '?' in on else '?'}{given}" if given else on


def probe_place(text: str) -> ProbePlace:
    """Parses `gdb:HOST:PORT?chip=stm32f405&load=ram`, or a text with `flash` and `ram` as ORIGIN:SIZE."""
    address, _, query = text.partition("?")
    settings = dict(parse_qsl(query))
    host, port = _server(address)
    load = settings.get("load", "flash")
    if load not in ("flash", "ram"):
        raise CortadoError(f"--load {load}: expected flash or ram")
    code, ram, writes = _memories(settings, in_ram=load == "ram")
    return ProbePlace(host, port, code, ram, in_ram=load == "ram", writes=writes)


def _server(address: str) -> tuple[str, int]:
    words = address.split(":")[1:]
    host, port = ":".join(words[:-1]) or DEFAULT_HOST, words[-1] if words else str(DEFAULT_PORT)
    if not re.fullmatch(r"[A-Za-z0-9_.:\[\]-]+", host) or not port.isdecimal() or not 0 < int(port) < 65536:
        raise CortadoError(f"'{address}' names no GDB server; {_FORM}")
    return host, int(port)


def _memories(
    settings: Mapping[str, str], *, in_ram: bool
) -> tuple[AddressRange, AddressRange, tuple[tuple[int, int], ...]]:
    given = {name: _region(name, settings[name]) for name in ("flash", "ram") if name in settings}
    writes: tuple[tuple[int, int], ...] = ()
    if "chip" in settings and not {"flash", "ram"} <= set(given):
        chip = find_chip(settings["chip"])
        memory = chip_memory(chip)
        writes = memory.writes
        given.setdefault("ram", AddressRange(memory.ram, chip.ram_bytes))
        if memory.flash is not None and chip.flash_bytes is not None:
            given.setdefault("flash", AddressRange(memory.flash, chip.flash_bytes))
        if not in_ram and memory.ram_only and "flash" not in settings:
            raise CortadoError(
                f"code can't be run from {chip.name}'s flash by a debugger alone: {memory.ram_only}; load it with "
                "--load ram"
            )
    if "ram" not in given or (not in_ram and "flash" not in given):
        raise CortadoError(
            "the chip's memories are not known: name the chip with --chip, or give --flash ORIGIN:SIZE and --ram "
            "ORIGIN:SIZE, as in --flash 0x08000000:1M --ram 0x20000000:128K (with --load ram only the second)"
        )
    return given["ram" if in_ram else "flash"], given["ram"], writes


def _region(name: str, text: str) -> AddressRange:
    found = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+):(\w+)", text)
    if found is None:
        raise CortadoError(f"--{name} {text}: expected ORIGIN:SIZE, as in 0x20000000:128K")
    region = AddressRange(int(found[1], 0), parse_bytes(found[2]))
    if region.length < 1 or region.end > 1 << 32:
        raise CortadoError(f"--{name} {text}: these bytes are outside of a 32-bit address space")
    return region


# ---- silicon ---------------------------------------------------------------------------------------------


class CycleCounter(Enum):
    """The hardware counter that a chip's cycles come from."""

    NONE = "none"
    DWT = "DWT"
    SYSTICK = "SysTick"


@dataclass(frozen=True)
class StepCycles:
    """The cycles and the number of kernel calls of a step, in the last watched run."""

    cycles: int
    calls: int


@dataclass(frozen=True)
class FlashWalk:
    """The cycles of straight-line code: where it was loaded, the first time and again, and in RAM."""

    first: int
    again: int
    ram: int
    instructions: int = 128  # of two bytes

    @property
    def words(self) -> str:
        """Describes the wait states of flash, as far as they are visible."""
        more = (self.first - self.ram) * 2 / self.instructions  # a word is two of them
        seen = "no wait states observed" if more < 0.05 else f"flash takes {more:.1f} extra cycles for four bytes"
        return (
            f"{seen} ({self.instructions} instructions in a row: {self.first:,} cycles from flash, "
            f"{self.again:,} again, {self.ram:,} from RAM)"
        )


@dataclass(frozen=True)
class Silicon:
    """A model's run on a chip. `first` is the run after loading; `later` are those after it, on what remained of the
    inputs."""

    core: str  # by its CPUID
    cpuid: int
    counter: CycleCounter
    clock_hz: int | None  # measured against this machine's clock, within a few percent
    caches: tuple[str, ...]  # those switched on
    memory: str  # where code and weights were loaded, in words
    first: int | None = None
    later: tuple[int, ...] = ()
    steps: tuple[StepCycles, ...] = ()
    walk: FlashWalk | None = None  # None if not measured, if code was loaded to RAM, or if RAM can't be executed

    @property
    def warm(self) -> int | None:
        """Returns the fastest of the later runs; of a single run, that one."""
        return min(self.later, default=self.first)

    @property
    def words(self) -> str:
        """Describes clock, caches, memory and wait states as found."""
        clock = "an unknown clock" if self.clock_hz is None else f"about {self.clock_hz / 1e6:.1f} MHz"
        caches = f"{' and '.join(self.caches)} cache on" if self.caches else "no caches"
        return (
            f"counted by {self.counter.value} at the clock and the wait states that the chip starts with "
            f"({clock}), {caches}, {self.memory}" + ("" if self.walk is None else f"; {self.walk.words}")
        )


def without_overhead(cycles: Sequence[int], calls: Sequence[int], overhead: int) -> tuple[StepCycles, ...]:
    """Subtracts the measurement's own overhead from the cycles counted around each kernel call."""
    pairs = zip(cycles, calls, strict=True)
    return tuple(StepCycles(max(count - times * overhead, 0), times) for count, times in pairs)
