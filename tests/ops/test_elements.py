"""Operators that take several elements: each of them, on boards of every kind of core, bit for bit."""

from functools import cache
from itertools import islice
from pathlib import Path

import pytest
import torch

from cortado.api import prepare
from cortado.base.arrays import same_bits
from cortado.base.element import INT32
from cortado.base.target import CortexM, CortexMTargetConfig
from cortado.ir.op import ElementOf, registry, result_elements
from cortado.plan.lowered import reference_outputs
from helpers import cases
from helpers.cores import each_core
from helpers.single import Function

SEVERAL = [op for op in registry().operators.values() if op.kernel and isinstance(op.element, ElementOf)]
CORES = (CortexM.M0PLUS, CortexM.M4, CortexM.M55)
DRAWN = 20  # of each, of which those are taken that have more than 8 bits
PARTS = 3  # programs that they are built into


def test_what_moves_or_chooses_values_takes_any_element() -> None:
    names = {op.base for op in SEVERAL}
    assert {
        "slice_copy",
        "cat",
        "transpose",
        "repeat",
        "pad",
        "index_select",
        "upsample_nearest_nhwc",
        "where",
    } <= names
    assert {"quantized_add", "quantize_per_tensor"} <= names


@cache
def wide() -> list[cases.Case]:
    """Two samples of each operator that are not of 8 bits."""
    found: list[cases.Case] = []
    for operator in SEVERAL:
        samples = (one for one in cases.drawn(operator, DRAWN) if result_elements(operator, one)[0].bytes > 1)
        found += [(operator, one) for one in islice(samples, 2)]
    return found


@pytest.mark.cases(1)
@pytest.mark.qemu
@pytest.mark.parametrize("core", each_core(*CORES, here=CortexM.M0PLUS))
def test_wide_elements_on_boards(core: CortexM, tmp_path: Path) -> None:
    target = CortexMTargetConfig(core)
    assert {operator.base for operator, _ in wide()} == {operator.base for operator in SEVERAL}
    for part in range(PARTS):
        work = wide()[part::PARTS]
        found = cases.run_cases(work, target, target.machine.value, tmp_path / str(part))
        for got, want, (operator, arguments) in zip(found, cases.references(work), work, strict=True):
            assert same_bits(got, want.numpy()), (operator.name, arguments)


# ---- integers are moved by the operators that move codes -----------------------------------------------------------

MOVES = {
    "rows in brackets": (lambda self, i: i[:, [4, 0, 2]], "index_select"),
    "turned over": (lambda self, i: i.flip(1), "index_select"),
    "rolled": (lambda self, i: i.roll(2, 1), "index_select"),
    "repeated": (lambda self, i: i.repeat(2, 1), "repeat"),
    "padded": (lambda self, i: torch.nn.functional.pad(i, (2, 1), value=-70000), "pad"),
    "stacked": (lambda self, i: torch.stack([i, i + 1], 1), "cat"),
    "joined with constants": (lambda self, i: torch.cat([i, torch.tensor([[7, 70000]])], 1), "cat"),
}


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", sorted(MOVES))
@pytest.mark.parametrize("kind", [torch.int64, torch.int32])
def test_integers_move_as_they_are(name: str, kind: torch.dtype) -> None:
    function, operator = MOVES[name]
    model = Function(function)
    rng = torch.Generator().manual_seed(1)
    batches = [(torch.randint(-99999, 99999, (1, 6), generator=rng).to(kind),) for _ in range(3)]
    graph = prepare(model, batches[0], batches, name="net").compile("cortex-m4").graph
    assert graph is not None
    assert operator in {call.operator.split("::")[1] for call in graph.calls}
    assert {value.element.name for value in graph.values.values()} == {INT32.name}
    for batch in batches:
        assert torch.equal(reference_outputs(graph, batch)[0], model(*batch).to(torch.int32))
