"""Segments of a program's steps as stages: which can run together, the memory they need and their cost."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from typing import NamedTuple

from cortado.base.errors import CortadoError
from cortado.memory import planner
from cortado.memory.problem import Buffer, Effort, Overlay, Plan, Problem, Time
from cortado.plan.kernel_costs import StageCosts
from cortado.plan.program import CAMERA_LINE, CAMERA_PLACE, PUSHED_ROWS, Port, Program, Step, Walk, place_of
from cortado.plan.stages import StageRun, StageRuns

STAGES_WORK = 2_000_000  # for choosing the stages in all orders, at most half of it in one; about 10 s
ALIGNMENT = 16
COUNTER_BYTES = 16  # cortado_state_t
LONGEST_STAGE = 64
GROUPS = (2, 4)  # rows per call that are tried in addition to one
WORTH_A_GROUP = 0.1  # the share of a kernel's cycles that several rows per call must save


@dataclass(frozen=True, eq=False)
class Segment:
    """Steps [first, last] as one stage: its run, the memory it needs while it runs, and its row calls."""

    first: int
    last: int
    steps: tuple[Step, ...]
    run: StageRun
    structure: Hashable  # equal for stages that run alike
    cycles: int  # of its kernels and the row loop
    floor: int  # a lower bound of its peak, in bytes
    buffers: int  # buffers that are placed to plan it
    planned: Callable[[], int]

    @cached_property
    def peak(self) -> int:
        """The memory it needs while it runs, planned on first use."""
        return self.planned()


@dataclass(frozen=True)
class Uses:
    """The steps at which each buffer is made and last read; a buffer that no step makes is an input."""

    made: Mapping[str, int]
    last: Mapping[str, int]
    number: Mapping[str, int]  # the step that makes it; for inputs, distinct negative numbers

    @staticmethod
    def of(program: Program, steps: Sequence[Step]) -> "Uses":
        made, last = dict.fromkeys(program.entering, -1), dict.fromkeys(program.entering, -1)
        for index, step in enumerate(steps):
            for name in step.outputs:
                made[name] = index
                last.setdefault(name, index)
            for port in step.inputs:
                if isinstance(port.source, str):
                    last[port.source] = index
        last |= dict.fromkeys(program.leaving, len(steps))
        if program.pushed is not None:  # the row count is also read after the last step
            made[PUSHED_ROWS], last[PUSHED_ROWS] = 0, len(steps)
        if program.camera is not None:  # lines arrive until the first stage has read the last row
            made[CAMERA_PLACE], last[CAMERA_PLACE] = -1, len(steps)
        if CAMERA_LINE in program.buffers:
            made[CAMERA_LINE], last[CAMERA_LINE] = -1, -1
        return Uses(made, last, {**made, **{name: -1 - position for position, name in enumerate(program.entering)}})


ProblemShape = tuple[tuple[tuple[int, Time, Time], ...], tuple[tuple[int, int, int], ...]]
"""A memory problem without names: sizes and lifetimes, and overlays by position."""


class Known:
    """A cache of stage runs and peaks, shared by equal stages in all orders of a program and in its lean form."""

    def __init__(self) -> None:
        self.runs = StageRuns()
        self.peaks: dict[ProblemShape, int] = {}
        self.plans: dict[tuple[Problem, Effort], Plan] = {}
        self.numbers: dict[Hashable, int] = {}

    def number(self, item: Hashable) -> int:
        """Returns a number that is equal for equal items, and quicker to compare."""
        return self.numbers.setdefault(item, len(self.numbers))

    def peak(self, buffers: Sequence[Buffer], run: StageRun) -> int:
        position = {buffer.name: index for index, buffer in enumerate(buffers)}
        overlays = tuple((position[out], position[inp], lead) for (out, inp), lead in run.leads.items())
        shape = tuple((buffer.size, buffer.start, buffer.end) for buffer in buffers), overlays
        if shape not in self.peaks:
            problem = Problem(tuple(buffers), tuple(overlays_of(run)))
            self.peaks[shape] = planner.plan(problem, effort=Effort.QUICK).peak
        return self.peaks[shape]

    def plan(self, problem: Problem, effort: Effort = Effort.FULL) -> Plan:
        if (problem, effort) not in self.plans:
            self.plans[problem, effort] = planner.plan(problem, effort=effort)
        return self.plans[problem, effort]


class _Form(NamedTuple):
    """A step's form in a stage: its makers, and numbers that identify it without and with them."""

    makers: tuple[int, ...]
    bare: int
    number: int
    oldest: int  # the earliest of its makers


@dataclass(frozen=True)
class _Formed:
    """A program's steps in one form, and the costs of their stages."""

    steps: tuple[Step, ...]
    costs: StageCosts


class Segments:
    """Segments of a program's steps and their costs."""

    def __init__(self, program: Program, known: Known) -> None:
        self.program, self.known = program, known
        self.steps = program.steps
        self.uses = Uses.of(program, self.steps)
        self.cache: dict[tuple[int, int, int], Segment] = {}
        self.live = self._live_at_borders()
        self.crossing = [sum(program.buffers[name].size for name in names) for names in self.live]
        self.ring_bytes = self._ring_bytes()
        self.reach = self._reaches()
        self.first_stage = self._first_stage()
        self.in_rows = [0, *accumulate(map(_has_rows, self.steps))]
        self.forms = [self._form(index, step) for index, step in enumerate(self.steps)]
        self.collapsed = self._formed(Step.collapsed)
        self.in_groups = {group: self._formed(partial(Step.grouped, rows=group)) for group in (1, *GROUPS)}
        self.wasteful = [0, *accumulate(map(self._is_wasteful, range(len(self.steps))))]

    def _formed(self, form: Callable[[Step], Step]) -> _Formed:
        steps = tuple(map(form, self.steps))
        return _Formed(steps, StageCosts(self.program, steps, self.uses.made))

    def _is_wasteful(self, index: int) -> bool:
        """Whether a kernel takes much longer for single rows than for several per call."""
        step = self.steps[index]
        if step.kind is not Walk.PIXELS or step.rows == 1:
            return False
        single, *several = (formed.costs.kernel(index, step.rows) for formed in self.in_groups.values())
        return single - min(several) > WORTH_A_GROUP * single

    def _live_at_borders(self) -> list[tuple[str, ...]]:
        """Returns the tensors that are live across the border before each step, in the order in which they are made,
        all whole."""
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
        """Returns a lower bound of the bytes of each step's output inside a stage: the rows under a reader's window, if
        several."""
        rows = dict.fromkeys(self.uses.made, 1)
        for step in self.steps:
            for port in step.inputs:
                if isinstance(port.source, str):
                    rows[port.source] = max(rows[port.source], min(port.height, port.rule.span))
        return [rows[step.output] * step.row_bytes if rows[step.output] > 1 else 0 for step in self.steps]

    def possible(self, first: int, last: int) -> bool:
        """Whether the steps [first, last] can run row by row together."""
        if first == 0 and last < self.first_stage:
            return False
        return first == last or (last - first < LONGEST_STAGE and self.reach[first] >= last)

    def saves(self, first: int, last: int) -> bool:
        """Whether the steps [first, last] can need less memory together than one after the other. If each makes and
        reads a single row, all tensors are whole together too, and live longer."""
        return self.first_stage > 0 or self.in_rows[last + 1] > self.in_rows[first]

    def _first_stage(self) -> int:
        """Returns the step that the first stage must reach: an input that comes row by row is never whole, so the stage
        has to contain all its readers."""
        pushed = self.program.pushed
        if pushed is None:
            return 0
        last = self.uses.last[pushed.output]
        if last >= LONGEST_STAGE or self.reach[0] < last:
            self._refuse_rows(last)
        return last

    def _refuse_rows(self, last: int) -> None:
        stop = self.steps[min(self.reach[0] + 1, LONGEST_STAGE)]
        raise CortadoError(
            f"the input can't come row by row: {place_of(self.steps[last])} still reads it after {place_of(stop)}, "
            f"which {'is too many layers away' if _by_rows(stop) else 'needs all rows of what it reads at once'}. "
            "Compile without --input-rows"
        )

    def _reaches(self) -> list[int]:
        """Returns for each step the last one that can be in a stage that starts with it."""
        end = len(self.steps) - 1
        reach = [end] * len(self.steps)
        earliest = [self._joins_from(index) for index in range(len(self.steps))]
        for first in range(end, -1, -1):
            stops = (last for last in range(first + 1, min(first + LONGEST_STAGE, end) + 1) if earliest[last] > first)
            reach[first] = next(stops, end + 1) - 1 if _by_rows(self.steps[first]) else first
        return reach

    def _joins_from(self, index: int) -> int:
        """Returns the earliest first step of a stage that this step can join: it has to see its makers' rows as they
        make them."""
        step, made = self.steps[index], self.uses.made
        if not _by_rows(step):
            return index
        makers = [(made[port.source], port) for port in step.inputs if isinstance(port.source, str)]
        odd = [maker for maker, port in makers if maker >= 0 and not same_rows(self.steps[maker], port)]
        return max(odd, default=-1) + 1

    def alone(self, index: int) -> Segment:
        return self.segment(index, index)

    def segment(self, first: int, last: int, group: int = 1) -> Segment:
        """Returns the stage [first, last], its pixelwise kernels making `group` rows per call."""
        key = (first, last, group)
        if key not in self.cache:
            self.cache[key] = self._make(first, last, group)
        return self.cache[key]

    def segments(self, first: int, last: int, tally: "Tally") -> Iterator[Segment]:
        """Yields the stage [first, last] row by row, and with several rows per call if single rows waste much of a
        tile."""
        wasteful = first != last and self.wasteful[last + 1] > self.wasteful[first]
        for group in (1, *GROUPS) if wasteful else (1,):
            if tally.allows((first, last, group)):
                segment = self.segment(first, last, group)
                tally.count((first, last, group), segment)
                yield segment

    def _make(self, first: int, last: int, group: int) -> Segment:
        """Builds a stage; a step alone processes all its rows at once if its kernel can."""
        formed = self.collapsed if first == last else self.in_groups[group]
        steps = formed.steps[first : last + 1]
        dying = [name for name in self.live[first] if self.uses.last[name] <= last]
        leaving = [name for name in self.live[last + 1] if self.uses.made[name] >= first]
        structure = (group, self._structure(first, steps, dying), tuple([self.uses.made[n] - first for n in leaving]))
        run = self.known.runs.run(structure, steps, leaving, dying)
        cycles = round(formed.costs.stage(first, run.rows))
        passing = [name for name in self.live[first] if self.uses.last[name] > last]
        inner = stage_buffers(0, steps, run)
        floor = _most_at_once(inner, len(steps)) + self._bytes(passing) + max(self._bytes(dying), self._bytes(leaving))

        def planned() -> int:
            sizes = self.program.buffers
            whole = [Buffer(n, sizes[n].size, (0, 0), (1, 0), ALIGNMENT) for n in (*dying, *leaving)]
            peak = self.known.peak(inner + whole, run)
            return _beside(peak, [sizes[name].size for name in passing])

        buffers = len(inner) + len(dying) + len(leaving)
        return Segment(first, last, steps, run, structure, cycles, floor, buffers, planned)

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
        """Returns a key of everything that determines how a stage runs: each step's rows, those it reads, and their
        makers.

        Tensors from before the stage are numbered in the order of their first read in it.
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


class Tally:
    """The work of choosing stages: their row calls and overlays, and the pairs of buffers compared in planning them.

    Once it reaches its bound, only stages that were analyzed before are considered. It starts from 0 for every choice,
    whatever is cached from others, so that a choice does not depend on them.
    """

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.work = 0
        self.stages: set[tuple[int, int, int]] = set()
        self.structures: set[Hashable] = set()
        self.planned: set[Segment] = set()
        self.exhausted = False

    def allows(self, stage: tuple[int, int, int]) -> bool:
        return stage in self.stages or self._is_open()

    def _is_open(self) -> bool:
        self.exhausted |= self.work >= self.bound
        return self.work < self.bound

    def count(self, stage: tuple[int, int, int], segment: Segment) -> None:
        if stage not in self.stages:
            self.stages.add(stage)
            known = segment.structure in self.structures
            self.work += len(segment.run.leads) + (1 if known else len(segment.run.calls))
            self.structures.add(segment.structure)

    def fits(self, segment: Segment, limit: int) -> bool:
        """Whether a stage needs at most the limit; one whose lower bound exceeds it is not even planned."""
        if segment.floor > limit or (segment not in self.planned and not self._is_open()):
            return False
        self.work += 0 if segment in self.planned else segment.buffers**2
        self.planned.add(segment)
        return segment.peak <= limit


def _most_at_once(buffers: Iterable[Buffer], positions: int) -> int:
    """Returns the most bytes of a stage's rings and scratch that are live during one of its steps; overlays are only
    between whole tensors."""
    change = [0] * (positions + 1)
    for buffer in buffers:
        change[buffer.start[1]] += buffer.size
        change[buffer.end[1] if buffer.end[0] == 0 else positions] -= buffer.size
    return max(accumulate(change))


def _beside(peak: int, sizes: Sequence[int]) -> int:
    """Returns a stage's peak including tensors that are live before, during and after it: they lie below everything
    else, or above.

    Nothing shares a byte with them, so any plan can be rearranged that way; only the topmost needs no padding.
    """
    rests = [-size % ALIGNMENT for size in sizes]
    room = sum(sizes) + sum(rests)
    return min(room + peak, peak + -peak % ALIGNMENT + room - max(rests)) if sizes else peak


def _has_rows(step: Step) -> bool:
    """Whether a tensor that it makes or reads has more than one row."""
    return step.rows > 1 or any(port.height > 1 for port in step.inputs)


def _by_rows(step: Step) -> bool:
    return step.kind is not Walk.WHOLE and step.images == 1 and not step.extra_results


def same_rows(source: Step, port: Port) -> bool:
    """Whether the reader sees the rows as the maker makes them."""
    row_bytes = source.row_bytes_of(str(port.source))
    return port.height == (1 if source.one_row else source.rows) and port.row_bytes == row_bytes


def overlays_of(run: StageRun) -> list[Overlay]:
    return [Overlay(out, inp, lead) for (out, inp), lead in run.leads.items()]


def scratch_name(step: Step) -> str:
    return f"{step.name}.scratch"


def counters_name(pushed: Step) -> str:
    """Returns the name of the buffer for the positions of a stage's steps. The row loop has them on its stack; between
    two pushed rows they are saved in the arena, where scratch and short-lived rows were."""
    return f"{pushed.name}.counters"


def stage_buffers(number: int, steps: Sequence[Step], run: StageRun) -> list[Buffer]:
    """Returns the rings and scratch buffers of a stage. An accumulator lives as long as its stage."""
    buffers = []
    makers = {name: step for step in steps for name in step.outputs}
    for name, rows in run.rings.items():
        first, last = run.spans.get(name, (0, len(steps) - 1))
        size = rows * makers[name].row_bytes_of(name)
        buffers.append(Buffer(name, size, (number, first), _end(number, last + 1, len(steps)), ALIGNMENT))
    for position, step in enumerate(steps):
        if step.scratch:
            first, last = (0, len(steps)) if step.one_row else (position, position + 1)
            end = _end(number, last, len(steps))
            buffers.append(Buffer(scratch_name(step), step.scratch, (number, first), end, ALIGNMENT))
    if steps[0].kind is Walk.PUSHED:
        size = COUNTER_BYTES * len(steps)
        buffers.append(Buffer(counters_name(steps[0]), size, (number, 0), _end(number, 1, len(steps)), ALIGNMENT))
    return buffers


def _end(number: int, position: int, positions: int) -> Time:
    """Returns the end of a lifetime; at the end of its stage, that is the start of the next."""
    return (number + 1, 0) if position == positions else (number, position)
