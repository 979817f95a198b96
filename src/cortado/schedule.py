"""Which steps run together, row by row, and where their buffers lie: from a Program to a planned Program.

A stage is a run of consecutive steps. Between two steps of a stage a tensor needs only a ring of a few rows: stages.py.
Stage borders are searched with the planner's peak as the cost; the result computes exactly the same bits as layer by
layer.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from cortado import branches, memory
from cortado.memory import Effort, Overlay, Plan, Problem, Spent, Time
from cortado.program import Port, Program, Stage, Step, Walk
from cortado.stages import StageRun, StageRuns
from cortado.target import Isa

ALIGNMENT = 16
GUARD_BYTES = 16
ROW_CALL_INSTRUCTIONS = 165  # the row loop's own cost per call
BALANCED_EXTRA = 0.10  # more instructions than layer by layer that `balanced` may spend
LONGEST_STAGE = 64
GROUPS = (2, 4)  # rows a call that are tried beside one
ROW_CALLS = 1_000_000  # of stages that differ in structure, run without data to choose the stages of one order
WORTH_A_GROUP = 0.1  # of a kernel's work done in vain when it makes single rows


class Optimize(Enum):
    """What the schedule is good for."""

    RAM = "ram"  # the lowest peak
    BALANCED = "balanced"  # the lowest peak that costs at most 10% more instructions
    TIME = "time"  # layer by layer


# ---- segments -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segment:
    """Steps [first, last] as one stage: its run, the memory it needs while it runs, and its row calls."""

    first: int
    last: int
    steps: tuple[Step, ...]
    run: StageRun
    structure: Hashable  # what it has in common with other stages that run alike
    instructions: int  # what its row calls cost beside the work itself
    floor: int  # bytes that it needs at least
    planned: Callable[[], int]

    @cached_property
    def peak(self) -> int:
        """The memory it needs while it runs, planned when it is asked for."""
        return self.planned()

    def fits(self, limit: int) -> bool:
        return self.floor <= limit and self.peak <= limit


@dataclass(frozen=True)
class _Uses:
    """When each buffer is made and last read; a buffer nobody makes is an input."""

    made: Mapping[str, int]
    last: Mapping[str, int]
    number: Mapping[str, int]  # when it is made; inputs, which are all there at the start, have numbers below that

    @staticmethod
    def of(program: Program, steps: Sequence[Step]) -> "_Uses":
        made = {tensor.buffer: -1 for tensor in program.inputs}
        last = {tensor.buffer: -1 for tensor in program.inputs}
        for index, step in enumerate(steps):
            made[step.output] = index
            last.setdefault(step.output, index)
            for port in step.inputs:
                if isinstance(port.source, str):
                    last[port.source] = index
        for tensor in program.outputs:
            last[tensor.buffer] = len(steps)
        inputs = {tensor.buffer: -1 - position for position, tensor in enumerate(program.inputs)}
        return _Uses(made, last, {**made, **inputs})


Shape = tuple[tuple[tuple[int, Time, Time], ...], tuple[tuple[int, int, int], ...]]
"""A memory problem without names: sizes and lifetimes, and overlays by position."""


class _Known:
    """What is the same for equal stages, of all orders of a program and of its lean form: runs and peaks."""

    def __init__(self) -> None:
        self.runs = StageRuns()
        self.peaks: dict[Shape, int] = {}
        self.plans: dict[Problem, Plan] = {}
        self.numbers: dict[Hashable, int] = {}

    def number(self, item: Hashable) -> int:
        """Equal things have equal numbers, which are quicker to compare."""
        return self.numbers.setdefault(item, len(self.numbers))

    def peak(self, buffers: Sequence[memory.Buffer], run: StageRun) -> int:
        position = {buffer.name: index for index, buffer in enumerate(buffers)}
        overlays = tuple((position[out], position[inp], lead) for (out, inp), lead in run.leads.items())
        shape = tuple((buffer.size, buffer.start, buffer.end) for buffer in buffers), overlays
        if shape not in self.peaks:
            problem = Problem(tuple(buffers), tuple(_overlays(run)))
            self.peaks[shape] = memory.plan(problem, effort=Effort.QUICK).peak
        return self.peaks[shape]

    def plan(self, problem: Problem) -> Plan:
        if problem not in self.plans:
            self.plans[problem] = memory.plan(problem)
        return self.plans[problem]


class _Form(NamedTuple):
    """What of a step tells how a stage with it runs: the tensors it reads, its number without and with their makers."""

    makers: tuple[int, ...]
    bare: int
    number: int
    oldest: int  # of its makers


class _Search:
    """Segments of a program's steps and their costs."""

    def __init__(self, program: Program, known: _Known) -> None:
        self.program, self.known = program, known
        self.steps = program.steps
        self.uses = _Uses.of(program, self.steps)
        self.cache: dict[tuple[int, int, int], Segment] = {}
        self.live = self._live_at_borders()
        self.crossing = [sum(program.buffers[name].size for name in names) for names in self.live]
        self.ring_bytes = self._ring_bytes()
        self.reach = self._reaches()
        self.wasteful = [0, *accumulate(_waste(step) > WORTH_A_GROUP for step in self.steps)]
        self.forms = [self._form(index, step) for index, step in enumerate(self.steps)]

    def _live_at_borders(self) -> list[tuple[str, ...]]:
        """The tensors that live across the border before each step, in the order of their making: all whole."""
        made: dict[int, list[str]] = {}
        for name, step in self.uses.made.items():
            made.setdefault(step, []).append(name)
        live: list[str] = []
        borders = []
        for border in range(len(self.steps) + 1):
            live = [name for name in (*live, *made.get(border - 1, ())) if self.uses.last[name] >= border]
            borders.append(tuple(live))
        return borders

    def _ring_bytes(self) -> list[int]:
        """The least that each step's output takes inside a stage: the rows under a reader's window, if several."""
        rows = dict.fromkeys(self.uses.made, 1)
        for step in self.steps:
            for port in step.inputs:
                if isinstance(port.source, str):
                    rows[port.source] = max(rows[port.source], min(port.height, port.rule.span))
        return [rows[step.output] * step.row_bytes if rows[step.output] > 1 else 0 for step in self.steps]

    def possible(self, first: int, last: int) -> bool:
        """Whether the steps [first, last] can run row by row together."""
        return first == last or (last - first < LONGEST_STAGE and self.reach[first] >= last)

    def _reaches(self) -> list[int]:
        """For each step the last one that can join a stage that starts with it."""
        end = len(self.steps) - 1
        reach = [end] * len(self.steps)
        earliest = [self._joins_from(index) for index in range(len(self.steps))]
        for first in range(end, -1, -1):
            stops = (last for last in range(first + 1, min(first + LONGEST_STAGE, end) + 1) if earliest[last] > first)
            reach[first] = next(stops, end + 1) - 1 if _by_rows(self.steps[first]) else first
        return reach

    def _joins_from(self, index: int) -> int:
        """The earliest step with which a stage may start that this one joins: it must see its makers' rows."""
        step, made = self.steps[index], self.uses.made
        if not _by_rows(step):
            return index
        makers = [(made[port.source], port) for port in step.inputs if isinstance(port.source, str)]
        odd = [maker for maker, port in makers if maker >= 0 and not _same_rows(self.steps[maker], port)]
        return max(odd, default=-1) + 1

    def alone(self, index: int) -> Segment:
        return self.segment(index, index)

    def segment(self, first: int, last: int, group: int = 1) -> Segment:
        """The stage [first, last], its pixelwise kernels making so many rows with every call."""
        key = (first, last, group)
        if key not in self.cache:
            self.cache[key] = self._make(first, last, group)
        return self.cache[key]

    def segments(self, first: int, last: int, tally: "_Tally") -> Iterator[Segment]:
        """The stage [first, last] row by row, and with several rows a call where single rows waste much of a tile."""
        wasteful = first != last and self.wasteful[last + 1] > self.wasteful[first]
        for group in (1, *GROUPS) if wasteful else (1,):
            if tally.allows((first, last, group)):
                segment = self.segment(first, last, group)
                tally.count((first, last, group), segment)
                yield segment

    def _make(self, first: int, last: int, group: int) -> Segment:
        """A step alone takes all its rows at once where its kernel can."""
        steps = self.steps[first : last + 1]
        steps = (steps[0].collapsed(),) if len(steps) == 1 else tuple(step.grouped(group) for step in steps)
        dying = [name for name in self.live[first] if self.uses.last[name] <= last]
        leaving = [name for name in self.live[last + 1] if self.uses.made[name] >= first]
        structure = (group, self._structure(first, steps, dying), tuple([self.uses.made[n] - first for n in leaving]))
        run = self.known.runs.run(structure, steps, leaving, dying)
        remainders = sum(_waste(step) * step.macs * per_mac(self.program) for step in steps)
        instructions = ROW_CALL_INSTRUCTIONS * len(run.calls) + int(remainders)
        passing = [name for name in self.live[first] if self.uses.last[name] > last]
        inner = stage_buffers(0, steps, run)
        floor = _most_at_once(inner, len(steps)) + self._bytes(passing) + max(self._bytes(dying), self._bytes(leaving))

        def planned() -> int:
            sizes = self.program.buffers
            whole = [memory.Buffer(n, sizes[n].size, (0, 0), (1, 0), ALIGNMENT) for n in (*dying, *leaving)]
            peak = self.known.peak(inner + whole, run)
            return _beside(peak, [sizes[name].size for name in passing])

        return Segment(first, last, steps, run, structure, instructions, floor, planned)

    def _bytes(self, names: Iterable[str]) -> int:
        return sum([self.program.buffers[name].size for name in names])

    def _form(self, index: int, step: Step) -> _Form:
        ports = [port for port in step.inputs if isinstance(port.source, str)]
        makers = tuple([self.uses.number[str(port.source)] for port in ports])
        read = tuple([(port.height, port.rule, port.row_bytes == step.row_bytes) for port in ports])
        bare = self.known.number((step.kind, step.rows, step.images, read))
        distances = tuple([index - maker for maker in makers])
        return _Form(makers, bare, self.known.number((bare, distances)), min(makers, default=index))

    def _structure(self, first: int, steps: Sequence[Step], dying: Sequence[str]) -> Hashable:
        """All that tells how a stage runs: each step's rows, those it reads, and which step makes them.

        Tensors from before the stage are told apart by when they are first read in it.
        """
        forms = [self._form(first, steps[0])] if len(steps) == 1 else self.forms[first : first + len(steps)]
        outside: dict[int, int] = {}
        found: list[Hashable] = []
        for index, form in enumerate(forms, start=first):
            if form.oldest >= first:
                found.append(form.number)
            else:
                makers = [index - m if m >= first else -1 - outside.setdefault(m, len(outside)) for m in form.makers]
                found.append((form.bare, *makers))
        return tuple(found), tuple([outside[self.uses.number[name]] for name in dying])


def _most_at_once(buffers: Iterable[memory.Buffer], positions: int) -> int:
    """The most bytes of a stage's rings and scratch, which share none, that live while one of its steps runs."""
    change = [0] * (positions + 1)
    for buffer in buffers:
        change[buffer.start[1]] += buffer.size
        change[buffer.end[1] if buffer.end[0] == 0 else positions] -= buffer.size
    return max(accumulate(change))


def _beside(peak: int, sizes: Sequence[int]) -> int:
    """A stage's peak with tensors that live before, while and after it runs: they lie below all else, or above.

    Nothing shares a byte with them, so any plan can be rearranged that way; only the topmost keeps its odd end.
    """
    rests = [-size % ALIGNMENT for size in sizes]
    room = sum(sizes) + sum(rests)
    return min(room + peak, peak + -peak % ALIGNMENT + room - max(rests)) if sizes else peak


def _by_rows(step: Step) -> bool:
    return step.kind is not Walk.WHOLE and step.images == 1


def _waste(step: Step) -> float:
    """The share of its work that a pixelwise kernel does in vain: half a tile takes two thirds of a tile's time."""
    if step.kind is not Walk.PIXELS:
        return 0.0
    pixels = step.n * step.group
    return max(_paid_pixels(pixels, kernel.tile) / pixels - 1 for kernel in step.kernels.values())


def _paid_pixels(pixels: int, tile: int) -> float:
    whole, rest = divmod(pixels, tile)
    part = 0 if rest == 0 else 2 / 3 if rest <= tile // 2 else 1
    return tile * (whole + part)


def _same_rows(source: Step, port: Port) -> bool:
    """The reader sees the rows that the maker makes."""
    if source.kind is Walk.ACCUMULATE:
        return port.height == 1 and port.row_bytes == source.row_bytes
    return port.height == source.rows and port.row_bytes == source.row_bytes


def _overlays(run: StageRun) -> list[Overlay]:
    return [Overlay(out, inp, lead) for (out, inp), lead in run.leads.items()]


def scratch_name(step: Step) -> str:
    return f"{step.name}.scratch"


def stage_buffers(number: int, steps: Sequence[Step], run: StageRun) -> list[memory.Buffer]:
    """The rings and scratch buffers of a stage. An accumulator lives as long as its stage."""
    buffers = []
    makers = {step.output: step for step in steps}
    for name, rows in run.rings.items():
        step = makers[name]
        first, last = run.spans.get(name, (0, len(steps) - 1))
        size = rows * step.row_bytes
        buffers.append(memory.Buffer(name, size, (number, first), (number, last + 1), ALIGNMENT))
    for position, step in enumerate(steps):
        if step.scratch:
            first, last = (0, len(steps)) if step.kind is Walk.ACCUMULATE else (position, position + 1)
            buffers.append(memory.Buffer(scratch_name(step), step.scratch, (number, first), (number, last), ALIGNMENT))
    return [_closed(buffer, number, len(steps)) for buffer in buffers]


def _closed(buffer: memory.Buffer, number: int, positions: int) -> memory.Buffer:
    """A lifetime that reaches the end of its stage ends where the next stage starts."""
    return replace(buffer, end=(number + 1, 0)) if buffer.end == (number, positions) else buffer


# ---- the search -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Choice:
    """Stages up to some step: what their row calls cost, the highest of their peaks, and the last of them."""

    instructions: int = 0
    peak: int = 0
    segment: Segment | None = None
    before: "_Choice | None" = None

    def then(self, segment: Segment) -> "_Choice":
        return _Choice(self.instructions + segment.instructions, max(self.peak, segment.peak), segment, self)

    @property
    def stages(self) -> tuple[Segment, ...]:
        found: list[Segment] = []
        choice: _Choice | None = self
        while choice is not None and choice.segment is not None:
            found.append(choice.segment)
            choice = choice.before
        return tuple(reversed(found))


class _Tally:
    """The row calls that choosing stages costs; once they reach their bound, only stages that were seen are.

    Counted from nothing for every choice, whatever is known from others: what is chosen does not depend on them.
    """

    def __init__(self) -> None:
        self.work = 0
        self.stages: set[tuple[int, int, int]] = set()
        self.structures: set[Hashable] = set()
        self.exhausted = False

    def allows(self, stage: tuple[int, int, int]) -> bool:
        allowed = self.work < ROW_CALLS or stage in self.stages
        self.exhausted |= not allowed
        return allowed

    def count(self, stage: tuple[int, int, int], segment: Segment) -> None:
        if stage not in self.stages:
            self.stages.add(stage)
            self.work += 1 if segment.structure in self.structures else len(segment.run.calls)
            self.structures.add(segment.structure)


def _cheapest(search: _Search, limit: int, tally: _Tally) -> _Choice | None:
    """The stages, each with a peak of at most `limit`, that make the fewest row calls.

    A stage of several steps only costs more calls, so it is tried only where some step alone is over the limit.
    """
    over = -1  # the last step that is over the limit alone
    best: list[_Choice | None] = [_Choice()]
    for last in range(len(search.steps)):
        before, alone = best[last], search.alone(last)
        over = last if alone.peak > limit else over
        chosen = before.then(alone) if before is not None and over != last else None
        if search.crossing[last + 1] <= limit:
            for start, segment in _longer(search, limit, best, over, last, tally):
                # What costs more is not even planned.
                cost = start.instructions + segment.instructions
                if (chosen is None or cost < chosen.instructions) and segment.fits(limit):
                    chosen = start.then(segment)
        best.append(chosen)
    return best[-1]


def _longer(
    search: _Search, limit: int, best: Sequence[_Choice | None], over: int, last: int, tally: _Tally
) -> Iterator[tuple[_Choice, Segment]]:
    """The stages of several steps that end with `last`, each with the best choice before it."""
    rings = 0
    for first in range(last - 1, -1, -1):
        rings += search.ring_bytes[first]
        if not search.possible(first, last) or rings + search.crossing[last + 1] > limit:
            return
        before = best[first]
        small = rings + search.crossing[first] <= limit  # rings lie beside every whole tensor of the stage
        if small and before is not None and first <= over:
            yield from ((before, segment) for segment in search.segments(first, last, tally))


def _choose(search: _Search, optimize: Optimize, instructions: int, tally: _Tally) -> tuple[Segment, ...]:
    """The stages of a schedule; `instructions` estimates what the kernels themselves cost."""
    layers = _Choice()
    for index in range(len(search.steps)):
        layers = layers.then(search.alone(index))
    if optimize is Optimize.TIME:
        return layers.stages
    budget = layers.instructions + BALANCED_EXTRA * instructions
    best, low = layers, max(search.crossing[0], search.crossing[-1])
    step = low // 16 + 64
    while low < best.peak:  # no limit below `low` is within reach, `best` is
        # Upwards first: a tight limit rules out most stages before they are looked at.
        limit = min(low + step, (low + best.peak - 1) // 2)
        found = _cheapest(search, limit, tally)
        if found is None or (optimize is Optimize.BALANCED and found.instructions > budget):
            low = limit + 1
            step *= 2
        else:
            best = found
    return _take_in_delays(search, best.stages) if optimize is Optimize.RAM else best.stages


def _take_in_delays(search: _Search, stages: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """Where it costs no peak, a residual branch waits in a ring inside its stage, not as a whole tensor around it."""
    limit = max((segment.peak for segment in stages), default=0)
    for index, step in enumerate(search.steps):
        sources = [search.uses.made.get(port.source, -1) for port in step.inputs if isinstance(port.source, str)]
        if step.kind is Walk.ELEMENTS and len(sources) > 1 and min(sources) >= 0:
            covering = [segment for segment in stages if segment.last >= min(sources) and segment.first <= index]
            first, last = covering[0].first, covering[-1].last
            if len(covering) > 1 and search.possible(first, last) and search.segment(first, last).fits(limit):
                before = tuple(segment for segment in stages if segment.last < first)
                after = tuple(segment for segment in stages if segment.first > last)
                stages = (*before, search.segment(first, last), *after)
    return stages


# ---- the planned program ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planned:
    """A program in stages, the memory problem they pose and the plan that solves it."""

    choice: "_Choices"  # of which this is one
    program: Program
    runs: tuple[StageRun, ...]
    problem: Problem
    plan: Plan
    spent: Mapping[str, Spent]  # what looking for the order of branches, the stages and the offsets cost

    @cached_property
    def checked(self) -> Plan:
        """The plan of the checks build: guards around every buffer, all of them alive for whole stages, no overlays."""
        wide = [
            replace(b, size=b.size + 2 * GUARD_BYTES, start=(b.start[0], 0), end=(b.end[0] + (b.end[1] > 0), 0))
            for b in self.problem.buffers
        ]
        problem = Problem(tuple(wide))
        plan = memory.plan(problem, effort=Effort.QUICK)
        memory.validate(problem, plan)
        return plan

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


def kernel_instructions(program: Program) -> int:
    """A rough cost of the kernels themselves, for weighing row calls against them."""
    outputs = sum(step.images * step.rows * step.row_bytes for step in program.steps)
    return int(sum(step.macs for step in program.steps) * per_mac(program) + 8 * outputs)


def per_mac(program: Program) -> float:
    """Instructions per multiply-accumulate, roughly."""
    return {Isa.SCALAR: 4.0, Isa.DSP: 1.6, Isa.MVE: 0.35}[max(program.target.isas)]


@dataclass(frozen=True)
class _Choices:
    """All ways to run a program: in each order of its branches, and with the kernels that need less scratch."""

    program: Program
    known: _Known = field(default_factory=_Known)
    planned: dict[Optimize, "Planned"] = field(default_factory=dict)

    @cached_property
    def orders(self) -> branches.Orders:
        return branches.orders(self.program)

    @cached_property
    def plain(self) -> list[_Search]:
        return [_Search(one, self.known) for one in self.orders.programs]

    @cached_property
    def lean(self) -> list[_Search]:
        return [_Search(_lean(search.program), self.known) for search in self.plain]

    def best(self, optimize: Optimize) -> "Planned":
        """The lowest peak; where it is not proven, layer by layer may still be lower."""
        if optimize not in self.planned:
            best = self._best(optimize)
            if optimize is not Optimize.TIME and not best.plan.optimal:
                best = min(best, self.best(Optimize.TIME), key=lambda planned: planned.plan.peak)
            self.planned[optimize] = best
        return self.planned[optimize]

    def _best(self, optimize: Optimize) -> "Planned":
        """For the lowest peak, lean kernels are tried too."""
        searches = [*self.plain, *(self.lean if optimize is Optimize.RAM else [])]
        tallies: list[_Tally] = []
        best: Planned | None = None
        for search in searches:
            tallies.append(_Tally())
            segments = _choose(search, optimize, kernel_instructions(search.program), tallies[-1])
            staged, problem = _staged(search, segments)
            if best is None or memory.lower_bound(problem) < best.plan.peak:
                plan = self.known.plan(problem)
                if best is None or plan.peak < best.plan.peak:
                    best = Planned(self, staged, tuple(segment.run for segment in segments), problem, plan, {})
        assert best is not None
        memory.validate(best.problem, best.plan)
        rows = sum(tally.work for tally in tallies)
        stages = Spent(rows, len(tallies) * ROW_CALLS, any(tally.exhausted for tally in tallies))
        return replace(best, spent={"orders": self.orders.spent, "stages": stages, "offsets": best.plan.spent})


def _lean(program: Program) -> Program:
    stages = tuple(Stage(tuple(step.lean() for step in stage.steps)) for stage in program.stages)
    return replace(program, stages=stages)


def schedule(program: Program, optimize: Optimize = Optimize.BALANCED) -> Planned:
    """Chooses the order of branches and the stages, and plans the memory."""
    return _Choices(program).best(optimize)


@dataclass(frozen=True)
class Alternative:
    """What another way to optimize would give."""

    arena_bytes: int
    row_calls: int


def alternatives(planned: Planned) -> dict[Optimize, Alternative]:
    """Every way to optimize; stages that were looked at once are not looked at again."""
    found = {optimize: planned.choice.best(optimize) for optimize in Optimize}
    return {optimize: Alternative(planned.plan.peak, planned.row_calls) for optimize, planned in found.items()}


def _staged(search: _Search, segments: Sequence[Segment]) -> tuple[Program, Problem]:
    """The program in these stages and the memory problem they pose."""
    runs = [segment.run for segment in segments]
    rings = {name: rows for run in runs for name, rows in run.rings.items()}
    buffers = {
        name: replace(buffer, rows=rings[name]) if name in rings else buffer
        for name, buffer in search.program.buffers.items()
    }
    stages = tuple(Stage(segment.steps) for segment in segments)
    staged = replace(search.program, stages=stages, buffers=buffers)
    return staged, memory_problem(staged, runs, search.uses)


def memory_problem(program: Program, runs: Sequence[StageRun], uses: _Uses) -> Problem:
    """Whole tensors live from stage to stage; rings and scratch within theirs."""
    starts, position = [], 0
    for stage in program.stages:
        starts.append(position)
        position += len(stage.steps)

    def stage_of(step: int) -> int:
        return max(0, bisect_right(starts, step) - 1)

    buffers: list[memory.Buffer] = []
    overlays: list[Overlay] = []
    rings = {name for run in runs for name in run.rings}
    for number, (stage, run) in enumerate(zip(program.stages, runs, strict=True)):
        buffers += stage_buffers(number, stage.steps, run)
        overlays += _overlays(run)
    for name, made in uses.made.items():
        if name not in rings:
            start, end = (stage_of(made), 0), (stage_of(uses.last[name]) + 1, 0)
            buffers.append(memory.Buffer(name, program.buffers[name].size, start, end, ALIGNMENT))
    return Problem(tuple(buffers), tuple(overlays))
