"""A classifier of points around three corners, trained when it is loaded, and points to score it on."""

import torch
from torch import Tensor, nn
from torch.nn import functional

CENTERS = torch.tensor([[2.0, 0.0, 0.0, 1.0], [0.0, 2.0, 1.0, 0.0], [-2.0, -1.0, 0.0, 0.0]])


def points(count: int, seed: int) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, len(CENTERS), (count,), generator=rng)
    return CENTERS[labels] + torch.randn(count, 4, generator=rng), labels


def train(outputs: int = 3) -> nn.Module:
    """With one output, a score of the last class."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, outputs))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    x, labels = points(256, seed=0)
    for _ in range(60):
        optimizer.zero_grad()
        scores = model(x)
        last = (labels == 2).float()
        loss = (
            functional.cross_entropy(scores, labels)
            if outputs > 1
            else functional.binary_cross_entropy_with_logits(scores[:, 0], last)
        )
        loss.backward()
        optimizer.step()
    return model.eval()


def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return train(), (points(1, seed=1)[0],)


def calibration() -> list[tuple[Tensor, ...]]:
    return [(value,) for value in points(64, seed=0)[0].split(1)]
