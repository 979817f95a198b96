"""The validator against sets of bytes; problems that are none; memory over time."""

import ast
import builtins
import itertools
import random
from dataclasses import replace

import pytest

from cortado.base.errors import CortadoError
from cortado.memory import planner
from cortado.memory.problem import Buffer, Effort, Moment, Overlay, Plan, Problem, peak_buffers, timeline
from cortado.memory.validate import validate
from helpers.problems import MEMORY, PAIR, live_together, may_lie, random_problem, tiny_problem

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


LASTING = Problem((Buffer("a", 20, (0, 0), (1, 0)), Buffer("b", 32, (5, 0), (6, 0), persists=True)))
ANYWHERE = Problem(tuple(replace(buffer, align=1) for buffer in LASTING.buffers))  # a plan may be wrong by a byte
OVERLAID = Problem(live_together(32, 32), (Overlay("a", "b", 16),))


@pytest.mark.parametrize(
    ("problem", "plan", "message"),
    [
        (PAIR, Plan({"a": 0, "b": 16}, 48, 48, True), r"'a' at 0\.\.32 and 'b' at 16\.\.48 share bytes .* no overlay"),
        (OVERLAID, Plan({"a": 16, "b": 16}, 48, 48, True), "'a' must start at least 16 bytes before 'b'"),
        (OVERLAID, Plan({"a": 16, "b": 0}, 48, 48, True), "'a' must start at least 16 bytes before 'b'"),
        (LASTING, Plan({"a": 16, "b": 0}, 36, 36, True), "'b' persists, expected it apart from all others"),
        (LASTING, Plan({"a": 0, "b": 32}, 64, 64, True), "'b' persists, expected .* below those that don't"),
        (ANYWHERE, Plan({"a": 31, "b": 0}, 51, 51, True), "'b' persists, expected it apart from all others"),
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
    for name in ("validate", "_pairs", "_validate_pair", "_validate_lasting"):
        calls = (node for node in ast.walk(functions[name]) if isinstance(node, ast.Call))
        called |= {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    own = called - set(dir(builtins))
    assert own == {"_pairs", "_validate_pair", "_validate_lasting", "CortadoError"}
    imported = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert imported <= {"collections.abc", "cortado.base.errors", "cortado.memory.problem"}


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
        ((Overlay("a", "c", 0),), "names 'c', which is not a buffer"),
        ((Overlay("c", "a", 0),), "names 'c', which is not a buffer"),
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
