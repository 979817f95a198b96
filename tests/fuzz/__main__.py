"""python -m fuzz: the campaign of `make fuzz`."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from fuzz import combined
from fuzz.campaign import Wanted, run, write_repros
from fuzz.combinations import drawn
from fuzz.families import Family
from fuzz.journal import ROOT, Journal, fingerprint
from fuzz.page import COMBINED, PAGE, SUMMARY, page

# Networks of other families, to one of the general ones.
PARTS = {Family.INTEGERS: 0.2, Family.ELEMENTS: 0.2, Family.MASKS: 0.1, Family.STATE: 0.1, Family.STREAMS: 0.05}
PHASES = "seconds for a network"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description="Random networks, compared everywhere they run.")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--networks", type=int, default=3000, help="general networks on this machine")
    parser.add_argument("--boards", type=int, help="of these, on emulated boards (a tenth)")
    parser.add_argument("--ptes", type=int, help="of these, as a .pte (a third)")
    for family, part in PARTS.items():
        parser.add_argument(f"--{family}", type=int, help=f"networks of this family ({part:g} of the general ones)")
    parser.add_argument(
        "--combinations", type=int, default=2000, help="features that meet: form, element, product, door"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--page", action="store_true", help="only add the last campaign to docs/testing.md")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "fuzz", help="of the journal and the repros")
    chosen = parser.parse_args(arguments)
    if chosen.page:
        return write_page(chosen.folder)
    wanted = Wanted(
        first=chosen.seed,
        networks={Family.NETWORKS: chosen.networks} | _others(chosen),
        boards=chosen.networks // 10 if chosen.boards is None else chosen.boards,
        ptes=chosen.networks // 3 if chosen.ptes is None else chosen.ptes,
        jobs=chosen.jobs,
    )
    if not chosen.networks:
        return 1 if combine(chosen.combinations, chosen.seed, chosen.jobs, chosen.folder) else 0
    journal = Journal(chosen.folder / f"journal-{wanted.first}-{fingerprint()}.jsonl")
    print(f"journal: {journal.path}, {len(journal.lines)} networks in it already", flush=True)
    found = run(wanted, journal)
    write_summary(chosen.folder / "summary.json", found)
    repros = write_repros(all_bugs(found), chosen.folder)
    show(found)
    for path in repros:
        print(f"made small: {path}")
    wrong = combine(chosen.combinations, chosen.seed, chosen.jobs, chosen.folder) if chosen.combinations else []
    return 1 if all_bugs(found) or wrong else 0


def combine(count: int, seed: int, jobs: int, folder: Path) -> list[combined.Line]:
    """Combinations of features; returns those that are wrong, which were shown with the seed that makes them again."""
    path = folder / f"combinations-{seed}-{fingerprint()}.jsonl"
    lines = combined.run(drawn(count, seed), path, jobs)
    found = combined.totals(lines) | {"seed": seed}
    write_summary(folder / Path(COMBINED).name, found)
    counts = ", ".join(f"{number} {outcome.replace('_', ' ')}" for outcome, number in found["outcomes"].items())
    print(f"{len(lines)} combinations: {counts}")
    print(combined.Coverage.of([found]))
    return [line for line in lines if line["outcome"] == "wrong"]


def write_summary(path: Path, found: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n")


def _others(chosen: argparse.Namespace) -> dict[Family, int]:
    given = {family: getattr(chosen, family) for family in PARTS}
    return {family: round(chosen.networks * PARTS[family]) if n is None else n for family, n in given.items()}


def write_page(folder: Path) -> int:
    """Adds the numbers of the last campaigns, without the times, which are this machine's; in place of those of the
    same seeds."""
    kept = {}
    for name in (SUMMARY, COMBINED):
        before, path = json.loads((ROOT / name).read_text()), folder / Path(name).name
        found = [json.loads(path.read_text())] if path.exists() else []
        same = [one for one in before if not found or _seed(one) != _seed(found[0])]
        kept[name] = [*same, *({key: value for key, value in one.items() if key != "seconds"} for one in found)]
        (ROOT / name).write_text(json.dumps(kept[name], indent=None if name == COMBINED else 1) + "\n")
    (ROOT / PAGE).write_text(page(kept[SUMMARY], kept[COMBINED]))
    return 0


def _seed(found: dict[str, Any]) -> int:
    seed: int = found["seed"] if "seed" in found else found["seeds"][0]
    return seed


def all_bugs(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [*found["bugs"], *(bug for family in found["families"].values() for bug in family["bugs"])]


def show(found: dict[str, Any]) -> None:
    """The final table."""
    first, last = found["seeds"]
    print(
        f"\nseeds {first} to {last}: {found['networks']} networks, {found['host']} on this machine, {found['pte']} .pte"
    )
    for board, count in found["boards"].items():
        print(f"  {count:5} on {board}")
    for name, one in found["families"].items():
        print(f"{one['networks']} of {name}: {sum(one['refused'].values())} refused, {len(one['bugs'])} bugs")
    for name in ("layers", "calls"):
        low, middle, high = found[name]
        print(f"{name}: {low} to {high}, half of the networks at least {middle}")
    for why, count in found["refused"].items():
        print(f"  {count:5} refused: {why}")
    for kind, covered in found["coverage"].items():
        never = ", ".join(covered["never"]) or "none"
        print(f"{kind}: {covered['met']} of {covered['claimed']} met; never: {never}")
    for phase, seconds in found["seconds"].items():
        print(f"  {seconds:6.2f} {PHASES}: {phase}")
    for bug in all_bugs(found):
        print(f"BUG {bug['family']} seed {bug['seed']}: {bug['kind']}: {bug['what'].splitlines()[0][:200]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
