"""Stores of a program on a board against the table of those allowed."""

from pathlib import Path

import pytest

from cortado.base.errors import CortadoError
from cortado.run.elf import Image, Symbol
from cortado.run.harness import run_harness
from cortado.run.qemu import BoardFaultError
from cortado.run.watch import AllowedWrites, StoreReport, StoreTable, StrayStoreError, Watch, _merge, _store_lines
from helpers.boards import HIDE, INPUTS, ONE_EACH, STORE_AT, firmware

# Two steps: the first fills row 1 of a ring of three rows of 8 bytes at offset 32, the second writes its bytes 24-26.
RING = """
cortado_marker_step();
for (int i = 0; i < %(count)s; ++i) { ((volatile int8_t *)out)[8 + i] = in[i]; }
cortado_marker_step();
in[24] = 1; in[25] = 2; in[26] = 3;
return 0;
"""
RING_TABLE = StoreTable("model_arena", (AllowedWrites(0, ((40, 48),)), AllowedWrites(5, ((24, 25), (25, 27)))))


def stores(folder: Path, body: str, table: StoreTable, core: str = "an386-m4", top: str = "") -> StoreReport:
    board, elf = firmware(folder, core, body=body, top=top)
    report = run_harness(elf, board, INPUTS, 3, plugin=Watch(stores=table)).stores
    assert report is not None
    return report


@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
def test_stores_inside_the_table_pass(tmp_path: Path, core: str) -> None:
    report = stores(tmp_path, RING % {"count": 8}, RING_TABLE, core)
    report.check()
    assert (report.strays, report.first, report.calls) == (0, None, (2, 2, 2))
    assert report.stores >= 3 * 9


@pytest.mark.qemu
@pytest.mark.parametrize("core", ONE_EACH)
def test_one_byte_past_a_middle_row_is_caught(tmp_path: Path, core: str) -> None:
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
def test_each_call_has_its_own_ranges(tmp_path: Path) -> None:
    table = StoreTable("model_arena", (AllowedWrites(0, ((24, 27),)), AllowedWrites(5, ((40, 48),))))
    report = stores(tmp_path, RING % {"count": 8}, table)
    assert report.strays >= 3 * 9
    assert report.first is not None
    assert report.first.address - report.base == 40


@pytest.mark.qemu
def test_stores_before_the_first_step_and_past_the_table_are_stray(tmp_path: Path) -> None:
    report = stores(tmp_path, "((volatile int8_t *)in)[3] = 1; " + RING % {"count": 8}, RING_TABLE)
    assert "before the first step" in str(report.problem())
    short = StoreTable("model_arena", RING_TABLE.calls[:1])
    report = stores(tmp_path, RING % {"count": 8}, short)
    assert "after the last step of its table" in str(report.problem())
    longer = StoreTable("model_arena", (*RING_TABLE.calls, AllowedWrites(6, ())))
    report = stores(tmp_path, RING % {"count": 8}, longer)
    assert report.problem() == "a run made 2 calls, its store table has 3"


@pytest.mark.qemu
def test_always_ranges_and_symbols_may_be_written(tmp_path: Path) -> None:
    body = "((volatile int8_t *)in)[3] = 1; counter[1] = 1; " + RING % {"count": 8}
    table = StoreTable("model_arena", RING_TABLE.calls, always=((3, 4),), symbols=("counter",))
    stores(tmp_path, body, table, top="volatile int counter[2];").check()
    report = stores(
        tmp_path, body, StoreTable("model_arena", RING_TABLE.calls, ((3, 4),)), top="volatile int counter[2];"
    )
    assert report.strays == 3


@pytest.mark.qemu
def test_nothing_is_counted_or_checked_in_a_pause(tmp_path: Path) -> None:
    """Code that is met in the pause first is counted behind it."""
    work = "for (volatile int i = 0; i < 100; ++i) { ((volatile int8_t *)in)[3] = 1; }"
    body = RING % {"count": 8}

    def watched(before: str) -> tuple[int, int]:
        folder = tmp_path / str(len(before))
        folder.mkdir()
        board, elf = firmware(folder, "an386-m4", body=before + body)
        done = run_harness(elf, board, INPUTS, 3, plugin=Watch(count=True, stores=RING_TABLE))
        assert done.stores is not None
        assert done.counts is not None
        assert len({sample.total for sample in done.counts.samples}) == 1
        return done.counts.samples[0].total, done.stores.strays

    plain, strays = watched("")
    assert strays == 0
    paused, strays = watched(f"cortado_marker_pause(); {work} cortado_marker_resume();")
    assert strays == 0
    assert paused < plain + 20
    counted, strays = watched(work)
    assert strays == 3 * 100
    assert counted > plain + 500


@pytest.mark.qemu
def test_a_fault_after_a_stray_store_tells_of_both(tmp_path: Path) -> None:
    board, elf = firmware(tmp_path, body="((volatile int8_t *)in)[60] = 1; " + STORE_AT % "0", top=HIDE)
    with pytest.raises(
        BoardFaultError, match=r"(?s)forbidden memory.*stray store by run\+0x\w+: 1 bytes .*arena \+0x3c"
    ):
        run_harness(elf, board, INPUTS, 1, plugin=Watch(stores=RING_TABLE))


@pytest.mark.qemu
def test_vector_stores_are_seen_byte_by_byte(tmp_path: Path) -> None:
    top = "#include <arm_mve.h>"
    body = (
        "cortado_marker_step(); "
        "mve_pred16_t lanes = vctp8q((uint32_t)in[0] + 13u); vstrbq_p_s8(out + 3, vdupq_n_s8(5), lanes); return 0;"
    )
    exact = StoreTable("model_arena", (AllowedWrites(0, ((35, 48),)),))
    board, elf = firmware(tmp_path, "an547-m55", body, top)
    report = run_harness(elf, board, INPUTS, 1, plugin=Watch(stores=exact)).stores
    assert report is not None
    report.check()
    one_less = StoreTable("model_arena", (AllowedWrites(0, ((35, 47),)),))
    report = run_harness(elf, board, INPUTS, 1, plugin=Watch(stores=one_less)).stores
    assert report is not None
    assert report.first is not None
    assert (report.strays, report.first.address - report.base, report.first.size) == (1, 47, 1)


def test_a_range_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(CortadoError, match="ends at 0x4, before its start 0x8"):
        _merge([(0, 2), (8, 4)])


def test_a_symbol_may_be_written_to_its_last_byte() -> None:
    places = {"model_arena": (0x1000, 64), "counter": (0x1800, 8)}
    places |= {"cortado_stack_limit": (0x2000, 0), "cortado_stack_top": (0x3000, 0)}
    symbols = tuple(Symbol(name, address, size, is_function=False) for name, (address, size) in places.items())
    table = StoreTable("model_arena", RING_TABLE.calls[:1], always=((2, 4),), symbols=("counter",))
    lines = _store_lines(table, Image(Path("net.elf"), symbols, (), {}))
    always = ["always 0x1002 0x1004", "always 0x1800 0x1808", "always 0x2000 0x3000"]
    assert lines == ["stores", *always, "call 0 0x1028 0x1030"]
