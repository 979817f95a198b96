"""A network whose weights, inputs and activations are exact in float32: the same numbers on every machine."""

import torch
from torch import Tensor, nn
from torch.nn import functional


def dyadic(*shape: int, unit: float) -> Tensor:
    """Multiples of a power of two, all different enough: sums of their products don't round."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 37) % 31 - 15).reshape(shape) * unit


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2))
        self.classifier = nn.Linear(36, 3)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(dyadic(*parameter.shape, unit=2.0**-6))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.features(x).flatten(1))
        return scores


def sample(seed: int) -> Tensor:
    return torch.randint(-16, 17, (1, 1, 6, 6), generator=torch.Generator().manual_seed(seed)) * 2.0**-4


def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Tiny(), (sample(0),)


def calibration() -> list[tuple[Tensor, ...]]:
    return [(sample(seed),) for seed in range(8)]


ModelUnderTest, ModelInputs = make()


class Thinned(nn.Module):
    """A layer half of whose filters are zero."""

    weight: Tensor

    def __init__(self, groups: int = 1) -> None:
        super().__init__()
        kept = torch.tensor([1.0, 0.0] * 4).reshape(8, 1, 1, 1)
        self.register_buffer("weight", dyadic(8, 2 // groups, 1, 1, unit=2.0**-6) * kept)
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.weight, groups=self.groups)
