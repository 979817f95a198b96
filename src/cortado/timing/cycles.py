"""Cycles as a range, the interface of a core's timing model, and the control flow of a run.

The flow tells which basic blocks followed which, how often, in which step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from cortado.timing.instructions import Instruction

# ---- cycles ----------------------------------------------------------------------------------------------

NOTE = "cycles at zero wait states: a model, no measurement. Flash, caches and other masters of the bus may add to them"


class Grade(Enum):
    """How much is known about a core's timing."""

    TABLE = "table"  # Arm publishes a table of every instruction's cycles
    APPROXIMATE = "approximate"  # a pipeline from published scheduling models, or the table of a similar core


@dataclass(frozen=True)
class Cycles:
    """Cycles as a range: unknowns of a core (pipeline refills, early termination of multiplies, forwarding) widen
    it."""

    low: float
    typical: float
    high: float

    def __add__(self, other: "Cycles") -> "Cycles":
        return Cycles(self.low + other.low, self.typical + other.typical, self.high + other.high)

    def __mul__(self, times: int) -> "Cycles":
        return Cycles(self.low * times, self.typical * times, self.high * times)

    def whole(self) -> "Cycles":
        return Cycles(round(self.low), round(self.typical), round(self.high))


def just(cycles: int) -> Cycles:
    return Cycles(cycles, cycles, cycles)


NONE = just(0)


class CoreTiming(Protocol):
    """The timing of one core."""

    @property
    def grade(self) -> Grade: ...

    @property
    def sources(self) -> tuple[str, ...]:
        """The documents that it is based on."""

    def block(self, before: Sequence[Instruction], jumped: bool, instructions: Sequence[Instruction]) -> list[Cycles]:
        """Returns each instruction's cycles, in a block that runs after another one, reached by a jump or by falling
        through."""

    def jump(self, last: Instruction) -> Cycles:
        """Returns the cycles of a jump in addition to those of its instruction."""


# ---- flow ------------------------------------------------------------------------------------------------

BEFORE = -1  # the step number of the code before the first step


@dataclass(frozen=True)
class BasicBlock:
    """A basic block: consecutive instructions, as the emulator translates them."""

    address: int
    instructions: int


@dataclass(frozen=True)
class Edge:
    """Block `after` ran `count` times right after block `before` (None: at the very start), in this step."""

    step: int
    before: BasicBlock | None
    after: BasicBlock
    count: int


@dataclass(frozen=True)
class Flow:
    """The edges of one run between the markers."""

    edges: tuple[Edge, ...]
