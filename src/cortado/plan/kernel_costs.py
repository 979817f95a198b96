"""Cycles without running anything: what each kernel and the row loop take for what they have to do.

The table (kernel_costs.json) has a row for each core and C function: the cycles of each of the terms that its kernel
declares (ir/work.py). `benchmarks/fit_costs.py` writes it from what was measured on the emulated boards, and
`benchmarks/camera_costs.py` the front end of cameras. A kernel without a row is not estimated. The scheduler,
`estimate`, `--precision auto` and the report all ask this table.
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
from cortado.plan.jobs import Job, Loop, direct_loop, is_plain, step_job, step_loop
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
    """The table, by core."""
    cores: dict[str, Any] = json.loads(TABLE.read_text())["cores"]
    return {CortexM(name): CoreCosts(**core) for name, core in cores.items()}


def costs_for(target: CortexMTargetConfig) -> CoreCosts | None:
    """The costs on a target; None where nothing was measured: a core without some of its instructions, or any core."""
    return known_costs().get(target.cpu) if target.target_string == target.cpu.value else None


def job_cycles(costs: CoreCosts, job: Job) -> float | None:
    """The cycles of a job; None where its kernel says nothing of its loops, or has no row."""
    if not job.declared or not all(part.function in costs.kernels for part in job.parts):
        return None
    return sum(evaluate(part.function, costs.kernels[part.function], part.counts) for part in job.parts)


def front_end_cycles(target: CortexMTargetConfig, function: str, camera: Camera) -> int | None:
    """Cycles of a camera's front end for one picture; None where nothing was measured."""
    costs = costs_for(target)
    if costs is None or function not in costs.kernels:
        return None
    rows, width = len(camera.rows), camera.resize.width
    kept = camera.passes - rows  # lines of which a row is only kept for the next
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
    """A term that nothing is known of is a mistake, never nothing."""
    unknown = sorted(terms.keys() - counts.keys())
    if unknown:
        raise CortadoError(
            f"the table of costs has '{unknown[0]}' for {function}, which its kernel doesn't declare; fit the table "
            "again (benchmarks/fit_costs.py)"
        )
    return sum(cycles * counts[term] for term, cycles in terms.items())


# ---- for the scheduler -----------------------------------------------------------------------------------------------

_TYPICAL = {Core.PORTABLE: CortexM.M0PLUS, **{max(target.cores): target.cpu for target in ONE_OF_EACH}}


class StageCosts:
    """Cycles of stages of a program's steps, in one form of them. What a step takes for its rows is counted once.

    A target without a table is taken for a core of its kind that has one, and `cortex-m` for the fastest kind.
    """

    def __init__(self, program: Program, steps: Sequence[Step], made: Mapping[str, int]) -> None:
        """`made` says which step makes a buffer."""
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
        """Cycles of the stage that starts with step `first` and whose steps make these numbers of rows."""
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
        """Cycles of a step's kernel; nothing where they are not known."""
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
