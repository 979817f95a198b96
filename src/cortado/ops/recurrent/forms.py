"""nn.LSTM, nn.GRU, nn.RNN: chains of layers in one direction each, over [batch, steps, channels].

A layer is one call of the float graph, `cortado::gru_layer` and so on, so that no edge inside it is quantized. An LSTM
has a second call for its cells: calibration observes their range, and a model can return them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.ir.graph import Bound, add_call, bind, is_call, shape
from cortado.ir.op import Lowering, Pattern, Rewrite
from cortado.ir.schemas import Functions
from cortado.ops.float_graph import (
    add_constant,
    add_permute,
    add_view,
    constant_data,
    is_constant,
    parts_of,
    replace_result,
)

aten = torch.ops.aten
Tensor = torch.Tensor

# ---- layers of the float graph -------------------------------------------------------------------------------

_LAYER = (
    "(Tensor input, Tensor weight_ih, Tensor weight_hh, Tensor? bias_ih, Tensor? bias_hh, Tensor[] start, bool reverse"
)
_LIBRARY = Functions()
_LIBRARY.define(f"gru_layer{_LAYER}) -> Tensor")
_LIBRARY.define(f"rnn_layer{_LAYER}, bool relu) -> Tensor")
_LIBRARY.define(f"lstm_layer{_LAYER}, Tensor cells) -> Tensor")
_LIBRARY.define(f"lstm_cells{_LAYER}) -> Tensor")


def _empty(input: Tensor, weight_ih: Tensor, weight_hh: Tensor, *others: Any) -> Tensor:
    return input.new_empty((*input.shape[:2], weight_hh.shape[1]))


def _layer(compute: Callable[..., Any]) -> Callable[..., Tensor]:
    """Implements a layer with torch's own; in the reverse direction on the reversed sequence."""

    def layer(
        input: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor | None,
        bias_hh: Tensor | None,
        start: Sequence[Tensor],
        reverse: bool,
        *others: Any,
    ) -> Tensor:
        zeros = torch.zeros(input.shape[0], weight_hh.shape[1], dtype=input.dtype)
        x = input.flip(1) if reverse else input
        biases = [torch.zeros(len(weight_ih)) if bias is None else bias for bias in (bias_ih, bias_hh)]
        result: Tensor = compute(x, [weight_ih, weight_hh, *biases], [*start] or [zeros, zeros], *others)
        return result.flip(1).contiguous() if reverse else result

    return layer


_PLAIN = (True, 1, 0.0, False, False, True)  # biases, one layer, no dropout, no training, one direction, batch first


def _gru(x: Tensor, parameters: list[Tensor], start: Sequence[Tensor]) -> Tensor:
    return aten.gru.input(x, start[0][None], parameters, *_PLAIN)[0]


def _rnn(x: Tensor, parameters: list[Tensor], start: Sequence[Tensor], relu: bool) -> Tensor:
    target = aten.rnn_relu.input if relu else aten.rnn_tanh.input
    return target(x, start[0][None], parameters, *_PLAIN)[0]


def _lstm(x: Tensor, parameters: list[Tensor], start: Sequence[Tensor], cells: Tensor) -> Tensor:
    return aten.lstm.input(x, [state[None] for state in start], parameters, *_PLAIN)[0]


def _cells(x: Tensor, parameters: list[Tensor], start: Sequence[Tensor]) -> Tensor:
    weight_ih, weight_hh, bias_ih, bias_hh = parameters
    hidden, cells = start
    before = torch.nn.functional.linear(x, weight_ih, bias_ih + bias_hh)
    seen = []
    for step in range(x.shape[1]):
        i, f, g, o = (before[:, step] + hidden @ weight_hh.T).chunk(4, 1)
        cells = torch.sigmoid(f) * cells + torch.sigmoid(i) * torch.tanh(g)
        hidden = torch.sigmoid(o) * torch.tanh(cells)
        seen.append(cells)
    return torch.stack(seen, 1)


_LAYERS: dict[str, Callable[..., Tensor]] = {
    "gru_layer": _gru,
    "rnn_layer": _rnn,
    "lstm_layer": _lstm,
    "lstm_cells": _cells,
}
for _name, _compute in _LAYERS.items():
    _LIBRARY.impl(_name, _layer(_compute), "CompositeExplicitAutograd")
    _LIBRARY.impl(_name, _empty, "Meta")

GRU_LAYER: OpOverload = torch.ops.cortado.gru_layer.default
RNN_LAYER: OpOverload = torch.ops.cortado.rnn_layer.default
LSTM_LAYER: OpOverload = torch.ops.cortado.lstm_layer.default
LSTM_CELLS: OpOverload = torch.ops.cortado.lstm_cells.default

# ---- from aten -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecurrentLayer:
    """The results of one layer in one direction."""

    output: Node  # [batch, steps, units]
    cells: Node | None
    reverse: bool


def is_zero(node: Node) -> bool:
    return is_constant(node) and not bool(constant_data(node).any())


def add_layer(
    like: Node, source: Node, parameters: Sequence[Node | None], start: list[Node], reverse: bool
) -> RecurrentLayer:
    start = [] if all(is_zero(state) for state in start) else start
    arguments = (source, *parameters, start, reverse)
    if like.target in (aten.lstm.input, aten.lstm_cell.default):
        cells = add_call(like, LSTM_CELLS, *arguments)
        return RecurrentLayer(add_call(like, LSTM_LAYER, *arguments, cells), cells, reverse)
    if like.target in (aten.gru.input, aten.gru_cell.default):
        return RecurrentLayer(add_call(like, GRU_LAYER, *arguments), None, reverse)
    relu = like.target in (aten.rnn_relu.input, aten.rnn_relu_cell.default)
    return RecurrentLayer(add_call(like, RNN_LAYER, *arguments, relu), None, reverse)


def add_projected(
    like: Node, source: Node, parameters: Sequence[Node | None], start: list[Node], reverse: bool
) -> RecurrentLayer:
    """Adds an LSTM with projected states: the states before the projection form a plain LSTM, whose state weights are
    the product of both matrices, followed by the projection as a linear layer."""
    weight_ih, weight_hh, *biases, projection = [one for one in parameters if one is not None]
    product = add_constant(like, "weight_hh", constant_data(weight_hh) @ constant_data(projection))
    batch, units = shape(source)[0], shape(projection)[1]
    before = [add_constant(like, "start", torch.zeros(batch, units)), *start[1:]]
    own: list[Node | None] = [weight_ih, product, *biases, *[None] * (2 - len(biases))]
    layer = add_layer(like, source, own, before, reverse)
    return replace(layer, output=add_call(like, aten.linear.default, layer.output, projection))


def _last(like: Node, layer: RecurrentLayer, tensor: Node) -> Node:
    """Returns a layer's result at its last step, as [1, batch, units]."""
    step = 0 if layer.reverse else shape(tensor)[1] - 1
    return add_permute(like, add_call(like, aten.slice.Tensor, tensor, 1, step, step + 1), (1, 0, 2))


def to_layers(bound: Bound) -> None:
    """Rewrites a recurrent call as one call for each layer and direction, and replaces all results that are read."""
    node = bound.node
    if unsupported(bound) is not None:
        return
    batch_first = bool(bound["batch_first"])
    source: Node = bound["input"]
    batched = len(shape(source)) == 3
    if not batched:
        source = add_view(node, source, (1, *shape(source)))
    elif not batch_first:
        source = add_permute(node, source, (1, 0, 2))
    layers = _layers(bound, source)
    directions = 2 if bound["bidirectional"] else 1
    result = _joined(node, [layer.output for layer in layers[-directions:]], 2)
    if not batched:
        result = add_view(node, result, shape(result)[1:])
    elif not batch_first:
        result = add_permute(node, result, (1, 0, 2))
    replace_result(node, 0, result)
    _replace_states(node, 1, [_last(node, layer, layer.output) for layer in layers], batched)
    if layers[0].cells is not None:
        cells = [_last(node, layer, layer.cells) for layer in layers if layer.cells is not None]
        _replace_states(node, 2, cells, batched)
    erase_call(node)


def _layers(bound: Bound, source: Node) -> list[RecurrentLayer]:
    node, parameters = bound.node, list(bound["params"])
    directions = 2 if bound["bidirectional"] else 1
    count = len(parameters) // (directions * int(bound["num_layers"]))
    states = bound["hx"] if isinstance(bound["hx"], list | tuple) else [bound["hx"]]
    found: list[RecurrentLayer] = []
    for layer in range(int(bound["num_layers"])):
        here = []
        for direction in range(directions):
            index = layer * directions + direction
            own = parameters[count * index : count * (index + 1)]
            start = [_state(node, state, index, shape(source)[0]) for state in states]
            add = add_projected if _is_projected(bound) else add_layer
            here.append(add(node, source, [*own, *[None] * (4 - count)], start, reverse=direction == 1))
        found += here
        source = _joined(node, [one.output for one in here], 2)
    return found


def _state(like: Node, states: Node, index: int, batch: int) -> Node:
    """Returns one layer's initial state as [batch, units]."""
    if is_zero(states):
        return states
    one = add_call(like, aten.slice.Tensor, states, 0, index, index + 1) if shape(states)[0] > 1 else states
    return add_view(like, one, (batch, shape(states)[-1]))


def _joined(like: Node, parts: list[Node], dim: int) -> Node:
    return parts[0] if len(parts) == 1 else add_call(like, aten.cat.default, parts, dim)


def erase_call(node: Node) -> None:
    """Erases a call and its users: torch keeps calls with dropout as random, even if nothing reads them."""
    for part in list(node.users):
        node.graph.erase_node(part)
    node.graph.erase_node(node)


def _replace_states(node: Node, position: int, states: list[Node], batched: bool) -> None:
    """Replaces the states of all layers; a reader that selects one of them reads that layer only."""
    for part in [part for part in parts_of(node, position) if part.users]:
        for user in [user for user in part.users if _selects(user)]:
            chosen = states[int(bind(user)["index"]) % len(states)]
            user.replace_all_uses_with(add_view(user, chosen, shape(user)))
            user.graph.erase_node(user)
        if part.users:
            every = _joined(node, states, 0)
            part.replace_all_uses_with(every if batched else add_view(node, every, (len(states), shape(every)[2])))


def _selects(user: Node) -> bool:
    return is_call(user, aten.select.int) and bool(bind(user)["dim"] == 0)


def unsupported(bound: Bound) -> Reject | None:
    """Returns the reason why a recurrent call can't be taken; None if it can."""
    if bound["train"] and bound["dropout"] > 0:
        return Reject("applies dropout in training mode; call model.eval() first")
    if _is_projected(bound) and not (is_zero(bound["hx"][0]) and all(map(is_constant, bound["params"]))):
        return Reject(
            "has projections (proj_size) and given initial states, for which there is no kernel; use a linear layer "
            "after it instead, or initial states of zero"
        )
    return None


def _is_projected(bound: Bound) -> bool:
    """Whether each layer has one more matrix, a projection."""
    layers = int(bound["num_layers"]) * (2 if bound["bidirectional"] else 1)
    return len(bound["params"]) > (4 if bound["has_biases"] else 2) * layers


def is_written_out(bound: Bound) -> bool:
    """Whether float32 computes a layer or a cell step by step: the weights of its kernels are constants, and each layer
    has two matrices."""
    if "params" in bound.values:
        return _is_projected(bound) or not all(map(is_constant, bound["params"]))
    return not all(bound[name] is None or is_constant(bound[name]) for name in CELL_PARAMETERS)


def match(bound: Bound) -> Reject:
    """Refuses the calls that the rewrite left alone."""
    return unsupported(bound) or Reject("is used in a way other than reading its results")


def _lower(lowering: Lowering) -> Node:
    raise AssertionError("match takes nothing")


CELL_PARAMETERS = ("w_ih", "w_hh", "b_ih", "b_hh")
WHOLE = (aten.lstm.input, aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input)

LAYERS_REWRITE = Rewrite(aten=WHOLE, rewrite=to_layers, any_element=True)
REST_PATTERN = Pattern(aten=WHOLE, match=match, lower=_lower)
