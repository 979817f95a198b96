"""Data movement: slices, joins, borders, shapes; and what gives several results. Many of the results are views."""

import math
from random import Random
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from fuzz.choices import (
    MOST_ELEMENTS,
    MOST_RANK,
    any_shape,
    at_least,
    aten,
    axes,
    axis,
    broadcasts,
    chosen,
    coin,
    function,
    image,
    no_options,
    one_of,
    over_one_axis,
    pair,
    rank,
    same,
    unary,
)
from fuzz.recipe import Block, Options, Shape, Tensor

# ---- parts ---------------------------------------------------------------------------------------------------------


def slicing(rng: Random, shape: Shape) -> Options:
    dim = rng.randint(0, len(shape) - 1)
    start = rng.randint(0, shape[dim] - 1)
    return dict(dim=dim, start=start, end=rng.randint(start + 1, shape[dim]), step=one_of(rng, 1, 1, 2, 3))


def take(x: Tensor, dim: int, start: int, end: int, step: int) -> Tensor:
    return x[(slice(None),) * dim + (slice(start, end, step),)]


def narrowing(rng: Random, shape: Shape) -> Options:
    dim = rng.randint(0, len(shape) - 1)
    start = rng.randint(0, shape[dim] - 1)
    return dict(dim=dim, start=start, length=rng.randint(1, shape[dim] - start))


def selecting(rng: Random, shape: Shape) -> Options:
    dim = rng.randint(0, len(shape) - 1)
    return dict(dim=dim, index=rng.randint(-shape[dim], shape[dim] - 1))


def splitting(rng: Random, shape: Shape) -> Options:
    dim = rng.randint(0, len(shape) - 1)
    chunks = rng.randint(1, min(3, shape[dim]))
    return dict(dim=dim, chunks=chunks, keep=rng.sample(range(3), rng.randint(1, 3)))


def chunks_joined(x: Tensor, dim: int, chunks: int, keep: list[int]) -> Tensor:
    """Some chunks of a tensor, in another order."""
    parts = torch.chunk(x, chunks, dim)
    return torch.cat([parts[index % len(parts)] for index in keep], dim)


def into_parts(rng: Random, shape: Shape) -> Options:
    kind = one_of(rng, "chunk", "split", "sizes", "split_with_sizes", "tensor_split", "indices", "unbind")
    dims = [dim for dim, size in enumerate(shape) if size >= 2] or [0]
    if kind == "unbind":
        dims = [dim for dim in dims if shape[dim] <= 5] or [0]
    dim = rng.choice(dims)
    return dict(kind=kind, dim=dim, at=rng.randint(1, max(shape[dim] - 1, 1)))


def parts(x: Tensor, kind: str, dim: int, at: int) -> Any:
    """One tensor as two or three of its parts, which are views of it."""
    size = x.shape[dim]
    sizes = [at, size - at] if at < size else [size]
    calls = {
        "chunk": lambda: torch.chunk(x, 2, dim),
        "split": lambda: torch.split(x, max(size // 2, 1), dim),
        "sizes": lambda: aten.split.sizes(x, sizes, dim),
        "split_with_sizes": lambda: aten.split_with_sizes.default(x, sizes, dim),
        "tensor_split": lambda: torch.tensor_split(x, 2, dim),
        "indices": lambda: torch.tensor_split(x, (at,), dim),
        "unbind": lambda: torch.unbind(x, dim),
    }
    return tuple(calls[kind]())


def gathering(rng: Random, shape: Shape) -> Options:
    dim = rng.randint(0, len(shape) - 1)
    return dict(dim=dim, index=[rng.randint(0, shape[dim] - 1) for _ in range(rng.randint(1, shape[dim]))])


class Gather(nn.Module):
    """Constant positions along one dimension."""

    index: Tensor

    def __init__(self, shape: Shape, dim: int, index: list[int], select: bool) -> None:
        super().__init__()
        self.dim, self.select = dim, select
        self.register_buffer("index", torch.tensor(index))

    def forward(self, x: Tensor) -> Tensor:
        if self.select:
            return torch.index_select(x, self.dim, self.index)
        return x[(slice(None),) * self.dim + (self.index,)]


# ---- borders -------------------------------------------------------------------------------------------------------


def bordering(rng: Random, shape: Shape) -> Options:
    """Up to three of the last dimensions; a negative pad cuts."""
    dims = rng.randint(1, min(3, len(shape)))
    low = [-1 if size > 2 and rng.random() < 0.15 else 0 for size in shape[::-1][:dims]]
    pad = tuple(rng.randint(least, 2) for least in low for _ in range(2))
    return dict(pad=pad, value=one_of(rng, 0.0, 0.5, -1.0))


def reflecting(rng: Random, shape: Shape) -> Options:
    """As torch has it: the last n - 1 or n - 2 dimensions of n."""
    sides = shape[2:] if len(shape) > 2 else shape[1:]
    pad = tuple(rng.randint(0, min(2, side - 1)) for side in reversed(sides) for _ in range(2))
    return dict(pad=pad, mode=one_of(rng, "reflect", "replicate"))


def reflected(x: Tensor, pad: Shape, mode: str) -> Tensor:
    """By aten's own names, which is what graphs hold."""
    name = {"reflect": "reflection", "replicate": "replication"}[mode]
    return getattr(aten, f"{name}_pad{len(pad) // 2}d").default(x, list(pad))


# ---- shapes --------------------------------------------------------------------------------------------------------


def reshaping(rng: Random, shape: Shape) -> Options:
    """Two neighbouring dimensions become one, or one becomes two."""
    dim = rng.randint(0, len(shape) - 1)
    divisors = [d for d in range(1, shape[dim] + 1) if shape[dim] % d == 0]
    if dim + 1 < len(shape) and (len(shape) == MOST_RANK or coin(rng)):
        return dict(shape=[*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]])
    first = rng.choice(divisors)
    return dict(shape=[*shape[:dim], first, shape[dim] // first, *shape[dim + 1 :]])


def unflattening(rng: Random, shape: Shape) -> Options:
    dim = rng.randint(0, len(shape) - 1)
    divisors = [d for d in range(1, shape[dim] + 1) if shape[dim] % d == 0]
    first = rng.choice(divisors)
    return dict(dim=dim, sizes=(first, shape[dim] // first))


def permuting(rng: Random, shape: Shape) -> Options:
    return dict(dims=rng.sample(range(len(shape)), len(shape)))


def two_dims(first: str, second: str) -> Any:
    return lambda rng, shape: {first: axis(rng, shape), second: axis(rng, shape)}


def moving(rng: Random, shape: Shape) -> Options:
    dims = rng.sample(range(len(shape)), min(2, len(shape)))
    return dict(source=dims, destination=dims[::-1])


def expanding(rng: Random, shape: Shape) -> Options:
    """Dimensions of one value become wider, or one more stands in front."""
    wide = [one_of(rng, 2, 3, 5) if size == 1 and coin(rng) else size for size in shape]
    return dict(size=([2] if len(shape) < MOST_RANK and rng.random() < 0.3 else []) + wide)


def repeating(rng: Random, shape: Shape) -> Options:
    return dict(repeats=[one_of(rng, 1, 1, 2, 3) for _ in shape])


def rolling(rng: Random, shape: Shape) -> Options:
    return dict(dims=axis(rng, shape), shifts=rng.randint(-3, 3))


def upsampling(rng: Random, shape: Shape) -> Options:
    factors = [one_of(rng, 1, 2, 2, 3) for _ in shape[2:]]
    while math.prod(factors) * math.prod(shape) > MOST_ELEMENTS and max(factors) > 1:
        factors[factors.index(max(factors))] = 1
    return dict(factors=factors, exact=coin(rng), sized=coin(rng))


def upsampled(x: Tensor, factors: list[int], exact: bool, sized: bool) -> Tensor:
    """By aten's own names: by the result's size, or by the factors."""
    packet = getattr(aten, f"{'_upsample_nearest_exact' if exact else 'upsample_nearest'}{len(factors)}d")
    sizes = [side * factor for side, factor in zip(x.shape[2:], factors, strict=True)]
    return packet.default(x, sizes) if sized else packet.vec(x, None, [float(factor) for factor in factors])


def resizing(rng: Random, shape: Shape) -> Options:
    found = upsampling(rng, shape)
    return dict(factors=found["factors"], sized=found["sized"], align=coin(rng))


def resized(x: Tensor, factors: list[int], sized: bool, align: bool) -> Tensor:
    """Linear between the elements, by aten's own names."""
    packet = aten.upsample_linear1d if len(factors) == 1 else aten.upsample_bilinear2d
    sizes = [side * factor + (side > 2) for side, factor in zip(x.shape[2:], factors, strict=True)]
    return packet.default(x, sizes, align) if sized else packet.vec(x, None, align, [float(f) for f in factors])


# ---- joins ---------------------------------------------------------------------------------------------------------


def joins(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and sum(x != y for x, y in zip(a, b, strict=True)) <= 1


def joined(a: Tensor, b: Tensor) -> Tensor:
    """Along the dimension that differs, or else the last but one."""
    different = [d for d in range(a.dim()) if a.shape[d] != b.shape[d]]
    return torch.cat([a, b, a], different[0] if different else max(a.dim() - 2, 0))


def stacks(a: Shape, b: Shape) -> bool:
    return a == b and len(a) < MOST_RANK


def fours(shape: Shape) -> bool:
    return image(shape) and shape[1] % 4 == 0


def evens(shape: Shape) -> bool:
    return image(shape) and shape[2] % 2 == 0 == shape[3] % 2


VIEWS: dict[str, Block] = {
    "slice": Block(any_shape, slicing, function(take), weight=2),
    "narrow": Block(any_shape, narrowing, function(torch.narrow)),
    "select": Block(at_least(2), selecting, function(torch.select), weight=2),
    "parts": Block(at_least(1), into_parts, function(parts), weight=6),
    "permute": Block(at_least(2), permuting, function(torch.permute), weight=2),
    "transpose": Block(at_least(2), two_dims("dim0", "dim1"), function(torch.transpose)),
    "swapaxes": Block(at_least(2), two_dims("axis0", "axis1"), function(torch.swapaxes)),
    "swapdims": Block(at_least(2), two_dims("dim0", "dim1"), function(torch.swapdims)),
    "movedim": Block(at_least(2), moving, function(torch.movedim)),
    "moveaxis": Block(at_least(2), moving, function(torch.moveaxis)),
    "movedim_int": Block(at_least(2), two_dims("source", "destination"), function(torch.movedim)),
    "moveaxis_int": Block(at_least(2), two_dims("source", "destination"), function(torch.moveaxis)),
    "t": unary(torch.t, rank(1, 2)),
    "mT": unary(lambda x: x.mT, at_least(2)),
    "adjoint": unary(torch.adjoint, at_least(2)),
    "numpy_T": unary(lambda x: x.T, rank(2)),
    "reshape": Block(any_shape, reshaping, function(torch.reshape), weight=2),
    "view": Block(any_shape, reshaping, lambda s, shape: lambda x: x.contiguous().view(shape)),
    "view_copy": Block(any_shape, reshaping, lambda s, shape: lambda x: aten.view_copy.default(x.contiguous(), shape)),
    "unsafe_view": Block(
        any_shape, reshaping, lambda s, shape: lambda x: aten._unsafe_view.default(x.contiguous(), shape)
    ),
    "unflatten": Block(lambda s: 1 <= len(s) < MOST_RANK, unflattening, function(torch.unflatten)),
    "flatten": Block(any_shape, over_one_axis, lambda s, dim: lambda x: torch.flatten(x, dim)),
    "ravel": unary(torch.ravel),
    "squeeze": unary(torch.squeeze, lambda s: math.prod(s) > 1),
    "squeeze_dim": Block(at_least(2), over_one_axis, function(torch.squeeze)),
    "squeeze_dims": Block(at_least(2), lambda r, s: dict(dim=tuple(axes(r, s)[:1])), function(torch.squeeze)),
    "unsqueeze": Block(lambda s: 1 <= len(s) < MOST_RANK, over_one_axis, function(torch.unsqueeze)),
    "view_as": pair(lambda a, b: a.contiguous().view_as(b), lambda a, b: math.prod(a) == math.prod(b)),
    "reshape_as": pair(lambda a, b: a.reshape_as(b), lambda a, b: math.prod(a) == math.prod(b)),
    "expand": Block(any_shape, expanding, lambda s, size: lambda x: x.expand(size)),
    "broadcast_to": Block(any_shape, expanding, lambda s, size: lambda x: torch.broadcast_to(x, size)),
    "expand_copy": Block(any_shape, expanding, lambda s, size: lambda x: aten.expand_copy.default(x, size)),
    "expand_as": pair(
        lambda a, b: a.expand_as(b),
        lambda a, b: (
            broadcasts(a, b) and len(a) <= len(b) and all(x in (1, y) for x, y in zip(a[::-1], b[::-1], strict=False))
        ),
    ),
    "broadcast_tensors": Block(
        broadcasts, no_options, lambda s: lambda a, b: tuple(torch.broadcast_tensors(a, b)), sources=2, wild=True
    ),
    "atleast_1d": unary(torch.atleast_1d),
    "atleast_2d": unary(torch.atleast_2d),
    "atleast_3d": unary(torch.atleast_3d),
    "alias": Block(
        any_shape,
        chosen(kind=("type_as", "contiguous", "to", "detach", "alias", "positive", "view")),
        lambda s, kind: lambda x: alias(x, kind),
        weight=4,
    ),
    "undeclared_alias": Block(
        any_shape, chosen(kind=("sum_to_size", "einsum")), lambda s, kind: lambda x: alias(x, kind), wild=True
    ),
    "dropout": Block(
        any_shape,
        chosen(kind=("Dropout", "AlphaDropout", "FeatureAlphaDropout", "Identity", "feature_dropout")),
        lambda s, kind: getattr(nn, kind)() if hasattr(nn, kind) else lambda x: torch.feature_dropout(x, 0.5, False),
        weight=4,
    ),
    "copy": Block(
        any_shape,
        chosen(kind=("clone", "permuted", "to")),
        lambda s, kind: lambda x: copied(x, kind),
        weight=2,
    ),
}


def alias(x: Tensor, kind: str) -> Tensor:
    """The same memory under another name, whatever the operator's schema says of it."""
    letters = "abcdefg"[: x.dim()]
    calls = {
        "type_as": lambda: x.type_as(x),
        "contiguous": lambda: x.contiguous(),
        "to": lambda: x.to(torch.float32),
        "detach": lambda: x.detach(),
        "alias": lambda: aten.alias.default(x),
        "sum_to_size": lambda: x.sum_to_size(x.shape),
        "einsum": lambda: torch.einsum(f"{letters}->{letters[::-1]}", x),
        "positive": lambda: torch.positive(x),
        "view": lambda: x.view_as(x),
    }
    return calls[kind]()


def copied(x: Tensor, kind: str) -> Tensor:
    """Memory of its own."""
    if kind == "clone":
        return x.clone()
    if kind == "permuted":
        return x.permute(*reversed(range(x.dim()))).clone(memory_format=torch.contiguous_format)
    return x.to(torch.float32, copy=True)


MOVEMENTS: dict[str, Block] = {
    **VIEWS,
    "chunk": Block(any_shape, splitting, function(chunks_joined), weight=2),
    "index": Block(any_shape, gathering, lambda s, **options: Gather(s, **options, select=False)),
    "index_select": Block(any_shape, gathering, lambda s, **options: Gather(s, **options, select=True)),
    "pad": Block(any_shape, bordering, function(functional.pad), weight=3),
    "constant_pad_nd": Block(any_shape, bordering, function(aten.constant_pad_nd.default)),
    "reflect": Block(rank(2, 3, 4, 5), reflecting, function(reflected), weight=2),
    "upsample": Block(rank(3, 4, 5), upsampling, function(upsampled), weight=4),
    "upsample_linear": Block(rank(3, 4), resizing, function(resized), weight=2),
    "pixel_shuffle": unary(lambda x: functional.pixel_shuffle(x, 2), fours),
    "pixel_unshuffle": unary(lambda x: functional.pixel_unshuffle(x, 2), evens),
    "channel_shuffle": unary(lambda x: torch.channel_shuffle(x, 2), fours),
    "native_channel_shuffle": unary(lambda x: aten.native_channel_shuffle.default(x, 2), fours),
    "flip": Block(any_shape, lambda rng, shape: dict(dims=axes(rng, shape)), function(torch.flip)),
    "fliplr": unary(torch.fliplr, at_least(2)),
    "flipud": unary(torch.flipud, at_least(1)),
    "roll": Block(any_shape, rolling, function(torch.roll)),
    "repeat": Block(any_shape, repeating, lambda s, repeats: lambda x: x.repeat(repeats)),
    "tile": Block(any_shape, repeating, lambda s, repeats: lambda x: torch.tile(x, repeats)),
    "repeat_interleave": Block(
        any_shape,
        lambda rng, shape: dict(repeats=one_of(rng, 1, 2, 3), dim=axis(rng, shape)),
        function(torch.repeat_interleave),
    ),
    "cat": Block(joins, no_options, function(joined), sources=2, weight=8),
    "concat": pair(lambda a, b: torch.concat([a, b], -1), lambda a, b: a[:-1] == b[:-1] and len(a) == len(b) >= 1),
    "concatenate": pair(lambda a, b: torch.concatenate([b, a], 0), lambda a, b: a[1:] == b[1:] and len(a) == len(b)),
    "hstack": pair(lambda a, b: torch.hstack([a, b]), same),
    "vstack": pair(lambda a, b: torch.vstack([a, b]), same),
    "dstack": pair(lambda a, b: torch.dstack([a, b]), same),
    "column_stack": pair(lambda a, b: torch.column_stack([a, b]), same),
    "stack": pair(lambda a, b: torch.stack([a, b], -1), stacks),
}
