"""Emulated boards and the tools they need: start-up, faults, counts, store checks, placement, and the build cache."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cortado.base.errors import CortadoError, MissingTool
from cortado.base.target import Machine
from cortado.run import toolchain
from cortado.run.board import Region, find_board
from cortado.run.elf import Image, load_image
from cortado.run.firmware import build_firmware, build_host
from cortado.run.harness import run_harness, run_host
from cortado.run.qemu import BoardFaultError, _Run, run_elf
from cortado.run.records import read_records
from cortado.run.toolchain import Tool
from cortado.run.watch import Call, StoreReport, StoreTable, StrayStoreError, Watch, _merge

STRICT = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-ffunction-sections", "-fdata-sections"]

M0 = ["-mcpu=cortex-m0", "-mthumb"]
M3 = ["-mcpu=cortex-m3", "-mthumb"]
M4 = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
M33 = ["-mcpu=cortex-m33", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"]
M55 = ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"]

CORES = {
    "microbit-m0": (Machine.MICROBIT, M0),
    "an385-m0plus": (Machine.MPS2_AN385, ["-mcpu=cortex-m0plus", "-mthumb"]),
    "an385-m3": (Machine.MPS2_AN385, M3),
    "an386-m4": (Machine.MPS2_AN386, M4),
    "an500-m7": (Machine.MPS2_AN500, ["-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-d16"]),
    "an505-m23": (Machine.MPS2_AN505, ["-mcpu=cortex-m23", "-mthumb"]),
    "an505-m33": (Machine.MPS2_AN505, M33),
    "an547-m55": (Machine.MPS3_AN547, M55),
    "an547-m85": (Machine.MPS3_AN547, ["-march=armv8.1-m.main+mve.fp+fp.dp", "-mthumb", "-mfloat-abi=hard"]),
}
# One core per machine.
ONE_EACH = ["microbit-m0", "an385-m3", "an386-m4", "an500-m7", "an505-m33", "an547-m55"]

# A model of 16 bytes in, 16 bytes out at arena + 32. Tests put their own statements into run().
MODEL = """
#include "harness.h"
#include "markers.h"
#include <stdint.h>
#include <string.h>
%(top)s
int8_t model_arena[64] __attribute__((aligned(16)));
static const size_t sizes[1] = {16};
static void *input(void *arena, int i) { (void)i; return arena; }
static const void *output(const void *arena, int i) { (void)i; return (const int8_t *)arena + 32; }
static int run(void *arena) {
    int8_t *in = arena;
    int8_t *out = in + 32;
    %(body)s
}
const cortado_harness_model_t cortado_harness_model = {"adder", model_arena, 1, 1, sizes, sizes, input, output, run};
"""
ADD_ONE = "for (int i = 0; i < 16; ++i) { out[i] = (int8_t)(in[i] + 1); } return 0;"
INPUTS = bytes(range(0, 96, 2))  # three samples
EXPECTED = bytes(value + 1 for value in INPUTS)


def write(folder: Path, text: str, name: str = "model.c") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def model(folder: Path, body: str = ADD_ONE, top: str = "") -> Path:
    return write(folder, MODEL % {"body": body, "top": top})


def firmware(folder: Path, core: str = "an386-m4", body: str = ADD_ONE, top: str = "", **options):
    """The board and a firmware image of the model for it."""
    machine, flags = CORES[core]
    board = find_board(machine)
    return board, build_firmware(board, [model(folder, body, top)], [], [*flags, *STRICT], "adder", **options)


# ---- Running --------------------------------------------------------------------------------------------------------


@pytest.mark.qemu
@pytest.mark.parametrize("core", CORES)
def test_every_core_runs_several_samples_in_one_boot(tmp_path, core):
    board, elf = firmware(tmp_path, core)
    done = run_harness(elf, board, INPUTS, 3)
    assert done.said.outputs == EXPECTED
    assert done.said.stack_bytes is not None
    assert done.said.stack_bytes < 64


@pytest.mark.host
def test_the_same_harness_runs_on_the_host(tmp_path):
    program = build_host([model(tmp_path)], [], STRICT, "adder")
    done = run_host(program, INPUTS, 3)
    assert done.said.outputs == EXPECTED
    assert done.said.stack_bytes is None


@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
def test_clang_builds_firmware_too(tmp_path, core):
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


@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
def test_start_up_sets_memory_fpu_input_and_exit_code(tmp_path, core):
    machine, flags = CORES[core]
    board = find_board(machine)
    source = write(tmp_path, MEMORY_PROGRAM)
    elf = build_firmware(board, [source], [], [*flags, *STRICT], "memory", harness=False)
    said = run_elf(elf, board, b"a,b=c", check=False).said
    assert (said.exit_code, said.text) == (42, "a,b=c")
    with pytest.raises(CortadoError, match=r"ended with exit code 42 on .*\na,b=c"):
        run_elf(elf, board, b"a,b=c")


@pytest.mark.qemu
def test_stack_use_is_measured(tmp_path):
    body = "volatile int8_t room[1000]; memset((void *)room, 1, sizeof room); out[0] = room[in[0]]; return 0;"
    board, elf = firmware(tmp_path, "microbit-m0", body=body)
    used = run_harness(elf, board, INPUTS, 3).said.stack_bytes
    assert used is not None
    assert 1000 <= used <= 1064


@pytest.mark.qemu
def test_harness_says_what_went_wrong(tmp_path):
    board, elf = firmware(tmp_path)
    with pytest.raises(CortadoError, match="adder: the input ends too early, sample 2"):
        run_harness(elf, board, INPUTS[:40], 3)
    with pytest.raises(CortadoError, match="adder: there is no input"):
        run_elf(elf, board)
    board, elf = firmware(tmp_path, body="out[0] = 0; return in[0] != 0;")
    with pytest.raises(CortadoError, match="adder: run reported an error, sample 1"):
        run_harness(elf, board, INPUTS, 3)


@pytest.mark.qemu
def test_a_timeout_is_a_clear_error(tmp_path):
    board, elf = firmware(tmp_path, body="while (*(volatile int8_t *)in == 0) { } return out[0];")
    with pytest.raises(CortadoError, match=r"did not finish on mps2-an386 within 0\.5 s"):
        run_harness(elf, board, INPUTS, 3, timeout=0.5)


@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
def test_an_input_takes_what_room_there_is_and_no_more(tmp_path, core):
    board, elf = firmware(tmp_path, core)
    room = board.input_room(load_image(elf))
    assert run_harness(elf, board, bytes(room - 256), 1).said.outputs == b"\x01" * 16
    with pytest.raises(CortadoError, match=rf"leaves room for {room:,} bytes of input on {board.machine.value}, and"):
        run_harness(elf, board, bytes(room), 1)


@pytest.mark.qemu
def test_samples_that_need_more_room_take_several_boots(tiny_artifact, monkeypatch):
    sample = tiny_artifact.example()
    samples = [[value * factor for value in sample] for factor in (1, 0.5, 0.25, 0.125, 0)]
    feeds, expected = tiny_artifact.reference(samples)
    at_once = tiny_artifact.execute(feeds)
    boots = []

    def room(*given):
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


# ---- What a program says, and what it can't reach -------------------------------------------------------------------


def record(kind: str, data: bytes) -> bytes:
    return kind.encode() + len(data).to_bytes(4, "little") + data


GOOD = record("T", b"hello") + record("O", b"12") + record("S", bytes(4)) + record("O", b"3") + record("X", bytes(4))


def test_records_are_read_in_order():
    said = read_records(GOOD, whole=True)
    assert (said.text, said.outputs, said.trace, said.stack_bytes, said.exit_code) == ("hello", b"123", b"", 0, 0)
    assert read_records(record("T", b"a\x1b[2Jb\xff\n"), whole=False).text == "a?[2Jb\ufffd\n"  # no escape sequences


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"Zxxxxx", "no record, at byte 0"),
        (GOOD + record("T", b"more"), "more after its exit code, at byte"),
        (record("X", b"123"), "a number that is none"),
        (record("S", bytes(4)) * 2 + GOOD, "a number that is none"),
    ],
)
def test_a_stream_that_is_no_records_is_refused(data, message):
    with pytest.raises(CortadoError, match=message):
        read_records(data, whole=False)


def test_a_stream_cut_anywhere_is_noticed():
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
def test_firmware_has_no_semihosting(tmp_path, core, call):
    victim = tmp_path / "victim"
    top = SEMIHOSTING % (victim, victim)
    use = "(void)command; (void)path; (void)in; (void)out; "
    board, elf = firmware(tmp_path, core, use + call, top)
    with pytest.raises(BoardFaultError, match=r"faulted on .* in (run|semihost)\+0x"):
        run_harness(elf, board, INPUTS, 1)
    assert not victim.exists()


@pytest.mark.parametrize("machine", Machine)
def test_the_emulator_is_given_nothing_of_this_machine(tmp_path, machine):
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
def test_an_end_without_an_exit_code_is_an_error(tmp_path, core):
    board, elf = firmware(tmp_path, core, RESET)
    with pytest.raises(CortadoError, match=r"adder\.elf ended without its exit code on"):
        run_harness(elf, board, INPUTS, 1)


@pytest.mark.qemu
@pytest.mark.parametrize("core", ["an386-m4", "microbit-m0"])
def test_a_program_that_never_stops_talking_is_stopped(tmp_path, core):
    board, elf = firmware(tmp_path, core, TALK, '#include "port.h"')
    with pytest.raises(CortadoError, match=r"adder\.elf said more than "):
        run_elf(elf, board, (1).to_bytes(4, "little") + INPUTS, most_output=10_000)


def test_an_unknown_board_is_refused():
    with pytest.raises(CortadoError, match=r"no board 'mps9'; the boards are mps2-an385, .*microbit"):
        find_board("mps9")


# ---- Faults ---------------------------------------------------------------------------------------------------------

HIDE = """
static uintptr_t hide(uintptr_t value) { __asm__ volatile("" : "+r"(value)); return value; }
"""
STORE_AT = "(void)in; (void)out; *(volatile uint32_t *)hide((uintptr_t)%s) = 1; return 0;"
OVERFLOW = (
    "volatile int8_t room[64]; room[0] = in[0]; "
    "if (in[0] != 100) { (void)run(arena); } out[0] = room[0]; return room[0];"
)


@pytest.mark.qemu
@pytest.mark.parametrize("core", [core for core in ONE_EACH if core != "microbit-m0"])
def test_a_store_through_a_null_pointer_faults(tmp_path, core):
    board, elf = firmware(tmp_path, core, body=STORE_AT % "0", top=HIDE)
    with pytest.raises(BoardFaultError, match=r"in run\+0x\w+: data access to forbidden memory") as caught:
        run_harness(elf, board, INPUTS, 1)
    for register in ("pc=0x", "lr=0x", "cfsr=0x00000082", "hfsr=0x40000000", "bfar=0x"):
        assert register in str(caught.value)


@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
def test_a_stack_overflow_faults(tmp_path, core):
    board, elf = firmware(tmp_path, core, body=OVERFLOW, stack_bytes=2048)
    with pytest.raises(BoardFaultError, match=r"faulted on .*: stack overflow"):
        run_harness(elf, board, INPUTS, 1)


@pytest.mark.qemu
@pytest.mark.parametrize("core", ["microbit-m0", "an385-m0plus", "an505-m23"])
def test_unaligned_access_faults_where_the_core_has_none(tmp_path, core):
    board, elf = firmware(tmp_path, core, body=STORE_AT % "(in + 1)", top=HIDE)
    with pytest.raises(BoardFaultError, match=r"in run\+0x"):
        run_harness(elf, board, INPUTS, 1)


@pytest.mark.qemu
def test_unaligned_access_is_fine_on_bigger_cores(tmp_path):
    board, elf = firmware(tmp_path, "an385-m3", body=STORE_AT % "(in + 1)", top=HIDE)
    assert run_harness(elf, board, INPUTS, 1).said.outputs == bytes(16)


@pytest.mark.qemu
def test_division_by_zero_and_bus_errors_are_named(tmp_path):
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


@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
def test_instructions_are_counted_exactly(tmp_path, core):
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
def test_functions_can_serve_as_step_markers(tmp_path):
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


# ---- Store checks ---------------------------------------------------------------------------------------------------

# Two steps: the first fills row 1 of a ring of three rows of 8 bytes at offset 32, the second writes its bytes 24-26.
RING = """
cortado_marker_step();
for (int i = 0; i < %(count)s; ++i) { ((volatile int8_t *)out)[8 + i] = in[i]; }
cortado_marker_step();
in[24] = 1; in[25] = 2; in[26] = 3;
return 0;
"""
RING_TABLE = StoreTable("model_arena", (Call(0, ((40, 48),)), Call(5, ((24, 25), (25, 27)))))


def stores(folder: Path, body: str, table: StoreTable, core: str = "an386-m4", top: str = "") -> StoreReport:
    board, elf = firmware(folder, core, body=body, top=top)
    report = run_harness(elf, board, INPUTS, 3, plugin=Watch(stores=table)).stores
    assert report is not None
    return report


@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
def test_stores_inside_the_table_pass(tmp_path, core):
    report = stores(tmp_path, RING % {"count": 8}, RING_TABLE, core)
    report.check()
    assert (report.strays, report.first, report.calls) == (0, None, (2, 2, 2))
    assert report.stores >= 3 * 9


@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
def test_one_byte_past_a_middle_row_is_caught(tmp_path, core):
    report = stores(tmp_path, RING % {"count": 9}, RING_TABLE, core)
    assert report.strays == 3
    assert report.first is not None
    assert (report.first.address - report.base, report.first.size) == (48, 1)
    assert (report.first.sample, report.first.call, report.first.step) == (0, 0, 0)
    with pytest.raises(
        StrayStoreError, match=r"stray store by run\+0x\w+: 1 bytes at .*arena \+0x30\) in step 0 \(conv"
    ):
        report.check(["conv"])


@pytest.mark.qemu
def test_each_call_has_its_own_ranges(tmp_path):
    table = StoreTable("model_arena", (Call(0, ((24, 27),)), Call(5, ((40, 48),))))
    report = stores(tmp_path, RING % {"count": 8}, table)
    assert report.strays >= 3 * 9
    assert report.first is not None
    assert report.first.address - report.base == 40


@pytest.mark.qemu
def test_stores_before_the_first_step_and_past_the_table_are_stray(tmp_path):
    report = stores(tmp_path, "((volatile int8_t *)in)[3] = 1; " + RING % {"count": 8}, RING_TABLE)
    assert "before the first step" in str(report.problem())
    short = StoreTable("model_arena", RING_TABLE.calls[:1])
    report = stores(tmp_path, RING % {"count": 8}, short)
    assert "after the last step of its table" in str(report.problem())
    longer = StoreTable("model_arena", (*RING_TABLE.calls, Call(6, ())))
    report = stores(tmp_path, RING % {"count": 8}, longer)
    assert report.problem() == "a run made 2 calls, its store table has 3"


@pytest.mark.qemu
def test_always_ranges_and_symbols_may_be_written(tmp_path):
    body = "((volatile int8_t *)in)[3] = 1; counter[1] = 1; " + RING % {"count": 8}
    table = StoreTable("model_arena", RING_TABLE.calls, always=((3, 4),), symbols=("counter",))
    stores(tmp_path, body, table, top="volatile int counter[2];").check()
    report = stores(
        tmp_path, body, StoreTable("model_arena", RING_TABLE.calls, ((3, 4),)), top="volatile int counter[2];"
    )
    assert report.strays == 3


@pytest.mark.qemu
def test_a_fault_after_a_stray_store_tells_of_both(tmp_path):
    board, elf = firmware(tmp_path, body="((volatile int8_t *)in)[60] = 1; " + STORE_AT % "0", top=HIDE)
    with pytest.raises(
        BoardFaultError, match=r"(?s)forbidden memory.*stray store by run\+0x\w+: 1 bytes .*arena \+0x3c"
    ):
        run_harness(elf, board, INPUTS, 1, plugin=Watch(stores=RING_TABLE))


@pytest.mark.qemu
def test_vector_stores_are_seen_byte_by_byte(tmp_path):
    top = "#include <arm_mve.h>"
    body = (
        "cortado_marker_step(); "
        "mve_pred16_t lanes = vctp8q((uint32_t)in[0] + 13u); vstrbq_p_s8(out + 3, vdupq_n_s8(5), lanes); return 0;"
    )
    exact = StoreTable("model_arena", (Call(0, ((35, 48),)),))
    board, elf = firmware(tmp_path, "an547-m55", body, top)
    report = run_harness(elf, board, INPUTS, 1, plugin=Watch(stores=exact)).stores
    assert report is not None
    report.check()
    one_less = StoreTable("model_arena", (Call(0, ((35, 47),)),))
    report = run_harness(elf, board, INPUTS, 1, plugin=Watch(stores=one_less)).stores
    assert report is not None
    assert report.first is not None
    assert (report.strays, report.first.address - report.base, report.first.size) == (1, 47, 1)


def test_a_range_that_ends_before_it_starts_is_refused():
    with pytest.raises(CortadoError, match="ends at 0x4, before its start 0x8"):
        _merge([(0, 2), (8, 4)])


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


def inside(image: Image, name: str, region: Region) -> bool:
    symbol = image.require(name)
    return region.origin <= symbol.address and symbol.address + symbol.size <= region.origin + region.length


@pytest.mark.qemu
@pytest.mark.parametrize(("count", "is_big"), [(1000, False), (3_500_000, True)])
def test_weights_go_to_the_big_ram_when_the_code_memory_is_too_small(tmp_path, count, is_big):
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
def test_weights_can_be_sent_to_the_big_ram(tmp_path, core):
    board, elf = firmware(tmp_path, core, USE_WEIGHTS, WEIGHTS % 1000, big=True)
    assert board.big is not None
    assert inside(load_image(elf), "weights", board.big)
    assert run_harness(elf, board, INPUTS, 1).said.outputs[0] == 7


@pytest.mark.qemu
def test_a_model_too_big_for_the_board_is_a_clear_error(tmp_path):
    with pytest.raises(CortadoError, match=r"adder does not fit on microbit: its RAM memory is \d+ bytes too small"):
        firmware(tmp_path, "microbit-m0", USE_WEIGHTS, WEIGHTS % 1000)


# ---- Tools and cache ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "packages"),
    [
        (Tool.ARM_GCC, "gcc-arm-none-eabi libnewlib-arm-none-eabi"),
        (Tool.QEMU, "qemu-system-arm"),
        (Tool.CC, "build-essential"),
        (Tool.CMAKE, "cmake"),
        (Tool.CLANG, "clang-19 lld-19"),
    ],
)
def test_a_missing_tool_is_named_with_its_package(tool, packages, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingTool) as caught:
        toolchain.require(tool)
    assert str(caught.value).startswith(f"{tool.value.command} is not on PATH; it is needed for ")
    assert str(caught.value).endswith(f"apt-get install {packages}")


def test_status_lists_every_tool(monkeypatch, tmp_path):
    fake = tmp_path / "cmake"
    fake.write_text("#!/bin/sh\necho cmake version 9.8.7\necho more\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    table = {status.tool: status for status in toolchain.status()}
    assert set(table) == set(Tool)
    assert (table[Tool.CMAKE].path, table[Tool.CMAKE].version) == (fake, "cmake version 9.8.7")
    assert not table[Tool.QEMU].found
    assert table[Tool.QEMU].version is None


def objects(cache: Path) -> int:
    return len(list(cache.rglob("*.o")))


@pytest.mark.host
def test_the_cache_rebuilds_what_changed_and_nothing_else(tmp_path, monkeypatch):
    cache, include = tmp_path / "cache", tmp_path / "include"
    include.mkdir()
    monkeypatch.setenv("CORTADO_CACHE", str(cache))
    uses = write(tmp_path, '#include "v.h"\nint value(void); int value(void) { return VALUE; }\n', "uses.c")
    other = write(tmp_path, "int other(void); int other(void) { return 2; }\n", "other.c")

    def build(value: int, *flags: str) -> Path:
        write(include, f"#define VALUE {value}\n", "v.h")
        return toolchain.compile_shared([uses, other], [include], [*STRICT, *flags], "lib")

    first = build(1)
    assert objects(cache) == 2
    assert build(1) == first
    second = build(3)
    assert second != first
    assert objects(cache) == 3  # other.c doesn't include the header
    assert build(3, "-DUNUSED") not in (first, second)
    assert objects(cache) == 5
    assert not list(cache.rglob("build-*"))


@pytest.mark.host
def test_a_compile_error_holds_the_compilers_words(tmp_path, monkeypatch):
    monkeypatch.setenv("CORTADO_CACHE", str(tmp_path / "cache"))
    bad = write(tmp_path, "int f(void);\nint f(void) { return missing; }\n", "bad.c")
    with pytest.raises(CortadoError, match=r"(?s)compiling .*bad\.c failed.*missing"):
        toolchain.compile_shared([bad], [], STRICT, "lib")
    good = write(tmp_path, "int g(void);\nint g(void) { return 1; }\n", "good.c")
    with pytest.raises(CortadoError, match=r"(?s)linking prog failed.*main"):
        toolchain.build_executable([good], [], STRICT, "prog")
    with pytest.raises(CortadoError, match=r"no such source file: .*absent\.c"):
        toolchain.compile_shared([tmp_path / "absent.c"], [], STRICT, "lib")
    with pytest.raises(CortadoError, match="can't name a file"):
        toolchain.compile_shared([bad], [], STRICT, "../lib")


@pytest.mark.host
def test_a_cache_that_cannot_be_written_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setenv("CORTADO_CACHE", str(write(tmp_path, "a file", "cache")))
    with pytest.raises(CortadoError, match="set CORTADO_CACHE to a directory you may write to"):
        toolchain.compile_shared([write(tmp_path, "int x;\n", "x.c")], [], STRICT, "lib")


@pytest.mark.host
def test_processes_may_build_the_same_thing_at_once(tmp_path):
    source = write(tmp_path, "int f(void);\nint f(void) { return 5; }\n", "f.c")
    script = (
        "import ctypes, sys; from pathlib import Path; from cortado.run import toolchain\n"
        f"library = toolchain.compile_shared([Path({str(source)!r})], [], ['-O2'], 'f')\n"
        "assert ctypes.CDLL(str(library)).f() == 5; print(library)\n"
    )
    environment = {**os.environ, "CORTADO_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", script]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(3)]
    printed = {process.communicate(timeout=60)[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(printed) == 1
