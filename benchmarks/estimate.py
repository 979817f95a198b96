"""How far estimated cycles are from measured ones, over the zoo and random architectures.

python benchmarks/estimate.py [--networks zoo,a0-49] [--targets cortex-m0plus,...] [--cache FILE] [--json]

None of these networks, neither the zoo's nor the random ones (architectures.py, seeds 0 to 49), is among those that the
table of costs was fitted to. f0-49 are the campaign's networks, which hold every operator there is. What was measured
lies in the cache file: a run goes on where it stopped, and a new table of costs is compared at once.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from _common import progress, table
from _measuring import measure
from cortado.base.errors import CortadoError
from cortado.base.target import CortexM
from cortado.plan.kernel_costs import job_cycles, known_costs, loop_cycles
from cortado.plan.kernel_workload import Loop
from cost_samples import names
from fit_costs import job_of

# Every core, those first that are measured with all networks; the others, with code of their own, with the first random
# ones.
MOST = ("cortex-m0plus", "cortex-m0", "cortex-m4", "cortex-m55", "cortex-m52", "cortex-m85")
OTHERS = ("cortex-m33", "cortex-m35p", "cortex-m7", "cortex-m3", "cortex-m23")
FIRST = 15
KINDS = {"a": "random architectures", "f": "the campaign's networks"}


def measured(networks: Iterable[str], targets: list[str], cache: Path) -> list[dict[str, Any]]:
    """From the cache, and what is missing there."""
    lines = [json.loads(line) for line in cache.read_text().splitlines()] if cache.exists() else []
    known = {(line["network"], line["target"]): line for line in lines}
    found = []
    for name in networks:
        wanted = [target for target in targets if target not in OTHERS or _is_first(name)]
        missing = [target for target in wanted if (name, target) not in known]
        try:
            for line in measure(name, missing) if missing else ():
                known[name, line["target"]] = line
                with cache.open("a") as file:
                    file.write(json.dumps(line) + "\n")
        except CortadoError as error:
            progress(f"{name}: {str(error).splitlines()[0][:100]}")
        found += [known[name, target] for target in wanted if (name, target) in known]
    return found


def _is_first(name: str) -> bool:
    return name[1:].isdecimal() and int(name[1:]) < FIRST


def error_of(line: dict[str, Any]) -> float:
    """Of the estimate, relative to what was measured."""
    costs = known_costs()[CortexM(line["target"])]
    kernels = sum(job_cycles(costs, job_of(job)) or 0.0 for job in line["jobs"])
    return float((kernels + loop_cycles(costs, Loop(**line["loop"]))) / line["cycles"] - 1)


def kind_of(name: str) -> str:
    return KINDS[name[0]] if name[1:].isdecimal() else "zoo"


def summary(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for kind in dict.fromkeys(one["kind"] for one in results):
        for target in dict.fromkeys(one["target"] for one in results):
            mine = [one for one in results if (one["kind"], one["target"]) == (kind, target)]
            if not mine:
                continue
            errors = sorted((abs(one["error"]), one["network"]) for one in mine)
            worst, network = errors[-1]
            within = sum(error <= 0.05 for error, _ in errors) / len(errors)
            middle = median(error for error, _ in errors)
            rows.append({"kind": kind, "target": target, "networks": len(mine), "median": round(middle, 5)})
            rows[-1] |= {"worst": round(worst, 5), "worst_network": network, "within_5_percent": round(within, 4)}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="zoo,a0-49")
    parser.add_argument("--targets", default=",".join(MOST + OTHERS))
    parser.add_argument("--cache", type=Path, default=Path("build/estimate.jsonl"))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    arguments.cache.parent.mkdir(parents=True, exist_ok=True)
    lines = measured(names(arguments.networks), arguments.targets.split(","), arguments.cache)
    results = [
        {
            "network": line["network"],
            "target": line["target"],
            "kind": kind_of(line["network"]),
            "error": error_of(line),
        }
        for line in lines
    ]
    if arguments.json:
        print(json.dumps(summary(results), indent=1))
        return
    rows = sorted(results, key=lambda one: -abs(one["error"]))[:20]
    print(table(["worst", "target", "error"], ([r["network"], r["target"], f"{r['error']:+.2%}"] for r in rows)))
    print()
    texts = [
        [f"{one['kind']}, {one['target']}", one["networks"], f"{one['median']:.2%}", f"{one['worst']:.2%}"]
        + [f"{one['within_5_percent']:.0%}"]
        for one in summary(results)
    ]
    print(table(["networks", "number", "median", "worst", "within 5%"], texts))


if __name__ == "__main__":
    main()
