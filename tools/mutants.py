"""Small faults in the sources, one at a time: does `make test` find each of them?

    python tools/mutants.py [--only PART_OF_A_FILE_NAME] [--quick] [--keep]

For each fault of tools/mutants.toml a copy of the sources gets that fault, and the tests run on the copy: first those
that should find it, then, unless --quick, all others. Ends with 1 if more than two faults are found by no test. With
--keep, tools/mutants.json holds the test that found each fault, for docs/testing.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src"
KEPT = ROOT / "tools" / "mutants.json"
MOST_UNFOUND = 2
NO_TESTS = (4, 5)  # how pytest ends if a test does not exist, or is left to `make test-all`


@dataclass(frozen=True)
class Fault:
    """One text of a source, what takes its place, and the tests that should notice."""

    file: str
    was: str
    becomes: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.file}: {self.was.strip()}"

    def apply(self, sources: Path) -> None:
        """Writes the fault into a copy of the sources."""
        path = sources / "cortado" / self.file
        text = path.read_text()
        if text.count(self.was) != 1:
            raise SystemExit(f"{self.file}: {self.was!r} stands there {text.count(self.was)} times; expected once")
        path.write_text(text.replace(self.was, self.becomes))


def faults() -> list[Fault]:
    """The faults of the table."""
    table = tomllib.loads((ROOT / "tools" / "mutants.toml").read_text())["fault"]
    return [Fault(row["file"], row["was"], row["becomes"], tuple(row["tests"])) for row in table]


def is_found(fault: Fault, quick: bool) -> str | None:
    """The first test that fails with the fault; None if none does."""
    with tempfile.TemporaryDirectory(prefix="cortado-mutant-") as folder:
        sources = Path(folder) / "src"
        shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))
        fault.apply(sources)
        for tests in ([*fault.tests], *([] if quick else [["tests"]])):
            failed = _failed(tests, sources)
            if failed is not None:
                return failed
    return None


def _failed(tests: list[str], sources: Path) -> str | None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-m",
        "not slow",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        *tests,
    ]
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    if done.returncode in NO_TESTS:
        raise SystemExit(f"{' '.join(tests)}: no test of `make test` ran; {done.stdout}{done.stderr}")
    named = [line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return named[0] if named else f"pytest ended with {done.returncode}"


def keep(found: Mapping[str, str | None]) -> None:
    """Adds to the outcomes of earlier runs, without those of faults that left the table."""
    known = {**(json.loads(KEPT.read_text()) if KEPT.exists() else {}), **found}
    KEPT.write_text(json.dumps({one.name: known[one.name] for one in faults() if one.name in known}, indent=0) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="faults in files whose names contain this")
    parser.add_argument("--quick", action="store_true", help="run only the tests that should find each fault")
    parser.add_argument("--keep", action="store_true", help=f"write what was found to {KEPT.relative_to(ROOT)}")
    arguments = parser.parse_args()
    chosen = [fault for fault in faults() if arguments.only in fault.file]
    outcomes: dict[str, str | None] = {}
    for fault in chosen:
        found = outcomes[fault.name] = is_found(fault, arguments.quick)
        print(f"{'found' if found else 'NOT FOUND':9} {fault.name[:100]} {found or ''}", flush=True)
        if arguments.keep:
            keep(outcomes)
    unfound = list(outcomes.values()).count(None)
    print(f"{len(chosen) - unfound} of {len(chosen)} found")
    return int(unfound > MOST_UNFOUND)


if __name__ == "__main__":
    raise SystemExit(main())
