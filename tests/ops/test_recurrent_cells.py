"""Cells that a loop calls step after step: one layer over the sequence, however the loop is written."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from helpers.single import Single, decibels, lower_on, randn

STEPS, CHANNELS, UNITS = 7, 6, 10
Kind = type[nn.GRUCell] | type[nn.LSTMCell] | type[nn.RNNCell]
KINDS: dict[Kind, str] = {nn.GRUCell: "gru", nn.LSTMCell: "lstm", nn.RNNCell: "rnn"}
Step = Callable[[Tensor, int], Tensor]


class Loop(nn.Module):
    """A cell over a sequence: how each step is taken, in which order, and what becomes of the states."""

    def __init__(
        self,
        kind: Kind,
        step: Step = lambda x, t: x[:, t],
        order: tuple[int, ...] = tuple(range(STEPS)),
        end: Callable[[list[Tensor]], Tensor] = lambda states: torch.stack(states, 1),
    ) -> None:
        super().__init__()
        self.cell, self.step, self.order, self.end = kind(CHANNELS, UNITS), step, order, end

    def forward(self, x: Tensor) -> Tensor:
        sizes = self.step(x, 0).shape[:-1]
        hidden, cells = x.new_zeros(*sizes, UNITS), x.new_zeros(*sizes, UNITS)
        states = []
        for t in self.order:
            if isinstance(self.cell, nn.LSTMCell):
                hidden, cells = self.cell(self.step(x, t), (hidden, cells))
            else:
                hidden = self.cell(self.step(x, t), hidden)
            states.append(hidden)
        return self.end(states)


LOOPS: dict[str, tuple[tuple[int, ...], Callable[[Kind], Loop]]] = {
    "all states": ((1, STEPS, CHANNELS), lambda kind: Loop(kind)),
    "a batch": ((3, STEPS, CHANNELS), lambda kind: Loop(kind)),
    "the last state": ((1, STEPS, CHANNELS), lambda kind: Loop(kind, end=lambda states: states[-1])),
    "time first": (
        (STEPS, 1, CHANNELS),
        lambda kind: Loop(kind, step=lambda x, t: x[t], end=lambda states: torch.stack(states, 0)),
    ),
    "channels first": ((1, CHANNELS, STEPS), lambda kind: Loop(kind, step=lambda x, t: x[:, :, t])),
    "plain slices": ((1, STEPS, CHANNELS), lambda kind: Loop(kind, step=lambda x, t: x[:, t, :])),
    "unbind": ((1, STEPS, CHANNELS), lambda kind: Loop(kind, step=lambda x, t: x.unbind(1)[t])),
    "backwards": (
        (1, STEPS, CHANNELS),
        lambda kind: Loop(kind, order=tuple(reversed(range(STEPS))), end=lambda states: torch.stack(states[::-1], 1)),
    ),
    "a part": ((1, STEPS, CHANNELS), lambda kind: Loop(kind, order=(2, 3, 4))),
}


def both(model: nn.Module, found: Single, inputs: list[tuple[Tensor]]) -> tuple[Tensor, Tensor]:
    """What the model gives, and what the integers."""
    with torch.no_grad():
        return torch.stack([model(*x) for x in inputs]), torch.stack([found.outputs(*x)[0] for x in inputs])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("spelling", LOOPS)
def test_a_loop_over_a_sequence_is_one_layer(spelling: str, kind: Kind) -> None:
    torch.manual_seed(0)
    sizes, make = LOOPS[spelling]
    model, inputs = make(kind).eval(), [(randn(*sizes, seed=seed),) for seed in range(8)]
    found = lower_on(model, inputs)
    assert found.kernels.count(KINDS[kind]) == 1
    assert "cat" not in found.kernels
    assert decibels(*both(model, found, inputs)) > 33


def test_two_layers_in_one_loop() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.GRUCell(CHANNELS, UNITS), nn.LSTMCell(UNITS, 8)

        def forward(self, x: Tensor) -> Tensor:
            a, b, c = x.new_zeros(1, UNITS), x.new_zeros(1, 8), x.new_zeros(1, 8)
            for t in range(STEPS):
                a = self.first(x[:, t], a)
                b, c = self.second(a, (b, c))
            return b

    torch.manual_seed(0)
    model, inputs = Two().eval(), [(randn(1, STEPS, CHANNELS, seed=seed),) for seed in range(8)]
    found = lower_on(model, inputs)
    assert [found.kernels.count(name) for name in ("gru", "lstm")] == [1, 1]
    assert decibels(*both(model, found, inputs)) > 30


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "order", [(0, 2, 4, 6), (0, 1, 2, 1, 0), (3, 3, 3)], ids=["every other", "there and back", "the same"]
)
def test_other_orders_are_several_layers(order: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    model = Loop(nn.GRUCell, order=order, end=lambda states: states[-1]).eval()
    inputs = [(randn(1, STEPS, CHANNELS, seed=seed),) for seed in range(8)]
    found = lower_on(model, inputs)
    assert found.kernels.count("gru") > 1
    assert decibels(*both(model, found, inputs)) > 25


READS: dict[str, tuple[tuple[int, ...], Callable[[nn.Module, Tensor], Tensor]]] = {
    "the last output": ((1, STEPS, CHANNELS), lambda layer, x: layer(x)[0][:, -1]),
    "of a batch": ((2, STEPS, CHANNELS), lambda layer, x: layer(x)[0][:, -1]),
    "the final state": ((1, STEPS, CHANNELS), lambda layer, x: layer(x)[1][0]),
    "both": ((1, STEPS, CHANNELS), lambda layer, x: layer(x)[0][:, -1] + layer(x)[1][0]),
    "another output": ((1, STEPS, CHANNELS), lambda layer, x: layer(x)[0][:, -2]),
    "two outputs": ((1, STEPS, CHANNELS), lambda layer, x: layer(x)[0][:, -2:]),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("read", READS)
def test_a_layer_of_which_the_last_step_is_read_gives_no_other(read: str) -> None:
    torch.manual_seed(0)
    sizes, take = READS[read]

    class Read(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.GRU(CHANNELS, UNITS, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return take(self.layer, x)

    model, inputs = Read().eval(), [(randn(*sizes, seed=seed),) for seed in range(8)]
    found = lower_on(model, inputs)
    assert [call.arguments["last"] for call in found.calls("cortado::gru")] == [
        read not in ("another output", "two outputs")
    ]
    assert decibels(*both(model, found, inputs)) > 33
