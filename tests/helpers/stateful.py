"""Models with state: buffers that forward changes, as users write them."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cortado.base.arrays import ArrayType
from cortado.options import Options
from cortado.scoring import metrics

STEPS = 200


class Average(nn.Module):
    """An exponential moving average, assigned."""

    h: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("h", torch.zeros(1, 8))

    def forward(self, x: Tensor) -> Tensor:
        self.h = 0.75 * self.h + 0.25 * self.layer(x)
        return torch.tanh(self.h)


class Ring(nn.Module):
    """A causal convolution: the last samples, written with copy_, and initial values that are not all the same."""

    past: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(6, 10, 5)
        self.out = nn.Linear(10, 4)
        self.register_buffer("past", torch.linspace(-1, 1, 24).reshape(1, 6, 4))

    def forward(self, x: Tensor) -> Tensor:
        window = torch.cat([self.past, x], 2)
        self.past.copy_(window[:, :, 1:])
        y: Tensor = self.out(torch.relu(self.conv(window)).squeeze(2))
        return y


class Streaming(nn.Module):
    """Noise suppression as RNNoise does it, one frame a call: the layer's last hidden state is its next first one."""

    h: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(10, 16)
        self.gru = nn.GRU(16, 12, batch_first=True)
        self.gains = nn.Linear(12, 10)
        self.register_buffer("h", torch.zeros(1, 1, 12))

    def forward(self, x: Tensor) -> Tensor:
        y, self.h = self.gru(torch.tanh(self.first(x)), self.h)
        return torch.sigmoid(self.gains(y))


class Cache(nn.Module):
    """Attention of each step to the last eight: keys and values are kept."""

    keys: Tensor
    values: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))
        self.register_buffer("keys", torch.zeros(1, 8, 16))
        self.register_buffer("values", torch.zeros(1, 8, 16))

    def forward(self, x: Tensor) -> Tensor:
        keys = torch.cat([self.keys[:, 1:], self.k(x)], 1)
        values = torch.cat([self.values[:, 1:], self.v(x)], 1)
        self.keys, self.values = keys, values
        scores = torch.softmax(self.q(x) @ keys.transpose(1, 2) / 4.0, -1)
        y: Tensor = self.out(scores @ values)
        return y


class Delay(nn.Module):
    """State that gets an input, or other state; an old value that is returned; a counter that nobody reads."""

    one: Tensor
    two: Tensor
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("one", torch.zeros(1, 8))
        self.register_buffer("two", torch.full((1, 8), 0.5))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        old = self.two
        self.two = self.one
        self.one = x
        self.calls += 1
        return old, x + old


class Late(nn.Module):
    """The old value is read once more when the new one is there."""

    h: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("h", torch.zeros(1, 8))

    def forward(self, x: Tensor) -> Tensor:
        old = self.h
        self.h = 0.5 * old + x
        return self.h * old


class Rolling(nn.Module):
    """Writes into parts, in place and through other names, under no_grad."""

    rows: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(4, 6))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.rows[:-1] = self.rows[1:].clone()
            last = self.rows[-1:]
            last.copy_(x)
        return self.rows.sum(0, keepdim=True) * 0.5


@dataclass(frozen=True)
class Stateful:
    """A model, the shape of a step, and the decibels that its outputs keep at least."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    decibels: float
    buffers: tuple[str, ...]
    pte: bool = True  # recurrent layers are in C alone
    state: str = "int16"  # of what is computed from itself
    wide: bool = False  # and it is
    copied: bool = False  # when a step is over: its old values are read until then

    def model(self) -> nn.Module:
        torch.manual_seed(1)
        return self.build().eval()

    @property
    def dtype(self) -> torch.dtype:
        """Of its state."""
        return torch.int16 if self.wide else torch.int8

    @property
    def options(self) -> Options:
        return Options(state=self.state)  # type: ignore[arg-type]

    def steps(self, count: int = STEPS, seed: int = 2) -> Tensor:
        rng = torch.Generator().manual_seed(seed)
        return torch.randn(count, *self.shape[1:], generator=rng)


STATEFUL = {
    "average": Stateful(Average, (1, 8), 24, ("h",), state="int8"),
    "wide": Stateful(Average, (1, 8), 40, ("h",), pte=False, wide=True),
    "ring": Stateful(Ring, (1, 6, 1), 27, ("past",)),
    "streaming": Stateful(Streaming, (1, 1, 10), 45, ("h",), pte=False, copied=True),
    "cache": Stateful(Cache, (1, 1, 16), 28, ("keys", "values")),
    "delay": Stateful(Delay, (1, 8), 25, ("one", "two"), copied=True),
    "late": Stateful(Late, (1, 8), 20, ("h",), copied=True, state="int8"),
    "rolling": Stateful(Rolling, (1, 6), 25, ("rows",)),
}


def eager_steps(model: nn.Module, steps: Tensor, sequence: int | None = None) -> list[ArrayType]:
    """What the module itself gives, step by step: its outputs, each with the steps along the first dimension."""
    found: list[tuple[Tensor, ...]] = []
    running = copy.deepcopy(model)
    for number, step in enumerate(steps):
        if sequence is not None and number % sequence == 0:
            running = copy.deepcopy(model)
        with torch.no_grad():
            made = running(step[None])
        found.append(made if isinstance(made, tuple) else (made,))
    return [torch.cat(values).numpy() for values in zip(*found, strict=True)]


def decibels(wanted: ArrayType, found: ArrayType) -> float:
    error = metrics.Error()
    error.add(wanted, np.asarray(found).reshape(wanted.shape))
    assert error.decibels is not None
    return error.decibels
