"""The order in which the branches of a network run: orders of a program's steps with a low peak.

Where a network forks, either branch can run first. Orders are compared here by the bytes that are live while the steps
run one after the other; the schedule then compares the few best by the planner's true peak.

The search extends all prefixes of an order at once, step by step, and keeps only the best of those with the same set of
steps. That is exact. If more than STATES prefixes of one length remain (many parallel branches), it restarts as a
bounded search: a step that frees memory without raising the peak runs at once, and each length gets a fixed share of
WORK.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from cortado.memory.problem import SearchEffort
from cortado.plan.program import Program, Step, Walk

STATES = 256  # prefixes of one length that the exact search keeps; nearly all networks have fewer
WORK = 100_000  # prefixes visited by one bounded search


class _Begin(NamedTuple):
    """A prefix of an order: the highest of its steps' costs, their sum, and the live bytes after it.

    `done` is the set of its steps as a bit mask, as are all sets of steps in this module.
    """

    highest: int
    total: int
    place: int  # the position of the order without its last step among those of its length
    last: int
    live: int
    done: int
    before: "_Begin | None"  # the order without its last step
    ready: tuple[int, ...]  # the ready set: the steps that can come next

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """The sort key of orders; among equally good ones the one nearest to the network's own is first."""
        return self.highest, self.total, self.place, self.last

    @property
    def order(self) -> tuple[int, ...]:
        steps: list[int] = []
        begin = self
        while begin.before is not None:
            steps.append(begin.last)
            begin = begin.before
        return tuple(reversed(steps))


@dataclass(frozen=True)
class _Forks:
    """The steps of a program and their dependences."""

    program: Program

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        return self.program.steps

    @cached_property
    def sources(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Maps each step to the tensors it reads: the set of steps that read each, and its bytes."""
        sizes = self.program.buffers
        names = [_sources(step) for step in self.steps]
        return tuple(tuple((self.readers[name], sizes[name].size) for name in sorted(found)) for found in names)

    @cached_property
    def readers(self) -> dict[str, int]:
        """Maps each buffer to the set of steps that read it; a program output has an extra reader that never runs."""
        found: dict[str, int] = {}
        for index, step in enumerate(self.steps):
            for name in _sources(step):
                found[name] = found.get(name, 0) | 1 << index
        for name in self.program.leaving:
            found[name] = found.get(name, 0) | 1 << len(self.steps)
        return found

    @cached_property
    def waits(self) -> tuple[int, ...]:
        """Maps each step to the set of its predecessors."""
        made = {name: 1 << index for index, step in enumerate(self.steps) for name in step.outputs}
        return tuple(_union(made.get(name, 0) for name in _sources(step)) for step in self.steps)

    @cached_property
    def followers(self) -> tuple[tuple[int, ...], ...]:
        """Maps each step to its successors."""
        found: list[list[int]] = [[] for _ in self.steps]
        for index, waits in enumerate(self.waits):
            for before in _members(waits):
                found[before].append(index)
        return tuple(map(tuple, found))

    @cached_property
    def made(self) -> tuple[int, ...]:
        """Maps each step to the bytes of its outputs that are read later."""
        sizes = self.program.buffers
        return tuple(sum(sizes[name].size for name in step.outputs if name in self.readers) for step in self.steps)

    @cached_property
    def needs(self) -> tuple[tuple[int, int, bool], ...]:
        """Maps each step to the bytes of its outputs, those of its scratch, and whether it can run in place."""
        sizes = [sum(self.program.buffers[name].size for name in step.outputs) for step in self.steps]
        pairs = zip(self.steps, sizes, strict=True)
        return tuple(
            (size, step.scratch, step.kind is Walk.ELEMENTS and not step.extra_results) for step, size in pairs
        )

    @property
    def start(self) -> _Begin:
        inputs = set(self.program.entering) & self.readers.keys()
        live = sum(self.program.buffers[name].size for name in inputs)
        ready = tuple(index for index, waits in enumerate(self.waits) if not waits)
        return _Begin(0, 0, 0, 0, live, 0, None, ready)

    def longer(self, begin: _Begin, index: int, place: int, cost: "_Cost") -> _Begin:
        """Appends a ready step to a prefix; `place` is the prefix's position among those of its length."""
        done = begin.done | 1 << index
        dying = [size for readers, size in self.sources[index] if not readers & ~done]
        live = begin.live + self.made[index] - sum(dying)
        value = cost(self, index, begin.live, live, dying)
        # The ready set is computed only for prefixes that are kept: most are not.
        return _Begin(max(begin.highest, value), begin.total + value, place, index, live, done, begin, ())

    def readied(self, begin: _Begin) -> _Begin:
        """Returns the prefix with its ready set, updated after its last step."""
        assert begin.before is not None
        new = [index for index in self.followers[begin.last] if not self.waits[index] & ~begin.done]
        kept = [index for index in begin.before.ready if index != begin.last]
        return begin._replace(ready=tuple(sorted(kept + new)))

    def exact(self, cost: "_Cost") -> tuple[_Begin | None, int]:
        """Returns the order with the lowest peak of `cost`, or None if it takes more than STATES prefixes, and the
        number of prefixes visited."""
        begins, looked = [self.start], 0
        for _ in self.steps:
            found: dict[int, _Begin] = {}
            for place, begin in enumerate(begins):
                for index in begin.ready:
                    longer = self.longer(begin, index, place, cost)
                    looked += 1
                    other = found.get(longer.done)
                    if other is None or longer.rank < other.rank:
                        found[longer.done] = longer
            if len(found) > STATES:
                return None, looked
            begins = self._follow(found.values())
        return min(begins, key=lambda begin: begin.rank), looked

    def hurried(self, cost: "_Cost") -> tuple[_Begin, int]:
        """Returns a good order and the number of prefixes visited: at most WORK, but always the choices after one
        prefix per length."""
        begins, looked, share = [self.start], 0, WORK // max(1, len(self.steps))
        for _ in self.steps:
            found: dict[int, _Begin] = {}
            here = 0
            for place, begin in sorted(enumerate(begins), key=lambda pair: pair[1].rank):
                if here and here + len(begin.ready) > share:
                    break
                here += len(begin.ready)
                for longer in self._useful([self.longer(begin, index, place, cost) for index in begin.ready], begin):
                    if longer.done not in found or longer.rank < found[longer.done].rank:
                        found[longer.done] = longer
            looked += here
            begins = self._follow(sorted(found.values(), key=lambda begin: begin.rank)[:STATES])
        return min(begins, key=lambda begin: begin.rank), looked

    def _follow(self, begins: Iterable[_Begin]) -> list[_Begin]:
        """Returns the prefixes in the order of their places, with their ready sets."""
        return [self.readied(begin) for begin in sorted(begins, key=lambda begin: (begin.place, begin.last))]

    @staticmethod
    def _useful(choices: list[_Begin], begin: _Begin) -> list[_Begin]:
        """Returns all choices, or just one that leaves no more bytes live than before and raises the peak no more than
        every choice must."""
        floor = min(choice.highest for choice in choices)
        free = [choice for choice in choices if choice.live <= begin.live and choice.highest == floor]
        return [min(free, key=lambda choice: choice.rank)] if free else choices


_Cost = Callable[[_Forks, int, int, int, list[int]], int]
"""The cost of a step in bytes, from the live bytes before and after it and the sizes of the operands that die in it."""


def _working_set(forks: _Forks, index: int, before: int, after: int, dying: list[int]) -> int:
    """Returns the live bytes while the step runs layer by layer; an elementwise step overwrites an operand that
    dies."""
    size, scratch, elementwise = forks.needs[index]
    return before + scratch if elementwise and size in dying else before + scratch + size


def _standing(forks: _Forks, index: int, before: int, after: int, dying: list[int]) -> int:
    """Returns the live bytes between this step and the next: what remains if a cascade ends here."""
    return after


def _sources(step: Step) -> set[str]:
    return {port.source for port in step.inputs if isinstance(port.source, str)}


def _union(sets: Iterable[int]) -> int:
    found = 0
    for one in sets:
        found |= one
    return found


def _members(steps: int) -> list[int]:
    return [index for index in range(steps.bit_length()) if steps >> index & 1]


@dataclass(frozen=True)
class CandidateOrders:
    """The program in its own order, then in the orders that promise less memory, without duplicates."""

    programs: tuple[Program, ...]
    spent: SearchEffort


def orders(program: Program) -> CandidateOrders:
    """Returns the orders worth scheduling."""
    forks = _Forks(program)
    own = tuple(range(len(program.stages)))
    found, looked, hurried = [own], 0, False
    for cost in (_working_set, _standing):
        best, work = forks.exact(cost)
        looked += work
        if best is None:
            best, work = forks.hurried(cost)
            looked, hurried = looked + work, True
        found.append(best.order)
    programs = [replace(program, stages=tuple(program.stages[i] for i in order)) for order in dict.fromkeys(found)]
    return CandidateOrders(tuple(programs), SearchEffort(looked, 2 * WORK, hurried))
