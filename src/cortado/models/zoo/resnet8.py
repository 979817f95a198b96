"""ResNet-8, MLPerf Tiny's image classification network: 32x32 colour pictures in, ten kinds of clothing out.

There is no CIFAR-10 to be had without a download, so it was trained on Fashion-MNIST.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from cortado.models.zoo._definition import Definition
from cortado.models.zoo.mobilenet_tiny import LABELS


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


DEFINITION = Definition(create=ResNet8, input_shape=(1, 3, 32, 32), labels=LABELS, form=as_colour)
