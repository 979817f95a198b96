"""From a problem to a plan: parts that are never live together are planned separately, persistent buffers below all
others."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cortado.memory.bounds import BoundModel, bound_of
from cortado.memory.problem import Buffer, Effort, Plan, Problem, SearchEffort, Time
from cortado.memory.search import QUICK_WORK, WORK_PER_SECOND, Budget, solve


# Bound and plan
def lower_bound(problem: Problem) -> int:
    """Returns bytes that every plan of this problem needs: proven, but not always reachable."""
    passing = [buffer for buffer in problem.buffers if not buffer.persists]
    above = max((bound_of(BoundModel(part, problem.overlays)) for part in _time_parts(passing)), default=0)
    return _with_bottom(problem.buffers, above)


def plan(problem: Problem, seconds: float = 2.0, effort: Effort = Effort.FULL) -> Plan:
    """Places every buffer, with a peak as low as the effort finds. The same problem always gives the same plan.

    `seconds` is converted to a fixed amount of work, so that a slow or busy machine finds the same plan as a fast one.
    """
    offsets = _bottom(problem.buffers)
    if not offsets:
        return _plan(problem, seconds, effort)
    passing = tuple(buffer for buffer in problem.buffers if buffer.name not in offsets)
    above = _plan(Problem(passing, problem.overlays), seconds, effort)
    top = max(offsets[buffer.name] + buffer.size for buffer in problem.buffers if buffer.persists)
    floor = _aligned(top, max((buffer.align for buffer in passing), default=1))
    offsets |= {name: floor + offset for name, offset in above.offsets.items()}
    peak = floor + above.peak if above.peak else top
    proven = _with_bottom(problem.buffers, above.lower_bound)
    return replace(above, offsets=offsets, peak=peak, lower_bound=proven, optimal=peak == proven)


def _bottom(buffers: Iterable[Buffer]) -> dict[str, int]:
    """Returns the offsets of persistent buffers: consecutive, the largest alignment first."""
    offsets: dict[str, int] = {}
    end = 0
    for buffer in sorted((b for b in buffers if b.persists), key=lambda b: -b.align):
        offsets[buffer.name] = _aligned(end, buffer.align)
        end = offsets[buffer.name] + buffer.size
    return offsets


def _with_bottom(buffers: Sequence[Buffer], above: int) -> int:
    """Returns a lower bound for all buffers, given that of the buffers that don't persist (`above`). With mixed
    alignments, gaps are not counted: another order of the buffers might have none."""
    lasting = [buffer for buffer in buffers if buffer.persists]
    uniform = len({buffer.align for buffer in buffers if buffer.size}) == 1
    sizes = [_aligned(buffer.size, buffer.align) if uniform else buffer.size for buffer in lasting]
    if above or not lasting:
        return sum(sizes) + above
    return sum(sizes) - max(size - buffer.size for size, buffer in zip(sizes, lasting, strict=True))


def _aligned(offset: int, align: int) -> int:
    return offset + -offset % align


def _plan(problem: Problem, seconds: float, effort: Effort) -> Plan:
    """Plans a problem without persistent buffers."""
    models = [BoundModel(part, problem.overlays) for part in _time_parts(problem.buffers)]
    bounds = [bound_of(model, effort is Effort.FULL) for model in models]
    proven = goal = max(bounds, default=0)
    offsets = {buffer.name: 0 for buffer in problem.buffers}
    budget = Budget(QUICK_WORK)
    if effort is Effort.FULL:
        budget = Budget(int(seconds * WORK_PER_SECOND))
    # The hardest part comes first: the others then only have to stay below its peak.
    for _, model in sorted(zip(bounds, models, strict=True), key=lambda pair: -pair[0]):
        found = solve(model, goal, budget, effort)
        proven = max(proven, found.proven)
        goal = max(goal, found.placement.peak)
        offsets.update(zip(model.names, (at * model.unit for at in found.placement.at), strict=True))
    peak = max((offsets[b.name] + b.size for b in problem.buffers if b.size), default=0)
    return Plan(
        offsets, peak, proven, peak == proven, SearchEffort(budget.spent, budget.total, exhausted=peak != proven)
    )


def _time_parts(buffers: Iterable[Buffer]) -> list[list[Buffer]]:
    """Returns groups of buffers that are never live together with another group, each in order of birth, without empty
    buffers."""
    parts: list[list[Buffer]] = []
    end: Time | None = None
    for buffer in sorted((b for b in buffers if b.size), key=lambda b: (b.start, b.end)):
        if end is None or buffer.start >= end:
            parts.append([])
            end = buffer.end
        parts[-1].append(buffer)
        end = max(end, buffer.end)
    return parts
