"""Other versions of Python and torch: an environment for each combination of tools/versions.toml, and tests in it.

    python tools/versions.py [--only TEXT] [--environments FOLDER] [--keep]

For each combination: a virtual environment with that torch and torchao, without executorch; a part of the tests; and
the hashes of the C of a few networks, beside those of the pinned versions. What came of it is kept in
tools/versions.json, and its table goes into docs/versions.md. A wheel of torch may want the libraries of CUDA beside it
(gigabytes); triton is left out, as nothing here compiles for a GPU. The code is 1 if a Python is not here, a test
fails or the C differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "versions.md"
KEPT = ROOT / "tools" / "versions.json"
REQUIRED = "from importlib.metadata import requires; print('\\n'.join(requires('torch') or ()))"
HASHES = ROOT / "tools" / "version_hashes.py"
LEFT_OUT = ("triton", "extra ==", "setuptools")
BESIDE = ("requirements.txt", "requirements-dev.txt")
NOT_NEEDED = ("torch", "torchao", "executorch", "dask", "distributed", "selenium", "mkdocs-material", "mypy", "ruff")
BEGIN, END = "<!-- versions -->", "<!-- end -->"
NOT_RUN = "not run"


@dataclass(frozen=True)
class Combination:
    """One row: which Python, torch and torchao."""

    python: str
    torch: str
    torchao: str

    @property
    def name(self) -> str:
        return f"python{self.python}-torch{self.torch}"


@dataclass(frozen=True)
class Result:
    """What came of a combination: how many tests passed, which did not, the networks whose C is another."""

    passed: int
    failed: tuple[str, ...]
    differing: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        return self.passed > 0 and not self.failed and not self.differing

    @property
    def tests(self) -> str:
        return f"{self.passed} of {self.passed + len(self.failed)}"

    @property
    def artifacts(self) -> str:
        return f"differ: {', '.join(self.differing)}" if self.differing else "the same bytes"


TABLE = tomllib.loads((ROOT / "tools" / "versions.toml").read_text())
TESTS: list[str] = TABLE["tests"]
COMBINATIONS = [Combination(**row) for row in TABLE["combination"]]


def is_here(python: str) -> bool:
    """Whether this Python starts by its name; what pyenv puts on PATH may find none."""
    found = shutil.which(f"python{python}")
    return found is not None and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0


def missing(python: str) -> str:
    return (
        f"python{python} is not on PATH, or does not start; install it (pyenv install {python}, then add the bin of "
        f"`pyenv prefix {python}` to PATH, or your system's python{python}-venv) and run this again"
    )


def environment(one: Combination, folder: Path) -> Path:
    """The Python of the combination's environment, made if it is not there."""
    place = folder / one.name
    python = place / "bin" / "python"
    if (place / "done").exists():
        return python
    shutil.rmtree(place, ignore_errors=True)
    began = time.monotonic()
    _run([f"python{one.python}", "-m", "venv", str(place)])
    _run([str(python), "-m", "pip", "install", "-q", "--no-deps", f"torch=={one.torch}", f"torchao=={one.torchao}"])
    needed = subprocess.run(
        [str(python), "-c", REQUIRED], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    beside = [line.split(";")[0].strip() for line in needed if not any(word in line for word in LEFT_OUT)]
    lines = [line for name in BESIDE for line in (ROOT / name).read_text().split() if "==" in line]
    pinned = [line for line in lines if line.split("==")[0] not in NOT_NEEDED]
    _run([str(python), "-m", "pip", "install", "-q", *beside, *pinned])
    (place / "done").touch()
    print(f"{one.name}: set up in {time.monotonic() - began:.0f} seconds", flush=True)
    return python


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True)


def tried(one: Combination, python: Path, wanted: Mapping[str, str]) -> Result:
    """The tests of a combination, and its C beside the pinned versions'."""
    found = ROOT / "build" / "versions" / f"{one.name}.xml"
    found.unlink(missing_ok=True)
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [str(python), "-m", "pytest", "-q", "-n", "2", "-m", "not slow", "--tb=short", f"--junit-xml={found}"]
    subprocess.run([*command, *TESTS], cwd=ROOT, env=environ, check=False)
    if not found.exists():
        sys.exit(f"{one.name}: pytest ended before it ran a test, for the reason above")
    cases = list(ElementTree.parse(found).iter("testcase"))
    failed = tuple(_name(case) for case in cases if case.find("failure") is not None or case.find("error") is not None)
    own = hashes(python)
    differing = tuple(name for name, value in wanted.items() if own.get(name) != value)
    return Result(len(cases) - len(failed), failed, differing)


def _name(case: ElementTree.Element) -> str:
    return f"{case.attrib['classname'].rpartition('.')[2]}::{case.attrib['name']}"


def hashes(python: Path) -> dict[str, str]:
    """The hash of the C of each network of tools/version_hashes.py, compiled by this Python."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([str(python), str(HASHES)], env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2000:], flush=True)
    return dict(line.split() for line in done.stdout.splitlines())


# ---- what came of it ----------------------------------------------------------------------------------------------


def results() -> dict[str, Result]:
    """The kept ones, by the names of their combinations."""
    known = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    found = {name: Result(one["passed"], tuple(one["failed"]), tuple(one["differing"])) for name, one in known.items()}
    return {one.name: found[one.name] for one in COMBINATIONS if one.name in found}


def table(known: Mapping[str, Result]) -> str:
    """For the page: a row for each combination, and the tests that fail."""
    lines = ["| Python | torch | torchao | tests that pass | the C of four networks |", "|---|---|---|---|---|"]
    for one in COMBINATIONS:
        found = known.get(one.name)
        words = (NOT_RUN, NOT_RUN) if found is None else (found.tests, found.artifacts)
        lines.append(f"| {' | '.join((one.python, one.torch, one.torchao, *words))} |")
    wrong = [(name, test) for name, found in known.items() for test in found.failed]
    fails = [f"- {name}: `{test}` fails." for name, test in wrong]
    return "\n".join([*lines, *(["", *fails] if fails else [])])


def keep(known: Mapping[str, Result]) -> None:
    """Writes what is known of all combinations, and the page."""
    KEPT.write_text(json.dumps({name: asdict(one) for name, one in sorted(known.items())}, indent=1) + "\n")
    text = PAGE.read_text()
    held = re.escape(BEGIN) + r"\n.*?" + re.escape(END)
    PAGE.write_text(re.sub(held, lambda _: f"{BEGIN}\n\n{table(known)}\n\n{END}", text, flags=re.DOTALL))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="combinations whose names contain this")
    parser.add_argument("--environments", type=Path, default=ROOT / "build" / "versions", metavar="FOLDER")
    parser.add_argument("--keep", action="store_true", help="environments too, for the next time (gigabytes each)")
    arguments = parser.parse_args()
    chosen = [one for one in COMBINATIONS if arguments.only in one.name]
    if not chosen:
        sys.exit(f"--only {arguments.only}: expected part of one of {', '.join(one.name for one in COMBINATIONS)}")
    absent = [missing(python) for python in sorted({one.python for one in chosen}) if not is_here(python)]
    print("\n".join(absent), end="\n" if absent else "")
    here = [one for one in chosen if is_here(one.python)]
    wanted = hashes(Path(sys.executable)) if here else {}
    whole = not absent
    for one in here:
        found = tried(one, environment(one, arguments.environments), wanted)
        keep({**results(), one.name: found})
        print(f"{one.name}: {found.tests} tests pass; C: {found.artifacts}", flush=True)
        whole = whole and found.is_whole
        if not arguments.keep:
            shutil.rmtree(arguments.environments / one.name)
    return 0 if whole else 1


if __name__ == "__main__":
    raise SystemExit(main())
