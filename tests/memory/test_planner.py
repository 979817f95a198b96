"""The planner over thousands of random problems, rule by rule, and the same plan always."""

import ast
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest

from cortado.memory import planner
from cortado.memory.bounds import USUAL_PAIRS, BoundModel
from cortado.memory.planner import lower_bound
from cortado.memory.problem import Buffer, Effort, Overlay, Plan, Problem, Time, read_csv, write_csv
from cortado.memory.search import WORK_PER_SECOND, place_in_order
from cortado.memory.validate import validate
from helpers.paths import ROOT, TESTS
from helpers.problems import MEMORY, NEEDS_SEARCH, cascade_problem, least_peak, live_together, random_problem

# ---------------------------------------------------------------------------------------------------------------------
# Campaigns


def check_random_problems(seeds: range) -> None:
    """No overlap, no plan below the bound, and 95% of those with at most 20 buffers proven within 2 seconds.
    A quick plan is valid too, and never better than the one that took its time."""
    small = proven = 0
    for seed in seeds:
        problem = random_problem(seed)
        is_small = len(problem.buffers) <= 20
        begin = time.process_time()
        plan = planner.plan(problem, seconds=2.0 if is_small else 0.3)
        took = time.process_time() - begin
        validate(problem, plan)
        assert lower_bound(problem) <= plan.lower_bound <= plan.peak, seed
        quick = planner.plan(problem, effort=Effort.QUICK)
        validate(problem, quick)
        assert quick.peak >= plan.peak or not is_small, seed
        small += is_small
        proven += is_small and plan.optimal and took <= 2.0
    assert small > 0.7 * len(seeds)
    assert proven >= 0.95 * small, f"{proven} of {small} proven optimal within 2 s"


@pytest.mark.parametrize("count", [12, pytest.param(300, marks=pytest.mark.slow)])
def test_random_problems(count: int) -> None:
    check_random_problems(range(count))


def test_what_persists_lies_at_the_bottom_and_costs_its_own_bytes_only() -> None:
    for seed in range(120):
        problem = random_problem(seed)
        overlaid = {name for overlay in problem.overlays for name in (overlay.out, overlay.inp)}
        free = [number for number, b in enumerate(problem.buffers) if b.name not in overlaid][:3]
        if not free:
            continue
        buffers = list(problem.buffers)
        for number in free:
            buffers[number] = replace(buffers[number], persists=True)
        lasting = Problem(tuple(buffers), problem.overlays)
        plan = planner.plan(lasting, seconds=0.2)
        validate(lasting, plan)
        assert lower_bound(lasting) <= plan.lower_bound <= plan.peak, seed
        # Nothing else may share a byte with it, ever: as if it lived all the time.
        ends = max(b.end for b in problem.buffers)
        alive = Problem(
            tuple(replace(b, start=(0, 0), end=ends, persists=False) if b.persists else b for b in buffers),
            problem.overlays,
        )
        assert plan.peak >= lower_bound(alive), seed
        assert read_csv(write_csv(lasting)).buffers == lasting.buffers


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_five_thousand_random_problems(part: int) -> None:
    check_random_problems(range(500 * part, 500 * (part + 1)))


@pytest.mark.cases(2)
@pytest.mark.parametrize("stages", [1, 3, 6, 12, 30])
def test_cascades_of_networks_are_planned_optimally(stages: int) -> None:
    for seed in range(8):
        problem = cascade_problem(seed, stages)
        plan = planner.plan(problem)
        validate(problem, plan)
        assert plan.optimal, (seed, len(problem.buffers), plan.peak - plan.lower_bound)


def test_quick_plans_are_valid_close_and_fast() -> None:
    problems = [cascade_problem(seed, 5) for seed in range(20)]
    peaks = 0
    for problem in problems:
        quick = planner.plan(problem, effort=Effort.QUICK)
        validate(problem, quick)
        peaks += quick.peak
    assert peaks <= 1.02 * sum(planner.plan(problem).peak for problem in problems)
    begin = time.process_time()
    for problem in problems:
        planner.plan(problem, effort=Effort.QUICK)
    assert time.process_time() - begin < 0.02 * len(problems)  # about 2 ms each on a slow machine


# ---------------------------------------------------------------------------------------------------------------------
# The rules, one by one


@pytest.mark.parametrize(
    ("out", "inp", "lead", "peak"),
    [
        (64, 64, 0, 64),  # exactly in place
        (64, 64, 16, 80),
        (128, 64, 64, 128),  # longer output, shorter input: their ends meet
        (64, 128, 16, 144),
        (64, 128, -64, 128),  # the output lies at the end of its input
        (64, 128, 64, 192),  # a lead of the whole output is no overlay at all
        (64, 128, 100, 192),
    ],
)
def test_an_overlaid_pair_needs_what_its_lead_says(out: int, inp: int, lead: int, peak: int) -> None:
    problem = Problem(live_together(out, inp), (Overlay("a", "b", lead),))
    plan = planner.plan(problem)
    validate(problem, plan)
    assert (plan.peak, plan.optimal, lower_bound(problem)) == (peak, True, peak)


def test_an_output_over_two_inputs_needs_no_more_than_the_inputs() -> None:
    problem = Problem(live_together(64, 64, 64), (Overlay("a", "b", 0), Overlay("a", "c", 0)))
    plan = planner.plan(problem)
    validate(problem, plan)
    assert (plan.peak, plan.optimal) == (128, True)


def test_two_outputs_cannot_both_lie_over_the_start_of_one_input() -> None:
    problem = Problem(live_together(64, 64, 256), (Overlay("a", "c", 0), Overlay("b", "c", 0)))
    plan = planner.plan(problem)
    validate(problem, plan)
    assert (plan.peak, plan.optimal, lower_bound(problem)) == (320, True, 320)


def test_an_in_place_chain_stays_in_place() -> None:
    times: list[Time] = [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]
    buffers = tuple(Buffer(f"t{k}", 1000, times[max(0, k - 1)], times[k + 1]) for k in range(4))
    problem = Problem(buffers, tuple(Overlay(f"t{k + 1}", f"t{k}", 0) for k in range(3)))
    plan = planner.plan(problem)
    validate(problem, plan)
    assert (plan.peak, set(plan.offsets.values())) == (1000, {0})


def test_only_the_topmost_buffer_keeps_its_odd_end() -> None:
    # 17 bytes take 32 below another buffer, 5 take 16: the better order ends at 16 + 17.
    assert lower_bound(Problem(live_together(17, 5))) == 33
    assert planner.plan(Problem(live_together(17, 5))).peak == 33


def test_mixed_alignments_fill_each_other_in() -> None:
    coarse, fine = Buffer("coarse", 20, (0, 0), (1, 0), 32), Buffer("fine", 12, (0, 0), (1, 0), 4)
    problem = Problem((coarse, fine, replace(coarse, name="other", size=33)))
    plan = planner.plan(problem)
    validate(problem, plan)
    assert (plan.peak, plan.optimal, lower_bound(problem)) == (65, True, 65)


def test_the_bound_knows_what_padding_cannot_be_avoided() -> None:
    # 8 bytes in all, and the coarse ones alone need 7; but whatever the order, one byte of padding is left.
    coarse = Buffer("coarse", 3, (0, 0), (1, 0), 4)
    problem = Problem((coarse, replace(coarse, name="other"), Buffer("fine", 2, (0, 0), (1, 0), 1)))
    assert lower_bound(problem) == least_peak(problem) == 9


def test_a_ring_lives_for_its_stage_and_scratch_only_at_its_step() -> None:
    ring = Buffer("ring", 320, (0, 0), (1, 0))
    scratch = [Buffer(f"scratch{p}", 64, (0, p), (0, p + 1)) for p in range(3)]
    plan = planner.plan(Problem((ring, *scratch, Buffer("next", 384, (1, 0), (2, 0)))))
    assert plan.peak == 384
    assert len({plan.offsets[b.name] for b in scratch}) == 1


def test_empty_problems_and_empty_buffers_need_nothing() -> None:
    assert planner.plan(Problem(())) == Plan({}, 0, 0, True)
    problem = Problem((Buffer("full", 16, (0, 0), (1, 0)), Buffer("empty", 0, (0, 0), (1, 0))))
    plan = planner.plan(problem)
    validate(problem, plan)
    assert plan == Plan({"full": 0, "empty": 0}, 16, 16, True)


# ---------------------------------------------------------------------------------------------------------------------
# The same plan, always


def plans_of_a_fresh_interpreter(hash_seed: str) -> str:
    """Plans of some problems, printed by another process."""
    code = (
        "from cortado.memory import planner\n"
        "from helpers.problems import random_problem\n"
        "problems = [random_problem(seed) for seed in range(40)]\n"
        "print([planner.plan(p, seconds=0.1) for p in problems])\n"
        "print([planner.plan(p, effort=planner.Effort.QUICK) for p in problems])\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=TESTS, env=environment
    ).stdout


def test_plans_do_not_depend_on_the_process() -> None:
    first = plans_of_a_fresh_interpreter("1")
    assert first.count("Plan(") == 80
    assert first == plans_of_a_fresh_interpreter("2")


def test_a_search_ends_at_its_bound_and_says_so() -> None:
    hard = random_problem(57)
    plan = planner.plan(hard, seconds=0.05)
    validate(hard, plan)
    assert not plan.optimal
    assert plan.spent.exhausted
    assert 0 < plan.spent.work <= plan.spent.bound == 0.05 * WORK_PER_SECOND


def test_a_crowd_counts_as_more_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Placing buffers that all live together looks at all pairs: what is counted must be what is looked at."""
    looked = 0
    place = place_in_order

    def counted(model: BoundModel, *arguments: Any) -> Any:
        nonlocal looked
        looked += sum(map(len, model.near))
        return place(model, *arguments)

    monkeypatch.setattr("cortado.memory.search.place_in_order", counted)
    crowd = [Buffer(f"b{k}", 100 + 37 * k % 64, (k % 3, 0), (300 + k % 5, 0), 1 << k % 5) for k in range(200)]
    plan = planner.plan(Problem(tuple(crowd)), seconds=0.2)
    validate(Problem(tuple(crowd)), plan)
    assert looked <= 2 * USUAL_PAIRS * plan.spent.bound


# ---------------------------------------------------------------------------------------------------------------------
# Its place in the project


def test_imports_only_the_standard_library_and_the_errors() -> None:
    found: set[str] = set()
    for path in MEMORY.glob("*.py"):
        tree = ast.parse(path.read_text())
        found |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        found |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    foreign = {name for name in found if name.split(".")[0] not in sys.stdlib_module_names}
    assert {name for name in foreign if not name.startswith("cortado.memory.")} == {"cortado.base.errors"}


def test_the_documentation_shows_what_happens() -> None:
    page = (ROOT / "docs" / "memory-planning.md").read_text()
    problem, planned, unreachable = (part.split("```")[0] for part in page.split("```csv\n")[1:])
    plan = planner.plan(read_csv(problem))
    assert write_csv(read_csv(problem), plan) == planned
    assert f"peak {plan.peak:,} bytes" in page
    assert read_csv(unreachable) == NEEDS_SEARCH
    assert "Plan(offsets={'in': 512, 'out': 0}, peak=3584, lower_bound=3584, optimal=True)" in page
    pair = Problem(
        (Buffer("in", 3072, start=(0, 0), end=(1, 0)), Buffer("out", 2048, start=(0, 0), end=(2, 0))),
        (Overlay(out="out", inp="in", lead=512),),
    )
    assert repr(planner.plan(pair)) in page
