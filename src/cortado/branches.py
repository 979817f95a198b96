"""In which order the branches of a network run: orders of a program's steps that promise a lower peak.

Where a network forks, one branch may run before the other. The orders are weighed here by the bytes that live while the
steps run one after the other; the schedule then compares the few that are left by the planner's true peak.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from cortado.program import Program, Step, Walk

STATES = 256  # of equally long beginnings that are followed up; fewer are there in nearly all networks


@dataclass(frozen=True)
class _Begin:
    """Steps in some order: what was highest among their costs, the sum of their costs, and which tensors live.

    `done` is the set of steps as the bits of a number, as all sets of steps here are.
    """

    highest: int
    total: int
    order: tuple[int, ...]
    done: int
    live: frozenset[str]

    @property
    def rank(self) -> tuple[int, int, tuple[int, ...]]:
        """Of equally good orders the one nearest to the network's own comes first."""
        return self.highest, self.total, self.order


@dataclass(frozen=True)
class _Forks:
    """The steps of a program and who waits for whom."""

    program: Program

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        return self.program.steps

    @cached_property
    def readers(self) -> dict[str, int]:
        """Buffer -> the steps that read it; an output of the program is read by a step that never comes."""
        found: dict[str, int] = {}
        for index, step in enumerate(self.steps):
            for name in _sources(step):
                found[name] = found.get(name, 0) | 1 << index
        for tensor in self.program.outputs:
            found[tensor.buffer] = found.get(tensor.buffer, 0) | 1 << len(self.steps)
        return found

    @cached_property
    def waits(self) -> tuple[int, ...]:
        """Step -> the steps whose outputs it reads."""
        made = {step.output: 1 << index for index, step in enumerate(self.steps)}
        return tuple(sum(made.get(name, 0) for name in _sources(step)) for step in self.steps)

    def bytes(self, names: frozenset[str]) -> int:
        return sum(self.program.buffers[name].size for name in names)

    def next(self, begin: _Begin, cost: "_Cost") -> Iterator[_Begin]:
        """The order, longer by each step that could come next."""
        for index, step in enumerate(self.steps):
            done = begin.done | 1 << index
            if done != begin.done and self.waits[index] & ~begin.done == 0:
                dead = {name for name in _sources(step) if self.readers[name] & ~done == 0}
                made = {step.output} & self.readers.keys()
                live = begin.live - dead | made
                value = cost(self, step, begin.live, live)
                highest, total = max(begin.highest, value), begin.total + value
                yield _Begin(highest, total, (*begin.order, index), done, live)

    def best(self, cost: "_Cost") -> tuple[int, ...]:
        """The order with the lowest peak of `cost`; exact as long as STATES is not exceeded."""
        inputs = {tensor.buffer for tensor in self.program.inputs}
        begins = [_Begin(0, 0, (), 0, frozenset(inputs & self.readers.keys()))]
        for _ in self.steps:
            found: dict[int, _Begin] = {}
            for begin in begins:
                for longer in self.next(begin, cost):
                    if longer.done not in found or longer.rank < found[longer.done].rank:
                        found[longer.done] = longer
            begins = sorted(found.values(), key=lambda begin: begin.rank)[:STATES]
        return begins[0].order


_Cost = Callable[[_Forks, Step, frozenset[str], frozenset[str]], int]


def _working_set(forks: _Forks, step: Step, before: frozenset[str], after: frozenset[str]) -> int:
    """What lives while the step runs layer by layer; an elementwise step writes over an operand that dies."""
    sizes = forks.program.buffers
    alive = forks.bytes(before | after | {step.output}) + step.scratch
    dying = [sizes[name].size for name in before - after]
    in_place = step.kind is Walk.ELEMENTS and sizes[step.output].size in dying
    return alive - sizes[step.output].size if in_place else alive


def _standing(forks: _Forks, step: Step, before: frozenset[str], after: frozenset[str]) -> int:
    """What lives between this step and the next: what a cascade can't take apart if it ends here."""
    return forks.bytes(after)


def _sources(step: Step) -> set[str]:
    return {port.source for port in step.inputs if isinstance(port.source, str)}


def orders(program: Program) -> list[Program]:
    """The program as it is, then in the orders that promise less memory, none of them twice."""
    forks = _Forks(program)
    own = tuple(range(len(program.stages)))
    found = dict.fromkeys([own, forks.best(_working_set), forks.best(_standing)])
    return [replace(program, stages=tuple(program.stages[index] for index in order)) for order in found]
