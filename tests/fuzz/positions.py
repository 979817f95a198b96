"""Blocks with integers and truth values in them: positions, ids, comparisons, choices.

Each takes and gives real numbers. Where a position or a comparison could fall either way, both ways give almost the
same: a code more or less must not make another network of it.
"""

from collections.abc import Callable
from random import Random

import torch
from torch import nn
from torch.nn import functional

from fuzz.choices import any_shape, at_least, aten, axis, coin, function, pair, rank, same, unary
from fuzz.recipe import Block, Options, Shape, Tensor

ALIKE = 0.02  # how far the rows of a table are apart


class Alike(nn.Module):
    """A table whose rows are almost the same: whichever is looked up, about the same comes out."""

    def __init__(self, shape: Shape, kind: str) -> None:
        super().__init__()
        self.kind, count = kind, shape[-1]
        self.table = nn.Parameter(torch.randn(1, 5) + ALIKE * torch.randn(count, 5))

    def forward(self, x: Tensor) -> Tensor:
        best = x.reshape(-1, x.shape[-1]).topk(min(3, x.shape[-1]), dim=-1).indices
        return KINDS[self.kind](self.table, best)


def _bag(table: Tensor, ids: Tensor) -> Tensor:
    """As nn.EmbeddingBag calls it, and as it was called before there was padding."""
    starts = torch.arange(0, ids.numel(), ids.shape[1])
    return aten.embedding_bag.default(table, ids.reshape(-1), starts, False, 0)[0]


KINDS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "rows": lambda table, ids: functional.embedding(ids, table),
    "mean": lambda table, ids: functional.embedding_bag(ids, table, mode="mean"),
    "sum": _bag,
    "padded": lambda table, ids: functional.embedding_bag(ids, table, mode="mean", padding_idx=0),
    "largest": lambda table, ids: functional.embedding_bag(ids, table, mode="max"),
}


def _kept(positions: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The largest of what is not left out by a comparison of positions that always holds."""

    def keep(x: Tensor, dim: int) -> Tensor:
        found = positions(x, dim)
        return x.amax(dim) * (found >= 0).float()

    return keep


def _sorted(x: Tensor, dim: int, descending: bool) -> Tensor:
    return aten.sort.default(x, dim, descending)[0]


def _sorted_stable(x: Tensor, dim: int, descending: bool) -> Tensor:
    return aten.sort.stable(x, stable=True, dim=dim, descending=descending)[0]


def _scaled(positions: Tensor, x: Tensor) -> Tensor:
    """By what is 1 for every position."""
    return x * (positions.float() + 1).clamp(0.0, 1.0)


def _ordered(x: Tensor, descending: bool) -> Tensor:
    return _scaled(aten.argsort.default(x, -1, descending), x)


def _ordered_stable(x: Tensor, descending: bool) -> Tensor:
    return _scaled(aten.argsort.stable(x, stable=True, dim=-1, descending=descending), x)


def _sorting(rng: Random, shape: Shape) -> Options:
    return dict(dim=axis(rng, shape), descending=coin(rng))


def _last(rng: Random, shape: Shape) -> Options:
    return dict(dim=-1)


def _both(a: Tensor, b: Tensor) -> Tensor:
    """Where both are above zero their smaller one, which is about zero where it is not so clear."""
    return torch.minimum(a, b) * ((a > 0) & (b > 0)).float()


def _either(a: Tensor, b: Tensor) -> Tensor:
    return torch.maximum(a, b) * ((a > 0) | (b > 0))


def _one(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(torch.logical_not((a > 0) ^ (b > 0)), 0.0, torch.minimum(a.abs(), b.abs()))


def _marked(x: Tensor, weight: float) -> Tensor:
    """By what is 1 wherever the largest value is."""
    return x * (1.0 - weight * functional.one_hot(x.argmax(-1), x.shape[-1]).float().sum(-1, keepdim=True))


def _written(x: Tensor, bound: float) -> Tensor:
    """`x[x > bound] = bound`, on a copy."""
    return x.index_put((x > bound,), torch.tensor(bound))


POSITIONS: dict[str, Block] = {
    **{
        f"embedding_{kind}": Block(at_least(2), lambda rng, shape, kind=kind: dict(kind=kind), Alike, weight=0.25)  # type: ignore[misc]
        for kind in KINDS
    },
    "argmax": Block(rank(2), _last, function(_kept(torch.argmax)), weight=0.5),
    "argmin": Block(
        any_shape, lambda rng, shape: dict(dim=axis(rng, shape)), function(_kept(torch.argmin)), weight=0.5
    ),
    "max_positions": Block(rank(4), _last, function(_kept(lambda x, dim: torch.max(x, dim)[1])), weight=0.5),
    "topk": Block(any_shape, _last, function(lambda x, dim: x.topk(1 + x.shape[-1] // 2, dim)[0]), weight=0.5),
    "sort": Block(any_shape, _sorting, function(_sorted), weight=0.5),
    "sort_stable": Block(any_shape, _sorting, function(_sorted_stable), weight=0.25),
    "argsort": unary(_ordered, descending=(False, True)),
    "argsort_stable": unary(_ordered_stable, descending=(False, True)),
    "larger_of_two": pair(lambda a, b: torch.where(a > b, a, b), same),
    "difference_above": pair(lambda a, b: (a - b).masked_fill(a < b, 0.0), same),
    "both": pair(_both, same),
    "either": pair(_either, same),
    "one": pair(_one, same),
    "one_hot": unary(_marked, weight=(0.25, -0.5)),
    "written_where": unary(_written, bound=(0.25, 0.5)),
}
