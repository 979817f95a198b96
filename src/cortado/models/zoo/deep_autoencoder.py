"""MLPerf Tiny's anomaly detection network: a spectrogram window that it can't rebuild is an unusual sound."""

from itertools import pairwise

from torch import Tensor, nn

from cortado.models.zoo._definition import Definition

# 5 frames of 128 mel bands, squeezed through 8 numbers and unfolded again.
WIDTHS = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)


class DeepAutoencoder(nn.Module):
    """Linear layers, all but the last with batch norm and ReLU."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(WIDTHS[:-1]):
            layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(*WIDTHS[-2:]))

    def forward(self, x: Tensor) -> Tensor:
        rebuilt: Tensor = self.layers(x)
        return rebuilt


DEFINITION = Definition(create=DeepAutoencoder, input_shape=(1, 640))
