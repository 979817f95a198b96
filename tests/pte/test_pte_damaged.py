"""Damaged .pte files: information or one error, in little time and memory."""

import json
import struct
import time
import tracemalloc
from collections.abc import Callable

import pytest
from executorch.exir import schema

from cortado.base.errors import CortadoError
from cortado.pte.reader import read_pte
from cortado.pte.text import format_info, info_as_json
from helpers.pte_files import (
    METADATA,
    call,
    damaged,
    patched,
    plan,
    read_or_none,
    scratch_pte,
    systematic,
    tensor,
    text_plan,
    tiny_pte,
    write,
)


def broken_plan(**changes: object) -> bytes:
    """A method with one planned and one constant tensor and one call; `changes` break it."""
    values = [tensor([16], at=0), tensor([4], constant=1)]
    chain = schema.Chain([], [], [call(schema.KernelCall(0, [0, 1]))], None)
    fields: dict[str, object] = {
        "values": values,
        "inputs": [0],
        "chains": [chain],
        "operators": [schema.Operator("aten::relu", "out")],
        "non_const_buffer_sizes": [0, 16],
    }
    return write(plan("forward", **(fields | changes)), constants=(b"four",))


def chain_of(*instructions: object) -> dict[str, object]:
    return {"chains": [schema.Chain([], [], [call(instruction) for instruction in instructions], None)]}


BROKEN_PLANS: dict[str, tuple[dict[str, object], str]] = {
    "input": ({"inputs": [2]}, "refers to value 2, and there are 2"),
    "output": ({"outputs": [-1]}, "refers to value -1, and there are 2"),
    "operator": (chain_of(schema.KernelCall(1, [])), "refers to operator 1, and there are 1"),
    "argument": (chain_of(schema.KernelCall(0, [5])), "refers to value 5"),
    "delegate": (chain_of(schema.DelegateCall(0, [])), "refers to delegate 0, and there are 0"),
    "move": (chain_of(schema.MoveCall(0, 7)), "refers to value 7"),
    "jump": (chain_of(schema.JumpFalseCall(7, 0)), "refers to value 7"),
    "free": (chain_of(schema.FreeCall(7)), "refers to value 7"),
    "arena too small": ({"non_const_buffer_sizes": [0, 15]}, "ends at byte 16 of memory 1 of 15"),
    "no such memory": ({"non_const_buffer_sizes": [0]}, "refers to memory 1, and there are 1"),
    "negative arena": ({"non_const_buffer_sizes": [0, -16]}, "-16 bytes of memory"),
    "no such constant": ({"values": [tensor([1], at=0), tensor([4], constant=2)]}, "refers to constant 2"),
    "constant too short": ({"values": [tensor([1], at=0), tensor([5], constant=1)]}, "needs 5 bytes of data and has 4"),
    "no state": ({"values": [tensor([1], constant=1, at=0), tensor([1])]}, "mutable data segment 0, and there are 0"),
    "negative size": ({"values": [tensor([-1], at=0), tensor([1])]}, r"1 sizes, \[-1\]"),
    "rank": ({"values": [tensor([1] * 17, at=0), tensor([1])]}, "has 17 sizes"),
    "dim order": ({"values": [tensor([1, 1], at=0, dim_order=[0, 0]), tensor([1])]}, "order of dimensions"),
    "tensor list": ({"values": [*[tensor([1])] * 2, schema.EValue(schema.TensorList([-1]))]}, "refers to value -1"),
    "optional": ({"values": [*[tensor([1])] * 2, schema.EValue(schema.OptionalTensorList([-2]))]}, "value -2"),
}


@pytest.mark.parametrize(("changes", "message"), BROKEN_PLANS.values(), ids=BROKEN_PLANS.keys())
def test_a_method_that_contradicts_itself(changes: dict[str, object], message: str) -> None:
    read_pte(broken_plan())
    with pytest.raises(CortadoError, match=rf"^x is not a readable \.pte: .*{message}.*\(at byte \d+\)$"):
        read_pte(broken_plan(**changes), "x")


HEADERS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "another file": (lambda data: data[:4] + b"TFL3" + data[8:], r"identifier b'TFL3', expected b'ET12' \(at byte 4\)"),
    "a bundle": (lambda data: data[:4] + b"BP08" + data[8:], "bundled program"),
    "header length": (lambda data: patched(data, 12, "I", 23), "23 bytes long, expected at least 24"),
    "program size": (lambda data: patched(data, 16, "Q", len(data) + 1), "it is cut off"),
    "segment base": (lambda data: patched(data, 24, "Q", 2**63), "it is cut off"),
    "no segment base": (lambda data: patched(data, 24, "Q", 0), "no header says where the data starts"),
    "segments cut off": (lambda data: data[:-1], "it is cut off"),
    "segments cut off silently": (lambda data: patched(data, 32, "Q", 0)[:-1], "1 bytes after the file's end"),
    "only the header": (lambda data: data[:8], "."),
    "tiny program": (lambda data: patched(data, 16, "Q", 3), "outside the program's 3 bytes"),
    "root offset zero": (lambda data: patched(data, 0, "I", 0), "an offset of 0"),
    "root offset huge": (lambda data: patched(data, 0, "I", 2**32 - 4), "leads outside"),
    "root not aligned": (lambda data: patched(data, 0, "I", 61), "not aligned"),
}


@pytest.mark.parametrize(("change", "message"), HEADERS.values(), ids=HEADERS.keys())
def test_a_header_that_contradicts_the_file(change: Callable[[bytes], bytes], message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        read_pte(change(scratch_pte()))


def test_methods_need_different_names() -> None:
    with pytest.raises(CortadoError, match="two of its methods have the same name, 'cortado'"):
        read_pte(write(text_plan(METADATA), text_plan(METADATA)))
    with pytest.raises(CortadoError, match="no methods"):
        read_pte(write())


def bomb(plans: int, values: int) -> bytes:
    """A small file that describes plans x values tables, by referring to one method and one value again and again."""
    program, method = 8, 11 + plans
    value = method + 3 + values
    words = [4 * program, int.from_bytes(b"ET12", "little")]
    words += [8 | 8 << 16, 4 << 16]  # at 2: Program's layout, execution_plan (slot 1) at byte 4
    words += [10 | 8 << 16, 0, 4]  # at 4: ExecutionPlan's layout, values (slot 2) at byte 4
    words += [4 | 4 << 16]  # at 7: EValue's layout, all fields absent
    words += [4 * (program - 2), 4, plans, *(4 * (method - (11 + i)) for i in range(plans))]
    words += [4 * (method - 4), 4, values, *(4 * (value - (method + 3 + i)) for i in range(values))]
    words += [4 * (value - 7)]
    return struct.pack(f"<{len(words)}I", *words)


def test_a_small_file_that_describes_a_huge_one() -> None:
    (method,) = read_pte(bomb(1, 3)).methods
    assert method.name == ""
    start = time.process_time()
    with pytest.raises(CortadoError, match="far more than the file holds"):
        read_pte(bomb(30_000, 30_000))
    assert time.process_time() - start < 5


def test_lists_shared_by_many_calls_are_bounded_too() -> None:
    values = [tensor([1], constant=1), schema.EValue(schema.TensorList([0] * 2000))]
    instructions = [schema.KernelCall(0, [1])] * 2000
    operators = [schema.Operator("aten::cat", "out")]
    with pytest.raises(CortadoError, match="far more than the file holds"):
        read_pte(
            write(plan("forward", values=values, operators=operators, **chain_of(*instructions)), constants=(b"1",))
        )


def test_the_tiny_file_is_a_good_one() -> None:
    info = read_pte(tiny_pte(b'{"target":"cortex-m4"}'))
    assert info.metadata is not None
    assert info.metadata.target == "cortex-m4"


def test_5000_damaged_files_give_information_or_one_error() -> None:
    readable, slowest = 0, 0.0
    for data in (*damaged(), *systematic()):
        start = time.process_time()
        info = read_or_none(data)
        if info is not None:
            readable += 1
            json.dumps(info_as_json(info))
            assert format_info(info).replace("\n", "").isprintable()
        slowest = max(slowest, time.process_time() - start)
    assert len(damaged()) == 5000
    assert slowest < 1
    assert 500 < readable < 4000, "damage that is never or always noticed tests nothing"


def test_every_truncation_gives_the_error() -> None:
    data = scratch_pte()
    for size in range(len(data)):
        assert read_or_none(data[:size]) is None, size


def test_damaged_files_take_no_more_memory_than_good_ones() -> None:
    files = damaged()[:300]  # made before the count starts
    tracemalloc.start()
    try:
        for data in files:
            read_or_none(data)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
