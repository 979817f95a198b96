"""The table of ports: steps that read the same share rows, and in both builds each finds its own."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import nn

from cortado import api
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.emit.c.layers import PortRow, Ports, shared_ports
from cortado.run import runner

CHECKS = "CORTADO_ENABLE_RUNTIME_CHECKS"


def port(release: int, checked: int) -> PortRow:
    return PortRow(text=f"    {{AT({release}, {checked})}},", release=release)


def operands(table: Ports, sizes: Sequence[int], *, checks: bool) -> list[list[int]]:
    """The offsets that each step reads, as the preprocessor leaves them; `sizes`: how many ports each has."""
    text = table.text if checks else re.sub(rf"#ifdef {CHECKS}\n.*?#endif", "", table.text, flags=re.S)
    pair = re.compile(r"AT\((\d+), (\d+)\)")
    rows = [int(numbers[checks]) for numbers in pair.findall(text)]
    firsts = [int(pair.sub(lambda found: found[1 + checks], first)) for first in table.firsts]
    return [rows[first : first + size] for first, size in zip(firsts, sizes, strict=True)]


@pytest.mark.parametrize(
    ("steps", "rows", "checked_rows"),
    [
        ([[(0, 16)], [(0, 16)]], 1, 1),
        ([[(0, 16)], [(0, 48)], [(0, 16)], [(0, 48)]], 1, 2),
        ([[(0, 16), (64, 96)], [(64, 96)], [(64, 96), (0, 16)]], 4, 4),  # the order counts
        ([[(0, 16)], [(64, 96)], [(0, 16), (64, 96)]], 2, 2),  # two steps' rows are a third one's
        ([[(0, 16)], [(64, 96)], [(0, 32), (64, 96)]], 2, 4),
        ([[], [(0, 16)], []], 1, 1),  # rows that are pushed
    ],
)
def test_every_step_finds_its_operands(steps: list[list[tuple[int, int]]], rows: int, checked_rows: int) -> None:
    table = shared_ports([(f"step{i}", [port(*one) for one in step]) for i, step in enumerate(steps)])
    sizes = [len(step) for step in steps]
    for checks in (False, True):
        assert operands(table, sizes, checks=checks) == [[one[checks] for one in step] for step in steps]
    release, *own = table.text.split(f"#ifdef {CHECKS}\n")
    assert [part.count("{AT(") for part in (release, table.text)] == [rows, checked_rows]
    assert bool(own) == (rows != checked_rows)


def test_a_row_names_the_steps_that_begin_with_it() -> None:
    """Once each."""
    rows = [port(0, 16)]
    table = shared_ports([("first", rows), ("second", rows), ("second", rows)])
    assert table.text == "    /* first; second */\n    {AT(0, 16)},"


def test_more_operands_than_a_step_can_number_are_an_error() -> None:
    with pytest.raises(CortadoError, match="the table of operands needs 65536, and the C bundle's tables hold at most"):
        shared_ports([("step", [port(at, at)]) for at in range(1 << 16)])


@pytest.mark.qemu
def test_a_network_whose_steps_share_is_exact_in_both_builds(tmp_path: Path) -> None:
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.Hardswish()) for _ in range(4)]
    inputs = [(torch.randn(1, 8, 6, 6),) for _ in range(4)]
    model = api.prepare(nn.Sequential(*blocks).eval(), inputs[0], inputs, name="net")
    artifact = model.compile(from_target_string("cortex-m4")).save(tmp_path / "net")
    text = (artifact.folder / "net.c").read_text()
    steps, release = text.count(".call = "), text.split("ports[] = {")[1].split("};")[0].split("#ifdef")[0]
    assert release.count(".row_bytes") < steps
    assert re.search(r"\.port = AT\(", text) is not None  # with guards some lie elsewhere
    for flags in ((), (runner.RUNTIME_CHECKS,)):
        assert artifact.run([artifact.example()] * 2, flags=flags).bit_exact
