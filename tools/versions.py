"""Other versions of Python and torch: an environment for each combination of tools/versions.toml, and tests in it.

    python tools/versions.py [--only TEXT] [--environments FOLDER]

For each combination: a virtual environment with that torch and torchao, without executorch; a part of the tests; and
the hashes of the C of a few networks, beside those of the pinned versions. The table goes into docs/versions.md.
A wheel of torch may want the libraries of CUDA beside it (gigabytes); triton is left out, as nothing here compiles for
a GPU. A Python that is not on PATH is told of, and its rows say "not run".
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "versions.md"
REQUIRED = "from importlib.metadata import requires; print('\\n'.join(requires('torch') or ()))"
HASHES = ROOT / "tools" / "version_hashes.py"
LEFT_OUT = ("triton", "extra ==", "setuptools")
BESIDE = ("requirements.txt", "requirements-dev.txt")
NOT_NEEDED = ("torch", "torchao", "executorch", "dask", "distributed", "selenium", "mkdocs-material", "mypy", "ruff")


@dataclass(frozen=True)
class Combination:
    """One row: which Python, torch and torchao."""

    python: str
    torch: str
    torchao: str

    @property
    def name(self) -> str:
        return f"python{self.python}-torch{self.torch}"

    def row(self, tests: str, artifacts: str) -> str:
        return f"| {self.python} | {self.torch} | {self.torchao} | {tests} | {artifacts} |"


TABLE = tomllib.loads((ROOT / "tools" / "versions.toml").read_text())
TESTS: list[str] = TABLE["tests"]
COMBINATIONS = [Combination(**row) for row in TABLE["combination"]]


def environment(one: Combination, folder: Path) -> Path:
    """The Python of the combination's environment, made if it is not there."""
    place = folder / one.name
    python = place / "bin" / "python"
    if (place / "done").exists():
        return python
    shutil.rmtree(place, ignore_errors=True)
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
    return python


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True)


def tried(one: Combination, python: Path, wanted: dict[str, str]) -> str:
    """The row of a combination: tests that pass, and whether its C is the same."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [str(python), "-m", "pytest", "-q", "-n", "2", "-m", "not slow", "--tb=short", *TESTS]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    print(done.stdout[-3000:], flush=True)
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout[-500:])}
    passed, whole = counts.get("passed", 0), sum(counts.values())
    found = hashes(python)
    differing = [name for name, value in wanted.items() if found.get(name) != value]
    return one.row(f"{passed} of {whole}", "the same bytes" if not differing else f"differ: {', '.join(differing)}")


def hashes(python: Path) -> dict[str, str]:
    """The hash of the C of each network of tools/version_hashes.py, compiled by this Python."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([str(python), str(HASHES)], env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2000:], flush=True)
    return dict(line.split() for line in done.stdout.splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="combinations whose names contain this")
    parser.add_argument("--environments", type=Path, default=ROOT / "build" / "versions", metavar="FOLDER")
    arguments = parser.parse_args()
    wanted = hashes(Path(sys.executable))
    code = 0
    for one in COMBINATIONS:
        if arguments.only not in one.name:
            continue
        if shutil.which(f"python{one.python}") is None:
            print(
                f"{one.name}: python{one.python} is not on PATH; install it (pyenv install {one.python}) and run again"
            )
            code = 1
            continue
        row = tried(one, environment(one, arguments.environments), wanted)
        print(row)
        start = f"| {one.python} | {one.torch} |"
        lines = [row if line.startswith(start) else line for line in PAGE.read_text().splitlines()]
        PAGE.write_text("\n".join(lines) + "\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
