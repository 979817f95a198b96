"""The layers of a run that showed the output row of every kernel call."""

from typing import TYPE_CHECKING

from cortado.base.errors import CortadoError
from cortado.run.bundle_info import StoreRules

if TYPE_CHECKING:
    from cortado.plan.lowered import LoweredGraph


def layers_in(trace: bytes, rules: StoreRules, graph: "LoweredGraph", where: str) -> dict[str, bytes]:
    """Every layer's whole output, from the rows in the order of the calls."""
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
    return {name: _whole(made, graph.values[name].bytes) for name, made in rows.items()}


def _whole(rows: list[bytes], size: int) -> bytes:
    """A step makes the rows of its output one after the other; one that sums up makes the same one each time."""
    repeats = max(sum(map(len, rows)) // size, 1)
    return b"".join(rows[repeats - 1 :: repeats])
