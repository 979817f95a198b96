"""Fits the table of costs (src/cortado/plan/kernel_costs.json) to what cost_samples.py measured.

python benchmarks/fit_costs.py SAMPLES.jsonl ... [--rows REGEX] [--loops] [--write]

For each core and C function: the cycles, none of them negative, of the terms that its kernel declares (ir/work.py),
so that their sum is nearest to what was measured, relative to it. Rows that --rows doesn't name stay as they are; by
default only those are fitted that the table doesn't have, or that have terms which no kernel declares any more.
"""

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cortado.plan.kernel_costs import TABLE, CoreCosts, evaluate, job_cycles, loop_cycles
from cortado.plan.kernel_workload import FunctionWork, Job, Loop

Array = np.ndarray[Any, np.dtype[np.float64]]
Line = dict[str, Any]
Sample = tuple[Mapping[str, float], float]  # how often its loops ran, and the cycles
TINY = 1e-12
SLIGHT = 0.02  # of a sample's cycles: a term that is never more than that is left out
SMALL = 500  # cycles: such jobs count half as much as large ones


@dataclass(frozen=True)
class Fit:
    """Terms with their cycles, and how far they are from what was measured."""

    terms: dict[str, float]
    error: float  # mean, relative
    worst: float
    samples: int


def nonnegative(matrix: Array, wanted: Array) -> Array:
    """Least squares without negative numbers: Lawson and Hanson's active sets."""
    columns = matrix.shape[1]
    found, active = np.zeros(columns), np.zeros(columns, dtype=bool)
    gradient = matrix.T @ (wanted - matrix @ found)
    for _ in range(3 * columns):
        free = np.where(~active, gradient, -np.inf)
        if active.all() or free.max() <= 1e-9:
            break
        active[int(free.argmax())] = True
        while True:
            solved = np.zeros(columns)
            solved[active] = np.linalg.lstsq(matrix[:, active], wanted, rcond=None)[0]
            negative = active & (solved <= 0)
            if not negative.any():
                break
            step = min(found[at] / max(found[at] - solved[at], TINY) for at in np.flatnonzero(negative))
            found = found + step * (solved - found)
            active &= found > TINY
        found = solved
        gradient = matrix.T @ (wanted - matrix @ found)
    return found


def _distinct(matrix: Array, terms: Sequence[str]) -> tuple[Array, list[str]]:
    """Of terms that are the same in all samples, but for a factor, the first."""
    seen: dict[bytes, int] = {}
    for column in range(matrix.shape[1]):
        values = matrix[:, column]
        norm = float(np.linalg.norm(values))
        if norm > 0:
            seen.setdefault((values / norm).round(9).tobytes(), column)
    kept = sorted(seen.values())
    return matrix[:, kept], [terms[at] for at in kept]


def fit(samples: Sequence[Sample]) -> Fit:
    """All terms at once: none of them can be negative."""
    terms = sorted({term for counts, _ in samples for term in counts})
    cycles = np.array([spent for _, spent in samples])
    table = np.array([[counts.get(term, 0.0) for term in terms] for counts, _ in samples], dtype=float)
    table, terms = _distinct(table / cycles[:, None], terms)
    weights = cycles / (cycles + SMALL)
    solved = nonnegative(table * weights[:, None], weights)
    kept = [at for at in range(len(terms)) if (table[:, at] * solved[at]).max(initial=0.0) > SLIGHT]
    solved = nonnegative(table[:, kept] * weights[:, None], weights)
    errors = weights * (table[:, kept] @ solved - 1)
    numbers = {terms[at]: float(number) for at, number in zip(kept, solved, strict=True) if number > 0}
    return Fit(numbers, float(np.sqrt(np.mean(errors**2))), float(np.abs(errors).max()), len(cycles))


# ---- all of them ---------------------------------------------------------------------------------------------------


def job_of(data: Mapping[str, Any]) -> Job:
    return Job(tuple(FunctionWork(**part) for part in data["parts"]), data["declared"])


def counts_of(job: Job) -> dict[str, dict[str, float]]:
    """By C function: a kernel whose rows take turns runs the same one with several layers."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for part in job.parts:
        for term, count in part.counts.items():
            found[part.function][term] += count
    return found


def samples_by_function(lines: Iterable[Line], known: Mapping[str, Mapping[str, float]]) -> dict[str, list[Sample]]:
    """Jobs of one C function, or of one that calls others of which the cycles are known."""
    found: dict[str, list[Sample]] = defaultdict(list)
    for line in lines:
        for data in line["jobs"]:
            counts = counts_of(job_of(data))
            (function, own), *others = counts.items()
            if all(other in known and known[other].keys() <= ones.keys() for other, ones in others):
                rest = data["cycles"] - sum(evaluate(other, known[other], ones) for other, ones in others)
                if rest > 0:
                    found[function].append((own, rest))
    return found


def is_wanted(function: str, row: Mapping[str, float] | None, samples: Sequence[Sample], rows: str | None) -> bool:
    if rows is not None:
        return re.search(rows, function) is not None
    return row is None or not row.keys() <= samples[0][0].keys()


def fit_core(lines: Sequence[Line], known: Mapping[str, Any], rows: str | None, loops: bool) -> dict[str, Any]:
    kernels: dict[str, dict[str, float]] = dict(known.get("kernels", {}))
    for function, samples in sorted(samples_by_function(lines, kernels).items()):
        if is_wanted(function, kernels.get(function), samples, rows):
            found = fit(samples)
            kernels[function] = rounded(found.terms)
            print(
                f"  {function:60s} {found.samples:5d}  {found.error:7.2%} {found.worst:7.2%}  "
                f"{' + '.join(f'{cycles:.4g} {term}' for term, cycles in found.terms.items())}"
            )
    loop = known.get("loop")
    if loop is None or loops:
        found = fit([({"runs": 1.0, **line["loop"]}, line["loop_cycles"]) for line in lines])
        loop = rounded(found.terms)
        print(f"  {'the row loop':60s} {len(lines):5d}  {found.error:7.2%} {found.worst:7.2%}")
    return {"loop": loop, "kernels": dict(sorted(kernels.items()))}


def rounded(terms: Mapping[str, float]) -> dict[str, float]:
    return {term: float(f"{cycles:.6g}") for term, cycles in terms.items()}


def check(lines: Sequence[Line], core: Mapping[str, Any]) -> list[float]:
    """How far the sum is from each network's cycles."""
    costs = CoreCosts(**core)
    errors = []
    for line in lines:
        kernels = sum(job_cycles(costs, job_of(data)) or 0.0 for data in line["jobs"])
        errors.append((kernels + loop_cycles(costs, Loop(**line["loop"]))) / line["cycles"] - 1)
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--rows", help="fit all C functions whose name this regular expression is found in")
    parser.add_argument("--loops", action="store_true", help="fit the row loop again")
    parser.add_argument("--write", action="store_true", help=f"write {TABLE}")
    arguments = parser.parse_args()
    lines = [json.loads(line) for path in arguments.files for line in path.read_text().splitlines()]
    table = json.loads(TABLE.read_text())
    for target in sorted({line["target"] for line in lines}):
        mine = [line for line in lines if line["target"] == target]
        print(target)
        known = table["cores"].get(target, {})
        table["cores"][target] = fit_core(mine, known, arguments.rows, arguments.loops)
        errors = np.abs(check(mine, table["cores"][target]))
        print(f"  {len(mine)} networks: median {np.median(errors):.2%}, worst {errors.max():.2%}")
    if arguments.write:
        table["about"] = (
            "Cycles, typical, of each term of each kernel (plan/kernel_costs.py), fitted by benchmarks/fit_costs.py to "
            "what benchmarks/cost_samples.py ran on the emulated boards (docs/sweep.md)."
        )
        TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
