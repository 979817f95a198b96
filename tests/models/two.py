"""Two inputs, two outputs; the class, not an instance, is the model."""

import torch
from torch import Tensor, nn


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.left = nn.Linear(6, 4)
        self.right = nn.Conv2d(2, 3, 3)

    def forward(self, vector: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
        return self.left(vector), torch.relu(self.right(image))


ModelUnderTest = Two
ModelInputs = [torch.zeros(1, 6), torch.zeros(1, 2, 5, 7)]


def batches(count: int = 4) -> list[tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(2)
    return [tuple(torch.randn(x.shape, generator=generator) for x in ModelInputs) for _ in range(count)]
