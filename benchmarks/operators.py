"""How far estimated cycles are from measured ones, operator by operator.

python benchmarks/operators.py [--targets cortex-m0plus,...] [--number 0] [--cache FILE] [--json]

Each operator with a C kernel is a network of five calls, with arguments that its samples draw. None of the calls with
numbers below 1000 is among those that the table of costs was fitted to. What was measured lies in the cache file: a run
goes on where it stopped, and a new table of costs is compared at once.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from _common import progress, table
from _measuring import measure
from cortado.base.target import CortexM
from cortado.plan.kernel_costs import job_cycles, known_costs
from cost_samples import TARGETS
from fit_costs import job_of

WANTED = 0.1


def measured(number: int, targets: list[str], cache: Path) -> list[dict[str, Any]]:
    """From the cache, and what is missing there."""
    lines = [json.loads(line) for line in cache.read_text().splitlines()] if cache.exists() else []
    known = {(line["network"], line["target"]): line for line in lines}
    name = f"o{number}"
    missing = [target for target in targets if (name, target) not in known]
    for line in measure(name, missing) if missing else ():
        known[name, line["target"]] = line
        with cache.open("a") as file:
            file.write(json.dumps(line) + "\n")
        progress(f"{name} on {line['target']}")
    return [known[name, target] for target in targets]


def errors(line: dict[str, Any]) -> dict[str, float | None]:
    """By operator: of all its calls together, relative to what was measured; None where one is not estimated."""
    costs = known_costs()[CortexM(line["target"])]
    spent: dict[str, float] = defaultdict(float)
    found: dict[str, list[float | None]] = defaultdict(list)
    for data in line["jobs"]:
        spent[data["operator"]] += data["cycles"]
        found[data["operator"]].append(job_cycles(costs, job_of(data)))
    known = {name: [one for one in several if one is not None] for name, several in found.items()}
    return {
        name: sum(known[name]) / spent[name] - 1 if len(known[name]) == len(several) and spent[name] else None
        for name, several in found.items()
    }


def text(error: float | None) -> str:
    return "-" if error is None else f"{error:+.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("--number", type=int, default=0)
    parser.add_argument("--cache", type=Path, default=Path("build/operators.jsonl"))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    arguments.cache.parent.mkdir(parents=True, exist_ok=True)
    targets = arguments.targets.split(",")
    found = dict(zip(targets, map(errors, measured(arguments.number, targets, arguments.cache)), strict=True))
    names = sorted({name for one in found.values() for name in one})
    if arguments.json:
        print(json.dumps({name: {target: found[target].get(name) for target in targets} for name in names}, indent=1))
        return
    cells = [[name, *(text(found[target].get(name)) for target in targets)] for name in names]
    print(table(["operator", *targets], cells))
    far = sum(error is None or abs(error) > WANTED for one in found.values() for error in one.values())
    print(
        f"\n{far} of {sum(map(len, found.values()))} are further than {WANTED:.0%} from what was measured, or unknown"
    )


if __name__ == "__main__":
    main()
