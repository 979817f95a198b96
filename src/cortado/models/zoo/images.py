"""ResNet-8, MLPerf Tiny's image classification network: 32x32 colour pictures in, ten kinds of clothing out.

There is no CIFAR-10 to be had without a download, so it was trained on Fashion-MNIST.

A small U-Net: 64x64 colour pictures in, a score of background and of object for every pixel out.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cortado.models.zoo._definition import Definition
from cortado.models.zoo.mobilenets import FASHION_LABELS as LABELS

# ---- resnet8 ---------------------------------------------------------------------------------------------


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside a skip, which is a bare 1x1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        same = inputs == outputs and stride == 1
        self.skip = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.body(x) + self.skip(x))
        return y


class ResNet8(nn.Module):
    """A stem, three stages of one block each, a global average pool."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.stages = nn.Sequential(ResidualBlock(16, 16, 1), ResidualBlock(16, 32, 2), ResidualBlock(32, 64, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(64, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.stages(self.stem(x)))
        scores: Tensor = self.classifier(x.flatten(1))
        return scores


def as_colour(pictures: Tensor) -> Tensor:
    """28x28 grey pictures with a black border, in three channels that are the same."""
    return F.pad(pictures, (2, 2, 2, 2), value=-1.0).repeat(1, 3, 1, 1)


RESNET8 = Definition(create=ResNet8, input_shape=(1, 3, 32, 32), labels=LABELS, form=as_colour)


# ---- unet small ------------------------------------------------------------------------------------------

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


UNET_SMALL = Definition(create=UNetSmall, input_shape=(1, 3, 64, 64), draw=draw_pictures, statistics_batch=8)
