"""Counts of a chip's own counter: data, for whoever shows or keeps them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class CycleCounter(Enum):
    """By what cycles were counted."""

    NONE = "none"
    DWT = "DWT"
    SYSTICK = "SysTick"


@dataclass(frozen=True)
class StepCycles:
    """A step of the last run that was watched: its cycles, and in how many kernel calls."""

    cycles: int
    calls: int


@dataclass(frozen=True)
class FlashWalk:
    """Cycles of instructions in a row: where they were loaded, the first time and again, and in RAM."""

    first: int
    again: int
    ram: int
    instructions: int = 128  # of two bytes

    @property
    def words(self) -> str:
        """Returns what flash costs, as far as it is to be seen."""
        more = (self.first - self.ram) * 2 / self.instructions  # a word is two of them
        seen = "no wait states to be seen" if more < 0.05 else f"flash takes {more:.1f} cycles more for four bytes"
        return (
            f"{seen} ({self.instructions} instructions in a row: {self.first:,} cycles from flash, "
            f"{self.again:,} again, {self.ram:,} from RAM)"
        )


@dataclass(frozen=True)
class Silicon:
    """A model on a chip. `first` is the run after loading, `later` those behind it, on what was left of the inputs."""

    core: str  # by its CPUID
    cpuid: int
    counter: CycleCounter
    clock_hz: int | None  # measured against this machine's clock, within a few percent
    caches: tuple[str, ...]  # that were switched on
    memory: str  # where code and weights were loaded to, in words
    first: int | None = None
    later: tuple[int, ...] = ()
    steps: tuple[StepCycles, ...] = ()
    walk: FlashWalk | None = None  # None: not measured, or code was loaded to RAM, or none runs from there

    @property
    def warm(self) -> int | None:
        """The least of the later runs; of a single run that one."""
        return min(self.later, default=self.first)

    @property
    def words(self) -> str:
        """Clock, caches, memory and its wait states as found."""
        clock = "an unknown clock" if self.clock_hz is None else f"about {self.clock_hz / 1e6:.1f} MHz"
        caches = f"{' and '.join(self.caches)} cache on" if self.caches else "no caches"
        return (
            f"counted by {self.counter.value} at the clock and the wait states that the chip starts with "
            f"({clock}), {caches}, {self.memory}" + ("" if self.walk is None else f"; {self.walk.words}")
        )


def without_overhead(cycles: Sequence[int], calls: Sequence[int], overhead: int) -> tuple[StepCycles, ...]:
    """Returns the kernels' own part of what was counted around each kernel call."""
    pairs = zip(cycles, calls, strict=True)
    return tuple(StepCycles(max(count - times * overhead, 0), times) for count, times in pairs)
