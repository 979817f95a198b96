"""The arena for the report: every buffer with its place, its moments and what it is laid over."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cortado.artifact.report import ArenaBufferReport, BufferKind
from cortado.memory.problem import Buffer, Time
from cortado.memory.timeline import timeline
from cortado.plan.decision import DECISION
from cortado.plan.planned import Planned
from cortado.plan.program import CAMERA_LINE, CAMERA_PLACE, PUSHED_ROWS, STATE_MARK, Program
from cortado.plan.segments import counters_name, scratch_name


def arena_buffers(planned: Planned) -> tuple[ArenaBufferReport, ...]:
    """In the order of their births, lowest address first."""
    starts = [moment.start for moment in timeline(planned.problem, planned.plan)]
    kinds, over = _kinds(planned.program), dict(_laid_over(planned))
    buffers = [*planned.problem.buffers, *_where_state_lies(planned)]
    found = [_report(planned, buffer, starts, kinds, over.get(buffer.name, ())) for buffer in buffers]
    return tuple(sorted(found, key=lambda one: (one.start, one.offset, one.name)))


def _report(
    planned: Planned,
    buffer: Buffer,
    starts: Sequence[Time],
    kinds: Mapping[str, BufferKind],
    over: tuple[str, ...],
) -> ArenaBufferReport:
    program, name = planned.program, buffer.name
    tensor = program.buffers.get(name)
    ring = 0 if tensor is None else tensor.rows
    kind = kinds.get(name, BufferKind.TENSOR)
    return ArenaBufferReport(
        name=name,
        kind=BufferKind.RING if ring and kind is BufferKind.TENSOR else kind,
        offset=planned.plan.offsets[name],
        bytes=buffer.size,
        start=bisect_right(starts, buffer.start) - 1,
        end=bisect_left(starts, buffer.end),
        persists=buffer.persists or (program.stream is not None and buffer.start <= (0, 0)),
        ring_rows=ring or None,
        rows=_rows(program, name) if ring else None,
        over=over,
    )


def _kinds(program: Program) -> dict[str, BufferKind]:
    """Those that are no layer's plain output. What is the model's input or output is that before all else."""
    kinds = {scratch_name(step): BufferKind.SCRATCH for step in program.steps}
    if program.pushed is not None:
        kinds |= {counters_name(program.pushed): BufferKind.COUNTERS, PUSHED_ROWS: BufferKind.COUNTERS}
    kinds |= dict.fromkeys([CAMERA_LINE, CAMERA_PLACE] if program.camera is not None else [], BufferKind.COUNTERS)
    kinds |= dict.fromkeys([kept.tensor.buffer for kept in program.state] + [STATE_MARK, DECISION], BufferKind.STATE)
    kinds |= {tensor.buffer: BufferKind.OUTPUT for tensor in program.outputs}
    return kinds | {tensor.buffer: BufferKind.INPUT for tensor in program.inputs}


def _rows(program: Program, name: str) -> int | None:
    return next((step.rows for step in program.steps if name in step.outputs), None)


def _where_state_lies(planned: Planned) -> Iterator[Buffer]:
    """New values of state that are made where the old ones lie: no buffers of the memory problem, but tensors."""
    buffers = {buffer.name: buffer for buffer in planned.problem.buffers}
    stages = enumerate(planned.program.stages)
    made = {name: number for number, stage in stages for step in stage.steps for name in step.outputs}
    for new, old in planned.in_place.items():
        yield replace(buffers[old], name=new, start=(made[new], 0), persists=False)


def _laid_over(planned: Planned) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The overlays that the plan makes use of: of those that share a byte while both live."""
    offsets, found = planned.plan.offsets, {new: (old,) for new, old in planned.in_place.items()}
    buffers = {buffer.name: buffer for buffer in planned.problem.buffers}
    for overlay in planned.problem.overlays:
        out, inp = buffers[overlay.out], buffers[overlay.inp]
        live = max(out.start, inp.start) < min(out.end, inp.end)
        low, high = offsets[out.name], offsets[inp.name]
        if live and low < high + inp.size and high < low + out.size:
            found[out.name] = (*found.get(out.name, ()), inp.name)
    yield from found.items()
