"""MobileNetV3-Small at width 1.0 (Howard et al., 2019): 224x224 colour pictures in, 1000 ImageNet scores out."""

from dataclasses import dataclass

from torch import Tensor, nn

from cortado.models.zoo._definition import Definition, normal

CLASSES = 1000
LAST_WIDTH = 576
HEAD_WIDTH = 1024


@dataclass(frozen=True)
class BottleneckRow:
    """One line of the paper's table 2."""

    kernel: int
    hidden: int
    outputs: int
    squeeze: bool
    activation: type[nn.Module]
    stride: int


ROWS = (
    BottleneckRow(3, 16, 16, True, nn.ReLU, 2),
    BottleneckRow(3, 72, 24, False, nn.ReLU, 2),
    BottleneckRow(3, 88, 24, False, nn.ReLU, 1),
    BottleneckRow(5, 96, 40, True, nn.Hardswish, 2),
    BottleneckRow(5, 240, 40, True, nn.Hardswish, 1),
    BottleneckRow(5, 240, 40, True, nn.Hardswish, 1),
    BottleneckRow(5, 120, 48, True, nn.Hardswish, 1),
    BottleneckRow(5, 144, 48, True, nn.Hardswish, 1),
    BottleneckRow(5, 288, 96, True, nn.Hardswish, 2),
    BottleneckRow(5, 576, 96, True, nn.Hardswish, 1),
    BottleneckRow(5, 576, 96, True, nn.Hardswish, 1),
)


def _conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, eps=0.001),
    ]


def _squeeze_width(channels: int) -> int:
    """A quarter of the channels, to the nearest multiple of 8 that isn't more than a tenth smaller."""
    quarter = channels // 4
    width = max(8, (quarter + 4) // 8 * 8)
    return width if width >= 0.9 * quarter else width + 8


class SqueezeExcite(nn.Module):
    """Scales every channel by a factor in [0, 1] computed from all channels' averages."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = _squeeze_width(channels)
        self.factors = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.ReLU(),
            nn.Conv2d(squeezed, channels, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.factors(x) * x
        return y


class BottleneckBlock(nn.Module):
    """Expand, filter each channel, perhaps squeeze and excite, project; a skip where the shape stays."""

    def __init__(self, inputs: int, row: BottleneckRow) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        if row.hidden != inputs:
            layers += [*_conv_norm(inputs, row.hidden, 1), row.activation()]
        layers += [*_conv_norm(row.hidden, row.hidden, row.kernel, row.stride, row.hidden), row.activation()]
        if row.squeeze:
            layers.append(SqueezeExcite(row.hidden))
        self.body = nn.Sequential(*layers, *_conv_norm(row.hidden, row.outputs, 1))
        self.residual = row.stride == 1 and inputs == row.outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.residual else y


class MobileNetV3Small(nn.Module):
    """A strided stem, eleven blocks, a global average pool, two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        width = 16
        layers: list[nn.Module] = [*_conv_norm(3, width, 3, 2), nn.Hardswish()]
        for row in ROWS:
            layers.append(BottleneckBlock(width, row))
            width = row.outputs
        self.features = nn.Sequential(*layers, *_conv_norm(width, LAST_WIDTH, 1), nn.Hardswish())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(LAST_WIDTH, HEAD_WIDTH),
            nn.Hardswish(),
            nn.Dropout(0.2),
            nn.Linear(HEAD_WIDTH, CLASSES),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.features(x))
        scores: Tensor = self.classifier(x.flatten(1))
        return scores


DEFINITION = Definition(create=MobileNetV3Small, input_shape=(1, 3, 224, 224), draw=normal, statistics_batch=8)
