"""Cortex-M7, M33, M52, M55 and M85: what their units and pairs make of a few instructions, counted by hand."""

from pathlib import Path

import pytest

from cortado.base.target import CortexM
from cortado.timing.cycles import NONE, Cycles, just
from cortado.timing.models import MODELS
from helpers.timing import assembled, cycles, taken

M7, M33, M52, M55, M85 = CortexM.M7, CortexM.M33, CortexM.M52, CortexM.M55, CortexM.M85
# Two examples of LLVM's description of the M55, each with a load behind them that waits for its unit.
FOUR_UNITS = "vldrw.u32 q0, [r0]; vadd.i32 q1, q0, q2; vmul.i32 q3, q1, q2; vstrw.32 q3, [r1]; vldrw.u32 q4, [r2]"
TWO_LOADS = "vldrw.u32 q0, [r0]; vldrb.u8 q1, [r1]; vadd.i32 q2, q0, q1; vstrw.32 q2, [r2]; vldrw.u32 q4, [r3]"


def typical(folder: Path, cpu: CortexM, text: str) -> float:
    return cycles(folder, cpu, text).typical


def test_vectors_overlap_in_different_units(tmp_path: Path) -> None:
    """VLDR, VADD, VMUL and VSTR take five cycles, and six where two loads need one unit: the next load is behind."""
    assert typical(tmp_path, M55, FOUR_UNITS) == 5 + 1 - 0.5
    assert typical(tmp_path, M55, TWO_LOADS) == 6 + 1 - 0.5
    assert cycles(tmp_path, M55, FOUR_UNITS).high == 5 + 1 + 1  # the product comes a cycle later


def test_the_m52_needs_four_beats(tmp_path: Path) -> None:
    loads = "vldrb.u8 q0, [r0]; vldrb.u8 q1, [r1]; vldrb.u8 q2, [r2]"
    assert typical(tmp_path, M55, loads) == 2 + 2 + 0.5
    assert typical(tmp_path, M52, loads) == 4 + 4 + 0.5


def test_the_unit_that_multiplies_bounds_a_loop_of_products(tmp_path: Path) -> None:
    """Sixteen products of four channels and two pixels: eight multiplies of two cycles each. With its loads in this
    order, the block takes 20; the multiplies alone would be 16."""
    text = "vldrb.u8 q0, [r1], #16; vldrb.u8 q1, [r3], #16"
    for first, second, weights in (("r0", "r8", "q2"), ("r2", "r10", "q3"), ("r4", "r12", "q2"), ("r6", "lr", "q3")):
        text += f"; vldrb.u8 {weights}, [r5], #16"
        text += f"; vmladava.s8 {first}, q0, {weights}; vmladava.s8 {second}, q1, {weights}"
    block = assembled(tmp_path, M55, text)
    steady = sum(MODELS[M55].block(block, False, block), NONE)
    assert steady.low == 20
    assert steady.typical == 20


def test_narrow_instructions_go_in_pairs_on_the_m33_and_the_m55(tmp_path: Path) -> None:
    for cpu in (M33, M55):
        assert typical(tmp_path, cpu, "muls r0, r1, r0; adds r2, #1; muls r3, r1, r3; adds r4, #1") == 2
        assert typical(tmp_path, cpu, "mul r8, r1, r0; add r9, r9, #1; mul r10, r1, r3; add r11, r11, #1") == 3.5
        assert cycles(tmp_path, cpu, "muls r0, r1, r0; adds r2, #1; muls r3, r1, r3; adds r4, #1").high == 4


def test_a_value_that_was_just_loaded_comes_a_cycle_later(tmp_path: Path) -> None:
    waiting, free = "ldr r0, [r1]; add.w r2, r0, r3, lsl #2", "ldr r0, [r1]; add.w r2, r4, r3, lsl #2"
    for cpu in (M33, M55):
        assert typical(tmp_path, cpu, waiting) - typical(tmp_path, cpu, free) == 1
        assert cycles(tmp_path, cpu, waiting).low == cycles(tmp_path, cpu, free).low


def test_the_m7_issues_two_of_most(tmp_path: Path) -> None:
    assert typical(tmp_path, M7, "ldr r0, [r1]; ldr r2, [r3]; add r4, r5, r6; add r7, r8, r9") == 2
    assert typical(tmp_path, M7, "smlad r0, r1, r2, r0; smlad r3, r1, r2, r3") == 1 + 0.5
    assert typical(tmp_path, M7, "smlad r0, r1, r2, r0; ldr r3, [r4]; smlad r5, r1, r2, r5; ldr r6, [r7]") == 2
    assert typical(tmp_path, M7, "ldmia r0, {r1-r4}; add r5, r6, r7") == 2 + 0.5
    assert cycles(tmp_path, M7, "ldr r0, [r1]; ldr r2, [r3]; add r4, r5, r6; add r7, r8, r9").high == 4


def test_the_m85_runs_a_vector_beside_the_core(tmp_path: Path) -> None:
    text = "vmla.s8 q0, q1, r0; add r1, r2, r3; vadd.i8 q2, q3, q4; add r4, r5, r6"
    assert typical(tmp_path, M85, text) == 2
    assert typical(tmp_path, M55, text) == 3.5


@pytest.mark.parametrize("cpu", [M7, M33, M52, M55, M85])
def test_jumps(tmp_path: Path, cpu: CortexM) -> None:
    refill = Cycles(0, 1, 4) if cpu in (M7, M85) else Cycles(1, 2, 3)
    for text in ("1: bne 1b", "bl one", "bx lr", "pop {r4, pc}"):
        assert MODELS[cpu].jump(assembled(tmp_path, cpu, text)[-1]) == refill
    assert MODELS[cpu].jump(assembled(tmp_path, cpu, "add r0, r1, r2")[-1]) == NONE


def test_a_low_overhead_loop_costs_nothing_but_its_body(tmp_path: Path) -> None:
    assert taken(tmp_path, M55, "1: add r0, r1, r2; add r3, r4, r5; le lr, 1b") == Cycles(2, 2, 3)
    assert taken(tmp_path, M55, "1: add r0, r1, r2; add r3, r4, r5; bne 1b").typical > 4


def test_lists_take_as_long_as_the_data_path_is_wide(tmp_path: Path) -> None:
    assert cycles(tmp_path, M33, "push {r4-r7, lr}").typical == 5
    assert cycles(tmp_path, M55, "push {r4-r7, lr}").typical == 3
    assert cycles(tmp_path, M55, "vpush {d8-d15}") == just(8)
    assert cycles(tmp_path, M55, "vldmia r0!, {s8-s15}") == cycles(tmp_path, M55, "vldmia r0!, {d4-d7}") == just(4)
