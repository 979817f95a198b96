"""Whether two commits compile every network of the zoo to the same bytes: `make same BASE=commit`.

A change of the compiler's own shape must not change what it makes. The base is checked out beside the tree; both
compile all networks for one core of each kind and for any core, with all three schedules, through the command line;
then the SHA-256 of every file is compared. Left out are seconds, which differ from run to run, the hash of the kernel
library, which is in a few lines of every bundle, and with it the hashes of files in the reports.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGETS = "cortex-m0plus,cortex-m4,cortex-m55,cortex-m"
SCHEDULES = ("ram", "balanced", "time")
WORKERS = 2
# The hash of the kernel library, wherever it stands in a bundle.
_LIBRARY = re.compile(rb"(_kernels_|CORTADO_LIBRARY !?=? ?0x|CORTADO_KERNELS_HASH (!= )?0x)[0-9a-f]{8}")
Digests = dict[str, str]  # of every file, by network, schedule, target and name


@dataclass(frozen=True)
class Tree:
    """The sources of Cortado at some commit."""

    root: Path

    def cortado(self, *arguments: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(self.root / "src"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", "from cortado.cli import main; raise SystemExit(main())", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{self.root}: cortado {' '.join(arguments)} failed:\n{done.stderr}")
        return done.stdout

    def networks(self) -> list[str]:
        return [network["name"] for network in json.loads(self.cortado("zoo", "--json"))]

    def digests(self, networks: list[str]) -> Digests:
        """Compiles everything; one process per network and schedule, for all targets."""
        with tempfile.TemporaryDirectory(prefix="cortado-same-") as place, ThreadPoolExecutor(WORKERS) as pool:
            jobs = [(name, schedule, Path(place) / name / schedule) for name, schedule in product(networks, SCHEDULES)]
            return {key: digest for found in pool.map(self._compile, jobs) for key, digest in found.items()}

    def _compile(self, job: tuple[str, str, Path]) -> Digests:
        name, schedule, folder = job
        self.cortado("compile", name, "--target", TARGETS, "--optimize", schedule, "-o", str(folder))
        print(f"{self.root.name}: {name}, {schedule}", file=sys.stderr, flush=True)
        return {f"{name}/{schedule}/{file}": digest for file, digest in _digests(folder, self.root)}


def _digests(folder: Path, root: Path) -> Iterator[tuple[str, str]]:
    """Where the sources are checked out is no part of a file: reports name lines of the zoo's networks."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes().replace(bytes(root), b"")
        if path.name == "report.json":
            data = _without_seconds(data)
        elif path.suffix in (".c", ".h"):
            data = _LIBRARY.sub(b"", data)
        yield path.relative_to(folder).as_posix(), hashlib.sha256(data).hexdigest()


def _without_seconds(report: bytes) -> bytes:
    """A report without what differs between two runs: its seconds, and the hashes of the other files."""
    facts = json.loads(report)
    facts.pop("compile_seconds")
    facts["artifacts"] = sorted(facts["artifacts"])
    return json.dumps(facts).encode()


def _base_digests(commit: str, networks: list[str]) -> Digests:
    """Those of a commit, computed once and kept in build/same."""
    full = _git("rev-parse", "--verify", f"{commit}^{{commit}}")
    kept = {name: ROOT / "build" / "same" / full / f"{name}.json" for name in networks}
    missing = [name for name, path in kept.items() if not path.is_file()]
    if missing:
        with tempfile.TemporaryDirectory(prefix="cortado-base-") as place:
            tree = Path(place) / "base"
            _git("worktree", "add", "--detach", str(tree), full)
            try:
                found = Tree(tree).digests(missing)
            finally:
                _git("worktree", "remove", "--force", str(tree))
        for name in missing:
            kept[name].parent.mkdir(parents=True, exist_ok=True)
            kept[name].write_text(json.dumps({key: found[key] for key in found if key.startswith(f"{name}/")}))
    return {key: digest for path in kept.values() for key, digest in json.loads(path.read_text()).items()}


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def differences(base: Mapping[str, str], tree: Mapping[str, str]) -> list[str]:
    """A line for each file that is not the same in both."""
    names = sorted({*base, *tree})
    kinds = {name: _difference(base.get(name), tree.get(name)) for name in names}
    return [f"{kind}: {name}" for name, kind in kinds.items() if kind is not None]


def _difference(base: str | None, tree: str | None) -> str | None:
    if base is None:
        return "only in the tree"
    if tree is None:
        return "only in the base"
    return "differs" if base != tree else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="the commit to compare the working tree with")
    parser.add_argument("--networks", help="only these, with commas between them")
    arguments = parser.parse_args()
    here = Tree(ROOT)
    networks = arguments.networks.split(",") if arguments.networks else here.networks()
    base = _base_digests(arguments.base, networks)
    tree = here.digests(networks)
    found = differences(base, tree)
    print("\n".join(found[:50]))
    print(f"{len(tree)} files of {len(networks)} networks, {len(found)} not the same as in {arguments.base}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
