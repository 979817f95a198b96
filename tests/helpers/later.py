"""Tests that `make test` leaves to `make test-all`: the cases of a test behind its first ones, by its own marker.

`@pytest.mark.cases(2)` above a parametrized test says that its first two cases run in `make test`. Chosen by what they
cost, among those whose lines of src others run too (`make coverage`); at least one case of every test runs.
"""

from collections import Counter
from collections.abc import Iterable

import pytest


def put_off(items: Iterable[pytest.Item]) -> None:
    """Marks as slow what is beyond the first cases of a function."""
    seen = Counter[tuple[str, str]]()
    for item in items:
        marker = item.get_closest_marker("cases")
        if not isinstance(item, pytest.Function) or marker is None or item.get_closest_marker("slow") is not None:
            continue
        (first,) = marker.args
        if first < 1:
            raise pytest.UsageError(f"{item.nodeid}: cases({first}), expected at least one")
        name = (str(item.path), item.originalname)
        seen[name] += 1
        if seen[name] > first:
            item.add_marker(pytest.mark.slow)
