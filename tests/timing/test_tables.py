"""Cortex-M0, M0+, M3 and M4: sequences whose cycles were counted by hand from Arm's manuals."""

from pathlib import Path

import pytest

from cortado.base.target import CortexM
from cortado.timing.cycles import Cycles, Grade, just
from cortado.timing.models import MODELS
from helpers.timing import assembled, cycles, taken

M0, M0P, M3, M4 = CortexM.M0, CortexM.M0PLUS, CortexM.M3, CortexM.M4


@pytest.mark.parametrize(
    ("text", "m0", "m0plus"),
    [
        ("adds r0, r0, r1; muls r0, r1, r0; lsls r0, r0, #2; sxtb r0, r0", 4, 4),
        ("ldr r0, [r1]; ldrb r2, [r1, #1]; str r0, [r3]", 6, 6),
        ("ldmia r0!, {r2-r5}; stmia r1!, {r2-r5}", 10, 10),
        ("push {r4-r7, lr}", 6, 6),
        ("bne 1f; 1: nop", 2, 2),
    ],
)
def test_small_cores(tmp_path: Path, text: str, m0: int, m0plus: int) -> None:
    assert cycles(tmp_path, M0, text) == just(m0)
    assert cycles(tmp_path, M0P, text) == just(m0plus)


@pytest.mark.parametrize(
    ("text", "m0", "m0plus"),
    [
        ("1: bne 1b", 3, 2),
        ("1: b 1b", 3, 2),
        ("bl one", 4, 3),
        ("bx lr", 3, 2),
        ("blx r3", 3, 2),
        ("pop {r4, pc}", 6, 5),
    ],
)
def test_jumps_of_small_cores(tmp_path: Path, text: str, m0: int, m0plus: int) -> None:
    assert taken(tmp_path, M0, text) == just(m0)
    assert taken(tmp_path, M0P, text) == just(m0plus)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The manual's own examples, "load/store timings".
        ("ldr r0, [r1]; ldr r1, [r2]", just(3)),
        ("ldr r0, [r1, r2]; str r0, [r3, #20]", just(3)),
        ("ldr r0, [r1, r2]; str r1, [r3, r2]", just(3)),
        ("ldr r0, [r1, r5]; ldr r1, [r2]; ldr r2, [r3, #4]", just(4)),
        # An address that was just loaded, or just computed.
        ("ldr r0, [r1]; ldr r2, [r0]", just(4)),
        ("add r1, r1, r2; ldr r0, [r1]", Cycles(3, 4, 4)),
        ("add r3, r3, r2; ldr r0, [r1]", just(3)),
        # Stores.
        ("str r0, [r1, #4]", just(1)),
        ("str r0, [r1, r2]", just(2)),
        ("str r0, [r1]; ldr r2, [r3]", Cycles(2, 3, 3)),
        # What does not overlap.
        ("ldr r0, [r1]; ldrd r2, r3, [r4]", just(5)),
        ("ldmia r0!, {r8-r11}; strd r2, r3, [r4]", just(8)),
        ("udiv r0, r1, r2", Cycles(2, 6, 12)),
        ("cbz r0, 1f; nop; 1: it ne; movne r0, #1", just(4)),
    ],
)
@pytest.mark.parametrize("cpu", [M3, M4])
def test_what_the_m3_and_the_m4_share(tmp_path: Path, cpu: CortexM, text: str, expected: Cycles) -> None:
    assert cycles(tmp_path, cpu, text) == expected


@pytest.mark.parametrize("text", ["1: bne 1b", "1: b 1b", "bl one", "bx lr"])
def test_a_jump_refills_the_pipeline(tmp_path: Path, text: str) -> None:
    last = assembled(tmp_path, M4, text)[-1]
    for cpu in (M3, M4):
        assert MODELS[cpu].jump(last) == Cycles(1, 2, 3)


def test_a_return_from_the_stack(tmp_path: Path) -> None:
    assert taken(tmp_path, M4, "pop {r4-r7, pc}") == just(1 + 5) + Cycles(1, 2, 3)
    assert taken(tmp_path, M4, "pop {r4-r7}") == just(1 + 4)
    assert taken(tmp_path, M4, "ldr pc, [r0]") == just(2) + Cycles(1, 2, 3)
    assert taken(tmp_path, M4, "tbb [pc, r0]") == just(2) + Cycles(1, 2, 3)


@pytest.mark.parametrize(
    ("text", "m3", "m4"),
    [
        ("mul r0, r1, r2", just(1), just(1)),
        ("mla r0, r1, r2, r3", just(2), just(1)),
        ("smull r0, r1, r2, r3", Cycles(3, 4, 5), just(1)),
        ("smlal r0, r1, r2, r3", Cycles(4, 5, 7), just(1)),
        # Loads with a base update don't pipeline on the M3.
        ("ldr r0, [r1], #4; ldr r2, [r3], #4", Cycles(3, 4, 4), just(3)),
    ],
)
def test_where_the_m3_and_the_m4_differ(tmp_path: Path, text: str, m3: Cycles, m4: Cycles) -> None:
    assert cycles(tmp_path, M3, text) == m3
    assert cycles(tmp_path, M4, text) == m4


def test_the_m4_s_own_instructions(tmp_path: Path) -> None:
    dsp = "smlad r0, r1, r2, r0; sxtb16 r3, r4, ror #8; smmulr r0, r1, r2; ssat r0, #8, r1; pkhbt r0, r1, r2"
    assert cycles(tmp_path, M4, dsp) == just(5)
    floats = "vldr s0, [r0]; vadd.f32 s0, s1, s2; vmla.f32 s0, s1, s2; vdiv.f32 s0, s1, s2; vstr s0, [r0]"
    assert cycles(tmp_path, M4, floats) == just(2 + 1 + 3 + 14 + 2)


def test_a_list_of_double_registers_is_twice_as_many_words(tmp_path: Path) -> None:
    assert cycles(tmp_path, M4, "vldmia r0!, {s8-s15}") == cycles(tmp_path, M4, "vldmia r0!, {d4-d7}") == just(9)
    assert cycles(tmp_path, M4, "vpush {d8}") == just(3)


def test_an_instruction_is_seen_behind_the_block_before_unless_it_was_jumped_to(tmp_path: Path) -> None:
    before = assembled(tmp_path, M4, "ldr r0, [r1]")
    load = assembled(tmp_path, M4, "ldr r2, [r3]")
    assert MODELS[M4].block(before, False, load) == [just(1)]
    assert MODELS[M4].block(before, True, load) == [just(2)]
    assert MODELS[M4].block((), False, load) == [just(2)]


def test_every_core_has_a_model_with_sources() -> None:
    assert set(MODELS) == set(CortexM) - {CortexM.ANY}
    published = {cpu for cpu, model in MODELS.items() if model.grade is Grade.TABLE}
    assert published == {M0, M0P, M3, M4}
    assert all(model.sources for model in MODELS.values())
