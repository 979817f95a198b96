"""Cycles as a range, and what a model of a core's timing is.

How a program went: which blocks of instructions followed which, how often, in which step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from cortado.timing.instructions import Instruction

# ---- cycles ----------------------------------------------------------------------------------------------

NOTE = "cycles at zero wait states: a model, no measurement. Flash, caches and other masters of the bus may add to them"


class Grade(Enum):
    """How much is known of a core's timing."""

    TABLE = "table"  # Arm publishes a table of every instruction's cycles
    APPROXIMATE = "approximate"  # a pipeline after scheduling models that were published, or a table of a like core


@dataclass(frozen=True)
class Cycles:
    """Cycles as a range: unknown parts of a core (pipeline refills, early ends of multiplies, forwarding) widen it."""

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
        """The documents behind it."""

    def block(self, before: Sequence[Instruction], jumped: bool, instructions: Sequence[Instruction]) -> list[Cycles]:
        """Each instruction's cycles, in a block that runs behind another one: by a jump, or because that one ended."""

    def jump(self, last: Instruction) -> Cycles:
        """Cycles of a jump beside the instruction that makes it."""


# ---- flow ------------------------------------------------------------------------------------------------

BEFORE = -1  # the step of what runs before the first


@dataclass(frozen=True)
class BasicBlock:
    """Instructions that run one after the other, as the emulator translates them."""

    address: int
    instructions: int


@dataclass(frozen=True)
class Edge:
    """`count` times block `after` ran right after block `before` (None: the very first), in this step."""

    step: int
    before: BasicBlock | None
    after: BasicBlock
    count: int


@dataclass(frozen=True)
class Flow:
    """The edges of one run between the markers."""

    edges: tuple[Edge, ...]
