"""Allowed stores of a run: for every row call, in order, the bytes of its output row and of its scratch.

The emulated boards check every store of the unmodified release build against this table.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cortado.base.regions import ByteRange
from cortado.plan.decision import DECISION
from cortado.plan.planned import Planned, moved
from cortado.plan.program import CAMERA_LINE, CAMERA_PLACE, PUSHED_ROWS, Port, Stage, Step, Walk
from cortado.plan.segments import COUNTER_BYTES, counters_name, scratch_name


@dataclass(frozen=True)
class RowCall:
    """One call of a kernel: its step in the program, and the arena ranges it is allowed to write."""

    step: int
    ranges: tuple[ByteRange, ...]


def row_calls(planned: Planned) -> list[RowCall]:
    """Lists every kernel call of one run of the network, in the order of cortado_run.c."""
    calls: list[RowCall] = []
    base = 0
    for stage, run in zip(planned.program.stages, planned.runs, strict=True):
        for image in range(stage.steps[0].images):
            for number, (position, y) in enumerate(run.calls):
                step = stage.steps[position]
                rows = min(step.group, run.rows[position] - y)
                ranges = [_output_range(planned, step, image, y, rows)]
                ranges += [_extra_range(planned, port, image, y, rows) for port in step.extra_results]
                if step.scratch:
                    ranges.append(_range(planned, scratch_name(step), step.scratch))
                if stage.steps[0].kind is Walk.PUSHED:
                    ranges += _counters(planned, stage, run.calls[number : number + 2])
                calls.append(RowCall(base + position, tuple(ranges)))
        base += len(stage.steps)
    if calls and planned.program.state:
        calls[-1] = RowCall(calls[-1].step, (*calls[-1].ranges, *_kept_ranges(planned)))
    return calls


def _range(planned: Planned, buffer: str, size: int) -> ByteRange:
    at = planned.plan.offsets[buffer]
    return at, at + size


def _counters(planned: Planned, stage: Stage, calls: Sequence[tuple[int, int]]) -> list[ByteRange]:
    """Returns the ranges stored between two calls: the count of pushed rows, during the first call, and the positions
    of the steps, before the next row."""
    program, noted = planned.program, []
    if program.stream is None and calls[0][0] == 0:
        noted.append(_range(planned, PUSHED_ROWS, program.buffers[PUSHED_ROWS].size))
    after = [position for position, _ in calls[1:]]
    if after == [0] or (program.stream is not None and not after):
        noted.append(_range(planned, counters_name(stage.steps[0]), COUNTER_BYTES * len(stage.steps)))
        noted += _decision_range(planned)
    return noted


def _kept_ranges(planned: Planned) -> list[ByteRange]:
    """Returns the ranges stored after the last call: state that lasts from run to run."""
    places = [kept.tensor.buffer for kept in moved(planned)]
    ranges = [_range(planned, name, planned.program.buffers[name].size) for name in places]
    return ranges + _decision_range(planned)


def _decision_range(planned: Planned) -> list[ByteRange]:
    """Returns the range stored by a decision, if there is one, once an output is computed."""
    return [] if planned.program.decision is None else [_range(planned, DECISION, planned.program.decision_bytes)]


def _output_range(planned: Planned, step: Step, image: int, y: int, rows: int) -> ByteRange:
    at = planned.plan.offsets[step.output] + image * step.image_bytes
    if step.kind is not Walk.ACCUMULATE:
        at += (y % planned.ring_rows(step.output, step.rows)) * step.row_bytes
    return at, at + rows * step.row_bytes


def _extra_range(planned: Planned, port: Port, image: int, y: int, rows: int) -> ByteRange:
    """Returns the byte range of a secondary output."""
    name = str(port.source)
    at = planned.plan.offsets[name] + image * port.image_bytes
    at += (y % planned.ring_rows(name, port.height)) * port.row_bytes
    return at, at + rows * port.row_bytes


def as_json(planned: Planned, functions: Sequence[str]) -> dict[str, object]:
    """Builds the table that is stored with the bundle. `functions` are those of the bundle that make its kernel
    calls."""
    regions = [[region.name, region.start, region.bytes] for region in planned.regions]
    return {
        **({"regions": regions} if regions else {}),
        **({"camera": _camera(planned)} if planned.program.camera is not None else {}),
        "steps": [_step(planned, step) for step in planned.program.steps],
        "functions": list(functions),
        "calls": [[call.step, *(edge for lo_hi in call.ranges for edge in lo_hi)] for call in row_calls(planned)],
    }


def _camera(planned: Planned) -> list[ByteRange]:
    """Returns the ranges that a camera's front end stores to, whichever step ran last."""
    sizes = planned.program.buffers
    return [_range(planned, name, sizes[name].size) for name in (CAMERA_PLACE, CAMERA_LINE) if name in sizes]


def _step(planned: Planned, step: Step) -> dict[str, object]:
    """Describes a step: its name and operator; its results if there are several, whose bytes are the first ranges of a
    call; in a stream, which of its rows are rows of the window's tensor (`WindowRows`)."""
    found: dict[str, object] = {"name": step.name, "operator": step.operator}
    if step.extra_results:
        found["results"] = [step.name, *step.outputs[1:]]
    if planned.program.stream is not None:
        made = planned.runs[0].rows[planned.program.steps.index(step)]
        own = planned.program.stream.rows_of(step, made)
        found["window"] = [own.start, own.stop, own.at]
    return found
