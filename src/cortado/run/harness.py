"""A model's samples through the harness: on a board, or on this machine."""

import time
from collections.abc import Sequence
from pathlib import Path

from cortado.base.errors import CortadoError
from cortado.run import limited
from cortado.run.board import Board
from cortado.run.elf import load_image
from cortado.run.limited import Limits, TooMuch
from cortado.run.qemu import BoardResult, run_elf
from cortado.run.records import read_records
from cortado.run.watch import Watch

HOST_TIMEOUT = 600.0
HOST_FILE_BYTES = 4 << 30  # of what a program on this machine says: a trace of all layers of many samples


def _samples(inputs: bytes, count: int, sequence: int) -> bytes:
    """Returns what the harness takes."""
    return count.to_bytes(4, "little") + sequence.to_bytes(4, "little") + inputs


def run_harness(
    elf: Path,
    board: Board,
    inputs: bytes,
    count: int,
    *,
    sequence: int = 0,
    timeout: float | None = None,
    instructions: int | None = None,
    plugin: Watch | None = None,
    arguments: Sequence[str] = (),
) -> BoardResult:
    """Runs the model of an ELF file of `build_firmware` on `count` samples in one boot of the board.

    A model with state is reset before the first, and where `sequence` is not 0 after every `sequence` samples.
    """
    given = _samples(inputs, count, sequence)
    return run_elf(elf, board, given, timeout, plugin, instructions=instructions, arguments=arguments)


def samples_per_boot(elf: Path, board: Board, input_bytes: int, output_bytes: int) -> int:
    """How many samples of these sizes `run_harness` has room for."""
    said = output_bytes + output_bytes // 32 + 64  # with the headers of their records
    room = board.input_room(load_image(elf)) - 1024  # the count before them, and the last words after them
    return max(room, 0) // (input_bytes + said)


def run_host(
    program: Path,
    inputs: bytes,
    count: int,
    *,
    sequence: int = 0,
    timeout: float = HOST_TIMEOUT,
    by: Sequence[Path] = (),
) -> BoardResult:
    """Runs the model of a program of `build_host` on `count` samples on this machine; `by` another program, if any."""
    start = time.monotonic()
    given = _samples(inputs, count, sequence)
    try:
        done = limited.run(
            [*by, program.resolve()],
            Limits(seconds=timeout, file_bytes=HOST_FILE_BYTES),
            doing=program.name,
            given=given,
        )
    except TooMuch as error:
        if error.limit != "seconds":
            raise
        raise CortadoError(f"{program.name} did not finish within {timeout:g} s on this machine") from None
    if done.code != 0:
        output = read_records(done.stdout, whole=False).text + done.errors
        raise CortadoError(f"{program.name} ended with exit code {done.code} on this machine:\n{output}")
    said = read_records(done.stdout, whole=True)
    return BoardResult(said, time.monotonic() - start)
