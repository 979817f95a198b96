"""A model with something that has no integer operator."""

import torch
from torch import Tensor, nn


class Unsupported(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cumprod(self.linear(x), 1)


ModelUnderTest = Unsupported()
ModelInputs = torch.zeros(1, 6)
