"""Tables, figures and progress, as printed in a terminal.

Also cycles and milliseconds, as run, profile and compile show them.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cortado.artifact.report import CameraReport
    from cortado.profile import Timing
    from cortado.timing.cycles import Cycles


# ---- tables ----------------------------------------------------------------------------------------------

EVERY = 10.0  # seconds between two lines about the same phase, if there is no terminal


class ProgressBar:
    """A progress bar on a terminal, plain lines otherwise; always on standard error. `steps` are the phases to come."""

    def __init__(self, steps: Sequence[str] = ()) -> None:
        self.start = self.said = time.monotonic()
        self.steps = tuple(steps)
        self.phase = ""
        self.step = 0
        self.bar: Any = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (
                SpinnerColumn(),
                TextColumn("{task.fields[step]}"),
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[count]}"),
                TimeElapsedColumn(),
            )
            self.bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self.task = self._add("starting", 0, 0, "")
            self.bar.start()

    def __call__(self, phase: str, done: int = 0, total: int = 0) -> None:
        """Shows the current phase and, if counted, how many of its samples are done."""
        count = f"{done:,} of {total:,}" if total else ""
        if phase != self.phase:
            self.step = self._number(phase)
        if self.bar is not None:
            self.bar.remove_task(self.task)
            self.task = self._add(phase, done, total, count)
            self.phase = phase
            return
        now = time.monotonic()
        if phase != self.phase or now - self.said > EVERY:
            text = f"{phase}, {count}" if count and phase == self.phase else phase
            print(f"[{now - self.start:6.1f} s] {text}", file=sys.stderr)
            self.phase, self.said = phase, now

    def _number(self, phase: str) -> int:
        """Returns the number of a phase. Skipped phases still count, and those of a second target continue the
        count."""
        later = [number for number, name in enumerate(self.steps, start=1) if name == phase and number > self.step]
        return later[0] if later else self.step + (0 if self.steps else 1)

    def _add(self, phase: str, done: int, total: int, count: str) -> Any:
        """Adds the bar of a phase, with the total elapsed time; without a total it is indeterminate."""
        step = f"{self.step}/{len(self.steps)}" if self.steps else f"{self.step or ''}"
        task = self.bar.add_task(phase, completed=done, total=total or None, count=count, step=step)
        self.bar.tasks[-1].start_time = self.start
        return task

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def decibels(value: float | None, missing: str) -> str:
    if value is None:
        return missing
    return "exact" if value == float("inf") else f"{value:.1f} dB"


def json_decibels(value: float | None) -> float | str | None:
    """Returns "exact" for infinity, which JSON does not have: there is no noise at all."""
    return "exact" if value == float("inf") else value


def print_rows(
    as_json: bool, records: Sequence[Any], header: Sequence[str], cells: Callable[[Any], Sequence[str]]
) -> None:
    """Prints records as a JSON list, or as a table for people."""
    if as_json:
        print(json.dumps([asdict(record) for record in records], indent=2))
        return
    print("\n".join(in_columns([header, *(cells(record) for record in records)])))


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Formats one line per row, with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def camera_text(camera: "CameraReport") -> str:
    """Describes a camera for the summary of a compile."""
    held = f"{camera.held_bytes:,} bytes of the arena for a line" if camera.held_bytes else "no line is kept"
    cycles = "" if camera.cycles is None else f", about {camera.cycles:,} cycles for a picture"
    return f"{camera.camera}; {held}, {camera.table_bytes:,} bytes of tables{cycles}"


# ---- timing ----------------------------------------------------------------------------------------------


def cycles_json(cycles: "Cycles") -> dict[str, int]:
    return {"low": round(cycles.low), "typical": round(cycles.typical), "high": round(cycles.high)}


def milliseconds_json(timing: "Timing") -> dict[str, float] | None:
    time = timing.milliseconds
    if time is None:
        return None
    return {"low": round(time.low, 6), "typical": round(time.typical, 6), "high": round(time.high, 6)}


def cycles_text(timing: "Timing") -> list[str]:
    """Returns a line for cycles, and one for time if a chip is named."""
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
    """Formats three significant digits, or all before the decimal point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"
