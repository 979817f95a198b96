"""The task of docs/tutorial.md: four gestures by the three axes of an accelerometer."""

import functools

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

NAMES = ["still", "shake", "circle", "tap"]


@functools.cache
def recordings(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Made-up recordings: three axes, 64 samples each (0.64 s), in g; and their gestures."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(len(NAMES), size=count)
    data = rng.normal(0, 0.08, (count, 3, 64))
    data[:, 2] += 1.0  # gravity
    for x, label in zip(data, labels, strict=True):
        angle = rng.uniform(0.2, 0.4) * np.arange(64) + rng.uniform(0, 6.28)
        size = rng.uniform(0.6, 1.4)
        if label == 1:
            x[rng.integers(3)] += size * np.sin(angle)
        elif label == 2:
            x[0] += size * np.cos(angle)
            x[1] += size * np.sin(angle)
        elif label == 3:
            x[2, rng.integers(8, 56)] += 3 * size
    return torch.from_numpy(data.astype(np.float32)), torch.from_numpy(labels)


def tutorial() -> nn.Module:
    """The network that the tutorial trains."""
    return nn.Sequential(
        *(nn.Conv1d(3, 16, 5, stride=2, padding=2), nn.BatchNorm1d(16), nn.ReLU()),
        *(nn.Conv1d(16, 32, 5, stride=2, padding=2), nn.BatchNorm1d(32), nn.ReLU()),
        *(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, len(NAMES))),
    )


def train(model: nn.Module, steps: int = 200) -> None:
    """As the tutorial does."""
    torch.manual_seed(0)
    data, labels = recordings(2000, seed=1)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    model.train()
    for _ in range(steps):
        chosen = torch.randint(len(data), (64,))
        optimizer.zero_grad()
        F.cross_entropy(model(data[chosen]), labels[chosen]).backward()
        optimizer.step()
    model.eval()


def accuracy(model: nn.Module, seed: int = 4) -> float:
    """On recordings that no training has seen: of one seed for a search, of another for what it found."""
    data, labels = recordings(4000, seed)
    with torch.no_grad():
        return float((model(data).argmax(1) == labels).float().mean())
