"""The long tests, a family (a folder) at a time, and what became of each: tests/long.json, for docs/testing.md.

    PYTHONPATH=tests python -m helpers.long_run            # all families
    PYTHONPATH=tests python -m helpers.long_run pte image  # these, beside what is known of the others

A family that takes longer than a quarter of an hour on two cores is told of: it wants to be split.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent.parent
KEPT = ROOT / "tests" / "long.json"
OUTCOMES = ("tests", "failures", "errors", "skipped")
NOTHING_COLLECTED = 5
LONGEST = 15.0  # minutes


def families() -> list[str]:
    """The folders that have tests behind `slow`."""
    folders = sorted({path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")})
    return [name for name in folders if any("mark.slow" in one.read_text() for one in _files(name))]


def _files(family: str) -> list[Path]:
    return sorted((ROOT / "tests" / family).glob("test_*.py"))


def run(family: str) -> dict[str, float] | None:
    """How many passed and failed, and the minutes of the clock; None where there is no such test."""
    found = ROOT / "build" / "long" / f"{family}.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-m", "slow"]
    began = time.monotonic()
    done = subprocess.run([*command, f"--junit-xml={found}", f"tests/{family}"], cwd=ROOT, check=False)
    minutes = (time.monotonic() - began) / 60
    if done.returncode == NOTHING_COLLECTED:
        return None
    suite = ElementTree.parse(found).getroot()[0]
    tests, failures, errors, skipped = (int(suite.attrib[name]) for name in OUTCOMES)
    wrong = failures + errors
    return {"passed": tests - wrong - skipped, "failed": wrong, "skipped": skipped, "minutes": round(minutes, 1)}


def table() -> list[str]:
    """For docs/testing.md; nothing where they have not been run."""
    if not KEPT.exists():
        return []
    known: dict[str, dict[str, float]] = json.loads(KEPT.read_text())
    sums = {key: sum(one[key] for one in known.values()) for key in ("passed", "failed", "skipped", "minutes")}
    rows = [*((f"`tests/{name}`", one) for name, one in sorted(known.items())), ("all", sums)]
    return [
        "## The long tests",
        "",
        "What `make test-all` runs beside `make test`, by folder, on two cores; minutes of a shared machine.",
        "",
        "| family | passed | failed | skipped | minutes |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {one['passed']:,} | {one['failed']} | {one['skipped']} | {one['minutes']:.1f} |"
            for name, one in rows
        ),
        "",
    ]


def main(chosen: Sequence[str]) -> int:
    known: dict[str, dict[str, float]] = json.loads(KEPT.read_text()) if chosen and KEPT.exists() else {}
    for family in chosen or families():
        found = run(family)
        if found is not None:
            known[family] = found
            KEPT.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
            late = f"; more than {LONGEST:.0f}: split it" if found["minutes"] > LONGEST else ""
            print(f"{family}: {found['passed']} passed, {found['failed']} failed, {found['minutes']} minutes{late}")
    return 1 if any(one["failed"] for one in known.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
