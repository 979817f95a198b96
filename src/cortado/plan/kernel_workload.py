"""The workload of the kernels and the row loop in one run of a stage, as counts from which cycles are computed."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from cortado.base.target import Core
from cortado.ir.kernel import ONE_ROW, Kernel
from cortado.ir.work import Calls
from cortado.plan.program import Port, Step


@dataclass(frozen=True)
class FunctionWork:
    """The workload of one C function in one run: how often its loops run."""

    function: str  # its name, with those of the functions passed to it
    counts: Mapping[str, float]  # by term


@dataclass(frozen=True)
class Job:
    """The workload of one step in one run: of its kernel and of those that it calls."""

    parts: tuple[FunctionWork, ...]
    declared: bool = True  # whether all of its kernels declare how often their loops run


@dataclass(frozen=True)
class Loop:
    """The workload of the row loop in one run."""

    stages: int = 0
    images: int = 0  # of all stages
    resets: int = 0  # steps that are set to their first row
    port_resets: int = 0
    calls: int = 0
    looks: int = 0  # at steps that are not ready
    plain_ports: int = 0  # operands of calls that are a single row made in the same stage
    windows: int = 0  # operands of calls whose rows have to be looked up
    taps: int = 0  # their rows
    edges: int = 0  # windows that extend beyond the image
    several: int = 0  # operands of calls with more than one
    kept_bytes: int = 0  # state that is copied at the end
    direct: int = 0  # calls of stages that consist of one step with one row
    direct_ports: int = 0  # their operands

    def __add__(self, other: "Loop") -> "Loop":
        return Loop(**{name: value + getattr(other, name) for name, value in vars(self).items()})


# ---- kernels -------------------------------------------------------------------------------------------------------


def step_job(
    step: Step,
    core: Core,
    rows: int,
    values: Mapping[str, torch.Tensor],
    only: Mapping[str, Collection[str]] | None = None,
) -> Job | None:
    """Returns the workload of a step that makes this many rows; None for the step of pushed rows, which has no kernel.
    `values` are the reference's; `only` restricts the counted terms, by function."""
    kernel = step.kernels.get(core)
    if kernel is None:
        return None
    ys = range(0, rows, step.group)
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
    return Job(
        tuple(_parts(kernel, calls, only)), all(one.work is not None or one.called for one in kernels_of(kernel))
    )


def kernels_of(kernel: Kernel) -> Iterator[Kernel]:
    """Yields a kernel and all kernels that it calls."""
    yield kernel
    for one in kernel.called:
        yield from kernels_of(one.kernel)


def _cut(kernel: Kernel, value: torch.Tensor | None) -> int:
    """Counts the outputs that are the lowest code; 0 if values are unknown."""
    lowest = next((one.work.lowest for one in kernels_of(kernel) if one.work is not None), None)
    return 0 if value is None or lowest is None else int((value == lowest).sum())


def _marked(step: Step, kernel: Kernel, values: Mapping[str, torch.Tensor]) -> float:
    """Returns the share of values that take more work; the usual one if they are unknown."""
    marks = None if kernel.work is None else kernel.work.marks
    if marks is None:
        return 1.0
    source = step.inputs[marks.operand].source
    value = values.get(source) if isinstance(source, str) else torch.from_numpy(source.data)
    return marks.usual if value is None else marks.share(value)


def _parts(kernel: Kernel, calls: Calls, only: Mapping[str, Collection[str]] | None) -> Iterator[FunctionWork]:
    if kernel.work is not None:
        function = function_of(kernel)
        yield FunctionWork(function, kernel.work.counts(calls, None if only is None else only.get(function, ())))
    for one in kernel.called:
        yield from _parts(one.kernel, calls.share(one.calls, one.outputs), only)


def function_of(kernel: Kernel) -> str:
    """Returns the name of a C function in the cost table, joined with those of the functions passed to it that have no
    row of their own."""
    return kernel.call.function if kernel.called else "+".join(kernel.call.functions)


def _outside(port: Port, y: int, group: int) -> int:
    """Counts the rows of a call's window that lie outside the image."""
    if port.rule.stride == 0 or group > 1:
        return 0
    first = port.rule.first(y)
    return sum(not 0 <= first + tap * port.rule.dilation < port.height for tap in range(port.rule.taps))


# ---- the row loop --------------------------------------------------------------------------------------------------


def step_loop(step: Step, rows: int, plain: Sequence[bool], ahead: int) -> Loop:
    """Returns the workload of the row loop for a step that makes this many rows. `plain` tells for each port whether it
    is a single row made in the same stage; `ahead` is the distance to the step's last reader, which the loop visits
    after a call and from which it searches back for a ready step."""
    images, ys = step.images, range(0, rows, step.group)
    calls = images * len(ys)
    windows = [port for port, one in zip(step.ports, plain, strict=True) if not one]
    return Loop(
        resets=images,
        port_resets=images * len(step.ports),
        calls=calls,
        looks=images + calls * ahead,
        plain_ports=calls * sum(plain),
        windows=calls * len(windows),
        taps=calls * sum(port.rule.taps for port in windows),
        edges=images * sum(bool(_outside(port, y, 1)) for y in ys for port in windows),
        several=calls * len(step.ports) if len(step.ports) > 1 else 0,
    )


def is_plain(step: Step, port: Port, *, inside: bool) -> bool:
    """Whether an operand is a single row made by a step of the same stage."""
    return inside and port.rule == ONE_ROW and port not in step.extra_results


def direct_loop(steps: Sequence[Step]) -> Loop | None:
    """Returns the workload of a stage that is one call on whole operands, without the row loop; None for other
    stages."""
    step = steps[0]
    if len(steps) > 1 or step.images > 1 or step.rows > 1 or not step.ports:
        return None
    if any(port.rule.taps != 1 or port.rule.first(0) != 0 for port in step.ports):
        return None
    return Loop(stages=1, direct=1, direct_ports=len(step.ports))


def stage_loop(steps: Sequence[Step], rows: Sequence[int]) -> Loop:
    """Returns the workload of the row loop for a stage whose steps make these numbers of rows."""
    direct = direct_loop(steps)
    if direct is not None:
        return direct
    makers = {name: number for number, step in enumerate(steps) for name in step.outputs}
    read = [(makers.get(str(port.source)), number) for number, step in enumerate(steps) for port in step.inputs]
    last = dict(read)  # step -> its last reader
    total = Loop(stages=1, images=steps[0].images)
    for number, (step, made) in enumerate(zip(steps, rows, strict=True)):
        plain = [is_plain(step, port, inside=str(port.source) in makers) for port in step.ports]
        total += step_loop(step, made, plain, last.get(number, number) - number)
    return total
