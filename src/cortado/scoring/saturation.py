"""Which tensors of a compiled model saturate on a dataset: codes at an end of their range, counted by the reference."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from cortado.artifact.opened import Artifact
from cortado.base.arrays import ArrayType
from cortado.base.numerics import QParams
from cortado.ir.op import registry
from cortado.plan.lowered import LoweredGraph

Tensor = torch.Tensor
MOST = 256  # samples that the reference runs
WHOLE = frozenset([(2.0**-8, -128), (2.0**-7, 0)])  # scale and zero point of sigmoid and tanh, which can't pass them


@dataclass(frozen=True)
class Saturation:
    """A tensor of which some values are at an end of their range."""

    tensor: str
    module: str
    values: int  # in all samples
    saturated: int
    samples: int  # in which any does

    @property
    def part(self) -> float:
        return self.saturated / max(self.values, 1)


def saturation(
    artifact: Artifact, samples: Sequence[Sequence[ArrayType]], sequence: int | None = None
) -> tuple[Saturation, ...]:
    """Those that saturate, most often first. A value at an end of its range may be that value, or any beyond it; zeros
    of a tensor without negative values don't count, as a relu makes them."""
    graph = artifact.graph
    modules = {name: graph.by_name[name].module if name in graph.by_name else "" for name in _looked_at(graph)}
    found = {name: Saturation(name, module, 0, 0, 0) for name, module in modules.items()}
    for values in artifact.runs(samples[:MOST], graph, sequence):
        for name, before in found.items():
            count, qparams = 0, graph.values[name].qparams
            if qparams is not None:
                count = _at_an_end(values[name], qparams)
            found[name] = replace(
                before,
                values=before.values + values[name].numel(),
                saturated=before.saturated + count,
                samples=before.samples + (count > 0),
            )
    return tuple(sorted((one for one in found.values() if one.saturated), key=lambda one: -one.part))


def _looked_at(graph: LoweredGraph) -> list[str]:
    """Tensors of codes whose range was chosen; what only moves values has been counted before."""
    moved = {name for call in graph.calls if _moves(call.operator) for name in call.read}
    ranged = {name: value.qparams for name, value in graph.values.items() if value.qparams is not None}
    return [name for name, own in ranged.items() if name not in moved and (own.scale, own.zero_point) not in WHOLE]


def _moves(operator: str) -> bool:
    record = registry().operators.get(operator)
    return record is not None and (record.view or record.same_values)


def _at_an_end(codes: Tensor, qparams: QParams) -> int:
    low, high = qparams.element.codes
    ends = (codes == high) | ((codes == low) if qparams.zero_point > low else torch.zeros_like(codes, dtype=torch.bool))
    return int(ends.sum())
