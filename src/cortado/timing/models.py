"""Timing models of the cores whose cycles Arm publishes: Cortex-M0, M0+, M3 and M4, by instruction, and M23 after the
M0+.

Each entry has its source. DDI 0432, 0484, 0337 and 100166 (DDI 0439) are the Technical Reference Manuals of the cores;
"table" is their "instruction set summary", whose figures are for zero wait states.

`MODELS` has the timing model of every core.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cortado.base.target import CortexM
from cortado.timing import pipelines
from cortado.timing.cycles import NONE, CoreTiming, Cycles, Grade, just
from cortado.timing.instructions import Instruction, Kind

# ---- tables ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """Cycles of an instruction, plus `each` for every register of its list; and the source."""

    cycles: Cycles
    source: str
    each: int = 0


@dataclass(frozen=True)
class Pipelining:
    """How loads and stores overlap on the M3 and the M4: DDI 0337 and 100166, "load/store timings"."""

    # "If the next instruction is an LDR or STR, and the destination of the first LDR is not used to compute the address
    # for the next instruction, then one cycle is removed from the cost of the next instruction."
    behind_load: Cycles = field(default_factory=lambda: just(1))
    # "STR can only be pipelined when it follows an LDR, but nothing can be pipelined after the store." STR with an
    # immediate offset takes one cycle, and its data goes out while the next instruction executes: the low end.
    load_behind_store: Cycles = field(default_factory=lambda: Cycles(1, 2, 2))
    # "Any load or store that generates an address dependent on the result of a preceding data processing operation
    # stalls the pipeline for an additional cycle": the low end is without.
    address_stall: Cycles = field(default_factory=lambda: Cycles(0, 1, 1))
    # "LDR Rx,[PC,#imm] might add a cycle because of contention with the fetch unit."
    constant: Cycles = field(default_factory=lambda: Cycles(0, 0, 1))
    # Only on the M3: "Any load with a base update is not normally pipelined."
    base_update_pipelines: bool = True


@dataclass(frozen=True)
class TimingTable:
    """A core as a table. A kind without an entry takes one cycle."""

    grade: Grade
    sources: tuple[str, ...]
    costs: Mapping[Kind, Cost]
    jumps: Mapping[Kind, Cost]  # additional cycles of a taken jump
    pipelining: Pipelining | None = None

    def block(self, before: Sequence[Instruction], jumped: bool, instructions: Sequence[Instruction]) -> list[Cycles]:
        previous = None if jumped or not before else before[-1]
        cycles = []
        for one in instructions:
            cycles.append(self._cycles(one, previous))
            previous = one
        return cycles

    def jump(self, last: Instruction) -> Cycles:
        cost = self.jumps.get(last.kind)
        if cost is None or (last.kind in (Kind.LOAD, Kind.LOAD_MANY) and not last.writes_pc):
            return NONE
        return cost.cycles

    def _cycles(self, one: Instruction, previous: Instruction | None) -> Cycles:
        cost = self.costs.get(one.kind)
        if cost is None:
            return just(1)
        cycles = cost.cycles + just(cost.each * one.listed)
        if self.pipelining is None or one.kind not in (Kind.LOAD, Kind.STORE):
            return cycles
        return _overlapped(self.pipelining, one, previous, cycles)


def _overlapped(rules: Pipelining, one: Instruction, previous: Instruction | None, alone: Cycles) -> Cycles:
    cycles = alone
    if one.kind is Kind.STORE and not one.register_offset:
        cycles = just(1)  # "STR Rx,[Ry,#imm] is always one cycle."
    if previous is not None:
        if previous.kind is Kind.LOAD and not previous.writes & one.base:
            pipelines = rules.base_update_pipelines or not previous.updates_base
            cycles = rules.behind_load if pipelines else Cycles(1, cycles.typical, cycles.high)
        elif previous.kind is Kind.STORE and one.kind is Kind.LOAD and not previous.register_offset:
            cycles = rules.load_behind_store
        elif previous.kind in _PROCESSING and previous.writes & one.base:
            cycles = cycles + rules.address_stall
    return cycles + rules.constant if one.from_code else cycles


_PROCESSING = frozenset(
    {
        Kind.ALU,
        Kind.SHIFT,
        Kind.LIGHT,
        Kind.MULTIPLY,
        Kind.ACCUMULATE,
        Kind.LONG_MULTIPLY,
        Kind.LONG_ACCUMULATE,
        Kind.DIVIDE,
    }
)

# ---- Armv6-M --------------------------------------------------------------------------------------------------------

_SMALL: dict[Kind, Cost] = {
    Kind.LOAD: Cost(just(2), "table: LDR, LDRH, LDRB, LDRSB, LDRSH 2"),
    Kind.STORE: Cost(just(2), "table: STR, STRH, STRB 2"),
    Kind.LOAD_MANY: Cost(just(1), "table: LDM, POP 1+N", each=1),
    Kind.STORE_MANY: Cost(just(1), "table: STM, PUSH 1+N", each=1),
    Kind.MULTIPLY: Cost(just(1), "table: MULS 1 or 32; 1 on every chip of `cortado chips`"),
    Kind.BARRIER: Cost(just(3), "table: DMB, DSB, ISB 4 (M0) or 3 (M0+)"),
}
M0 = TimingTable(
    grade=Grade.TABLE,
    sources=("Arm DDI 0432, Cortex-M0 Technical Reference Manual, table 3-1",),
    costs=_SMALL | {Kind.BARRIER: Cost(just(4), "table: DMB, DSB, ISB 4")},
    jumps={
        Kind.BRANCH: Cost(just(2), "table: B 3, B<cc> 3 or 1"),
        Kind.CALL: Cost(just(3), "table: BL 4"),
        Kind.JUMP: Cost(just(2), "table: BX, BLX 3; MOV PC, ADD PC 3"),
        Kind.LOAD_MANY: Cost(just(3), "table: POP with PC 4+N"),
    },
)
M0PLUS = TimingTable(
    grade=Grade.TABLE,
    sources=("Arm DDI 0484, Cortex-M0+ Technical Reference Manual, table 3-1",),
    costs=_SMALL,
    jumps={
        Kind.BRANCH: Cost(just(1), "table: B 2, B<cc> 2 or 1"),
        Kind.CALL: Cost(just(2), "table: BL 3"),
        Kind.JUMP: Cost(just(1), "table: BX, BLX 2; MOV PC, ADD PC 2"),
        Kind.LOAD_MANY: Cost(just(2), "table: POP with PC 3+N"),
    },
)
M23 = TimingTable(
    grade=Grade.APPROXIMATE,
    sources=(
        "Arm publishes no table of the Cortex-M23; it has the M0+'s two stages, so its table: DDI 0484, table 3-1",
        "Arm's product page of the Cortex-M23: a divide takes 17 or 34 cycles, as it was configured",
    ),
    costs=_SMALL | {Kind.DIVIDE: Cost(Cycles(17, 17, 34), "product page: 17 or 34")},
    jumps=M0PLUS.jumps,
)

# ---- Armv7-M --------------------------------------------------------------------------------------------------------

# "P: the number of cycles required for a pipeline refill. This ranges from 1 to 3 depending on the alignment and width
# of the target instruction, and whether the processor manages to speculate the address early."
_REFILL = Cycles(1, 2, 3)
_JUMPS = {
    Kind.BRANCH: Cost(_REFILL, "table: B<cc> 1 or 1+P, B 1+P, CBZ, CBNZ 1 or 1+P"),
    Kind.CALL: Cost(_REFILL, "table: BL 1+P"),
    Kind.JUMP: Cost(_REFILL, "table: BX, BLX 1+P; MOV PC, ADD PC 1+P"),
    Kind.TABLE_JUMP: Cost(_REFILL, "table: TBB, TBH 2+P"),
    Kind.LOAD: Cost(_REFILL, "table: LDR PC 2+P"),
    Kind.LOAD_MANY: Cost(_REFILL, "table: POP with PC 1+N+P"),
}
_MEMORY: dict[Kind, Cost] = {
    Kind.LOAD: Cost(just(2), "table: LDR 2, or 1 beside a neighbouring load or store"),
    Kind.STORE: Cost(just(2), "table: STR 2, or 1 beside a neighbouring load or store"),
    Kind.LOAD_PAIR: Cost(just(3), "table: LDRD 1+N, N = 2"),
    Kind.STORE_PAIR: Cost(just(3), "table: STRD 1+N, N = 2"),
    Kind.LOAD_MANY: Cost(just(1), "table: LDM, POP 1+N", each=1),
    Kind.STORE_MANY: Cost(just(1), "table: STM, PUSH 1+N", each=1),
    Kind.TABLE_JUMP: Cost(just(2), "table: TBB, TBH 2+P"),
    Kind.DIVIDE: Cost(Cycles(2, 6, 12), "table: SDIV, UDIV 2 to 12; they end early with small numbers"),
}
M3 = TimingTable(
    grade=Grade.TABLE,
    sources=("Arm DDI 0337, Cortex-M3 Technical Reference Manual, table 3-1 and load/store timings",),
    costs=_MEMORY
    | {
        Kind.ACCUMULATE: Cost(just(2), "table: MLA, MLS 2"),
        Kind.LONG_MULTIPLY: Cost(Cycles(3, 4, 5), "table: SMULL, UMULL 3 to 5; they end early with small numbers"),
        Kind.LONG_ACCUMULATE: Cost(Cycles(4, 5, 7), "table: SMLAL, UMLAL 4 to 7; they end early with small numbers"),
    },
    jumps=_JUMPS,
    pipelining=Pipelining(base_update_pipelines=False),
)
M4 = TimingTable(
    grade=Grade.TABLE,
    sources=("Arm 100166 (DDI 0439), Cortex-M4 Technical Reference Manual, tables 3-1 and 7-1, load/store timings",),
    costs=_MEMORY
    | {
        # MUL, MLA, MLS, SMULL, SMLAL and all DSP instructions take 1, which is what has no entry here.
        Kind.FLOAT_LOAD: Cost(just(2), "table 7-1: VLDR.32 2"),
        Kind.FLOAT_STORE: Cost(just(2), "table 7-1: VSTR.32 2"),
        Kind.FLOAT_ACCUMULATE: Cost(just(3), "table 7-1: VMLA, VFMA 3"),
        Kind.FLOAT_DIVIDE: Cost(just(14), "table 7-1: VDIV, VSQRT 14"),
    },
    jumps=_JUMPS,
    pipelining=Pipelining(),
)


# ---- models ----------------------------------------------------------------------------------------------

MODELS: Mapping[CortexM, CoreTiming] = {
    CortexM.M0: M0,
    CortexM.M0PLUS: M0PLUS,
    CortexM.M3: M3,
    CortexM.M4: M4,
    CortexM.M7: pipelines.M7,
    CortexM.M23: M23,
    CortexM.M33: pipelines.M33,
    CortexM.M35P: pipelines.M33,  # the M33 with a cache and protection against tampering
    CortexM.M52: pipelines.M52,
    CortexM.M55: pipelines.M55,
    CortexM.M85: pipelines.M85,
}
