"""What each test costs: CPU seconds of its process and of the programs that it started.

    pytest -n 2 -m "not slow" --durations-file build/durations.json
    PYTHONPATH=tests python -m helpers.durations build/durations.json    # keeps the sums by file: tests/durations.json

CPU seconds are nearly the same on a busy machine, seconds of the clock are not.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Generator, Mapping
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


# ---- kept ------------------------------------------------------------------------------------------------------------

KEPT = Path(__file__).parent.parent / "durations.json"


def by_file(seconds: Mapping[str, float]) -> dict[str, float]:
    found: Counter[str] = Counter()
    for test, spent in seconds.items():
        found[test.split("::")[0]] += spent  # type: ignore[assignment]
    return {name: round(spent, 1) for name, spent in sorted(found.items())}


def table() -> list[str]:
    """For docs/testing.md: CPU seconds by folder, and the files that take most."""
    seconds: dict[str, float] = json.loads(KEPT.read_text())
    folders: Counter[str] = Counter()
    for name, spent in seconds.items():
        folders["/".join(name.split("/")[:2])] += spent  # type: ignore[assignment]
    most = sorted(seconds, key=lambda name: -seconds[name])[:10]
    return [
        "## Where the time of `make test` goes",
        "",
        f"{sum(seconds.values()) / 60:.0f} CPU minutes in all, with an empty build cache. By folder, in CPU seconds: "
        + ", ".join(f"`{name}` {spent:,.0f}" for name, spent in folders.most_common())
        + ".",
        "",
        "The files that take most: " + ", ".join(f"`{name}` {seconds[name]:,.0f}" for name in most) + ".",
    ]


if __name__ == "__main__":
    merged = {key: value for path in sys.argv[1:] for key, value in json.loads(Path(path).read_text()).items()}
    KEPT.write_text(json.dumps(by_file(merged), indent=0) + "\n")
