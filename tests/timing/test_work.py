"""Cycles of a run: by step and by part, from the ways between blocks that the emulator counts."""

from pathlib import Path

import pytest

from cortado.base.target import CortexM
from cortado.run.elf import load_image
from cortado.run.harness import run_harness
from cortado.run.stack import disassemble
from cortado.run.watch import Watch, skipped_ranges
from cortado.timing.cycles import BEFORE, BasicBlock, Cycles, Edge, Flow
from cortado.timing.models import MODELS
from cortado.timing.work import MeasuredWork, Part, Spent, account, parts_of
from helpers.boards import INPUTS, firmware
from helpers.timing import assembled

M0P, M4, M55 = CortexM.M0PLUS, CortexM.M4, CortexM.M55
LOOP = "movs r1, #10; 1: ldr r0, [r2]; subs r1, #1; bne 1b; bx lr"


def test_a_loop_by_hand(tmp_path: Path) -> None:
    """Ten turns of which nine jump back; the first load stands behind a move, the others behind a jump."""
    code = {one.address: one for one in assembled(tmp_path, M4, LOOP)}
    entry, turn, end = BasicBlock(0, 4), BasicBlock(2, 3), BasicBlock(8, 1)
    edges = (Edge(0, None, entry, 1), Edge(0, entry, turn, 1), Edge(0, turn, turn, 8), Edge(1, turn, end, 1))
    work = account(Flow(edges), code, dict.fromkeys(code, Part.REST), MODELS[M4], [])
    assert work.step(0) == Spent(1 + 10 * 3, Cycles(1 + 10 * 4 + 9 * 1, 1 + 10 * 4 + 9 * 2, 1 + 10 * 4 + 9 * 3))
    assert work.step(1) == Spent(1, Cycles(1, 1, 1))  # where it returns to is not known
    assert work.total == work.step(0) + work.step(1) == work.part(Part.REST)


def test_skipped_code_costs_nothing_but_the_jump_to_it_does(tmp_path: Path) -> None:
    code = {one.address: one for one in assembled(tmp_path, M4, "nop; bx lr; nop; nop; nop; nop")}
    edges = (Edge(BEFORE, None, BasicBlock(0, 2), 1), Edge(BEFORE, BasicBlock(0, 2), BasicBlock(8, 2), 1))
    work = account(Flow(edges), code, dict.fromkeys(code, Part.ROWS), MODELS[M4], [(8, 12)])
    assert work.step(BEFORE) == Spent(2, Cycles(3, 4, 5))


# sum(n) runs a loop n times: a load, a multiply, a subtraction and the jump back.
SUM = """
void sum(const int8_t *x, int n) __attribute__((naked, noinline));
void sum(const int8_t *x, int n) {
    (void)x; (void)n;
    __asm__ volatile(".syntax unified\\n movs r2, #0\\n 1: ldrb r3, [r0]\\n muls r3, r2, r3\\n"
                     " subs r1, r1, #1\\n bne 1b\\n bx lr\\n");
}
"""
BODY = "sum(in, 100 + in[0]); sum(in, 7); out[0] = 1; return 0;"


def timed(
    folder: Path, core: str, cpu: CortexM, body: str, top: str, order: tuple[int, ...], step: str
) -> MeasuredWork:
    board, elf = firmware(folder, core, body=body, top=top)
    done = run_harness(elf, board, INPUTS, 2, plugin=Watch(count=True, steps=(step,), order=order))
    assert done.flow is not None
    assert done.counts is not None
    code = disassemble(elf, cpu)
    work = account(done.flow, code, parts_of(code), MODELS[cpu], skipped_ranges(load_image(elf)))
    assert work.total.instructions == done.counts.samples[0].total  # the first sample alone
    return work


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("core", "cpu", "turn", "jump"),
    [("an385-m0plus", M0P, 5, (1, 1, 1)), ("microbit-m0", CortexM.M0, 5, (2, 2, 2)), ("an386-m4", M4, 5, (1, 2, 3))],
)
def test_a_loop_on_a_board(tmp_path: Path, core: str, cpu: CortexM, turn: int, jump: tuple[int, int, int]) -> None:
    """A turn takes 2 + 1 + 1 + 1 cycles and a jump; two calls differ by 93 turns."""
    work = timed(tmp_path, core, cpu, BODY, SUM, (3, 5), "sum")
    assert set(work.steps) == {BEFORE, 3, 5}
    first, second = work.step(3), work.step(5)
    between = first.instructions - second.instructions - 93 * 4  # what run() does between the calls and behind them
    assert abs(between) <= 3
    for which, taken in zip(("low", "typical", "high"), jump, strict=True):
        spent = getattr(first.cycles, which) - getattr(second.cycles, which)
        assert abs(spent - 93 * (turn + taken)) <= 12
    again = timed(tmp_path, core, cpu, BODY, SUM, (3, 3), "sum")
    assert again.step(3) == first + second


# A low-overhead loop of n turns: one load of a vector and one multiply, in different units.
VECTORS = """
void dot(const int8_t *x, int n) __attribute__((naked, noinline));
void dot(const int8_t *x, int n) {
    (void)x; (void)n;
    __asm__ volatile(".syntax unified\\n vmov.i32 q0, #0\\n dls lr, r1\\n mov r3, r0\\n movs r2, #0\\n"
                     " 1: vldrb.u8 q1, [r3]\\n vmladava.s8 r2, q0, q1\\n le lr, 1b\\n bx ip\\n");
}
"""
CALL = (
    '__asm__ volatile("mov r0, %%0\\n mov r1, %%1\\n adr ip, 1f + 1\\n b dot\\n .p2align 2\\n 1:" :: "r"(in), "r"(%d)'
)
CLOBBERS = ' : "r0", "r1", "r2", "r3", "ip", "lr", "cc", "memory"); '


@pytest.mark.qemu
def test_a_low_overhead_loop_on_a_board(tmp_path: Path) -> None:
    """Two vector instructions, each in a unit of its own for two cycles, overlap: two cycles for a turn."""
    body = CALL % 100 + CLOBBERS + CALL % 10 + CLOBBERS + "out[0] = 1; return 0;"
    work = timed(tmp_path, "an547-m55", M55, body, VECTORS, (0, 1), "dot")
    assert abs(work.step(0).instructions - work.step(1).instructions - 90 * 3) <= 4
    assert abs(work.step(0).cycles.typical - work.step(1).cycles.typical - 90 * 2) <= 8


def test_parts_of_kernels(tmp_path: Path) -> None:
    text = "1: ldr r0, [r1], #4; smlad r4, r0, r2, r4; bne 1b; "
    text += "smmulr r4, r4, r5; asrs r4, r6; adc r4, r4, r7; strb r4, [r1]"
    code = {one.address: one for one in assembled(tmp_path, M4, text)}
    parts = [Part.PRODUCTS] * 3 + [Part.REQUANTIZE] * 4

    def named(name: str) -> list[Part]:
        return list(parts_of({at: one._replace(function=name) for at, one in code.items()}).values())

    assert named("cortado_conv_lanes_s8__dsp") == parts
    assert named("cortado_conv2d_lanes_s8__dsp") == [Part.PACKING] * 7
    assert named("cortado_run_stage") == named("call_conv2d_s8__dsp") == [Part.ROWS] * 7
    assert named("cortado_add_s8") == [Part.REST] * 3 + [Part.REQUANTIZE] * 4
