"""In which order the branches of a network run: orders of a program's steps that promise a lower peak.

Where a network forks, one branch may run before the other. The orders are weighed here by the bytes that live while the
steps run one after the other; the schedule then compares the few that are left by the planner's true peak.

The search follows all beginnings of an order at once, step by step, and of those with the same steps only the best.
That is exact. Where more than STATES of equal length are left (many branches side by side), it starts again in a hurry:
what frees memory at no price runs at once, and each length gets a fixed share of WORK.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from cortado.memory.problem import SearchEffort
from cortado.plan.program import Program, Step, Walk

STATES = 256  # of equally long beginnings that are followed up; fewer are there in nearly all networks
WORK = 100_000  # beginnings looked at by one search in a hurry


class _Begin(NamedTuple):
    """Steps in some order: what was highest among their costs, the sum of their costs, and the bytes that live.

    `done` is the set of steps as the bits of a number, as all sets of steps here are.
    """

    highest: int
    total: int
    place: int  # where the order without its last step comes among others of its length
    last: int
    live: int
    done: int
    before: "_Begin | None"  # the order without its last step
    ready: tuple[int, ...]  # the steps that can come next

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Ranks orders; of equally good ones the one nearest to the network's own comes first."""
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
    """The steps of a program and who waits for whom."""

    program: Program

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        return self.program.steps

    @cached_property
    def sources(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Step -> the tensors it reads: the steps that read each, and its bytes."""
        sizes = self.program.buffers
        names = [_sources(step) for step in self.steps]
        return tuple(tuple((self.readers[name], sizes[name].size) for name in sorted(found)) for found in names)

    @cached_property
    def readers(self) -> dict[str, int]:
        """Buffer -> the steps that read it; an output of the program is read by a step that never comes."""
        found: dict[str, int] = {}
        for index, step in enumerate(self.steps):
            for name in _sources(step):
                found[name] = found.get(name, 0) | 1 << index
        for name in self.program.leaving:
            found[name] = found.get(name, 0) | 1 << len(self.steps)
        return found

    @cached_property
    def waits(self) -> tuple[int, ...]:
        """Step -> the steps whose outputs it reads."""
        made = {name: 1 << index for index, step in enumerate(self.steps) for name in step.outputs}
        return tuple(_union(made.get(name, 0) for name in _sources(step)) for step in self.steps)

    @cached_property
    def followers(self) -> tuple[tuple[int, ...], ...]:
        """Step -> the steps that read its output."""
        found: list[list[int]] = [[] for _ in self.steps]
        for index, waits in enumerate(self.waits):
            for before in _members(waits):
                found[before].append(index)
        return tuple(map(tuple, found))

    @cached_property
    def made(self) -> tuple[int, ...]:
        """Step -> the bytes of its outputs that stay: none if nobody reads them."""
        sizes = self.program.buffers
        return tuple(sum(sizes[name].size for name in step.outputs if name in self.readers) for step in self.steps)

    @cached_property
    def needs(self) -> tuple[tuple[int, int, bool], ...]:
        """Step -> the bytes of its outputs and of its scratch, and whether it can write over an operand."""
        sizes = [sum(self.program.buffers[name].size for name in step.outputs) for step in self.steps]
        pairs = zip(self.steps, sizes, strict=True)
        return tuple((size, step.scratch, step.kind is Walk.ELEMENTS and not step.also) for step, size in pairs)

    @property
    def start(self) -> _Begin:
        inputs = set(self.program.entering) & self.readers.keys()
        live = sum(self.program.buffers[name].size for name in inputs)
        ready = tuple(index for index, waits in enumerate(self.waits) if not waits)
        return _Begin(0, 0, 0, 0, live, 0, None, ready)

    def longer(self, begin: _Begin, index: int, place: int, cost: "_Cost") -> _Begin:
        """The order and one more of the steps that could come next; `place` is the order's among its like."""
        done = begin.done | 1 << index
        dying = [size for readers, size in self.sources[index] if not readers & ~done]
        live = begin.live + self.made[index] - sum(dying)
        value = cost(self, index, begin.live, live, dying)
        # What can come next is found when the order is followed up: most are not.
        return _Begin(max(begin.highest, value), begin.total + value, place, index, live, done, begin, ())

    def readied(self, begin: _Begin) -> _Begin:
        """With the steps that can come next, once its last step is done."""
        assert begin.before is not None
        new = [index for index in self.followers[begin.last] if not self.waits[index] & ~begin.done]
        kept = [index for index in begin.before.ready if index != begin.last]
        return begin._replace(ready=tuple(sorted(kept + new)))

    def exact(self, cost: "_Cost") -> tuple[_Begin | None, int]:
        """The order with the lowest peak of `cost`, if STATES suffices, and how many beginnings were looked at."""
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
        """A good order, and how many beginnings were looked at: at most WORK, and one for each choice along the way."""
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
        """Beginnings in the order of their places, ready to be followed up."""
        return [self.readied(begin) for begin in sorted(begins, key=lambda begin: (begin.place, begin.last))]

    @staticmethod
    def _useful(choices: list[_Begin], begin: _Begin) -> list[_Begin]:
        """All choices; or the one that leaves no more bytes than before and raises the peak no more than any must."""
        floor = min(choice.highest for choice in choices)
        free = [choice for choice in choices if choice.live <= begin.live and choice.highest == floor]
        return [min(free, key=lambda choice: choice.rank)] if free else choices


_Cost = Callable[[_Forks, int, int, int, list[int]], int]
"""The bytes that count for a step, from those that live before and after it and the sizes of what it reads last."""


def _working_set(forks: _Forks, index: int, before: int, after: int, dying: list[int]) -> int:
    """Live bytes while the step runs layer by layer; an elementwise step writes over an operand that dies."""
    size, scratch, elementwise = forks.needs[index]
    return before + scratch if elementwise and size in dying else before + scratch + size


def _standing(forks: _Forks, index: int, before: int, after: int, dying: list[int]) -> int:
    """Live bytes between this step and the next: what remains if a cascade ends here."""
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
    """The program as it is, then in the orders that promise less memory, none of them twice."""

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
