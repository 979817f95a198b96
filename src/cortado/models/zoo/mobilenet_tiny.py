"""A very narrow MobileNet: 28x28 grey pictures in, ten kinds of clothing out. So few channels that int8 shows."""

from torch import Tensor, nn

from cortado.models.zoo._definition import Definition

# Fashion-MNIST's classes.
LABELS = ("t-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
STEM = 6
# Output width and stride of each separable block.
BLOCKS = ((12, 1), (16, 2), (16, 1), (24, 2), (32, 1))


def _separable(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """A depthwise 3x3, then a pointwise convolution, each with batch norm and ReLU6."""
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, stride, padding=1, groups=inputs, bias=False),
        nn.BatchNorm2d(inputs),
        nn.ReLU6(),
        nn.Conv2d(inputs, outputs, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )


class MobileNetTiny(nn.Module):
    """A strided stem, five separable blocks, a global average pool."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, STEM, 3, 2, padding=1, bias=False), nn.BatchNorm2d(STEM), nn.ReLU6())
        blocks, width = [], STEM
        for outputs, stride in BLOCKS:
            blocks.append(_separable(width, outputs, stride))
            width = outputs
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(width, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.blocks(self.stem(x)))
        scores: Tensor = self.classifier(x.flatten(1))
        return scores


DEFINITION = Definition(create=MobileNetTiny, input_shape=(1, 1, 28, 28), labels=LABELS)
