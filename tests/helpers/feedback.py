"""Models whose state is computed from itself, as users write them: seven kinds."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Kalman(nn.Module):
    """A scalar filter for each of eight channels: estimate, and its variance."""

    x: Tensor
    p: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("x", torch.zeros(1, 8))
        self.register_buffer("p", torch.ones(1, 8))

    def forward(self, z: Tensor) -> Tensor:
        p = self.p + 0.05
        gain = p / (p + 0.5)
        self.x = self.x + gain * (z - self.x)
        self.p = (1 - gain) * p
        return self.x


class EchoState(nn.Module):
    """A leaky reservoir of fixed weights, and what is read of it."""

    h: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.into, self.out = nn.Linear(24, 24, bias=False), nn.Linear(4, 24), nn.Linear(24, 3)
        with torch.no_grad():
            weight = torch.randn(24, 24)
            self.inside.weight.copy_(0.9 * weight / torch.linalg.eigvals(weight).abs().max())
        self.register_buffer("h", torch.zeros(1, 24))

    def forward(self, x: Tensor) -> Tensor:
        self.h = 0.7 * self.h + 0.3 * torch.tanh(self.inside(self.h) + self.into(x))
        y: Tensor = self.out(self.h)
        return y


class SelectiveScan(nn.Module):
    """One step of a state space model whose step size, input and output depend on the input."""

    h: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.step, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 8), nn.Linear(6, 8)
        self.rate = nn.Parameter(-torch.arange(1.0, 9.0).repeat(6, 1) / 4)
        self.direct = nn.Parameter(torch.ones(6))
        self.register_buffer("h", torch.zeros(1, 6, 8))

    def forward(self, x: Tensor) -> Tensor:
        step = F.softplus(self.step(x)).unsqueeze(-1)
        self.h = torch.exp(step * self.rate) * self.h + (step * x.unsqueeze(-1)) * self.b(x).unsqueeze(1)
        return (self.h * self.c(x).unsqueeze(1)).sum(-1) + self.direct * x


class Biquads(nn.Module):
    """Eight second-order filters of one signal, in transposed direct form."""

    b0: Tensor
    a1: Tensor
    a2: Tensor
    s1: Tensor
    s2: Tensor

    def __init__(self) -> None:
        super().__init__()
        angle, radius = torch.linspace(0.2, 2.6, 8), 0.9
        self.register_buffer("b0", torch.full((1, 8), 0.2))
        self.register_buffer("a1", (-2 * radius * torch.cos(angle))[None])
        self.register_buffer("a2", torch.full((1, 8), radius**2))
        self.register_buffer("s1", torch.zeros(1, 8))
        self.register_buffer("s2", torch.zeros(1, 8))

    def forward(self, x: Tensor) -> Tensor:
        y = self.b0 * x + self.s1
        self.s1 = self.s2 - self.a1 * y
        self.s2 = -self.b0 * x - self.a2 * y
        return y


class Rwkv(nn.Module):
    """The time mixing of RWKV: weighted averages with decaying weights."""

    decay: Tensor
    bonus: Tensor
    top: Tensor
    bottom: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.key, self.value, self.gate = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("decay", torch.exp(-torch.linspace(0.05, 0.8, 8))[None])
        self.register_buffer("bonus", torch.linspace(0.5, 1.5, 8)[None])
        self.register_buffer("top", torch.zeros(1, 8))
        self.register_buffer("bottom", torch.zeros(1, 8))

    def forward(self, x: Tensor) -> Tensor:
        weight, value = torch.exp(self.key(x)), self.value(x)
        now = self.bonus * weight
        found = (self.top + now * value) / (self.bottom + now)
        self.top = self.decay * self.top + weight * value
        self.bottom = self.decay * self.bottom + weight
        return torch.sigmoid(self.gate(x)) * found


class Recurrence(nn.Module):
    """A linear recurrent unit: complex diagonal, the real and imaginary parts side by side."""

    cos: Tensor
    sin: Tensor
    re: Tensor
    im: Tensor

    def __init__(self) -> None:
        super().__init__()
        angle, radius = torch.linspace(0.1, 3.0, 12), torch.linspace(0.8, 0.97, 12)
        self.register_buffer("cos", (radius * torch.cos(angle))[None])
        self.register_buffer("sin", (radius * torch.sin(angle))[None])
        self.into_re, self.into_im, self.out = nn.Linear(4, 12), nn.Linear(4, 12), nn.Linear(24, 4)
        self.register_buffer("re", torch.zeros(1, 12))
        self.register_buffer("im", torch.zeros(1, 12))

    def forward(self, x: Tensor) -> Tensor:
        re = self.cos * self.re - self.sin * self.im + self.into_re(x)
        im = self.sin * self.re + self.cos * self.im + self.into_im(x)
        self.re, self.im = re, im
        y: Tensor = self.out(torch.cat([re, im], 1))
        return y


class Quaternion(nn.Module):
    """Attitude from a gyroscope: a turn, then unit length again."""

    q: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("q", torch.tensor([[1.0, 0.0, 0.0, 0.0]]))

    def forward(self, x: Tensor) -> Tensor:
        a, b, c = (0.1 * x).split(1, 1)
        w, i, j, k = self.q.split(1, 1)
        turn = [-a * i - b * j - c * k, a * w + c * j - b * k, b * w - c * i + a * k, c * w + b * i - a * j]
        q = self.q + torch.cat(turn, 1)
        self.q = q / torch.sqrt(q.square().sum(1, keepdim=True) + 1e-6)
        return self.q


@dataclass(frozen=True)
class Feedback:
    """A model and the size of its input."""

    build: Callable[[], nn.Module]
    inputs: int

    def model(self) -> nn.Module:
        torch.manual_seed(1)
        return self.build().eval()

    def sequence(self, steps: int, seed: int) -> Tensor:
        """A walk that stays near zero, and noise."""
        rng = torch.Generator().manual_seed(seed)
        noise = torch.randn(steps, self.inputs, generator=rng)
        walk = torch.zeros(self.inputs)
        found = []
        for one in noise:
            walk = 0.9 * walk + 0.4 * one
            found.append(walk)
        return torch.stack(found) + 0.3 * torch.randn(steps, self.inputs, generator=rng)


FEEDBACK = {
    "kalman": Feedback(Kalman, 8),
    "echo_state": Feedback(EchoState, 4),
    "selective_scan": Feedback(SelectiveScan, 6),
    "biquads": Feedback(Biquads, 1),
    "rwkv": Feedback(Rwkv, 8),
    "recurrence": Feedback(Recurrence, 4),
    "quaternion": Feedback(Quaternion, 3),
}
