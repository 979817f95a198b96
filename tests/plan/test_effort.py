"""Work is counted, not timed: it grows no faster than the network where that can be had, and ends at its bound."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import nn

from cortado import api
from cortado.base.element import INT8
from cortado.base.target import Core, from_target_string
from cortado.emit.c.data import _NUMBERS_A_LINE, float_text, int_text, numbers_text
from cortado.ir.c_call import CCall
from cortado.ir.kernel import Kernel, RowRule
from cortado.memory import planner
from cortado.memory.problem import Buffer as MemoryBuffer
from cortado.memory.problem import Effort, Plan, Problem
from cortado.memory.validate import validate
from cortado.options import Optimize
from cortado.passes import CortexMPassManager
from cortado.passes.orders import Orders
from cortado.plan import branches
from cortado.plan.planned import Planned
from cortado.plan.program import ArenaBuffer, Port, Program, Stage, Step, Tensor, Walk
from cortado.plan.schedule import Schedules, schedule
from cortado.plan.segments import Known, Segments
from cortado.plan.stages import StageRun

M4 = from_target_string("cortex-m4")
HEIGHT = 12
WINDOW = RowRule(taps=3, pad=1)


@pytest.fixture(autouse=True)
def short_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not proven at once may stay so: nothing here is about the planner."""
    monkeypatch.setattr(planner, "WORK_PER_SECOND", 2_000)


def bound_stages(monkeypatch: pytest.MonkeyPatch, bound: int) -> None:
    monkeypatch.setattr("cortado.plan.schedule.STAGES_WORK", 2 * bound)


class Network:
    """Builds a program of steps over images, without data."""

    def __init__(self, height: int = HEIGHT) -> None:
        self.height = height
        self.widths: dict[str, int] = {}
        self.stages: list[Stage] = []

    def input(self, width: int) -> str:
        name = f"x{len(self.widths)}"
        self.widths[name] = width
        return name

    def step(self, width: int, sources: Sequence[str], kind: Walk, rule: RowRule | None = None) -> str:
        name = f"t{len(self.stages)}"
        ports = tuple(Port(source, self.height, self.widths[source], INT8, rule or RowRule()) for source in sources)
        kernels = {
            Core.DSP: Kernel(
                call=CCall("nothing", ()),
                struct="nothing_t",
                scratch=32,
                scratch_check=CCall("nothing", ()),
            )
        }
        one = Step(name, "op", "", ports, name, 1, self.height, width, 4, kernels, kind, INT8, macs=10_000 * width)
        self.stages.append(Stage((one,)))
        self.widths[name] = width
        return name

    def program(self, *outputs: str) -> Program:
        ends = {
            name: Tensor(name, name, name, (1, self.height, 1, width), INT8, None, (0, 1, 2, 3))
            for name, width in self.widths.items()
        }
        buffers = {name: ArenaBuffer(name, self.height * width) for name, width in self.widths.items()}
        inputs = tuple(end for name, end in ends.items() if name.startswith("x"))
        results = tuple(ends[name] for name in outputs)
        return Program("drawn", M4, (Core.DSP,), buffers, tuple(self.stages), inputs, results)


def residual_chain(blocks: int) -> Program:
    """The last tensor, smaller than the others, is far below the peak: cascades are worth it everywhere."""
    network = Network()
    x = network.step(64, [network.input(16)], Walk.ROWS, WINDOW)
    for _ in range(blocks):
        inner = network.step(64, [x], Walk.ROWS, WINDOW)
        x = network.step(64, [x, network.step(64, [inner], Walk.ROWS, WINDOW)], Walk.ELEMENTS)
    return network.program(network.step(8, [x], Walk.ROWS, WINDOW))


def concat_chain(layers: int) -> Program:
    network = Network()
    x = network.input(16)
    for layer in range(layers):
        made = network.step(16, [x], Walk.PIXELS)
        x = network.step(16 * (layer + 2), [x, made], Walk.ROWS)
    return network.program(network.step(8, [x], Walk.ROWS, WINDOW))


def heads(count: int) -> Program:
    network = Network()
    trunk = network.step(32, [network.input(16)], Walk.ROWS, WINDOW)
    inner = [network.step(32 + 8 * (k % 5), [trunk], Walk.ROWS, WINDOW) for k in range(count)]
    return network.program(*[network.step(8, [one], Walk.PIXELS) for one in inner])


def many_inputs(count: int) -> Program:
    network = Network()
    made = [network.step(8, [network.input(8)], Walk.PIXELS) for _ in range(count)]
    total = made[0]
    for one in made[1:]:
        total = network.step(8, [total, one], Walk.ELEMENTS)
    return network.program(total)


def autocorrelation(lags: int, height: int = 1) -> Program:
    """A signal times itself, moved by one value more each time: all that is made and read is a single row."""
    network = Network(height)
    signal, found = network.input(128), []
    for lag in range(lags):
        parts = [network.step(128 - lag, [signal], Walk.PIXELS) for _ in range(2)]
        found.append(network.step(1, [network.step(128 - lag, parts, Walk.ELEMENTS)], Walk.PIXELS))
    return network.program(network.step(lags, found, Walk.PIXELS))


def checked(program: Program, optimize: Optimize = Optimize.RAM) -> Planned:
    planned = schedule(program, optimize)
    validate(planned.problem, planned.plan)
    assert planned.plan.peak <= schedule(program, Optimize.TIME).plan.peak
    return planned


def known(program: Program) -> Known:
    """What looking for the stages of a program has to look at."""
    schedules = Schedules(program)
    schedules.best(Optimize.RAM)
    return schedules.known


def test_equal_blocks_of_a_network_are_run_once() -> None:
    """A chain twice as long has the same stages, at other places."""
    short, long = (known(residual_chain(blocks)) for blocks in (16, 32))
    assert any(isinstance(stage, tuple) and len(stage) > 2 for stage in short.runs.known)
    assert long.runs.calls == short.runs.calls
    assert len(long.peaks) <= len(short.peaks) + 4


def test_stages_of_a_concat_chain_differ_by_their_length_only() -> None:
    """The widths grow with every layer; which rows are made when does not depend on them."""
    short, long = (known(concat_chain(layers)).runs for layers in (8, 16))
    assert len(short.known) > 8
    assert len(long.known) <= 2 * math.log(16) / math.log(8) * len(short.known)  # n log n; without widths apart, n * n


@pytest.mark.cases(1)
@pytest.mark.parametrize("optimize", [Optimize.RAM, Optimize.BALANCED])
def test_steps_of_a_single_row_are_not_tried_together(optimize: Optimize, monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they need no less memory, and there are as many ways to choose them as in any network."""
    assert schedule(autocorrelation(24), Optimize.BALANCED).spent["stages"].work == 0
    assert schedule(autocorrelation(6, height=2), Optimize.BALANCED).spent["stages"].work > 0
    found = schedule(autocorrelation(6), optimize)
    monkeypatch.setattr(Segments, "saves", lambda segments, first, last: True)
    tried = schedule(autocorrelation(6), optimize)
    assert tried.spent["stages"].work > 10 * found.spent["stages"].work
    assert tried.plan.peak == found.plan.peak


@pytest.mark.cases(1)
@pytest.mark.parametrize("program", [heads(40), many_inputs(60)], ids=["heads", "inputs"])
def test_many_branches_cost_a_fixed_amount_of_work(program: Program) -> None:
    found = branches.orders(program)
    assert found.spent.exhausted
    assert found.spent.work <= found.spent.bound
    for one in found.programs:
        seen = {tensor.buffer for tensor in one.inputs}
        for step in one.steps:
            assert all(port.source in seen for port in step.inputs)
            seen.add(step.output)
        assert sorted(step.name for step in one.steps) == sorted(step.name for step in program.steps)


def test_few_branches_are_searched_to_the_end() -> None:
    assert not branches.orders(heads(4)).spent.exhausted
    assert branches.orders(residual_chain(16)).spent.work == 2 * len(residual_chain(16).steps)


def test_an_order_in_a_hurry_is_as_good_as_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the most bytes that live between two steps, or while one runs."""
    exact = [checked(program, Optimize.TIME).plan.peak for program in (heads(5), many_inputs(6), concat_chain(6))]
    monkeypatch.setattr(branches._Forks, "exact", lambda forks, cost: (None, 0))
    hurried = [checked(program, Optimize.TIME) for program in (heads(5), many_inputs(6), concat_chain(6))]
    assert all(planned.spent["orders"].exhausted for planned in hurried)
    assert [planned.plan.peak for planned in hurried] == exact


def test_the_search_for_stages_ends_at_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    free = checked(concat_chain(10))
    assert not free.spent["stages"].exhausted
    bound_stages(monkeypatch, 200)
    bound = checked(concat_chain(10))
    assert bound.spent["stages"].exhausted
    largest = 10 * 2 * HEIGHT + 20 + 22**2  # row calls, overlays and pairs of the whole network as one stage
    assert bound.spent["stages"].work <= bound.spent["stages"].bound + 2 * largest
    assert bound.spent["stages"].work < free.spent["stages"].work


def test_planning_stages_counts_as_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage of one-row steps makes few row calls; finding room for its rings is what takes long."""
    pairs: list[int] = []
    peak = Known.peak

    def counted(self: Known, buffers: Sequence[MemoryBuffer], run: StageRun) -> int:
        if len(run.rows) > 1:
            pairs.append(len(buffers) ** 2)
        return peak(self, buffers, run)

    monkeypatch.setattr(Known, "peak", counted)
    bound_stages(monkeypatch, 2_000)
    program = many_inputs(30)
    stages = schedule(program, Optimize.RAM).spent["stages"]
    assert stages.exhausted
    assert sum(pairs) <= stages.work <= stages.bound + 2 * (3 * len(program.steps)) ** 2


def test_what_is_chosen_does_not_depend_on_what_was_chosen_before(monkeypatch: pytest.MonkeyPatch) -> None:
    bound_stages(monkeypatch, 300)
    alone = {optimize: schedule(concat_chain(10), optimize).plan.peak for optimize in Optimize}
    for first in Optimize:
        schedules = Schedules(concat_chain(10))
        schedules.best(first)
        others = schedules.alternatives()
        assert {optimize: other.arena_bytes for optimize, other in others.items()} == alone


def test_nothing_is_planned_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[Problem] = []
    plan = planner.plan

    def counted(problem: Problem, seconds: float = 2.0, effort: Effort = Effort.FULL) -> Plan:
        problems.append(problem)
        return plan(problem, seconds, effort)

    monkeypatch.setattr(planner, "plan", counted)
    Schedules(residual_chain(6)).alternatives()
    assert len(problems) == len(set(problems))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.convolution(x))


def test_layouts_of_a_residual_chain_are_chosen_in_linear_work(monkeypatch: pytest.MonkeyPatch) -> None:
    trials: list[int] = []
    choose = Orders.choose

    def counted(self: Orders) -> None:
        choose(self)
        trials.append(self.trials)

    monkeypatch.setattr(Orders, "choose", counted)
    for blocks in (6, 12):
        torch.manual_seed(0)
        sample = (torch.randn(1, 4, 6, 6),)
        model = api.prepare(nn.Sequential(*(Residual() for _ in range(blocks))).eval(), sample, [sample], name="chain")
        CortexMPassManager(model.quantized.program(), target_config=M4).transform()
    short, long = trials
    assert short > 0
    assert long <= 2.2 * short


def test_the_report_says_what_the_searches_cost() -> None:
    sample = (torch.ones(1, 2),)
    compiled = api.compile(nn.Linear(2, 2), sample, "cortex-m4", [sample], name="tiny")
    assert compiled.report.memory is not None
    search = compiled.report.memory.search
    assert set(search) == {"orders", "stages", "offsets"}
    assert not any(one.exhausted or one.work > one.bound for one in search.values())


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.uint8, np.float32])
def test_numbers_of_any_count_are_the_same_text_in_pieces(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortado.emit.c.data._NUMBERS_A_PIECE", 96)  # whole lines of every type
    rng = np.random.default_rng(0)
    for count in (1, 5, 16, 17, 95, 96, 97, 192, 300):
        data: np.ndarray = rng.integers(-128, 128, count).astype(dtype)
        texts = [float_text(float(v)) if dtype is np.float32 else int_text(int(v)) for v in data]
        width = _NUMBERS_A_LINE[str(data.dtype)]
        lines = ["    " + ",".join(texts[start : start + width]) for start in range(0, count, width)]
        assert numbers_text(data) == ",\n".join(lines)
    assert "".join(numbers_text(np.arange(-128, 128, dtype=np.int8)).split()) == ",".join(map(str, range(-128, 128)))
