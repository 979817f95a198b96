"""RAM over time: which buffers of a plan live when."""

import itertools
from dataclasses import dataclass

from cortado.memory.problem import Buffer, Plan, Problem, Time


# What a plan looks like over time
@dataclass(frozen=True, slots=True)
class Moment:
    """A stretch of time [start, end) in which the same buffers live."""

    start: Time
    end: Time
    live: tuple[str, ...]
    used: int
    """Bytes that hold data: shared ones count once, holes don't count."""
    top: int
    """Bytes of the arena from 0 to the highest live byte, holes included."""


def timeline(problem: Problem, plan: Plan) -> tuple[Moment, ...]:
    """The moments of a plan from the first birth to the last death, without gaps."""
    times = sorted({t for buffer in problem.buffers for t in (buffer.start, buffer.end)})
    return tuple(_moment(problem, plan, start, end) for start, end in itertools.pairwise(times))


def _moment(problem: Problem, plan: Plan, start: Time, end: Time) -> Moment:
    """Returns what lives between two times with no birth or death in between."""
    live = [b for b in problem.buffers if b.start <= start < b.end]
    used = top = 0
    for low, high in sorted((plan.offsets[b.name], plan.offsets[b.name] + b.size) for b in live):
        used += max(0, high - max(low, top))
        top = max(top, high)
    return Moment(start, end, tuple(b.name for b in live), used, top)


def peak_buffers(problem: Problem, plan: Plan) -> tuple[Buffer, ...]:
    """The buffers live when the arena is used to its peak, lowest first; of several such moments the fullest."""
    moments = timeline(problem, plan)
    if not moments:
        return ()
    fullest = max(moments, key=lambda moment: (moment.top, moment.used))
    live = [b for b in problem.buffers if b.name in set(fullest.live)]
    return tuple(sorted(live, key=lambda b: (plan.offsets[b.name], b.name)))
