"""Which tests `make test` leaves to `make test-all`, beside those that are marked slow themselves: tests/later.json.

By file and function: how many of its cases run in `make test`, the first ones. Chosen by what they cost, among those
whose lines of src others run too (`make coverage`).
"""

import json
from collections import Counter
from collections.abc import Iterable

import pytest

from helpers.paths import TESTS

KEPT = TESTS / "later.json"


def table() -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads(KEPT.read_text())
    return found


def put_off(items: Iterable[pytest.Item]) -> None:
    """Marks as slow what is beyond the first cases of a function."""
    first, seen = table(), Counter[tuple[str, str]]()
    for item in items:
        if not isinstance(item, pytest.Function) or item.get_closest_marker("slow") is not None:
            continue
        file = item.path.relative_to(TESTS).as_posix() if item.path.is_relative_to(TESTS) else ""
        name = (file, item.originalname)
        seen[name] += 1
        if seen[name] > first.get(file, {}).get(item.originalname, seen[name]):
            item.add_marker(pytest.mark.slow)
