"""MobileNetV1 at a quarter of its width, MLPerf Tiny's visual wake words network: is a person in the picture?

MobileNetV2 at width 1.0 (Sandler et al., 2018): 224x224 colour pictures in, 1000 ImageNet scores out.

MobileNetV3-Small at width 1.0 (Howard et al., 2019): 224x224 colour pictures in, 1000 ImageNet scores out.

A very narrow MobileNet: 28x28 grey pictures in, ten kinds of clothing out. So few channels that int8 shows.

MobileNetV1 at a quarter of its width again, trained on Fashion-MNIST and pruned: the filters of many channels are zero.
"""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from cortado.models.zoo._definition import Definition, normal, uniform

# ---- mobilenet v1 025 ------------------------------------------------------------------------------------

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

    def __init__(self, classes: int = len(LABELS)) -> None:
        super().__init__()
        width = 8
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        blocks = []
        for outputs, stride in BLOCKS:
            blocks.append(_separable(width, outputs, stride))
            width = outputs
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AvgPool2d(3)
        self.classifier = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.blocks(self.stem(x)))
        scores: Tensor = self.classifier(x.flatten(1))
        return scores


MOBILENET_V1_025 = Definition(create=MobileNetV1, input_shape=(1, 3, 96, 96), draw=uniform, labels=LABELS)


# ---- mobilenet v2 ----------------------------------------------------------------------------------------

CLASSES = 1000
LAST_WIDTH = 1280
# Expansion, output width, blocks, stride of the first block: the paper's table 2.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project without activation; a skip where the shape stays."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        expand = [_conv(inputs, hidden, 1)] if expansion != 1 else []
        self.body = nn.Sequential(
            *expand,
            _conv(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.residual else y


class MobileNetV2(nn.Module):
    """A strided stem, seventeen inverted residuals, a wide 1x1 convolution, a global average pool."""

    def __init__(self) -> None:
        super().__init__()
        width = 32
        layers: list[nn.Module] = [_conv(3, width, 3, 2)]
        for expansion, outputs, blocks, first_stride in STAGES:
            for block in range(blocks):
                stride = first_stride if block == 0 else 1
                layers.append(InvertedResidual(width, outputs, expansion, stride))
                width = outputs
        self.features = nn.Sequential(*layers, _conv(width, LAST_WIDTH, 1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(LAST_WIDTH, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.features(x))
        scores: Tensor = self.classifier(x.flatten(1))
        return scores


MOBILENET_V2 = Definition(create=MobileNetV2, input_shape=(1, 3, 224, 224), draw=normal, statistics_batch=4)


# ---- mobilenet v3 small ----------------------------------------------------------------------------------

V3_LAST_WIDTH = 576
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
        self.features = nn.Sequential(*layers, *_conv_norm(width, V3_LAST_WIDTH, 1), nn.Hardswish())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(V3_LAST_WIDTH, HEAD_WIDTH),
            nn.Hardswish(),
            nn.Dropout(0.2),
            nn.Linear(HEAD_WIDTH, CLASSES),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.features(x))
        scores: Tensor = self.classifier(x.flatten(1))
        return scores


MOBILENET_V3_SMALL = Definition(create=MobileNetV3Small, input_shape=(1, 3, 224, 224), draw=normal, statistics_batch=8)


# ---- mobilenet tiny --------------------------------------------------------------------------------------

# Fashion-MNIST's classes.
FASHION_LABELS = ("t-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
STEM = 6
# Output width and stride of each separable block.
TINY_BLOCKS = ((12, 1), (16, 2), (16, 1), (24, 2), (32, 1))


def _tiny_separable(inputs: int, outputs: int, stride: int) -> nn.Sequential:
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
        for outputs, stride in TINY_BLOCKS:
            blocks.append(_tiny_separable(width, outputs, stride))
            width = outputs
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(width, len(FASHION_LABELS))

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.blocks(self.stem(x)))
        scores: Tensor = self.classifier(x.flatten(1))
        return scores


MOBILENET_TINY = Definition(create=MobileNetTiny, input_shape=(1, 1, 28, 28), labels=FASHION_LABELS)


# ---- mobilenet v1, pruned --------------------------------------------------------------------------------

ENLARGED, BORDER = 3, 6  # 28 pixels as 84, and around them as many as 96 need


def as_large_colour(pictures: Tensor) -> Tensor:
    """28x28 grey pictures at three times the size with a black border, in three channels that are the same."""
    large = F.interpolate(pictures, scale_factor=ENLARGED, mode="nearest")
    return F.pad(large, [BORDER] * 4, value=-1.0).repeat(1, 3, 1, 1)


def mobilenet_v1_of_clothes() -> MobileNetV1:
    """The network of the visual wake words with a class for each kind of clothing."""
    return MobileNetV1(len(FASHION_LABELS))


MOBILENET_V1_PRUNED = Definition(
    create=mobilenet_v1_of_clothes, input_shape=(1, 3, 96, 96), labels=FASHION_LABELS, form=as_large_colour
)
