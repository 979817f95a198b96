"""A breakdown of instructions and cycles by step and by the purpose of the code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from cortado.timing.cycles import NONE, BasicBlock, CoreTiming, Cycles, Edge, Flow
from cortado.timing.instructions import Instruction
from cortado.timing.parts import Part

Ranges = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Spent:
    """Instructions, which are exact, and cycles, which are modelled."""

    instructions: int = 0
    cycles: Cycles = NONE

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.instructions + other.instructions, self.cycles + other.cycles)


@dataclass(frozen=True)
class MeasuredWork:
    """The cost of each part of each step's work; step -1 is the code before the first."""

    steps: Mapping[int, Mapping[Part, Spent]]

    @property
    def total(self) -> Spent:
        return reduce(Spent.__add__, (spent for parts in self.steps.values() for spent in parts.values()), Spent())

    def step(self, number: int) -> Spent:
        return reduce(Spent.__add__, self.steps.get(number, {}).values(), Spent())

    def part(self, part: Part) -> Spent:
        return reduce(Spent.__add__, (parts.get(part, Spent()) for parts in self.steps.values()), Spent())


@dataclass
class _Sums:
    """Mutable sums while edges are added: frozen values would be rebuilt for every instruction."""

    found: dict[tuple[int, Part], list[float]] = field(default_factory=dict)

    def add(self, step: int, part: Part, instructions: int, cycles: Cycles, count: int) -> None:
        sums = self.found.setdefault((step, part), [0, 0.0, 0.0, 0.0])
        sums[0] += instructions * count
        sums[1] += cycles.low * count
        sums[2] += cycles.typical * count
        sums[3] += cycles.high * count

    def work(self) -> MeasuredWork:
        steps: dict[int, dict[Part, Spent]] = {}
        for (step, part), (instructions, *cycles) in sorted(self.found.items(), key=lambda item: item[0][0]):
            steps.setdefault(step, {})[part] = Spent(int(instructions), Cycles(*cycles))
        return MeasuredWork(steps)


def account(
    flow: Flow, code: Mapping[int, Instruction], parts: Mapping[int, Part], model: CoreTiming, skipped: Ranges
) -> MeasuredWork:
    """Computes the cycles of a run. Instructions in `skipped` ranges, the harness around the model, don't count.

    A block's instructions are charged when it is entered, given the block before; a jump is charged to its instruction
    when the next block is entered.
    """
    sums = _Sums()
    known: dict[tuple[BasicBlock | None, BasicBlock], list[tuple[Part, Cycles]]] = {}
    sequences = _Sequences(code, skipped)
    for edge in flow.edges:
        before, after = sequences.of(edge.before), sequences.of(edge.after)
        jumped = edge.before is not None and not _follows(sequences.whole(edge.before), edge.after)
        if jumped and before:
            sums.add(edge.step, parts[before[-1].address], 0, model.jump(before[-1]), edge.count)
        if not after:
            continue
        key = (edge.before, edge.after)
        if key not in known:
            cycles = model.block(before, jumped, after)
            known[key] = [(parts[one.address], spent) for one, spent in zip(after, cycles, strict=True)]
        _add(sums, edge, known[key])
    return sums.work()


def _add(sums: _Sums, edge: Edge, spent: Sequence[tuple[Part, Cycles]]) -> None:
    by_part: dict[Part, list[Cycles]] = {}
    for part, cycles in spent:
        by_part.setdefault(part, []).append(cycles)
    for part, several in by_part.items():
        sums.add(edge.step, part, len(several), reduce(Cycles.__add__, several, NONE), edge.count)


def _follows(whole: Sequence[Instruction], after: BasicBlock) -> bool:
    """Whether a block starts where the one before ends."""
    return bool(whole) and whole[-1].address + whole[-1].size == after.address


@dataclass
class _Sequences:
    """The instructions of blocks: all of them, and those that count."""

    code: Mapping[int, Instruction]
    skipped: Ranges
    known: dict[BasicBlock, list[Instruction]] = field(default_factory=dict)

    def whole(self, block: BasicBlock) -> list[Instruction]:
        if block not in self.known:
            found, address = [], block.address
            for _ in range(block.instructions):
                one = self.code[address]
                found.append(one)
                address += one.size
            self.known[block] = found
        return self.known[block]

    def of(self, block: BasicBlock | None) -> list[Instruction]:
        if block is None or any(low <= block.address < high for low, high in self.skipped):
            return []
        return self.whole(block)
