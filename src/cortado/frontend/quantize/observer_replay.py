"""Transfer of statistics to a graph that is prepared again with other elements: its observers get those of the first
graph."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.observer import ObserverBase

from cortado.frontend.capture.inputs import Inputs
from cortado.frontend.quantize.observers import RangeObserver
from cortado.frontend.quantize.ranges import Seen


@dataclass(frozen=True)
class Seeing:
    """The statistics of one tensor over all samples."""

    seen: tuple[Seen, ...]
    whole: bool


@dataclass(frozen=True)
class Sightings:
    """The statistics of a graph's observers, by the names of tensors."""

    tensors: dict[str, Seeing]

    @staticmethod
    def of(prepared: GraphModule) -> "Sightings":
        found: dict[str, Seeing] = {}
        for node, observer, origin in observed(prepared):
            place = node.all_input_nodes[0].name
            seen = tuple(one for one in observer.seen if one.place == place)
            if seen and origin.name not in found:
                found[origin.name] = Seeing(seen, observer.whole)
        return Sightings(found)

    def carry_to(self, prepared: GraphModule, sample: Inputs) -> None:
        """Gives the statistics to the observers of another graph of the same calls. Observers of weights get theirs by
        running a sample."""
        prepared(*sample)
        places: dict[RangeObserver, list[tuple[str, Seeing]]] = defaultdict(list)
        for node, observer, origin in observed(prepared):
            observer.seen.clear()
            if origin.name in self.tensors:
                places[observer].append((node.all_input_nodes[0].name, self.tensors[origin.name]))
        for observer, known in places.items():
            _recall(observer, known)


def observed(prepared: GraphModule) -> Iterator[tuple[Node, RangeObserver, Node]]:
    """Yields each observed place, its observer, and the tensor observed, behind any other observers."""
    origins: dict[Node, Node] = {}
    for node in prepared.graph.nodes:
        observer = prepared.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(observer, ObserverBase):
            place = node.all_input_nodes[0]
            origins[node] = origins.get(place, place)
            if isinstance(observer, RangeObserver):
                yield node, observer, origins[node]


def _recall(observer: RangeObserver, known: Sequence[tuple[str, Seeing]]) -> None:
    seen = [replace(one, place=place) for place, seeing in known for one in seeing.seen]
    observer.seen = sorted(seen, key=lambda one: one.sample)
    observer.whole = all(seeing.whole for _, seeing in known)
    with torch.no_grad():
        observer.min_val.fill_(min(one.low for one in seen))
        observer.max_val.fill_(max(one.high for one in seen))
