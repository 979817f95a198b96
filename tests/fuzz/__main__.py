"""python -m fuzz: the campaign of `make fuzz`."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from fuzz.campaign import Wanted, run, write_repros
from fuzz.combinations import drawn
from fuzz.doors import Found, check_all
from fuzz.families import Family
from fuzz.journal import ROOT, Journal, fingerprint
from fuzz.page import PAGE, SUMMARY, page

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
    journal = Journal(chosen.folder / f"journal-{wanted.first}-{fingerprint()}.jsonl")
    print(f"journal: {journal.path}, {len(journal.lines)} networks in it already", flush=True)
    found = run(wanted, journal)
    (chosen.folder / "summary.json").write_text(json.dumps(found, indent=2) + "\n")
    repros = write_repros(all_bugs(found), chosen.folder)
    show(found)
    for path in repros:
        print(f"made small: {path}")
    wrong = combined(chosen.combinations, chosen.seed)
    return 1 if all_bugs(found) or wrong else 0


def combined(count: int, seed: int) -> list[Found]:
    """Combinations of features, one after the other; what is wrong is shown with the seed that makes it again."""
    found: list[Found] = []
    for one in check_all(drawn(count, seed)):
        found.append(one)
        if one.wrong:
            print(f"WRONG {one.combination}\n{one.wrong}", flush=True)
    right, refused = sum(one.right for one in found), sum(bool(one.refused) for one in found)
    left_out = sum(bool(one.left_out) for one in found)
    wrong = [one for one in found if one.wrong]
    print(
        f"{len(found)} combinations: {right} right, {refused} refused in a sentence, {left_out} that torch can't "
        f"write, {len(wrong)} wrong"
    )
    return wrong


def _others(chosen: argparse.Namespace) -> dict[Family, int]:
    given = {family: getattr(chosen, family) for family in PARTS}
    return {family: round(chosen.networks * PARTS[family]) if n is None else n for family, n in given.items()}


def write_page(folder: Path) -> int:
    """Adds the numbers of the last campaign, without the times, which are this machine's; in place of those of the same
    seeds."""
    found = json.loads((folder / "summary.json").read_text())
    kept = {key: value for key, value in found.items() if key != "seconds"}
    before = json.loads((ROOT / SUMMARY).read_text())
    campaigns = [*(one for one in before if one["seeds"][0] != kept["seeds"][0]), kept]
    (ROOT / SUMMARY).write_text(json.dumps(campaigns, indent=1) + "\n")
    (ROOT / PAGE).write_text(page(campaigns))
    return 0


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
