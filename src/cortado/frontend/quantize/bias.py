"""Bias correction: rounding and clipping to int8 shift the mean of a layer's outputs; the bias shifts it back."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.fx.node import map_arg

from cortado.frontend.capture.inputs import Inputs
from cortado.frontend.quantize.observers import RangeObserver
from cortado.ir.graph import bind, shape
from cortado.ir.matching import Match, find
from cortado.ir.roles import Bias, Quantization
from cortado.ops.float_graph import add_constant

Tensor = torch.Tensor
WORK = 20_000_000  # values that are computed again in int8, at most
FEWEST, MOST = 4, 64  # samples
ChannelAxes = dict[str, int]  # node name -> axis of its output channels


def give_biases(module: GraphModule) -> ChannelAxes:
    """Returns the layers with weights, and gives each a bias that can be corrected: zeros if it had none."""
    layers: ChannelAxes = {}
    for node in list(module.graph.nodes):
        found = find(node) if node.op == "call_function" else None
        if isinstance(found, Match) and Bias() in found.quantization.inputs.values():
            layers[node.name] = found.quantization.channel_axis
            _give_bias(module, node, found.quantization)
    module.recompile()
    return layers


def _give_bias(module: GraphModule, layer: Node, quantization: Quantization) -> None:
    name = next(name for name, role in quantization.inputs.items() if isinstance(role, Bias))
    bound = bind(layer)
    if bound[name] is None:
        with module.graph.inserting_before(layer):
            bias = add_constant(layer, name, torch.zeros(shape(layer)[quantization.channel_axis]))
        layer.args, layer.kwargs = tuple({**bound.values, name: bias}.values()), {}


def samples_to_correct(graph: Graph, layers: ChannelAxes) -> int:
    """Returns how many samples are run in int8: fewer for a large network."""
    size = sum(math.prod(shape(node)) for node in graph.nodes if node.name in layers)
    return min(MOST, max(FEWEST, WORK // max(size, 1)))


class Means(Interpreter):
    """Runs the float graph and keeps the mean of every layer's output channels, for each sample by its number."""

    def __init__(self, module: GraphModule, layers: ChannelAxes) -> None:
        super().__init__(module)
        self.layers = layers
        self.found: dict[str, dict[int, Tensor]] = {}
        self._sample = 0
        self._constant: dict[Node, Any] = {}  # weights and other constants, which are observed once

    def run_sample(self, number: int, inputs: Inputs) -> Any:
        self._sample = number
        return self.run(*inputs)

    def run_node(self, n: Node) -> Any:
        if n in self._constant:
            return self._constant[n]
        observer = self.fetch_attr(str(n.target)) if n.op == "call_module" else None
        if isinstance(observer, RangeObserver):
            observer.sample, observer.place = self._sample, n.all_input_nodes[0].name
        value = super().run_node(n)
        # An activation's observer sees a constant with every sample, so that it counts as often as the other operand.
        constant = all(read in self._constant for read in n.all_input_nodes) and not isinstance(observer, RangeObserver)
        if n.op == "get_attr" or (observer is not None and constant):
            self._constant[n] = value
        if n.name in self.layers:
            self.found.setdefault(n.name, {})[self._sample] = mean_of(value, self.layers[n.name])
        return value


def mean_of(value: Tensor, axis: int) -> Tensor:
    """Returns the mean of each channel. torch sums in blocks, so float32 is accurate enough: corrections are quarters
    of a code."""
    others = [dim for dim in range(value.dim()) if dim != axis % value.dim()]
    return (value.mean(others) if others else value).double()


def correct_biases(
    converted: GraphModule, float_model: Means, batches: Mapping[int, Inputs], layers: Collection[str]
) -> None:
    """Corrects the biases of these layers, one by one: each output channel's mean over the samples becomes that of the
    float model.

    All samples pass a layer before the next one runs, so that later layers see the corrected one.
    """
    values: dict[Node, list[Any]] = {}  # one for each sample, or a single one for all
    last = {read: node for node in converted.graph.nodes for read in node.all_input_nodes}
    inputs = iter(zip(*batches.values(), strict=True))
    for node in converted.graph.nodes:
        if node.op == "output":
            return
        values[node] = list(next(inputs)) if node.op == "placeholder" else _results(converted, node, values)
        bias = own_bias(node) if node.name in layers else None
        if bias is not None:
            axis = float_model.layers[node.name]
            wanted = torch.stack([float_model.found[node.name][sample] for sample in batches]).mean(0)
            shift = (wanted - torch.stack([mean_of(value, axis) for value in values[node]]).mean(0)).float()
            _replace(converted, bias, shift)
            values[node] = [shifted(value, shift, axis) for value in values[node]]
        for read in [read for read in node.all_input_nodes if last[read] is node]:
            del values[read]


def _results(module: GraphModule, node: Node, values: Mapping[Node, Sequence[Any]]) -> list[Any]:
    """Returns a node's values; a single one for a constant, or if computed from constants only."""
    if node.op == "get_attr":
        return [attribute(module, node)]
    count = max((len(values[read]) for read in node.all_input_nodes), default=1)

    def of(sample: int) -> Any:
        def pick(read: Node) -> Any:
            return values[read][sample if len(values[read]) > 1 else 0]

        return node.target(*map_arg(node.args, pick), **map_arg(node.kwargs, pick))  # type: ignore[operator]

    return [of(sample) for sample in range(count)]


def own_bias(node: Node) -> Node | None:
    """Returns the constant of a layer's bias, unless other layers share it."""
    source: Any = bind(node)["bias"]
    while isinstance(source, Node) and source.op in ("call_function", "call_module") and len(source.users) == 1:
        source = source.args[0]  # through quantize and dequantize, or the observer
    return source if isinstance(source, Node) and source.op == "get_attr" and len(source.users) == 1 else None


def attribute(module: GraphModule, node: Node) -> Tensor:
    owner, _, name = str(node.target).rpartition(".")
    data: Tensor = getattr(module.get_submodule(owner), name).detach()
    return data


def _replace(module: GraphModule, bias: Node, shift: Tensor) -> None:
    """Replaces a bias by a new tensor: the old one can be the user's own parameter."""
    owner, _, name = str(bias.target).rpartition(".")
    holder = module.get_submodule(owner)
    data = attribute(module, bias) + shift
    delattr(holder, name)
    holder.register_buffer(name, data)


def shifted(value: Tensor, shift: Tensor, axis: int) -> Tensor:
    axis %= value.dim()
    return value + shift.reshape(-1, *[1] * (value.dim() - 1 - axis))
