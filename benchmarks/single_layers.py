"""Random layers of every kind side by side, each with an input of its own: many samples of kernels from one run."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import torch
from torch import nn

from architectures import Attention, Drawn, Squeeze

TOGETHER = 8  # layers of a network
LARGE = 400  # a bias; outputs without one are below 10
WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16, 17, 20, 24, 28, 32, 33, 40, 48, 64, 80)
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Single:
    """A layer, and the shape of its input."""

    layer: nn.Module
    shape: Shape


Kind = Callable[[Random], Single]


class Layers(nn.Module):
    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(layer(x) for layer, x in zip(self.layers, inputs, strict=True))


class Of(nn.Module):
    """A function of one tensor as a layer."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Sequence(nn.Module):
    """All outputs of a recurrent layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.layer(x)[0]
        return outputs


def draw_layers(seed: int) -> Drawn:
    """The same seed gives the same layers, weights included."""
    return _draw(seed, KINDS, TOGETHER)


def draw_wide(seed: int) -> Drawn:
    """Layers with long sums of products: kernels for those that leave 24 bits, and recurrent ones."""
    return _draw(seed, WIDE, TOGETHER // 2)


def draw_rare(seed: int) -> Drawn:
    """Pools, reductions and moves, of which other networks have few."""
    return _draw(seed, (_pool, _pool, _reduced, _moved, _moved, _elements), 2 * TOGETHER)


def draw_windows(seed: int) -> Drawn:
    """Convolutions under windows and depthwise ones, of few and of many channels."""
    return _draw(seed, (_window, _window, _window, _depthwise), 2 * TOGETHER)


def draw_multiplied(seed: int) -> Drawn:
    """Depthwise layers, most with several outputs of each channel."""
    return _draw(seed, (_multiplied,), TOGETHER)


def draw_floats(seed: int) -> Drawn:
    """Those, pointwise and linear layers. Three of four read what a relu leaves, half of it zeros, as in networks:
    without a float unit, products with zeros take less time."""
    drawn = _draw(seed, (_window, _window, _pointwise, _pointwise, _linear, _depthwise), 2 * TOGETHER)
    example = tuple(x if place % 4 == 0 else torch.relu(x) for place, x in enumerate(drawn.example))
    return Drawn(drawn.module, example)


def draw_ordinary(seed: int) -> Drawn:
    """Functions of numbers of ordinary size and of small ones, depthwise layers, half of them with exact weights, and
    what else networks in float32 are made of."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        rng = Random(seed)
        count = rng.randint(20, 200)
        layers = [Single(Of(function), (1, count)) for function in _FUNCTIONS]
        for taps in (3, 5):
            single = _depthwise_of(rng.choice((8, 16, 24)), taps)
            layers += [single, Single(Of(_exact(single.layer)), single.shape)]
        for outer in (1, 1, 1, 2, 4, 5):
            inner = rng.choice(WIDTHS[2:])
            layers.append(Single(nn.Conv2d(inner, outer, 1), _image(rng, inner)))
            layers.append(Single(Of(_unblocked(inner, _width(rng))), _image(rng, inner)))
        for height, width in ((5, 1), (3, 1), (9, 1), (1, 5), (7, 3)):
            layers += _tall(rng, height, width)
        layers += [Single(Of(function), _image(rng, rng.choice((4, 6, 8, 16)))) for function in _OF_IMAGES]
        layers += [
            Single(Of(function), (rng.choice((1, 2)), rng.randint(2, 20), rng.randint(2, 20)))
            for function in (*_OF_ROWS, *_OF_ROWS)
        ]
        example = [torch.rand(one.shape) * 4 - 2 for one in layers]
        for place in range(len(_FUNCTIONS)):
            example[place] *= rng.choice((0.2, 1, 1))
        for place in range(len(_FUNCTIONS), len(layers), 2):  # without a float unit, products with zeros take less time
            example[place] = torch.relu(example[place])
    return Drawn(Layers([one.layer for one in layers]).eval(), tuple(example))


def _pooled(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.avg_pool2d(x, 2)


_OF_IMAGES: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda x: torch.tanh(x) + x,
    lambda x: torch.relu(torch.tanh(x) - x),
    lambda x: torch.sigmoid(x) * x,
    lambda x: x / (x * x + 1.5),
    lambda x: torch.minimum(torch.maximum(x, -x), x + 1),
    lambda x: torch.where(x > 0.1, x, 0.5 - x),
    lambda x: x * x.mean(dim=(2, 3), keepdim=True),
    lambda x: x - x.amax(dim=1, keepdim=True),
    lambda x: x + torch.arange(x.shape[3], dtype=torch.float32),
    nn.functional.hardswish,
    _pooled,
    lambda x: nn.functional.max_pool2d(x, 3, 2, 1),
    lambda x: torch.cumsum(x, dim=2),
)
_OF_ROWS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda x: x @ x.transpose(1, 2),
    lambda x: x.transpose(1, 2) @ x,
    lambda x: x @ x[:, :1].transpose(1, 2),
    lambda x: torch.softmax(x, dim=-1),
    lambda x: torch.log_softmax(x, dim=-1),
    lambda x: (x - x.mean(dim=-1, keepdim=True)) / x.std(dim=-1, keepdim=True),
    lambda x: x.prod(dim=-1) + x.sum(dim=1)[:, :1],
)


_FUNCTIONS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    *(torch.exp, torch.exp2, torch.expm1, torch.sigmoid, torch.tanh, torch.erf, torch.sin, torch.cos, torch.tan),
    *(torch.atan, torch.reciprocal, torch.trunc, torch.floor, torch.ceil, torch.round, torch.abs, torch.neg),
    *(lambda x, f=f: f(x + 2.5) for f in (torch.log, torch.log2, torch.log10, torch.sqrt, torch.rsqrt)),
    *(lambda x, f=f: f(x * 0.49) for f in (torch.asin, torch.acos, torch.log1p)),
    lambda x: (x + 2.5) ** 0.75,
    lambda x: (x + 2.5) ** x,
    lambda x: torch.atan2(x, 0.5 - x),
)


def _depthwise_of(channels: int, taps: int) -> Single:
    layer = nn.Conv2d(channels, channels, taps, padding=taps // 2, groups=channels)
    return Single(layer, (1, channels, 7, 9))


def _exact(layer: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    """The same layer with weights that are no parameters, so that they stay what they are."""
    assert isinstance(layer, nn.Conv2d)
    assert layer.bias is not None
    weight, bias = layer.weight.detach(), layer.bias.detach()
    return lambda x: nn.functional.conv2d(x, weight, bias, padding=layer.padding, groups=layer.groups)


def _tall(rng: Random, height: int, width: int) -> list[Single]:
    """Windows of a shape over few columns, as streams have them: a depthwise layer and a dense one, each with int8
    weights and with exact ones, and a pool."""
    channels, rows, columns = rng.choice((4, 8, 12)), height + rng.randrange(4), width + rng.choice((0, 0, 1, 3))
    depthwise = nn.Conv2d(channels, channels, (height, width), groups=channels)
    dense = nn.Conv2d(rng.choice((1, 2, 3, 8)), rng.choice((8, 16, 20, 48)), (height, width))
    sizes = ((1, channels, rows, columns), (1, dense.in_channels, rows, columns))
    layers = [
        Single(part, size)
        for one, size in zip((depthwise, dense), sizes, strict=True)
        for part in (one, Of(_exact(one)))
    ]
    return [*layers, Single(nn.AvgPool2d((height, width)), sizes[0])]


def _unblocked(inner: int, outer: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns a pointwise layer with exact weights and biases of -0, which kernels of several outputs do not take."""
    weight, bias = torch.randn(outer, inner, 1, 1), torch.full((outer,), -0.0)
    return lambda x: nn.functional.conv2d(x, weight, bias)


def draw_means(seed: int) -> Drawn:
    """Draws a mean over the rows of a stream."""
    rng = Random(seed)
    sizes = (1, rng.choice(WIDTHS[2:]), rng.randint(3, 40), rng.choice((1, 2, 3, 5, 8, 13, 20)))
    example = torch.randn(sizes, generator=torch.Generator().manual_seed(seed))
    return Drawn(Of(lambda x: x.mean((2, 3))), (example,))


def draw_sounds(seed: int) -> Drawn:
    """Features of sounds: spectra of several lengths in bands, triangles or dense ones, under every curve."""
    rng = Random(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sounds = [_sound(rng) for _ in range(TOGETHER // 2)]
        samples = [torch.randint(-20000, 20000, one.shape).to(torch.int16) for one in sounds]
    return Drawn(Layers([one.layer for one in sounds]).eval(), tuple(samples))


def draw_cells(seed: int) -> Drawn:
    """Plain recurrent layers of a few units."""
    return _draw(seed, (_cells,), TOGETHER)


def draw_biased(seed: int) -> Drawn:
    """Layers whose sums leave 24 bits by their biases."""
    drawn = _draw(seed, (_convolution, _convolution, _linear), TOGETHER)
    with torch.no_grad():
        for name, weights in drawn.module.named_parameters():
            if name.endswith("bias"):
                weights.mul_(LARGE / weights.abs().max())
    return drawn


def draw_products(seed: int) -> Drawn:
    """Small convolutions of all widths: the loops of their kernels from few runs."""
    return _draw(seed, (_pointwise, _pointwise, _convolution), 3 * TOGETHER)


def draw_transposed(seed: int) -> Drawn:
    """Transposed convolutions, half of them with groups or dilation, for which there are no columns."""
    return _draw(seed, (_transposed, _spread), 2 * TOGETHER)


def draw_matrices(seed: int) -> Drawn:
    """Products of two computed matrices, with enough rows for the kernels that pack columns."""
    return _draw(seed, (_matrices,), TOGETHER)


def _draw(seed: int, kinds: tuple[Kind, ...], layers: int) -> Drawn:
    rng = Random(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        drawn = [rng.choice(kinds)(rng) for _ in range(layers)]
        example = tuple(torch.rand(one.shape) * 2 - 1 for one in drawn)
    return Drawn(Layers([one.layer for one in drawn]).eval(), example)


def _width(rng: Random) -> int:
    return rng.choice(WIDTHS)


def _image(rng: Random, channels: int, least: int = 3) -> Shape:
    return (1, channels, rng.randrange(least, 12), rng.randrange(least, 20))


# ---- layers with sums of products ------------------------------------------------------------------------------------


def _recurrent(rng: Random) -> Single:
    given, units, steps = _width(rng), _width(rng), rng.randrange(1, 14)
    several = {"batch_first": True, "bidirectional": rng.random() < 0.2}
    kind = rng.randrange(5)
    if kind == 4:
        activation = rng.choice(("relu", "tanh"))
        return Single(Sequence(nn.RNN(given, units, nonlinearity=activation, **several)), (1, steps, given))
    return Single(Sequence((nn.GRU, nn.LSTM)[kind % 2](given, units, **several)), (rng.choice((1, 1, 2)), steps, given))


def _linear(rng: Random) -> Single:
    given, outer, rows = rng.randrange(1, 200), rng.randrange(1, 200), rng.choice((1, 1, 1, rng.randrange(2, 9)))
    activation = rng.choice((nn.ReLU, nn.Identity))()
    return Single(nn.Sequential(nn.Linear(given, outer), activation), (rows, given))


def _convolution(rng: Random) -> Single:
    kernel, stride, dilation = rng.choice((1, 1, 2, 3, 3, 5)), rng.choice((1, 1, 2)), rng.choice((1, 1, 1, 2))
    groups = rng.choice((1, 1, 1, 1, 2, 4))
    inner, outer = _width(rng) * (groups if groups > 1 else 1), _width(rng) * (groups if groups > 1 else 1)
    layer = nn.Conv2d(
        inner, outer, kernel, stride, rng.choice((0, dilation * (kernel // 2))), dilation=dilation, groups=groups
    )
    return Single(nn.Sequential(layer, rng.choice((nn.ReLU, nn.Identity))()), _image(rng, inner, 10))


def _pointwise(rng: Random) -> Single:
    inner, outer = rng.choice(WIDTHS[2:]), rng.choice(WIDTHS[2:])
    layer = nn.Sequential(nn.Conv2d(inner, outer, 1), rng.choice((nn.ReLU, nn.Identity))())
    return Single(layer, (1, inner, rng.randrange(1, 6), rng.randrange(2, 10)))


def _window(rng: Random) -> Single:
    kernel, stride, dilation = rng.choice((2, 3, 3, 3, 5, (1, 3), (3, 1))), rng.choice((1, 1, 2)), rng.choice((1, 1, 2))
    inner = rng.choice((1, 2, 3, 3, 4, 4, _width(rng), _width(rng)))
    padding = rng.choice((0, 0, 1)) if isinstance(kernel, int) and kernel > 2 else 0
    layer = nn.Conv2d(inner, _width(rng), kernel, stride, padding, dilation=dilation)
    return Single(nn.Sequential(layer, rng.choice((nn.ReLU, nn.Identity))()), _image(rng, inner, 10))


def _cells(rng: Random) -> Single:
    given, units, steps = rng.randrange(1, 12), rng.randrange(1, 12), rng.randrange(1, 14)
    kind = {"batch_first": True, "bidirectional": rng.random() < 0.2, "nonlinearity": rng.choice(("relu", "tanh"))}
    return Single(Sequence(nn.RNN(given, units, **kind)), (1, steps, given))


def _depthwise(rng: Random) -> Single:
    kernel, stride, dilation = rng.choice((3, 3, 5, 7)), rng.choice((1, 1, 2)), rng.choice((1, 1, 1, 2))
    width = _width(rng)
    more = rng.choice((1, 1, 1, 2))
    layer = nn.Conv2d(
        width, width * more, kernel, stride, dilation * (kernel // 2), dilation=dilation, groups=width, bias=False
    )
    return Single(nn.Sequential(layer, rng.choice((nn.ReLU, nn.Identity))()), _image(rng, width, 7))


def _multiplied(rng: Random) -> Single:
    kernel, stride, dilation, width = rng.choice((3, 3, 5)), rng.choice((1, 1, 2)), rng.choice((1, 1, 2)), _width(rng)
    padding, more = rng.choice((0, dilation * (kernel // 2))), rng.choice((1, 2, 2, 3, 4))
    layer = nn.Conv2d(width, width * more, kernel, stride, padding, dilation=dilation, groups=width)
    return Single(nn.Sequential(layer, rng.choice((nn.ReLU, nn.Identity))()), _image(rng, width, 10))


def _transposed(rng: Random) -> Single:
    kernel, stride, inner, outer = rng.choice((2, 3, 4)), rng.choice((1, 2, 2)), rng.randrange(1, 24), _width(rng)
    return Single(nn.ConvTranspose2d(inner, outer, kernel, stride, rng.choice((0, kernel // 2))), _image(rng, inner))


def _spread(rng: Random) -> Single:
    kernel, stride, dilation = rng.choice((2, 3, 4)), rng.choice((1, 2, 3)), rng.choice((1, 2, 3))
    groups = rng.choice((1, 2, 3))
    inner, outer = groups * rng.randrange(1, 20), groups * rng.randrange(1, 12)
    layer = nn.ConvTranspose2d(inner, outer, kernel, stride, 0, 0, groups, dilation=dilation)
    return Single(layer, _image(rng, inner))


def _attention(rng: Random) -> Single:
    heads = rng.choice((1, 2, 4))
    width = heads * rng.randrange(2, 17)
    return Single(Attention(width, heads), (1, rng.randrange(2, 33), width))


def _product(rng: Random) -> Single:
    batches, rows, depth = rng.choice((1, 2, 4)), rng.randrange(1, 24), rng.randrange(1, 40)
    return Single(Of(lambda x: x @ x.transpose(1, 2)), (batches, rows, depth))


def _matrices(rng: Random) -> Single:
    batches, rows, columns = rng.choice((1, 1, 2, 4)), rng.randrange(8, 40), rng.randrange(4, 70)
    depth = rng.choice((rng.randrange(1, 40), 4 * rng.randrange(1, 10), rng.randrange(40, 200)))
    function = rng.choice((nn.Identity, nn.ReLU))()  # with a zero point of the left matrix and without one
    product = Of(lambda x: function(x[:, :rows]) @ x[:, rows:].transpose(1, 2))
    return Single(product, (batches, rows + columns, depth))


def _wide_linear(rng: Random) -> Single:
    given = rng.randrange(200, 1000)
    return Single(nn.Linear(given, rng.randrange(1, 80)), (rng.choice((1, 1, 3)), given))


def _wide_convolution(rng: Random) -> Single:
    inner, outer, kernel = rng.randrange(60, 160), rng.randrange(1, 33), rng.choice((1, 3, 3, 5))
    layer = nn.Conv2d(inner, outer, kernel, rng.choice((1, 2)), rng.choice((0, kernel // 2)))
    return Single(nn.Sequential(layer, rng.choice((nn.ReLU, nn.Identity))()), _image(rng, inner, 5))


# ---- sounds ----------------------------------------------------------------------------------------------------------


_POINTS = (32, 48, 50, 64, 90, 96, 100, 128, 160, 200, 240, 256, 320, 384, 400, 480, 512, 600, 640, 800, 1024)


class Bands(nn.Module):
    """Frames of samples as their spectra in bands."""

    window: torch.Tensor
    bands: torch.Tensor

    def __init__(self, frames: tuple[int, int, int], bands: torch.Tensor, *, power: bool, curve: str) -> None:
        super().__init__()
        self.frames, self.power, self.curve = frames, power, curve
        self.register_buffer("window", torch.hann_window(frames[2]))
        self.register_buffer("bands", bands)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = torch.stft(x.float() / 32768, *self.frames, self.window, center=False, return_complex=True).abs()
        bands = (found.square() if self.power else found).transpose(1, 2) @ self.bands
        if self.curve == "logarithm":
            return torch.log(bands + 1e-4)
        return torch.sqrt(bands) if self.curve == "root" else bands


def _triangles(bins: int, bands: int) -> torch.Tensor:
    """Triangles over bins, narrow ones first, as on the mel scale."""
    edges = torch.expm1(torch.linspace(0, 3, bands + 2)) / math.expm1(3) * (bins - 1)
    low, middle, high, at = edges[:-2], edges[1:-1], edges[2:], torch.arange(bins)[:, None]
    return torch.minimum((at - low) / (middle - low), (high - at) / (high - middle)).clamp(min=0)


def _sound(rng: Random) -> Single:
    points = rng.choice(_POINTS)
    length, hop = rng.choice((points, points, points * 3 // 4)), rng.choice((points // 2, points // 4, 20))
    bins, curve = points // 2 + 1, rng.choice(("logarithm", "logarithm", "logarithm", "root", "linear"))
    bands = rng.choice((4, 10, 20, 40))
    weights = torch.rand(bins, bands) / points if rng.random() < 0.3 else _triangles(bins, min(bands, bins // 2))
    layer = Bands((points, hop, length), weights, power=rng.random() < 0.7, curve=curve)
    return Single(layer, (1, points + hop * rng.randrange(1, 4)))


# ---- statistics ------------------------------------------------------------------------------------------------------


def _normalized(rng: Random) -> Single:
    width, groups = rng.randrange(2, 160), rng.choice((1, 2, 4))
    kind = rng.randrange(4)
    if kind < 2:
        activation = rng.choice((nn.Identity, nn.ReLU))()
        return Single(nn.Sequential(activation, nn.LayerNorm(width)), (1, rng.randrange(1, 12), width))
    width = groups * rng.randrange(1, 9)
    layer = nn.GroupNorm(groups, width) if kind == 2 else nn.InstanceNorm2d(width)
    return Single(layer, _image(rng, width))


def _softmax(rng: Random) -> Single:
    length = rng.choice((rng.randrange(2, 40), rng.randrange(2, 40), rng.randrange(40, 400)))
    layer = rng.choice((nn.Softmax, nn.Softmax, nn.LogSoftmax))(dim=-1)
    return Single(layer, (1, rng.randrange(1, 12), length))


def _pool(rng: Random) -> Single:
    width = _width(rng)
    kernel, stride = rng.choice((2, 2, 3)), rng.choice((1, 2, 2))
    layers: tuple[nn.Module, ...] = (
        nn.MaxPool2d(kernel, stride, rng.choice((0, kernel // 2))),
        nn.AvgPool2d(kernel, stride, rng.choice((0, kernel // 2))),
        nn.AdaptiveAvgPool2d(1),
        Of(lambda x: x.mean(dim=(2, 3))),
        Of(lambda x: x.amax(dim=(2, 3))),
    )
    return Single(rng.choice(layers), _image(rng, width))


def _reduced(rng: Random) -> Single:
    functions: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
        lambda x: x.mean(dim=-1),
        lambda x: x.mean(dim=1),
        lambda x: x.var(dim=-1),
        lambda x: x.std(dim=1),
        lambda x: x.sum(dim=-1),
        lambda x: torch.cumsum(x, dim=-1),
        lambda x: torch.topk(x, 2, dim=-1).values,
        lambda x: x.amax(dim=-1),
    )
    return Single(Of(rng.choice(functions)), (1, rng.randrange(2, 24), rng.randrange(3, 40)))


# ---- elements and bytes ----------------------------------------------------------------------------------------------


def _elements(rng: Random) -> Single:
    functions: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
        torch.tanh,
        lambda x: x + x * 0.3,
        lambda x: x * torch.sigmoid(x),
        lambda x: x * x.mean(dim=(2, 3), keepdim=True),
        lambda x: x + x.mean(dim=(2, 3), keepdim=True),
        lambda x: torch.maximum(x, -x),
        lambda x: torch.minimum(x, torch.tanh(x)),
        lambda x: x / (x * x + 1.5),
        lambda x: torch.where(x > 0.1, x, torch.tanh(x)),
    )
    return Single(Of(rng.choice(functions)), _image(rng, _width(rng)))


def _moved(rng: Random) -> Single:
    a, b = rng.randrange(1, 4), rng.randrange(1, 4)
    functions: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
        lambda x: torch.cat([x, torch.relu(x)], dim=1),
        lambda x: torch.cat([x, x * 0.4], dim=2),
        lambda x: torch.cat([torch.tanh(x), torch.sigmoid(x), x], dim=3),
        lambda x: nn.functional.pad(x, (a, b, b, a)),
        lambda x: nn.functional.pad(x, (a, b)),
        lambda x: x.permute(0, 2, 3, 1),
        lambda x: x.transpose(2, 3),
        lambda x: x.transpose(1, 2),
        lambda x: x[:, :, 1:, :-1],
        lambda x: x[:, :, ::2, ::2],
        lambda x: torch.flip(x, dims=(3,)),
        lambda x: torch.roll(x, 1, dims=2),
        lambda x: nn.functional.interpolate(x, scale_factor=2),
        lambda x: nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
        lambda x: nn.functional.pixel_shuffle(torch.cat([x, x, x, x], dim=1), 2),
        lambda x: x.flatten(1) * 0.5,
    )
    return Single(Of(rng.choice(functions)), _image(rng, _width(rng), 4))


def _squeezed(rng: Random) -> Single:
    width = _width(rng) + 3
    return Single(Squeeze(width, max(width // 4, 2)), _image(rng, width))


WIDE: tuple[Kind, ...] = (_wide_linear, _wide_convolution, _wide_convolution, _recurrent)
KINDS: tuple[Kind, ...] = (
    *(3 * [_recurrent]),
    *(2 * [_linear]),
    *(4 * [_convolution]),
    *(2 * [_depthwise]),
    _transposed,
    _attention,
    _product,
    *(2 * [_normalized]),
    *(2 * [_softmax]),
    *(2 * [_pool]),
    _reduced,
    *(2 * [_elements]),
    *(3 * [_moved]),
    _squeezed,
)
