"""What the kernels and the row loop have to do in one run of a planned network, as numbers: what cycles follow from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from cortado.base.target import Core
from cortado.ir.c_call import CCall, Function, Member
from cortado.ir.op import ONE_ROW, Array, Field, Kernel, Layer
from cortado.plan.planned import Planned, moved
from cortado.plan.program import Port, Stage, Step
from cortado.plan.stages import StageRun

PHASES = "phases"
LOWEST = "act_min"  # the field of a descriptor with the lowest code that a kernel gives


@dataclass(frozen=True)
class Job:
    """The calls of one step's kernel in one run."""

    function: str  # with the function that it calls, if it is given one; "phases" if rows have different layers
    calls: int
    span: int  # pixels or elements of a call, the last of an image perhaps fewer
    spans: int  # of all calls together
    row_bytes: int
    rows: int  # that are made, of all images
    macs: int
    read_bytes: int  # of all input rows of all calls
    outside: int  # rows of windows that lie above or below the image
    edges: int  # calls that have such rows
    cut: int  # outputs that are the lowest code: some kernels are through earlier with them
    fields: Mapping[str, int]  # the numbers of its descriptor; of arrays, how many elements they have


@dataclass(frozen=True)
class Loop:
    """What the row loop does in one run."""

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
            found.append(None if kernel is None else _job(step, kernel, ys, rows, values.get(step.name)))
    return found


def _job(step: Step, kernel: Kernel, ys: Sequence[int], rows: int, value: torch.Tensor | None) -> Job:
    fields = dict(_numbers(kernel.fields)) | _arguments(kernel.call)
    images, made = step.images, 1 if step.one_row else rows
    spans = step.n * (len(ys) if step.one_row else rows)
    outside = [sum(_outside(port, y, step.group) for port in step.inputs) for y in ys]
    cut = 0 if value is None or LOWEST not in fields else int((value == fields[LOWEST]).sum())
    return Job(
        function="+".join([kernel.call.function, *_called(kernel.call)]),
        calls=images * len(ys),
        span=step.n * min(step.group, max(rows, 1)),
        spans=images * spans,
        row_bytes=step.row_bytes,
        rows=images * made,
        macs=step.macs * rows // max(step.rows, 1),
        read_bytes=images * len(ys) * sum(port.row_bytes * port.rule.taps for port in step.inputs),
        outside=images * sum(outside),
        edges=images * sum(map(bool, outside)),
        cut=cut,
        fields=fields,
    )


def single_layers(job: Job) -> list[Job]:
    """A job whose rows have one layer; or else one for each of them: rows take turns."""
    if f"+{PHASES}" not in job.function:
        return [job]
    layers: dict[str, dict[str, int]] = {}
    for name, value in job.fields.items():
        layer, _, field = name.partition(".")
        if field:
            layers.setdefault(layer, {})[field] = value
    return [_of_layer(job, fields, len(layers)) for fields in layers.values()]


def _of_layer(job: Job, fields: Mapping[str, int], layers: int) -> Job:
    calls, width = job.calls // layers, fields["out_w"]
    return replace(
        job,
        function=job.function.replace(f"+{PHASES}", ""),
        calls=calls,
        span=width,
        spans=calls * width,
        rows=job.rows // layers,
        macs=job.macs // layers,
        read_bytes=job.read_bytes // layers,
        outside=job.outside // layers,
        edges=job.edges // layers,
        cut=job.cut // layers,
        fields=fields,
    )


def _outside(port: Port, y: int, group: int) -> int:
    """Rows of a call's window that the image doesn't have."""
    if port.rule.stride == 0 or group > 1:
        return 0
    first = port.rule.first(y)
    return sum(not 0 <= first + tap * port.rule.dilation < port.height for tap in range(port.rule.taps))


def _arguments(call: CCall) -> dict[str, int]:
    """The numbers among a call's arguments."""
    return {f"argument{at}": value for at, value in enumerate(call.arguments) if isinstance(value, int)}


def _called(call: CCall) -> list[str]:
    phases = any(isinstance(argument, Member) and argument.phases is not None for argument in call.arguments)
    return [
        *(argument.name for argument in call.arguments if isinstance(argument, Function)),
        *([PHASES] if phases else []),
    ]


def _numbers(fields: Mapping[str, Field], prefix: str = "") -> Iterator[tuple[str, int]]:
    for name, value in fields.items():
        yield from _number(f"{prefix}{name}", value)


def _number(name: str, value: Field) -> Iterator[tuple[str, int]]:
    if isinstance(value, Array):
        yield name, int(value.data.size)
    elif isinstance(value, tuple):
        for position, item in enumerate(value):
            if isinstance(item, Layer):
                yield from _numbers(item.fields, f"{name}{position}.")
            elif isinstance(item, int):
                yield f"{name}{position}", int(item)
    elif isinstance(value, int):
        yield name, int(value)


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
