"""Small faults of `make mutants` for docs/testing.md: how many the tests found, and which they did not."""

import json

from helpers.paths import ROOT

KEPT = ROOT / "tools" / "mutants.json"  # `python tools/mutants.py --keep` writes it


def table() -> list[str]:
    """The outcome of the last judgement of each fault."""
    kept: dict[str, str | None] = json.loads(KEPT.read_text())
    missed = [name for name, test in kept.items() if test is None]
    tests = {test.split("::")[0] for test in kept.values() if test is not None}
    lines = [
        "## Small faults that the tests find",
        "",
        f"`make mutants` makes one small fault at a time in a copy of the sources ({len(kept)} of them, over all "
        "packages, in `tools/mutants.toml`) and runs the tests that should notice: "
        f"{len(kept) - len(missed)} of {len(kept)} are found, by tests of {len(tests)} files.",
        "",
    ]
    return [*lines, *(f"- not found: `{name}`" for name in missed), *([""] if missed else [])]
