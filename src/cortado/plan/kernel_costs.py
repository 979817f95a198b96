"""Cycles of a planned network without running it: what each kernel and the row loop take for what they have to do.

The table (kernel_costs.json) has for each core and C function a sum of terms, each a product of quantities of the job
with its cycles. `benchmarks/fit_costs.py` writes it from networks that were measured on the emulated boards.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cortado.base.target import CortexM
from cortado.plan.jobs import Job, Loop, single_layers
from cortado.plan.quantities import quantities

TABLE = Path(__file__).parent / "kernel_costs.json"
Terms = Mapping[str, float]  # "calls*in_c": the cycles of each


@dataclass(frozen=True)
class CoreCosts:
    """Of one core: its row loop, and its kernels by the name of their C function."""

    loop: Terms
    kernels: Mapping[str, Terms]
    other: Terms  # a kernel that was never measured


@cache
def known_costs() -> Mapping[CortexM, CoreCosts]:
    """The table, by core."""
    cores: dict[str, Any] = json.loads(TABLE.read_text())["cores"]
    return {CortexM(name): CoreCosts(**core) for name, core in cores.items()}


def job_cycles(costs: CoreCosts, job: Job) -> float:
    layers = single_layers(job)
    return sum(evaluate(costs.kernels.get(one.function, costs.other), quantities(one)) for one in layers)


def loop_cycles(costs: CoreCosts, loop: Loop) -> float:
    return evaluate(costs.loop, {"runs": 1.0, **vars(loop)})


def evaluate(terms: Terms, found: Mapping[str, float]) -> float:
    return sum(cycles * product(term, found) for term, cycles in terms.items())


def product(term: str, found: Mapping[str, float]) -> float:
    """Of the quantities that a term names; one that a job doesn't have is nothing."""
    return math.prod(found.get(name, 0.0) for name in term.split("*"))
