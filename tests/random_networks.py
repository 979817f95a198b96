"""Random networks: recipes that hypothesis draws, and the nn.Module that a recipe stands for.

A recipe is plain data whose repr is Python: a failing test prints it, and `Network(recipe)` is the network again,
weights included. Values are numbered: first the inputs, then the layers in order. Every layer
may read any earlier value, so branches cross, values are used again, and what nobody reads is an output.
Only networks that have to compile are drawn: whatever goes wrong with one is a bug.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import torch
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

Tensor = torch.Tensor
Shape = tuple[int, ...]
Options = Mapping[str, Any]

SIZES = (8, 7, 9, 16, 15, 17, 4, 5, 3, 1, 31, 33)  # around the kernels' tiles
MOST_ELEMENTS = 4096  # of one value: the emulated cores are to finish soon
MOST_RANK = 5


@dataclass(frozen=True)
class Layer:
    """One building block on earlier values."""

    block: str
    sources: tuple[int, ...]
    options: Options


@dataclass(frozen=True)
class Recipe:
    inputs: tuple[Shape, ...]
    layers: tuple[Layer, ...]
    outputs: tuple[int, ...]
    seed: int  # of the weights and of the data

    def batches(self, count: int, scale: float = 1.0, seed: int = 0) -> list[tuple[Tensor, ...]]:
        """Normally distributed inputs."""
        rng = torch.Generator().manual_seed(1000 * self.seed + seed)
        return [tuple(scale * torch.randn(shape, generator=rng) for shape in self.inputs) for _ in range(count)]


class Network(nn.Module):
    """A recipe as a model."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.recipe = recipe
        shapes = list(recipe.inputs)
        self.layers = nn.ModuleList()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            for layer in recipe.layers:
                module = build(layer, shapes)
                self.layers.append(module)
                shapes.append(result_shape(module, [shapes[source] for source in layer.sources]))
        self.eval()

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = list(inputs)
        for layer, module in zip(self.recipe.layers, self.layers, strict=True):
            values.append(module(*(values[source] for source in layer.sources)))
        return tuple(values[output] for output in self.recipe.outputs)


class Call(nn.Module):
    """A function with its options as a module."""

    def __init__(self, function: Callable[..., Tensor], options: Options) -> None:
        super().__init__()
        self.function, self.options = function, options

    def forward(self, *values: Tensor) -> Tensor:
        return self.function(*values, **self.options)


def build(layer: Layer, shapes: Sequence[Shape]) -> nn.Module:
    made = BLOCKS[layer.block].make(shapes[layer.sources[0]], **layer.options)
    return made if isinstance(made, nn.Module) else Call(made, {})


def result_shape(module: nn.Module, shapes: Sequence[Shape]) -> Shape:
    with torch.no_grad():
        return tuple(module.eval()(*(torch.zeros(shape) for shape in shapes)).shape)


# ---- building blocks: which values one takes, how its options are drawn, what it is -----------------------------


@dataclass(frozen=True)
class Block:
    fits: Callable[..., bool]  # of the shapes of its sources
    draw: Callable[[Random, Shape], Options]  # the options, for the first source's shape
    make: Callable[..., Callable[..., Tensor]]  # that shape and the options -> a module or a function
    sources: int = 1


def image(shape: Shape) -> bool:
    return len(shape) == 4


def signal(shape: Shape) -> bool:
    return len(shape) == 3


def matrix(shape: Shape) -> bool:
    return 2 <= len(shape) <= 4


def any_shape(shape: Shape) -> bool:
    return True


def no_options(rng: Random, shape: Shape) -> Options:
    return {}


def function(call: Callable[..., Tensor]) -> Callable[..., Callable[..., Tensor]]:
    """A block whose options are the function's own."""
    return lambda shape, /, **options: partial(call, **options)


def one_of(rng: Random, *choices: Any) -> Any:
    return rng.choice(choices)


def coin(rng: Random) -> bool:
    return rng.random() < 0.5


def size_within(rng: Random, elements: float, multiple: int = 1) -> int:
    """A size near a tile's, such that the result stays small."""
    fitting = [size * multiple for size in SIZES if size * multiple * elements <= MOST_ELEMENTS]
    return rng.choice(fitting or [multiple])


def axis(rng: Random, shape: Shape) -> int:
    return rng.randint(0, len(shape) - 1)


def axes(rng: Random, shape: Shape) -> list[int]:
    return sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))


# Convolutions.


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


def results(sides: Shape, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int]) -> int:
    """Pixels that a convolution gives."""
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    each = zip(sides, spans, stride, padding, strict=True)
    return math.prod((side + 2 * p - span) // s + 1 for side, span, s, p in each)


def convolution(rng: Random, shape: Shape) -> Options:
    kernel, stride, padding, dilation = kernels(rng, shape[2:])
    groups = one_of(rng, 1, 1, *(g for g in (2, 3, 4, 5, 8) if shape[1] % g == 0))
    pixels = shape[0] * results(shape[2:], kernel, stride, padding, dilation)
    outputs = size_within(rng, pixels, groups)
    return dict(out_channels=outputs, kernel_size=kernel, stride=stride, padding=padding, dilation=dilation,
                groups=groups, bias=coin(rng))  # fmt: skip


def depthwise(rng: Random, shape: Shape) -> Options:
    kernel, stride, padding, dilation = kernels(rng, shape[2:])
    pixels = shape[0] * results(shape[2:], kernel, stride, padding, dilation)
    most = 2 if 2 * pixels * shape[1] <= MOST_ELEMENTS else 1
    return dict(out_channels=shape[1] * rng.randint(1, most), kernel_size=kernel, stride=stride, padding=padding,
                dilation=dilation, groups=shape[1], bias=coin(rng))  # fmt: skip


def transposed(rng: Random, shape: Shape) -> Options:
    kernel, stride, padding, extra, dilation = [], [], [], [], []
    pixels = shape[0]
    for side in shape[2:]:
        s, k, d = one_of(rng, 2, 1, 3), one_of(rng, 3, 1, 2, 4), one_of(rng, 1, 1, 2)
        most = ((side - 1) * s + (k - 1) * d) // 2
        p, e = min(one_of(rng, 0, 1, k - 1), most), one_of(rng, 0, max(s, d) - 1)
        pixels *= (side - 1) * s - 2 * p + (k - 1) * d + e + 1
        for values, value in zip((kernel, stride, padding, extra, dilation), (k, s, p, e, d), strict=True):
            values.append(value)
    groups = one_of(rng, 1, 1, *(g for g in (2, 3, shape[1]) if shape[1] % g == 0))
    outputs = size_within(rng, pixels, groups)
    return dict(out_channels=outputs, kernel_size=kernel, stride=stride, padding=padding, output_padding=extra,
                dilation=dilation, groups=groups, bias=coin(rng))  # fmt: skip


def layer(kind: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """A layer of torch.nn that is told its input's channels."""
    return lambda shape, **options: kind(shape[1], **options)


# Pools.


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


# Movements.


def slicing(rng: Random, shape: Shape) -> Options:
    dim = axis(rng, shape)
    start = rng.randint(0, shape[dim] - 1)
    return dict(dim=dim, start=start, end=rng.randint(start + 1, shape[dim]), step=one_of(rng, 1, 2, 3))


def take(x: Tensor, dim: int, start: int, end: int, step: int) -> Tensor:
    return x[(slice(None),) * dim + (slice(start, end, step),)]


def selecting(rng: Random, shape: Shape) -> Options:
    dim = axis(rng, shape)
    return dict(dim=dim, index=rng.randint(-shape[dim], shape[dim] - 1))


def splitting(rng: Random, shape: Shape) -> Options:
    dim = axis(rng, shape)
    chunks = rng.randint(1, min(3, shape[dim]))
    return dict(dim=dim, chunks=chunks, keep=rng.sample(range(3), rng.randint(1, 3)))


def chunks_joined(x: Tensor, dim: int, chunks: int, keep: list[int]) -> Tensor:
    """Some chunks of a tensor, in another order."""
    parts = torch.chunk(x, chunks, dim)
    return torch.cat([parts[index % len(parts)] for index in keep], dim)


def bordering(rng: Random, shape: Shape) -> Options:
    return dict(pad=tuple(rng.randint(0, 2) for _ in range(4)), value=one_of(rng, 0.0, 0.5, -1.0))


def reflecting(rng: Random, shape: Shape) -> Options:
    most = [side - 1 for side in (shape[3], shape[3], shape[2], shape[2])]
    return dict(pad=tuple(rng.randint(0, min(2, side)) for side in most), mode=one_of(rng, "reflect", "replicate"))


def reshaping(rng: Random, shape: Shape) -> Options:
    """Two neighbouring dimensions become one, or one becomes two."""
    dim = axis(rng, shape)
    divisors = [d for d in range(1, shape[dim] + 1) if shape[dim] % d == 0]
    if dim + 1 < len(shape) and (len(shape) == MOST_RANK or coin(rng)):
        return dict(shape=[*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]])
    first = rng.choice(divisors)
    return dict(shape=[*shape[:dim], first, shape[dim] // first, *shape[dim + 1 :]])


def rolling(rng: Random, shape: Shape) -> Options:
    return dict(dims=axis(rng, shape), shifts=rng.randint(-3, 3))


# Reductions and the like.


def reducing(rng: Random, shape: Shape) -> Options:
    return dict(dim=axes(rng, shape), keepdim=coin(rng))


def global_pooling(rng: Random, shape: Shape) -> Options:
    return dict(dim=[2, 3], keepdim=coin(rng))


def over_one_axis(rng: Random, shape: Shape) -> Options:
    return dict(dim=axis(rng, shape))


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "relu6": functional.relu6,
    "hardtanh": functional.hardtanh,
    "clamp": lambda x: x.clamp(-0.5, 0.7),
    "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
    "selu": functional.selu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "mish": functional.mish,
    "softplus": functional.softplus,
    "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "abs": torch.abs,
    "neg": torch.neg,
    "square": torch.square,
    "sqrt": lambda x: x.abs().sqrt(),
    "exp": lambda x: x.clamp(-3, 3).exp(),
    "rsub": lambda x: 1 - x,
    "scaled": lambda x: x * -1.5 + 0.25,
}


def activation(rng: Random, shape: Shape) -> Options:
    return dict(kind=one_of(rng, *ACTIVATIONS))


# Two tensors.


def broadcasts(a: Shape, b: Shape) -> bool:
    pairs = zip(reversed(a), reversed(b), strict=False)
    result = [max(x, y) for x, y in zip((1,) * (len(b) - len(a)) + a, (1,) * (len(a) - len(b)) + b, strict=True)]
    return all(x == y or 1 in (x, y) for x, y in pairs) and math.prod(result) <= MOST_ELEMENTS


def multiplies(a: Shape, b: Shape) -> bool:
    """As matrices with the same leading dimensions."""
    return 2 <= len(a) == len(b) <= 4 and a[:-2] == b[:-2] and a[-1] == b[-2]


def joins(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) >= 2 and sum(x != y for x, y in zip(a, b, strict=True)) <= 1


def joined(a: Tensor, b: Tensor) -> Tensor:
    """Along the dimension that differs, or else the second."""
    different = [d for d in range(a.dim()) if a.shape[d] != b.shape[d]]
    return torch.cat([a, b, a], different[0] if different else 1)


def stacks(a: Shape, b: Shape) -> bool:
    return a == b and len(a) < MOST_RANK


def quotient(a: Tensor, b: Tensor) -> Tensor:
    return a / (b.abs() + 0.5)


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


def pair(fits: Callable[[Shape, Shape], bool], call: Callable[..., Tensor]) -> Block:
    return Block(fits, no_options, function(call), sources=2)


BLOCKS: dict[str, Block] = {
    "conv2d": Block(image, convolution, layer(nn.Conv2d)),
    "depthwise": Block(image, depthwise, layer(nn.Conv2d)),
    "conv_transpose2d": Block(image, transposed, layer(nn.ConvTranspose2d)),
    "conv1d": Block(signal, convolution, layer(nn.Conv1d)),
    "conv_transpose1d": Block(signal, transposed, layer(nn.ConvTranspose1d)),
    "inverted_residual": Block(image, inverted_residual, InvertedResidual),
    "squeeze_excite": Block(image, lambda rng, shape: dict(inner=rng.choice(SIZES)), SqueezeExcite),
    "linear": Block(
        lambda shape: len(shape) >= 2,
        lambda rng, shape: dict(out_features=size_within(rng, math.prod(shape[:-1])), bias=coin(rng)),
        lambda shape, **options: nn.Linear(shape[-1], **options),
    ),
    "batch_norm": Block(image, no_options, layer(nn.BatchNorm2d)),
    "layer_norm": Block(lambda shape: len(shape) >= 2, no_options, lambda shape: nn.LayerNorm(shape[-1])),
    "rms_norm": Block(lambda shape: len(shape) >= 2, no_options, lambda shape: nn.RMSNorm(shape[-1])),
    "group_norm": Block(
        lambda shape: image(shape) and shape[2:] != (1, 1),
        lambda rng, shape: dict(groups=one_of(rng, 1, math.gcd(shape[1], 2), shape[1])),
        lambda shape, groups: nn.GroupNorm(groups, shape[1]),
    ),
    "instance_norm": Block(
        lambda shape: image(shape) and shape[2:] != (1, 1),
        lambda rng, shape: dict(affine=coin(rng)),
        lambda shape, affine: nn.InstanceNorm2d(shape[1], affine=affine),
    ),
    "prelu": Block(image, no_options, layer(nn.PReLU)),
    "max_pool2d": Block(image, max_pool, function(functional.max_pool2d)),
    "avg_pool2d": Block(image, avg_pool, function(functional.avg_pool2d)),
    "adaptive_avg_pool2d": Block(image, adaptive_pool, function(functional.adaptive_avg_pool2d)),
    "adaptive_max_pool2d": Block(image, adaptive_pool, function(functional.adaptive_max_pool2d)),
    "max_pool1d": Block(signal, max_pool, function(functional.max_pool1d)),
    "mean_image": Block(image, global_pooling, function(torch.mean)),
    "mean": Block(any_shape, reducing, function(torch.mean)),
    "sum": Block(any_shape, reducing, function(torch.sum)),
    "amax": Block(any_shape, reducing, function(torch.amax)),
    "amin": Block(any_shape, reducing, function(torch.amin)),
    "softmax": Block(any_shape, over_one_axis, function(torch.softmax)),
    "log_softmax": Block(any_shape, over_one_axis, function(torch.log_softmax)),
    "activation": Block(any_shape, activation, lambda shape, kind: ACTIVATIONS[kind]),
    "with_constant": Block(lambda shape: len(shape) >= 2, with_constant, WithConstant),
    "slice": Block(any_shape, slicing, function(take)),
    "select": Block(lambda shape: len(shape) >= 2, selecting, function(torch.select)),
    "chunk": Block(any_shape, splitting, function(chunks_joined)),
    "pad": Block(image, bordering, function(functional.pad)),
    "reflect": Block(image, reflecting, function(functional.pad)),
    "upsample": Block(
        image,
        lambda rng, shape: dict(scale_factor=one_of(rng, (2, 2), (1, 2), (3, 2))),
        function(functional.interpolate),
    ),
    "pixel_shuffle": Block(
        lambda shape: image(shape) and shape[1] % 4 == 0, no_options, lambda shape: nn.PixelShuffle(2)
    ),
    "channel_shuffle": Block(
        lambda shape: image(shape) and shape[1] % 4 == 0, no_options, lambda shape: nn.ChannelShuffle(2)
    ),
    "flip": Block(any_shape, lambda rng, shape: dict(dims=axes(rng, shape)), function(torch.flip)),
    "roll": Block(any_shape, rolling, function(torch.roll)),
    "permute": Block(
        any_shape,
        lambda rng, shape: dict(dims=rng.sample(range(len(shape)), len(shape))),
        function(torch.permute),
    ),
    "reshape": Block(any_shape, reshaping, function(torch.reshape)),
    "flatten": Block(any_shape, lambda rng, shape: dict(start_dim=axis(rng, shape)), function(torch.flatten)),
    "squeeze": Block(any_shape, no_options, function(torch.squeeze)),
    "repeat_interleave": Block(
        any_shape,
        lambda rng, shape: dict(repeats=one_of(rng, 1, 2, 3), dim=axis(rng, shape)),
        function(torch.repeat_interleave),
    ),
    "add": pair(broadcasts, torch.add),
    "sub": pair(broadcasts, torch.sub),
    "mul": pair(broadcasts, torch.mul),
    "div": pair(broadcasts, quotient),
    "minimum": pair(broadcasts, torch.minimum),
    "maximum": pair(broadcasts, torch.maximum),
    "matmul": pair(multiplies, torch.matmul),
    "gram": Block(matrix, no_options, lambda shape: lambda x: x @ x.transpose(-1, -2)),
    "cat": pair(joins, joined),
    "stack": pair(stacks, lambda a, b: torch.stack([a, b], -1)),
}
# Drawn more often than the rest: what networks are mostly made of, and what only images have.
FREQUENT = (
    *("conv2d", "conv2d", "depthwise", "activation", "add", "inverted_residual") * 4,
    *("linear", "cat", "mul", "sub", "conv_transpose2d", "max_pool2d", "avg_pool2d", "pad", "upsample", "mean_image"),
)


# ---- recipes -----------------------------------------------------------------------------------------------------


def candidates(block: Block, shapes: Sequence[Shape], unread: set[int]) -> list[tuple[int, ...]]:
    """The values, or pairs of them, that a block takes; most often what nobody has read, so that networks grow deep."""
    numbers = range(len(shapes))
    if block.sources == 1:
        found = [(a,) for a in numbers if block.fits(shapes[a])]
    else:
        found = [(a, b) for a in numbers for b in numbers if a != b and block.fits(shapes[a], shapes[b])]
    return [sources for sources in found for _ in range(1 + 4 * len(unread.intersection(sources)))]


def draw_layer(rng: Random, shapes: Sequence[Shape], unread: set[int]) -> Layer | None:
    """None if what was drawn finds no value to work on, or would give none or too big a one."""
    name = one_of(rng, *FREQUENT, *BLOCKS)
    found = candidates(BLOCKS[name], shapes, unread)
    if not found:
        return None
    sources = rng.choice(found)
    drawn = Layer(name, sources, BLOCKS[name].draw(rng, shapes[sources[0]]))
    shape = result_shape(build(drawn, shapes), [shapes[source] for source in sources])
    return drawn if 0 < math.prod(shape) <= MOST_ELEMENTS and 0 < len(shape) <= MOST_RANK else None


def draw_input(rng: Random) -> Shape:
    """Mostly images; signals and vectors too."""
    rank, batch = one_of(rng, 4, 4, 4, 4, 3, 2), one_of(rng, 1, 1, 1, 1, 1, 2)
    shape = (batch, *(rng.choice(SIZES) for _ in range(rank - 1)))
    while math.prod(shape) > MOST_ELEMENTS:
        shape = (*shape[:2], *((size + 1) // 2 for size in shape[2:]))
    return shape


def pruned(recipe: Recipe) -> Recipe:
    """Without the inputs and layers that no output needs."""
    sources = [()] * len(recipe.inputs) + [layer.sources for layer in recipe.layers]
    needed = set(recipe.outputs)
    for number in reversed(range(len(sources))):
        needed.update(sources[number] if number in needed else ())
    new = {old: number for number, old in enumerate(sorted(needed))}
    first = len(recipe.inputs)
    return Recipe(
        inputs=tuple(shape for number, shape in enumerate(recipe.inputs) if number in needed),
        layers=tuple(
            Layer(layer.block, tuple(new[source] for source in layer.sources), layer.options)
            for number, layer in enumerate(recipe.layers, first)
            if number in needed
        ),
        outputs=tuple(new[output] for output in recipe.outputs),
        seed=recipe.seed,
    )


def draw_recipe(seed: int) -> Recipe:
    """One to three outputs, deep ones first: what they don't need is left out."""
    rng = Random(seed)
    inputs = [draw_input(rng) for _ in range(rng.randint(1, 2))]
    shapes, layers, unread = list(inputs), [], set(range(len(inputs)))
    for _ in range(rng.randint(10, 28)):
        drawn = draw_layer(rng, shapes, unread)
        if drawn is not None:
            shapes.append(result_shape(build(drawn, shapes), [shapes[source] for source in drawn.sources]))
            layers.append(drawn)
            unread = unread.difference(drawn.sources).union([len(shapes) - 1])
    made = range(len(inputs), len(shapes))
    ends = sorted(unread.intersection(made), reverse=True)[: rng.randint(1, 3)]
    inner = [rng.choice(made)] if made and rng.random() < 0.2 else []  # a value that is read and given away
    return pruned(Recipe(tuple(inputs), tuple(layers), tuple(dict.fromkeys(ends + inner)), seed))


def recipes() -> st.SearchStrategy[Recipe]:
    """Of some depth."""
    return st.integers(0, 2**32 - 1).map(draw_recipe).filter(lambda recipe: len(recipe.layers) >= 4)
