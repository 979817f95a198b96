"""Keyword spotting with a recurrent layer: a GRU reads the 49 frames of a second, and its last state is classified."""

from torch import Tensor, nn

from cortado.models.zoo._definition import Definition
from cortado.models.zoo.ds_cnn import LABELS
from cortado.models.zoo.mfcc import COEFFICIENTS, FRAMES, mfcc

UNITS = 48


class KwsGru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(COEFFICIENTS, UNITS, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(UNITS, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.gru(x.squeeze(1))
        scores: Tensor = self.classifier(self.dropout(states[:, -1]))
        return scores


DEFINITION = Definition(create=KwsGru, input_shape=(1, 1, FRAMES, COEFFICIENTS), labels=LABELS, hear=mfcc)
