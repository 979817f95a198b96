"""Fake quantization: running a prepared graph with every tensor rounded to int8, for any ranges that the observers
have.

It computes what the converted graph would, without converting it, to judge ranges and biases before one is chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree
from torchao.quantization.pt2e import PerChannelMinMaxObserver
from torchao.quantization.pt2e.observer import FixedQParamsObserver

from cortado.base.element import element_of
from cortado.frontend.capture.inputs import Inputs
from cortado.frontend.quantize.bias import ChannelAxes, attribute, mean_of, own_bias, shifted
from cortado.frontend.quantize.observers import RangeObserver

Tensor = torch.Tensor


@dataclass
class Correction:
    """Bias corrections by layer; those missing are computed from the first samples of a run."""

    wanted: Mapping[str, Tensor]  # by layer: the float model's means over these samples
    samples: int
    shifts: dict[str, Tensor] = field(default_factory=dict)

    def of(self, layer: str, values: Sequence[Tensor], axis: int) -> Tensor | None:
        if layer in self.wanted and layer not in self.shifts:
            found = torch.stack([mean_of(value, axis) for value in values[: self.samples]]).mean(0)
            self.shifts[layer] = (self.wanted[layer] - found).float()
        return self.shifts.get(layer)


Scales = Mapping[Node, tuple[float, int]]
"""The scale and zero point of each observed tensor that is rounded."""


class Rounded:
    """Runs samples through a prepared graph with fake quantization, all of them through a node before the next."""

    def __init__(self, prepared: GraphModule, layers: ChannelAxes) -> None:
        self._module, self._nodes = prepared, list(prepared.graph.nodes)
        self._last = {read: node for node in self._nodes for read in node.all_input_nodes}
        self._axes = {node: layers[node.name] for node in self._nodes if node.name in layers and own_bias(node)}
        self._constants: dict[Node, list[Any]] = {}  # kept from run to run

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers whose bias can be corrected, in the order of the graph."""
        return tuple(node.name for node in self._axes)

    def scales(self) -> Scales:
        """Returns the scales for the present ranges of the observers."""
        observers = {node: self._observer(node) for node in self._nodes if node.op == "call_module"}
        return {node: _scale_of(observer) for node, observer in observers.items() if _is_settled(observer)}

    def run(self, samples: Sequence[Inputs], scales: Scales, correction: Correction) -> list[list[Tensor]]:
        """Returns the outputs of each sample, state included."""
        values: dict[Node, list[Any]] = dict(self._constants)
        inputs = iter(zip(*samples, strict=True))
        for node in self._nodes:
            if node.op == "output":
                break
            if node in self._constants:
                continue
            values[node] = list(next(inputs)) if node.op == "placeholder" else self._results(node, values, scales)
            shift = correction.of(node.name, values[node], self._axes[node]) if node in self._axes else None
            if shift is not None:
                values[node] = [shifted(value, shift, self._axes[node]) for value in values[node]]
            for read in [read for read in node.all_input_nodes if self._last[read] is node]:
                if read not in self._constants:
                    del values[read]
        returned = pytree.tree_leaves(self._nodes[-1].args)
        return [[_pick(values[node], number) for node in returned] for number in range(len(samples))]

    def _results(self, node: Node, values: Mapping[Node, list[Any]], scales: Scales) -> list[Any]:
        """Returns a node's values; a single one if computed from constants only."""
        if node.op == "get_attr":
            self._constants[node] = [attribute(self._module, node)]
            return self._constants[node]
        if node.op == "call_module":
            return self._rounded(node, values[node.all_input_nodes[0]], scales)
        count = max((len(values[read]) for read in node.all_input_nodes), default=1)

        def of(sample: int) -> Any:
            arguments, named = map_arg((node.args, node.kwargs), lambda read: _pick(values[read], sample))
            return node.target(*arguments, **named)  # type: ignore[operator]

        return [of(sample) for sample in range(count)]

    def _observer(self, node: Node) -> torch.nn.Module:
        return self._module.get_submodule(str(node.target))

    def _rounded(self, node: Node, values: list[Any], scales: Scales) -> list[Any]:
        observer = self._observer(node)
        if isinstance(observer, PerChannelMinMaxObserver):
            scale, zero_point = observer.calculate_qparams()
            low, high = observer.quant_min, observer.quant_max
            found = [
                torch.fake_quantize_per_channel_affine(value, scale, zero_point.int(), observer.ch_axis, low, high)
                for value in values
            ]
            if node.all_input_nodes[0] in self._constants:
                self._constants[node] = found
            return found
        if node not in scales or not values[0].is_floating_point():
            return values
        bounds = element_of(observer.dtype).codes
        return [torch.fake_quantize_per_tensor_affine(value, *scales[node], *bounds) for value in values]


def _scale_of(observer: torch.nn.Module) -> tuple[float, int]:
    scale, zero_point = observer.calculate_qparams()  # type: ignore[operator]
    return scale.item(), zero_point.item()


def _is_settled(observer: torch.nn.Module) -> bool:
    """Whether an observer has parameters; one that saw no finite number is refused later."""
    if isinstance(observer, RangeObserver):
        return observer.saw_finite or observer.leader is not None
    return isinstance(observer, FixedQParamsObserver)


def _pick(values: Sequence[Any], number: int) -> Any:
    return values[number if len(values) > 1 else 0]
