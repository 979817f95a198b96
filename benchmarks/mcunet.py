"""The shape of MCUNet-vww1 (80 x 80 pixels, person or none), with weights that are random."""

import torch
from torch import nn

# Each block: kernel, stride, channels within, channels out; a block whose input and output are alike has a shortcut.
BLOCKS = (
    (3, 2, 48, 16), (3, 1, 48, 16), (3, 1, 48, 16),
    (7, 2, 48, 24), (3, 1, 144, 24), (5, 1, 120, 24),
    (7, 2, 144, 40), (7, 1, 240, 40),
    (3, 1, 240, 48), (3, 1, 192, 48),
    (5, 2, 240, 96), (3, 1, 480, 96), (3, 1, 384, 96),
    (7, 1, 288, 160),
)  # fmt: skip


def _convolution(inner: int, outer: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    layer = nn.Conv2d(inner, outer, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [layer, nn.BatchNorm2d(outer)]


class Block(nn.Module):
    """An inverted bottleneck."""

    def __init__(self, inner: int, kernel: int, stride: int, within: int, outer: int) -> None:
        super().__init__()
        self.shortcut = stride == 1 and inner == outer
        self.layers = nn.Sequential(
            *_convolution(inner, within), nn.ReLU6(),
            *_convolution(within, within, kernel, stride, within), nn.ReLU6(),
            *_convolution(within, outer),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.layers(x)
        return x + made if self.shortcut else made


class Mcunet(nn.Module):
    """A first layer, blocks, the mean of all pixels, two classes."""

    def __init__(self) -> None:
        super().__init__()
        layers = [*_convolution(3, 16, 3, 2), nn.ReLU6(), *_convolution(16, 16, 3, 1, 16), nn.ReLU6()]
        layers += _convolution(16, 8)
        inner = 8
        for kernel, stride, within, outer in BLOCKS:
            layers.append(Block(inner, kernel, stride, within, outer))
            inner = outer
        self.features = nn.Sequential(*layers)
        self.classes = nn.Linear(inner, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classes(self.features(x).mean(dim=(2, 3)))
