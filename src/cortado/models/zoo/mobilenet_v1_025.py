"""MobileNetV1 at a quarter of its width, MLPerf Tiny's visual wake words network: is a person in the picture?"""

from torch import Tensor, nn

from cortado.models.zoo._definition import Definition, uniform

LABELS = ("no person", "person")
# Output width and stride of each separable block.
BLOCKS = (
    (16, 1),
    (32, 2),
    (32, 1),
    (64, 2),
    (64, 1),
    (128, 2),
    *[(128, 1)] * 5,
    (256, 2),
    (256, 1),
)


def _separable(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """A depthwise 3x3, then a pointwise convolution, each with batch norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, stride, padding=1, groups=inputs, bias=False),
        nn.BatchNorm2d(inputs),
        nn.ReLU(),
        nn.Conv2d(inputs, outputs, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class MobileNetV1(nn.Module):
    """A strided stem, thirteen separable blocks, an average pool over the last 3x3."""

    def __init__(self) -> None:
        super().__init__()
        width = 8
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        blocks = []
        for outputs, stride in BLOCKS:
            blocks.append(_separable(width, outputs, stride))
            width = outputs
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AvgPool2d(3)
        self.classifier = nn.Linear(width, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.blocks(self.stem(x)))
        scores: Tensor = self.classifier(x.flatten(1))
        return scores


DEFINITION = Definition(create=MobileNetV1, input_shape=(1, 3, 96, 96), draw=uniform, labels=LABELS)
