"""Emulated boards: start-up, faults, exact counts, where constants go."""

from pathlib import Path
from typing import Any

import pytest

from cortado.artifact.opened import Artifact
from cortado.base.errors import CortadoError
from cortado.base.target import Machine
from cortado.run import toolchain, watch
from cortado.run.board import AddressRange, build_firmware, build_host, find_board
from cortado.run.elf import Image, load_image
from cortado.run.harness import run_harness, run_host
from cortado.run.qemu import BoardFaultError, run_elf
from cortado.run.watch import Watch
from helpers.boards import CORES, EXPECTED, HIDE, INPUTS, ONE_EACH, STORE_AT, STRICT, firmware, model, write


def test_every_board_has_a_core_to_test_it_with() -> None:
    assert {CORES[core][0] for core in ONE_EACH} == set(Machine)


# ---- Running --------------------------------------------------------------------------------------------------------


@pytest.mark.cases(3)
@pytest.mark.qemu
@pytest.mark.parametrize("core", CORES)
def test_every_core_runs_several_samples_in_one_boot(tmp_path: Path, core: str) -> None:
    board, elf = firmware(tmp_path, core)
    done = run_harness(elf, board, INPUTS, 3)
    assert done.said.outputs == EXPECTED
    assert done.said.stack_bytes is not None
    assert done.said.stack_bytes < 64


@pytest.mark.host
def test_the_same_harness_runs_on_the_host(tmp_path: Path) -> None:
    program = build_host([model(tmp_path)], [], STRICT, "adder")
    done = run_host(program, INPUTS, 3)
    assert done.said.outputs == EXPECTED
    assert done.said.stack_bytes is None


@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
def test_clang_builds_firmware_too(tmp_path: Path, core: str) -> None:
    board, elf = firmware(tmp_path, core, compiler=toolchain.arm_clang())
    assert run_harness(elf, board, INPUTS, 3).said.outputs == EXPECTED


MEMORY_PROGRAM = """
#include "port.h"
static volatile int initialised = 41;
static volatile int zeroed[300];
static volatile float factor = 1.5f;
int main(void) {
    char text[6] = "";
    int i;
    for (i = 0; i < 300; ++i) {
        if (zeroed[i] != 0) { return 1; }
    }
    if (cortado_port_read(text, 2) != 0 || cortado_port_read(text + 2, 3) != 0) { return 2; }
    cortado_port_print(text);
    if (cortado_port_read(text, 1) == 0) { return 3; }
    return initialised + (int)(factor * 2.0f) - 2;
}
"""


@pytest.mark.cases(2)
@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
def test_start_up_sets_memory_fpu_input_and_exit_code(tmp_path: Path, core: str) -> None:
    machine, flags = CORES[core]
    board = find_board(machine)
    source = write(tmp_path, MEMORY_PROGRAM)
    elf = build_firmware(board, [source], [], [*flags, *STRICT], "memory", harness=False)
    said = run_elf(elf, board, b"a,b=c", check=False).said
    assert (said.exit_code, said.text) == (42, "a,b=c")
    with pytest.raises(CortadoError, match=r"ended with exit code 42 on .*\na,b=c"):
        run_elf(elf, board, b"a,b=c")


@pytest.mark.qemu
def test_stack_use_is_measured(tmp_path: Path) -> None:
    body = "volatile int8_t room[1000]; memset((void *)room, 1, sizeof room); out[0] = room[in[0]]; return 0;"
    board, elf = firmware(tmp_path, "microbit-m0", body=body)
    used = run_harness(elf, board, INPUTS, 3).said.stack_bytes
    assert used is not None
    assert 1000 <= used <= 1064


@pytest.mark.qemu
def test_harness_says_what_went_wrong(tmp_path: Path) -> None:
    board, elf = firmware(tmp_path)
    with pytest.raises(CortadoError, match="adder: the input ends too early, sample 2"):
        run_harness(elf, board, INPUTS[:40], 3)
    with pytest.raises(CortadoError, match="adder: there is no input"):
        run_elf(elf, board)
    board, elf = firmware(tmp_path, body="out[0] = 0; return in[0] != 0;")
    with pytest.raises(CortadoError, match="adder: run reported an error, sample 1"):
        run_harness(elf, board, INPUTS, 3)


@pytest.mark.qemu
def test_a_timeout_is_a_clear_error(tmp_path: Path) -> None:
    board, elf = firmware(tmp_path, body="while (*(volatile int8_t *)in == 0) { } return out[0];")
    with pytest.raises(CortadoError, match=r"did not finish on mps2-an386 within 0\.5 s"):
        run_harness(elf, board, INPUTS, 3, timeout=0.5)
    for plugin in (None, Watch(count=True)):
        with pytest.raises(CortadoError, match=r"did not finish on mps2-an386 within 2,000,000 instructions"):
            run_harness(elf, board, INPUTS, 3, instructions=2_000_000, plugin=plugin)


@pytest.mark.qemu
def test_a_limit_of_instructions_is_met_however_soon_the_program_ends(tmp_path: Path) -> None:
    board, elf = firmware(tmp_path)
    assert run_harness(elf, board, INPUTS, 3, instructions=1_000_000).said.exit_code == 0
    with pytest.raises(CortadoError, match=r"within 20 instructions \(--max-instructions\)"):
        run_harness(elf, board, INPUTS, 3, instructions=20)


@pytest.mark.qemu
def test_a_core_that_sleeps_for_ever_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "IDLE_SECONDS", 1)
    board, elf = firmware(tmp_path, body='for (;;) { __asm__ volatile("wfi"); } return in[0] + out[0];')
    with pytest.raises(CortadoError, match="sleeps on mps2-an386, and nothing will wake it"):
        run_harness(elf, board, INPUTS, 3)


@pytest.mark.cases(2)
@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
def test_an_input_takes_what_room_there_is_and_no_more(tmp_path: Path, core: str) -> None:
    board, elf = firmware(tmp_path, core)
    room = board.input_room(load_image(elf))
    assert run_harness(elf, board, bytes(room - 256), 1).said.outputs == b"\x01" * 16
    with pytest.raises(CortadoError, match=rf"leaves room for {room:,} bytes of input on {board.machine.value}, but"):
        run_harness(elf, board, bytes(room), 1)


@pytest.mark.qemu
def test_samples_that_need_more_room_take_several_boots(
    tiny_artifact: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = tiny_artifact.example()
    samples = [[value * factor for value in sample] for factor in (1, 0.5, 0.25, 0.125, 0)]
    feeds, expected = tiny_artifact.reference(samples)[:2]
    at_once = tiny_artifact.execute(feeds)
    boots = []

    def room(*given: Any) -> int:
        boots.append(given)
        return 2

    monkeypatch.setattr("cortado.run.runner.samples_per_boot", room)
    apart = tiny_artifact.execute(feeds)
    assert len(boots) == 1
    for found in (at_once, apart):
        assert [[output.tolist() for output in outputs] for outputs in found.samples] == [
            [output.tolist() for output in outputs] for outputs in expected
        ]
    assert apart.functions == at_once.functions
    assert (apart.instructions, apart.stack_bytes) == (at_once.instructions, at_once.stack_bytes)


OVERFLOW = (
    "volatile int8_t room[64]; room[0] = in[0]; "
    "if (in[0] != 100) { (void)run(arena); } out[0] = room[0]; return room[0];"
)


@pytest.mark.qemu
@pytest.mark.parametrize("core", [core for core in ONE_EACH if core != "microbit-m0"])
def test_a_store_through_a_null_pointer_faults(tmp_path: Path, core: str) -> None:
    board, elf = firmware(tmp_path, core, body=STORE_AT % "0", top=HIDE)
    with pytest.raises(BoardFaultError, match=r"in run\+0x\w+: data access to forbidden memory") as caught:
        run_harness(elf, board, INPUTS, 1)
    for register in ("pc=0x", "lr=0x", "cfsr=0x00000082", "hfsr=0x40000000", "bfar=0x"):
        assert register in str(caught.value)


@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
def test_a_stack_overflow_faults(tmp_path: Path, core: str) -> None:
    board, elf = firmware(tmp_path, core, body=OVERFLOW, stack_bytes=2048)
    with pytest.raises(BoardFaultError, match=r"faulted on .*: stack overflow"):
        run_harness(elf, board, INPUTS, 1)


@pytest.mark.qemu
@pytest.mark.parametrize("core", ["microbit-m0", "an385-m0plus", "an505-m23"])
def test_unaligned_access_faults_where_the_core_has_none(tmp_path: Path, core: str) -> None:
    board, elf = firmware(tmp_path, core, body=STORE_AT % "(in + 1)", top=HIDE)
    with pytest.raises(BoardFaultError, match=r"in run\+0x"):
        run_harness(elf, board, INPUTS, 1)


@pytest.mark.qemu
def test_unaligned_access_is_fine_on_bigger_cores(tmp_path: Path) -> None:
    board, elf = firmware(tmp_path, "an385-m3", body=STORE_AT % "(in + 1)", top=HIDE)
    assert run_harness(elf, board, INPUTS, 1).said.outputs == bytes(16)


@pytest.mark.qemu
def test_division_by_zero_and_bus_errors_are_named(tmp_path: Path) -> None:
    board, elf = firmware(tmp_path, body="out[0] = (int8_t)(100 / in[0]); return 0;")
    with pytest.raises(BoardFaultError, match="division by zero"):
        run_harness(elf, board, INPUTS, 1)
    board, elf = firmware(tmp_path, body=STORE_AT % "0xa0000000u", top=HIDE)
    with pytest.raises(BoardFaultError, match=r"bus error on a data access\n.*bfar=0xa0000000"):
        run_harness(elf, board, INPUTS, 1)


# ---- Counting -------------------------------------------------------------------------------------------------------

# exactly(n) executes 3 * n + 2 instructions.
EXACTLY = """
void exactly(int n) __attribute__((naked, noinline));
void exactly(int n) {
    (void)n;
    __asm__ volatile(".syntax unified\\n nop\\n 1: nop\\n subs r0, r0, #1\\n bne 1b\\n bx lr\\n");
}
"""
COUNTED = "cortado_marker_step(); exactly(100 + in[0]); cortado_marker_step(); exactly(7); out[0] = 1; return 0;"


@pytest.mark.cases(2)
@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
def test_instructions_are_counted_exactly(tmp_path: Path, core: str) -> None:
    board, elf = firmware(tmp_path, core, body=COUNTED, top=EXACTLY)
    first, second = (run_harness(elf, board, INPUTS, 3, plugin=Watch(count=True)) for _ in range(2))
    counts = first.counts
    assert counts is not None
    assert counts == second.counts
    assert counts.functions["exactly"] == sum(3 * (100 + value) + 2 + 3 * 7 + 2 for value in INPUTS[::16])
    assert set(counts.functions) == {"exactly", "run"}
    assert sum(counts.functions.values()) == sum(sample.total for sample in counts.samples)
    for sample in counts.samples:
        assert sample.before + sum(sample.calls) == sample.total
    # Samples differ only in how often the loop runs, and only in the first call.
    one, two, three = counts.samples
    assert [two.total - one.total, three.total - two.total] == [96, 96]
    assert two.calls[0] - one.calls[0] == 96
    assert (one.before, one.calls[1]) == (two.before, two.calls[1])


@pytest.mark.qemu
def test_functions_can_serve_as_step_markers(tmp_path: Path) -> None:
    board, elf = firmware(tmp_path, body=COUNTED, top=EXACTLY)
    watch = Watch(count=True, steps=("exactly",))
    counts = run_harness(elf, board, INPUTS, 1, plugin=watch).counts
    assert counts is not None
    (sample,) = counts.samples
    assert len(sample.calls) == 2
    # From the first instruction of one call to that of the next: the loop, and what run() does in between.
    assert 0 <= sample.calls[0] - (3 * 100 + 2) < 10
    assert 0 <= sample.calls[1] - (3 * 7 + 2) < 10
    with pytest.raises(CortadoError, match=r"adder.elf has no symbol absent"):
        run_harness(elf, board, INPUTS, 1, plugin=Watch(count=True, steps=("absent",)))


# ---- Placement ------------------------------------------------------------------------------------------------------

WEIGHTS = """
#define COUNT %d
__attribute__((section(".cortado.weights"))) const int8_t weights[COUNT] = {3, [COUNT - 1] = 4};
__attribute__((section(".bigram"))) int8_t large[100000];
"""
USE_WEIGHTS = (
    "(void)in; volatile const int8_t *w = weights; out[0] = (int8_t)(w[0] + w[COUNT - 1]); "
    "out[1] = large[99999]; large[99999] = 9; return 0;"
)


def inside(image: Image, name: str, region: AddressRange) -> bool:
    symbol = image.require(name)
    return region.origin <= symbol.address and symbol.address + symbol.size <= region.origin + region.length


@pytest.mark.qemu
@pytest.mark.parametrize(("count", "is_big"), [(1000, False), (3_500_000, True)])
def test_weights_go_to_the_big_ram_when_the_code_memory_is_too_small(tmp_path: Path, count: int, is_big: bool) -> None:
    board, elf = firmware(tmp_path, "an547-m55", USE_WEIGHTS, WEIGHTS % count)
    image = load_image(elf)
    assert board.big is not None
    assert inside(image, "weights", board.big if is_big else board.code)
    assert inside(image, "large", board.big)
    assert elf.stat().st_size < count + 60_000  # .bigram takes no room in the file
    done = run_harness(elf, board, INPUTS, 2)
    assert (done.said.outputs[0], done.said.outputs[1], done.said.outputs[17]) == (7, 0, 9)


@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH[1:])
def test_weights_can_be_sent_to_the_big_ram(tmp_path: Path, core: str) -> None:
    board, elf = firmware(tmp_path, core, USE_WEIGHTS, WEIGHTS % 1000, big=True)
    assert board.big is not None
    assert inside(load_image(elf), "weights", board.big)
    assert run_harness(elf, board, INPUTS, 1).said.outputs[0] == 7


@pytest.mark.qemu
def test_a_model_too_big_for_the_board_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CortadoError, match=r"adder does not fit on microbit: its RAM memory is \d+ bytes too small"):
        firmware(tmp_path, "microbit-m0", USE_WEIGHTS, WEIGHTS % 1000)
