"""Stages, rings and overlays: the row loop in Python is the one in C, and every schedule gives the same bits."""

from pathlib import Path

import pytest
import torch
from torch import nn

from cortado import api
from cortado.base.target import CortexM, CortexMTargetConfig, from_target_string
from cortado.emit.c.bundle import emit_c
from cortado.memory import planner
from cortado.memory.problem import Effort, Plan, Problem
from cortado.memory.validate import validate
from cortado.options import Optimize
from cortado.passes import CortexMPassManager
from cortado.plan.checks import as_json
from cortado.plan.kernel_costs import StageCosts, known_costs, loop_cycles
from cortado.plan.kernel_workload import Loop
from cortado.plan.lowered import lowered_graph
from cortado.plan.planned import Planned, estimated_cycles, loop_of
from cortado.plan.program import Program, Walk, build_program
from cortado.plan.schedule import Schedules, schedule
from cortado.plan.segments import Known, Segments
from cortado.plan.stages import StageRuns
from helpers.values import present

M4 = from_target_string("cortex-m4")


class Block(nn.Module):
    """An inverted residual: its skip connection has to wait inside a cascade."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        wide = channels * 3
        self.residual = stride == 1
        self.body = nn.Sequential(
            nn.Conv2d(channels, wide, 1),
            nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, stride=stride, padding=1, groups=wide),
            nn.ReLU6(),
            nn.Conv2d(wide, channels, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.body(x)
        return x + y if self.residual else y


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(Block(16, 1), Block(16, 2), Block(16, 1))
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(torch.relu(self.stem(x))).mean((2, 3)))


@pytest.fixture(scope="module")
def model() -> api.Model:
    torch.manual_seed(0)
    inputs = [(torch.randn(1, 1, 33, 30),) for _ in range(4)]
    return api.prepare(Net().eval(), inputs[0], inputs, name="net")


@pytest.fixture(scope="module")
def program(model: api.Model) -> Program:
    lowered = model.quantized.program()
    CortexMPassManager(lowered, target_config=M4).transform()
    return build_program("net", lowered_graph(lowered), M4)


@pytest.fixture(scope="module")
def planned(program: Program) -> dict[Optimize, Planned]:
    return {optimize: schedule(program, optimize) for optimize in Optimize}


def test_less_ram_with_every_mode(planned: dict[Optimize, Planned]) -> None:
    ram, balanced, time = (planned[o].plan.peak for o in (Optimize.RAM, Optimize.BALANCED, Optimize.TIME))
    assert ram <= balanced <= time
    assert ram < 0.6 * time


def test_time_is_layer_by_layer(planned: dict[Optimize, Planned]) -> None:
    stages = planned[Optimize.TIME].program.stages
    assert all(len(stage.steps) == 1 for stage in stages)
    assert all(step.rows == 1 for stage in stages for step in stage.steps if step.kind is Walk.PIXELS)


def test_residuals_run_inside_cascades(planned: dict[Optimize, Planned]) -> None:
    """The skip operand of an add is a ring, made in the add's own stage."""
    inside = 0
    for stage in planned[Optimize.RAM].program.stages:
        made = {step.output for step in stage.steps}
        inside += sum(
            s.operator.endswith("quantized_add") and all(p.source in made for p in s.inputs) for s in stage.steps
        )
    assert inside >= 1


def cycles(planned: Planned) -> float:
    """What `estimate` says of a network on this core."""
    return sum(map(present, estimated_cycles(planned))) + loop_cycles(known_costs()[M4.cpu], loop_of(planned))


def test_balanced_spends_at_most_an_eighth_more_cycles(planned: dict[Optimize, Planned]) -> None:
    time, balanced, ram = (cycles(planned[o]) for o in (Optimize.TIME, Optimize.BALANCED, Optimize.RAM))
    assert time <= balanced <= 1.125 * time
    assert balanced <= ram


@pytest.mark.parametrize("optimize", list(Optimize))
def test_the_scheduler_goes_by_the_cycles_that_are_reported(
    program: Program, planned: dict[Optimize, Planned], optimize: Optimize
) -> None:
    one, search, first, total = planned[optimize], Segments(program, Known()), 0, 0
    for stage in one.program.stages:
        last = first + len(stage.steps) - 1
        total += search.segment(first, last, max(step.group for step in stage.steps)).cycles
        first = last + 1
    runs = loop_cycles(known_costs()[M4.cpu], Loop())
    assert total == pytest.approx(cycles(one) - runs, abs=len(one.program.stages))


@pytest.mark.parametrize(("target", "typical"), [("cortex-m", CortexM.M55), ("cortex-m55+nomve", CortexM.M4)])
def test_a_target_without_costs_is_planned_by_those_of_its_kind(
    model: api.Model, target: str, typical: CortexM
) -> None:
    config, measured = from_target_string(target), CortexMTargetConfig(typical)
    lowered = CortexMPassManager(model.quantized.program(), target_config=config).transform()
    other, known = (build_program("net", lowered_graph(lowered), one) for one in (config, measured))
    costs = [StageCosts(one, one.steps, {}) for one in (other, known)]
    for index, step in enumerate(known.steps):
        spent = [one.kernel(index, step.rows) for one in costs]
        assert spent[0] == spent[1] > 0


def test_alternatives_are_what_each_way_gives(program: Program, planned: dict[Optimize, Planned]) -> None:
    wanted = {optimize: (one.plan.peak, one.row_calls) for optimize, one in planned.items()}
    for first in Optimize:
        schedules = Schedules(program)
        schedules.best(first)
        found = schedules.alternatives()
        assert {optimize: (other.arena_bytes, other.row_calls) for optimize, other in found.items()} == wanted


def test_nothing_is_planned_when_it_is_written(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an emitter reads of a plan is there: it does not search again."""
    planned = schedule(program)

    def again(problem: Problem, seconds: float = 2.0, effort: Effort = Effort.FULL) -> Plan:
        raise AssertionError("planned again")

    monkeypatch.setattr(planner, "plan", again)
    bundle = emit_c(planned)
    assert bundle.files
    assert as_json(planned, bundle.calls)


@pytest.mark.parametrize("optimize", list(Optimize))
def test_plans_are_valid(planned: dict[Optimize, Planned], optimize: Optimize) -> None:
    result = planned[optimize]
    validate(result.problem, result.plan)
    assert result.plan.peak >= result.plan.lower_bound


def test_rings_hold_what_is_read(planned: dict[Optimize, Planned]) -> None:
    """Replays every stage with real slots: each read row is the row that was last written to its slot."""
    for optimize in (Optimize.RAM, Optimize.BALANCED):
        result = planned[optimize]
        for stage, run in zip(result.program.stages, result.runs, strict=True):
            written: dict[tuple[str, int], int] = {}
            made = {step.output for step in stage.steps}
            for index, y in run.calls:
                step = stage.steps[index]
                for port in step.inputs:
                    if isinstance(port.source, str) and port.source in made and port.rule.stride:
                        for tap in range(port.rule.taps):
                            row = y * port.rule.stride - port.rule.pad + tap * port.rule.dilation
                            if 0 <= row < port.height:
                                ring = result.ring_rows(port.source, port.height)
                                assert written[port.source, row % ring] == row
                row = 0 if step.kind is Walk.ACCUMULATE else y
                written[step.output, row % result.ring_rows(step.output, step.rows)] = row


def test_rows_nobody_reads_are_not_made(program: Program) -> None:
    """A stage whose last step reads only some rows of the one before."""
    first = next(step for step in program.steps if step.kind is Walk.ROWS)
    run = StageRuns().run((), [first], [], ())
    assert run.rows == [0]
    assert run.calls == []


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize("optimize", list(Optimize))
def test_every_schedule_gives_the_same_bits(model: api.Model, optimize: Optimize, tmp_path: Path) -> None:
    compiled = model.compile(M4, api.Options(optimize=optimize))
    artifact = compiled.save(tmp_path / "net")
    rng = torch.Generator().manual_seed(1)
    samples = [[torch.randn(1, 1, 33, 30, generator=rng).numpy()] for _ in range(5)]
    assert artifact.run(samples, "host").bit_exact


class PaddedBelow(nn.Module):
    """Rows below an image that come from nothing, in the middle of a cascade: a window of even size."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 5, (5, 3), padding=(4, 1))
        self.second = nn.Conv2d(5, 2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(nn.functional.pad(self.first(x), (0, 1, 0, 1)))


@pytest.mark.host
def test_rows_below_an_image_are_not_the_last_ones_of_a_ring(tmp_path: Path) -> None:
    torch.manual_seed(1)
    batches = [(torch.randn(1, 3, 8, 27),) for _ in range(3)]
    compiled = api.compile(PaddedBelow().eval(), batches[0], "cortex-m4", batches, name="net")
    assert any(len(stage.steps) > 2 for stage in present(compiled.planned).program.stages)
    artifact = compiled.save(tmp_path / "net")
    assert artifact.run([[value.numpy() for value in batch] for batch in batches], "host").bit_exact


@pytest.mark.cases(1)
@pytest.mark.qemu
@pytest.mark.parametrize("optimize", list(Optimize))
def test_narrow_rows_are_made_several_at_a_time(optimize: Optimize, tmp_path: Path) -> None:
    """Rows of five pixels waste a third of a tile of four: two rows a call where RAM is not all that counts."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 64, 3, padding=1), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Conv2d(64, 64, 3, padding=1, groups=64), nn.ReLU(), nn.Conv2d(64, 64, 1), nn.ReLU()]
    inputs = [(torch.randn(1, 1, 21, 5),) for _ in range(2)]
    model = api.prepare(nn.Sequential(*layers).eval(), inputs[0], inputs, name="narrow")
    compiled = model.compile(from_target_string("cortex-m0plus"), api.Options(optimize=optimize))
    groups = {step.group for step in present(compiled.planned).program.steps}
    assert groups == ({1, 2} if optimize is Optimize.BALANCED else {1})
    samples = [[value.numpy() for value in batch] for batch in inputs]
    assert compiled.save(tmp_path / "narrow").run(samples, check_stores=True).bit_exact
    assert compiled.save(tmp_path / "narrow").run(samples, "host").bit_exact
