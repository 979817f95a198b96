"""Cycles of a planned network without running it: what each kernel and the row loop take for what they have to do.

The table (kernel_costs.json) has a row for each core and C function: the cycles of each of the terms that its kernel
declares (ir/work.py). `benchmarks/fit_costs.py` writes it from what was measured on the emulated boards. A kernel
without a row is not estimated.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from cortado.base.errors import CortadoError
from cortado.base.target import CortexM, CortexMTargetConfig
from cortado.plan.jobs import Job, Loop, jobs_of
from cortado.plan.planned import Planned

TABLE = Path(__file__).parent / "kernel_costs.json"
Terms = Mapping[str, float]  # "calls*in_c": the cycles of each


@dataclass(frozen=True)
class CoreCosts:
    """Costs on one core: its row loop, and its kernels by the name of their C function."""

    loop: Terms
    kernels: Mapping[str, Terms]


@cache
def known_costs() -> Mapping[CortexM, CoreCosts]:
    """The table, by core."""
    cores: dict[str, Any] = json.loads(TABLE.read_text())["cores"]
    return {CortexM(name): CoreCosts(**core) for name, core in cores.items()}


def costs_for(target: CortexMTargetConfig) -> CoreCosts | None:
    """None where nothing was measured: a core without some of its instructions, or any core."""
    return known_costs().get(target.cpu) if target.target_string == target.cpu.value else None


def estimated_cycles(planned: Planned, values: Mapping[str, torch.Tensor] | None = None) -> list[float | None]:
    """Returns the estimated cycles of each step; None where a kernel has no row. `values` are the reference's, where
    they are known."""
    program = planned.program
    costs = costs_for(program.target)
    if costs is None:
        return [None for _ in program.steps]
    jobs = jobs_of(planned, max(program.cores), values or {})
    return [0.0 if job is None else job_cycles(costs, job) for job in jobs]


def job_cycles(costs: CoreCosts, job: Job) -> float | None:
    """None where a kernel says nothing of its loops, or has no row."""
    if not job.declared or not all(part.function in costs.kernels for part in job.parts):
        return None
    return sum(evaluate(part.function, costs.kernels[part.function], part.counts) for part in job.parts)


def loop_cycles(costs: CoreCosts, loop: Loop) -> float:
    return evaluate("the row loop", costs.loop, {"runs": 1.0, **vars(loop)})


def evaluate(function: str, terms: Terms, counts: Mapping[str, float]) -> float:
    """A term that nothing is known of is a mistake, never nothing."""
    unknown = sorted(terms.keys() - counts.keys())
    if unknown:
        raise CortadoError(
            f"the table of costs has '{unknown[0]}' for {function}, which its kernel doesn't declare; fit the table "
            "again (benchmarks/fit_costs.py)"
        )
    return sum(cycles * counts[term] for term, cycles in terms.items())
