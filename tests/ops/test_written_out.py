"""Bits, orders, products and positions of integers: equal to those of the model itself."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cortado.base.errors import CortadoError
from cortado.plan.lowered import reference_outputs
from helpers.exact import assert_equal_to_eager, compiled, drawn
from helpers.single import Expression, decibels

pytestmark = pytest.mark.filterwarnings("ignore:.*calculates in int64 with integers whose interval is not known")

Draw = Callable[[torch.Generator], tuple[Tensor, ...]]


def integers(low: int, high: int, *sizes: tuple[int, ...]) -> Draw:
    return lambda rng: tuple(torch.randint(low, high, one, generator=rng) for one in sizes)


def truths(*sizes: tuple[int, ...]) -> Draw:
    return lambda rng: tuple(torch.rand(one, generator=rng) > 0.5 for one in sizes)


def steps(*sizes: tuple[int, ...]) -> Draw:
    """Real numbers that are far enough from each other to be told apart by int8 codes."""
    return lambda rng: tuple(torch.randint(-15, 16, one, generator=rng) / 8 for one in sizes)


WEIGHT = torch.arange(-15, 15).reshape(6, 5) % 7 - 3
BOUNDARIES = torch.tensor([-0.9375, 0.3125, 1.0625])  # half-way between numbers that are drawn
BUCKETS = torch.tensor([5.0, -3.0, 2.0, 7.0, 0.0, 4.0, -8.0, 1.0])
CASES: dict[str, tuple[Callable[..., Tensor], Draw]] = {
    "bits": (lambda a, b: ((a & b) | (a ^ 21)) ^ ~b, integers(-90, 90, (8,), (8,))),
    "shifts": (lambda a: (a >> 2) + (a << 3), integers(-90, 90, (8,))),
    "computed shifts": (lambda a, b: (a >> b) - (a << b), integers(0, 9, (8,), (8,))),
    "shifts by all bits": (lambda a, b: a.int() << b.int(), integers(0, 36, (300,), (300,))),
    "relu": (lambda a: a.relu(), integers(-90, 90, (8,))),
    "argmax": (lambda a: a.argmax(-1), integers(-9, 9, (3, 8))),
    "argmin of all": (lambda a: a.argmin(), integers(-9, 9, (3, 8))),
    "max": (lambda a: a.max(1)[0] * 100 + a.max(1)[1], integers(-9, 9, (3, 8))),
    "sort": (lambda a: a.sort(-1).values, integers(-500, 500, (3, 8))),
    "ranks": (lambda a: a.sort(dim=0, descending=True, stable=True)[1], integers(-9, 9, (8, 3))),
    "topk": (lambda a: a.topk(3).values, integers(-500, 500, (3, 8))),
    "product with constants": (lambda a: a @ WEIGHT, integers(-50, 50, (4, 6))),
    "product": (lambda a, b: a @ b, integers(-50, 50, (2, 4, 6), (2, 6, 3))),
    "truth values": (lambda a, b: (a + b) & (a * b).logical_not(), truths((8,), (8,))),
    "largest truth value": (lambda a: a.amax(1), truths((3, 8))),
    "isin": (lambda a: torch.isin(a, torch.tensor([1, 5, 7])), integers(0, 10, (8,))),
    "bucketize": (lambda a: torch.bucketize(a, BOUNDARIES), steps((8,))),
    "searchsorted": (lambda a: torch.searchsorted(BOUNDARIES, a, right=True), steps((8,))),
    "integers of reals": (lambda a: (4 * a + 0.25).floor().long() % 5, steps((8,))),
    "buckets": (lambda a: BUCKETS[(2 * a + 4.125).to(torch.int32).clamp(0, 7)].to(torch.int64), steps((8,))),
    "comparisons that always or never hold": (
        lambda a: (a / 9 > -3e9) & ~(a.float() * 0.5 >= 3e9),
        integers(-90, 90, (8,)),
    ),
    "integers of a count": (lambda a: (a.float().sum(1).sqrt() * 3).floor().long(), truths((3, 40))),
    "integers of truth values": (lambda a: (a.to(torch.uint8).float() * 1.7).long(), truths((3, 4))),
    "a position without dimensions": (lambda t, i: t[i] - t[:, i - 3].sum(), integers(0, 4, (4, 4), ())),
    "the largest row": (lambda t, i: t[t.sum(1).argmax()] + i, integers(-99, 99, (6, 4), ())),
    "two positions without dimensions": (lambda t, i: t[i, -i - 1], integers(0, 4, (4, 4), ())),
    "topk in any order": (lambda a: a.topk(5, sorted=False).values.sum(-1), integers(-500, 500, (3, 8))),
    "two lists of positions": (lambda t, q: t[q % 6, q % 4], integers(-40, 40, (6, 4), (5,))),
}


@pytest.mark.parametrize("name", CASES)
def test_integers_and_truth_values_are_those_of_the_model(name: str) -> None:
    function, draw = CASES[name]
    assert_equal_to_eager(Expression(function), draw)


def test_a_function_of_integers_that_may_be_anything_is_refused() -> None:
    with pytest.raises(CortadoError, match=r"integers whose interval is unknown"):
        compiled(Expression(lambda a: (a.float() * 0.3).long()), drawn(integers(0, 9, (1, 8)), 0))


def test_rows_that_are_too_long_to_be_sorted_are_refused() -> None:
    with pytest.raises(CortadoError, match="integer"):
        compiled(Expression(lambda a: a.sort(-1).values), drawn(integers(0, 9, (1, 65)), 0))


@pytest.mark.parametrize(("groups", "stride"), [(1, 1), (3, 2)])
def test_a_convolution_with_computed_weights_is_a_product(groups: int, stride: int) -> None:
    def correlated(x: Tensor, w: Tensor) -> Tensor:
        return F.conv2d(x, w, padding=1, stride=stride, groups=groups)

    model, draw = Expression(correlated), steps((1, 3, 8, 8), (6, 3 // groups, 3, 3))
    graph = compiled(model, drawn(draw, 0)).graph
    pairs = [(model(*inputs), reference_outputs(graph, inputs)[0]) for inputs in drawn(draw, 1)]
    assert decibels(*(torch.cat(values) for values in zip(*pairs, strict=True))) > 35


def test_the_smallest_of_what_infinity_leaves() -> None:
    def draw(rng: torch.Generator) -> tuple[Tensor, ...]:
        values = (torch.randperm(48, generator=rng) - 24).reshape(2, 24) / 16
        return values, torch.rand(2, 24, generator=rng) < 0.3

    model = Expression(lambda x, m: x.masked_fill(m, torch.inf).argmin(1))
    assert_equal_to_eager(model, draw)
