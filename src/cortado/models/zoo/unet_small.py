"""A small U-Net: 64x64 colour pictures in, a score of background and of object for every pixel out."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cortado.models.zoo._definition import Definition

CLASSES = 2


def draw_pictures(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Soft patches of colour with grain, in [-1, 1]: neighbouring pixels are alike, as in a photograph."""
    batch, channels, height, width = shape
    patches = torch.rand(batch, channels, 6, 6, generator=generator, dtype=torch.float32) * 2 - 1
    smooth = F.interpolate(patches, (height, width), mode="bilinear", align_corners=True)
    grain = 0.1 * torch.randn(shape, generator=generator, dtype=torch.float32)
    return (smooth + grain).clamp(-1, 1)


def _double(inputs: int, outputs: int) -> nn.Sequential:
    """Two 3x3 convolutions, each with batch norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class UNetSmall(nn.Module):
    """Two levels down and up; one goes up by a transposed convolution, one by repeating pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.encode1 = _double(3, 16)
        self.encode2 = _double(16, 32)
        self.bottom = _double(32, 64)
        self.pool = nn.MaxPool2d(2)
        # A kernel of twice the stride: every output pixel sums the same number of taps, so no checkerboard.
        self.up2 = nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1)
        self.decode2 = _double(64, 32)
        self.up1 = nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(32, 16, 1))
        self.decode1 = _double(32, 16)
        self.score = nn.Conv2d(16, CLASSES, 1)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.encode1(x)
        coarse = self.encode2(self.pool(fine))
        deepest = self.bottom(self.pool(coarse))
        y = self.decode2(torch.cat([self.up2(deepest), coarse], dim=1))
        y = self.decode1(torch.cat([self.up1(y), fine], dim=1))
        scores: Tensor = self.score(y)
        return scores


DEFINITION = Definition(create=UNetSmall, input_shape=(1, 3, 64, 64), draw=draw_pictures, statistics_batch=8)
