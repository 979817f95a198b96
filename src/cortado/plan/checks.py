"""What a run may write: for every row call, in order, the bytes of its output row and of its scratch.

The emulated boards compare every store of the unmodified release build with this table.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cortado.plan.planned import Planned
from cortado.plan.program import Step, Walk
from cortado.plan.segments import scratch_name

Range = tuple[int, int]


@dataclass(frozen=True)
class RowCall:
    """One call of a kernel: which step of the program, and the arena ranges it may write."""

    step: int
    ranges: tuple[Range, ...]


def row_calls(planned: Planned) -> list[RowCall]:
    """Every kernel call of one run of the network, in the order of cortado_run.c."""
    calls: list[RowCall] = []
    base = 0
    for stage, run in zip(planned.program.stages, planned.runs, strict=True):
        for image in range(stage.steps[0].images):
            for position, y in run.calls:
                step = stage.steps[position]
                ranges = [_output_range(planned, step, image, y, min(step.group, run.rows[position] - y))]
                if step.scratch:
                    at = planned.plan.offsets[scratch_name(step)]
                    ranges.append((at, at + step.scratch))
                calls.append(RowCall(base + position, tuple(ranges)))
        base += len(stage.steps)
    return calls


def _output_range(planned: Planned, step: Step, image: int, y: int, rows: int) -> Range:
    at = planned.plan.offsets[step.output] + image * step.image_bytes
    if step.kind is not Walk.ACCUMULATE:
        at += (y % planned.ring_rows(step.output, step.rows)) * step.row_bytes
    return at, at + rows * step.row_bytes


def as_json(planned: Planned, functions: Sequence[str]) -> dict[str, object]:
    """The table as it is stored beside the bundle. `functions` are those of the bundle that make its kernel calls."""
    return {
        "steps": [{"name": step.name, "operator": step.operator} for step in planned.program.steps],
        "functions": list(functions),
        "calls": [[call.step, *(edge for lo_hi in call.ranges for edge in lo_hi)] for call in row_calls(planned)],
    }
