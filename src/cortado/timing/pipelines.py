"""Timing models of cores whose cycles Arm doesn't publish as a table: in-order issue to functional units.

They are based on the scheduling models of compilers; every figure has its source next to it. LLVM-M7, LLVM-M55 and
LLVM-M85 are ARMScheduleM7.td, ARMScheduleM55.td and ARMScheduleM85.td of LLVM, which Arm contributed.

The typical figure takes a model literally. The low one has every operand ready in time, so that only busy units stall;
the high one issues one instruction at a time, and operands come a cycle later.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from cortado.timing.cycles import NONE, Cycles, Grade
from cortado.timing.instructions import VECTORS, Instruction, Kind


class Unit(Enum):
    """Functional units."""

    CORE = auto()
    MULTIPLY = auto()
    LOAD_STORE = auto()
    STORE = auto()
    BRANCH = auto()
    VECTOR_INTEGER = auto()
    VECTOR_MULTIPLY = auto()


@dataclass(frozen=True)
class Use:
    """The functional unit of an instruction, the cycles for which it is busy, the latency of the result, and the cycles
    for which it holds up the following instructions."""

    unit: Unit | None
    busy: int = 1
    latency: int = 1
    hold: int = 1


@dataclass(frozen=True)
class Pipeline:
    """A core as a pipeline. `pair` tells whether the second of two instructions can be issued with the first."""

    grade: Grade
    sources: tuple[str, ...]
    use: Callable[[Instruction], Use]
    pair: Callable[[Instruction, Instruction], bool]
    refill: Cycles  # a jump taken
    loop: Cycles  # the jump back of a low-overhead loop
    address_early: int = 0  # cycles by which an address is needed earlier than other operands
    two_of: frozenset[Unit] = field(default_factory=frozenset)  # units that the core has twice

    def block(self, before: Sequence[Instruction], jumped: bool, instructions: Sequence[Instruction]) -> list[Cycles]:
        runs = [self._run(variant, before, jumped, instructions) for variant in _VARIANTS]
        return [Cycles(*each) for each in zip(*runs, strict=True)]

    def jump(self, last: Instruction) -> Cycles:
        if last.kind is Kind.LOOP_END:
            return self.loop
        jumps = last.kind in (Kind.BRANCH, Kind.CALL, Kind.JUMP, Kind.TABLE_JUMP, Kind.LOOP_START) or last.writes_pc
        return self.refill if jumps else NONE

    def _run(
        self,
        variant: "_Variant",
        before: Sequence[Instruction],
        jumped: bool,
        instructions: Sequence[Instruction],
    ) -> list[float]:
        state = _State(self, variant)
        for one in before:
            state.issue(one)
        if jumped:
            state.refill(variant.of(self.jump(before[-1])) if before else 0)
        times = []
        for one in instructions:
            start = state.position
            state.issue(one)
            times.append(state.position - start)
        return times


@dataclass(frozen=True)
class _Variant:
    """One end of the range, or its middle."""

    latency: Callable[[int], int]
    pairs: bool
    of: Callable[[Cycles], float]


_VARIANTS = (
    _Variant(lambda latency: min(latency, 1), True, lambda cycles: cycles.low),
    _Variant(lambda latency: latency, True, lambda cycles: cycles.typical),
    _Variant(lambda latency: latency + 1 if latency > 1 else latency, False, lambda cycles: cycles.high),
)


class _State:
    """The state of a pipeline: the cycle, the instruction issued in it that can still be paired, and when units and
    registers are free."""

    def __init__(self, core: Pipeline, variant: _Variant) -> None:
        self.core, self.variant = core, variant
        self.now = 0
        self.first: Instruction | None = None
        self.free: dict[Unit, list[int]] = {unit: [0] * (2 if unit in core.two_of else 1) for unit in Unit}
        self.ready: dict[str, int] = {}

    @property
    def position(self) -> float:
        """Returns the time in cycles; a pair takes half a cycle each."""
        return self.now + (0.5 if self.first is not None else 0)

    def refill(self, cycles: float) -> None:
        self.now += (1 if self.first is not None else 0) + int(cycles)
        self.first = None

    def issue(self, one: Instruction) -> None:
        use = self.core.use(one)
        at = self._earliest(one, use)
        shares = at == self.now and self._shares(one)
        if self.first is not None and not shares:
            at = max(at, self.now + 1)
        self._take(one, use, at)
        done = shares or use.hold != 1 or not self.variant.pairs
        self.now = at + (max(use.hold, 1) if shares else use.hold if done else 0)
        self.first = None if done else one

    def _shares(self, one: Instruction) -> bool:
        return self.first is not None and self.variant.pairs and self.core.pair(self.first, one)

    def _earliest(self, one: Instruction, use: Use) -> int:
        at = self.now if use.unit is None else max(self.now, min(self.free[use.unit]))
        for register in one.reads:
            # LLVM-M55: M55Read1, the data of a vector store can come a cycle later.
            late = 1 if one.kind is Kind.VECTOR_STORE and register not in one.base else 0
            early = self.core.address_early if register in one.base else 0
            if register in self.ready:
                at = max(at, self.ready[register] + early - late)
        return at

    def _take(self, one: Instruction, use: Use, at: int) -> None:
        if use.unit is not None:
            units = self.free[use.unit]
            units[units.index(min(units))] = at + use.busy
        for register in one.writes:
            # A base register that a load or store updates is ready at once.
            self.ready[register] = at + (1 if register in one.base else self.variant.latency(use.latency))


# ---- Cortex-M33, and the core registers of the M52 and M55 -----------------------------------------------------------

_CORE_LATENCY: Mapping[Kind, int] = {
    # LLVM-M55: "CX instructions take 2 (or more) cycles": loads, shifted operands, multiplies, saturation.
    Kind.SHIFT: 2,
    Kind.MULTIPLY: 2,
    Kind.ACCUMULATE: 2,
    Kind.LONG_MULTIPLY: 2,
    Kind.LONG_ACCUMULATE: 2,
    Kind.LOAD: 2,
    Kind.FLOAT_LOAD: 2,
    Kind.FLOAT: 2,
    Kind.FLOAT_ACCUMULATE: 4,
}
_HELD: Mapping[Kind, int] = {
    # LLVM-M55: WriteFPDIV32 16; LLVM-M7: WriteDIV 7, "they stall for their latency".
    Kind.DIVIDE: 7,
    Kind.FLOAT_DIVIDE: 16,
    Kind.BARRIER: 4,
}


_BESIDE = frozenset({Kind.LIGHT, Kind.IT, Kind.NOTHING, Kind.BRANCH})


def _core_use(one: Instruction, words: int) -> Use:
    """Returns the use of an instruction on core registers. `words`: transferred to or from memory per cycle."""
    if one.kind in (Kind.LOAD_MANY, Kind.STORE_MANY):
        # A register list takes its words divided by the width of the data path.
        return Use(Unit.LOAD_STORE, hold=max(1, -(-one.listed // words)), busy=max(1, -(-one.listed // words)))
    if one.kind in (Kind.LOAD_PAIR, Kind.STORE_PAIR):
        return Use(Unit.LOAD_STORE, latency=2, hold=max(1, 2 // words), busy=max(1, 2 // words))
    if one.kind in _HELD:
        return Use(Unit.CORE, hold=_HELD[one.kind])
    if one.kind is Kind.LOOP_END:
        return Use(Unit.BRANCH, hold=0)
    if one.kind in (Kind.LOAD, Kind.STORE, Kind.FLOAT_LOAD, Kind.FLOAT_STORE):
        return Use(Unit.LOAD_STORE, latency=_CORE_LATENCY.get(one.kind, 1))
    if one.kind in _BESIDE:
        return Use(None)  # LLVM-M55: the second of a pair uses no unit
    plain_shift = one.kind is Kind.SHIFT and one.size == 2  # LLVM-M55: tLSL, tASR and their like are DX, one cycle
    return Use(Unit.CORE, latency=1 if plain_shift else _CORE_LATENCY.get(one.kind, 1))


def _narrow_pair(first: Instruction, second: Instruction) -> bool:
    """Whether two instructions pair. LLVM-M55: "can dual issue two 16-bit T1 instructions providing one is one of NOPs,
    ITs, Brs, ADDri/SUBri, UXTB/H, SXTB/H and MOVri's"."""
    if first.size != 2 or second.size != 2 or first.kind is Kind.BRANCH:
        return False
    return first.kind in _BESIDE or second.kind in _BESIDE


M33 = Pipeline(
    grade=Grade.APPROXIMATE,
    sources=(
        "Arm publishes no timing of the Cortex-M33",
        "LLVM, ARMScheduleM55.td: the core registers' side of the Cortex-M55 is like the M33's",
    ),
    use=lambda one: _core_use(one, words=1),
    pair=_narrow_pair,
    refill=Cycles(1, 2, 3),  # as P of the M4's table; LLVM-M55: MispredictPenalty 3
    loop=NONE,
)

# ---- Helium ---------------------------------------------------------------------------------------------------------

_VECTOR_UNITS: Mapping[Kind, Unit] = {
    # LLVM-M55: the pipelines are "control", "load/store", "integer" and "float/mul".
    Kind.VECTOR_LOAD: Unit.LOAD_STORE,
    Kind.VECTOR_STORE: Unit.LOAD_STORE,
    Kind.VECTOR_MULTIPLY: Unit.VECTOR_MULTIPLY,
    Kind.VECTOR_INTEGER: Unit.VECTOR_INTEGER,
    Kind.VECTOR_MOVE: Unit.VECTOR_INTEGER,
    Kind.VECTOR_CONTROL: Unit.CORE,
}
_VECTOR_LATENCY: tuple[tuple[str, int], ...] = (
    (r"vq?movu?n|vq?r?shru?n", 3),  # LLVM-M55: M55Write2IntE4NoFwd
    (r"v(max|min)a?v", 3),  # LLVM-M55: M55Write2IntE3 for bytes, Plus1 for halfwords, Plus2 for words
    (r"vrshr|vrshl|vqr?shl|vadc|vsbc", 2),  # LLVM-M55: M55Write2IntE3
    (r"vmul|vmla|vmls|vml|vrml|vqr?d?mul|vq?r?dml|vr?mulh|vaddl?v|vfm", 2),  # LLVM-M55: M55Write2FloatE3
    (r"", 1),  # LLVM-M55: M55Write2IntE2, M55Write2LSE2, M55Write2FloatE2
)


def _helium_use(one: Instruction, beats: int, words: int = 2) -> Use:
    """Returns the use of an instruction; one on vectors takes its unit for as many cycles as it has `beats`."""
    if one.kind not in VECTORS:
        return _core_use(one, words)
    latency = next(latency for pattern, latency in _VECTOR_LATENCY if re.match(pattern, one.name))
    if one.kind is Kind.VECTOR_CONTROL:
        return Use(Unit.CORE)
    if any(register.startswith("q") for register in one.base):
        # LLVM-M55: M55Write2LSE3; a gather or scatter goes to memory lane by lane, at best two of them in a cycle.
        return Use(Unit.LOAD_STORE, busy=_lanes(one) // 2, latency=2)
    # LLVM-M55: moves of two core registers and to a lane take a cycle of either pipeline.
    busy = 1 if one.kind is Kind.VECTOR_MOVE else beats
    return Use(_VECTOR_UNITS[one.kind], busy=busy, latency=latency)


def _lanes(one: Instruction) -> int:
    """Returns how many elements of the memory's width fit a vector; a guess for widening loads and narrowing stores."""
    return {"b": 16, "h": 8, "w": 4, "d": 2}.get(one.name[4:5], 4)


M55 = Pipeline(
    grade=Grade.APPROXIMATE,
    sources=(
        "LLVM, ARMScheduleM55.td: units, latencies, and two beats for each vector instruction",
        "Arm Developer Hub, Automated instruction sequence optimization for MVE: different classes of them overlap",
    ),
    use=lambda one: _helium_use(one, beats=2),
    pair=_narrow_pair,
    refill=Cycles(1, 2, 3),  # LLVM-M55: MispredictPenalty 3
    loop=Cycles(0, 0, 1),  # the loop's start and end are cached: LE is free except in the first iteration
)
M52 = Pipeline(
    grade=Grade.APPROXIMATE,
    sources=(
        "Arm publishes no timing of the Cortex-M52",
        "it is taken for a Cortex-M55 with vectors in four beats: Arm's product page has single-beat Helium, one "
        "32-bit multiply-accumulate in a cycle, and buses of 32 bits",
    ),
    use=lambda one: _helium_use(one, beats=4, words=1),
    pair=_narrow_pair,
    refill=Cycles(1, 2, 3),
    loop=Cycles(0, 0, 1),
)

# ---- Cortex-M7 and M85 ----------------------------------------------------------------------------------------------

_SINGLE = frozenset(
    # LLVM-M7: "load/store multiples cannot be dual-issued", doubles and divides neither.
    {
        Kind.LOAD_MANY,
        Kind.STORE_MANY,
        Kind.LOAD_PAIR,
        Kind.STORE_PAIR,
        Kind.DIVIDE,
        Kind.TABLE_JUMP,
        Kind.BARRIER,
    }
)
_MULTIPLIES = frozenset({Kind.MULTIPLY, Kind.ACCUMULATE, Kind.LONG_MULTIPLY, Kind.LONG_ACCUMULATE})
_JUMPING = frozenset({Kind.BRANCH, Kind.CALL, Kind.JUMP, Kind.LOOP_END, Kind.LOOP_START})


def _wide_use(one: Instruction) -> Use:
    if one.kind in _MULTIPLIES:
        # LLVM-M7: one MAC unit, latency 2, and an accumulator read a cycle later.
        return Use(Unit.MULTIPLY, latency=2 if one.kind is not Kind.ACCUMULATE else 1)
    if one.kind is Kind.LOAD:
        # LLVM-M7: words are ready 1 cycle after the execute stage, bytes and halfwords 2.
        return Use(Unit.LOAD_STORE, latency=2 if re.match(r"ldrs?[bh]", one.name) else 1)
    if one.kind is Kind.STORE:
        return Use(Unit.STORE)
    if one.kind in _JUMPING:
        return Use(Unit.BRANCH, hold=0 if one.kind is Kind.LOOP_END else 1)
    use = _core_use(one, words=2)
    # LLVM-M7: shifts and bit fields are as fast as the rest; saturation takes 2.
    return Use(use.unit, use.busy, 2 if "sat" in one.name else 1 if one.kind is Kind.SHIFT else use.latency, use.hold)


def _wide_pair(first: Instruction, second: Instruction) -> bool:
    """Whether two instructions pair. LLVM-M7: "dual issue for most instructions", but not two for the same single
    unit."""
    if first.kind in _SINGLE or second.kind in _SINGLE or first.kind in _JUMPING:
        return False
    if first.kind is Kind.SHIFT and second.kind is Kind.SHIFT:
        return False  # LLVM-M7: one shifter in the first stage
    # LLVM-M7: the DSP extension's instructions are the first of a pair only.
    return re.match(r"[su](xtb16|add|sub|sat|sub16|add16)|pkh|sel", second.name) is None


M7 = Pipeline(
    grade=Grade.APPROXIMATE,
    sources=("LLVM, ARMScheduleM7.td",),
    use=_wide_use,
    pair=_wide_pair,
    refill=Cycles(0, 1, 4),  # usually predicted; LLVM-M7: MispredictPenalty 4
    loop=NONE,
    address_early=1,  # LLVM-M7: addresses are needed a stage earlier
    two_of=frozenset({Unit.CORE, Unit.LOAD_STORE}),
)


def _m85_use(one: Instruction) -> Use:
    # LLVM-M85: vectors take their units for two cycles, loads and stores of vectors both memory ports.
    return _helium_use(one, beats=2) if one.kind in VECTORS else _wide_use(one)


def _m85_pair(first: Instruction, second: Instruction) -> bool:
    if first.kind in VECTORS and second.kind in VECTORS:
        return False
    return _wide_pair(first, second)


M85 = Pipeline(
    grade=Grade.APPROXIMATE,
    sources=("LLVM, ARMScheduleM85.td",),
    use=_m85_use,
    pair=_m85_pair,
    refill=Cycles(0, 1, 4),  # usually predicted; LLVM-M85: MispredictPenalty 4
    loop=Cycles(0, 0, 1),
    address_early=1,
    two_of=frozenset({Unit.CORE}),
)
