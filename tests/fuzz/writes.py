"""Writes into memory that exists already: in-place operators, `+=`, assignments to parts.

Each gives the tensor that it wrote. Whether somebody else sees the write depends on who shares the memory.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from torch import nn
from torch.nn import functional

from fuzz.choices import any_shape, aten, broadcasts, no_options
from fuzz.movements import slicing, take
from fuzz.recipe import Block, Options, Shape, Tensor


def fits_into(a: Shape, b: Shape) -> bool:
    """b broadcasts to the shape of a."""
    return broadcasts(a, b) and len(b) <= len(a) and all(y in (1, x) for x, y in zip(a[::-1], b[::-1], strict=False))


def plus(x: Tensor, y: Tensor) -> Tensor:
    x += y
    return x


def times(x: Tensor, y: Tensor) -> Tensor:
    x *= y
    return x


def part_written(x: Tensor, call: str, **where: int) -> Tensor:
    """`v = x[...]; v.f_()`: the whole sees what is written to the part."""
    getattr(take(x, **where), call)()
    return x


def part_assigned(x: Tensor, y: Tensor) -> Tensor:
    x[...] = y
    return x


def part_added(x: Tensor, **where: int) -> Tensor:
    part = take(x, **where)
    part += 0.5
    return x


UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "relu_": lambda x: x.relu_(),
    "F.relu_": lambda x: functional.relu(x, inplace=True),
    "nn.ReLU": nn.ReLU(inplace=True),
    "nn.ReLU6": nn.ReLU6(inplace=True),
    "nn.Hardswish": nn.Hardswish(inplace=True),
    "nn.SiLU": nn.SiLU(inplace=True),
    "nn.ELU": nn.ELU(inplace=True),
    "nn.LeakyReLU": nn.LeakyReLU(0.1, inplace=True),
    "nn.Hardtanh": nn.Hardtanh(inplace=True),
    "clamp_": lambda x: x.clamp_(-0.75, 1.0),
    "clamp_min_": lambda x: x.clamp_min_(0.0),
    "clamp_max_": lambda x: x.clamp_max_(0.9),
    "hardswish_": lambda x: aten.hardswish_.default(x),
    "hardtanh_": lambda x: aten.hardtanh_.default(x),
    "sigmoid_": lambda x: x.sigmoid_(),
    "tanh_": lambda x: x.tanh_(),
    "neg_": lambda x: x.neg_(),
    "abs_": lambda x: x.abs_(),
    "square_": lambda x: x.square_(),
    "add_scalar_": lambda x: x.add_(0.5),
    "mul_scalar_": lambda x: x.mul_(-0.75),
    "sub_scalar_": lambda x: x.sub_(0.25),
    "div_scalar_": lambda x: x.div_(1.5),
    "masked_fill_": lambda x: x.masked_fill_(x > 0.5, 0.25),
    "nn.Dropout": nn.Dropout(inplace=True),
    "dropout then +=": lambda x: functional.dropout(x, training=False).add_(0.25),
    "alpha_dropout then mul_": lambda x: nn.AlphaDropout().eval()(x).mul_(0.5),
}
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "+=": plus,
    "*=": times,
    "add_": lambda x, y: x.add_(y),
    "add_alpha_": lambda x, y: x.add_(y, alpha=0.5),
    "sub_": lambda x, y: x.sub_(y),
    "mul_": lambda x, y: x.mul_(y),
    "torch.add(out of dropout)": lambda x, y: functional.dropout(x, training=False).add_(y),
}


COPIES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"copy_": lambda x, y: x.copy_(y), "[...] =": part_assigned}


def part(rng: Random, shape: Shape) -> Options:
    return dict(call=rng.choice(("relu_", "neg_", "sigmoid_")), **slicing(rng, shape))


def kind_of(table: dict[str, Any]) -> Any:
    return lambda rng, shape: dict(kind=rng.choice(list(table)))


def row_shared(x: Tensor) -> Tensor:
    """A running sum, one row into the next, all of them one memory."""
    for number in range(1, x.shape[0]):
        x[number].add_(x[number - 1], alpha=0.5)
    return x


WRITES: dict[str, Block] = {
    "in_place": Block(any_shape, kind_of(UNARY), lambda shape, kind: UNARY[kind], writes=True, weight=10),
    "in_place_pair": Block(
        fits_into, kind_of(BINARY), lambda shape, kind: BINARY[kind], sources=2, writes=True, weight=6
    ),
    "copied_into": Block(
        fits_into, kind_of(COPIES), lambda shape, kind: COPIES[kind], sources=2, writes=True, wild=True
    ),
    "part_written": Block(any_shape, part, lambda shape, **o: lambda x: part_written(x, **o), writes=True, wild=True),
    "part_added": Block(any_shape, slicing, lambda shape, **o: lambda x: part_added(x, **o), writes=True, wild=True),
    "row_shared": Block(
        lambda s: len(s) >= 2 and 2 <= s[0] <= 4, no_options, lambda shape: row_shared, writes=True, wild=True
    ),
    "unsqueeze_": Block(
        lambda s: len(s) < 4, no_options, lambda shape: lambda x: x.view(x.shape).unsqueeze_(0), writes=True, weight=0.5
    ),
}
