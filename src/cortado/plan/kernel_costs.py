"""Cycles without running anything: the cost model of the kernels and the row loop.

The table (kernel_costs.json) has a row for each core and C function: the cycles of each term that the kernel declares
(ir/work.py). It is fitted by `benchmarks/fit_costs.py` to measurements on the emulated boards, and for camera front
ends by `benchmarks/camera_costs.py`. A kernel without a row has no estimate. The scheduler, `estimate`, `--precision
auto` and the report all use this table.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cortado.base.camera import Camera
from cortado.base.errors import CortadoError
from cortado.base.target import ONE_OF_EACH, Core, CortexM, CortexMTargetConfig
from cortado.plan.kernel_workload import Job, Loop, direct_loop, is_plain, step_job, step_loop
from cortado.plan.program import Program, Step

TABLE = Path(__file__).parent / "kernel_costs.json"
Terms = Mapping[str, float]  # "calls*in_c": the cycles of each


@dataclass(frozen=True)
class CoreCosts:
    """Costs on one core: its row loop, and its kernels by the name of their C function."""

    loop: Terms
    kernels: Mapping[str, Terms]


@cache
def known_costs() -> Mapping[CortexM, CoreCosts]:
    """Reads the table, by core."""
    cores: dict[str, Any] = json.loads(TABLE.read_text())["cores"]
    return {CortexM(name): CoreCosts(**core) for name, core in cores.items()}


def costs_for(target: CortexMTargetConfig) -> CoreCosts | None:
    """Returns the costs on a target; None if it was not measured: a core without some of its instructions, or the
    generic core."""
    return known_costs().get(target.cpu) if target.target_string == target.cpu.value else None


def job_cycles(costs: CoreCosts, job: Job) -> float | None:
    """Returns the cycles of a job; None if its kernel declares no work or has no row."""
    if not job.declared or not all(part.function in costs.kernels for part in job.parts):
        return None
    return sum(evaluate(part.function, costs.kernels[part.function], part.counts) for part in job.parts)


def front_end_cycles(target: CortexMTargetConfig, function: str, camera: Camera) -> int | None:
    """Returns the cycles of a camera's front end for one picture; None if it was not measured."""
    costs = costs_for(target)
    if costs is None or function not in costs.kernels:
        return None
    rows, width = len(camera.rows), camera.resize.width
    kept = camera.passes - rows  # lines that only keep a row for the next line
    counts = {
        "pixels": rows * width,
        "kept_pixels": kept * width,
        "calls": camera.passes,
        "lines": camera.size.height + rows,  # MODEL_take_line itself: nearly the same on all cores
    }
    return round(evaluate(function, costs.kernels[function], counts))


def loop_cycles(costs: CoreCosts, loop: Loop, *, runs: int = 1) -> float:
    return evaluate("the row loop", costs.loop, {"runs": runs, **vars(loop)})


def evaluate(function: str, terms: Terms, counts: Mapping[str, float]) -> float:
    """Sums cost times count over all terms; a term without a count is an error, never 0."""
    unknown = sorted(terms.keys() - counts.keys())
    if unknown:
        raise CortadoError(
            f"the cost table has '{unknown[0]}' for {function}, which its kernel doesn't declare; fit the table again "
            "(benchmarks/fit_costs.py)"
        )
    return sum(cycles * counts[term] for term, cycles in terms.items())


# ---- for the scheduler -----------------------------------------------------------------------------------------------

_TYPICAL = {Core.PORTABLE: CortexM.M0PLUS, **{max(target.cores): target.cpu for target in ONE_OF_EACH}}


class StageCosts:
    """Cycles of stages of a program's steps, in one form of the steps. The cost of a step for a number of rows is
    computed once.

    A target without a table uses that of a core of its kind, and `cortex-m` that of the fastest kind.
    """

    def __init__(self, program: Program, steps: Sequence[Step], made: Mapping[str, int]) -> None:
        """Initializes the costs; `made` maps each buffer to the step that makes it."""
        self._core = max(program.cores)
        measured = costs_for(program.target) if self._core in program.target.cores else None
        self._costs = measured or known_costs()[_TYPICAL[self._core]]
        self._steps = steps
        self._makers = [[made.get(str(port.source), -1) for port in step.ports] for step in steps]
        self._readers: list[list[int]] = [[] for _ in steps]
        for index, step in enumerate(steps):
            for port in step.inputs:
                maker = made.get(str(port.source), -1)
                if maker >= 0:
                    self._readers[maker].append(index)
        self._kernels: dict[tuple[int, int], float] = {}
        self._loops: dict[tuple[int, int, tuple[bool, ...], int], float] = {}

    def stage(self, first: int, rows: Sequence[int]) -> float:
        """Returns the cycles of the stage that starts with step `first` and whose steps make these numbers of rows."""
        end = first + len(rows)
        direct = direct_loop(self._steps[first:end])
        if direct is not None:
            return self.kernel(first, rows[0]) + loop_cycles(self._costs, direct, runs=0)
        total = loop_cycles(self._costs, Loop(stages=1, images=self._steps[first].images), runs=0)
        for index, made in enumerate(rows, start=first):
            inside = tuple([maker >= first for maker in self._makers[index]])
            ahead = max([reader - index for reader in self._readers[index] if reader < end], default=0)
            total += self.kernel(index, made) + self._loop(index, made, inside, ahead)
        return total

    def kernel(self, index: int, rows: int) -> float:
        """Returns the cycles of a step's kernel; 0 if they are unknown."""
        key = index, rows
        if key not in self._kernels:
            job = step_job(self._steps[index], self._core, rows, {}, self._costs.kernels)
            self._kernels[key] = 0.0 if job is None else job_cycles(self._costs, job) or 0.0
        return self._kernels[key]

    def _loop(self, index: int, rows: int, inside: tuple[bool, ...], ahead: int) -> float:
        key = index, rows, inside, ahead
        if key not in self._loops:
            step = self._steps[index]
            plain = [is_plain(step, port, inside=one) for port, one in zip(step.ports, inside, strict=True)]
            self._loops[key] = loop_cycles(self._costs, step_loop(step, rows, plain, ahead), runs=0)
        return self._loops[key]
