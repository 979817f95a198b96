"""Cycles and milliseconds, as run, profile and compile show them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cortado.profile import Timing
    from cortado.timing.cycles import Cycles


def cycles_json(cycles: "Cycles") -> dict[str, int]:
    return {"low": round(cycles.low), "typical": round(cycles.typical), "high": round(cycles.high)}


def milliseconds_json(timing: "Timing") -> dict[str, float] | None:
    time = timing.milliseconds
    if time is None:
        return None
    return {"low": round(time.low, 6), "typical": round(time.typical, 6), "high": round(time.high, 6)}


def cycles_text(timing: "Timing") -> list[str]:
    """A line for cycles, and one for time where a chip is named."""
    cycles = timing.total.cycles
    each = f"{timing.cpu.value}, grade: {timing.model.grade.value}"
    lines = [f"{_short(cycles.typical)} cycles at zero wait states{_between(cycles, _short)} (a model; {each})"]
    time = timing.milliseconds
    if time is not None and timing.clock is not None:
        at = f"{timing.clock.chip} at {timing.clock.hertz / 1e6:g} MHz"
        lines.append(f"{_digits(time.typical)} ms{_between(time, _digits)} on {at}")
    return lines


def _between(ends: "Cycles", text: Callable[[float], str]) -> str:
    low, high = text(ends.low), text(ends.high)
    return "" if low == high else f", {low} to {high}"


def _short(cycles: float) -> str:
    return f"{cycles / 1e6:,.3f} M" if cycles >= 1e5 else f"{cycles:,.0f}"


def _digits(value: float) -> str:
    """Three digits of it, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"
