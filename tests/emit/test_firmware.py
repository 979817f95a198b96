"""What firmware builds on: the stack that a call takes, interrupts and threads, bytes of a camera, checks that fail."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado.api import Model, prepare
from cortado.artifact.opened import Artifact
from cortado.base.target import BUNDLE_FLAGS, from_target_string
from cortado.emit.c.bundle import emit_c
from cortado.models import zoo
from cortado.options import Options
from cortado.plan.lowered import run_reference
from cortado.run import runner, toolchain
from cortado.run.board import build_firmware, find_board
from cortado.run.measure import PLAIN_NAMES
from cortado.run.qemu import run_elf
from cortado.run.runner import HOST, RUNTIME_CHECKS, WARNINGS, bundle_includes, bundle_sources, write_files
from helpers.cores import FOUR, THREE, each_core
from helpers.networks import prepared
from helpers.sanitizers import SANITIZERS


class Mixed(nn.Module):
    """Every kind of assembly: convolutions of both kinds, pixelwise and depthwise, pools, additions, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.depthwise = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.point, self.last = nn.Conv2d(16, 16, 1), nn.Conv2d(16, 8, 5, stride=2)
        self.out = nn.Linear(8 * 4 * 3, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = x + self.point(self.depthwise(x))
        x = torch.max_pool2d(torch.relu(self.last(x)), 1)
        return torch.softmax(self.out(x.flatten(1)), 1)


@pytest.fixture(scope="module")
def mixed() -> Model:
    torch.manual_seed(4)
    batches = [(torch.rand(1, 3, 12, 10),) for _ in range(4)]
    return prepare(Mixed().eval(), batches[0], batches, name="mixed")


# ---- the stack -------------------------------------------------------------------------------------------------------


def stack_of(artifact: Artifact) -> tuple[int, int]:
    """As the header says, and as a run on the board takes."""
    header = (artifact.folder / f"{artifact.report.prefix}.h").read_text()
    found = re.search(r"_STACK_BYTES (\d+)\n", header)
    assert found is not None
    assert artifact.report.memory is not None
    assert artifact.report.memory.stack_bytes == int(found[1])
    assert f"| stack of a call | {found[1]} |" in (artifact.folder / "README.md").read_text()
    measured = artifact.run([artifact.example()]).result.stack_bytes
    assert measured is not None
    return int(found[1]), measured


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*FOUR, here="cortex-m4"))
def test_the_stack_of_a_call_is_what_a_run_takes(mixed: Model, target: str, tmp_path: Path) -> None:
    """A bound, and no more than a few registers above."""
    said, measured = stack_of(mixed.compile(target).save(tmp_path / "mixed"))
    assert measured <= said <= measured + 64


@pytest.mark.cases(1)
@pytest.mark.qemu
@pytest.mark.parametrize("level", ["-Os", "-O3"])
def test_other_levels_of_optimization_take_at_most_the_margin_more(mixed: Model, level: str, tmp_path: Path) -> None:
    """tests/kernels/test_every_core.py has the same of every operator and core."""
    artifact = mixed.compile("cortex-m4").save(tmp_path / "mixed")
    text = (artifact.folder / "mixed.h").read_text()
    said, margin = (int(re.findall(rf"MIXED_STACK_{word}BYTES (\d+)\n", text)[0]) for word in ("", "MARGIN_"))
    given = [[np.zeros(one.shape, one.dtype) for one in artifact.info.inputs]]
    measured = runner.run_bundle(artifact.folder, artifact.info, given, flags=(level,)).stack_bytes
    assert measured is not None
    assert measured <= said + margin


# Fills the stack, calls, and looks how far down it was written.
OWN_STACK = """#include "mixed.h"
#include "port.h"
#define UNUSED 0xA5A5A5A5u
static uint32_t __attribute__((noinline)) used(void)
{
    uint32_t here, *const limit = cortado_port_stack_limit();
    for (volatile uint32_t *at = limit; at < &here - 32; at++) { *at = UNUSED; }
    if (mixed_selftest(mixed_default_arena()) != 0) { return 0; }
    volatile uint32_t *last = limit;
    while (*last == UNUSED) { last++; }
    return (uint32_t)((uintptr_t)&here - (uintptr_t)last);
}
int main(void)
{
    cortado_port_send_number(CORTADO_RECORD_STACK, used());
    return 0;
}
"""


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m55"))
def test_the_stack_of_the_self_test_is_what_it_takes(mixed: Model, target: str, tmp_path: Path) -> None:
    compiled = mixed.compile(target, Options(selftest=True))
    assert compiled.bundle is not None
    memory, config = compiled.report.memory, compiled.target
    assert memory is not None
    assert memory.selftest_stack_bytes is not None
    assert f"#define MIXED_SELFTEST_STACK_BYTES {memory.selftest_stack_bytes} " in compiled.bundle.files["mixed.h"]
    write_files(tmp_path, {**compiled.bundle.files, "main.c": OWN_STACK})
    flags = [*config.compiler_flags(), *BUNDLE_FLAGS]
    board, sources = find_board(config.machine), bundle_sources(tmp_path)
    elf = build_firmware(board, sources, bundle_includes(tmp_path), flags, "stack", harness=False)
    measured = run_elf(elf, board).said.stack_bytes
    assert measured is not None
    assert 0 < measured <= memory.selftest_stack_bytes + 24  # the frame of `used`
    assert memory.selftest_stack_bytes <= measured + 128


@pytest.mark.qemu
def test_the_stack_of_rows_and_of_any_core(mixed: Model, tmp_path: Path) -> None:
    said, measured = stack_of(mixed.compile("cortex-m4", Options(input_rows=True)).save(tmp_path / "rows"))
    assert measured <= said <= measured + 64
    said, measured = stack_of(mixed.compile("cortex-m").save(tmp_path / "any"))
    assert measured <= said


@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.parametrize("target", FOUR)
@pytest.mark.parametrize("name", zoo.names())
def test_the_stack_of_the_zoo(name: str, target: str, tmp_path: Path) -> None:
    said, measured = stack_of(prepared(name).compile(target).save(tmp_path / name))
    assert measured <= said <= measured + 128


def test_without_a_compiler_the_stack_is_not_known(
    tiny: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "find", lambda tool: None)
    artifact = tiny.compile("cortex-m4").save(tmp_path / "tiny")
    assert artifact.report.memory is not None
    assert artifact.report.memory.stack_bytes is None
    assert "TINY_STACK_BYTES is not known" in (artifact.folder / "tiny.h").read_text()


# ---- interrupts and threads -----------------------------------------------------------------------------------------

# A timer interrupts the network again and again. The handler saves what a C function would, leaves rubbish in every
# register and below the stack, and runs the network itself now and then, in an arena of its own. The exit code is the
# number of the first thing that is wrong.
INTERRUPTED = """#include <string.h>

#include "mixed.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define TICKS 600u

static const int8_t input[] = {INPUT};
static const int8_t expected[] = {EXPECTED};
static mixed_arena_t first, second;
static volatile uint32_t ticks, inside, misaligned, wrong_inside;
static uint32_t vectors[256] __attribute__((aligned(1024)));
static uint64_t handlers_stack[1024]; /* the board's own is for fault handlers */
uint32_t kept[8], seen[8];

static int right(mixed_arena_t *arena)
{
    memcpy(mixed_input(arena, 0), input, sizeof input);
    if (mixed_run(arena) != 0) {
        return 0;
    }
    return memcmp(mixed_output(arena, 0), expected, sizeof expected) == 0;
}

void tick(uint32_t stack);
void tick(uint32_t stack)
{
    volatile uint8_t below[256];
    for (unsigned i = 0; i < sizeof below; i++) {
        below[i] = 0xA5;
    }
    ticks++;
    misaligned |= stack & 7u;
    if (ticks % 16u == 0) {
        inside++;
        wrong_inside += right(&second) ? 0u : 1u;
    }
}

#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
#define SAVE_FLOATS "vpush {d8-d15}\\n"
#define DIRTY_FLOATS DIRTY(0) DIRTY(2) DIRTY(4) DIRTY(6) DIRTY(8) DIRTY(10) DIRTY(12) DIRTY(14) \\
    "mov r0, #0x0A000000\\n vmsr fpscr, r0\\n"
#define DIRTY(n) "vmov d" #n ", r0, r1\\n"
#define RESTORE_FLOATS "vpop {d8-d15}\\n"
#else
#define SAVE_FLOATS ""
#define DIRTY_FLOATS ""
#define RESTORE_FLOATS ""
#endif
#if defined(__ARM_FEATURE_MVE)
#define DIRTY_VPR "movw r0, #0x5A5A\\n vmsr p0, r0\\n"
#else
#define DIRTY_VPR ""
#endif
#if defined(__ARM_ARCH_6M__) || defined(__ARM_ARCH_8M_BASE__)
#define SAVE "push {r4-r7, lr}\\n mov r4, r8\\n mov r5, r9\\n mov r6, r10\\n mov r7, r11\\n" \\
    "push {r4-r7}\\n sub sp, #4\\n"
#define DIRTY_HIGH "mov r8, r0\\n mov r9, r0\\n mov r10, r0\\n mov r11, r0\\n mov r12, r0\\n"
#define RESTORE "add sp, #4\\n pop {r4-r7}\\n mov r8, r4\\n mov r9, r5\\n mov r10, r6\\n mov r11, r7\\n" \\
    "pop {r4-r7, pc}\\n"
#else
#define SAVE "push {r4-r11, lr}\\n sub sp, #4\\n"
#define DIRTY_HIGH "mov r8, r0\\n mov r9, r0\\n mov r10, r0\\n mov r11, r0\\n mov r12, r0\\n"
#define RESTORE "add sp, #4\\n pop {r4-r11, pc}\\n"
#endif

void handler(void) __attribute__((naked));
void handler(void)
{
    __asm__ volatile(
        ".syntax unified\\n mov r0, sp\\n" SAVE SAVE_FLOATS
        "bl tick\\n"
        "ldr r0, =0xDEADBEEF\\n mov r1, r0\\n mov r2, r0\\n mov r3, r0\\n mov r4, r0\\n mov r5, r0\\n mov r6, r0\\n"
        "mov r7, r0\\n" DIRTY_HIGH DIRTY_FLOATS DIRTY_VPR
        "ldr r0, =0xDEADBEEF\\n adds r0, r0, r0\\n" RESTORE_FLOATS RESTORE
        ".ltorg\\n");
}

/* Whether what a function must leave as it was is as it was after mixed_run. */
void preserved(mixed_arena_t *arena) __attribute__((naked));
void preserved(mixed_arena_t *arena)
{
    (void)arena;
    __asm__ volatile(
        ".syntax unified\\n" SAVE SAVE_FLOATS
        "ldr r1, =kept\\n"
        "ldr r4, [r1, #0]\\n ldr r5, [r1, #4]\\n ldr r6, [r1, #8]\\n ldr r7, [r1, #12]\\n"
        "ldr r2, [r1, #16]\\n mov r8, r2\\n ldr r2, [r1, #20]\\n mov r9, r2\\n"
        "ldr r2, [r1, #24]\\n mov r10, r2\\n ldr r2, [r1, #28]\\n mov r11, r2\\n"
        "bl mixed_run\\n"
        "ldr r1, =seen\\n"
        "str r4, [r1, #0]\\n str r5, [r1, #4]\\n str r6, [r1, #8]\\n str r7, [r1, #12]\\n"
        "mov r2, r8\\n str r2, [r1, #16]\\n mov r2, r9\\n str r2, [r1, #20]\\n"
        "mov r2, r10\\n str r2, [r1, #24]\\n mov r2, r11\\n str r2, [r1, #28]\\n" RESTORE_FLOATS RESTORE
        ".ltorg\\n");
}

int main(void)
{
    memcpy(vectors, (const void *)REGISTER(0xE000ED08u), 16 * sizeof vectors[0]);
    vectors[15] = (uint32_t)(uintptr_t)handler;
    REGISTER(0xE000ED08u) = (uint32_t)(uintptr_t)vectors;
    __asm__ volatile("msr msp, %0" ::"r"(handlers_stack + 1024) : "memory");
    if (!right(&first)) { return 1; }
    REGISTER(0xE000E014u) = 2500u; /* SysTick: reload, value, control */
    REGISTER(0xE000E018u) = 0;
    REGISTER(0xE000E010u) = 7u;
    uint32_t runs = 0;
    while (ticks < TICKS) {
        if (!right(&first)) { return 2; }
        runs++;
    }
    for (uint32_t i = 0; i < 8; i++) { kept[i] = 0x11111111u * (i + 1u); }
    preserved(&first);
    REGISTER(0xE000E010u) = 0;
    if (memcmp(kept, seen, 8 * sizeof kept[0]) != 0) { return 3; }
    if (wrong_inside != 0) { return 4; }
    if (misaligned != 0) { return 5; }
    return inside > 10 && runs > 1 ? 0 : 6;
}
"""


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*FOUR, here="cortex-m33"))
def test_a_timer_that_dirties_every_register_and_runs_the_network_too_changes_nothing(
    mixed: Model, target: str, tmp_path: Path
) -> None:
    compiled = mixed.compile(target)
    assert compiled.graph is not None
    assert compiled.planned is not None
    folder = compiled.save(tmp_path / "mixed").folder
    values, program = run_reference(compiled.graph, compiled.example), compiled.planned.program
    texts = [", ".join(map(str, values[one.node].flatten().tolist())) for one in (*program.inputs, *program.outputs)]
    main = tmp_path / "main.c"
    main.write_text(INTERRUPTED.replace("INPUT}", f"{texts[0]}}}").replace("EXPECTED}", f"{texts[1]}}}"))
    config = from_target_string(target)
    board, flags = find_board(config.machine), [*config.compiler_flags(), "-std=c99", *BUNDLE_FLAGS, PLAIN_NAMES]
    sources = [*bundle_sources(folder), main]
    elf = build_firmware(board, sources, bundle_includes(folder), flags, "interrupted", harness=False)
    assert run_elf(elf, board, b"", check=False).said.exit_code == 0


# ---- bytes and numbers -----------------------------------------------------------------------------------------------

NUMBERS = """#include <stdio.h>

#include "mixed.h"

int main(void)
{
    static uint8_t bytes[MIXED_INPUT0_BYTES];
    static const float gain[] = {0.0039215689f, 0.0042f, 0.5f}, offset[] = {0.0f, -0.5f, -63.75f};
    for (unsigned i = 0; i < sizeof bytes; i++) { bytes[i] = (uint8_t)(i * 37u); }
    memcpy(mixed_input(mixed_default_arena(), 0), bytes, sizeof bytes);
    /* Where the codes go. */
    mixed_quantize_input_u8(mixed_default_arena(), 0, (const uint8_t *)mixed_input(mixed_default_arena(), 0), 3, gain,
                            offset);
    fwrite(mixed_input(mixed_default_arena(), 0), 1, sizeof bytes, stdout);
    for (int i = -3000; i <= 3000; i++) {
        putchar(mixed_quantize((float)i * 0.001f, MIXED_INPUT0_SCALE, MIXED_INPUT0_ZERO_POINT));
    }
    for (int code = -128; code < 128; code++) {
        const float value = mixed_dequantize((int8_t)code, MIXED_OUTPUT0_SCALE, MIXED_OUTPUT0_ZERO_POINT);
        fwrite(&value, sizeof value, 1, stdout);
    }
    return 0;
}
"""


def codes(values: np.ndarray, scale: float, zero_point: int) -> np.ndarray:
    """As the reference quantizes."""
    inverse = np.float32(1) / np.float32(scale)
    return np.clip(np.rint(values.astype(np.float32) * inverse) + zero_point, -128, 127).astype(np.int8)


@pytest.mark.host
def test_bytes_and_single_numbers_are_quantized_as_the_reference_does(mixed: Model, tmp_path: Path) -> None:
    artifact = mixed.compile("cortex-m4").save(tmp_path / "mixed")
    portable = tmp_path / "portable"

    write_files(portable, {**emit_c(artifact.portable).files, "main.c": NUMBERS})
    flags = [*WARNINGS, *BUNDLE_FLAGS, *SANITIZERS]
    program = toolchain.build_executable(bundle_sources(portable, "c"), bundle_includes(portable), flags, "numbers")
    done = subprocess.run([program], capture_output=True, check=True)
    given, result = artifact.report.inputs[0], artifact.report.outputs[0]
    assert given.scale is not None
    assert given.zero_point is not None
    assert result.scale is not None
    assert result.zero_point is not None
    size = 3 * 12 * 10
    gain = np.array([0.0039215689, 0.0042, 0.5], np.float32)
    offset = np.array([0.0, -0.5, -63.75], np.float32)
    pixels = (np.arange(size) * 37 % 256).astype(np.float32).reshape(-1, 3)
    found = np.frombuffer(done.stdout[:size], np.int8)
    np.testing.assert_array_equal(found, codes(pixels * gain + offset, given.scale, given.zero_point).reshape(-1))
    numbers = np.frombuffer(done.stdout[size : size + 6001], np.int8)
    every = np.arange(-3000, 3001).astype(np.float32) * np.float32(0.001)
    np.testing.assert_array_equal(numbers, codes(every, given.scale, given.zero_point))
    real = np.frombuffer(done.stdout[size + 6001 :], np.float32)
    wanted = (np.arange(-128, 128) - result.zero_point).astype(np.float32) * np.float32(result.scale)
    np.testing.assert_array_equal(real, wanted)


# ---- checks that fail ------------------------------------------------------------------------------------------------


@pytest.mark.host
def test_checks_need_no_function_of_the_user(tiny: Model, tmp_path: Path) -> None:
    """The default stays where it is; one of the user's takes its place."""

    artifact = tiny.compile("cortex-m4").save(tmp_path / "tiny")
    assert artifact.run([artifact.example()], HOST, flags=(RUNTIME_CHECKS,)).bit_exact  # with one of ours
    folder = tmp_path / "portable"
    text = '#include "tiny.h"\nint main(void) { return tiny_run(tiny_default_arena()); }\n'
    write_files(folder, {**emit_c(artifact.portable).files, "main.c": text})
    flags = [*WARNINGS, *BUNDLE_FLAGS, RUNTIME_CHECKS]
    program = toolchain.build_executable(bundle_sources(folder, "c"), bundle_includes(folder), flags, "checks")
    assert subprocess.run([program], timeout=1800).returncode == 0
