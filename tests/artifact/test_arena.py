"""The buffers of the arena in report.json: they are the plan's, and fill what the timeline says."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cortado.api import compile
from cortado.artifact.opened import Artifact
from cortado.artifact.report import BufferKind, MemoryReport, Report
from cortado.options import Optimize, Options
from cortado.plan.program import STATE_MARK
from helpers.stateful import Ring


def check(report: Report) -> MemoryReport:
    """In every moment buffers fill the bytes in use, and share only what an overlay lets them."""
    memory = report.memory
    assert memory is not None
    assert len({one.name for one in memory.buffers}) == len(memory.buffers) > 0
    for number, moment in enumerate(memory.timeline):
        live = [one for one in memory.buffers if one.start <= number < one.end]
        taken = {byte for one in live for byte in range(one.offset, one.offset + one.bytes)}
        assert len(taken) == moment.bytes
        assert max(taken) < memory.arena_bytes
        for one in live:
            for other in live:
                apart = one.offset + one.bytes <= other.offset or other.offset + other.bytes <= one.offset
                assert apart or one is other or other.name in one.over or one.name in other.over
    assert max(one.offset + one.bytes for one in memory.buffers) == memory.arena_bytes
    return memory


def kinds(memory: MemoryReport) -> dict[BufferKind, int]:
    return {kind: sum(one.kind is kind for one in memory.buffers) for kind in BufferKind}


class Rows(nn.Module):
    """No padding in time."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.Sequential(
            *(nn.Conv2d(1, 4, 3, padding=(0, 1)), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=(0, 1)), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return y


def batches(*shape: int) -> Sequence[tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(4)
    return [(torch.randn(shape, generator=generator),) for _ in range(32)]


def test_whole_tensors_and_scratch(tiny_artifact: Artifact) -> None:
    memory = check(tiny_artifact.report)
    found = kinds(memory)
    assert (found[BufferKind.INPUT], found[BufferKind.OUTPUT], found[BufferKind.STATE]) == (1, 1, 0)
    scratch = sum(one.bytes for one in memory.buffers if one.kind is BufferKind.SCRATCH)
    assert scratch == memory.scratch_bytes
    assert not any(one.persists for one in memory.buffers)


def test_state_persists_and_new_values_lie_over_it() -> None:
    report = compile(Ring().eval(), (torch.randn(1, 6, 1),), "cortex-m4", batches(1, 6, 1)).report
    memory = check(report)
    lasting = [one for one in memory.buffers if one.persists and one.name != STATE_MARK]
    assert [(one.name, one.kind, one.offset, one.bytes) for one in lasting] == [
        (one.node, BufferKind.STATE, one.offset, one.bytes) for one in report.state
    ]
    over = [one for one in memory.buffers if lasting[0].name in one.over]
    assert len(over) == 1
    assert (over[0].offset, over[0].end) == (lasting[0].offset, len(memory.timeline))


def test_rings_and_what_lasts_from_row_to_row() -> None:
    given = batches(1, 1, 12, 8)
    report = compile(Rows().eval(), given[0], "cortex-m4", given, options=Options(stream=2)).report
    memory, stream = check(report), report.stream
    assert stream is not None
    assert sum(one.bytes + -one.bytes % 16 for one in memory.buffers if one.persists) == stream.state_bytes
    assert kinds(memory)[BufferKind.COUNTERS] == 1
    ring = next(one for one in memory.buffers if one.kind is BufferKind.INPUT)
    assert report.input_rows is not None
    assert (ring.ring_rows, ring.bytes) == (report.input_rows.ring_rows, report.input_rows.ring_bytes)
    for one in memory.buffers:
        assert (one.ring_rows is None) == (one.rows is None)
        assert one.ring_rows is None or one.rows is None or 0 < one.ring_rows <= one.rows


def test_an_input_that_comes_row_by_row() -> None:
    given = batches(1, 1, 12, 8)
    options = Options(input_rows=True, optimize=Optimize.RAM)
    report = compile(Rows().eval(), given[0], "cortex-m4", given, options=options).report
    memory = check(report)
    assert kinds(memory)[BufferKind.COUNTERS] == 2
    assert kinds(memory)[BufferKind.RING] > 0
    assert not any(one.persists for one in memory.buffers)
