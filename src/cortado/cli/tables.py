"""Tables, figures and progress, as they stand in a terminal."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

EVERY = 10.0  # seconds between two lines about the same phase, where there is no terminal


class Progress:
    """A bar on a terminal, plain lines otherwise; always on standard error."""

    def __init__(self) -> None:
        self.start = self.said = time.monotonic()
        self.phase = ""
        self.bar: Any = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, SpinnerColumn, TextColumn
            from rich.progress import Progress as Bar

            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[count]}"),
            )
            self.bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self.task = self.bar.add_task("starting", total=None, count="")  # without a total, the bar only moves
            self.bar.start()

    def __call__(self, phase: str, done: int = 0, total: int = 0) -> None:
        """What is being done, and how many of how many samples are done where they are counted."""
        count = f"{done:,} of {total:,}" if total else ""
        if self.bar is not None:
            self.bar.remove_task(self.task)
            self.task = self.bar.add_task(phase, completed=done, total=total or None, count=count)
            return
        now = time.monotonic()
        if phase != self.phase or now - self.said > EVERY:
            text = f"{phase}, {count}" if count and phase == self.phase else phase
            print(f"[{now - self.start:6.1f} s] {text}", file=sys.stderr)
            self.phase, self.said = phase, now

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def decibels(value: float | None, missing: str) -> str:
    if value is None:
        return missing
    return "exact" if value == float("inf") else f"{value:.1f} dB"


def json_decibels(value: float | None) -> float | str | None:
    """JSON has no infinity: "exact" where there is no noise at all."""
    return "exact" if value == float("inf") else value


def print_rows(
    as_json: bool, records: Sequence[Any], header: Sequence[str], cells: Callable[[Any], Sequence[str]]
) -> None:
    """Records as a JSON list, or as a table for people."""
    if as_json:
        print(json.dumps([asdict(record) for record in records], indent=2))
        return
    print("\n".join(in_columns([header, *(cells(record) for record in records)])))


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, cells below one another."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
