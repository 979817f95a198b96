"""A planned program: its stages, its memory problem, its plan and its estimated cycles."""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from cortado.base.target import Core
from cortado.ir.kernel import ONE_ROW
from cortado.memory.problem import Buffer, Overlay, Plan, Problem, SearchEffort
from cortado.plan.decision import DECISION
from cortado.plan.kernel_costs import costs_for, job_cycles
from cortado.plan.kernel_workload import Job, Loop, stage_loop, step_job
from cortado.plan.program import MARK_BYTES, STATE_MARK, Program, Stage, StateTensor, Step, Walk
from cortado.plan.segments import ALIGNMENT, Uses, overlays_of, stage_buffers
from cortado.plan.stages import StageRun

GUARD_BYTES = 16  # on each side of a buffer, in the checks build


@dataclass(frozen=True)
class RegionPlan:
    """A part of the arena in a memory of its own. Offsets of the plan are global: this region begins at `start`, or at
    `checked_start` in the checks build."""

    name: str
    room: int  # bytes available to it in the memory
    buffers: frozenset[str]
    start: int
    bytes: int
    checked_start: int
    checked_bytes: int
    device: bool = False  # device memory: unaligned accesses fault there


@dataclass(frozen=True)
class Planned:
    """A program in stages, the memory problem that they pose and the plan that solves it."""

    program: Program
    runs: tuple[StageRun, ...]
    problem: Problem
    plan: Plan
    checked: Plan  # of the checks build: see guarded
    in_place: Mapping[str, str]  # new values of state -> the state's own buffer: see written_in_place
    spent: Mapping[str, SearchEffort]  # the cost of the search for orders, stages and offsets
    regions: tuple[RegionPlan, ...] = ()  # the fastest first; empty: the arena is in one piece

    def __repr__(self) -> str:
        name, steps, stages = self.program.name, len(self.program.steps), len(self.program.stages)
        return f"<Planned {name}: {steps} steps in {stages} stages, {self.plan.peak:,} bytes>"

    @property
    def aligned_only(self) -> tuple[str, ...]:
        """The memories in use where an unaligned access faults."""
        return tuple(one.name for one in self.regions if one.device and (one.bytes or one.checked_bytes))

    def region_of(self, buffer: str) -> RegionPlan:
        """Returns the region of a buffer, if the arena has regions."""
        name = self.in_place.get(buffer, buffer)
        return next(region for region in self.regions if name in region.buffers)

    def ring_rows(self, buffer: str, height: int) -> int:
        """Returns the rows of a tensor that are held in memory: all of them unless it is a ring."""
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
    """The result that another optimization goal would give."""

    arena_bytes: int
    row_calls: int


def guarded(problem: Problem) -> Problem:
    """Returns the problem of the checks build: guards around every buffer, lifetimes of whole stages, no overlays."""
    wide = [
        replace(b, size=b.size + 2 * GUARD_BYTES, start=(b.start[0], 0), end=(b.end[0] + (b.end[1] > 0), 0))
        for b in problem.buffers
    ]
    return Problem(tuple(wide))


def written_in_place(program: Program) -> dict[str, str]:
    """Finds new values of state that can be computed in place, over the old ones; returns the buffers of both.

    Nothing can read the old value afterwards: no later stage, no other state that is assigned it at the end, and in the
    stage that computes the new value only the step itself, element by element.
    """
    read: dict[str, int] = {}
    made: dict[str, int] = {}
    over: set[tuple[str, str]] = set()
    for number, stage in enumerate(program.stages):
        over |= _overwritable(stage)
        for step in stage.steps:
            made |= dict.fromkeys(step.outputs, number)
            read |= dict.fromkeys(_read(step), number)
    found: dict[str, str] = {}
    for kept in program.state:
        old, new = kept.tensor.buffer, kept.source
        passed_on = any(other.source == old for other in program.state)
        if new in made and new not in found and not passed_on:
            last = read.get(old, -1)
            if last < made[new] or (last == made[new] and (new, old) in over):
                found[new] = old
    return found


def _read(step: Step) -> set[str]:
    return {port.source for port in step.inputs if isinstance(port.source, str)}


def _overwritable(stage: Stage) -> set[tuple[str, str]]:
    """Returns the outputs of a stage's elementwise steps with the inputs that they can overwrite: no other step reads
    these."""
    found = set()
    for step in stage.steps:
        others = {name for one in stage.steps if one is not step for name in _read(one)}
        for old in _read(step) - others:
            mine = [port for port in step.inputs if port.source == old]
            for new in step.outputs if step.kind is Walk.ELEMENTS else ():
                if all(port.rule == ONE_ROW and port.row_bytes == step.row_bytes_of(new) for port in mine):
                    found.add((new, old))
    return found


def moved(planned: Planned) -> list[StateTensor]:
    """Returns the state whose new values lie elsewhere and are copied when all steps are done."""
    return [kept for kept in planned.program.state if _lies(planned, kept.source) != kept.tensor.buffer]


def _lies(planned: Planned, buffer: str) -> str:
    return planned.in_place.get(buffer, buffer)


def saved_state(program: Program) -> list[StateTensor]:
    """Returns the state in the order in which it is saved, by name, which is independent of the calls that change
    it."""
    return sorted(program.state, key=lambda kept: kept.name)


def state_layout(program: Program) -> int:
    """Returns a 32-bit hash of the meaning of saved state: names, elements, shapes and scales of its parts."""
    pieces = [
        [one.name, one.tensor.dtype, list(one.tensor.shape), None if q is None else [q.scale, q.zero_point]]
        for one in saved_state(program)
        for q in (one.tensor.qparams,)
    ]
    rule = program.decision
    decided = None if rule is None else [rule.classes, rule.smooth, program.outputs[0].dtype]
    return int(hashlib.sha256(json.dumps([pieces, decided]).encode()).hexdigest()[:8], 16)


def identity_words(program: Program) -> tuple[int, int]:
    """Returns the model's id as two 32-bit words, the first digits in the first."""
    return int(program.identity[:8], 16), int(program.identity[8:], 16)


def with_state(plan: Plan, in_place: Mapping[str, str]) -> Plan:
    """Adds to a plan the offsets of the values that are computed in place of state."""
    return replace(plan, offsets={**plan.offsets, **{new: plan.offsets[old] for new, old in in_place.items()}})


def decision_buffers(program: Program) -> list[Buffer]:
    """Returns the buffer of a decision's scores, if there is one. A stream has one stage, which is its lifetime."""
    if program.decision is None:
        return []
    end, size = (len(program.stages), 0), program.decision_bytes
    return [Buffer(DECISION, size, (0, 0), end, ALIGNMENT, persists=program.stream is None)]


def memory_problem(
    program: Program, runs: Sequence[StageRun], uses: Uses, in_place: Collection[str] = frozenset()
) -> Problem:
    """Builds the memory problem: whole tensors live across stages, rings and scratch within one. Values computed in
    place of state need no buffer."""
    starts, position = [], 0
    for stage in program.stages:
        starts.append(position)
        position += len(stage.steps)

    def stage_of(step: int) -> int:
        return max(0, bisect_right(starts, step) - 1)

    buffers: list[Buffer] = []
    overlays: list[Overlay] = []
    rings = {name for run in runs for name in run.rings}
    lasting = {kept.tensor.buffer for kept in program.state}
    for number, (stage, run) in enumerate(zip(program.stages, runs, strict=True)):
        buffers += stage_buffers(number, stage.steps, run)
        overlays += overlays_of(run)
    # State comes first, by name: methods that share it then have it at the same offsets.
    places = {kept.tensor.buffer: number for number, kept in enumerate(saved_state(program))}
    for name, made in sorted(uses.made.items(), key=lambda one: places.get(one[0], len(places))):
        if name not in rings and name not in in_place:
            start, end = (stage_of(made), 0), (stage_of(uses.last[name]) + 1, 0)
            size = program.buffers[name].size
            buffers.append(Buffer(name, size, start, end, ALIGNMENT, persists=name in lasting))
    if lasting:
        buffers.append(Buffer(STATE_MARK, MARK_BYTES, (0, 0), (len(program.stages), 0), MARK_BYTES, persists=True))
    buffers += decision_buffers(program)
    return Problem(tuple(buffers), tuple(overlay for overlay in overlays if overlay.out not in in_place))


# ---- what a run takes ------------------------------------------------------------------------------------------------


def estimated_cycles(planned: Planned, values: Mapping[str, torch.Tensor] | None = None) -> list[float | None]:
    """Returns the estimated cycles of each step; None where a kernel has no row. `values` are the reference's, if
    known."""
    program = planned.program
    costs = costs_for(program.target)
    if costs is None:
        return [None for _ in program.steps]
    jobs = jobs_of(planned, max(program.cores), values or {}, costs.kernels)
    return [0.0 if job is None else job_cycles(costs, job) for job in jobs]


def jobs_of(
    planned: Planned,
    core: Core,
    values: Mapping[str, torch.Tensor],
    only: Mapping[str, Collection[str]] | None = None,
) -> list[Job | None]:
    """Returns the workload of each step, in order (see `step_job`)."""
    rows = [rows for run in planned.runs for rows in run.rows]
    return [step_job(step, core, made, values, only) for step, made in zip(planned.program.steps, rows, strict=True)]


def calls_of(planned: Planned) -> list[int]:
    """Returns how often each step's kernel is called in one run."""
    rows = [rows for run in planned.runs for rows in run.rows]
    return [
        step.images * len(range(0, made, step.group)) for step, made in zip(planned.program.steps, rows, strict=True)
    ]


def loop_of(planned: Planned) -> Loop:
    """Returns the workload of the row loop in one run."""
    total = Loop(kept_bytes=sum(planned.program.buffers[kept.tensor.buffer].size for kept in moved(planned)))
    for stage, run in zip(planned.program.stages, planned.runs, strict=True):
        total += stage_loop(stage.steps, run.rows)
    return total
