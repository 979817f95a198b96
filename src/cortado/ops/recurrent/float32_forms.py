"""Recurrent layers and cells in float32 whose kernels don't take them (float32_layer.py), written out step by step."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from cortado.base.numerics import Tensor
from cortado.ir.op import Decomposition
from cortado.ops.recurrent.forms import is_written_out

aten = torch.ops.aten
_States = tuple[Tensor, ...]
_Weights = Sequence[Tensor | None]
_Step = Callable[[Tensor, _States, _Weights], _States]  # (sums of the input, states, weights) -> states


def _gates(x: Tensor, hidden: Tensor, weights: _Weights) -> tuple[Tensor, Tensor]:
    """Returns the sums of the input, and those of the hidden state."""
    of_input, of_hidden, *biases = weights
    assert of_input is not None
    assert of_hidden is not None
    first, second = biases if biases else (None, None)
    return F.linear(x, of_input, first), F.linear(hidden, of_hidden, second)


def lstm_step(x: Tensor, states: _States, weights: _Weights) -> _States:
    hidden, cell = states
    weights, projection = (weights[:-1], weights[-1]) if len(weights) % 2 else (weights, None)
    sums, kept = _gates(x, hidden, weights)
    let_in, forget, new, out = (sums + kept).chunk(4, -1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(let_in) * torch.tanh(new)
    hidden = torch.sigmoid(out) * torch.tanh(cell)
    return hidden if projection is None else F.linear(hidden, projection), cell


def gru_step(x: Tensor, states: _States, weights: _Weights) -> _States:
    (hidden,) = states
    (reset, update, new), (old_reset, old_update, old_new) = (one.chunk(3, -1) for one in _gates(x, hidden, weights))
    share = torch.sigmoid(update + old_update)
    fresh = torch.tanh(new + torch.sigmoid(reset + old_reset) * old_new)
    return ((hidden - fresh) * share + fresh,)


def tanh_step(x: Tensor, states: _States, weights: _Weights) -> _States:
    sums, kept = _gates(x, states[0], weights)
    return (torch.tanh(sums + kept),)


def relu_step(x: Tensor, states: _States, weights: _Weights) -> _States:
    sums, kept = _gates(x, states[0], weights)
    return (torch.relu(sums + kept),)


def _direction(
    step: _Step, inputs: Sequence[Tensor], states: _States, weights: _Weights
) -> tuple[list[Tensor], _States]:
    found = []
    for x in inputs:
        states = step(x, states, weights)
        found.append(states[0])
    return found, states


def _layers(
    step: _Step,
    input: Tensor,
    states: Sequence[Tensor],
    params: _Weights,
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> _States:
    """Runs all layers in turn, in one direction or both; returns the output and the last states. A layer's weights and
    biases are followed by its projection, if it has one."""
    inputs = list((input.transpose(0, 1) if batch_first else input).unbind(0))
    each = len(params) // (num_layers * (1 + bidirectional))
    last: list[_States] = []
    for layer in range(num_layers):
        given: list[list[Tensor]] = []
        for direction in range(1 + bidirectional):
            at = layer * (1 + bidirectional) + direction
            weights, begin = params[each * at : each * (at + 1)], tuple(one[at] for one in states)
            found, end = _direction(step, inputs[::-1] if direction else inputs, begin, weights)
            given.append(found[::-1] if direction else found)
            last.append(end)
        inputs = [torch.cat(parts, -1) if bidirectional else parts[0] for parts in zip(*given, strict=True)]
    output = torch.stack(inputs, 1 if batch_first else 0)
    return output, *(torch.stack(parts, 0) for parts in zip(*last, strict=True))


def _by_steps(step: _Step) -> Callable[..., _States]:
    def layers(
        *,
        input: Tensor,
        hx: Tensor | Sequence[Tensor],
        params: _Weights,
        num_layers: int,
        bidirectional: bool,
        batch_first: bool,
        **_: Any,
    ) -> _States:
        states = [hx] if isinstance(hx, Tensor) else hx
        return _layers(step, input, states, params, num_layers, bidirectional, batch_first)

    return layers


def lstm_cell(input: Tensor, hx: Sequence[Tensor], *weights: Any, **biases: Any) -> _States:
    return lstm_step(input, (hx[0], hx[1]), [*weights, *biases.values()])


def _cell(step: _Step) -> Callable[..., Tensor]:
    def cell(input: Tensor, hx: Tensor, *weights: Any, **biases: Any) -> Tensor:
        return step(input, (hx,), [*weights, *biases.values()])[0]

    return cell


_FORMS: dict[Any, Any] = {
    aten.lstm.input: _by_steps(lstm_step),
    aten.gru.input: _by_steps(gru_step),
    aten.rnn_tanh.input: _by_steps(tanh_step),
    aten.rnn_relu.input: _by_steps(relu_step),
    aten.lstm_cell.default: lstm_cell,
    aten.gru_cell.default: _cell(gru_step),
    aten.rnn_tanh_cell.default: _cell(tanh_step),
    aten.rnn_relu_cell.default: _cell(relu_step),
}

FORMS = tuple(
    Decomposition(aten=(target,), function=one, takes=is_written_out, floating=True) for target, one in _FORMS.items()
)
