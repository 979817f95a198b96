"""A breakdown of instructions and cycles by step and by the purpose of the code, which its instructions tell."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce

from cortado.timing.cycles import NONE, BasicBlock, CoreTiming, Cycles, Edge, Flow
from cortado.timing.instructions import Instruction, Kind, by_function


class Part(Enum):
    """Parts of a network's work."""

    PRODUCTS = "products"  # multiplying and summing, with the loads for it
    REQUANTIZE = "requantization"  # sums to int8, and storing them
    PACKING = "packing"  # reordering inputs for the products
    ROWS = "row loop"  # choosing the next row and step
    REST = "rest"  # set-up, pools, elementwise operators, tables and the like


# The row loop, and the functions of a bundle that call kernels.
_ROWS = re.compile(
    r"call_|cortado_(run|reset)_stage|cortado_push_row|row_|advance|ready|reset|.*_(run|push)$|(?!cortado_).*_row$"
)
# Functions that arrange windows and pixels for those that multiply.
_PACKING = re.compile(
    r"cortado_(conv2d|conv1x1|transpose_conv2d)(_lanes)?_s8__|cortado_conv_expand|cortado_conv_rows|cortado_conv_tile_pack"
    r"|(window|gather|put|lay_out|lay_out_pair|copy|copy_taps|expand|pack)(\.|$)"
)
# Functions that multiply inputs by weights; other functions multiply only scales and addresses.
_KERNELS = re.compile(
    r"cortado_.*(conv|depthwise|linear|matmul|taps|dot|_units)|tile|add_products|add_taps|multiply_add"
)
_PRODUCTS = re.compile(r"smla|smua|smlal|umlal|mla|vmla|vml|vmul|mul")
_SCALES = re.compile(r"smmul|smull|vqr?dmulh|adc")
_JUMPS = frozenset(
    {
        Kind.BRANCH,
        Kind.CALL,
        Kind.JUMP,
        Kind.TABLE_JUMP,
        Kind.LOOP_START,
        Kind.LOOP_END,
        Kind.LOAD_MANY,
    }
)


def parts_of(code: Mapping[int, Instruction]) -> dict[int, Part]:
    """Maps the address of each instruction to its part."""
    found: dict[int, Part] = {}
    for name, instructions in by_function(code).items():
        fixed = Part.ROWS if _ROWS.match(name) else Part.PACKING if _PACKING.match(name) else None
        if fixed is not None:
            found |= dict.fromkeys((one.address for one in instructions), fixed)
            continue
        multiplies = _KERNELS.match(name) is not None
        other = Part.REST
        for piece in _pieces(instructions):
            parts = _parts_of_piece(piece, multiplies, other)
            # The code after a requantization clamps and stores its results, until the next products.
            last = parts[piece[-1].address]
            other = Part.REQUANTIZE if last is Part.REQUANTIZE else Part.REST
            found |= parts
    return found


def _pieces(instructions: Sequence[Instruction]) -> list[list[Instruction]]:
    """Splits code into basic blocks: without a jump into them or out of them."""
    targets = {one.target for one in instructions if one.target is not None}
    pieces: list[list[Instruction]] = [[]]
    for one in instructions:
        if one.address in targets:
            pieces.append([])
        pieces[-1].append(one)
        if one.kind in _JUMPS and (one.kind is not Kind.LOAD_MANY or one.writes_pc):
            pieces.append([])
    return [piece for piece in pieces if piece]


def _parts_of_piece(piece: Sequence[Instruction], multiplies: bool, other: Part) -> dict[int, Part]:
    """Classifies the instructions of a basic block. Products come before their scaling, which on small cores consists
    of multiplies too."""
    scales = [at for at, one in enumerate(piece) if _SCALES.match(one.name)]
    products = [
        at for at, one in enumerate(piece) if multiplies and _PRODUCTS.match(one.name) and not _SCALES.match(one.name)
    ]
    if not scales:
        part = Part.PRODUCTS if products else other
        return dict.fromkeys((one.address for one in piece), part)
    by_hand = all(piece[at].name.startswith("mul") for at in products)
    last = -1 if by_hand else max((at for at in products if at < scales[0]), default=-1)
    return {one.address: Part.PRODUCTS if at <= last else Part.REQUANTIZE for at, one in enumerate(piece)}


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
