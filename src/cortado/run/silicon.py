"""What a chip's own counter said of a model: data, for whoever shows or keeps it."""

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

    @property
    def warm(self) -> int | None:
        """The least of the later runs; of a single run that one."""
        return min(self.later, default=self.first)

    @property
    def words(self) -> str:
        """Clock, caches and memory as found."""
        clock = "an unknown clock" if self.clock_hz is None else f"about {self.clock_hz / 1e6:.1f} MHz"
        caches = f"{' and '.join(self.caches)} cache on" if self.caches else "no caches"
        return (
            f"counted by {self.counter.value} at the clock and the wait states that the chip starts with "
            f"({clock}), {caches}, {self.memory}"
        )


def without_overhead(cycles: Sequence[int], calls: Sequence[int], overhead: int) -> tuple[StepCycles, ...]:
    """Of what was counted around each kernel call, the kernels' own part."""
    pairs = zip(cycles, calls, strict=True)
    return tuple(StepCycles(max(count - times * overhead, 0), times) for count, times in pairs)
