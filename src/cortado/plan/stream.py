"""A stream of rows: a network over time that gives, after a new row, the output for the window that the row completes.

Each step makes a row once and never again. Nothing reads padding: where the network pads the window, rows are counted
with an offset, so that row r of a tensor here is row r + offset of the same tensor in the window. If the output needs a
row that depends on padding, no such stream exists.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cortado.base.errors import CortadoError
from cortado.ir.kernel import RowRule
from cortado.memory import planner
from cortado.memory.problem import Buffer, Effort, Problem, SearchEffort
from cortado.memory.validate import validate
from cortado.plan.planned import Planned, decision_buffers, guarded
from cortado.plan.program import PUSHED_ROWS, Port, Program, Stage, Step, Stream, Tensor, Walk, place_of
from cortado.plan.segments import ALIGNMENT, same_rows, stage_buffers
from cortado.plan.stages import StageRun

LONGEST = 200  # steps: a port names its source in 8 bits
MOST_ROWS = 0x3FFF  # between steps: half the range of their counters
_PERIODS = 4  # of outputs that are simulated to find what has to be kept


@dataclass(frozen=True)
class _Time:
    """A tensor in time: row r is row r + offset of the window's tensor, valid from row `valid` of that on."""

    offset: int
    valid: int
    hop: int  # input rows between two of its rows
    padded: str = ""  # the first layer whose padding its rows depend on


def streamed(program: Program, dim: int, lines: Mapping[str, str]) -> Program:
    """Builds the program over a stream of rows. `lines`: of the user's file, by step, for messages."""
    return _Streamed(program, dim, lines).build()


class _Streamed:
    def __init__(self, program: Program, dim: int, lines: Mapping[str, str]) -> None:
        self.program, self.dim, self.lines = program, dim, lines
        self.times: dict[str, _Time] = {}
        self.makers: dict[str, Step] = {}

    def build(self) -> Program:
        pushed, program = self.program.pushed, self.program
        assert pushed is not None
        self._check_border(pushed)
        self._made(pushed, _Time(0, 0, 1))
        steps = [pushed, *(self._step(step) for step in program.steps[1:])]
        if len(steps) > LONGEST:
            raise CortadoError(f"{program.name} has {len(steps)} layers, expected at most {LONGEST} in a stream")
        buffers = {name: one for name, one in program.buffers.items() if name != PUSHED_ROWS}
        whole = replace(program, buffers=buffers, stages=(Stage(tuple(steps)),))
        found = {tensor.buffer: self._output(tensor, steps, pushed.rows) for tensor in program.outputs}
        firsts = {one.first for one in found.values()}
        if len(firsts) > 1 or len({one.hop for one in found.values()}) > 1:
            of = [(tensor.name, found[tensor.buffer]) for tensor in program.outputs]
            rows = ", ".join(f"'{name}' after {one.first}, then after every {one.hop}" for name, one in of)
            raise CortadoError(
                f"the outputs of {program.name} don't come with the same rows ({rows}), expected all outputs to read "
                "the newest row, and equally often"
            )
        return replace(whole, stream=next(found[name] for name in steps[-1].outputs if name in found))

    def _output(self, tensor: Tensor, steps: Sequence[Step], window: int) -> Stream:
        """Returns the stream that gives an output."""
        output = self.makers[tensor.buffer]
        if output.rows != 1 and not output.one_row:
            raise CortadoError(
                f"{self.program.name} gives {output.rows} rows in time, expected one for the newest row: let the model "
                "return only the last row, as in x[:, :, -1:]"
            )
        return self._stream(steps, window, output)

    def _check_border(self, pushed: Step) -> None:
        program = self.program
        rows = _rows_dim(program.inputs[0], pushed.rows)
        if rows != self.dim:
            raise CortadoError(
                f"input '{program.inputs[0].name}' comes in rows of dimension {rows}, but --stream says that dimension "
                f"{self.dim} is time; expected --stream {rows}, or a model whose input has time in dimension {rows}"
            )

    def _made(self, step: Step, time: _Time) -> None:
        for name in step.outputs:
            self.times[name], self.makers[name] = time, step

    def _place(self, step: Step) -> str:
        line = self.lines.get(step.name, "")
        return place_of(step) + (f" at {line}" if line else "")

    def _refuse(self, step: Step, why: str) -> CortadoError:
        return CortadoError(f"{self._place(step)} {why}, so {self.program.name} can't run as a stream")

    def _step(self, step: Step) -> Step:
        ports = [port for port in step.inputs if isinstance(port.source, str)]
        for port in step.inputs:
            self._check(step, port)
        if not ports:
            raise self._refuse(step, "reads nothing that has a time dimension")
        hops = {self.times[str(port.source)].hop * port.rule.stride for port in ports}
        if len(hops) > 1:
            raise self._refuse(step, "joins rows that come at different rates")
        time = self._running(step, ports[0]) if step.kind is Walk.RUNNING else self._window(step, ports, hops.pop())
        self._made(step, time)
        return replace(step, inputs=tuple(self._port(port, time, step) for port in step.inputs))

    def _check(self, step: Step, port: Port) -> None:
        """Refuses an operand that this step can't read as its rows come."""
        if not isinstance(port.source, str):
            if port.height != 1 and port.rule.stride != 0:
                raise self._refuse(step, f"has constants for each of {port.height} rows")
            return
        maker = self.makers[port.source]
        if port.rule.stride == 0 or not same_rows(maker, port) or step.images != 1 or step.kind is Walk.ACCUMULATE:
            raise self._refuse(step, f"needs all {maker.rows} rows of what it reads at once")
        if step.kind is Walk.WHOLE and port.height != 1:
            raise self._refuse(step, f"needs all {maker.rows} rows of what it reads at once")
        if port.rule.repeat != 1:
            raise self._refuse(step, "makes several rows of one")

    def _window(self, step: Step, ports: Sequence[Port], hop: int) -> _Time:
        times = [(self.times[str(port.source)], port.rule) for port in ports]
        first = max(math.ceil((max(time.offset, time.valid) + rule.pad) / rule.stride) for time, rule in times)
        padded = next((time.padded for time, _ in times if time.padded), "")
        if not padded and first > 0:
            padded = self._place(step)
        return _Time(max(first, 0), max(first, 0), hop, padded)

    def _running(self, step: Step, port: Port) -> _Time:
        time = self.times[str(port.source)]
        return replace(time, offset=time.offset - (step.rows - 1))

    def _port(self, port: Port, time: _Time, step: Step) -> Port:
        if not isinstance(port.source, str):
            return port
        mine, rule = self.times[port.source], port.rule
        skipped = 0 if step.kind is Walk.RUNNING else time.offset * rule.stride - rule.pad - mine.offset
        return replace(port, rule=RowRule(rule.taps, rule.stride, -skipped, rule.dilation))

    def _stream(self, steps: Sequence[Step], window: int, output: Step) -> Stream:
        last = self.times[output.output]
        warm_up = last.valid - last.offset
        first = _first_output(steps, output, warm_up)
        if last.valid > 0 or first > window:
            raise self._padding(last, first)
        offsets = {step.name: self.times[step.output].offset for step in steps}
        return Stream(window=window, hop=last.hop, first=first, warm_up=warm_up, offsets=offsets)

    def _padding(self, last: _Time, first: int) -> CortadoError:
        below = [step for step in self.program.steps[1:] if any(_reads_below(step, port) for port in step.inputs)]
        where = last.padded or (self._place(below[0]) if below else self.program.name)
        return CortadoError(
            f"{where} pads in time, and the output depends on it: an endless stream has no padding in its middle. "
            "Expected a model without padding in time, or with zeros before the first row only that its output does "
            f"not reach. Without padding, as in padding=(0, 1), a window of {first} rows gives what this network gives "
            "in the middle of a longer sequence: --stream-padding drop compiles that model if nn.Conv2d and pools "
            "pad; or write that model yourself, with calibration data of that many rows"
        )


def _reads_below(step: Step, port: Port) -> bool:
    """Whether some output row reads below the last input row."""
    rows = 1 if step.one_row else step.rows
    return port.rule.stride > 0 and not step.one_row and port.rule.first(rows - 1) + port.rule.span > port.height


def samples_of(tensor: Tensor, rows: int) -> int:
    """Returns the number of samples of a signal in a row; 0 if rows are those of an image."""
    length = max(tensor.shape, default=0)
    is_signal = math.prod(tensor.shape) == length and length % rows == 0 and length != rows
    return length // rows if is_signal else 0


def _rows_dim(tensor: Tensor, rows: int) -> int:
    """Returns the dimension of the model's input whose elements are the rows in memory."""
    for position, size in enumerate(tensor.shape):
        if size == rows or (samples_of(tensor, rows) and size != 1):
            return tensor.layout[position]
        if size != 1:
            break
    raise CortadoError(f"input '{tensor.name}' has no dimension of {rows} rows; its shape is {list(tensor.shape)}")


# ---- the order of rows ---------------------------------------------------------------------------------------


def _needs(step: Step) -> list[tuple[str, RowRule]]:
    return [(port.source, port.rule) for port in step.inputs if isinstance(port.source, str)]


@dataclass
class _Walk:
    """A simulation of cortado_stream.c without data: each pushed row gives every step one row or none."""

    steps: Sequence[Step]
    made: dict[str, int] = field(default_factory=dict)
    rings: dict[str, int] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)  # tensors with a row that is needed after the push that made it
    calls: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.made = {name: 0 for step in self.steps for name in step.outputs}
        self.readers: dict[str, list[tuple[Step, RowRule]]] = {name: [] for name in self.made}
        for step in self.steps:
            for source, rule in _needs(step):
                self.readers[source].append((step, rule))

    def _oldest(self, name: str) -> int:
        """Returns the oldest row of a tensor that a reader still needs."""
        return min((rule.first(self.made[step.output]) for step, rule in self.readers[name]), default=self.made[name])

    def _make(self, position: int, step: Step) -> None:
        row = self.made[step.output]
        self.calls.append((position, row))
        for name in step.outputs:
            self.made[name] = row + 1
            self.rings[name] = max(self.rings.get(name, 1), row + 1 - self._oldest(name))

    def _is_ready(self, step: Step) -> bool:
        y = self.made[step.output]
        return all(self.made[source] >= rule.first(y) + rule.span for source, rule in _needs(step))

    def push(self) -> None:
        for position, step in enumerate(self.steps):
            if position == 0 or self._is_ready(step):
                self._make(position, step)
        self.kept |= {name for name, rows in self.made.items() if self._oldest(name) < rows}


def _first_output(steps: Sequence[Step], output: Step, warm_up: int) -> int:
    """Returns the number of rows until the first output of a step."""
    walk, rows = _Walk(steps), 0
    while walk.made[output.output] <= warm_up:
        walk.push()
        rows += 1
        if rows > MOST_ROWS:
            raise CortadoError(f"the first output would need more than {MOST_ROWS} rows, which a stream can't count")
    return rows


def run_rows(program: Program, rows_pushed: int) -> StageRun:
    """Simulates `rows_pushed` rows: their calls, and what has to be kept from then on."""
    steps, stream = program.steps, program.stream
    assert stream is not None
    walk = _Walk(steps)
    for _ in range(rows_pushed):
        walk.push()
    calls, rows = tuple(walk.calls), [walk.made[step.output] for step in steps]
    for _ in range(max(0, stream.first - rows_pushed) + _PERIODS * stream.hop):
        walk.push()
    outputs = {tensor.buffer for tensor in program.outputs}
    place = {name: position for position, step in enumerate(steps) for name in step.outputs}
    last = {name: max((place[step.output] for step, _ in walk.readers[name]), default=0) for name in walk.made}
    spans = {
        name: (position, max(last[name], position))
        for name, position in place.items()
        if walk.rings[name] == 1 and name not in walk.kept and name not in outputs
    }
    return StageRun(rows=rows, rings=walk.rings, spans=spans, leads={}, calls=calls)


def plan_stream(program: Program) -> Planned:
    """Plans a stream: it has one stage, so only the offsets of its buffers are chosen."""
    assert program.stream is not None
    run = run_rows(program, program.stream.first)  # the part of one window that its output reads
    assert all(run.rings[tensor.buffer] == 1 for tensor in program.outputs)  # each has a single place
    buffers = {name: replace(one, rows=run.rings[name]) for name, one in program.buffers.items() if name in run.rings}
    problem = Problem((*stage_buffers(0, program.steps, run), *decision_buffers(program)))
    wide = guarded(problem)
    plan, checked = planner.plan(problem), planner.plan(wide, effort=Effort.QUICK)
    validate(problem, plan)
    validate(wide, checked)
    none = SearchEffort(0, 0, exhausted=False)
    return Planned(
        program=replace(program, buffers=buffers),
        runs=(run,),
        in_place={},
        problem=problem,
        plan=plan,
        checked=checked,
        spent={"orders": none, "stages": none, "offsets": plan.spent},
    )


def state_bytes(planned: Planned) -> int:
    """Returns the bytes of the buffers that are live between two rows."""
    return sum(_aligned(buffer) for buffer in planned.problem.buffers if buffer.start <= (0, 0) < buffer.end)


def _aligned(buffer: Buffer) -> int:
    return buffer.size + -buffer.size % ALIGNMENT


def push_macs(planned: Planned) -> tuple[int, int]:
    """Returns the multiply-accumulates of the largest push, and of one output."""
    stream = planned.program.stream
    assert stream is not None
    steps, walk = planned.program.steps, _Walk(planned.program.steps)
    for _ in range(stream.first):
        walk.push()
    pushes = []
    for _ in range(stream.hop):
        before = len(walk.calls)
        walk.push()
        pushes.append(sum(_row_macs(steps[position]) for position, _ in walk.calls[before:]))
    return max(pushes), sum(pushes)


def _row_macs(step: Step) -> int:
    return step.macs // step.rows
