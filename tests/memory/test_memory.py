"""The planner against brute force, against its own validator, and over thousands of random problems."""

import ast
import builtins
import itertools
import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cortado.base.errors import CortadoError
from cortado.memory import planner
from cortado.memory.bounds import USUAL_PAIRS, Model
from cortado.memory.csv import read_csv, write_csv
from cortado.memory.placing import place_in_order
from cortado.memory.planner import lower_bound
from cortado.memory.problem import Buffer, Effort, Overlay, Plan, Problem, Time
from cortado.memory.search import WORK_PER_SECOND, Budget, Descent, _OutOfWorkError
from cortado.memory.timeline import Moment, peak_buffers, timeline
from cortado.memory.validate import validate

MEMORY = Path(planner.__file__).parent

# ---------------------------------------------------------------------------------------------------------------------
# Random problems


def random_buffers(rng: random.Random, count: int, aligns: tuple[int, ...]) -> list[Buffer]:
    """Buffers with lifetimes drawn uniformly, long ones included, and sizes of several kinds."""
    horizon = rng.choice([count + 1, 2 * count + 1, 10, 100])
    buffers = []
    for number in range(count):
        start, end = sorted(rng.sample(range(horizon + 1), 2))
        size = rng.choice([rng.randint(1, 1000), 16 * rng.randint(1, 64), 16 * rng.randint(1, 10)])
        buffers.append(Buffer(f"b{number}", size, divmod(start, 3), divmod(end, 3), rng.choice(aligns)))
    return buffers


def random_overlays(rng: random.Random, buffers: list[Buffer], count: int, any_lead: bool) -> list[Overlay]:
    """Overlays between any two buffers. Unless any lead will do, it is one that a loop over the input can have:
    the output never runs past the input's end, so the lead is at least the difference of their sizes."""
    overlays = {}
    for out, inp in (rng.sample(buffers, 2) for _ in range(count) if len(buffers) > 1):
        longer = out.size - inp.size
        lead = rng.choice([max(0, longer), longer, longer + rng.randint(0, 64), max(0, longer) + rng.randint(0, 200)])
        if any_lead:
            lead = rng.randint(-inp.size, out.size)
        overlays[out.name, inp.name] = Overlay(out.name, inp.name, lead)
    return list(overlays.values())


def random_problem(seed: int) -> Problem:
    """One in five with more than 20 buffers, one in ten with mixed alignments, four in ten with overlays."""
    rng = random.Random(seed)
    count = rng.randint(1, 20) if rng.random() < 0.8 else rng.randint(21, 60)
    buffers = random_buffers(rng, count, (16,) if rng.random() < 0.9 else (1, 4, 16, 32))
    overlays = []
    if rng.random() < 0.4:
        overlays = random_overlays(rng, buffers, rng.randint(1, 1 + count // 2), any_lead=rng.random() < 0.1)
    return Problem(tuple(buffers), tuple(overlays))


def tiny_problem(seed: int) -> Problem:
    """Small enough for brute force; leads of every kind, circles of overlays and empty buffers included."""
    rng = random.Random(seed)
    count, most = rng.randint(1, 5), rng.choice([3, 5, 8])
    aligns = rng.choice([(1,), (2,), (4,), (1, 2, 4)])
    buffers = []
    for number in range(count):
        start, end = sorted(rng.sample(range(7), 2))
        size = rng.randint(0 if rng.random() < 0.1 else 1, most)
        buffers.append(Buffer(f"b{number}", size, divmod(start, 2), divmod(end, 2), rng.choice(aligns)))
    overlays = random_overlays(rng, buffers, rng.randint(0, 6), any_lead=rng.random() < 0.5)
    return Problem(tuple(buffers), tuple(overlays))


def cascade_problem(seed: int, stages: int) -> Problem:
    """What a convolutional network gives: tensors from stage to stage, rings inside, rows and scratch at single steps,
    outputs laid over inputs, and now and then an input that waits for a residual add."""
    rng = random.Random(seed)
    buffers: list[Buffer] = []
    overlays: list[Overlay] = []
    side, channels = rng.choice([8, 16, 32, 48, 96]), rng.choice([3, 8, 16])
    name, born = "input", 0
    for stage in range(stages):
        size, row = side * side * channels, side * channels
        waits = rng.random() < 0.2
        dies = stage + 1 + (rng.randint(1, 3) if waits else 0)
        buffers.append(Buffer(name, size, (born, 0), (dies, 0)))
        steps = rng.randint(1, 5)
        for step in range(steps):
            buffers.append(Buffer(f"ring{stage}.{step}", rng.randint(1, 24) * row, (stage, 0), (stage + 1, 0)))
            buffers.append(Buffer(f"scratch{stage}.{step}", rng.randint(1, 3000), (stage, step), (stage, step + 1)))
            if rng.random() < 0.3:
                buffers.append(Buffer(f"row{stage}.{step}", 2 * row, (stage, step), (stage, step + 2)))
        side = side if rng.random() < 0.65 else max(1, side // 2)
        channels = rng.choice([channels, channels, min(256, 2 * channels)])
        if not waits:
            lead = max(side * side * channels - size, -size // 2) + rng.randint(1, 3) * row
            overlays.append(Overlay(f"tensor{stage}", name, lead))
        name, born = f"tensor{stage}", stage
    buffers.append(Buffer(name, side * side * channels, (born, 0), (stages + 1, 0)))
    return Problem(tuple(buffers), tuple(overlays))


def live_together(*sizes: int, align: int = 16) -> tuple[Buffer, ...]:
    """Buffers a, b, c, ... of these sizes that all live in stage 0."""
    return tuple(Buffer("abcdefgh"[k], size, (0, 0), (1, 0), align) for k, size in enumerate(sizes))


# ---------------------------------------------------------------------------------------------------------------------
# Brute force


def may_lie(problem: Problem, a: Buffer, at_a: int, b: Buffer, at_b: int) -> bool:
    """The rule of the planner, said with sets of bytes and of moments."""
    times = sorted({t for buffer in problem.buffers for t in (buffer.start, buffer.end)})
    moments_a = {t for t in times if a.start <= t < a.end}
    moments_b = {t for t in times if b.start <= t < b.end}
    if not moments_a & moments_b or not set(range(at_a, at_a + a.size)) & set(range(at_b, at_b + b.size)):
        return True
    at = {a.name: at_a, b.name: at_b}
    pairs = [o for o in problem.overlays if {o.out, o.inp} == {a.name, b.name}]
    return any(at[o.out] + o.lead <= at[o.inp] for o in pairs)


def least_peak(problem: Problem) -> int:
    """The lowest peak there is, by trying all offsets below one cap after the other."""
    buffers = problem.buffers
    far = sum(b.size + b.align for b in buffers)
    clashes = [
        [{d for d in range(-far, far + 1) if not may_lie(problem, one, far, other, far + d)} for other in buffers]
        for one in buffers
    ]

    def fits_below(cap: int, placed: list[int]) -> bool:
        if len(placed) == len(buffers):
            return True
        mine = clashes[len(placed)]
        for at in range(0, cap - buffers[len(placed)].size + 1, buffers[len(placed)].align):
            if not any(there - at in mine[k] for k, there in enumerate(placed)) and fits_below(cap, [*placed, at]):
                return True
        return False

    return next(cap for cap in itertools.count(max(b.size for b in buffers)) if fits_below(cap, []))


def check_against_brute_force(seeds: range) -> None:
    """Every plan valid, every bound at most the truth, every 'optimal' the truth; and nearly all are proven."""
    proven = 0
    for seed in seeds:
        problem = tiny_problem(seed)
        truth = least_peak(problem)
        full, quick = planner.plan(problem, seconds=0.5), planner.plan(problem, effort=Effort.QUICK)
        for plan in (full, quick):
            validate(problem, plan)
            assert plan.lower_bound <= truth <= plan.peak, seed
        assert lower_bound(problem) <= full.lower_bound, seed
        proven += full.optimal
    assert proven >= 0.99 * len(seeds)


def test_agrees_with_brute_force() -> None:
    check_against_brute_force(range(150))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_agrees_with_brute_force_many_times(part: int) -> None:
    check_against_brute_force(range(1000 + 1000 * part, 2000 + 1000 * part))


def crowded_problem(seed: int) -> Problem:
    """Like a tiny problem, but in few moments and with many overlays: the orders matter."""
    rng = random.Random(seed)
    count, align = rng.randint(3, 6), rng.choice([1, 1, 1, 2])
    buffers = []
    for number in range(count):
        start, end = sorted(rng.sample(range(rng.choice([3, 5])), 2))
        buffers.append(Buffer(f"b{number}", rng.randint(1, 5), (0, start), (0, end), align * rng.choice([1, 1, 1, 2])))
    overlays = random_overlays(rng, buffers, rng.randint(0, 8), any_lead=rng.random() < 0.6)
    return Problem(tuple(buffers), tuple(overlays))


def check_search(seeds: range) -> None:
    """The exact search on its own, without heuristics that hide its faults: it finds a placement below every cap
    from the lowest peak on, and none below that."""
    searched = 0
    for seed in seeds:
        problem = crowded_problem(seed)
        truth = least_peak(problem)
        model = Model(sorted(problem.buffers, key=lambda b: (b.start, b.end)), problem.overlays)
        if not model.rank:
            continue
        searched += 1
        budget = Budget(10**9)
        assert Descent(model, truth - 1, budget).run() is None, seed
        for cap in (truth, truth + 1, truth + 2, truth + 5, 2 * truth):
            at = Descent(model, cap, budget).run()
            assert at is not None, (seed, cap)
            peak = model.peak(at)
            assert truth <= peak <= cap, (seed, cap)
            offsets = {name: place * model.unit for name, place in zip(model.names, at, strict=True)}
            validate(problem, Plan(offsets, peak, 0, False))
    assert searched > 0.7 * len(seeds)


def test_the_search_alone_is_exact() -> None:
    check_search(range(200))


def test_a_settled_buffer_counts_for_those_above_it() -> None:
    # b2 gets in nobody's way, so it is fixed early; but b1 can't move down to where it lies.
    check_search(range(11_300, 11_301))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_the_search_alone_is_exact_many_times(part: int) -> None:
    check_search(range(10_000 + 600 * part, 10_600 + 600 * part))


def cut_problem(seed: int) -> tuple[Problem, int]:
    """A rectangle of time and memory cut into pieces, a few of them thrown away, and its height."""
    rng = random.Random(seed)
    height, count = rng.choice([10, 30, 100]), rng.randint(20, 45)
    pieces = [(0, rng.randint(10, 30), 0, height)]
    while len(pieces) < count:
        start, end, low, high = pieces.pop(rng.randrange(len(pieces)))
        if rng.random() < 0.5 and end - start > 1:
            cut = rng.randrange(start + 1, end)
            pieces += [(start, cut, low, high), (cut, end, low, high)]
        elif high - low > 1:
            cut = rng.randrange(low + 1, high)
            pieces += [(start, end, low, cut), (start, end, cut, high)]
        else:
            pieces.append((start, end, low, high))
            count -= 1
    rng.shuffle(pieces)
    del pieces[: rng.randint(0, 3)]
    buffers = [Buffer(f"b{k}", high - low, (0, t0), (0, t1), 1) for k, (t0, t1, low, high) in enumerate(pieces)]
    return Problem(tuple(buffers)), height


def check_search_finds_what_exists(seeds: range) -> None:
    """Problems too large for brute force that have a tight plan: the search may run out of work, but it may
    not say that there is none."""
    found = 0
    for seed in seeds:
        problem, height = cut_problem(seed)
        model = Model(sorted(problem.buffers, key=lambda b: (b.start, b.end)), ())
        try:
            at = Descent(model, height, Budget(20_000)).run()
        except _OutOfWorkError:
            continue
        assert at is not None, seed
        assert model.peak(at) <= height, seed
        found += 1
    assert found > 0.9 * len(seeds)


def test_the_search_finds_what_exists() -> None:
    check_search_finds_what_exists(range(200))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_the_search_finds_what_exists_many_times(part: int) -> None:
    check_search_finds_what_exists(range(10_000 + 3000 * part, 13_000 + 3000 * part))


def completes(model: Model, search: Descent, left: tuple[int, ...], low: tuple[int, ...]) -> bool:
    """Whether these buffers fit between their lowest and highest offsets, by trying all."""

    def place(placed: dict[int, int]) -> bool:
        if len(placed) == len(left):
            return True
        k = left[len(placed)]
        rules = [(placed[i], up, down) for i, up, down in model.near[k] if i in placed]
        for at in range(low[len(placed)], search.high[k] + 1):
            aligned = at % model.step[k] == 0
            apart = aligned and all(there >= at + up or at >= there + down for there, up, down in rules)
            if apart and place({**placed, k: at}):
                return True
        return False

    return place({})


def test_what_the_search_remembers_as_hopeless_is() -> None:
    remembered = 0
    for seed in range(400):
        problem = crowded_problem(seed)
        peak = planner.plan(problem, seconds=0.1).peak
        model = Model(sorted(problem.buffers, key=lambda b: (b.start, b.end)), problem.overlays)
        for cap in (peak, peak - 1, peak - 2) if model.rank else ():
            search = Descent(model, cap, Budget(10**9))
            search.run()
            for left, states in search.hopeless.items():
                for low in states:
                    assert not completes(model, search, left, low), (seed, cap)
                    remembered += 1
    assert remembered > 50


def test_the_bound_of_a_single_moment_is_exact() -> None:
    tight = 0
    for seed in range(150):
        rng = random.Random(seed)
        buffers = live_together(*(rng.randint(1, 6) for _ in range(rng.randint(2, 5))), align=1)
        problem = Problem(
            buffers, tuple(random_overlays(rng, list(buffers), rng.randint(0, 8), any_lead=seed % 2 == 0))
        )
        bound, truth = lower_bound(problem), least_peak(problem)
        if Model(buffers, problem.overlays).rank:
            assert bound == truth, seed
            tight += 1
        assert bound <= truth, seed
    assert tight > 100


# Every moment needs at most 9 bytes, but no plan does with fewer than 10.
NEEDS_SEARCH = Problem(
    (
        Buffer("a", 5, (0, 0), (4, 0), 1),
        Buffer("b", 2, (0, 0), (6, 0), 1),
        Buffer("c", 4, (6, 0), (8, 0), 1),
        Buffer("d", 1, (4, 0), (8, 0), 1),
        Buffer("e", 3, (4, 0), (6, 0), 1),
        Buffer("f", 4, (7, 0), (8, 0), 1),
        Buffer("g", 2, (3, 0), (5, 0), 1),
        Buffer("h", 3, (5, 0), (7, 0), 1),
    )
)

# In the best plan b3, b4 and b5 hold each other in a circle: each starts exactly at its lead from the next.
CIRCLE = Problem(
    (
        Buffer("b0", 1, (0, 0), (1, 0), 2),
        Buffer("b1", 7, (0, 0), (1, 0), 1),
        Buffer("b2", 11, (0, 0), (1, 0), 2),
        Buffer("b3", 6, (0, 1), (1, 0), 1),
        Buffer("b4", 5, (0, 0), (1, 0), 4),
        Buffer("b5", 11, (0, 1), (1, 0), 2),
    ),
    (
        Overlay("b0", "b5", 0),
        Overlay("b0", "b1", -2),
        Overlay("b3", "b4", 1),
        Overlay("b2", "b5", 8),
        Overlay("b5", "b3", 5),
        Overlay("b2", "b1", 0),
        Overlay("b4", "b5", -6),
    ),
)


def test_proves_more_than_the_lower_bound_says() -> None:
    plan = planner.plan(NEEDS_SEARCH)
    assert lower_bound(NEEDS_SEARCH) == 9
    assert (plan.peak, plan.lower_bound, plan.optimal, plan.gap) == (10, 10, True, 0)
    assert least_peak(NEEDS_SEARCH) == 10


def test_overlays_in_a_circle_do_not_break_the_bound() -> None:
    plan = planner.plan(CIRCLE)
    validate(CIRCLE, plan)
    assert lower_bound(CIRCLE) <= least_peak(CIRCLE) <= plan.peak <= 21


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


def test_random_problems() -> None:
    check_random_problems(range(300))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_five_thousand_random_problems(part: int) -> None:
    check_random_problems(range(500 * part, 500 * (part + 1)))


@pytest.mark.parametrize("stages", [1, 3, 6, 12, 30])
def test_cascades_of_networks_are_planned_optimally(stages: int) -> None:
    for seed in range(8):
        problem = cascade_problem(seed, stages)
        plan = planner.plan(problem)
        validate(problem, plan)
        assert plan.optimal, (seed, len(problem.buffers), plan.gap)


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
        "import test_memory as t\n"
        "problems = [t.random_problem(seed) for seed in range(40)]\n"
        "print([t.planner.plan(p, seconds=0.1) for p in problems])\n"
        "print([t.planner.plan(p, effort=t.Effort.QUICK) for p in problems])\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    here = Path(__file__).parent
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=here, env=environment
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

    def counted(model: Model, *arguments: Any) -> Any:
        nonlocal looked
        looked += sum(map(len, model.near))
        return place(model, *arguments)

    for module in ("search", "placing"):
        monkeypatch.setattr(f"cortado.memory.{module}.place_in_order", counted)
    crowd = [Buffer(f"b{k}", 100 + 37 * k % 64, (k % 3, 0), (300 + k % 5, 0), 1 << k % 5) for k in range(200)]
    plan = planner.plan(Problem(tuple(crowd)), seconds=0.2)
    validate(Problem(tuple(crowd)), plan)
    assert looked <= 2 * USUAL_PAIRS * plan.spent.bound


# ---------------------------------------------------------------------------------------------------------------------
# The validator


def test_the_validator_agrees_with_sets_of_bytes_on_any_offsets() -> None:
    rng = random.Random(5)
    verdicts = []
    for seed in range(600):
        problem = tiny_problem(seed)
        at = {b.name: b.align * rng.randint(0, 12 // b.align) for b in problem.buffers}
        top = max((at[b.name] + b.size for b in problem.buffers if b.size), default=0)
        pairs = itertools.combinations(problem.buffers, 2)
        clashes = [{a.name, b.name} for a, b in pairs if not may_lie(problem, a, at[a.name], b, at[b.name])]
        plan = Plan(at, top, 0, top == 0)
        if clashes:
            with pytest.raises(CortadoError, match="share bytes") as caught:
                validate(problem, plan)
            assert {word.strip("'") for word in str(caught.value).split() if word.startswith("'b")} in clashes
        else:
            validate(problem, plan)
        verdicts.append(bool(clashes))
    assert 100 < sum(verdicts) < 500


PAIR = Problem(live_together(32, 32))
OVERLAID = Problem(live_together(32, 32), (Overlay("a", "b", 16),))


@pytest.mark.parametrize(
    ("problem", "plan", "message"),
    [
        (PAIR, Plan({"a": 0, "b": 16}, 48, 48, True), r"'a' at 0\.\.32 and 'b' at 16\.\.48 share bytes .* no overlay"),
        (OVERLAID, Plan({"a": 16, "b": 16}, 48, 48, True), "'a' must start at least 16 bytes before 'b'"),
        (OVERLAID, Plan({"a": 16, "b": 0}, 48, 48, True), "'a' must start at least 16 bytes before 'b'"),
        (PAIR, Plan({"a": 0, "b": 40}, 72, 64, False), "'b' lies at offset 40: expected a multiple of 16"),
        (PAIR, Plan({"a": -32, "b": 0}, 32, 32, True), "'a' lies at offset -32"),
        (PAIR, Plan({"a": 0}, 32, 32, True), "'b' has no offset"),
        (PAIR, Plan({"a": 0, "b": 32, "c": 64}, 64, 64, True), "'c' has an offset but"),
        (PAIR, Plan({"a": 0, "b": 32}, 65, 64, False), "peak is 65 bytes, but its buffers end at 64"),
        (PAIR, Plan({"a": 0, "b": 32}, 64, 60, True), "contradict"),
        (PAIR, Plan({"a": 0, "b": 32}, 64, 64, False), "contradict"),
        (PAIR, Plan({"a": 0, "b": 32}, 64, 65, False), "contradict"),
    ],
)
def test_the_validator_refuses(problem: Problem, plan: Plan, message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        validate(problem, plan)


def test_the_validator_accepts_what_an_overlay_allows() -> None:
    validate(OVERLAID, Plan({"a": 0, "b": 16}, 48, 48, True))


def test_the_validator_shares_no_code_with_the_solver() -> None:
    tree = ast.parse((MEMORY / "validate.py").read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    called: set[str] = set()
    for name in ("validate", "_validate_pair"):
        calls = (node for node in ast.walk(functions[name]) if isinstance(node, ast.Call))
        called |= {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    own = called - set(dir(builtins))
    assert own == {"_validate_pair", "CortadoError"}
    imported = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert imported <= {"itertools", "cortado.base.errors", "cortado.memory.problem"}


# ---------------------------------------------------------------------------------------------------------------------
# Problems that are none


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (Buffer("", 1, (0, 0), (1, 0)), "called ''"),
        (Buffer(" a", 1, (0, 0), (1, 0)), "called ' a'"),
        (Buffer("a", -1, (0, 0), (1, 0)), "'a' has size -1"),
        (Buffer("a", 1, (1, 0), (1, 0)), r"'a' lives from \(1, 0\) to \(1, 0\)"),
        (Buffer("a", 1, (1, 2), (1, 1)), r"'a' lives from \(1, 2\) to \(1, 1\)"),
        (Buffer("a", 1, (0, 0), (1, 0), 12), "'a' has alignment 12"),
        (Buffer("a", 1, (0, 0), (1, 0), 0), "'a' has alignment 0"),
    ],
)
def test_a_problem_refuses_a_buffer(buffer: Buffer, message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        Problem((buffer,))


@pytest.mark.parametrize(
    ("overlays", "message"),
    [
        ((Overlay("a", "c", 0),), "names 'c', which is no buffer"),
        ((Overlay("c", "a", 0),), "names 'c', which is no buffer"),
        ((Overlay("a", "a", 0),), "'a' is laid over itself"),
        ((Overlay("a", "b", 0), Overlay("a", "b", 16)), "'a' is laid over 'b' twice"),
    ],
)
def test_a_problem_refuses_overlays(overlays: tuple[Overlay, ...], message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        Problem(live_together(16, 16), overlays)


def test_a_problem_refuses_two_buffers_of_one_name() -> None:
    with pytest.raises(CortadoError, match="two buffers are called 'a'"):
        Problem(live_together(16) + live_together(32))


# ---------------------------------------------------------------------------------------------------------------------
# Over time


def test_the_timeline_counts_shared_bytes_once_and_holes_in_the_top() -> None:
    problem = Problem(
        (
            Buffer("in", 64, (0, 0), (1, 0)),
            Buffer("out", 32, (0, 1), (3, 0)),
            Buffer("high", 10, (1, 0), (2, 0)),
            Buffer("late", 16, (4, 0), (5, 0)),
        ),
        (Overlay("out", "in", 16),),
    )
    plan = Plan({"in": 16, "out": 0, "high": 70 // 16 * 16, "late": 0}, 80, 80, True)
    validate(problem, plan)
    assert timeline(problem, plan) == (
        Moment((0, 0), (0, 1), ("in",), 64, 80),
        Moment((0, 1), (1, 0), ("in", "out"), 80, 80),
        Moment((1, 0), (2, 0), ("out", "high"), 42, 74),
        Moment((2, 0), (3, 0), ("out",), 32, 32),
        Moment((3, 0), (4, 0), (), 0, 0),
        Moment((4, 0), (5, 0), ("late",), 16, 16),
    )
    # Two moments reach the peak; the fuller one explains it.
    assert [b.name for b in peak_buffers(problem, plan)] == ["out", "in"]
    assert peak_buffers(Problem(()), planner.plan(Problem(()))) == ()


def test_the_peak_is_on_the_timeline_of_every_plan() -> None:
    for seed in range(40):
        problem = random_problem(seed)
        plan = planner.plan(problem, effort=Effort.QUICK)
        assert max(moment.top for moment in timeline(problem, plan)) == plan.peak
        tops = [plan.offsets[b.name] + b.size for b in peak_buffers(problem, plan)]
        assert max(tops) == plan.peak


# ---------------------------------------------------------------------------------------------------------------------
# CSV


def same(one: Problem, other: Problem) -> bool:
    """Equal, whatever the order of the overlays."""
    return one.buffers == other.buffers and set(one.overlays) == set(other.overlays)


def test_csv_comes_back_as_it_went() -> None:
    for problem in [*map(random_problem, range(60)), *map(tiny_problem, range(60)), Problem(())]:
        assert same(read_csv(write_csv(problem)), problem)
        plan = planner.plan(problem, effort=Effort.QUICK)
        assert same(read_csv(write_csv(problem, plan)), problem)


def test_csv_shows_overlays_on_the_output_and_offsets_last() -> None:
    problem = Problem(live_together(64, 32, 16), (Overlay("a", "b", 0), Overlay("a", "c", 16)))
    plan = Plan({"a": 0, "b": 0, "c": 64}, 80, 80, True)
    assert write_csv(problem, plan) == (
        "id,lower_stage,lower_pos,upper_stage,upper_pos,size,align,overlay_of,lead,offset\n"
        "a,0,0,1,0,64,16,b,0,0\n"
        "a,,,,,,,c,16,\n"
        "b,0,0,1,0,32,16,,,0\n"
        "c,0,0,1,0,16,16,,,64\n"
    )
    assert write_csv(PAIR).splitlines()[0] == "id,lower_stage,lower_pos,upper_stage,upper_pos,size,align"


def test_csv_takes_names_with_commas_quotes_and_line_breaks() -> None:
    names = ('conv "a", row 1', "x;y", "two\nlines", "größe")
    problem = Problem(tuple(Buffer(name, 16, (0, 0), (1, 0)) for name in names), (Overlay(names[0], names[2], 0),))
    assert same(read_csv(write_csv(problem)), problem)


def test_csv_takes_the_plain_four_columns() -> None:
    text = "\ufeffid,lower,upper,size\r\nb1,0,3,4\r\n\r\nb2, 3 ,9,4\r\n"
    assert read_csv(text) == Problem((Buffer("b1", 4, (0, 0), (3, 0), 1), Buffer("b2", 4, (3, 0), (9, 0), 1)))
    aligned = read_csv("size,id,upper,lower,alignment,offset\n4,b1,3,0,8,0\n4,b2,3,0,,8\n")
    assert [b.align for b in aligned.buffers] == [8, 1]


STAGED = "id,lower_stage,lower_pos,upper_stage,upper_pos,size"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: column 'id' is missing"),
        ("id,lower,size\n", "line 1: column 'upper' is missing: expected id,lower,upper,size"),
        ("id,lower_stage,lower_pos,upper_stage,size\n", "line 1: column 'upper_pos' is missing"),
        ("id,lower,upper,size,gaps\n", "line 1, column 5: found 'gaps', expected one of id,"),
        ("id,lower,upper,size,size\n", "line 1, column 5: 'size' is there twice"),
        ("id,lower,upper,size,lead\n", "'overlay_of' and 'lead' only make sense together"),
        ("id,lower,upper,size\na,0,1\n", "line 2: found 3 cells, expected the 4"),
        ("id,lower,upper,size\na,0,1,16\n\nb,0,x,16\n", "line 4, column 'upper': found 'x', expected a whole number"),
        ("id,lower,upper,size\na,0,1,1.5\n", r"line 2, column 'size': found '1\.5'"),
        ("id,lower,upper,size\na,0,1,\n", "line 2, column 'size': found ''"),
        ("id,lower,upper,size\na,0,1,-1\n", "line 2, column 'size': buffer 'a' has size -1"),
        ("id,lower,upper,size\na,1,1,1\n", "line 2, column 'upper': buffer 'a' lives from"),
        ("id,lower,upper,size\n,0,1,1\n", "line 2, column 'id': found a buffer called ''"),
        ("id,lower,upper,size\na,0,1,1\na,0,1,1\n", "line 3, column 'id': 'a' is already the buffer of line 2"),
        ("id,lower,upper,size,alignment\na,0,1,1,3\n", "line 2, column 'alignment': buffer 'a' has alignment 3"),
        (f"{STAGED},align\na,0,0,1,0,16,24\n", "line 2, column 'align': buffer 'a' has alignment 24"),
        (f"{STAGED}\na,1,0,0,9,16\n", "line 2, column 'upper_stage': buffer 'a' lives from"),
        (f"{STAGED},overlay_of,lead\na,0,0,1,0,16,b,0\n", "line 2, column 'overlay_of': 'b' is no buffer"),
        (f"{STAGED},overlay_of,lead\na,0,0,1,0,16,a,0\n", "line 2, column 'overlay_of': 'a' is laid over itself"),
        (f"{STAGED},overlay_of,lead\na,0,0,1,0,16,b,\n", "line 2, column 'lead': found ''"),
        (f"{STAGED},overlay_of,lead\na,0,0,1,0,16,,0\n", "line 2, column 'overlay_of': found nothing"),
        (f"{STAGED},overlay_of,lead\na,0,0,1,0,16,,\nc,,,,,,a,0\n", "line 3, column 'id': 'c' is no buffer"),
        (f"{STAGED},overlay_of,lead\na,0,0,1,0,16,,\nb,0,0,1,0,16,a,0\nb,,,,,,a,0\n", "line 4.*'b' is laid over 'a'"),
        ('id,lower,upper,size\n"a,0,1,1\n', "line 2: this is not CSV"),
    ],
)
def test_csv_errors_name_line_and_column(text: str, message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        read_csv(text)


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
    page = (Path(__file__).parents[2] / "docs" / "memory-planning.md").read_text()
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
