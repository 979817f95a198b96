"""The arena over several memories: buffers assigned by how much they are used, each memory planned on its own.

The regions are consecutive in one space of offsets, so that tables, checks and reports need only an offset; the base
address of each is known when the network runs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cortado.memory.planner import lower_bound
from cortado.memory.problem import Buffer, Effort, Plan, SearchEffort
from cortado.memory.spread import Room, Spread, aligned, in_rooms, part_of, shortage, spread
from cortado.memory.validate import validate
from cortado.plan.planned import Planned, RegionPlan, guarded, with_state
from cortado.plan.program import Stage
from cortado.plan.segments import ALIGNMENT, scratch_name
from cortado.plan.stages import StageRun


@dataclass(frozen=True)
class TooSmall:
    """The region that has to grow least, by how many bytes, and the buffers that did not fit."""

    room: Room
    missing: int
    buffers: tuple[Buffer, ...]


def over_regions(planned: Planned, rooms: Sequence[Room]) -> Planned | TooSmall:
    """Places the buffers of a plan in these memories, the fastest first, or returns what is missing."""
    problem = planned.problem
    usable = [replace(room, bytes=room.bytes - room.bytes % ALIGNMENT) for room in rooms]
    used = heat(planned)
    found = spread(problem, usable, used)
    if found.missing:
        room, missing = shortage(problem, usable, used, found)
        return TooSmall(next(one for one in rooms if one.name == room.name), aligned(missing), found.missing)
    plans = in_rooms(problem, found.parts)
    wide = guarded(problem)
    checked = in_rooms(wide, _same_names(wide.buffers, found), Effort.QUICK)
    regions = _regions(rooms, found, plans, checked)
    for room, region, plan, loose in zip(usable, regions, plans, checked, strict=True):
        own = part_of(problem, (b for b in problem.buffers if b.name in region.buffers))
        validate(own, plan)
        validate(guarded(own), loose)
        assert region.bytes <= room.bytes
    return replace(
        planned,
        plan=with_state(_joined(plans, [one.start for one in regions], lower_bound(problem)), planned.in_place),
        checked=with_state(_joined(checked, [one.checked_start for one in regions], 0), planned.in_place),
        regions=regions,
        spent={**planned.spent, "offsets": _all_spent(plans)},
    )


def _same_names(buffers: Sequence[Buffer], found: Spread) -> list[list[Buffer]]:
    by_name = {buffer.name: buffer for buffer in buffers}
    return [[by_name[buffer.name] for buffer in part] for part in found.parts]


def _regions(
    rooms: Sequence[Room], found: Spread, plans: Sequence[Plan], checked: Sequence[Plan]
) -> tuple[RegionPlan, ...]:
    regions: list[RegionPlan] = []
    start = checked_start = 0
    for room, part, plan, loose in zip(rooms, found.parts, plans, checked, strict=True):
        regions.append(
            RegionPlan(
                name=room.name,
                room=room.bytes,
                buffers=frozenset(buffer.name for buffer in part),
                start=start,
                bytes=aligned(plan.peak),
                checked_start=checked_start,
                checked_bytes=aligned(loose.peak),
                device=room.device,
            )
        )
        start += regions[-1].bytes
        checked_start += regions[-1].checked_bytes
    return tuple(regions)


def _joined(plans: Sequence[Plan], starts: Sequence[int], bound: int) -> Plan:
    """Joins the plans of the regions, one after the other. `bound` is the lower bound of a single arena."""
    offsets = {name: start + at for plan, start in zip(plans, starts, strict=True) for name, at in plan.offsets.items()}
    peak = starts[-1] + aligned(plans[-1].peak)
    return Plan(offsets, peak, min(bound, peak), optimal=peak <= bound)


def _all_spent(plans: Sequence[Plan]) -> SearchEffort:
    spent = [plan.spent for plan in plans]
    return SearchEffort(
        sum(one.work for one in spent), sum(one.bound for one in spent), exhausted=any(one.exhausted for one in spent)
    )


def heat(planned: Planned) -> Mapping[str, float]:
    """Returns how often a byte of each buffer is accessed in one run, from the rows that kernel calls read and make.

    Every call writes its scratch and reads it back. Inputs are written once, outputs read once.
    """
    used: Counter[str] = Counter()
    for stage, run in zip(planned.program.stages, planned.runs, strict=True):
        _count(used, stage, run)
    for tensor in (*planned.program.inputs, *planned.program.outputs):
        used[tensor.buffer] += planned.program.buffers[tensor.buffer].size
    for new, old in planned.in_place.items():
        used[old] += used[new]
    return {buffer.name: used[buffer.name] / max(buffer.size, 1) for buffer in planned.problem.buffers}


def _count(used: Counter[str], stage: Stage, run: StageRun) -> None:
    """Adds the bytes that a stage reads and writes."""
    calls = Counter(position for position, _ in run.calls)
    for position, step in enumerate(stage.steps):
        rows = step.images * run.rows[position]
        used[step.output] += rows * step.row_bytes * (2 if step.one_row else 1)
        used[scratch_name(step)] += 2 * step.images * calls[position] * step.scratch
        for port in step.ports:
            if isinstance(port.source, str):
                used[port.source] += rows * port.rule.taps * port.row_bytes
