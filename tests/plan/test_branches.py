"""The order of branches: the search against every order there is, and what it saves in a network."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import nn

from cortado import api
from cortado.base.element import INT8
from cortado.base.target import Core, from_target_string
from cortado.ir.c_call import CCall
from cortado.ir.kernel import Kernel
from cortado.options import Optimize, Options
from cortado.plan.branches import orders
from cortado.plan.program import ArenaBuffer, Port, Program, Stage, Step, Tensor, Walk
from helpers.values import present

M4 = from_target_string("cortex-m4")
KERNEL = {Core.DSP: Kernel(call=CCall("nothing", ()))}


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Up to seven steps; each reads one or two earlier tensors."""
    sizes = draw(st.lists(st.integers(1, 100), min_size=3, max_size=8))
    names = [f"t{index}" for index in range(len(sizes))]
    steps = []
    for index, (name, size) in enumerate(zip(names[1:], sizes[1:], strict=True), start=1):
        picked = draw(st.lists(st.integers(max(0, index - 4), index - 1), min_size=1, max_size=2, unique=True))
        ports = tuple(Port(names[source], 1, sizes[source], INT8) for source in picked)
        steps.append(Stage((Step(name, "op", "", ports, name, 1, 1, size, size, KERNEL, Walk.WHOLE, INT8),)))
    buffers = {name: ArenaBuffer(name, size) for name, size in zip(names, sizes, strict=True)}
    ends = [Tensor(name, name, name, (1,), INT8, None, (0,)) for name in (names[0], names[-1])]
    return Program("drawn", M4, (Core.DSP,), buffers, tuple(steps), (ends[0],), (ends[1],))


def peak(program: Program) -> int:
    """The most bytes that live during a step, looked up the plain way."""
    steps, final = program.steps, program.outputs[0].buffer
    highest = 0
    for now, step in enumerate(steps):
        made = {program.inputs[0].buffer} | {s.output for s in steps[:now]}
        needed = {port.source for s in steps[now:] for port in s.inputs} | {final}
        highest = max(highest, sum(program.buffers[str(name)].size for name in made & needed | {step.output}))
    return highest


def every_order(program: Program) -> Iterator[tuple[Stage, ...]]:
    for stages in itertools.permutations(program.stages):
        seen = {program.inputs[0].buffer}
        legal = True
        for stage in stages:
            legal = legal and all(port.source in seen for port in stage.steps[0].inputs)
            seen.add(stage.steps[0].output)
        if legal:
            yield stages


def names(stages: tuple[Stage, ...]) -> tuple[str, ...]:
    return tuple(stage.steps[0].name for stage in stages)


@given(programs())
def test_no_order_is_better(program: Program) -> None:
    found = orders(program).programs
    assert found[0].stages == program.stages
    legal = {names(stages): stages for stages in every_order(program)}
    assert all(names(one.stages) in legal for one in found)
    assert len({names(one.stages) for one in found}) == len(found)
    assert min(map(peak, found)) == min(peak(replace(program, stages=stages)) for stages in legal.values())


class Forked(nn.Module):
    """The wide branch is written last; run first, it is gone before the other branch's output has to be kept."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow = nn.ConvTranspose2d(4, 8, 2, stride=2)
        self.wide = nn.Sequential(nn.ConvTranspose2d(4, 40, 2, stride=2), nn.AdaptiveAvgPool2d(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = self.narrow(x)
        return kept * self.wide(x)[:, :8]


@pytest.mark.host
def test_a_wide_branch_runs_first(tmp_path: Path) -> None:
    torch.manual_seed(0)
    samples = [(torch.randn(1, 4, 12, 12),) for _ in range(3)]
    model = api.prepare(Forked().eval(), samples[0], samples, name="forked")
    compiled = model.compile(M4, Options(optimize=Optimize.TIME))
    steps = [step.name for step in present(compiled.planned).program.steps]
    kept, wide = 24 * 24 * 8, 24 * 24 * 40
    assert present(compiled.planned).plan.peak < kept + wide, steps
    checked = compiled.save(tmp_path / "forked").run([[sample[0].numpy()] for sample in samples], "host")
    assert checked.bit_exact
