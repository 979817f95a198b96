"""What a program on a board says, and that it reaches nothing of this machine."""

from pathlib import Path

import pytest
import torch

from cortado.base.errors import CortadoError
from cortado.base.target import Machine, from_target_string
from cortado.run.board import find_board
from cortado.run.bundle_info import IO, BundleInfo
from cortado.run.harness import run_harness
from cortado.run.qemu import BoardFaultError, _Run, read_records, run_elf
from cortado.run.runner import split_outputs
from helpers.boards import INPUTS, ONE_EACH, firmware


def record(kind: str, data: bytes) -> bytes:
    return kind.encode() + len(data).to_bytes(4, "little") + data


GOOD = record("T", b"hello") + record("O", b"12") + record("S", bytes(4)) + record("O", b"3") + record("X", bytes(4))


def test_records_are_read_in_order() -> None:
    said = read_records(GOOD, whole=True)
    assert (said.text, said.outputs, said.trace, said.stack_bytes, said.exit_code) == ("hello", b"123", b"", 0, 0)
    assert read_records(record("T", b"a\x1b[2Jb\xff\n"), whole=False).text == "a?[2Jb\ufffd\n"  # no escape sequences


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"Zxxxxx", "not a record, at byte 0"),
        (GOOD + record("T", b"more"), "more after its exit code, at byte"),
        (record("X", b"123"), "a malformed number"),
        (record("S", bytes(4)) * 2 + GOOD, "a malformed number"),
    ],
)
def test_a_stream_that_is_no_records_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        read_records(data, whole=False)


def test_a_stream_cut_anywhere_is_noticed() -> None:
    for end in range(len(GOOD)):
        assert read_records(GOOD[:end], whole=False).exit_code is None
        with pytest.raises(CortadoError, match=rf"cut off at byte {end}, before its exit code"):
            read_records(GOOD[:end], whole=True)


# SYS_SYSTEM runs a command on the machine of whoever has semihosting on; SYS_OPEN opens any file there.
SEMIHOSTING = """
static const char command[] = "touch %s";
static const char path[] = "%s";
static int semihost(unsigned operation, const void *arguments) {
    register unsigned r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = arguments;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return (int)r0;
}
"""


@pytest.mark.cases(3)
@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
@pytest.mark.parametrize(
    "call",
    [
        "const uintptr_t a[2] = {(uintptr_t)command, sizeof command - 1}; return semihost(0x12, a);",
        "const uintptr_t a[3] = {(uintptr_t)path, 5, sizeof path - 1}; return semihost(0x01, a);",
    ],
    ids=["SYS_SYSTEM", "SYS_OPEN"],
)
def test_firmware_has_no_semihosting(tmp_path: Path, core: str, call: str) -> None:
    victim = tmp_path / "victim"
    top = SEMIHOSTING % (victim, victim)
    use = "(void)command; (void)path; (void)in; (void)out; "
    board, elf = firmware(tmp_path, core, use + call, top)
    with pytest.raises(BoardFaultError, match=r"faulted on .* in (run|semihost)\+0x"):
        run_harness(elf, board, INPUTS, 1)
    assert not victim.exists()


@pytest.mark.parametrize("machine", Machine)
def test_the_emulator_is_given_nothing_of_this_machine(tmp_path: Path, machine: Machine) -> None:
    _, elf = firmware(tmp_path)
    command = _Run(elf, find_board(machine), tmp_path).command()
    options = {word for word in command if word.startswith("-")}
    files = {"-chardev", "-serial", "-device"} if machine is Machine.MICROBIT else {"-m", "-object", "-serial"}
    assert options == {"-M", "-nodefaults", "-display", "-monitor", "-no-reboot", "-kernel", *files}
    assert not any("semihosting" in word or "/" in word for word in command[1:-1])


RESET = "*(volatile uint32_t *)0xE000ED0Cu = 0x05FA0004u; for (;;) { } (void)in; return out[0];"
TALK = "for (;;) { cortado_port_send(CORTADO_RECORD_OUTPUT, in, 64); } return out[0];"


@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
def test_an_end_without_an_exit_code_is_an_error(tmp_path: Path, core: str) -> None:
    board, elf = firmware(tmp_path, core, RESET)
    with pytest.raises(CortadoError, match=r"adder\.elf ended without its exit code on"):
        run_harness(elf, board, INPUTS, 1)


@pytest.mark.qemu
@pytest.mark.parametrize("core", ["an386-m4", "microbit-m0"])
def test_a_program_that_never_stops_talking_is_stopped(tmp_path: Path, core: str) -> None:
    board, elf = firmware(tmp_path, core, TALK, '#include "port.h"')
    with pytest.raises(CortadoError, match=r"adder\.elf sent more than "):
        run_elf(elf, board, (1).to_bytes(4, "little") + INPUTS, most_output=10_000)


def test_an_unknown_board_is_refused() -> None:
    with pytest.raises(CortadoError, match=r"no board 'mps9'; expected one of mps2-an385, .*microbit"):
        find_board("mps9")


def test_arrays_of_outputs_are_ones_that_torch_takes() -> None:
    """Of an output behind another of an odd size too."""
    outputs = (IO("first", (1, 1), "int8"), IO("second", (1, 1), "int32"))
    info = BundleInfo("net", from_target_string("cortex-m4"), (), outputs)
    ((first, second),) = split_outputs(b"\x05" + (77).to_bytes(4, "little"), info, 1)
    assert (torch.as_tensor(first).tolist(), torch.as_tensor(second).tolist()) == ([[5]], [[77]])
