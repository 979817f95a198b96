"""Cycles per product, or per element, of every operator's kernels on M0+, M4 and M55, beside others of their family.

python benchmarks/cliffs.py [--targets cortex-m0plus,...] [--all] [--json]

A family is the operators of one room (`pool`) that give one element (int8). Of each C function the largest
calls that the operators' samples draw are priced by the table of costs, which is fitted to measured cycles
(docs/sweep.md): what counts is the least that one of its calls takes for each product, or, where it has none, for each
element that it reads or writes. A function that takes three times its family's median is a cliff. It has a reason in
cliffs.toml, or this ends with exit code 1; so it does where a reason there is not needed any more.
"""

import argparse
import json
import logging
import math
import tomllib
import warnings
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from _common import FOLDER, progress, table
from cortado.base.target import CortexM, CortexMTargetConfig, from_target_string
from cortado.exploring import Sketch
from cortado.ir.op import Operator
from cortado.plan.kernel_costs import job_cycles, known_costs
from cortado.plan.planned import jobs_of
from cortado.plan.program import Step
from operator_samples import draw, operators, sketch_of

NUMBER = 7  # of the calls that are drawn
CALLS = 10  # of each operator
MOST = 3.0  # times the median of its family
TARGETS = "cortex-m0plus,cortex-m4,cortex-m55"
REASONS: dict[str, str] = tomllib.loads((FOLDER / "cliffs.toml").read_text())["reasons"]
Call = tuple[Operator, Mapping[str, Any]]
# By family, target and function: the least cycles of a product or an element.
Rates = dict[tuple[str, str], dict[str, float]]


@dataclass(frozen=True)
class Cliff:
    """One function beside its family on one target."""

    function: str
    family: str
    target: str
    cycles: float
    usual: float

    @property
    def times(self) -> float:
        return self.cycles / self.usual


def family_of(operator: Operator, step: Step) -> str:
    """The room that an operator stands in, and the element that it gives: `pool int8`."""
    assert operator.reference is not None
    return f"{operator.reference.__module__.split('.')[2]} {step.element.name.lower()}"


def handled(step: Step, sketch: Sketch) -> float:
    """Products of a step, or the elements that it reads or writes, whichever are more."""
    read = [step.images * port.image_bytes // port.element.bytes for port in step.inputs]
    return max(step.macs, sketch.values[step.output].numel(), *read, 1)


def rates(operator: Operator, targets: list[CortexMTargetConfig], found: Rates) -> None:
    """Adds what the functions of an operator take."""
    cases: list[Call] = [(operator, arguments) for arguments in draw(operator, NUMBER, CALLS, False)]
    for target in targets:
        sketch = sketch_of(cases, target)
        planned = sketch.planned
        costs = known_costs()[CortexM(target.cpu)]
        jobs = jobs_of(planned, max(planned.program.cores), sketch.values)
        for step, job in zip(planned.program.steps, jobs, strict=True):
            cycles = None if job is None else job_cycles(costs, job)
            if job is None or cycles is None or step.operator != operator.name:
                continue
            several = found[family_of(operator, step), target.target_string]
            function = job.parts[0].function.split("+")[0]
            several[function] = min(several.get(function, math.inf), cycles / handled(step, sketch))


def cliffs(found: Rates) -> list[Cliff]:
    """Every function on every target, the worst first."""
    everything = [
        Cliff(function, family, target, cycles, median(several.values()))
        for (family, target), several in found.items()
        for function, cycles in several.items()
    ]
    return sorted(everything, key=lambda one: -one.times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("--all", action="store_true", help="print every function, not the cliffs alone")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    targets = [from_target_string(name) for name in arguments.targets.split(",")]
    found: Rates = defaultdict(dict)
    for operator in operators():
        progress(operator.name)
        rates(operator, targets, found)
    everything = cliffs(found)
    steep = [one for one in everything if one.times >= MOST]
    if arguments.json:
        print(json.dumps([{**vars(one), "times": one.times} for one in everything], indent=2))
    else:
        rows: list[list[Any]] = [
            [one.function, one.family, one.target, one.cycles, one.usual, one.times, REASONS.get(one.function, "")]
            for one in (everything if arguments.all else steep)
        ]
        print(table(["function", "family", "target", "cycles", "median", "times", "reason"], rows))
    unknown = sorted({one.function for one in steep} - REASONS.keys())
    needless = sorted(REASONS.keys() - {one.function for one in steep}) if arguments.targets == TARGETS else []
    if unknown or needless:
        raise SystemExit(f"without a reason in cliffs.toml: {unknown}; with one that is not needed: {needless}")


if __name__ == "__main__":
    main()
