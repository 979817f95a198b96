"""The commit that the whole of `make test-all` was green on, kept in tests/green.json for `make release`.

    python tools/green.py COMMIT

is the last line of `make test-all`, with the commit that it began with.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "tests" / "green.json"
# What a run writes down about itself; a commit of these is tested as the one before it was.
RECORDS = frozenset(
    ("tests/green.json", "tests/long.json", "tools/versions.json", "docs/testing.md", "docs/versions.md")
)


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.rstrip()


def fault(known: str | None, differing: frozenset[str] | None) -> str | None:
    """What keeps the tree from being one that all tests passed on. `known`: the commit that they passed on;
    `differing`: the files that are others there, None where git does not know it."""
    if known is None:
        return "no commit is known that the whole of make test-all was green on (tests/green.json); run it"
    if differing is None:
        return f"make test-all was green on {known}, which git does not know; run it again"
    others = sorted(differing - RECORDS)
    if others:
        listed = ", ".join([*others[:3], *(["..."] if len(others) > 3 else [])])
        return (
            f"make test-all was green on {known[:12]}, and {len(others)} files are others now ({listed}); run it again"
        )
    return None


def fault_here() -> str | None:
    if not KEPT.exists():
        return fault(None, None)
    known: str = json.loads(KEPT.read_text())["commit"]
    try:
        return fault(known, frozenset(git("diff", "--name-only", known, "HEAD").splitlines()))
    except subprocess.CalledProcessError:
        return fault(known, None)


def record(began: str, now: str, changed: frozenset[str]) -> str:
    """Keeps the commit, if it is the one that was tested, as it stands; says what became of it. Standing without being
    committed takes the tests' records only."""
    if began != now:
        return f"all tests passed; not recorded: HEAD was {began[:12] or 'unknown'} when they began, and is {now[:12]}"
    others = sorted(changed - RECORDS)
    if others:
        return f"all tests passed; not recorded, since {others[0]} and the like are not committed"
    KEPT.write_text(json.dumps({"commit": now}) + "\n")
    return f"all tests passed on {now[:12]}; commit {KEPT.relative_to(ROOT)}"


def main() -> None:
    changed = frozenset(line[3:] for line in git("status", "--porcelain").splitlines())
    print(record("".join(sys.argv[1:]), git("rev-parse", "HEAD"), changed))


if __name__ == "__main__":
    main()
