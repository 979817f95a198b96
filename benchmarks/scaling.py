"""How compile time and memory grow with the size of a network: CPU seconds by phase, peak memory, proven or not.

    python benchmarks/scaling.py [--networks heads:64,inputs:300,...] [--target cortex-m4] [--limit 600] [--json]

Each network is a family and its size, compiled in a process of its own; imports are not counted, the C compiler that
measures the code is. A network that takes more than the limit of seconds is given up.
"""

import resource
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from _common import compile_timed, measured_apart, sizes_of, table
from cortado.base.codec import to_json

DEFAULT = (
    "heads:64,heads:128,inputs:300,pyramid:8,residual:100,residual:400,dense:16,dense:32,linear:100,convolution:100,"
    "lags:32,lags:64,scan:12,scan:24"
)


class Heads(nn.Module):
    """Two-layer branches side by side on one trunk, each with an output of its own."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.trunk = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1)) for _ in range(count)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        shared = torch.relu(self.trunk(x))
        return tuple(head(shared) for head in self.heads)


class Inputs(nn.Module):
    """A linear layer for each of many inputs, their results added up."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(count))

    def forward(self, *inputs: Tensor) -> Tensor:
        values = [torch.relu(layer(x)) for layer, x in zip(self.layers, inputs, strict=True)]
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total


class Pyramid(nn.Module):
    """ESPNet's block: dilated branches, each added to the one before it, all of them concatenated."""

    def __init__(self, channels: int, branches: int = 5) -> None:
        super().__init__()
        width = channels // branches
        self.reduce = nn.Conv2d(channels, width, 1)
        self.branches = nn.ModuleList(nn.Conv2d(width, width, 3, padding=2**k, dilation=2**k) for k in range(branches))

    def forward(self, x: Tensor) -> Tensor:
        reduced = self.reduce(x)
        parts = [branch(reduced) for branch in self.branches]
        sums = [parts[0]]
        for part in parts[1:]:
            sums.append(sums[-1] + part)
        return torch.relu(x + torch.cat(sums, 1))


class Residual(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.second(torch.relu(self.first(x))))


class Dense(nn.Module):
    """Each layer reads all that were made before it, concatenated."""

    def __init__(self, channels: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(channels * (i + 1), channels, 1) for i in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, torch.relu(layer(x))], 1)
        return x


class Lags(nn.Module):
    """An autocorrelation written as a loop over its lags."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Tensor) -> Tensor:
        width = x.shape[-1]
        found = [(x[..., : width - lag] * x[..., lag:]).mean(-1) for lag in range(self.count)]
        return torch.stack(found, -1)


class Scan(nn.Module):
    """A selective scan written as a loop over its steps: decay, input and output depend on the step's own values."""

    def __init__(self, count: int, width: int = 16, states: int = 8) -> None:
        super().__init__()
        self.count = count
        self.rates = nn.Parameter(-torch.rand(width, states) - 0.1)
        self.steps = nn.Linear(width, width)
        self.into = nn.Linear(width, states)
        self.out = nn.Linear(width, states)

    def forward(self, x: Tensor) -> Tensor:
        step = nn.functional.softplus(self.steps(x))
        decay = torch.exp(step[..., None] * self.rates)
        taken = (step * x)[..., None] * self.into(x)[..., None, :]
        read = self.out(x)
        state, found = taken[:, 0], []
        for k in range(self.count):
            state = decay[:, k] * state + taken[:, k]
            found.append((state * read[:, k, None, :]).sum(-1))
        return torch.stack(found, 1)


def heads(size: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Heads(size), (torch.randn(1, 3, 32, 32),)


def inputs(size: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Inputs(size), tuple(torch.randn(1, 8) for _ in range(size))


def pyramid(size: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    stem = nn.Conv2d(3, 20, 3, stride=2, padding=1)
    return nn.Sequential(stem, *(Pyramid(20) for _ in range(size))), (torch.randn(1, 3, 64, 64),)


def residual(size: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    stem = nn.Conv2d(3, 8, 3, padding=1)
    return nn.Sequential(stem, *(Residual(8) for _ in range(size // 2))), (torch.randn(1, 3, 16, 16),)


def dense(size: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), Dense(4, size)), (torch.randn(1, 3, 16, 16),)


def linear(size: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """`size` million weights."""
    return nn.Sequential(*(nn.Linear(5000, 5000) for _ in range(size // 25))), (torch.randn(1, 5000),)


def convolution(size: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """`size` million weights, about."""
    return nn.Sequential(*(nn.Conv2d(1664, 1664, 3, padding=1) for _ in range(size // 25))), (
        torch.randn(1, 1664, 2, 2),
    )


def lags(size: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Lags(size), (torch.randn(1, 1, 128),)


def scan(size: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Scan(size), (torch.randn(1, size, 16),)


FAMILIES: Mapping[str, Callable[[int], tuple[nn.Module, tuple[Tensor, ...]]]] = {
    family.__name__: family for family in (heads, inputs, pyramid, residual, dense, linear, convolution, lags, scan)
}


def measure(spec: str, target: str) -> dict[str, Any]:
    family, _, size = spec.partition(":")

    def build() -> tuple[nn.Module, tuple[Tensor, ...], list[tuple[Tensor, ...]]]:
        torch.manual_seed(0)
        module, example = FAMILIES[family](int(size))
        return module.eval(), example, [example]

    compiled, took = compile_timed(family, target, build)
    memory, _ = sizes_of(compiled)
    return {
        "network": spec,
        **took,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "arena_bytes": memory.arena_bytes,
        "optimal": memory.optimal,
        "search": to_json(memory.search),
    }


def main() -> None:
    results = measured_apart(__doc__, DEFAULT, "cortex-m4", measure)
    phases = list(dict.fromkeys(phase for result in results for phase in result["phases"]))
    header = ["network", "CPU s", *phases, "MB", "arena", "proven"]
    rows = [
        [r["network"], r["seconds"], *(r["phases"].get(p) for p in phases)]
        + [r.get("megabytes"), r.get("arena_bytes"), {None: None, True: "yes", False: "no"}[r.get("optimal")]]
        for r in results
    ]
    print(table(header, rows))


if __name__ == "__main__":
    main()
