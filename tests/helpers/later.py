"""Which tests `make test` leaves to `make test-all`, beside those that are marked slow themselves: tests/later.json.

By file and function: how many of its cases run in `make test`, the first ones. Chosen by what they cost, among those
whose lines of src others run too (`make coverage`).
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
KEPT = TESTS / "later.json"


def table() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads(KEPT.read_text())
    return found


def put_off(items: Iterable[pytest.Item]) -> None:
    """Marks as slow what is beyond the first cases of a function."""
    first, seen = table(), Counter[str]()
    for item in items:
        if not isinstance(item, pytest.Function) or item.get_closest_marker("slow") is not None:
            continue
        file = item.path.relative_to(TESTS).as_posix() if item.path.is_relative_to(TESTS) else ""
        kept = first.get(file, {}).get(item.originalname)
        seen[f"{file}::{item.originalname}"] += 1
        if kept is not None and seen[f"{file}::{item.originalname}"] > kept:
            item.add_marker(pytest.mark.slow)
