"""Instructions read back from a disassembly: kinds, registers, sizes."""

from pathlib import Path

import pytest

from cortado.base.target import CortexM
from cortado.timing.instructions import Kind, parse
from helpers.timing import assembled

M4, M55 = CortexM.M4, CortexM.M55


@pytest.mark.parametrize(
    ("text", "kind", "writes", "reads"),
    [
        ("add r0, r1, r2", Kind.ALU, "r0", "r1 r2"),
        ("adds r0, r0, #1", Kind.LIGHT, "r0", "r0"),
        ("add r0, r1, r2, lsl #3", Kind.SHIFT, "r0", "r1 r2"),
        ("adds r3, r3, r4", Kind.ALU, "r3", "r3 r4"),
        ("movs r0, r1", Kind.LIGHT, "r0", "r1"),
        ("movt r0, #1", Kind.LIGHT, "r0", "r0"),
        ("cmp r0, r1", Kind.ALU, "", "r0 r1"),
        ("muls r0, r1, r0", Kind.MULTIPLY, "r0", "r0 r1"),
        ("smlad r4, r8, ip, r4", Kind.ACCUMULATE, "r4", "r8 r12 r4"),
        ("smull r0, r1, r2, r3", Kind.LONG_MULTIPLY, "r0 r1", "r2 r3"),
        ("smlal r0, r1, r2, r3", Kind.LONG_ACCUMULATE, "r0 r1", "r0 r1 r2 r3"),
        ("sxtb16 r0, r1, ror #8", Kind.SHIFT, "r0", "r1"),
        ("sxtb r0, r1", Kind.LIGHT, "r0", "r1"),
        ("ldr r0, [r1, r2]", Kind.LOAD, "r0", "r1 r2"),
        ("ldr r0, [r1], #4", Kind.LOAD, "r0 r1", "r1"),
        ("str r0, [r1, #4]!", Kind.STORE, "r1", "r0 r1"),
        ("ldrd r0, r1, [sp, #8]", Kind.LOAD_PAIR, "r0 r1", "sp"),
        ("ldmia r0!, {r8-r11}", Kind.LOAD_MANY, "r0 r8 r9 r10 r11", "r0"),
        ("push {r4, lr}", Kind.STORE_MANY, "sp", "r4 lr sp"),
        ("pop {r4, pc}", Kind.LOAD_MANY, "r4 pc sp", "sp"),
        ("bx lr", Kind.JUMP, "", "lr"),
        ("mov pc, lr", Kind.JUMP, "pc", "lr"),
        ("cbnz r3, 1f; nop; 1: nop", Kind.BRANCH, "", "r3"),
        ("tbh [pc, r0, lsl #1]", Kind.TABLE_JUMP, "", "pc r0"),
        ("nop", Kind.NOTHING, "", ""),
        ("udiv r0, r1, r2", Kind.DIVIDE, "r0", "r1 r2"),
        ("vadd.f32 s0, s1, s2", Kind.FLOAT, "q0", "q0"),
        ("vfma.f32 s4, s8, s9", Kind.FLOAT_ACCUMULATE, "q1", "q1 q2"),
        ("vldr s0, [r1, #8]", Kind.FLOAT_LOAD, "q0", "r1"),
    ],
)
def test_kinds_and_registers(tmp_path: Path, text: str, kind: Kind, writes: str, reads: str) -> None:
    one = assembled(tmp_path, M4, text)[0]
    assert one.kind is kind
    assert one.writes == frozenset(writes.split())
    assert one.reads - one.writes == frozenset(reads.split()) - one.writes
    if "r0" in reads.split() and "r0" in writes.split():
        assert "r0" in one.reads


@pytest.mark.parametrize(
    ("text", "kind", "writes", "reads"),
    [
        ("vldrb.u8 q2, [r5], #16", Kind.VECTOR_LOAD, "q2 r5", "r5"),
        ("vstrb.32 q0, [r1]", Kind.VECTOR_STORE, "", "q0 r1"),
        ("vmladava.s8 r0, q0, q2", Kind.VECTOR_MULTIPLY, "r0", "r0 q0 q2"),
        ("vmladav.s8 r0, q0, q2", Kind.VECTOR_MULTIPLY, "r0", "q0 q2"),
        ("vqrdmulh.s32 q0, q0, q3", Kind.VECTOR_MULTIPLY, "q0", "q0 q3"),
        ("vmla.s8 q0, q1, r2", Kind.VECTOR_MULTIPLY, "q0", "q0 q1 r2"),
        ("vrshl.s32 q0, q0, q4", Kind.VECTOR_INTEGER, "q0", "q0 q4"),
        ("vmov d0, r0, r2", Kind.VECTOR_MOVE, "q0", "r0 r2"),
        ("vmov q0, q1", Kind.VECTOR_INTEGER, "q0", "q1"),
        ("vdup.32 q6, r1", Kind.VECTOR_INTEGER, "q6", "r1"),
        ("vctp.8 r7", Kind.VECTOR_CONTROL, "", "r7"),
        ("dls lr, r0", Kind.LOOP_START, "lr", "r0"),
        ("1: le lr, 1b", Kind.LOOP_END, "", "lr"),
        ("vpush {d8-d15}", Kind.STORE_MANY, "sp", "q4 q5 q6 q7 sp"),
    ],
)
def test_vectors(tmp_path: Path, text: str, kind: Kind, writes: str, reads: str) -> None:
    one = assembled(tmp_path, M55, text)[0]
    assert (one.kind, one.writes) == (kind, frozenset(writes.split()))
    assert one.reads == frozenset(reads.split())


def test_places(tmp_path: Path) -> None:
    load, wide, branch = assembled(tmp_path, M4, "1: ldr r0, [r1]; ldr.w r2, [pc, #8]; b 1b")
    assert (load.address, load.size, wide.address, wide.size) == (0, 2, 2, 4)
    assert (load.from_code, wide.from_code) == (False, True)
    assert (branch.kind, branch.target, branch.function) == (Kind.BRANCH, 0, "one")


def test_data_between_functions_is_no_code() -> None:
    text = "00000040 <f>:\n  40:\t4770      \tbx\tlr\n  44:\t00001069 \t.word\t0x00001069\n"
    assert list(parse(text)) == [0x40]
