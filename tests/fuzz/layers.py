"""Layers of networks: convolutions, linear layers, pools, normalizations, attention, and blocks made of them."""

import math
from collections.abc import Callable
from functools import partial
from random import Random

import torch
from torch import nn
from torch.nn import functional

from fuzz.choices import (
    MOST_ELEMENTS,
    SIZES,
    any_shape,
    at_least,
    aten,
    axis,
    coin,
    function,
    held,
    image,
    no_options,
    one_of,
    over_one_axis,
    pair,
    rank,
    reducing,
    signal,
    size_within,
    unary,
)
from fuzz.recipe import Block, Options, Shape, Tensor

# ---- convolutions --------------------------------------------------------------------------------------------------


def kernels(rng: Random, sides: Shape) -> tuple[list[int], list[int], list[int], list[int]]:
    """Kernel, stride, padding and dilation for each spatial dimension, such that something is left."""
    kernel, stride, padding, dilation = [], [], [], []
    for side in sides:
        k, d = one_of(rng, 1, 3, 2, 5, 4), one_of(rng, 1, 1, 2)
        p = one_of(rng, k // 2, 0, k - 1)
        if (k - 1) * d + 1 > side + 2 * p:
            k, d, p = 1, 1, 0
        kernel.append(k)
        stride.append(one_of(rng, 1, 2, 1, 3))
        padding.append(p)
        dilation.append(d)
    return kernel, stride, padding, dilation


def pixels_of(sides: Shape, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]) -> int:
    """Pixels that a convolution gives."""
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    each = zip(sides, spans, stride, padding, strict=True)
    return math.prod((side + 2 * p - span) // s + 1 for side, span, s, p in each)


def convolution(rng: Random, shape: Shape) -> Options:
    kernel, stride, padding, dilation = kernels(rng, shape[2:])
    groups = one_of(rng, 1, 1, *(g for g in (2, 3, 4, 5, 8) if shape[1] % g == 0))
    pixels = shape[0] * pixels_of(shape[2:], kernel, stride, padding, dilation)
    outputs = size_within(rng, pixels, groups)
    return dict(out_channels=outputs, kernel_size=kernel, stride=stride, padding=padding, dilation=dilation,
                groups=groups, bias=coin(rng))  # fmt: skip


def depthwise(rng: Random, shape: Shape) -> Options:
    kernel, stride, padding, dilation = kernels(rng, shape[2:])
    pixels = shape[0] * pixels_of(shape[2:], kernel, stride, padding, dilation)
    most = 2 if 2 * pixels * shape[1] <= MOST_ELEMENTS else 1
    return dict(out_channels=shape[1] * rng.randint(1, most), kernel_size=kernel, stride=stride, padding=padding,
                dilation=dilation, groups=shape[1], bias=coin(rng))  # fmt: skip


def named_padding(rng: Random, shape: Shape) -> Options:
    """padding='same' or 'valid'; even kernels pad one side more than the other."""
    kernel = [min(one_of(rng, 3, 2, 4), side) for side in shape[2:]]
    outputs = size_within(rng, math.prod(shape) / shape[1])
    return dict(out_channels=outputs, kernel_size=kernel, padding=one_of(rng, "same", "same", "valid"), bias=coin(rng))


def transposed(rng: Random, shape: Shape) -> Options:
    chosen: list[tuple[int, ...]] = []  # kernel, stride, padding, extra and dilation of each side
    pixels = shape[0]
    for side in shape[2:]:
        s, k, d = one_of(rng, 2, 1, 3), one_of(rng, 3, 1, 2, 4), one_of(rng, 1, 1, 2)
        most = ((side - 1) * s + (k - 1) * d) // 2
        p, e = min(one_of(rng, 0, 1, k - 1), most), one_of(rng, 0, max(s, d) - 1)
        pixels *= (side - 1) * s - 2 * p + (k - 1) * d + e + 1
        chosen.append((k, s, p, e, d))
    kernel, stride, padding, extra, dilation = map(list, zip(*chosen, strict=True))
    groups = one_of(rng, 1, 1, *(g for g in (2, 3, shape[1]) if shape[1] % g == 0))
    outputs = size_within(rng, pixels, groups)
    return dict(out_channels=outputs, kernel_size=kernel, stride=stride, padding=padding, output_padding=extra,
                dilation=dilation, groups=groups, bias=coin(rng))  # fmt: skip


def layer(kind: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """A layer of torch.nn that is told its input's channels."""
    return lambda shape, **options: kind(shape[1], **options)


def plain_convolution(shape: Shape) -> Callable[..., Tensor]:
    """aten.convolution, as graphs that were lowered once hold it."""
    weight = dict(weight=(shape[1], shape[1], 1, 3), bias=(shape[1],))
    rest = ([1, 1], [0, 1], [1, 1], False, [0, 0], 1)
    return held(lambda x, weight, bias: aten.convolution.default(x, 0.3 * weight, bias, *rest), lambda _: weight)(shape)


# ---- normalizations ------------------------------------------------------------------------------------------------


class BatchNorm(nn.Module):
    """Batch norm as it is after training: with statistics, of images or signals, or in aten's lowered spelling."""

    def __init__(self, shape: Shape, lowered: bool) -> None:
        super().__init__()
        self.norm = (nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d)(shape[1])
        self.lowered = lowered
        assert self.norm.running_mean is not None
        assert self.norm.running_var is not None
        self.norm.running_mean.normal_(0.0, 0.3)
        self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x: Tensor) -> Tensor:
        if not self.lowered:
            return self.norm(x)
        n = self.norm
        call = aten._native_batch_norm_legit_no_training.default
        return call(x, n.weight, n.bias, n.running_mean, n.running_var, 0.1, 1e-5)[0]


def group_norm(shape: Shape, groups: int) -> nn.Module:
    return nn.GroupNorm(groups, shape[1])


def groups_of(rng: Random, shape: Shape) -> Options:
    return dict(groups=rng.choice([g for g in range(1, shape[1] + 1) if shape[1] % g == 0]))


def layer_norm(shape: Shape, kind: str) -> nn.Module:
    return (nn.LayerNorm if kind == "layer" else nn.RMSNorm)(list(shape[-1:]))


def several(shape: Shape) -> bool:
    """A norm over a single value is a constant."""
    return len(shape) >= 2 and shape[-1] >= 3


# ---- recurrent layers ----------------------------------------------------------------------------------------------

RECURRENT: dict[str, Callable[..., nn.RNNBase]] = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "rnn_tanh": nn.RNN,
    "rnn_relu": partial(nn.RNN, nonlinearity="relu"),
}
CELLS: dict[str, Callable[..., nn.RNNCellBase]] = {
    "lstm_cell": nn.LSTMCell,
    "gru_cell": nn.GRUCell,
    "rnn_tanh_cell": nn.RNNCell,
    "rnn_relu_cell": partial(nn.RNNCell, nonlinearity="relu"),
}


class Recurrent(nn.Module):
    """All steps, or the state of every layer behind the last one."""

    def __init__(self, shape: Shape, kind: str, last: bool, **options: int) -> None:
        super().__init__()
        self.layer, self.last = RECURRENT[kind](shape[2], batch_first=True, **options), last

    def forward(self, x: Tensor) -> Tensor:
        y, state = self.layer(x)
        hidden: Tensor = state[0] if isinstance(state, tuple) else state
        return hidden if self.last else y


class RecurrentCell(nn.Module):
    """One step, from its own output of the step before."""

    def __init__(self, shape: Shape, kind: str) -> None:
        super().__init__()
        self.cell = CELLS[kind](shape[1], shape[1])

    def forward(self, x: Tensor) -> Tensor:
        first: Tensor | tuple[Tensor, ...] = self.cell(x)
        given = first if isinstance(first, tuple) else (first,)
        second: Tensor | tuple[Tensor, ...] = self.cell(x, first)
        return (second[0] if isinstance(second, tuple) else second) + given[-1]


def recurrent(kind: str) -> Block:
    def drawn(rng: Random, shape: Shape) -> Options:
        return dict(kind=kind, hidden_size=rng.choice(SIZES), num_layers=one_of(rng, 1, 1, 2),
                    bidirectional=coin(rng), bias=coin(rng), last=coin(rng))  # fmt: skip

    return Block(lambda s: len(s) == 3 and s[1] <= 12, drawn, Recurrent, weight=0.5)


def recurrent_cell(kind: str) -> Block:
    return Block(rank(2), lambda rng, shape: dict(kind=kind), RecurrentCell, weight=0.25)


# ---- attention and blocks ------------------------------------------------------------------------------------------


class Attention(nn.Module):
    """Scaled dot products of [batch, heads, length, width]."""

    def __init__(self, shape: Shape, causal: bool) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(shape[-1], shape[-1]), nn.Linear(shape[-1], shape[-1])
        self.causal = causal

    def forward(self, x: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(self.query(x), self.key(x), x, is_causal=self.causal)


class InvertedResidual(nn.Module):
    """What mobile networks are made of: its layers run row by row together, the skip connection waits."""

    def __init__(self, shape: Shape, wide: int, kernel: int) -> None:
        super().__init__()
        self.expand = nn.Conv2d(shape[1], wide, 1)
        self.spread = nn.Conv2d(wide, wide, kernel, padding=kernel // 2, groups=wide)
        self.project = nn.Conv2d(wide, shape[1], 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.project(functional.relu6(self.spread(functional.relu6(self.expand(x)))))


def inverted_residual(rng: Random, shape: Shape) -> Options:
    return dict(wide=size_within(rng, math.prod(shape) / shape[1]), kernel=one_of(rng, 3, 5))


class SqueezeExcite(nn.Module):
    """Every channel times a factor that the whole image decides."""

    def __init__(self, shape: Shape, inner: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(shape[1], inner, 1), nn.Conv2d(inner, shape[1], 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * functional.hardsigmoid(self.up(functional.relu(self.down(x.mean((2, 3), keepdim=True)))))


class WithConstant(nn.Module):
    """add, mul, minimum, ... with a parameter: one value, one for each channel, or a whole tensor."""

    def __init__(self, shape: Shape, call: str, per: str) -> None:
        super().__init__()
        sizes = {"one": (1,), "channel": (shape[1],) + (1,) * (len(shape) - 2), "all": shape}[per]
        self.value = nn.Parameter(torch.randn(sizes))
        self.call: Callable[[Tensor, Tensor], Tensor] = getattr(torch, call)

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x, self.value)


def with_constant(rng: Random, shape: Shape) -> Options:
    call = one_of(rng, "add", "sub", "mul", "minimum", "maximum")
    return dict(call=call, per=one_of(rng, "channel", "one", "all"))


# ---- pools ---------------------------------------------------------------------------------------------------------


def max_pool(rng: Random, shape: Shape) -> Options:
    dilation = [one_of(rng, 1, 1, 2) if side > 2 else 1 for side in shape[2:]]
    kernel = [min(one_of(rng, 2, 3, 5), (side - 1) // d + 1) for side, d in zip(shape[2:], dilation, strict=True)]
    return dict(kernel_size=kernel, stride=[one_of(rng, 2, 1, 3) for _ in kernel],
                padding=[rng.randint(0, k // 2) for k in kernel],
                dilation=dilation, ceil_mode=coin(rng))  # fmt: skip


def avg_pool(rng: Random, shape: Shape) -> Options:
    kernel = [min(one_of(rng, 2, 3, 5), side) for side in shape[2:]]
    return dict(kernel_size=kernel, stride=[one_of(rng, 2, 1, 3) for _ in kernel],
                padding=[rng.randint(0, k // 2) for k in kernel],
                ceil_mode=coin(rng), count_include_pad=coin(rng))  # fmt: skip


def adaptive_pool(rng: Random, shape: Shape) -> Options:
    return dict(output_size=tuple(rng.randint(1, side) for side in shape[2:]))


def values_of(call: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., Tensor]:
    """The first of (values, indices)."""
    return lambda *args, **options: call(*args, **options)[0]


def whole(rng: Random, shape: Shape) -> Options:
    return dict(dim=[2, 3], keepdim=coin(rng))


def one_dim(rng: Random, shape: Shape) -> Options:
    return dict(dim=axis(rng, shape), keepdim=coin(rng))


# ---- products ------------------------------------------------------------------------------------------------------


def multiplies(a: Shape, b: Shape) -> bool:
    """As matrices with the same leading dimensions."""
    return 2 <= len(a) == len(b) <= 4 and a[:-2] == b[:-2] and a[-1] == b[-2]


def linear(rng: Random, shape: Shape) -> Options:
    return dict(out_features=size_within(rng, math.prod(shape[:-1])), bias=coin(rng))


def gram(x: Tensor) -> Tensor:
    return x @ x.transpose(-1, -2) / x.shape[-1]


def chunk_size(rng: Random, shape: Shape) -> Options:
    return dict(dim=rng.choice([dim for dim, size in enumerate(shape) if size % 2 == 0]))


LAYERS: dict[str, Block] = {
    "conv2d": Block(image, convolution, layer(nn.Conv2d), weight=30),
    "depthwise": Block(image, depthwise, layer(nn.Conv2d), weight=15),
    "conv2d_named": Block(image, named_padding, layer(nn.Conv2d), weight=4),
    "conv_transpose2d": Block(image, transposed, layer(nn.ConvTranspose2d), weight=5),
    "convolution": Block(image, no_options, plain_convolution),
    "conv1d": Block(signal, convolution, layer(nn.Conv1d), weight=8),
    "conv1d_named": Block(signal, named_padding, layer(nn.Conv1d), weight=2),
    "conv_transpose1d": Block(signal, transposed, layer(nn.ConvTranspose1d), weight=2),
    "inverted_residual": Block(image, inverted_residual, InvertedResidual, weight=6),
    "squeeze_excite": Block(image, lambda rng, shape: dict(inner=rng.choice(SIZES)), SqueezeExcite, weight=2),
    "linear": Block(at_least(1), linear, lambda shape, **options: nn.Linear(shape[-1], **options), weight=8),
    "addmm": Block(
        rank(2), no_options, held(lambda x, b, w: aten.addmm.default(b, x, w), lambda s: dict(b=(5,), w=(s[1], 5)))
    ),
    "mm": Block(rank(2), no_options, held(lambda x, w: aten.mm.default(x, w), lambda s: dict(w=(s[1], 7)))),
    "bmm": Block(rank(3), no_options, held(lambda x, w: aten.bmm.default(x, w), lambda s: dict(w=(s[0], s[2], 3)))),
    "bmm_square": Block(rank(3), no_options, lambda shape: lambda x: aten.bmm.default(x, x.transpose(1, 2)) * 0.2),
    "batch_norm": Block(rank(3, 4), lambda rng, shape: dict(lowered=rng.random() < 0.2), BatchNorm, weight=3),
    "group_norm": Block(lambda s: len(s) >= 3 and math.prod(s[2:]) >= 4, groups_of, group_norm),
    "instance_norm": Block(
        lambda s: len(s) == 4 and math.prod(s[2:]) >= 4,
        no_options,
        lambda shape: nn.InstanceNorm2d(shape[1], affine=True),
    ),
    "layer_norm": Block(several, lambda rng, shape: dict(kind=one_of(rng, "layer", "rms")), layer_norm, weight=2),
    **{kind: recurrent(kind) for kind in RECURRENT},
    **{kind: recurrent_cell(kind) for kind in CELLS},
    "attention": Block(
        lambda s: len(s) == 4 and s[2] >= 2 and s[3] >= 2, lambda rng, shape: dict(causal=coin(rng)), Attention
    ),
    "prelu": Block(image, no_options, layer(nn.PReLU)),
    "max_pool2d": Block(image, max_pool, function(functional.max_pool2d), weight=5),
    "max_pool2d_indices": Block(image, max_pool, function(values_of(aten.max_pool2d_with_indices.default))),
    "max_pool1d": Block(signal, max_pool, function(functional.max_pool1d), weight=2),
    "max_pool1d_indices": Block(signal, max_pool, function(values_of(aten.max_pool1d_with_indices.default))),
    "avg_pool2d": Block(image, avg_pool, function(functional.avg_pool2d), weight=5),
    "avg_pool1d": Block(signal, avg_pool, function(functional.avg_pool1d), weight=2),
    "adaptive_avg_pool2d": Block(image, adaptive_pool, function(functional.adaptive_avg_pool2d)),
    "adaptive_avg_pool2d_": Block(image, adaptive_pool, function(aten._adaptive_avg_pool2d.default)),
    "adaptive_max_pool2d": Block(image, adaptive_pool, function(functional.adaptive_max_pool2d)),
    "adaptive_avg_pool1d": Block(signal, adaptive_pool, function(functional.adaptive_avg_pool1d)),
    "adaptive_max_pool1d": Block(signal, adaptive_pool, function(functional.adaptive_max_pool1d)),
    "mean_image": Block(image, whole, function(torch.mean), weight=3),
    "mean": Block(any_shape, reducing, function(torch.mean)),
    "sum": Block(any_shape, reducing, function(torch.sum)),
    "amax": Block(any_shape, reducing, function(torch.amax)),
    "amin": Block(any_shape, reducing, function(torch.amin)),
    "max_dim": Block(any_shape, one_dim, function(values_of(torch.max))),
    "min_dim": Block(any_shape, one_dim, function(values_of(torch.min))),
    "logsumexp": Block(any_shape, reducing, function(torch.logsumexp)),
    "vector_norm": Block(
        any_shape,
        lambda rng, shape: dict(ord=one_of(rng, 2, 1), **reducing(rng, shape)),
        function(torch.linalg.vector_norm),
    ),
    "mean_all": unary(lambda x: x * torch.mean(x)),
    "sum_all": unary(lambda x: x - 0.1 * torch.sum(x)),
    "max_all": unary(lambda x: x - torch.max(x)),
    "min_all": unary(lambda x: x - torch.min(x)),
    "softmax": Block(any_shape, over_one_axis, function(torch.softmax), weight=2),
    "softmax_": Block(any_shape, over_one_axis, function(partial(aten._softmax.default, half_to_float=False))),
    "log_softmax": Block(any_shape, over_one_axis, function(torch.log_softmax)),
    "log_softmax_": Block(any_shape, over_one_axis, function(partial(aten._log_softmax.default, half_to_float=False))),
    "glu": Block(lambda s: any(size % 2 == 0 for size in s), chunk_size, function(functional.glu)),
    "with_constant": Block(at_least(2), with_constant, WithConstant, weight=3),
    "addcmul": Block(any_shape, no_options, held(lambda x, a, b: torch.addcmul(x, a, b), lambda s: dict(a=s, b=s))),
    "addcmul_values": pair(lambda a, b: torch.addcmul(a, a, b, value=0.5), fits=lambda a, b: a == b),
    "addcdiv": pair(lambda a, b: torch.addcdiv(a, b, b.abs() + 0.7), fits=lambda a, b: a == b),
    "matmul": pair(torch.matmul, multiplies),
    "gram": unary(gram, rank(2, 3, 4)),
}
