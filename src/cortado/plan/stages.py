"""A simulation of a stage's row loop (kernels/src/cortado_run.c) without data: the order in which rows are made.

From it follow the rows of a tensor that have to be kept, the buffers that are never live together, and how far an
output can overlay an input. It depends on which rows steps read and make, not on their width, so stages with the same
structure, anywhere in a network, are simulated once.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from cortado.ir.kernel import RowRule
from cortado.plan.program import Port, Step, Walk

NEVER = 1 << 30  # a row that no image has


@dataclass(frozen=True)
class StageRun:
    """The trace of a stage's run."""

    rows: Sequence[int]  # rows each step makes
    rings: Mapping[str, int]  # buffer -> rows it must hold
    spans: Mapping[str, tuple[int, int]]  # buffer -> first and last step while it is live
    leads: Mapping[tuple[str, str], int]  # (output, input) -> lead of an overlay
    calls: Sequence[tuple[int, int]]  # (step, row) in the order of execution


@lru_cache(maxsize=4096)
def _window(rule: RowRule, height: int, group: int, rows: int) -> tuple[tuple[int, int], ...]:
    """Returns for each of a reader's rows the oldest row that it reads, and one past the newest that the call starting
    with it reads."""
    firsts = [rule.first(y) for y in range(rows)]
    return tuple((max(0, first), min(height, first + rule.span + group - 1)) for first in firsts)


@dataclass(frozen=True, slots=True)
class _Link:
    """An operand of step `consumer`, and the rows that each of its rows reads: (oldest, one past the newest)."""

    consumer: int
    port: Port
    window: tuple[tuple[int, int], ...]


@dataclass
class _Walked:
    """A run by positions instead of names: positions of the stage's steps, and of the inputs that die in it."""

    rows: list[int]
    rings: dict[int, int] = field(default_factory=dict)  # step -> rows of its output that are kept
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    calls: list[tuple[int, int]] = field(default_factory=list)
    # (step, input) -> by the dead rows of the input for each of its readers: the most rows made by then
    made: dict[tuple[int, int], dict[tuple[int, ...], int]] = field(default_factory=dict)


class _Runner:
    """A simulation of the row loop: the last step that is ready always makes its next row."""

    def __init__(self, steps: Sequence[Step], whole: Iterable[str], dying: Sequence[str]) -> None:
        self.steps = steps
        self.whole = [step.output in set(whole) for step in steps]
        self.maker = {step.output: index for index, step in enumerate(steps)}
        self.needs: list[list[tuple[int, _Link]]] = [[] for _ in steps]  # step -> (maker, link) of its operands
        self.readers: list[list[_Link]] = [[] for _ in steps]  # step -> the links that read its output
        self.users: list[list[int]] = [[] for _ in steps]  # step -> the steps that read its output, last first
        self.outside: dict[str, list[_Link]] = {name: [] for name in dying}  # dying input -> the links that read it
        for index, step in enumerate(steps):
            for port in step.inputs:
                if isinstance(port.source, str):
                    self._connect(_Link(index, port, _window(port.rule, port.height, step.group, step.rows)))
        for users in self.users:
            users.sort(reverse=True)
        self.in_place = {
            (index, number): self._in_place(step, name)
            for index, step in enumerate(steps)
            for number, name in enumerate(dying)
            if self.whole[index]
        }
        # The rows of one call are contiguous: a ring wraps around only between calls.
        self.turns = [
            math.lcm(step.group, *(steps[link.consumer].group for link in links))
            for step, links in zip(steps, self.readers, strict=True)
        ]
        self.done = [0] * len(steps)
        self.there = [0] * len(steps)  # rows that can be read: an accumulating step has none until its end
        self.result = _Walked(rows=self._rows_needed())

    def _connect(self, link: _Link) -> None:
        source = str(link.port.source)
        if source in self.maker:
            maker = self.maker[source]
            self.needs[link.consumer].append((maker, link))
            self.readers[maker].append(link)
            self.users[maker].append(link.consumer)
        elif source in self.outside:
            self.outside[source].append(link)

    def _rows_needed(self) -> list[int]:
        """Returns the rows that each step makes; rows that nothing reads are not made."""
        rows = [step.rows for step in self.steps]
        for index in range(len(self.steps) - 1, -1, -1):
            if not self.whole[index] and self.steps[index].kind not in (Walk.ACCUMULATE, Walk.PUSHED):
                ends = [
                    link.window[self._last_call(link, rows)][1] for link in self.readers[index] if rows[link.consumer]
                ]
                rows[index] = max(ends, default=0)
        return rows

    def _last_call(self, link: _Link, rows: Sequence[int]) -> int:
        """Returns the row with which a reader's last call starts."""
        group = self.steps[link.consumer].group
        return (rows[link.consumer] - 1) // group * group

    def _in_place(self, step: Step, name: str) -> bool:
        """Whether an elementwise step can overwrite its operand: nothing else reads it."""
        mine = [port for port in step.inputs if port.source == name]
        if step.kind is not Walk.ELEMENTS or len(self.outside[name]) != 1 or len(mine) != 1:
            return False
        return mine[0].rule.stride != 0 and mine[0].row_bytes == step.row_bytes  # not from int8 to float

    def ready(self, index: int) -> bool:
        y = self.done[index]
        if y >= self.result.rows[index]:
            return False
        there = self.there
        for maker, link in self.needs[index]:  # noqa: SIM110, the search spends its time here and all() takes twice as long
            if there[maker] < link.window[y][1]:
                return False
        return True

    def run(self) -> _Walked:
        index = len(self.steps) - 1
        while index >= 0:
            if self.ready(index):
                self._call(index)
                for user in self.users[index]:
                    if self.ready(user):
                        index = user
                        break
            else:
                index -= 1
        self.result.spans = self._spans()
        return self.result

    def _call(self, index: int) -> None:
        step, y = self.steps[index], self.done[index]
        end = min(y + step.group, self.result.rows[index])
        self.result.calls.append((index, y))
        if self.whole[index]:
            if step.images == 1:  # else rows of the second image would be dead only after all of the first
                self._note_made(index, 1 if step.kind is Walk.ACCUMULATE else end)
        else:
            oldest = min([y, *map(self._oldest, self.readers[index])])
            rows = 1 if step.kind is Walk.ACCUMULATE else end - oldest
            rows += -rows % self.turns[index]
            if rows > self.result.rings.get(index, 0):
                self.result.rings[index] = rows
        self.done[index] = end
        self.there[index] = end if step.kind is not Walk.ACCUMULATE else int(end == self.result.rows[index])

    def _oldest(self, link: _Link) -> int:
        """Returns the oldest row that an operand's reader still needs."""
        y = self.done[link.consumer]
        return link.window[y][0] if y < self.result.rows[link.consumer] else NEVER

    def _note_made(self, index: int, rows: int) -> None:
        """Records, for `rows` output rows made by this call, which rows of the inputs that they can overlay are
        dead."""
        for number, links in enumerate(self.outside.values()):
            if not links:
                continue
            made = self.result.made.setdefault((index, number), {})
            if not self.in_place[index, number]:
                dead = tuple([self._dead_rows(link) for link in links])
                made[dead] = max(made.get(dead, 0), rows)

    def _dead_rows(self, link: _Link) -> int:
        return 0 if link.port.rule.stride == 0 else min(self._oldest(link), link.port.height)

    def _spans(self) -> dict[int, tuple[int, int]]:
        """Returns, for rings that one call fills, the range of steps that run between that call and the last use of its
        rows."""
        rows, rings = self.result.rows, self.result.rings
        spans: dict[int, tuple[int, int]] = {}
        live: dict[int, int] = {}  # step -> the newest row that its ring holds
        done = [0] * len(self.steps)
        for index, y in self.result.calls:
            step = self.steps[index]
            done[index] = end = min(y + step.group, rows[index])
            if rings.get(index) == step.group:
                live[index] = end - 1
            for maker in live:
                low, high = spans.get(maker, (index, index))
                spans[maker] = (min(low, index), max(high, index))
            # Only this step has advanced, so only its output and operands can have died.
            for maker in {index, *(maker for maker, _ in self.needs[index])}:
                if maker in live and self._is_over(maker, live[maker], done):
                    del live[maker]
        return spans

    def _is_over(self, maker: int, row: int, done: Sequence[int]) -> bool:
        """Whether no reader needs this row of a step any more."""
        for link in self.readers[maker]:
            y = done[link.consumer]
            if y < self.result.rows[link.consumer] and link.window[y][0] <= row:
                return False
        return True


def _named(walked: _Walked, steps: Sequence[Step], dying: Sequence[str]) -> StageRun:
    """Translates a run to the names of these steps, which can differ from those that were run but have the same
    structure."""
    widths: dict[str, list[int]] = {}  # of the rows that each reader of a tensor sees
    for port in [port for step in steps for port in step.inputs if isinstance(port.source, str)]:
        widths.setdefault(str(port.source), []).append(port.row_bytes)
    return StageRun(
        rows=walked.rows,
        rings={steps[index].output: rows for index, rows in walked.rings.items()},
        spans={steps[index].output: span for index, span in walked.spans.items()},
        leads={
            (steps[index].output, dying[number]): _lead(steps[index].row_bytes, widths[dying[number]], made)
            for (index, number), made in walked.made.items()
        },
        calls=walked.calls,
    )


def _lead(row_bytes: int, widths: Sequence[int], made: Mapping[tuple[int, ...], int]) -> int:
    """Returns the most bytes by which writing rows of an output runs ahead of the last read of an input."""
    ahead = [
        rows * row_bytes - min([width * row for width, row in zip(widths, dead, strict=True)])
        for dead, rows in made.items()
    ]
    return max([0, *ahead])


class StageRuns:
    """A cache of runs by the structure of their stages."""

    def __init__(self) -> None:
        self.known: dict[Hashable, _Walked] = {}
        self.calls = 0  # rows that were actually simulated

    def run(self, structure: Hashable, steps: Sequence[Step], whole: Iterable[str], dying: Sequence[str]) -> StageRun:
        """Returns the run of a stage; those of equal structure make the same rows in the same order, and differ only in
        names and widths. `whole`: outputs that later stages read; `dying`: inputs that nothing reads afterwards."""
        if structure not in self.known:
            self.known[structure] = _Runner(steps, whole, dying).run()
            self.calls += len(self.known[structure].calls)
        return _named(self.known[structure], steps, dying)
