"""A bundle built with CORTADO_CHECK_RANGES: of every tensor, as many saturated values as the reference has."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from cortado.api import Compiled, prepare
from cortado.base.target import BUNDLE_FLAGS, Core
from cortado.emit.c.bundle import emit_c
from cortado.options import Border, Optimize, Options
from cortado.plan.lowered import LoweredGraph, chosen_ends, run_reference
from cortado.plan.program import Program, Walk
from cortado.plan.request import Feeding, program_of
from cortado.plan.schedule import schedule
from cortado.run import toolchain
from cortado.run.board import build_firmware, find_board
from cortado.run.qemu import run_elf
from cortado.run.runner import RUNTIME_CHECKS, WARNINGS, bundle_includes, bundle_sources, write_files
from helpers.sanitizers import SANITIZERS

COUNT = "-DCORTADO_CHECK_RANGES"
MAIN = """#include "net.h"
#ifdef __arm__
#include "port.h"
#define SAY cortado_port_print
#define NUMBER cortado_port_print_unsigned
#else
#include <stdio.h>
#define SAY(text) fputs(text, stdout)
#define NUMBER(value) printf("%u", (unsigned)(value))
#endif

static const int8_t codes[] = {CODES};

int main(void)
{
    net_arena_t *arena = net_default_arena();
    for (unsigned i = 0; i < 2; i++) {
        RUN
    }
#ifdef CORTADO_CHECK_RANGES
    for (unsigned i = 0; i < NET_RANGES; i++) {
        SAY(net_range_names[i]);
        SAY(" ");
        NUMBER(net_saturated[i]);
        SAY("\\n");
    }
#endif
    return 0;
}
"""
WHOLE = """
        memcpy(net_input(arena, 0), codes + i * NET_INPUT0_BYTES, NET_INPUT0_BYTES);
        if (net_run(arena) != 0) { return 1; }"""
BY_ROW = """
        net_reset(arena);
        for (unsigned row = 0; row < NET_ROWS; row++) {
            memcpy(net_row(arena), codes + i * NET_INPUT0_BYTES + row * NET_ROW_BYTES, NET_ROW_BYTES);
            if (net_push(arena) < 0) { return 1; }
        }"""


class Net(nn.Module):
    """Rings of rows, a sum that accumulates, a layer with two results, 16 bits, a relu whose zeros don't count."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.lstm, self.out = nn.LSTM(8, 5, batch_first=True), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = torch.relu(self.first(x))
        mean = (x + self.second(x)).mean((2, 3))
        _, (state, cells) = self.lstm(mean[:, None])
        return self.out(mean), state, cells


@pytest.fixture(scope="module")
def net() -> Compiled:
    torch.manual_seed(3)
    batches = [(torch.randn(1, 3, 10, 8),) for _ in range(4)]
    options = Options(optimize=Optimize.RAM, int16=("out",))
    return prepare(Net().eval(), batches[0], batches, name="net", options=options).compile("cortex-m4", options)


def loud() -> list[tuple[Tensor, ...]]:
    """Inputs that reach further than what was seen."""
    torch.manual_seed(8)
    return [(3 * torch.randn(1, 3, 10, 8),) for _ in range(2)]


def main_text(graph: LoweredGraph, program: Program) -> tuple[str, Counter[str]]:
    """The program around a bundle, and what it must say."""
    tensor, ends = program.inputs[0], chosen_ends(graph)
    codes: list[int] = []
    expected: Counter[str] = Counter()
    for inputs in loud():
        values = run_reference(graph, inputs)
        given = values[tensor.node].flatten()
        codes += given.tolist()
        name = tensor.name if program.pushed is None else tensor.buffer
        expected[name] += program.ends[tensor.buffer].count(given)
        made = {name for step in program.steps for name in step.outputs} - {tensor.buffer}
        expected.update({name: ends[name].count(values[name]) for name in made if name in ends})
    text = MAIN.replace("CODES", ", ".join(map(str, codes)))
    return text.replace("RUN", WHOLE if program.pushed is None else BY_ROW), expected


def said(text: str) -> Counter[str]:
    return Counter({name: int(number) for name, number in (line.rsplit(" ", 1) for line in text.splitlines())})


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize("by_row", [False, True])
def test_every_saturated_value_is_counted_here(net: Compiled, by_row: bool, tmp_path: Path) -> None:
    assert net.graph is not None
    program = program_of("net", net.graph, net.target, Border.INT8, Feeding(rows=by_row), cores=(Core.PORTABLE,))
    planned = schedule(program, Optimize.RAM)
    text, expected = main_text(net.graph, planned.program)
    kinds = {step.kind for step in planned.program.steps}
    assert {Walk.ACCUMULATE, Walk.PUSHED} & kinds
    assert any(step.extra_results for step in planned.program.steps)
    assert {ends.element.bytes for ends in planned.program.ends.values()} == {1, 2}
    write_files(tmp_path, {**emit_c(planned).files, "main.c": text})
    for flags in ((COUNT,), (COUNT, RUNTIME_CHECKS, *SANITIZERS), ()):
        every = [*WARNINGS, *BUNDLE_FLAGS, *flags]
        program_file = toolchain.build_executable(
            bundle_sources(tmp_path, "c"), bundle_includes(tmp_path), every, "ranges"
        )
        done = subprocess.run([program_file], capture_output=True, text=True, timeout=1800, check=True)
        assert said(done.stdout) == (expected if flags else Counter())
    assert sum(expected.values()) > 50


@pytest.mark.qemu
def test_every_saturated_value_is_counted_on_a_board(net: Compiled, tmp_path: Path) -> None:
    assert net.graph is not None
    assert net.planned is not None
    assert net.bundle is not None
    text, expected = main_text(net.graph, net.planned.program)
    write_files(tmp_path, {**net.bundle.files, "main.c": text})
    board, every = find_board(net.target.machine), [*net.target.compiler_flags(), *WARNINGS, *BUNDLE_FLAGS, COUNT]
    elf = build_firmware(board, bundle_sources(tmp_path), bundle_includes(tmp_path), every, "ranges", harness=False)
    assert said(run_elf(elf, board).said.text) == expected
