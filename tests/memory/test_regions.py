"""Buffers over several memories: within their sizes, the most used in the first, and what is missing to the byte."""

import random

import pytest

from cortado.memory.planner import plan
from cortado.memory.problem import Buffer, Effort, Overlay, Problem
from cortado.memory.spread import Room, Spread, in_rooms, part_of, shortage, spread
from cortado.memory.validate import validate
from helpers.problems import random_problem


def check(problem: Problem, rooms: list[Room], found: Spread) -> None:
    """Every buffer is in one place, and each room's own plan is right and no higher than the room."""
    names = [buffer.name for part in (*found.parts, found.missing) for buffer in part]
    assert sorted(names) == sorted(buffer.name for buffer in problem.buffers)
    for room, part, own in zip(rooms, found.parts, in_rooms(problem, found.parts), strict=True):
        validate(part_of(problem, part), own)
        assert own.peak <= room.bytes


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_random_problems_over_two_and_three_memories(count: int) -> None:
    short = 0
    for seed in range(count):
        problem = random_problem(seed)
        rng = random.Random(seed)
        heat = {buffer.name: rng.choice([1.0, 3.0, rng.random()]) for buffer in problem.buffers}
        peak = plan(problem, effort=Effort.QUICK).peak
        rooms = [Room(f"r{i}", 1 + peak * rng.randint(1, 4) // 6) for i in range(rng.choice([2, 3]))]
        found = spread(problem, rooms, heat)
        check(problem, rooms, found)
        if found.missing:
            short += 1
            room, missing = shortage(problem, rooms, heat, found)
            assert missing > 0
            grown = [Room(one.name, one.bytes + missing * (one is room)) for one in rooms]
            assert not spread(problem, grown, heat).missing, seed
    assert count // 6 < short < -(-17 * count // 20)


def buffer(name: str, size: int, start: int = 0, end: int = 9, *, persists: bool = False) -> Buffer:
    return Buffer(name, size, (start, 0), (end, 0), persists=persists)


def names(found: Spread) -> list[set[str]]:
    return [{buffer.name for buffer in part} for part in found.parts]


def test_the_hottest_go_to_the_first_memory() -> None:
    problem = Problem((buffer("cold", 64), buffer("warm", 64), buffer("hot", 64), buffer("small", 16)))
    heat = {"cold": 1.0, "warm": 2.0, "hot": 9.0, "small": 0.5}
    found = spread(problem, [Room("fast", 144), Room("slow", 64)], heat)
    assert names(found) == [{"hot", "warm", "small"}, {"cold"}]


def test_buffers_of_different_times_share_the_first_memory() -> None:
    problem = Problem((buffer("first", 64, 0, 1), buffer("second", 64, 1, 2), buffer("always", 32, 0, 2)))
    found = spread(problem, [Room("fast", 64), Room("slow", 64)], {"first": 2.0, "second": 2.0, "always": 1.0})
    assert names(found) == [{"first", "second"}, {"always"}]


def test_a_large_one_that_fits_one_memory_only_gets_it_whatever_its_heat() -> None:
    """By heat alone, hot would take the first, and the large one find no room."""
    problem = Problem((buffer("hot", 64), buffer("large", 160)))
    found = spread(problem, [Room("fast", 160), Room("slow", 64)], {"hot": 5.0, "large": 1.0})
    assert names(found) == [{"large"}, {"hot"}]
    assert not found.missing


def test_an_output_over_its_input_counts_once_where_both_are_and_twice_elsewhere() -> None:
    both = (buffer("in", 64), buffer("out", 64))
    problem = Problem(both, (Overlay("out", "in", 0),))
    heat = {"in": 1.0, "out": 1.0}
    assert names(spread(problem, [Room("fast", 64), Room("slow", 64)], heat)) == [{"in", "out"}, set()]
    apart = spread(Problem(both), [Room("fast", 64), Room("slow", 64)], heat)
    assert sorted(map(len, apart.parts)) == [1, 1]


def test_what_persists_stays_together() -> None:
    lasting = tuple(buffer(f"state{i}", 32, persists=True) for i in range(3))
    problem = Problem((*lasting, buffer("hot", 64)))
    heat = {"hot": 9.0, "state0": 20.0, "state1": 0.1, "state2": 0.1}
    found = spread(problem, [Room("fast", 80), Room("slow", 96)], heat)
    assert names(found) == [{"hot"}, {"state0", "state1", "state2"}]


@pytest.mark.parametrize(("fast", "slow", "room", "missing"), [(64, 48, "slow", 16), (48, 32, "fast", 16)])
def test_the_memory_that_has_to_grow_least_is_named(fast: int, slow: int, room: str, missing: int) -> None:
    few = (buffer("a", 64), buffer("b", 32))
    problem = Problem((*few, buffer("c", 32)) if fast == 64 else few)
    rooms = [Room("fast", fast), Room("slow", slow)]
    heat = {"a": 3.0, "b": 2.0, "c": 1.0}
    found = spread(problem, rooms, heat)
    assert found.missing
    grown, bytes_ = shortage(problem, rooms, heat, found)
    assert (grown.name, bytes_) == (room, missing)
