"""MLPerf Tiny's visual wake words network as TensorFlow pads it, with random weights, and dead channels as in its own.

Its reference weights (vww_96_float.tflite of mlcommons/tiny) have many filters that are as good as zero. BLOCKS counts
those below a thousandth of their layer's largest weight.
"""

import torch
from torch import nn
from torch.nn import functional as F

# Of each separable block: channels out, stride, and how many of these channels are dead.
BLOCKS = (
    (16, 1, 0), (32, 2, 0), (32, 1, 0), (64, 2, 0), (64, 1, 4), (128, 2, 21),
    (128, 1, 71), (128, 1, 98), (128, 1, 109), (128, 1, 109), (128, 1, 101),
    (256, 2, 224), (256, 1, 234),
)  # fmt: skip


@torch.no_grad()
def draw(layer: nn.Conv2d, dead: int) -> None:
    """Weights that keep the signal's size through ReLU, and some filters of zeros."""
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    layer.weight[torch.randperm(layer.out_channels)[:dead]] = 0.0


class Convolution(nn.Module):
    """A folded convolution and its ReLU; with a stride of two the border is on the lower right alone."""

    def __init__(self, inner: int, outer: int, kernel: int, stride: int = 1, groups: int = 1, dead: int = 0) -> None:
        super().__init__()
        self.border = (0, 1, 0, 1) if stride == 2 else ()
        self.layer = nn.Conv2d(inner, outer, kernel, stride, 0 if self.border else kernel // 2, groups=groups)
        draw(self.layer, dead)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = torch.relu(self.layer(F.pad(x, self.border) if self.border else x))
        return made


class VisualWakeWords(nn.Module):
    """A first layer, separable blocks, the mean of the last 3x3, two classes."""

    def __init__(self) -> None:
        super().__init__()
        layers, inner = [Convolution(3, 8, 3, 2)], 8
        for outer, stride, dead in BLOCKS:
            layers += [Convolution(inner, inner, 3, stride, inner), Convolution(inner, outer, 1, dead=dead)]
            inner = outer
        self.layers = nn.Sequential(*layers)
        self.classes = nn.Linear(inner, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.classes(F.avg_pool2d(self.layers(x), 3).flatten(1))
        return scores
