"""MobileNetV2 at width 1.0 (Sandler et al., 2018): 224x224 colour pictures in, 1000 ImageNet scores out."""

from torch import Tensor, nn

from cortado.models.zoo._definition import Definition, normal

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


DEFINITION = Definition(create=MobileNetV2, input_shape=(1, 3, 224, 224), draw=normal, statistics_batch=4)
