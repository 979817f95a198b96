"""Which part of src the tests of `make test` run, line by line.

    make coverage                                                            # build/coverage.json
    PYTHONPATH=tests python -m helpers.covered "version" build/coverage.json # keeps it by package: tests/coverage.json

Lines that only a process of its own runs (a command in a shell, a worker) count too.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from helpers.paths import TESTS

KEPT = TESTS / "coverage.json"
PACKAGE = "src/cortado/"

Measured = dict[str, tuple[int, int]]  # by package: the lines that run, and all


def by_package(report: Mapping[str, Any]) -> Measured:
    """Of what `coverage json` gives."""
    run, lines = Counter[str](), Counter[str]()
    for path, found in report["files"].items():
        inner = path[path.index(PACKAGE) + len(PACKAGE) :]
        package = inner.split("/")[0] if "/" in inner else "modules beside the packages"
        run[package] += found["summary"]["covered_lines"]
        lines[package] += found["summary"]["num_statements"]
    return {package: (run[package], lines[package]) for package in sorted(lines)}


def _share(counted: tuple[int, int]) -> str:
    return f"{counted[0] / counted[1]:.1%} of {counted[1]:,}"


def _sum(found: Measured) -> tuple[int, int]:
    return sum(run for run, _ in found.values()), sum(lines for _, lines in found.values())


def table() -> list[str]:
    """For docs/testing.md: what was measured, the newest last."""
    kept: dict[str, Measured] = json.loads(KEPT.read_text())
    packages = sorted({package for found in kept.values() for package in found})
    rows = [
        f"| {name if ' ' in name else f'`{name}`'} | "
        + " | ".join(_share(found[name]) if name in found else "-" for found in kept.values())
        + " |"
        for name in packages
    ]
    sums = " | ".join(_share(_sum(found)) for found in kept.values())
    return [
        "## Lines of `src` that `make test` runs",
        "",
        "Statements, as counted by `make coverage`, before and after cases that run no lines of their own moved to "
        "`make test-all` (`pytest.mark.cases`).",
        "",
        f"| package | {' | '.join(kept)} |",
        "|---|" + "---|" * len(kept),
        *rows,
        f"| all | {sums} |",
        "",
    ]


if __name__ == "__main__":
    named, path = sys.argv[1:]
    before = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    KEPT.write_text(json.dumps({**before, named: by_package(json.loads(Path(path).read_text()))}, indent=1) + "\n")
