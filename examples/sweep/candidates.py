"""Small image classifiers: every width, depth and kernel. Their weights are random, which is all an estimate needs."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import nn

Built = tuple[nn.Module, tuple[torch.Tensor, ...]]


def build(width: int, depth: int, kernel: int) -> Built:
    """One candidate and an example of its input."""
    layers: list[nn.Module] = [nn.Conv2d(1, width, 3, stride=2, padding=1), nn.ReLU()]
    for _ in range(depth):
        layers += [
            nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width),
            nn.ReLU(),
            nn.Conv2d(width, width, 1),
            nn.ReLU(),
        ]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
    torch.manual_seed(0)
    return nn.Sequential(*layers), (torch.rand(1, 1, 28, 28) * 2 - 1,)


def candidates() -> Iterator[tuple[str, Callable[[], Built]]]:
    """A name for each, and what builds it: only when it is its turn."""
    for width in (8, 16, 24, 32):
        for depth in (1, 2, 3):
            for kernel in (3, 5):
                yield f"w{width}-d{depth}-k{kernel}", partial(build, width, depth, kernel)
