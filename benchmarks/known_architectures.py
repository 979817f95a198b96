"""Architectures that people know by name, in sizes for microcontrollers, with random weights: what of them is taken."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Architecture:
    """A network by name, and the shape of its input."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]


def conv(inner: int, outer: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    layer = nn.Conv2d(inner, outer, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outer), nn.ReLU(inplace=True))


def classifier(body: nn.Module, width: int, classes: int = 10) -> nn.Module:
    return nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


class Fire(nn.Module):
    """SqueezeNet's block."""

    def __init__(self, inner: int, squeezed: int, outer: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inner, squeezed, 1)
        self.one, self.three = nn.Conv2d(squeezed, outer, 1), nn.Conv2d(squeezed, outer, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.one(x)), F.relu(self.three(x))], 1)


def squeezenet() -> nn.Module:
    """Version 1.1."""
    blocks: list[nn.Module] = [nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)]
    shapes = [(64, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128), (256, 48, 192), (384, 48, 192)]
    for number, (inner, squeezed, outer) in enumerate(shapes):
        blocks.append(Fire(inner, squeezed, outer))
        if number in (1, 3):
            blocks.append(nn.MaxPool2d(3, 2, ceil_mode=True))
    return nn.Sequential(*blocks, nn.Conv2d(384, 10, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Shuffled(nn.Module):
    """ShuffleNet V2's block of stride 1: half of the channels pass by, then both halves are interleaved."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.branch = nn.Sequential(conv(half, half, 1), conv(half, half, 3, groups=half)[:2], conv(half, half, 1))

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=1)
        joined = torch.cat([first, self.branch(second)], 1)
        n, c, h, w = joined.shape
        return joined.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class Downsampled(nn.Module):
    """ShuffleNet V2's block of stride 2."""

    def __init__(self, inner: int, width: int) -> None:
        super().__init__()
        half = width // 2
        self.first = nn.Sequential(conv(inner, inner, 3, 2, inner)[:2], conv(inner, half, 1))
        self.second = nn.Sequential(conv(inner, half, 1), conv(half, half, 3, 2, half)[:2], conv(half, half, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.first(x), self.second(x)], 1)


def shufflenet() -> nn.Module:
    """Version 2, width 0.5."""
    blocks: list[nn.Module] = [conv(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    inner = 24
    for width, count in ((48, 4), (96, 8), (192, 4)):
        blocks += [Downsampled(inner, width), *(Shuffled(width) for _ in range(count - 1))]
        inner = width
    return classifier(nn.Sequential(*blocks, conv(192, 512, 1)), 512)


class Inverted(nn.Module):
    """Wide inside, narrow outside; with a sum where shapes allow it."""

    def __init__(self, inner: int, outer: int, factor: int, kernel: int, stride: int) -> None:
        super().__init__()
        wide = inner * factor
        last = conv(wide, outer, 1)[:2]
        self.block = nn.Sequential(conv(inner, wide, 1), conv(wide, wide, kernel, stride, wide), last)
        self.adds = stride == 1 and inner == outer

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.block(x)
        return x + y if self.adds else y


def mnasnet() -> nn.Module:
    """Width 0.5."""
    blocks: list[nn.Module] = [conv(3, 16, 3, 2), conv(16, 16, 3, 1, 16), conv(16, 8, 1)[:2]]
    inner = 8
    for outer, factor, kernel, stride, count in (
        *((16, 3, 3, 2, 3), (24, 3, 5, 2, 3), (40, 6, 5, 2, 3)),
        *((48, 6, 3, 1, 2), (96, 6, 5, 2, 4), (160, 6, 3, 1, 1)),
    ):
        for number in range(count):
            blocks.append(Inverted(inner, outer, factor, kernel, stride if number == 0 else 1))
            inner = outer
    return classifier(nn.Sequential(*blocks, conv(160, 640, 1)), 640)


class Basic(nn.Module):
    """ResNet's block."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.block = nn.Sequential(conv(inner, outer, 3, stride), conv(outer, outer)[:2])
        self.short = nn.Sequential() if inner == outer and stride == 1 else conv(inner, outer, 1, stride)[:2]

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.block(x) + self.short(x))


def resnet18() -> nn.Module:
    """A quarter of its width."""
    blocks: list[nn.Module] = [conv(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inner = 16
    for outer in (16, 32, 64, 128):
        blocks += [Basic(inner, outer, 1 if outer == 16 else 2), Basic(outer, outer, 1)]
        inner = outer
    return classifier(nn.Sequential(*blocks), 128)


class Dense(nn.Module):
    """DenseNet's layer: what it makes stands behind what it was given."""

    def __init__(self, inner: int, growth: int) -> None:
        super().__init__()
        self.layer = nn.Sequential(
            *(nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, 4 * growth, 1, bias=False)),
            *(nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.layer(x)], 1)


def densenet() -> nn.Module:
    """Growth 8, three stages of four layers."""
    blocks: list[nn.Module] = [conv(3, 16, 3, 2)]
    width = 16
    for stage in range(3):
        for _ in range(4):
            blocks.append(Dense(width, 8))
            width += 8
        if stage < 2:
            blocks += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1), nn.AvgPool2d(2)]
            width //= 2
    return classifier(nn.Sequential(*blocks, nn.BatchNorm2d(width), nn.ReLU()), width)


class Next(nn.Module):
    """ConvNeXt's block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, eps=1e-6)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(0.1 * torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.gamma * self.narrow(F.gelu(self.wide(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext() -> nn.Module:
    """40, 80 and 160 channels, two blocks each."""
    blocks: list[nn.Module] = [nn.Conv2d(3, 40, 4, 4), nn.GroupNorm(1, 40)]
    for width in (40, 80, 160):
        blocks += [Next(width), Next(width)]
        if width < 160:
            blocks += [nn.GroupNorm(1, width), nn.Conv2d(width, 2 * width, 2, 2)]
    return classifier(nn.Sequential(*blocks), 160)


class Tokens(nn.Module):
    """Patches of a picture or columns of a spectrum, a class token, encoder layers."""

    def __init__(self, patch: tuple[int, int], channels: int, tokens: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, width, patch, patch)
        self.token, self.places = (
            nn.Parameter(torch.zeros(1, 1, width)),
            nn.Parameter(torch.randn(1, tokens + 1, width)),
        )
        layer = partial(nn.TransformerEncoderLayer, width, heads, 4 * width, activation="gelu", batch_first=True)
        self.layers = nn.Sequential(*(layer(norm_first=True) for _ in range(layers)))
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.layers(x)[:, 0])


class UNet(nn.Module):
    """Two levels."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([conv(3, 8), conv(8, 16), conv(16, 32)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
        self.join, self.out = nn.ModuleList([conv(32, 16), conv(16, 8)]), nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down[0](x)
        second = self.down[1](F.max_pool2d(first, 2))
        x = self.join[0](torch.cat([second, self.up[0](self.down[2](F.max_pool2d(second, 2)))], 1))
        return self.out(self.join[1](torch.cat([first, self.up[1](x)], 1)))


class Causal(nn.Module):
    """A TCN's block."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.before, self.layer = 2 * dilation, nn.Conv1d(width, width, 3, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.relu(self.layer(F.pad(x, (self.before, 0))))


def tcn() -> nn.Module:
    blocks = [Causal(32, 2**level) for level in range(5)]
    return nn.Sequential(nn.Conv1d(9, 32, 1), *blocks, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 6))


class Mixer(nn.Module):
    """MLP-Mixer's block."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.channels = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.first(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.second(x))


class MixerNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.head = nn.Conv2d(3, 64, 8, 8), nn.Linear(64, 10)
        self.blocks = nn.Sequential(*(Mixer(64, 64) for _ in range(4)))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


class Tagger(nn.Module):
    """An LSTM in both directions over embeddings, a label for each word."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(32, 32, bidirectional=True, batch_first=True), nn.Linear(64, 9)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(x)[0])


KNOWN: Mapping[str, Architecture] = {
    "SqueezeNet 1.1": Architecture(squeezenet, (1, 3, 96, 96)),
    "ShuffleNet V2 x0.5": Architecture(shufflenet, (1, 3, 96, 96)),
    "MNASNet 0.5": Architecture(mnasnet, (1, 3, 96, 96)),
    "ResNet-18, a quarter wide": Architecture(resnet18, (1, 3, 96, 96)),
    "DenseNet, growth 8": Architecture(densenet, (1, 3, 64, 64)),
    "ConvNeXt, 40 channels": Architecture(convnext, (1, 3, 64, 64)),
    "ViT, 64 wide, patches of 8": Architecture(partial(Tokens, (8, 8), 3, 64, 64, 4, 4), (1, 3, 64, 64)),
    "MLP-Mixer, 64 wide": Architecture(MixerNet, (1, 3, 64, 64)),
    "Keyword transformer KWT-1": Architecture(partial(Tokens, (40, 1), 1, 98, 64, 4, 1), (1, 1, 40, 98)),
    "U-Net, 8 channels": Architecture(UNet, (1, 3, 48, 48)),
    "TCN, 32 channels": Architecture(tcn, (1, 9, 128)),
    "BiLSTM tagger": Architecture(Tagger, (1, 20, 32)),
}

# Of timm, by its names: small networks of as many families as there are.
TIMM: Mapping[str, tuple[int, ...]] = {
    "mobilenetv3_small_050": (1, 3, 96, 96),
    "lcnet_035": (1, 3, 96, 96),
    "tinynet_e": (1, 3, 96, 96),
    "mobilenetv2_035": (1, 3, 96, 96),
    "mixnet_s": (1, 3, 96, 96),
    "ghostnet_050": (1, 3, 96, 96),
    "semnasnet_050": (1, 3, 96, 96),
    "test_efficientnet": (1, 3, 96, 96),
    "test_resnet": (1, 3, 96, 96),
    "test_convnext": (1, 3, 96, 96),
    "test_vit": (1, 3, 160, 160),
    "test_byobnet": (1, 3, 96, 96),
    "test_nfnet": (1, 3, 96, 96),
    "resnet10t": (1, 3, 96, 96),
    "edgenext_xx_small": (1, 3, 96, 96),
    "mobilevitv2_050": (1, 3, 128, 128),
}
