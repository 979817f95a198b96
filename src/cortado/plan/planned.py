"""A planned program: its stages, its memory problem and its plan."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cortado.memory.problem import Buffer, Overlay, Plan, Problem, Spent
from cortado.plan.program import Program
from cortado.plan.segments import ALIGNMENT, Uses, overlays_of, stage_buffers
from cortado.plan.stages import StageRun

GUARD_BYTES = 16  # on each side of a buffer, in the checks build


@dataclass(frozen=True)
class Planned:
    """A program in stages, the memory problem they pose and the plan that solves it."""

    program: Program
    runs: tuple[StageRun, ...]
    problem: Problem
    plan: Plan
    checked: Plan  # of the checks build: see guarded
    spent: Mapping[str, Spent]  # what looking for the order of branches, the stages and the offsets cost

    def ring_rows(self, buffer: str, height: int) -> int:
        """The rows of a tensor that are held in memory: all of them unless it is a ring."""
        rows = self.program.buffers[buffer].rows
        return rows if rows else height

    def rows_needed(self, stage: int, position: int) -> int:
        return self.runs[stage].rows[position]

    @property
    def row_calls(self) -> int:
        return sum(
            len(run.calls) * stage.steps[0].images for stage, run in zip(self.program.stages, self.runs, strict=True)
        )


@dataclass(frozen=True)
class Alternative:
    """What another way to optimize would give."""

    arena_bytes: int
    row_calls: int


def guarded(problem: Problem) -> Problem:
    """That of the checks build: guards around every buffer, all of them alive for whole stages, no overlays."""
    wide = [
        replace(b, size=b.size + 2 * GUARD_BYTES, start=(b.start[0], 0), end=(b.end[0] + (b.end[1] > 0), 0))
        for b in problem.buffers
    ]
    return Problem(tuple(wide))


def memory_problem(program: Program, runs: Sequence[StageRun], uses: Uses) -> Problem:
    """Whole tensors live from stage to stage; rings and scratch within theirs."""
    starts, position = [], 0
    for stage in program.stages:
        starts.append(position)
        position += len(stage.steps)

    def stage_of(step: int) -> int:
        return max(0, bisect_right(starts, step) - 1)

    buffers: list[Buffer] = []
    overlays: list[Overlay] = []
    rings = {name for run in runs for name in run.rings}
    for number, (stage, run) in enumerate(zip(program.stages, runs, strict=True)):
        buffers += stage_buffers(number, stage.steps, run)
        overlays += overlays_of(run)
    for name, made in uses.made.items():
        if name not in rings:
            start, end = (stage_of(made), 0), (stage_of(uses.last[name]) + 1, 0)
            buffers.append(Buffer(name, program.buffers[name].size, start, end, ALIGNMENT))
    return Problem(tuple(buffers), tuple(overlays))
