"""The long tests, a family (a folder, or a long file) at a time, and what became of each: tests/long.json.

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
RAN = (0, 1)  # pytest's codes: all passed, some failed
LONGEST = 15.0  # minutes
ALONE = (
    "emit/test_bundles.py",
    "emit/test_warnings.py",
    "kernels/test_every_core.py",
    "networks/test_fuzz.py",
    "networks/test_networks.py",
    "networks/test_random_networks.py",
    "networks/test_random_sequences.py",
)  # files whose folders would take longer with them


def families() -> list[str]:
    """The folders that have tests behind `slow`, whichever helper has put them there."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-m", "slow", "tests"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = {line.partition("::")[0].removeprefix("tests/") for line in listed.splitlines() if "::" in line}
    return sorted({name if name in ALONE else name.partition("/")[0] for name in files})


def run(family: str) -> dict[str, float]:
    """How many passed and failed, and the minutes of the clock."""
    found = ROOT / "build" / "long" / f"{family.replace('/', '-')}.xml"
    besides = [f"--ignore=tests/{name}" for name in ALONE if name.startswith(f"{family}/")]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "-m", "slow"]
    began = time.monotonic()
    done = subprocess.run([*command, *besides, f"--junit-xml={found}", f"tests/{family}"], cwd=ROOT, check=False)
    if done.returncode not in RAN:  # no such folder, no such tests, or stopped: what an older run left says nothing
        sys.exit(
            f"tests/{family}: pytest ended with {done.returncode}, expected tests behind `slow` that ran to their end"
        )
    minutes = (time.monotonic() - began) / 60
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
        "The tests that `make test-all` runs in addition to `make test`, by folder, on two cores; minutes of a shared "
        "machine.",
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
        known[family] = found = run(family)
        KEPT.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        late = f"; more than {LONGEST:.0f}: split it" if found["minutes"] > LONGEST else ""
        print(
            f"{family}: {found['passed']} passed, {found['failed']} failed, {found['minutes']} minutes{late}",
            flush=True,
        )
    return 1 if any(one["failed"] for one in known.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
