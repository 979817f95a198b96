"""The planner's search against brute force."""

import random

import pytest

from cortado.memory import planner
from cortado.memory.bounds import BoundModel
from cortado.memory.planner import lower_bound
from cortado.memory.problem import Buffer, Effort, Overlay, Plan, Problem
from cortado.memory.search import Budget, Descent, _OutOfWorkError, best_fit
from cortado.memory.validate import validate
from helpers.problems import NEEDS_SEARCH, least_peak, live_together, random_overlays, tiny_problem


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
        model = BoundModel(sorted(problem.buffers, key=lambda b: (b.start, b.end)), problem.overlays)
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
        model = BoundModel(sorted(problem.buffers, key=lambda b: (b.start, b.end)), ())
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


def completes(model: BoundModel, search: Descent, left: tuple[int, ...], low: tuple[int, ...]) -> bool:
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
        model = BoundModel(sorted(problem.buffers, key=lambda b: (b.start, b.end)), problem.overlays)
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
        if BoundModel(buffers, problem.overlays).rank:
            assert bound == truth, seed
            tight += 1
        assert bound <= truth, seed
    assert tight > 100


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
    assert (plan.peak, plan.lower_bound, plan.optimal) == (10, 10, True)
    assert least_peak(NEEDS_SEARCH) == 10


def test_overlays_in_a_circle_do_not_break_the_bound() -> None:
    plan = planner.plan(CIRCLE)
    validate(CIRCLE, plan)
    assert lower_bound(CIRCLE) <= least_peak(CIRCLE) <= plan.peak <= 21


@pytest.mark.parametrize(
    ("forbidden", "step", "place"),
    [
        ([(3, 5), (6, 9)], 1, 5),  # of two gaps the smaller one
        ([(2, 5), (8, 9)], 1, 0),
        ([(-4, 5), (6, 9)], 1, 5),
        ([(-4, 5), (8, 9)], 4, 8),  # the first multiple that lies in a gap
        ([(-4, 9)], 1, 9),  # no gap: above all
        ([], 1, 0),
    ],
)
def test_the_best_place_leaves_the_least_room(forbidden: list[tuple[int, int]], step: int, place: int) -> None:
    assert best_fit(forbidden, step) == place
