"""A memory problem and its plan, as plain data: buffers with lifetimes, overlays, offsets.

Also the timeline: which buffers of a plan are live when.
"""

import enum
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from cortado.base.errors import CortadoError

# ---- problem ---------------------------------------------------------------------------------------------

Time = tuple[int, int]
"""A point on the two-level clock: (stage, position of the step inside it), compared in that order."""


# Problem and plan
ALIGN = 16
"""The default alignment: the widest load or store of any Cortex-M."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """`size` bytes that hold data in the half-open interval [start, end) and begin at a multiple of `align`.

    A buffer that `persists` keeps its data from run to run: it shares no byte with any other, whatever their lifetimes,
    and lies below all buffers that don't, so that the first bytes of the arena are the ones to keep.
    """

    name: str
    size: int
    start: Time
    end: Time
    align: int = ALIGN
    persists: bool = False


@dataclass(frozen=True, slots=True)
class Overlay:
    """`out` and `inp` can share bytes while both are live if offset(out) + lead <= offset(inp).

    `lead` is the number of bytes by which writing `out` can run ahead of the last read of `inp`: 0 means exactly in
    place (or lower), a negative lead means that this many bytes of `inp` are dead before the first byte of `out` is
    written.
    """

    out: str
    inp: str
    lead: int


@dataclass(frozen=True, slots=True)
class Problem:
    """A memory planning problem: the buffers to place. Checked on construction."""

    buffers: tuple[Buffer, ...]
    overlays: tuple[Overlay, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "buffers", tuple(self.buffers))
        object.__setattr__(self, "overlays", tuple(self.overlays))
        names: set[str] = set()
        for buffer in self.buffers:
            if fault := fault_of(buffer):
                raise CortadoError(fault[1])
            if buffer.name in names:
                raise CortadoError(f"two buffers are called '{buffer.name}': give each buffer its own name")
            names.add(buffer.name)
        pairs: set[tuple[str, str]] = set()
        persistent = {buffer.name for buffer in self.buffers if buffer.persists}
        for overlay in self.overlays:
            _check_overlay(overlay, names, persistent)
            if (overlay.out, overlay.inp) in pairs:
                raise CortadoError(
                    f"'{overlay.out}' is laid over '{overlay.inp}' twice: keep the overlay with the lower lead"
                )
            pairs.add((overlay.out, overlay.inp))


def fault_of(buffer: Buffer) -> tuple[str, str] | None:
    """Returns why a buffer can't be planned, as the field and a message; None if it can."""
    if not buffer.name or buffer.name != buffer.name.strip():
        return "name", f"found a buffer called '{buffer.name}': expected a name without space around it"
    if buffer.size < 0:
        return "size", f"buffer '{buffer.name}' has size {buffer.size}: expected 0 or more bytes"
    if not buffer.start < buffer.end:
        lifetime = f"from {buffer.start} to {buffer.end}"
        return "end", f"buffer '{buffer.name}' lives {lifetime}: expected an end, which is exclusive, after the start"
    if buffer.align < 1 or buffer.align & (buffer.align - 1):
        return "align", f"buffer '{buffer.name}' has alignment {buffer.align}: expected a power of two"
    return None


def _check_overlay(overlay: Overlay, names: set[str], persistent: set[str]) -> None:
    """Refuses an overlay of an unknown buffer, of a buffer over itself, or of a persistent one."""
    for name in (overlay.out, overlay.inp):
        if name not in names:
            raise CortadoError(
                f"the overlay of '{overlay.out}' over '{overlay.inp}' names '{name}', which is not a buffer of the "
                "problem"
            )
    if overlay.out == overlay.inp:
        raise CortadoError(f"'{overlay.out}' is laid over itself: an overlay needs two different buffers")
    for name in (overlay.out, overlay.inp):
        if name in persistent:
            raise CortadoError(
                f"the overlay of '{overlay.out}' over '{overlay.inp}' names '{name}', which persists: nothing can "
                "overlay it"
            )


@dataclass(frozen=True, slots=True)
class SearchEffort:
    """The work of a search and its bound; `exhausted` means that it stopped there and a better result may exist.

    Work is counted in candidates, never in seconds: the same problem ends the same way on every machine.
    """

    work: int
    bound: int
    exhausted: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """An offset for every buffer. `lower_bound` is proven: no plan of the problem has a lower peak."""

    offsets: Mapping[str, int]
    peak: int
    lower_bound: int
    optimal: bool
    spent: SearchEffort = field(
        default=SearchEffort(0, 0, exhausted=False), compare=False, repr=False
    )  # how it was found


class Effort(enum.Enum):
    """How hard `plan` tries."""

    QUICK = enum.auto()
    """A few orders and a short random walk, about a millisecond: for a search that plans hundreds of times."""
    FULL = enum.auto()
    """Restarts, then the exact search, until the plan is proven optimal or the work is used up."""


# ---- timeline --------------------------------------------------------------------------------------------


# A plan over time
@dataclass(frozen=True, slots=True)
class Moment:
    """An interval of time [start, end) in which the same buffers are live."""

    start: Time
    end: Time
    live: tuple[str, ...]
    used: int
    """Bytes that hold data: shared ones count once, holes don't count."""
    top: int
    """Bytes of the arena from 0 to the highest live byte, holes included."""


def timeline(problem: Problem, plan: Plan) -> tuple[Moment, ...]:
    """Returns the moments of a plan from the first birth to the last death, without gaps."""
    times = sorted({t for buffer in problem.buffers for t in (buffer.start, buffer.end)})
    return tuple(_moment(problem, plan, start, end) for start, end in itertools.pairwise(times))


def _moment(problem: Problem, plan: Plan, start: Time, end: Time) -> Moment:
    """Builds the moment between two times with no birth or death in between."""
    live = [b for b in problem.buffers if b.start <= start < b.end]
    used = top = 0
    for low, high in sorted((plan.offsets[b.name], plan.offsets[b.name] + b.size) for b in live):
        used += max(0, high - max(low, top))
        top = max(top, high)
    return Moment(start, end, tuple(b.name for b in live), used, top)


def peak_buffers(problem: Problem, plan: Plan) -> tuple[Buffer, ...]:
    """Returns the buffers live at the peak of the arena, lowest first; of several such moments, the one with the most
    data."""
    moments = timeline(problem, plan)
    if not moments:
        return ()
    fullest = max(moments, key=lambda moment: (moment.top, moment.used))
    live = [b for b in problem.buffers if b.name in set(fullest.live)]
    return tuple(sorted(live, key=lambda b: (plan.offsets[b.name], b.name)))
