"""What the blocks share: conditions on shapes, small random choices, and ways to make a block of a function."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

import torch
from torch import nn

from fuzz.recipe import Block, Options, Shape, Tensor

SIZES = (8, 7, 9, 16, 15, 17, 4, 5, 3, 1, 2, 31, 33)  # around the kernels' tiles, and primes
MOST_ELEMENTS = 2048  # of one value: the emulated cores are to finish soon
MOST_RANK = 5
aten = torch.ops.aten


# ---- conditions ----------------------------------------------------------------------------------------------------


def any_shape(shape: Shape) -> bool:
    """With a dimension to work on."""
    return len(shape) >= 1


def rank(*ranks: int) -> Callable[[Shape], bool]:
    return lambda shape: len(shape) in ranks


def at_least(dims: int) -> Callable[[Shape], bool]:
    return lambda shape: len(shape) >= dims


image, signal = rank(4), rank(3)


def same(a: Shape, b: Shape) -> bool:
    return a == b


def broadcasts(a: Shape, b: Shape) -> bool:
    wide = max(len(a), len(b))
    padded = [(1,) * (wide - len(shape)) + shape for shape in (a, b)]
    pairs = list(zip(*padded, strict=True))
    return all(x == y or 1 in (x, y) for x, y in pairs) and math.prod(map(max, pairs)) <= MOST_ELEMENTS


# ---- choices -------------------------------------------------------------------------------------------------------


def no_options(rng: Random, shape: Shape) -> Options:
    return {}


def chosen(**choices: tuple[Any, ...]) -> Callable[[Random, Shape], Options]:
    """Each option one of those given."""
    return lambda rng, shape: {name: rng.choice(values) for name, values in choices.items()}


def one_of(rng: Random, *choices: Any) -> Any:
    return rng.choice(choices)


def coin(rng: Random) -> bool:
    return rng.random() < 0.5


def size_within(rng: Random, elements: float, multiple: int = 1) -> int:
    """A size near a tile's, such that the result stays small."""
    fitting = [size * multiple for size in SIZES if size * multiple * elements <= MOST_ELEMENTS]
    return rng.choice(fitting or [multiple])


def axis(rng: Random, shape: Shape) -> int:
    """A dimension, as often counted from the end."""
    dim = rng.randint(0, len(shape) - 1)
    return dim if coin(rng) else dim - len(shape)


def axes(rng: Random, shape: Shape) -> list[int]:
    return sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))


def over_one_axis(rng: Random, shape: Shape) -> Options:
    return dict(dim=axis(rng, shape))


def reducing(rng: Random, shape: Shape) -> Options:
    return dict(dim=axes(rng, shape), keepdim=coin(rng))


# ---- making --------------------------------------------------------------------------------------------------------


def function(call: Callable[..., Any]) -> Callable[..., Callable[..., Any]]:
    """A block whose options are the function's own."""
    return lambda shape, /, **options: partial(call, **options)


def unary(call: Callable[..., Any], fits: Callable[[Shape], bool] = any_shape, **choices: tuple[Any, ...]) -> Block:
    return Block(fits, chosen(**choices), function(call))


def pair(call: Callable[..., Any], fits: Callable[[Shape, Shape], bool] = broadcasts) -> Block:
    return Block(fits, no_options, function(call), sources=2)


class Held(nn.Module):
    """A function of a tensor and of parameters that the module holds."""

    def __init__(self, call: Callable[..., Any], held: Mapping[str, Tensor], options: Options) -> None:
        super().__init__()
        self.call, self.options = call, options
        self.held = nn.ParameterDict({name: nn.Parameter(value) for name, value in held.items()})

    def forward(self, *values: Tensor) -> Any:
        return self.call(*values, **dict(self.held.items()), **self.options)


def held(call: Callable[..., Any], shapes: Callable[[Shape], Mapping[str, Shape]]) -> Callable[..., Callable[..., Any]]:
    """A block whose function also takes parameters of these shapes."""

    def make(shape: Shape, /, **options: Any) -> nn.Module:
        return Held(call, {name: torch.randn(sizes) for name, sizes in shapes(shape).items()}, options)

    return make
