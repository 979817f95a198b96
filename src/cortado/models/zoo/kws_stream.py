"""Keyword spotting as sound arrives: every layer looks back in time only, so that each new frame costs a row of each.

A second is 49 frames of 10 MFCC features, as for ds_cnn; no convolution is padded in time. Compiled with
`--stream` one frame of 20 ms goes in, and the scores of the second that ends there come out.
"""

from torch import Tensor, nn

from cortado.models.zoo._definition import Definition
from cortado.models.zoo.ds_cnn import LABELS
from cortado.models.zoo.mfcc import COEFFICIENTS, FRAMES, mfcc

WIDTH, BLOCKS = 48, 4
STEM, TAPS = 4, 5  # frames that the first layer sees, and that each block does
KEPT = FRAMES - (STEM - 1) - BLOCKS * (TAPS - 1)  # rows that are left for the average


def _norm_relu() -> list[nn.Module]:
    return [nn.BatchNorm2d(WIDTH), nn.ReLU()]


class KwsStream(nn.Module):
    """One pixel wide: the features of a frame are seen by the first layer at once."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, WIDTH, (STEM, COEFFICIENTS), bias=False), *_norm_relu())
        self.blocks = nn.Sequential(
            *[
                layer
                for _ in range(BLOCKS)
                for layer in (
                    nn.Conv2d(WIDTH, WIDTH, (TAPS, 1), groups=WIDTH, bias=False),
                    *_norm_relu(),
                    nn.Conv2d(WIDTH, WIDTH, 1, bias=False),
                    *_norm_relu(),
                )
            ]
        )
        self.pool = nn.AvgPool2d((KEPT, 1))
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(WIDTH, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.blocks(self.stem(x)))
        scores: Tensor = self.classifier(self.dropout(x.flatten(1)))
        return scores


DEFINITION = Definition(create=KwsStream, input_shape=(1, 1, FRAMES, COEFFICIENTS), labels=LABELS, hear=mfcc)
