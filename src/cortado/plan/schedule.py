"""The scheduler: which steps run together, row by row, and where their buffers lie. From a Program to a Planned."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from cortado.memory.planner import lower_bound
from cortado.memory.problem import Effort, Plan, Problem, SearchEffort
from cortado.memory.validate import validate
from cortado.options import Optimize
from cortado.plan import branches
from cortado.plan.planned import Alternative, Planned, guarded, memory_problem, with_state, written_in_place
from cortado.plan.program import Program, Stage, Walk
from cortado.plan.segments import STAGES_WORK, Known, Segment, Segments, Tally, counters_name
from cortado.plan.stages import StageRun
from cortado.plan.stream import plan_stream


@dataclass(frozen=True)
class _Found:
    """A candidate schedule: a program's stages, the memory problem that they pose and the plan that solves it."""

    program: Program
    runs: tuple[StageRun, ...]
    in_place: Mapping[str, str]
    problem: Problem
    plan: Plan


@dataclass(frozen=True)
class Schedules:
    """All schedules of a program: in each order of its branches, and with lean kernels.

    Stages are analyzed once, for all schedules.
    """

    program: Program
    known: Known = field(default_factory=Known)
    planned: dict[Optimize, Planned] = field(default_factory=dict)

    @cached_property
    def orders(self) -> branches.CandidateOrders:
        return branches.orders(self.program)

    @cached_property
    def plain(self) -> list[Segments]:
        return [Segments(one, self.known) for one in self.orders.programs]

    @cached_property
    def lean(self) -> list[Segments]:
        return [Segments(_lean(search.program), self.known) for search in self.plain]

    @cached_property
    def endless(self) -> Planned:
        """The plan of a stream, which leaves no choice."""
        return plan_stream(self.program)

    def best(self, optimize: Optimize) -> Planned:
        """Returns the best schedule; if it is not proven optimal, also tries layer by layer, whose peak can be
        lower."""
        if self.program.stream is not None:
            return self.endless
        if optimize not in self.planned:
            best = self._best(optimize)
            if optimize is not Optimize.TIME and not best.plan.optimal:
                best = min(best, self.best(Optimize.TIME), key=lambda planned: planned.plan.peak)
            self.planned[optimize] = best
        return self.planned[optimize]

    def alternatives(self) -> dict[Optimize, Alternative]:
        """Returns the result of each optimization goal."""
        found = {optimize: self.best(optimize) for optimize in Optimize}
        return {optimize: Alternative(planned.plan.peak, planned.row_calls) for optimize, planned in found.items()}

    def _best(self, optimize: Optimize) -> Planned:
        """Searches all orders; for the lowest peak, with lean kernels too."""
        searches = [*self.plain, *(self.lean if optimize is Optimize.RAM else [])]
        bound = min(STAGES_WORK // 2, STAGES_WORK // len(searches))
        tallies: list[Tally] = []
        best: _Found | None = None
        for search in searches:
            tallies.append(Tally(bound))
            segments = choose(search, optimize, tallies[-1])
            staged = _staged(search, segments)
            runs, in_place = tuple(segment.run for segment in segments), written_in_place(staged)
            for one in _forms(staged, memory_problem(staged, runs, search.uses, in_place)):
                if best is None or lower_bound(one) < best.plan.peak:
                    plan = self.known.plan(one)
                    if best is None or plan.peak < best.plan.peak:
                        best = _Found(staged, runs, in_place, one, plan)
        assert best is not None
        return self._planned(best, tallies)

    def _planned(self, best: _Found, tallies: Sequence[Tally]) -> Planned:
        """Completes a schedule with the plan of the checks build and the cost of the search."""
        wide = guarded(best.problem)
        checked = self.known.plan(wide, Effort.QUICK)
        validate(best.problem, best.plan)
        validate(wide, checked)
        work = sum(tally.work for tally in tallies)
        stages = SearchEffort(work, sum(tally.bound for tally in tallies), any(tally.exhausted for tally in tallies))
        return Planned(
            program=best.program,
            runs=best.runs,
            problem=best.problem,
            plan=with_state(best.plan, best.in_place),
            checked=with_state(checked, best.in_place),
            in_place=best.in_place,
            spent={"orders": self.orders.spent, "stages": stages, "offsets": best.plan.spent},
        )


def _lean(program: Program) -> Program:
    stages = tuple(Stage(tuple(step.lean() for step in stage.steps)) for stage in program.stages)
    return replace(program, stages=stages)


def schedule(program: Program, optimize: Optimize = Optimize.BALANCED) -> Planned:
    """Chooses the order of branches and the stages, and plans the memory."""
    return Schedules(program).best(optimize)


def _forms(program: Program, problem: Problem) -> list[Problem]:
    """Returns the problem and, with pushed input, a variant whose counters live through the first stage, which is
    easier to solve."""
    if program.pushed is None:
        return [problem]
    name = counters_name(program.pushed)
    longer = [replace(one, end=(1, 0)) if one.name == name else one for one in problem.buffers]
    return [problem, replace(problem, buffers=tuple(longer))]


def _staged(search: Segments, segments: Sequence[Segment]) -> Program:
    """Returns the program in these stages."""
    runs = [segment.run for segment in segments]
    rings = {name: rows for run in runs for name, rows in run.rings.items()}
    buffers = {
        name: replace(buffer, rows=rings[name]) if name in rings else buffer
        for name, buffer in search.program.buffers.items()
    }
    stages = tuple(Stage(segment.steps) for segment in segments)
    return replace(search.program, stages=stages, buffers=buffers)


# ---- stages ----------------------------------------------------------------------------------------------------------


BALANCED_EXTRA = 1 / 8  # the share of extra cycles over layer by layer that `balanced` allows


@dataclass(frozen=True, slots=True)
class _Choice:
    """A partition of the steps up to some step: total cycles, highest peak, last stage."""

    cycles: int = 0
    peak: int = 0
    segment: Segment | None = None
    before: "_Choice | None" = None

    def then(self, segment: Segment) -> "_Choice":
        return _Choice(self.cycles + segment.cycles, max(self.peak, segment.peak), segment, self)

    @property
    def stages(self) -> tuple[Segment, ...]:
        found: list[Segment] = []
        choice: _Choice | None = self
        while choice is not None and choice.segment is not None:
            found.append(choice.segment)
            choice = choice.before
        return tuple(reversed(found))


def _cheapest(search: Segments, limit: int, tally: Tally) -> _Choice | None:
    """Returns the cheapest stages with a peak of at most `limit` each; None if there are none.

    A stage of several steps only adds calls, so it is tried only where some step alone exceeds the limit.
    """
    over = -1  # the last step that exceeds the limit alone, or can't be a stage of its own
    best: list[_Choice | None] = [_Choice()]
    for last in range(len(search.steps)):
        before, alone = best[last], search.alone(last)
        over = last if last <= search.first_stage > 0 or alone.peak > limit else over
        chosen = before.then(alone) if before is not None and over != last else None
        if search.crossing[last + 1] <= limit:
            for start, segment in _longer(search, limit, best, over, last, tally):
                # A more expensive stage is not even planned.
                cost = start.cycles + segment.cycles
                if (chosen is None or cost < chosen.cycles) and tally.fits(segment, limit):
                    chosen = start.then(segment)
        best.append(chosen)
    return best[-1]


def _longer(
    search: Segments, limit: int, best: Sequence[_Choice | None], over: int, last: int, tally: Tally
) -> Iterator[tuple[_Choice, Segment]]:
    """Yields the stages of several steps that end with `last`, each with the best choice before it."""
    rings = 0
    for first in range(last - 1, -1, -1):
        rings += search.ring_bytes[first]
        if not search.possible(first, last) or rings + search.crossing[last + 1] > limit:
            return
        before = best[first]
        small = rings + search.crossing[first] <= limit  # rings coexist with every whole tensor of the stage
        if small and before is not None and first <= over and search.saves(first, last):
            yield from ((before, segment) for segment in search.segments(first, last, tally))


def choose(search: Segments, optimize: Optimize, tally: Tally) -> tuple[Segment, ...]:
    """Chooses the stages of a schedule."""
    layers = _Choice()
    if search.first_stage > 0:
        layers = layers.then(search.segment(0, search.first_stage))
    for index in range(search.first_stage + (search.first_stage > 0), len(search.steps)):
        layers = layers.then(search.alone(index))
    if optimize is Optimize.TIME:
        return layers.stages
    budget = layers.cycles * (1 + BALANCED_EXTRA)
    best, low = layers, max(search.crossing[0], search.crossing[-1])
    step = low // 16 + 64
    while low < best.peak:  # no limit below `low` can be met; that of `best` can
        # Starts from the low end: a tight limit prunes most stages early.
        limit = min(low + step, (low + best.peak - 1) // 2)
        found = _cheapest(search, limit, tally)
        if found is None or (optimize is Optimize.BALANCED and found.cycles > budget):
            low = limit + 1
            step *= 2
        else:
            best = found
    return _take_in_delays(search, best.stages, tally) if optimize is Optimize.RAM else best.stages


def _take_in_delays(search: Segments, stages: tuple[Segment, ...], tally: Tally) -> tuple[Segment, ...]:
    """Moves the delay of a residual branch into a ring inside its stage, instead of a whole tensor around it, where
    that doesn't raise the peak."""
    limit = max((segment.peak for segment in stages), default=0)
    for index, step in enumerate(search.steps):
        sources = [search.uses.made.get(port.source, -1) for port in step.inputs if isinstance(port.source, str)]
        if step.kind is Walk.ELEMENTS and len(sources) > 1 and min(sources) >= 0:
            covering = [segment for segment in stages if segment.last >= min(sources) and segment.first <= index]
            first, last = covering[0].first, covering[-1].last
            if len(covering) > 1 and search.possible(first, last) and tally.fits(search.segment(first, last), limit):
                before = tuple(segment for segment in stages if segment.last < first)
                after = tuple(segment for segment in stages if segment.first > last)
                stages = (*before, search.segment(first, last), *after)
    return stages
