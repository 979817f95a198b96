"""Random networks whose data comes step by step: buffers that last between calls, and windows over a stream of rows."""

import math
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cortado
from cortado.compiled import Compiled
from cortado.run.runner import HOST, RUNTIME_CHECKS
from fuzz.oracles import WORSE_DB, Found, Kind
from helpers.sanitizers import SANITIZERS
from helpers.stateful import decibels, eager_steps
from helpers.streams import Rows

ACTIVATIONS: tuple[Callable[[Tensor], Tensor], ...] = (torch.relu, torch.tanh, torch.sigmoid, F.hardswish)


class Memory(nn.Module):
    """One buffer that forward changes, of a random kind; it takes and gives rows [1, size]."""

    past: Tensor
    count: Tensor

    def __init__(self, draw: random.Random, size: int) -> None:
        super().__init__()
        self.kind = draw.choice(("ring", "average", "gru", "rnn", "counter", "cache"))
        self.length, self.period = draw.randint(2, 5), draw.randint(2, 4)
        self.act = draw.choice(ACTIVATIONS)
        self.layer = nn.Linear(size * self.length if self.kind == "ring" else size, size)
        self.cell = {"gru": nn.GRUCell, "rnn": nn.RNNCell}.get(self.kind, nn.RNNCell)(size, size)
        self.part = draw.uniform(0.1, 0.6)
        shapes = {"ring": (1, self.length - 1, size), "cache": (1, self.length, size)}
        self.register_buffer("past", torch.zeros(shapes.get(self.kind, (1, size))))
        self.register_buffer("count", torch.zeros(1, dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "ring":
            window = torch.cat([self.past, x.unsqueeze(1)], 1)
            self.past.copy_(window[:, 1:])
            return self.act(self.layer(window.flatten(1)))
        if self.kind == "average":
            self.past = (1 - self.part) * self.past + self.part * self.act(self.layer(x))
            return self.past
        if self.kind == "counter":  # every few steps the other half of a network
            self.count = (self.count + 1) % self.period
            return torch.where(self.count == 0, self.act(self.layer(x)), torch.tanh(x))
        if self.kind == "cache":  # attention to what it holds by now
            self.past[:, self.count % self.length] = x.unsqueeze(1)
            empty = torch.arange(self.length) > self.count
            self.count = self.count + 1
            scores = self.layer(x).unsqueeze(1) @ self.past.mT
            return self.act((scores.masked_fill(empty, -math.inf).softmax(-1) @ self.past).squeeze(1))
        self.past = self.cell(x, self.past)
        return self.past


class Stateful(nn.Module):
    """Layers and memories in a random order; the last layer is at times a softmax over more than 1,023 values."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.features, size = draw.randint(3, 9), draw.randint(4, 12)
        self.first, self.act = nn.Linear(self.features, size), draw.choice(ACTIVATIONS)
        memories = [Memory(draw, size) for _ in range(draw.randint(1, 2))]
        self.memories, self.kinds = nn.ModuleList(memories), [memory.kind for memory in memories]
        self.long = draw.random() < 0.2
        self.last = nn.Linear(size, draw.randint(1030, 1300) if self.long else draw.randint(2, 7))

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.first(x))
        for memory in self.memories:
            x = memory(x)
        x = self.last(x)
        return torch.softmax(8 * x, 1) if self.long else x


class Windowed(nn.Module):
    """A network over a window of rows [1, C, T, W] that pads nothing in time; or before the first row, where only the
    newest row counts."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        torch.manual_seed(seed)
        channels, width = draw.randint(2, 3), draw.randint(1, 4)
        self.shape = (1, channels, draw.randint(18, 30), width)
        self.acts = [draw.choice(ACTIVATIONS) for _ in range(draw.randint(1, 3))]
        self.end = draw.choice(("mean", "newest", "flat"))
        self.pads, layers = [], []
        for _ in self.acts:
            taps, dilation, made = draw.randint(1, 3), draw.randint(1, 2), draw.randint(2, 8)
            depthwise = draw.random() < 0.3
            made = channels if depthwise else made
            groups = channels if depthwise else 1
            layers.append(nn.Conv2d(channels, made, (taps, 1), dilation=(dilation, 1), groups=groups))
            self.pads.append((taps - 1) * dilation if self.end == "newest" and draw.random() < 0.5 else 0)
            channels = made
        self.layers = nn.ModuleList(layers)
        rows = self._features(torch.zeros(self.shape)).shape[2]
        sizes = {"mean": channels, "newest": channels * width, "flat": channels * rows * width}
        self.last = nn.Linear(sizes[self.end], draw.randint(2, 6))

    def _features(self, x: Tensor) -> Tensor:
        for layer, act, pad in zip(self.layers, self.acts, self.pads, strict=True):
            x = act(layer(F.pad(x, (0, 0, pad, 0)) if pad else x))
        return x

    def forward(self, x: Tensor) -> Tensor:
        x = self._features(x)
        if self.end == "mean":
            return self.last(x.mean((2, 3)))
        return self.last((x[:, :, -1:] if self.end == "newest" else x).flatten(1))


# ---- checked -------------------------------------------------------------------------------------------------------

TARGETS = ("cortex-m0plus", "cortex-m4", "cortex-m33", "cortex-m55")
CALIBRATED = 64  # steps
ROWS = 70
ENOUGH_DECIBELS = 15.0


def target_of(seed: int) -> str:
    return TARGETS[seed % len(TARGETS)]


def check_state(seed: int, folder: Path, on: str | None, steps: int) -> Compiled:
    """A network with state on steps that calibration has not seen: the reference's bits, and close to torch.

    `on` is a place as `cortado run` knows it; None: the target's board.
    """
    model = Stateful(seed).eval()
    data = torch.randn(CALIBRATED + steps, model.features, generator=torch.Generator().manual_seed(seed))
    options = cortado.Options(artifacts="c")
    compiled = cortado.compile(model, (data[:1],), target_of(seed), data[:CALIBRATED], name="net", options=options)
    artifact = compiled.save(folder / "net")
    fresh = data[CALIBRATED:]
    found = artifact.run([[step[None].numpy()] for step in fresh], on, flags=(RUNTIME_CHECKS,) if on == HOST else ())
    if not found.bit_exact:
        raise Found(Kind.HOST if on == HOST else Kind.BOARD, f"other bits within {steps} steps")
    (wanted,) = eager_steps(model, fresh)
    kept = decibels(wanted, found.outputs[0])
    least = min(ENOUGH_DECIBELS, decibels(wanted, saturated(seed, data[:CALIBRATED], fresh)) - WORSE_DB)
    if not model.long and kept <= least:  # a thousand small parts of one are less than a step each
        raise Found(Kind.ACCURACY, f"{kept:.1f} dB over {steps} steps")
    return compiled


def saturated(seed: int, calibration: Tensor, fresh: Tensor) -> np.ndarray:
    """What the module gives if each of its layers saturates at the ends of what it gave on the calibration data: fresh
    data far beyond costs any int8 model as much."""
    model = Stateful(seed).eval()
    layers = [layer for layer in model.modules() if layer is not model and not isinstance(layer, nn.ModuleList)]
    seen: list[list[Tensor]] = [[] for _ in layers]
    hooks = [layer.register_forward_hook(_keep(values)) for layer, values in zip(layers, seen, strict=True)]
    eager_steps(model, calibration)
    for hook in hooks:
        hook.remove()
    for layer, values in zip(layers, seen, strict=True):
        if values:
            layer.register_forward_hook(_hold(float(torch.cat(values).min()), float(torch.cat(values).max())))
    return np.asarray(eager_steps(model, fresh)[0])


def _keep(values: list[Tensor]) -> Callable[[nn.Module, object, Tensor], None]:
    return lambda _, given, made: values.append(made.detach().clone())


def _hold(low: float, high: float) -> Callable[[nn.Module, object, Tensor], Tensor]:
    return lambda _, given, made: made.clamp(low, high)


def check_stream(seed: int, folder: Path, board: bool) -> Compiled:
    """A network over a stream of rows: every window as the reference has it."""
    model = Windowed(seed).eval()
    batches = [(torch.randn(model.shape, generator=torch.Generator().manual_seed(n)),) for n in range(4)]
    options = cortado.Options(stream=2, artifacts="c")
    compiled = cortado.compile(model, batches[0], target_of(seed), batches, name="net", options=options)
    rows = Rows(compiled, ROWS)
    found = rows.push(folder, target_of(seed)) if board else rows.push(folder, None, SANITIZERS)
    for number in range(rows.outputs):
        if not np.array_equal(found[number], rows.expected(number)[0]):
            raise Found(Kind.BOARD if board else Kind.HOST, f"other bits in window {number} of {rows.outputs}")
    return compiled
