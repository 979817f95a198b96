"""A heartbeat classifier of 1-D convolutions: one second of one ECG lead at 360 Hz in, five beat classes out."""

from torch import Tensor, nn

from cortado.models.zoo._definition import Definition

SAMPLES = 360
# The five classes of the AAMI EC57 standard.
LABELS = ("normal", "supraventricular ectopic", "ventricular ectopic", "fusion", "unknown")


class EcgBlock(nn.Module):
    """Two convolutions beside a skip, which is a 1-wide convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(inputs, outputs, 5, stride, padding=2, bias=False),
            nn.BatchNorm1d(outputs),
            nn.ReLU(),
            nn.Conv1d(outputs, outputs, 5, padding=2, bias=False),
            nn.BatchNorm1d(outputs),
        )
        self.skip: nn.Module = nn.Identity()
        if inputs != outputs or stride != 1:
            self.skip = nn.Sequential(nn.Conv1d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm1d(outputs))
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.body(x) + self.skip(x))
        return y


class EcgConv1d(nn.Module):
    """A strided stem with a max-pool, three residual blocks, a pool over time."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv1d(1, 16, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.MaxPool1d(3, stride=2, padding=1),
        )
        self.blocks = nn.Sequential(EcgBlock(16, 16, 1), EcgBlock(16, 32, 2), EcgBlock(32, 64, 2))
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.classifier = nn.Linear(64, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.blocks(self.stem(x)))
        scores: Tensor = self.classifier(x.flatten(1))
        return scores


DEFINITION = Definition(create=EcgConv1d, input_shape=(1, 1, SAMPLES), labels=LABELS)
