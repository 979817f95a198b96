"""What each test costs: CPU seconds of its process and of the programs that it started.

    pytest -n 2 --durations-file build/durations.json

CPU seconds are nearly the same on a busy machine, seconds of the clock are not.
"""

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

PROPERTY = "cpu_seconds"


class Durations:
    """The plugin of `--durations-file`. Workers measure, the process that started them writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        before = _cpu_seconds()
        item.user_properties.append((PROPERTY, before))
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        found = yield
        item.user_properties[:] = [
            (name, _cpu_seconds() - float(str(value)) if name == PROPERTY else value)
            for name, value in item.user_properties
        ]
        return found

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self._seconds.update({report.nodeid: round(float(str(dict(report.user_properties)[PROPERTY])), 2)})

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not hasattr(session.config, "workerinput"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(dict(sorted(self._seconds.items())), indent=0) + "\n")


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
