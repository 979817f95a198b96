"""Parts of outputs with different meanings: boxes and scores that a model joins and returns as one tensor.

Between the call that computes a value and the output, calls can only move it. Such calls (`Pattern.moves`) are run on
labels instead of values, one label for each source: the result tells for every place of an output where it comes from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from cortado.base.numerics import QParams, Tensor
from cortado.frontend.quantize.prequantized import is_dequantize, is_quantize
from cortado.frontend.rewrite.state import holders, returned_nodes
from cortado.ir.facts import VALUE, is_float32
from cortado.ir.graph import describe
from cortado.ir.matching import Match, find
from cortado.ir.roles import Bias, Joined, Usually
from cortado.ops.float_graph import constant_data, is_constant

MOST = 1 << 22  # values of an output that are distinguished, at most
MOST_PARTS = 64  # of an output: with more, none is distinguished


@dataclass(frozen=True)
class OutputPart:
    """The values of one output that come from one call."""

    output: int
    box: tuple[slice, ...] | None  # their place in the output; None: everywhere
    source: Node | None  # the call; None: constants

    def of(self, outputs: Sequence[Tensor]) -> Tensor:
        whole = outputs[self.output]
        return whole if self.box is None else whole[self.box]

    @property
    def where(self) -> str:
        """The index of the part, as in [:, :, 4:84]; empty for a whole output."""
        return "" if self.box is None else f"[{', '.join(_written(one) for one in self.box)}]"

    @property
    def made_by(self) -> str:
        return "constants" if self.source is None else describe(self.source)

    @property
    def is_layer(self) -> bool:
        """Whether the part comes from a layer with weights."""
        match = self._match
        return match is not None and Bias() in match.quantization.inputs.values()

    @property
    def _match(self) -> Match | None:
        found = find(self.source) if self.source is not None and self.source.op == "call_function" else None
        return found if isinstance(found, Match) else None

    @property
    def is_chance(self) -> bool:
        """Whether the call that it comes from gives numbers from 0 to 1 for any operand: probabilities, scores."""
        found = self._match.quantization.output if self._match is not None else None
        usual = found.qparams if isinstance(found, Usually) else found
        return isinstance(usual, QParams) and usual.range[0] >= 0.0 and usual.range[1] <= 1.0


def _written(one: slice) -> str:
    return ":" if one.start is None else f"{one.start}:{one.stop}"


@dataclass(frozen=True)
class OutputParts:
    """The outputs of a model, divided into parts."""

    parts: tuple[OutputPart, ...]

    @staticmethod
    def of(module: GraphModule) -> "OutputParts":
        returned = returned_nodes(module.graph)
        outputs = returned[: len(returned) - len(holders(module.graph))]
        return OutputParts(tuple(part for place, node in enumerate(outputs) for part in _parts_of(place, node)))

    def split(self, outputs: Sequence[Tensor]) -> list[Tensor]:
        """Returns the values of each part."""
        return [part.of(outputs) for part in self.parts]

    def of_output(self, place: int) -> list[OutputPart]:
        return [part for part in self.parts if part.output == place]


def _parts_of(place: int, output: Any) -> list[OutputPart]:
    while isinstance(output, Node) and output.op == "call_module":  # an observer
        output = output.all_input_nodes[0]
    value = VALUE.of(output) if isinstance(output, Node) else None
    if not isinstance(value, Tensor) or value.numel() > MOST:
        return [OutputPart(place, None, None)]
    labels = _Labels()
    found, sources = labels.of(output), labels.sources
    if len(sources) == 1:
        return [OutputPart(place, None, sources[0])]
    numbers = [int(number) for number in found.unique().tolist()]
    boxes = {number: _box(found == number) for number in numbers}
    if not set(numbers) <= set(range(len(sources) + 1)):  # other numbers than labels, from constants
        return [OutputPart(place, None, None)]
    if len(numbers) > MOST_PARTS or any(box is None for box in boxes.values()):
        return [OutputPart(place, None, None)]
    return [OutputPart(place, boxes[number], sources[number - 1] if number else None) for number in numbers]


def moves(node: Node) -> bool:
    """Whether a call only moves real numbers, so that it can be run on labels."""
    match = find(node) if node.op == "call_function" else None
    return isinstance(match, Match) and match.pattern.moves and is_float32(node)


def joined_by(tensor: Node) -> Node | None:
    """Returns the call that reads a tensor in the scale of others (a concatenation, a minimum, a choice), if there is
    one."""
    ahead = list(tensor.users)
    while ahead:
        node = ahead.pop(0)
        match = find(node) if node.op == "call_function" else None
        if node.op == "call_module" or is_quantize(node) or is_dequantize(node):
            ahead += node.users
        elif isinstance(match, Match) and isinstance(match.quantization.output, Joined):
            return node
    return None


class _Labels:
    """Runs moving calls on labels: the numbers of the source calls, 0 for constants."""

    def __init__(self) -> None:
        self.sources: list[Node] = []
        self._known: dict[Node, Any] = {}

    def of(self, node: Node) -> Any:
        if node not in self._known:
            self._known[node] = self._found(node)
        return self._known[node]

    def _found(self, node: Node) -> Any:
        if is_constant(node):
            data = constant_data(node)
            return torch.zeros_like(data) if data.is_floating_point() else data
        if node.op == "call_module" or is_quantize(node) or is_dequantize(node):
            return self.of(node.all_input_nodes[0])
        if moves(node):
            args, kwargs = map_arg((node.args, node.kwargs), self.of)
            return node.target(*args, **kwargs)  # type: ignore[operator]
        self.sources.append(node)
        return torch.full(VALUE.must(node).shape, float(len(self.sources)))


def _box(places: Tensor) -> tuple[slice, ...] | None:
    """Returns the ranges of indices that these places fill; None if they are not a box."""
    found: list[slice] = []
    count = 1
    for dim, size in enumerate(places.shape):
        others = [other for other in range(places.dim()) if other != dim]
        along = (places.any(dim=tuple(others)) if others else places).nonzero().reshape(-1)
        start, stop = int(along[0]), int(along[-1]) + 1
        found.append(slice(None) if stop - start == size else slice(start, stop))
        count *= stop - start
    return tuple(found) if count == int(places.sum()) else None
