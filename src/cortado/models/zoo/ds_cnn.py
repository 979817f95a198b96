"""DS-CNN, MLPerf Tiny's keyword spotting network: 49 frames of 10 MFCC features in, 12 keyword scores out."""

from torch import Tensor, nn

from cortado.models.zoo._definition import Definition
from cortado.models.zoo.mfcc import mfcc

WIDTH = 64
LABELS = ("down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes", "silence", "unknown")


def _separable() -> list[nn.Module]:
    """A depthwise 3x3, then a pointwise convolution, each with batch norm and ReLU."""
    return [
        nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH, bias=False),
        nn.BatchNorm2d(WIDTH),
        nn.ReLU(),
        nn.Conv2d(WIDTH, WIDTH, 1, bias=False),
        nn.BatchNorm2d(WIDTH),
        nn.ReLU(),
    ]


class DsCnn(nn.Module):
    """A 10x4 stem over time and features, four separable blocks, a pool over (almost) everything."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, WIDTH, (10, 4), stride=2, padding=(5, 1), bias=False),
            nn.BatchNorm2d(WIDTH),
            nn.ReLU(),
            nn.Dropout(0.2),
        )
        self.blocks = nn.Sequential(*[layer for _ in range(4) for layer in _separable()])
        self.dropout = nn.Dropout(0.4)
        # The features are 25 rows high here: the last one is outside the pool, as in the original.
        self.pool = nn.AvgPool2d((24, 5))
        self.classifier = nn.Linear(WIDTH, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        x = self.dropout(self.blocks(self.stem(x)))
        scores: Tensor = self.classifier(self.pool(x).flatten(1))
        return scores


DEFINITION = Definition(create=DsCnn, input_shape=(1, 1, 49, 10), labels=LABELS, hear=mfcc)
