"""A heartbeat classifier of 1-D convolutions: one second of one ECG lead at 360 Hz in, five beat classes out.

Activity recognition from two seconds of a wrist's acceleration and rotation: an LSTM over 64 frames of six values.

The motions are made up (`motions`): gravity from any side, a swing of each activity's own pace and size, its harmonics,
turns and noise. The figures say how well a network learned that, and nothing about people.
"""

import math

import torch
from torch import Tensor, nn

from cortado.models.zoo._definition import Definition
from cortado.models.zoo._trained import ZooSamples

# ---- ecg conv1d ------------------------------------------------------------------------------------------

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


ECG_CONV1D = Definition(create=EcgConv1d, input_shape=(1, 1, SAMPLES), labels=LABELS)


# ---- imu lstm --------------------------------------------------------------------------------------------

FRAMES, AXES, RATE = 64, 6, 32
UNITS = 32
MOTION_LABELS = ("resting", "walking", "running", "climbing stairs", "cycling", "shaking")
CALIBRATION_SAMPLES, TEST_SAMPLES = 100, 224
TRAIN_SEED, TEST_SEED = 1, 2

#        pace in Hz   swing in g    second harmonic   turning in rad/s
_RECIPES = (
    ((0.1, 0.4), (0.00, 0.05), (0.0, 0.3), (0.0, 0.3)),
    ((1.4, 2.2), (0.15, 0.50), (0.2, 0.6), (0.3, 1.2)),
    ((2.2, 3.4), (0.60, 1.50), (0.2, 0.6), (0.8, 2.5)),
    ((1.0, 1.7), (0.15, 0.55), (0.6, 1.1), (0.3, 1.2)),
    ((1.0, 1.9), (0.05, 0.25), (0.0, 0.2), (0.8, 2.0)),
    ((3.0, 5.5), (0.50, 1.60), (0.0, 0.3), (1.5, 4.0)),
)


def _directions(count: int, generator: torch.Generator) -> Tensor:
    drawn = torch.randn(count, 1, 3, generator=generator)
    return drawn / drawn.norm(dim=2, keepdim=True)


def motions(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Returns (count, FRAMES, AXES) in g and in rad/s, divided by four, and the activities, which are equally
    frequent."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randperm(count, generator=generator) % len(MOTION_LABELS)
    limits = torch.tensor(_RECIPES)[labels]
    drawn = limits[..., 0] + (limits[..., 1] - limits[..., 0]) * torch.rand(count, 4, generator=generator)
    pace, swing, second, turning = (drawn[:, i, None, None] for i in range(4))
    phase = 2 * math.pi * torch.rand(count, 3, 1, 1, generator=generator)
    angle = 2 * math.pi * pace * torch.arange(FRAMES)[None, :, None] / RATE
    up, along, axis = (_directions(count, generator) for _ in range(3))
    sway = torch.sin(angle + phase[:, 0]) + second * torch.sin(2 * angle + phase[:, 1])
    acceleration = up + swing * sway * along + 0.04 * torch.randn(count, FRAMES, 3, generator=generator)
    rotation = turning * torch.sin(angle + phase[:, 2]) * axis
    rotation = rotation + 0.1 * torch.randn(count, FRAMES, 3, generator=generator)
    return torch.cat([acceleration, rotation], 2) / 4, labels


def samples() -> ZooSamples:
    """Generates the samples anew each time: only the weights ship."""
    inputs, labels = motions(TEST_SAMPLES, TEST_SEED)
    return ZooSamples(motions(CALIBRATION_SAMPLES, TRAIN_SEED)[0], inputs, labels)


class ImuLstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(AXES, UNITS, batch_first=True)
        self.classifier = nn.Linear(UNITS, len(MOTION_LABELS))

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        scores: Tensor = self.classifier(states[:, -1])
        return scores


IMU_LSTM = Definition(create=ImuLstm, input_shape=(1, FRAMES, AXES), labels=MOTION_LABELS, samples=samples)
