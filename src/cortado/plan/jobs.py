"""Workload of the kernels and the row loop in one run of a planned network, as numbers from which cycles follow."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from cortado.base.target import Core
from cortado.ir.kernel import ONE_ROW, Kernel
from cortado.ir.work import Calls
from cortado.plan.planned import Planned, moved
from cortado.plan.program import Port, Stage, Step
from cortado.plan.stages import StageRun


@dataclass(frozen=True)
class FunctionWork:
    """Workload of one C function in one run: how often its loops run."""

    function: str  # with the functions that it is given to call
    counts: Mapping[str, float]  # by term


@dataclass(frozen=True)
class Job:
    """Workload of one step in one run: of its kernel, and of those that it calls."""

    parts: tuple[FunctionWork, ...]
    declared: bool = True  # all of its kernels say how often their loops run


@dataclass(frozen=True)
class Loop:
    """Workload of the row loop in one run."""

    stages: int = 0
    images: int = 0  # of all stages
    resets: int = 0  # steps that are brought to their first row
    port_resets: int = 0
    calls: int = 0
    looks: int = 0  # at steps that can't run yet
    plain_ports: int = 0  # operands of calls that are one row of the same stage
    windows: int = 0  # operands of calls of which rows have to be found
    taps: int = 0  # their rows
    edges: int = 0  # rows of windows that have some outside
    several: int = 0  # operands of calls that have more than one
    kept_bytes: int = 0  # state that is copied when all is done


# ---- kernels -------------------------------------------------------------------------------------------------------


def jobs_of(planned: Planned, core: Core, values: Mapping[str, torch.Tensor]) -> list[Job | None]:
    """One for each step, in order; None where rows are pushed and no kernel runs. `values` are the reference's."""
    found: list[Job | None] = []
    for stage, run in zip(planned.program.stages, planned.runs, strict=True):
        made: list[list[int]] = [[] for _ in stage.steps]
        for position, y in run.calls:
            made[position].append(y)
        for step, ys, rows in zip(stage.steps, made, run.rows, strict=True):
            kernel = step.kernels.get(core)
            found.append(None if kernel is None else _job(step, kernel, ys, rows, values))
    return found


def calls_of(planned: Planned) -> list[int]:
    """How often each step's kernel is called in one run."""
    found: list[int] = []
    for stage, run in zip(planned.program.stages, planned.runs, strict=True):
        made = Counter(position for position, _ in run.calls)
        found += [step.images * made[position] for position, step in enumerate(stage.steps)]
    return found


def _job(step: Step, kernel: Kernel, ys: Sequence[int], rows: int, values: Mapping[str, torch.Tensor]) -> Job:
    images, made = step.images, 1 if step.one_row else rows
    outside = [sum(_outside(port, y, step.group) for port in step.inputs) for y in ys]
    calls = Calls(
        calls=images * len(ys),
        span=step.n * min(step.group, max(rows, 1)),
        spans=images * step.n * (len(ys) if step.one_row else rows),
        outputs=images * made * step.row_bytes,
        macs=step.macs * rows // max(step.rows, 1),
        read_bytes=images * len(ys) * sum(port.row_bytes * port.rule.taps for port in step.inputs),
        outside=images * sum(outside),
        edges=images * sum(map(bool, outside)),
        cut=_cut(kernel, values.get(step.name)),
        marked=_marked(step, kernel, values),
    )
    return Job(tuple(_parts(kernel, calls)), all(one.work is not None or one.called for one in kernels_of(kernel)))


def kernels_of(kernel: Kernel) -> Iterator[Kernel]:
    """A kernel and all that it calls."""
    yield kernel
    for one in kernel.called:
        yield from kernels_of(one.kernel)


def _cut(kernel: Kernel, value: torch.Tensor | None) -> int:
    """Outputs that are the lowest code, as far as values are known."""
    lowest = next((one.work.lowest for one in kernels_of(kernel) if one.work is not None), None)
    return 0 if value is None or lowest is None else int((value == lowest).sum())


def _marked(step: Step, kernel: Kernel, values: Mapping[str, torch.Tensor]) -> float:
    """All of it where values are not known."""
    if kernel.work is None or kernel.work.mask is None:
        return 1.0
    source = step.inputs[kernel.work.mask].source
    value = values.get(source) if isinstance(source, str) else torch.from_numpy(source.data)
    return 1.0 if value is None else float((value != 0).float().mean())


def _parts(kernel: Kernel, calls: Calls) -> Iterator[FunctionWork]:
    if kernel.work is not None:
        yield FunctionWork(function_of(kernel), kernel.work.counts(calls))
    for one in kernel.called:
        yield from _parts(one.kernel, calls.share(one.calls, one.outputs))


def function_of(kernel: Kernel) -> str:
    """The name of a C function in the table of costs, with those that it is given to call and that have no row."""
    return kernel.call.function if kernel.called else "+".join(kernel.call.functions)


def _outside(port: Port, y: int, group: int) -> int:
    """Rows of a call's window that the image doesn't have."""
    if port.rule.stride == 0 or group > 1:
        return 0
    first = port.rule.first(y)
    return sum(not 0 <= first + tap * port.rule.dilation < port.height for tap in range(port.rule.taps))


# ---- the row loop --------------------------------------------------------------------------------------------------


def loop_of(planned: Planned) -> Loop:
    total = Loop(kept_bytes=sum(planned.program.buffers[kept.tensor.buffer].size for kept in moved(planned)))
    for stage, run in zip(planned.program.stages, planned.runs, strict=True):
        total = _sum(total, _stage(stage, run))
    return total


def _sum(a: Loop, b: Loop) -> Loop:
    return replace(a, **{name: getattr(a, name) + value for name, value in vars(b).items()})


def _stage(stage: Stage, run: StageRun) -> Loop:
    images, inside = stage.steps[0].images, {name for step in stage.steps for name in step.outputs}
    ports = [step.ports for step in stage.steps]
    counts = [sum(position == number for position, _ in run.calls) for number, _ in enumerate(stage.steps)]
    single = [[_is_plain(port, inside) and port not in step.also for port in step.ports] for step in stage.steps]
    windows = [
        [port for port, plain in zip(several, plains, strict=True) if not plain]
        for several, plains in zip(ports, single, strict=True)
    ]
    edges = sum(bool(_outside(port, y, 1)) for position, y in run.calls for port in windows[position])
    return Loop(
        stages=1,
        images=images,
        resets=images * len(stage.steps),
        port_resets=images * sum(map(len, ports)),
        calls=images * len(run.calls),
        looks=images * _looks(stage, run),
        plain_ports=images * sum(count * sum(plains) for count, plains in zip(counts, single, strict=True)),
        windows=images * sum(count * len(several) for count, several in zip(counts, windows, strict=True)),
        taps=images
        * sum(count * sum(port.rule.taps for port in several) for count, several in zip(counts, windows, strict=True)),
        edges=images * edges,
        several=images
        * sum(count * len(several) for count, several in zip(counts, ports, strict=True) if len(several) > 1),
    )


def _is_plain(port: Port, inside: set[str]) -> bool:
    return isinstance(port.source, str) and port.source in inside and port.rule == ONE_ROW


def _looks(stage: Stage, run: StageRun) -> int:
    """After a call the loop goes on with the last step that reads its rows, and back from there to one that can run."""
    makers = {name: number for number, step in enumerate(stage.steps) for name in step.outputs}
    reach = list(range(len(stage.steps)))
    for number, step in enumerate(stage.steps):
        for port in step.inputs:
            if isinstance(port.source, str) and port.source in makers:
                reach[makers[port.source]] = number
    at, looks = len(stage.steps) - 1, 0
    for position, _ in run.calls:
        looks += at - position
        at = reach[position]
    return looks + at + 1
