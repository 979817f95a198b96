"""LSTM, GRU and RNN layers in float32: one call each, with the bits of the layer written out step by step."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cortado.api import prepare
from cortado.base.arrays import same_bits
from cortado.base.element import FLOAT32
from cortado.base.target import Core, from_target_string
from cortado.ir.kernel import NestedDescriptor
from cortado.ir.op import Call
from cortado.ops.recurrent import float32_forms
from cortado.ops.recurrent.float32_layer import FLOAT_GRU, FLOAT_LSTM, FLOAT_RNN
from cortado.options import Activations, Artifacts, Options, Weights
from cortado.plan.lowered import lowered_graph, reference_outputs
from cortado.plan.pricing import lowered

aten = torch.ops.aten
INPUTS, UNITS, STEPS = 6, 5, 4
FLOAT = Options(artifacts=Artifacts.C, activations=Activations.FLOAT32, weights=Weights.FLOAT32)
KINDS = {nn.LSTM: FLOAT_LSTM, nn.GRU: FLOAT_GRU, nn.RNN: FLOAT_RNN}
WHOLE = {
    "LSTM": aten.lstm.input,
    "GRU": aten.gru.input,
    "RNN_TANH": aten.rnn_tanh.input,
    "RNN_RELU": aten.rnn_relu.input,
}


class Layer(nn.Module):
    """A recurrent layer of torch, with its last states, which may begin with given ones."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor, *start: torch.Tensor) -> Any:
        output, last = self.layer(x, start if len(start) > 1 else start[0]) if start else self.layer(x)
        return output, *([last] if isinstance(last, torch.Tensor) else last)


class WrittenOut(Layer):
    """The same by operations on single steps."""

    def forward(self, x: torch.Tensor, *start: torch.Tensor) -> Any:
        layer = self.layer
        (form,) = (one for one in float32_forms.FORMS if one.aten == (WHOLE[layer.mode],))
        rows = layer.num_layers * (1 + layer.bidirectional)
        zeros = x.new_zeros(rows, x.shape[0 if layer.batch_first else 1], layer.hidden_size)
        given = start or (zeros,) * (2 if layer.mode == "LSTM" else 1)
        return form.function(
            input=x,
            hx=given if len(given) > 1 else given[0],
            params=[getattr(layer, name) for name in layer._flat_weights_names],
            num_layers=layer.num_layers,
            bidirectional=layer.bidirectional,
            batch_first=layer.batch_first,
        )


def graph_of(module: nn.Module, given: tuple[torch.Tensor, ...], options: Options) -> Any:
    model = prepare(module.eval(), given, options=options)
    return lowered_graph(lowered(model.quantized, from_target_string("cortex-m4"), options))


def drawn(seed: int, *sizes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(size, generator=generator) for size in sizes)


@pytest.mark.parametrize("weights", [Weights.FLOAT32, Weights.INT8])
@pytest.mark.parametrize(
    ("kind", "arguments", "starts"),
    [
        (nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}, 0),
        (nn.LSTM, {"bias": False}, 2),
        (nn.GRU, {"num_layers": 2, "bidirectional": True}, 1),
        (nn.GRU, {"bias": False, "batch_first": True}, 0),
        (nn.RNN, {"batch_first": True}, 1),
        (nn.RNN, {"nonlinearity": "relu", "bidirectional": True}, 0),
    ],
)
def test_a_layer_has_the_bits_of_its_steps(kind: Any, arguments: dict[str, Any], starts: int, weights: Weights) -> None:
    torch.manual_seed(3)
    layer, options = kind(INPUTS, UNITS, **arguments), replace(FLOAT, weights=weights)
    directions, batch = 1 + layer.bidirectional, 2
    states = [(layer.num_layers * directions, batch, UNITS)] * starts
    sizes = [(batch, STEPS, INPUTS) if layer.batch_first else (STEPS, batch, INPUTS), *states]
    whole, steps = (graph_of(one(layer), drawn(0, *sizes), options) for one in (Layer, WrittenOut))
    assert sum(call.operator == KINDS[kind].name for call in whole.calls) == layer.num_layers * directions
    assert not any(call.operator == KINDS[kind].name for call in steps.calls)
    given = drawn(1, *sizes)
    for wanted, found in zip(reference_outputs(steps, given), reference_outputs(whole, given), strict=True):
        assert same_bits(found.numpy(), wanted.numpy())


class Cells(nn.Module):
    """A loop of cells over a sequence, and one cell behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.lstm = nn.GRUCell(INPUTS, UNITS), nn.LSTMCell(UNITS, UNITS)

    def forward(self, x: torch.Tensor) -> Any:
        h = x.new_zeros(1, UNITS)
        for step in x.unbind(1):
            h = self.gru(step, h)
        return self.lstm(h, (h, h))


def test_cells_are_layers() -> None:
    graph = graph_of(Cells(), drawn(0, (1, STEPS, INPUTS)), FLOAT)
    assert [call.operator for call in graph.calls if "float" in call.operator] == [FLOAT_GRU.name, FLOAT_LSTM.name]


def test_calls_do_not_grow_with_the_steps() -> None:
    sizes = [(1, steps, INPUTS) for steps in (2, 60)]
    layer = nn.LSTM(INPUTS, UNITS, num_layers=3, batch_first=True)
    few, many = (graph_of(Layer(layer), drawn(0, size), FLOAT) for size in sizes)
    assert [call.operator for call in few.calls] == [call.operator for call in many.calls]


def gru_call(weight: float, inputs: int, scale: bool) -> Call:
    """A call of a GRU, all weights of whose input are the same."""
    ends = {"x": inputs, "h": UNITS}
    rows, factor = 3 * UNITS, torch.ones(3 * UNITS) if scale else None
    kind = torch.int8 if scale else torch.float32
    arguments: dict[str, Any] = {"input": (1, STEPS, inputs), "start": [], "reverse": False, "last": False}
    for end, width in ends.items():
        value = weight if end == "x" else 1.0
        arguments |= {
            f"weight_{end}": torch.full((rows, width), value).to(kind),
            f"bias_{end}": torch.zeros(rows),
            f"scale_{end}": factor,
        }
    return Call(FLOAT_GRU, arguments, (1, STEPS, UNITS), FLOAT32, {"input": FLOAT32})


@pytest.mark.parametrize(
    ("weight", "scale", "core", "gates"),
    [
        (1.0, False, Core.DSP, "cortado_gates_f32__dsp"),
        (1.0, False, Core.MVE, "cortado_gates_f32__mve"),
        (1.0, True, Core.DSP, "cortado_gates_codes_f32__dsp"),
        (1.0, True, Core.SMALL, "cortado_gates_codes_f32"),
        (float("inf"), False, Core.DSP, "cortado_gates_f32"),
        (float("nan"), False, Core.MVE, "cortado_gates_f32"),
    ],
)
def test_both_paths_have_one_kind_of_kernel(weight: float, scale: bool, core: Core, gates: str) -> None:
    """The portable one where one of the two would give other bits."""
    assert FLOAT_GRU.kernel is not None
    kernel = FLOAT_GRU.kernel(gru_call(weight, INPUTS, scale), core)
    assert kernel.call.functions[-1] == gates
    paths: Any = kernel.fields["path"]
    assert all(isinstance(one, NestedDescriptor) for one in paths)
    assert len({one.struct for one in paths}) == 1
    expected = 3 * UNITS * 4 * (1 + (1 if gates in ("cortado_gates_f32", "cortado_gates_codes_f32") else 2))
    assert kernel.scratch == expected


def test_weights_of_int8_are_exact_for_a_single_input() -> None:
    """Its codes are -127 or 127, and their scales hold the weights."""
    torch.manual_seed(3)
    layer = nn.GRU(1, UNITS, batch_first=True)
    graph = graph_of(Layer(layer), drawn(0, (1, STEPS, 1)), replace(FLOAT, weights=Weights.INT8))
    (call,) = (call for call in graph.calls if call.operator == FLOAT_GRU.name)
    codes, scale = (graph.constants[call.arguments[name].name].numpy() for name in ("weight_x", "scale_x"))
    assert set(np.abs(codes).reshape(-1)) == {127}
    assert np.allclose(codes[:, 0] * scale, next(layer.parameters()).detach().numpy()[:, 0], rtol=1e-6)
