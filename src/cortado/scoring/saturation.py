"""The tensors of a compiled model that saturate on a dataset: codes at the ends of their range, counted by the
reference."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cortado.artifact.opened import Artifact
from cortado.base.arrays import ArrayType
from cortado.frontend.precision.judgement import drawn
from cortado.plan.lowered import chosen_ends

MOST = 256  # samples that the reference runs


@dataclass(frozen=True)
class Saturation:
    """A tensor with values at an end of its range."""

    tensor: str
    module: str
    values: int  # in all samples
    saturated: int
    samples: int  # in which at least one value does

    @property
    def part(self) -> float:
        return self.saturated / max(self.values, 1)


def saturation(
    artifact: Artifact, samples: Sequence[Sequence[ArrayType]], sequence: int | None = None
) -> tuple[Saturation, ...]:
    """Returns the tensors that saturate, most frequently first."""
    graph = artifact.graph
    ends = chosen_ends(graph)
    modules = {name: graph.by_name[name].module if name in graph.by_name else "" for name in ends}
    found = {name: Saturation(name, module, 0, 0, 0) for name, module in modules.items()}
    some = range(min(len(samples), MOST)) if graph.state else drawn(len(samples), MOST)
    for values in artifact.runs([samples[number] for number in some], graph, sequence):
        for name, before in found.items():
            count = ends[name].count(values[name])
            found[name] = replace(
                before,
                values=before.values + values[name].numel(),
                saturated=before.saturated + count,
                samples=before.samples + (count > 0),
            )
    return tuple(sorted((one for one in found.values() if one.saturated), key=lambda one: -one.part))
