"""A small data set like that of handwritten digits, drawn from a seed, and a network trained on it in seconds."""

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

CLASSES, SIZE = 10, 8


@dataclass(frozen=True)
class Digits:
    """Images and their classes; `test` has labels of its own."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    labels: Tensor


def _draw(shapes: Tensor, count: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Each image is its class's shape, moved by a pixel at most, in its own brightness, with noise."""
    labels = torch.randint(0, CLASSES, (count,), generator=rng)
    moves = torch.randint(-1, 2, (count, 2), generator=rng)
    moved = [torch.roll(shapes[label], move.tolist(), (1, 2)) for label, move in zip(labels, moves, strict=True)]
    brightness = 0.6 + 0.8 * torch.rand(count, 1, 1, 1, generator=rng)
    return torch.stack(moved) * brightness + 0.25 * torch.randn(count, 1, SIZE, SIZE, generator=rng), labels


@cache
def digits(count: int = 1000) -> Digits:
    rng = torch.Generator().manual_seed(5)
    coarse = torch.randint(0, 2, (CLASSES, 1, 4, 4), generator=rng).float()
    shapes = nn.functional.interpolate(coarse, size=(SIZE, SIZE), mode="bilinear")
    return Digits(*_draw(shapes, 1500, rng), *_draw(shapes, count, rng))


def network() -> nn.Sequential:
    """Convolutions with batch norms, a pool, a classifier."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, CLASSES),
    )


def train(model: nn.Module, epochs: int, rate: float = 3e-3) -> None:
    """The loop that users write."""
    data = digits()
    order = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(epochs):
        for batch in torch.randperm(len(data.train), generator=order).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(data.train[batch]), data.train_labels[batch]).backward()
            optimizer.step()


def accuracy(model: nn.Module) -> float:
    data = digits()
    with torch.no_grad():
        return float((model(data.test).argmax(1) == data.labels).double().mean())


@cache
def trained() -> nn.Sequential:
    model = network()
    train(model, 3)
    return model.eval()
