"""Which steps run together, row by row, and where their buffers lie: from a Program to a planned Program.

A stage is a run of consecutive steps. Between two steps of a stage a tensor needs only a ring of a few rows. How many
rows, which buffers never live together and how far a stage's output may lie over its input is found by running the
stage's row loop (kernels/src/cortado_run.c) here, without data. Stage borders are searched with the planner's peak as
the cost; the result computes exactly the same bits as layer by layer.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from cortado import branches, memory
from cortado.memory import Effort, Overlay, Plan, Problem
from cortado.program import Port, Program, Stage, Step, Walk
from cortado.target import Isa

ALIGNMENT = 16
GUARD_BYTES = 16
ROW_CALL_INSTRUCTIONS = 165  # the row loop's own cost per call
BALANCED_EXTRA = 0.10  # more instructions than layer by layer that `balanced` may spend
LONGEST_STAGE = 64
GROUPS = (2, 4)  # rows a call that are tried beside one
WORTH_A_GROUP = 0.1  # of a kernel's work done in vain when it makes single rows


class Optimize(Enum):
    """What the schedule is good for."""

    RAM = "ram"  # the lowest peak
    BALANCED = "balanced"  # the lowest peak that costs at most 10% more instructions
    TIME = "time"  # layer by layer


# ---- running a stage without data ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Link:
    """An operand of step `consumer` that step `producer` of the same stage makes, or a tensor that was there before."""

    consumer: int
    producer: int | None
    port: Port
    group: int  # rows that the consumer makes with every call

    def first_row(self, y: int) -> int:
        """The oldest row that output row y reads."""
        return max(0, self.port.rule.first(y))

    def end_row(self, y: int) -> int:
        """One past the newest row that the call reads which starts at output row y."""
        return min(self.port.height, self.port.rule.first(y) + self.port.rule.span + self.group - 1)


@dataclass
class StageRun:
    """What running a stage shows."""

    rows: list[int]  # rows each step makes
    rings: dict[str, int] = field(default_factory=dict)  # buffer -> rows it must hold
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)  # buffer -> first and last step while it is live
    leads: dict[tuple[str, str], int] = field(default_factory=dict)  # (output, input) -> lead of an overlay
    calls: list[tuple[int, int]] = field(default_factory=list)  # (step, row) in the order of execution


class _Runner:
    """The row loop of cortado_run.c: always the last step whose input rows are all there makes its next row."""

    def __init__(self, steps: Sequence[Step], whole: Iterable[str], dying: Iterable[str]) -> None:
        self.steps = steps
        self.whole, self.dying = set(whole), set(dying)
        made = {step.output: index for index, step in enumerate(steps)}
        links = [
            Link(index, made.get(port.source), port, step.group)
            for index, step in enumerate(steps)
            for port in step.inputs
            if isinstance(port.source, str)
        ]
        self.needs: list[list[Link]] = [[] for _ in steps]
        self.readers: dict[str, list[Link]] = {}
        self.uses: list[list[int]] = [[] for _ in steps]  # step -> the steps that read its output, last first
        for link in links:
            self.readers.setdefault(str(link.port.source), []).append(link)
            if link.producer is not None:
                self.needs[link.consumer].append(link)
                self.uses[link.producer].append(link.consumer)
        for users in self.uses:
            users.sort(reverse=True)
        self.done = [0] * len(steps)
        self.result = StageRun(rows=self._rows_needed())

    def _rows_needed(self) -> list[int]:
        """Rows nobody reads are not made."""
        rows = [step.rows for step in self.steps]
        for index in range(len(self.steps) - 1, -1, -1):
            step = self.steps[index]
            if step.output not in self.whole and step.kind is not Walk.ACCUMULATE:
                readers = self.readers.get(step.output, [])
                rows[index] = max((link.end_row(self._last_call(link, rows)) for link in readers), default=0)
        return rows

    @staticmethod
    def _last_call(link: Link, rows: Sequence[int]) -> int:
        """The row with which a reader's last call starts."""
        return (rows[link.consumer] - 1) // link.group * link.group

    def ready(self, index: int) -> bool:
        y = self.done[index]
        if y >= self.result.rows[index]:
            return False
        return all(self._made(link.producer) >= link.end_row(y) for link in self.needs[index])

    def _made(self, producer: int | None) -> int:
        """Rows of its output that a step has made: an accumulating step has none until it is through."""
        assert producer is not None
        done = self.done[producer]
        if self.steps[producer].kind is Walk.ACCUMULATE:
            return int(done == self.result.rows[producer])
        return done

    def run(self) -> StageRun:
        index = len(self.steps) - 1
        while index >= 0:
            if self.ready(index):
                self._call(index)
                index = next((user for user in self.uses[index] if self.ready(user)), index)
            else:
                index -= 1
        return self.result

    def _call(self, index: int) -> None:
        step, y = self.steps[index], self.done[index]
        end = y + min(step.group, self.result.rows[index] - y)
        self.result.calls.append((index, y))
        if step.output in self.whole:
            self._note_leads(step, end)
        else:
            readers = self.readers.get(step.output, [])
            oldest = min((self._oldest(link) for link in readers), default=y)
            rows = 1 if step.kind is Walk.ACCUMULATE else end - min(oldest, y)
            # Rows of one call lie together: the ring turns between calls.
            whole_calls = math.lcm(step.group, *(link.group for link in readers))
            rows += -rows % whole_calls
            self.result.rings[step.output] = max(self.result.rings.get(step.output, 1), rows)
        self.done[index] = end

    def _oldest(self, link: Link) -> int:
        """The oldest row an operand's reader still needs."""
        y = self.done[link.consumer]
        return link.first_row(y) if y < self.result.rows[link.consumer] else 1 << 30

    def _note_leads(self, step: Step, rows: int) -> None:
        """`rows` output rows are there after this call: so many bytes must be dead in an input they may lie over."""
        if step.images > 1:
            return  # rows of the second image would be dead only after all of the first
        end = step.image_bytes if step.kind is Walk.ACCUMULATE else rows * step.row_bytes
        for name in self.dying:
            links = self.readers.get(name, [])
            if any(link.producer is not None for link in links) or not links:
                continue
            dead = min(self._dead_bytes(link) for link in links)
            lead = 0 if self._in_place(step, name, links) else max(0, end - dead)
            key = (step.output, name)
            self.result.leads[key] = max(self.result.leads.get(key, 0), lead)

    def _dead_bytes(self, link: Link) -> int:
        port = link.port
        if port.rule.stride == 0:
            return 0
        return min(self._oldest(link), port.height) * port.row_bytes

    def _in_place(self, step: Step, name: str, links: list[Link]) -> bool:
        """An elementwise kernel may write over the operand it reads, if nobody else reads that."""
        mine = [port for port in step.inputs if port.source == name]
        if step.kind is not Walk.ELEMENTS or len(links) != 1 or len(mine) != 1:
            return False
        return mine[0].rule.stride != 0 and mine[0].row_bytes == step.row_bytes  # not from int8 to float


def spans_of(run: StageRun, runner: "_Runner") -> dict[str, tuple[int, int]]:
    """For rings that one call fills: the range of steps that run between that call and the rows' last use."""
    spans: dict[str, tuple[int, int]] = {}
    live: dict[str, int] = {}  # buffer -> the newest row it holds
    single = {step.output for step in runner.steps if run.rings.get(step.output) == step.group}
    done = [0] * len(runner.steps)
    for index, y in run.calls:
        step = runner.steps[index]
        done[index] = y + min(step.group, run.rows[index] - y)
        if step.output in single:
            live[step.output] = done[index] - 1
        for name in list(live):
            low, high = spans.get(name, (index, index))
            spans[name] = (min(low, index), max(high, index))
        for name, row in list(live.items()):
            if all(
                link.first_row(done[link.consumer]) > row or done[link.consumer] >= run.rows[link.consumer]
                for link in runner.readers.get(name, [])
            ):
                del live[name]
    return spans


def run_stage(steps: Sequence[Step], whole: Iterable[str], dying: Iterable[str]) -> StageRun:
    """`whole`: outputs that later stages read; `dying`: inputs that nothing reads afterwards."""
    runner = _Runner(steps, whole, dying)
    result = runner.run()
    result.spans = spans_of(result, runner)
    return result


# ---- segments -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segment:
    """Steps [first, last] as one stage: its run, the memory it needs while it runs, and its row calls."""

    first: int
    last: int
    steps: tuple[Step, ...]
    run: StageRun
    peak: int
    instructions: int  # what its row calls cost beside the work itself


@dataclass(frozen=True)
class _Uses:
    """When each buffer is made and last read; a buffer nobody makes is an input."""

    made: Mapping[str, int]
    last: Mapping[str, int]

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
        return _Uses(made, last)


class _Search:
    """Segments of a program's steps and their costs; `runs` of the same steps may be shared."""

    def __init__(self, program: Program, runs: dict[tuple[int, int, int], StageRun]) -> None:
        self.program, self.runs = program, runs
        self.steps = program.steps
        self.uses = _Uses.of(program, self.steps)
        self.cache: dict[tuple[int, int, int], Segment] = {}
        self.reach: dict[int, int] = {}
        self.crossing = [self._crossing(border) for border in range(len(self.steps) + 1)]
        self.ring_bytes = [self._ring_bytes(index) for index in range(len(self.steps))]

    def _crossing(self, border: int) -> int:
        """The bytes of the tensors that live across the border before this step: each has to be whole."""
        sizes = self.program.buffers
        names = [name for name, made in self.uses.made.items() if made < border <= self.uses.last[name]]
        return sum(sizes[name].size for name in names)

    def _ring_bytes(self, index: int) -> int:
        """The least that a step's output takes inside a stage: the rows under a reader's window, if several."""
        step = self.steps[index]
        windows = [
            min(port.height, port.rule.span)
            for reader in self.steps[index + 1 : self.uses.last[step.output] + 1]
            for port in reader.inputs
            if port.source == step.output
        ]
        rows = max(windows, default=1)
        return rows * step.row_bytes if rows > 1 else 0

    def possible(self, first: int, last: int) -> bool:
        """Whether the steps [first, last] can run row by row together."""
        return first == last or (last - first < LONGEST_STAGE and self._reach(first) >= last)

    def _reach(self, first: int) -> int:
        """The last step that can join a stage that starts with `first`."""
        if first not in self.reach:
            last = first
            while last + 1 < len(self.steps) and self._joins(first, last + 1):
                last += 1
            self.reach[first] = last
        return self.reach[first]

    def _joins(self, first: int, last: int) -> bool:
        """Whether step `last` can run row by row with the steps before it."""
        step = self.steps[last]
        if step.kind is Walk.WHOLE or self.steps[first].kind is Walk.WHOLE:
            return False
        if step.images != 1 or self.steps[first].images != 1:
            return False
        made = {s.output: s for s in self.steps[first:last]}
        sources = [
            (made[port.source], port) for port in step.inputs if isinstance(port.source, str) and port.source in made
        ]
        return all(_same_rows(source, port) for source, port in sources)

    def alone(self, index: int) -> Segment:
        return self.segment(index, index)

    def segment(self, first: int, last: int, group: int = 1) -> Segment:
        """The stage [first, last], its pixelwise kernels making so many rows with every call."""
        key = (first, last, group)
        if key not in self.cache:
            self.cache[key] = self._make(first, last, group)
        return self.cache[key]

    def segments(self, first: int, last: int) -> Iterator[Segment]:
        """The stage [first, last] row by row, and with several rows a call where single rows waste much of a tile."""
        yield self.segment(first, last)
        if first != last and any(_waste(step) > WORTH_A_GROUP for step in self.steps[first : last + 1]):
            yield from (self.segment(first, last, group) for group in GROUPS)

    def _make(self, first: int, last: int, group: int) -> Segment:
        """A step alone takes all its rows at once where its kernel can."""
        steps = self.steps[first : last + 1]
        steps = (steps[0].collapsed(),) if len(steps) == 1 else tuple(step.grouped(group) for step in steps)
        key = (first, last, group)
        if key not in self.runs:
            whole = [step.output for step in steps if self.uses.last[step.output] > last]
            self.runs[key] = run_stage(steps, whole, self.dying(first, last))
        run = self.runs[key]
        problem = Problem(tuple(self._live(first, last, steps, run)), tuple(_overlays(run)))
        remainders = sum(_waste(step) * step.macs * per_mac(self.program) for step in steps)
        instructions = ROW_CALL_INSTRUCTIONS * len(run.calls) + int(remainders)
        return Segment(first, last, steps, run, memory.plan(problem, effort=Effort.QUICK).peak, instructions)

    def dying(self, first: int, last: int) -> list[str]:
        """Tensors made before the stage whose last reader is in it."""
        return [name for name, made in self.uses.made.items() if made < first and first <= self.uses.last[name] <= last]

    def _live(self, first: int, last: int, steps: Sequence[Step], run: StageRun) -> list[memory.Buffer]:
        """Every buffer that is live while the stage runs, the stage being number 0."""
        inner = stage_buffers(0, steps, run)
        sizes = self.program.buffers
        for name, made in self.uses.made.items():
            outside = made < first and self.uses.last[name] >= first
            leaves = first <= made <= last and self.uses.last[name] > last
            if outside or leaves:
                inner.append(memory.Buffer(name, sizes[name].size, (0, 0), (1, 0), ALIGNMENT))
        return inner


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
    for name, rows in run.rings.items():
        step = next(step for step in steps if step.output == name)
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


@dataclass(frozen=True)
class _Choice:
    """Stages up to some step: what their row calls cost and the highest of their peaks."""

    instructions: int
    peak: int
    stages: tuple[Segment, ...]

    def then(self, segment: Segment) -> "_Choice":
        cost = self.instructions + segment.instructions
        return _Choice(cost, max(self.peak, segment.peak), (*self.stages, segment))


def _cheapest(search: _Search, limit: int) -> _Choice | None:
    """The stages, each with a peak of at most `limit`, that make the fewest row calls.

    A stage of several steps only costs more calls, so it is tried only where some step alone is over the limit.
    """
    alone = [search.alone(index) for index in range(len(search.steps))]
    over = [index for index, segment in enumerate(alone) if segment.peak > limit]
    best: list[_Choice | None] = [_Choice(0, 0, ())]
    for last in range(len(search.steps)):
        choices = []
        before = best[last]
        if before is not None and alone[last].peak <= limit:
            choices.append(before.then(alone[last]))
        if search.crossing[last + 1] <= limit:
            choices += [before.then(segment) for before, segment in _longer(search, limit, best, over, last)]
        best.append(min(choices, key=lambda choice: choice.instructions, default=None))
    return best[-1]


def _longer(
    search: _Search, limit: int, best: Sequence[_Choice | None], over: Sequence[int], last: int
) -> Iterator[tuple[_Choice, Segment]]:
    """The stages of several steps that end with `last`, each with the best choice before it."""
    rings = 0
    for first in range(last - 1, -1, -1):
        rings += search.ring_bytes[first]
        if not search.possible(first, last) or rings + search.crossing[last + 1] > limit:
            return
        before = best[first]
        small = rings + search.crossing[first] <= limit  # rings lie beside every whole tensor of the stage
        if small and before is not None and any(first <= index <= last for index in over):
            yield from ((before, segment) for segment in search.segments(first, last) if segment.peak <= limit)


def _choose(search: _Search, optimize: Optimize, instructions: int) -> tuple[Segment, ...]:
    """The stages of a schedule; `instructions` estimates what the kernels themselves cost."""
    layers = _Choice(0, 0, ())
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
        found = _cheapest(search, limit)
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
            if len(covering) > 1 and search.possible(first, last) and search.segment(first, last).peak <= limit:
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

    @cached_property
    def plain(self) -> list[_Search]:
        return [_Search(one, {}) for one in branches.orders(self.program)]

    @cached_property
    def lean(self) -> list[_Search]:
        """Less scratch changes nothing in how a stage runs."""
        return [_Search(_lean(search.program), search.runs) for search in self.plain]

    def best(self, optimize: Optimize) -> "Planned":
        """For the lowest peak, lean kernels are tried too."""
        searches = [*self.plain, *(self.lean if optimize is Optimize.RAM else [])]
        chosen = [(search, _choose(search, optimize, kernel_instructions(search.program))) for search in searches]
        found = [_planned(self, search, segments) for search, segments in chosen]
        return min(found, key=lambda planned: planned.plan.peak)


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


def _planned(choice: _Choices, search: _Search, segments: Sequence[Segment]) -> Planned:
    program = search.program
    stages = [Stage(segment.steps) for segment in segments]
    runs = tuple(segment.run for segment in segments)
    rings = {name: rows for run in runs for name, rows in run.rings.items()}
    buffers = {
        name: replace(buffer, rows=rings[name]) if name in rings else buffer for name, buffer in program.buffers.items()
    }
    staged = replace(program, stages=tuple(stages), buffers=buffers)
    problem = memory_problem(staged, runs, search.uses)
    plan = memory.plan(problem)
    memory.validate(problem, plan)
    return Planned(choice, staged, runs, problem, plan)


def memory_problem(program: Program, runs: Sequence[StageRun], uses: _Uses) -> Problem:
    """Whole tensors live from stage to stage; rings and scratch within theirs."""
    starts, position = [], 0
    for stage in program.stages:
        starts.append(position)
        position += len(stage.steps)

    def stage_of(step: int) -> int:
        return max(0, sum(start <= step for start in starts) - 1)

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
