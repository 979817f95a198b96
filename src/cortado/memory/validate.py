"""A validator of plans that shares no code with the planner."""

from collections.abc import Iterator

from cortado.base.errors import CortadoError
from cortado.memory.problem import Buffer, Plan, Problem


# Checking a plan by the rules
def validate(problem: Problem, plan: Plan) -> None:
    """Refuses a plan that breaks a rule; the message names the buffers. Deliberately simple, independent of the
    solver."""
    named = {buffer.name for buffer in problem.buffers}
    if set(plan.offsets) != named:
        odd = sorted(named.symmetric_difference(plan.offsets))[0]
        where = "has no offset in the plan" if odd in named else "has an offset but is not a buffer of the problem"
        raise CortadoError(f"buffer '{odd}' {where}: plan and problem must name the same buffers")
    for buffer in problem.buffers:
        offset = plan.offsets[buffer.name]
        if offset < 0 or offset % buffer.align:
            raise CortadoError(
                f"buffer '{buffer.name}' lies at offset {offset}: expected a multiple of {buffer.align}, 0 or more"
            )
    top = max((plan.offsets[b.name] + b.size for b in problem.buffers if b.size), default=0)
    if plan.peak != top:
        raise CortadoError(f"the plan says its peak is {plan.peak} bytes, but its buffers end at {top}")
    if plan.lower_bound > plan.peak or plan.optimal != (plan.lower_bound == plan.peak):
        raise CortadoError(
            f"the plan says peak {plan.peak}, lower bound {plan.lower_bound}, optimal {plan.optimal}: these contradict"
        )
    for one, other in _pairs(problem):
        _validate_pair(problem, plan, one, other)


def _pairs(problem: Problem) -> Iterator[tuple[Buffer, Buffer]]:
    """Yields all pairs that are live at the same time, and each persistent buffer with everything else."""
    living: list[Buffer] = []
    for buffer in sorted(problem.buffers, key=lambda one: (not one.persists, one.start)):
        living = [one for one in living if one.persists or one.end > buffer.start]
        yield from ((one, buffer) for one in living)
        living.append(buffer)


def _validate_pair(problem: Problem, plan: Plan, one: Buffer, other: Buffer) -> None:
    """Refuses two buffers that share a byte while both are live, unless an overlay allows it."""
    a, b = plan.offsets[one.name], plan.offsets[other.name]
    if one.persists or other.persists:
        _validate_lasting(plan, one, other)
        return
    apart_in_time = one.end <= other.start or other.end <= one.start
    apart_in_memory = a + one.size <= b or b + other.size <= a or one.size == 0 or other.size == 0
    if apart_in_time or apart_in_memory:
        return
    reason = "and no overlay allows that"
    for overlay in problem.overlays:
        if {overlay.out, overlay.inp} == {one.name, other.name}:
            if plan.offsets[overlay.out] + overlay.lead <= plan.offsets[overlay.inp]:
                return
            reason = (
                f"but '{overlay.out}' must start at least {overlay.lead} bytes before '{overlay.inp}' to lie over it"
            )
    raise CortadoError(
        f"buffers '{one.name}' at {a}..{a + one.size} and '{other.name}' at {b}..{b + other.size} share bytes "
        f"while both live, from {max(one.start, other.start)} to {min(one.end, other.end)}, {reason}"
    )


def _validate_lasting(plan: Plan, one: Buffer, other: Buffer) -> None:
    """Checks that a persistent buffer shares no byte with anything, at any time, and lies below those that don't
    persist."""
    low, high = sorted((one, other), key=lambda buffer: (plan.offsets[buffer.name], buffer.size))
    a, b = plan.offsets[low.name], plan.offsets[high.name]
    apart = a + low.size <= b or low.size == 0 or high.size == 0
    if not apart or (high.persists and not low.persists):
        lasting = high if high.persists else low
        raise CortadoError(
            f"buffers '{low.name}' at {a}..{a + low.size} and '{high.name}' at {b}..{b + high.size}: '{lasting.name}' "
            "persists, expected it apart from all others and below those that don't persist"
        )
