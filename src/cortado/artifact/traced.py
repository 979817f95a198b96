"""The layers of a run that showed the output row of every kernel call."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cortado.base.arrays import ArrayType
from cortado.base.errors import CortadoError
from cortado.run.bundle_info import StepName, StoreRules

if TYPE_CHECKING:
    from cortado.plan.lowered import LoweredGraph


@dataclass(frozen=True)
class TracedLayer:
    """Output rows of a layer's kernel calls, as a traced run showed them. Rows that nothing reads are never made."""

    data: bytes
    at: int = 0  # the byte of the layer's output that it begins with: in a stream, rows of padding are never made

    def differing(self, value: ArrayType) -> int:
        """How many values are not those of the reference: of each image the first ones are there."""
        images = 1 if self.at or len(self.data) == value.nbytes else value.shape[0]
        found = np.frombuffer(self.data, dtype=value.dtype).reshape(images, -1)
        wanted = value.reshape(images, -1)[:, self.at // value.itemsize :]
        return int((found != wanted[:, : found.shape[1]]).sum())


def layers_in(trace: bytes, rules: StoreRules, graph: "LoweredGraph", where: str) -> dict[str, TracedLayer]:
    """Every layer's output, from the rows in the order of the calls."""
    rows: dict[str, list[bytes]] = {name: [] for step in rules.steps for name in step.outputs}
    position = 0
    for call in rules.calls:
        outputs = rules.steps[call.step].outputs  # scratch is behind them
        for name, (low, high) in zip(outputs, call.ranges, strict=False):
            rows[name].append(trace[position : position + high - low])
            position += high - low
    if position != len(trace):
        raise CortadoError(
            f"a run of {where} showed {len(trace)} bytes of its layers, expected {position}; "
            "compile the model again with this version"
        )
    return {name: _layer(step, rows[name], graph.values[name].bytes) for step in rules.steps for name in step.outputs}


def _layer(step: StepName, rows: list[bytes], size: int) -> TracedLayer:
    """A step makes the rows of its output one after the other; one that sums up makes the same one each time."""
    if step.window is not None and rows:
        start, stop, at = step.window
        return TracedLayer(b"".join(rows[start:stop]), at * len(rows[0]))
    repeats = max(sum(map(len, rows)) // size, 1)
    return TracedLayer(b"".join(rows[repeats - 1 :: repeats]))
