"""Tables, figures and progress, as they stand in a terminal."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any


class Progress:
    """A status line on a terminal, plain lines otherwise; always on standard error."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.status: Any = None
        if sys.stderr.isatty():
            from rich.console import Console

            self.status = Console(stderr=True).status("starting")
            self.status.start()

    def __call__(self, phase: str) -> None:
        if self.status is not None:
            self.status.update(f"{phase} ...")
        else:
            print(f"[{time.monotonic() - self.start:6.1f} s] {phase}", file=sys.stderr)

    def stop(self) -> None:
        if self.status is not None:
            self.status.stop()


def decibels(value: float | None, missing: str) -> str:
    if value is None:
        return missing
    return "exact" if value == float("inf") else f"{value:.1f} dB"


def print_rows(
    as_json: bool, records: Sequence[Any], header: Sequence[str], cells: Callable[[Any], Sequence[str]]
) -> None:
    """Records as a JSON list, or as a table for people."""
    if as_json:
        print(json.dumps([asdict(record) for record in records], indent=2))
        return
    rows = [header, *(cells(record) for record in records)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
