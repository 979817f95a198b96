"""Runs an ELF file on an emulated board: input in its memory, records out, faults in words.

Records are how a program on a board or on this machine reports to its runner (device/port.h).
"""

import re
import signal
import struct
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

from cortado.base.errors import CortadoError
from cortado.base.names import printable
from cortado.run import sandbox, toolchain
from cortado.run.board import INPUT_HEADER, MEGABYTE, Board
from cortado.run.elf import Image, load_image
from cortado.run.sandbox import Limit, Limits, TooMuch
from cortado.run.toolchain import Tool
from cortado.run.watch import (
    Counts,
    StoreReport,
    Watch,
    plugin_path,
    read_counts,
    read_flow,
    read_rows,
    read_stores,
    watch_config,
)
from cortado.timing.cycles import Flow

# ---- records ---------------------------------------------------------------------------------------------

_HEADER = struct.Struct("<BI")
_NUMBER = struct.Struct("<I")


class Record(IntEnum):
    """The kinds of records, numbered as in device/port.h."""

    TEXT = ord("T")
    OUTPUT = ord("O")
    TRACE = ord("R")
    STACK = ord("S")
    EXIT = ord("X")


@dataclass(frozen=True)
class Said:
    """A program's complete output. Without an exit code it was cut short."""

    text: str
    outputs: bytes
    trace: bytes
    stack_bytes: int | None
    exit_code: int | None


def read_records(data: bytes, *, whole: bool) -> Said:
    """Parses the records of an untrusted program. `whole`: they must end with an exit code."""
    found: dict[Record, list[bytes]] = {kind: [] for kind in Record}
    position = 0
    while position + _HEADER.size <= len(data):
        kind, length = _HEADER.unpack_from(data, position)
        start = position + _HEADER.size
        if kind not in Record.__members__.values():
            raise CortadoError(f"the program sent something that is not a record, at byte {position:,} of its output")
        if found[Record.EXIT]:
            raise CortadoError(f"the program sent more after its exit code, at byte {position:,} of its output")
        position = start + length
        if position > len(data):
            break
        found[Record(kind)].append(data[start:position])
    if whole and (position != len(data) or not found[Record.EXIT]):
        raise CortadoError(f"the output of the program was cut off at byte {len(data):,}, before its exit code")
    return Said(
        text=printable(b"".join(found[Record.TEXT]).decode(errors="replace")),
        outputs=b"".join(found[Record.OUTPUT]),
        trace=b"".join(found[Record.TRACE]),
        stack_bytes=_number(found[Record.STACK]),
        exit_code=_number(found[Record.EXIT]),
    )


def _number(parts: list[bytes]) -> int | None:
    if not parts:
        return None
    if len(parts) != 1 or len(parts[0]) != _NUMBER.size:
        raise CortadoError("the program sent a malformed number")
    return int(_NUMBER.unpack(parts[0])[0])


# ---- qemu ------------------------------------------------------------------------------------------------

MOST_INSTRUCTIONS = 20_000_000_000  # per sample: two minutes on an otherwise idle machine
MEMORY_BYTES = 8 << 30  # of address space, most of which the emulator never touches
MOST_OUTPUT_BYTES = 64 << 20  # that a program may send on a serial port


class BoardFaultError(CortadoError):
    """The program faulted; the message includes its registers."""


@dataclass(frozen=True)
class BoardResult:
    """The result of a program on a board: its output, and what the plugin observed."""

    said: Said
    seconds: float
    errors: str = ""  # what the emulator wrote to standard error
    counts: Counts | None = None
    flow: Flow | None = None
    stores: StoreReport | None = None


def run_elf(
    elf: Path,
    board: Board,
    inputs: bytes = b"",
    timeout: float | None = None,
    plugin: Watch | None = None,
    *,
    instructions: int | None = None,
    check: bool = True,
    most_output: int = MOST_OUTPUT_BYTES,
    arguments: Sequence[str] = (),
) -> BoardResult:
    """Runs firmware on an input placed in its memory (device/port.h). `arguments` are further options for QEMU.

    The firmware is isolated from this machine: the emulator has no semihosting, disk or network, and only the program's
    records leave it. It is stopped after this number of `instructions`, however busy this machine is, and after
    `timeout` seconds if given. A fault is a BoardFaultError. These limits, a missing exit code and too much output are
    CortadoErrors; so is an exit code other than 0, unless `check` is off.
    """
    with tempfile.TemporaryDirectory(prefix="cortado-") as folder:
        run = _Run(elf, board, Path(folder))
        arguments = list(arguments)
        report = run.folder / "watch-report.txt"
        config = run.folder / "watch-config.txt"
        most = MOST_INSTRUCTIONS if instructions is None else instructions
        config.write_text(watch_config(plugin, run.image, report, most), encoding="utf-8")
        arguments += ["-plugin", f"{_escape(str(plugin_path()))},config={config.name}"]
        try:
            result = _boot(run, inputs, arguments, timeout, most, check, most_output)
        except BoardFaultError as fault:
            if plugin is None or plugin.stores is None:
                raise
            # A stray store before the fault is its likely cause.
            problem = read_stores(read_rows(report), run.image, plugin.stores).problem()
            raise BoardFaultError("\n".join([str(fault), *([problem] if problem else [])])) from None
        return result if plugin is None else _with_report(result, plugin, report, run.image)


def _with_report(result: BoardResult, plugin: Watch, report: Path, image: Image) -> BoardResult:
    rows = read_rows(report)
    counts = read_counts(rows, image) if plugin.count else None
    stores = read_stores(rows, image, plugin.stores) if plugin.stores is not None else None
    flow = read_flow(rows) if plugin.order is not None else None
    return replace(result, counts=counts, flow=flow, stores=stores)


def _escape(text: str) -> str:
    """Escapes commas by doubling them, since QEMU separates options with commas."""
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
        """Returns the emulator's command line, with access to the firmware and the run's own files only."""
        kept, machine = self.board.kept, self.board.machine.value
        if kept is None:
            files = ["-M", machine, "-chardev", f"file,id=said,path={_OUTPUT}", "-serial", "chardev:said"]
            files += ["-device", f"loader,file={_INPUT},addr={self._input_address:#x},force-raw=on"]
        else:
            memory = f"memory-backend-file,id=kept,size={kept.length},mem-path={_MEMORY},share=on"
            files = ["-M", f"{machine},memory-backend=kept", "-m", f"{kept.length // MEGABYTE}M", "-object", memory]
            files += ["-serial", "none"]
        return [
            str(toolchain.require(Tool.QEMU)),
            *files,
            *("-nodefaults", "-display", "none", "-monitor", "none"),
            "-no-reboot",  # a program ends by requesting a reset
            *("-kernel", str(self.elf.resolve())),
        ]

    def write(self, inputs: bytes) -> None:
        room = self.board.input_room(self.image)
        if len(inputs) > room:
            raise CortadoError(
                f"{self.elf.name} leaves room for {room:,} bytes of input on {self.board.machine.value}, but there are "
                f"{len(inputs):,}"
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
        """Returns the program's output so far."""
        if self.board.kept is None:
            path = self.folder / _OUTPUT
            return path.read_bytes() if path.exists() else b""
        with (self.folder / _MEMORY).open("rb") as file:
            start = self._input_address - self.board.kept.origin
            file.seek(start)
            length, said, full, _ = struct.unpack("<4I", file.read(INPUT_HEADER))
            if full:
                raise CortadoError(f"{self.elf.name} sent more than {self.board.machine.value} has room for")
            start += INPUT_HEADER + (length + INPUT_HEADER - 1) // INPUT_HEADER * INPUT_HEADER
            file.seek(start)
            return file.read(min(said, self.board.input_room(self.image)))


EXIT_LIMIT, EXIT_IDLE = 124, 125  # the plugin's


def _boot(
    run: _Run,
    inputs: bytes,
    arguments: Sequence[str],
    timeout: float | None,
    instructions: int,
    check: bool,
    most_output: int,
) -> BoardResult:
    start = time.monotonic()
    run.write(inputs)
    name, machine = run.elf.name, run.board.machine.value
    most = max(most_output, run.board.kept.length if run.board.kept is not None else 0)
    limits = Limits(seconds=timeout, memory_bytes=MEMORY_BYTES, file_bytes=most)
    try:
        done = sandbox.run([*run.command(), *arguments], limits, doing=f"{name} on {machine}", folder=run.folder)
    except TooMuch as error:
        if error.limit is Limit.SECONDS:
            raise _unfinished(run, f"within {timeout:g} s (--timeout)") from None
        if error.limit is Limit.FILE_BYTES:
            raise CortadoError(f"{name} sent more than {most_output:,} bytes on {machine}: an endless loop?") from None
        raise
    if done.code == EXIT_LIMIT:
        raise _unfinished(run, f"within {instructions:,} instructions (--max-instructions)")
    if done.code == EXIT_IDLE:
        raise CortadoError(f"{name} sleeps on {machine}, and nothing will wake it; it printed: {_printed(run)}")
    errors = done.errors
    said = read_records(run.said(), whole=False)
    fault = re.search(r"^cortado fault: (.*)$", said.text, re.MULTILINE)
    if fault:
        raise BoardFaultError(_fault_text(fault.group(1), run.board, run.image))
    if done.code != 0 or said.exit_code is None or (check and said.exit_code != 0):
        raise CortadoError(_failure_text(said, done.code, errors, run))
    return BoardResult(said, time.monotonic() - start, errors)


def _unfinished(run: _Run, limit: str) -> CortadoError:
    return CortadoError(
        f"{run.elf.name} did not finish on {run.board.machine.value} {limit}: an endless loop, or more work than the "
        f"limit allows; it printed: {_printed(run)}"
    )


def _printed(run: _Run) -> str:
    return read_records(run.said(), whole=False).text.strip() or "nothing"


def _failure_text(said: Said, code: int, errors: str, run: _Run) -> str:
    if code < 0:
        how = f"was stopped by {signal.Signals(-code).name}"
    elif code > 0:
        how = f"did not run: QEMU ended with exit code {code}"
    elif said.exit_code is None:
        how = "ended without its exit code"
    else:
        how = f"ended with exit code {said.exit_code}"
    # QEMU warns every time that the boards' network card is not connected.
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
    19: "FPU or MVE instruction while disabled or absent",
    20: "stack limit passed",
    24: "unaligned access",
    25: "division by zero",
}


def _fault_text(registers: str, board: Board, image: Image) -> str:
    """Explains the registers that the board printed in a line above them."""
    values = {name: int(value, 16) for name, value in re.findall(r"(\w+)=(0x[0-9a-f]+)", registers)}
    causes = [text for bit, text in _FAULTS.items() if values.get("cfsr", 0) >> bit & 1]
    if "stack overflow" in registers:
        causes.insert(0, "stack overflow")
    where = f" in {image.place(values['pc'])}" if "pc" in values else ""
    cause = ", ".join(causes) or "hard fault"
    return f"{image.path.name} faulted on {board.machine.value}{where}: {cause}\n{registers}"
