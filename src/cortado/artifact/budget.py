"""Memory budgets: when a network doesn't fit, which buffers are live at the peak, and what would help."""

from collections.abc import Mapping

from cortado.base.errors import CortadoError
from cortado.base.names import operator_base
from cortado.memory.problem import Buffer, peak_buffers
from cortado.memory.spread import Room
from cortado.options import Border, Optimize, Options
from cortado.plan.over_regions import over_regions
from cortado.plan.planned import Alternative, Planned
from cortado.plan.schedule import Schedules
from cortado.plan.segments import scratch_name
from cortado.run import toolchain


def check_ram(planned: Planned, alternatives: Mapping[Optimize, Alternative], options: Options) -> None:
    """Raises if the plan exceeds the RAM budget, naming the layer at the peak, the live buffers, and what would
    help."""
    limit = options.ram_limit
    if limit is None or planned.plan.peak <= limit:
        return
    live = sorted(peak_buffers(planned.problem, planned.plan), key=lambda b: -b.size)
    lines = [f"  {buffer.size:>10,}  {_label(planned, buffer.name)}" for buffer in live]
    raise CortadoError(
        f"{planned.program.name} needs {planned.plan.peak:,} bytes of RAM on "
        f"{planned.program.target.target_string}, {_limit(options, options.ram_budget, limit, 'RAM in one piece')}.\n"
        f"At the peak ({_where(planned, live)}) these buffers live:\n"
        + "\n".join(lines)
        + "\n"
        + _help(planned.plan.peak, alternatives[Optimize.RAM].arena_bytes, options)
    )


def in_regions(schedules: Schedules, planned: Planned, options: Options) -> Planned:
    """Places the plan in the memories that the user named, if any; raises with the one that is too small."""
    rooms = [Room(region.name, region.bytes, region.device) for region in options.memory]
    if not rooms:
        return planned
    found = over_regions(planned, rooms)
    if isinstance(found, Planned):
        return found
    lines = [f"  {buffer.size:>10,}  {_label(planned, buffer.name)}" for buffer in found.buffers]
    more = found.room.bytes + found.missing
    hints = [f"{found.room.name}={more} ({found.missing:,} bytes more)"]
    if options.optimize is not Optimize.RAM:
        lean = isinstance(over_regions(schedules.best(Optimize.RAM), rooms), Planned)
        hints.append(f"--optimize ram ({'fits' if lean else 'still too much'})")
    raise CortadoError(
        f"{planned.program.name} does not fit the memories {', '.join(f'{r.name}={r.bytes:,}' for r in rooms)} on "
        f"{planned.program.target.target_string}: {found.room.name} is {found.missing:,} bytes too small.\n"
        "These buffers did not fit:\n" + "\n".join(lines) + f"\nWhat would help: {'; '.join(hints)}; "
        "a smaller input, or fewer channels in these layers"
    )


def _limit(options: Options, budget: int | None, limit: int, what: str) -> str:
    """Words the limit by its source: a chip, or the user's budget."""
    if budget is None and options.chip is not None:
        return f"{options.chip.name} has {limit:,} bytes of {what}"
    return f"the budget is {limit:,}"


def _label(planned: Planned, name: str) -> str:
    for tensor in planned.program.inputs:
        if tensor.buffer == name:
            return f"input '{tensor.name}'"
    for step in planned.program.steps:
        if name in (*step.outputs, scratch_name(step)):
            what = "output" if name in step.outputs else "scratch"
            rows = planned.program.buffers[name].rows if name in step.outputs else 0
            kind = f"{rows} rows of the output" if rows else what
            return f"{kind} of {step.module or step.name} ({operator_base(step.operator)})"
    return name


def _where(planned: Planned, live: list[Buffer]) -> str:
    latest = max(buffer.start for buffer in live)
    steps = planned.program.stages[latest[0]].steps
    step = steps[min(latest[1], len(steps) - 1)]
    return f"at {step.module or step.name}, {operator_base(step.operator)}"


def _help(peak: int, least: int, options: Options) -> str:
    """Suggests what would reduce the peak; `least` is the arena of --optimize ram."""
    hints = []
    if least < peak:
        fits = "fits" if options.ram_limit is not None and least <= options.ram_limit else "still too much"
        hints.append(f"--optimize ram: {least:,} bytes ({fits})")
    if options.io is Border.FLOAT:
        hints.append("--io int8: inputs and outputs take a quarter of the bytes")
    hints.append("a smaller input, or fewer channels in the layers above")
    return "What would help: " + "; ".join(hints)


def check_flash(name: str, weights: int, code: int | None, options: Options) -> None:
    """Raises if constants and code are too large; without a compiler the code's size is unknown.

    `weights` are the constants without a section of their own; sections are memories that the user manages.
    """
    limit = options.flash_limit
    if limit is None:
        return
    if code is None:
        toolchain.require(toolchain.Tool.ARM_GCC)
    total = weights + (code or 0)
    if total > limit:
        raise CortadoError(
            f"{name} needs {total:,} bytes of flash: {weights:,} of constants and {code or 0:,} of code; "
            f"{_limit(options, options.flash_budget, limit, 'flash')}. What would help: fewer channels or layers"
        )
