"""Filters as users write them: loops over samples, with what they remember in buffers or in the window itself."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Section = tuple[float, float, float, float, float]  # b0, b1, b2, a1, a2


def lowpass(cutoff: float, quality: float = 0.7071) -> Section:
    """Of a fraction of the sample rate, as equalizers have them."""
    turn = 2 * math.pi * cutoff
    alpha, cosine = math.sin(turn) / (2 * quality), math.cos(turn)
    top, bottom = (1 - cosine) / 2 / (1 + alpha), 1 + alpha
    return top, 2 * top, top, -2 * cosine / bottom, (1 - alpha) / bottom


def highpass(cutoff: float) -> Section:
    _, _, _, a1, a2 = lowpass(cutoff)
    top = (1 - a1 + a2) / 4
    return top, -2 * top, top, a1, a2


class Signal(nn.Module):
    """A function of samples, with buffers that are given by name."""

    def __init__(self, function: Callable[..., Any], **buffers: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def direct(section: Section) -> nn.Module:
    """Direct form, a block of [1, samples] a call, each number a buffer of its own."""
    b0, b1, b2, a1, a2 = section

    def forward(self: Any, x: Tensor) -> Tensor:
        found, x1, x2, y1, y2 = [], self.x1, self.x2, self.y1, self.y2
        for at in range(x.shape[1]):
            x0 = x[:, at : at + 1]
            y0 = b0 * x0 + b1 * x1 + b2 * x2 - a1 * y1 - a2 * y2
            x2, x1, y2, y1 = x1, x0, y1, y0
            found.append(y0)
        self.x1, self.x2, self.y1, self.y2 = x1, x2, y1, y2
        return torch.cat(found, 1)

    return Signal(forward, **{name: torch.zeros(1, 1) for name in ("x1", "x2", "y1", "y2")})


def axes(section: Section, channels: int = 3) -> nn.Module:
    """Transposed direct form over [1, channels, samples], all states in one buffer, written in place."""
    b0, b1, b2, a1, a2 = section

    def forward(self: Any, x: Tensor) -> Tensor:
        found, s1, s2 = [], self.kept[..., 0], self.kept[..., 1]
        for u in x.unbind(2):
            y = b0 * u + s1
            s1, s2 = b1 * u - a1 * y + s2, b2 * u - a2 * y
            found.append(y)
        self.kept.copy_(torch.stack([s1, s2], -1))
        return torch.stack(found, 2)

    return Signal(forward, kept=torch.zeros(1, channels, 2))


def cascade(sections: Sequence[Section]) -> nn.Module:
    """Sample by sample through all sections."""

    def forward(self: Any, x: Tensor) -> Tensor:
        found, kept = [], [[self.kept[k, j : j + 1] for j in range(4)] for k in range(len(sections))]
        for at in range(x.shape[1]):
            u = x[0, at : at + 1]
            for number, (b0, b1, b2, a1, a2) in enumerate(sections):
                u1, u2, y1, y2 = kept[number]
                y = b0 * u + b1 * u1 + b2 * u2 - a1 * y1 - a2 * y2
                kept[number], u = [u, u1, y, y1], y
            found.append(u)
        self.kept = torch.stack([torch.cat(one) for one in kept])
        return torch.cat(found)[None]

    return Signal(forward, kept=torch.zeros(len(sections), 4))


def one_sample(section: Section) -> nn.Module:
    """A sample a call."""
    b0, b1, b2, a1, a2 = section

    def forward(self: Any, x: Tensor) -> Tensor:
        y = b0 * x + b1 * self.x[:, :1] + b2 * self.x[:, 1:] - a1 * self.y[:, :1] - a2 * self.y[:, 1:]
        self.x, self.y = torch.cat([x, self.x[:, :1]], 1), torch.cat([y, self.y[:, :1]], 1)
        return y

    return Signal(forward, x=torch.zeros(1, 2), y=torch.zeros(1, 2))


def average(alpha: float) -> nn.Module:
    """An exponential moving average of a sample a call."""

    def forward(self: Any, x: Tensor) -> Tensor:
        self.y = self.y + alpha * (x - self.y)
        return self.y

    return Signal(forward, y=torch.zeros(1, 1))


def last_of_block(alpha: float) -> nn.Module:
    """The same over a block; only where it ends is given."""

    def forward(self: Any, x: Tensor) -> Tensor:
        y = self.y
        for one in x.unbind(1):
            y = y + alpha * (one - y)
        self.y = y
        return y[:, None]

    return Signal(forward, y=torch.zeros(1))


def in_window(section: Section) -> nn.Module:
    """What `torchaudio.functional.lfilter` computes, in its own way: of a window, without state, clamped."""
    b, a = torch.tensor(section[:3]), torch.tensor([1.0, *section[3:]])

    def forward(self: Any, x: Tensor) -> Tensor:
        order, count = len(self.a) - 1, x.shape[1]
        fed = functional.conv1d(functional.pad(x, (order, 0))[:, None], self.b.flip(0)[None, None])[:, 0]
        made = torch.zeros(1, count + order)
        back = self.a.flip(0)[:-1]
        for at in range(count):
            made[:, at + order] = fed[:, at] - (made[:, at : at + order] * back).sum(1)
        return made[:, order:].clamp(-1.0, 1.0)

    return Signal(forward, b=b, a=a)


def sound(blocks: int, shape: Sequence[int], seed: int) -> Tensor:
    """Two tones and noise, [blocks, *shape] with time last."""
    samples, rng = shape[-1], torch.Generator().manual_seed(seed)
    time = torch.arange(blocks * samples)
    channels = math.prod(shape[:-1])
    tones = 0.3 * torch.sin(0.05 * time) + 0.2 * torch.sin(0.4 * time)
    noise = 0.1 * torch.randn(channels, blocks * samples, generator=rng)
    return (tones + noise).reshape(channels, blocks, samples).permute(1, 0, 2).reshape(blocks, *shape)


def as_samples(x: Tensor) -> Tensor:
    """As a converter gives them."""
    return (x * 20_000).round().to(torch.int16)


class OfSamples(nn.Module):
    """A module of real numbers, fed by a converter."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Any:
        return self.inner(x.float() / 32768)
