"""GRU, LSTM and RNN as torch's layers, with gates and directions reordered."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from cortado.onnx.node import Built, Node, onnx_operator

Tensor = torch.Tensor

# The index in ONNX's gate order of each of torch's gates: z r h -> r z n; i o f c -> i f g o.
_GATES: Mapping[str, Sequence[int]] = {"GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1), "RNN": (0,)}
_ACTIVATIONS: Mapping[str, list[str]] = {"GRU": ["sigmoid", "tanh"], "LSTM": ["sigmoid", "tanh", "tanh"]}
_LAYERS: Any = {"GRU": nn.GRU, "LSTM": nn.LSTM, "RNN": nn.RNN}


class Recurrent(nn.Module):
    """A torch layer with ONNX's order of inputs and outputs."""

    def __init__(self, layer: nn.Module, kind: str, *, reverse: bool, batch_first: bool) -> None:
        super().__init__()
        self.layer, self.kind, self.reverse, self.batch_first = layer, kind, reverse, batch_first

    def forward(self, x: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        x = x.transpose(0, 1) if self.batch_first else x
        given = [state.transpose(0, 1) if self.batch_first else state for state in states]
        y, last = self._run(x.flip(0) if self.reverse else x, given)
        y = y.flip(0) if self.reverse else y
        directions = 2 if self.layer.bidirectional else 1
        sizes = (y.shape[0], y.shape[1], directions, y.shape[2] // directions)
        y = y.reshape(sizes).permute(*((1, 0, 2, 3) if self.batch_first else (0, 2, 1, 3)))
        return (y, *(one.transpose(0, 1) if self.batch_first else one for one in last))

    def _run(self, x: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
        if self.kind != "LSTM":
            y, h = self.layer.forward(x, *states)
            return y, (h,)
        y, last = self.layer.forward(x, tuple(states)) if states else self.layer.forward(x)
        return y, tuple(last)


@onnx_operator(
    "GRU",
    "LSTM",
    "RNN",
    limits="constant weights, default activations, no clip, no peepholes, all sequences of full length; GRU with "
    "linear_before_reset=1, as PyTorch and Keras have it",
    least={"hidden_size": 1},
    among={"direction": ("forward", "reverse", "bidirectional")},
)
def recurrent(node: Node) -> Built:
    _check(node)
    units, direction = node.integer("hidden_size"), node.text("direction", "forward")
    activation = node.texts("activations")
    options = {"nonlinearity": activation[0].lower()} if node.kind == "RNN" and activation else {}
    both = direction == "bidirectional"
    biased = node.has(3)
    rows = len(_GATES[node.kind]) * units
    for position, sizes in ((1, (rows, node.shape()[-1])), (2, (rows, units)), *([(3, (2 * rows,))] if biased else [])):
        if node.shape(position) != (1 + both, *sizes):
            node.refuse(f"input {position} of shape {list(node.shape(position))}", f"{[1 + both, *sizes]}")
    layer = _LAYERS[node.kind](node.shape(1)[2], units, bidirectional=both, bias=biased, device="meta", **options)
    for number in range(2 if both else 1):
        _fill(node, layer, number, units)
    module = Recurrent(layer, node.kind, reverse=direction == "reverse", batch_first=node.flag("layout"))
    return Built(module, (0, *_states(node)))


def _states(node: Node) -> list[int]:
    """Returns the positions of initial states; for an LSTM both or none."""
    given = [position for position in (5, 6) if node.has(position)]
    if node.kind == "LSTM" and len(given) == 1:
        node.refuse("one of two initial states", "both, or none")
    zeros = all(node.value(position).data is not None and not node.constant(position).any() for position in given)
    return [] if zeros else given


def _fill(node: Node, layer: nn.Module, direction: int, units: int) -> None:
    end = "_l0" + ("_reverse" if direction else "")
    order = [gate * units + unit for gate in _GATES[node.kind] for unit in range(units)]
    found = {"weight_ih": node.constant(1)[direction], "weight_hh": node.constant(2)[direction]}
    if node.has(3):
        found["bias_ih"], found["bias_hh"] = node.constant(3)[direction].reshape(2, -1)
    for name, value in found.items():
        setattr(layer, f"{name}{end}", nn.Parameter(value[order].to(torch.float32)))


def _check(node: Node) -> None:
    if node.rank() != 3:
        node.refuse(f"an input of shape {list(node.shape())}", "one of rank 3")
    names = [one.lower() for one in node.texts("activations")]
    default = _ACTIVATIONS.get(node.kind)
    plain = (
        all(names[at : at + len(default)] == default for at in range(0, len(names), len(default)))
        if default
        else (len(set(names)) <= 1 and set(names) <= {"tanh", "relu"})
    )
    if not plain:
        node.refuse(f"activations {names}", "the default ones")
    if node.attributes.get("clip") or node.has(7) or node.flag("input_forget"):
        node.refuse("a clip, peepholes or a coupled forget gate", "no clip, peepholes or coupled forget gate")
    if node.kind == "GRU" and not node.flag("linear_before_reset"):
        node.refuse(
            "linear_before_reset=0, which multiplies the state by the reset gate before the matrix",
            "linear_before_reset=1, as PyTorch exports it and Keras with reset_after=True",
        )
    if node.has(4):
        steps = node.shape()[1 if node.flag("layout") else 0]
        lengths = node.value(4).data
        if lengths is None or not bool((lengths == steps).all()):
            node.refuse("sequences of different lengths", f"all of {steps} steps")
