"""Writes at computed places, bags of computed sizes, pools that tell places, volumes that grow, rounded quotients."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cortado.plan.lowered import reference_outputs
from helpers.exact import assert_equal_to_eager, compiled, drawn
from helpers.single import Expression, decibels, randn

Draw = Callable[[torch.Generator], tuple[Tensor, ...]]


def integers(*bounds: tuple[int, int, tuple[int, ...]]) -> Draw:
    return lambda rng: tuple(torch.randint(low, high, size, generator=rng) for low, high, size in bounds)


def steps(*sizes: int) -> Draw:
    """Real numbers that are far enough from each other to be told apart by int8 codes."""
    return lambda rng: (torch.randint(-15, 16, sizes, generator=rng) / 8,)


def written(x: Tensor, i: Tensor, j: Tensor, v: Tensor) -> Tensor:
    x = x.clone()
    x[i, :, j] = v
    return x


PLACES = (-6, 6, (4,))
EXACT: dict[str, tuple[Callable[..., Tensor], Draw]] = {
    "the last of several": (lambda x, i, v: x.index_put((i,), v), integers((-90, 90, (6,)), PLACES, (-90, 90, (4,)))),
    "their sum": (lambda x, i, v: x.index_put((i,), v, True), integers((-90, 90, (6, 2)), PLACES, (-90, 90, (2,)))),
    "two lists": (
        lambda x, i, v: x.index_put((i % 3, i), v),
        integers((-90, 90, (3, 6, 2)), PLACES, (-90, 90, (4, 2))),
    ),
    "around a dimension": (written, integers((-90, 90, (6, 2, 6)), PLACES, (-6, 6, (3, 1)), (-90, 90, (3, 4, 2)))),
    "adaptive signal": (lambda x: F.adaptive_max_pool1d(x, 3, return_indices=True)[1], steps(1, 2, 7)),
    "adaptive image": (lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True)[1], steps(1, 2, 7, 5)),
    "adaptive volume": (lambda x: F.adaptive_max_pool3d(x, (2, 3, 2), return_indices=True)[1], steps(1, 2, 3, 4, 5)),
    "volume": (lambda x: F.max_pool3d(x, 2, 1, 1, return_indices=True)[1], steps(2, 3, 3, 4)),
}


@pytest.mark.parametrize("name", EXACT)
def test_places_and_integers_at_them_are_those_of_the_model(name: str) -> None:
    function, draw = EXACT[name]
    assert_equal_to_eager(Expression(function), draw)


TABLE = randn(9, 5, seed=3)


def bags(rng: torch.Generator) -> tuple[Tensor, ...]:
    """Ids and where each of four bags begins, one of them empty now and then."""
    starts = torch.randint(0, 9, (3,), generator=rng).sort().values
    return torch.randint(0, 9, (8,), generator=rng), torch.cat([torch.zeros(1, dtype=torch.int64), starts])


def weighed(rng: torch.Generator) -> tuple[Tensor, ...]:
    return *bags(rng), torch.rand(8, generator=rng)


def halves(rng: torch.Generator) -> tuple[Tensor, ...]:
    """Quotients half-way between integers, which no error of a code takes to the next one."""
    divisor = torch.randint(1, 4, (32,), generator=rng) / 2
    return (torch.randint(-15, 15, (32,), generator=rng) + 0.5) * divisor, divisor


def grown(stride: int, padding: int, rest: int, groups: int = 1, dilation: int = 1) -> Callable[..., Tensor]:
    weight = randn(4, 4 // groups, 3, 2, 3, scale=0.3)
    bias = randn(4, seed=1)
    return lambda x: F.conv_transpose3d(x, weight, bias, stride, padding, rest, groups, dilation)


def in_bags(mode: str, padding: int | None = None) -> Callable[..., Tensor]:
    return lambda ids, starts: F.embedding_bag(ids, TABLE, starts, mode=mode, padding_idx=padding)


REAL: dict[str, tuple[Callable[..., Tensor], Draw]] = {
    "written rows": (
        lambda x, i: torch.ops.aten.index_put(x[:, :6], [None, i], x[:, 6:]),
        lambda rng: (torch.rand(2, 10, 3, generator=rng), torch.randint(0, 6, (4,), generator=rng)),
    ),
    "volume": (grown(1, 1, 0), lambda rng: (torch.randn(1, 4, 3, 4, 3, generator=rng),)),
    "volume by two": (grown(2, 1, 1, groups=2), lambda rng: (torch.randn(2, 4, 3, 3, 2, generator=rng),)),
    "volume with gaps": (grown(3, 0, 2, dilation=3), lambda rng: (torch.randn(4, 2, 3, 2, generator=rng),)),
    "adaptive volume": (
        lambda x: F.adaptive_max_pool3d(x, (2, 3, 2)),
        lambda rng: (torch.randn(1, 2, 3, 4, 5, generator=rng),),
    ),
    "sums": (in_bags("sum"), bags),
    "means beside padding": (in_bags("mean", 4), bags),
    "maxima beside padding": (in_bags("max", 4), bags),
    "weighed sums": (
        lambda ids, starts, weights: F.embedding_bag(ids, TABLE, starts, mode="sum", per_sample_weights=weights),
        weighed,
    ),
    "floor": (lambda x, y: torch.floor_divide(x, y), halves),
    "towards zero": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), halves),
}


@pytest.mark.parametrize("name", REAL)
def test_real_numbers_are_near_those_of_the_model(name: str) -> None:
    function, draw = REAL[name]
    model = Expression(function)
    made = compiled(model, drawn(draw, 0))
    fresh = drawn(draw, 1)
    found = torch.stack([reference_outputs(made.graph, inputs)[0] for inputs in fresh])
    assert decibels(torch.stack([model(*inputs) for inputs in fresh]), found) > 30


def test_places_of_a_list_given_in_a_tuple_are_inputs() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor, places: tuple[Tensor, ...], values: Tensor) -> Tensor:
            return torch.index_put(x, places, values)

    x, places, values = torch.zeros(5), (torch.tensor([0, 2]),), torch.tensor([1.0, -1.0])
    made = compiled(Model(), [(x, places, values)])  # type: ignore[list-item]
    moved = reference_outputs(made.graph, (x, torch.tensor([3, 3]), values))[0]
    assert torch.allclose(moved, torch.tensor([0.0, 0.0, 0.0, -1.0, 0.0]), atol=0.02)
