"""Integers, truth state and settings of torch at which a compile ended in a traceback: beside the model itself."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from cortado.base.errors import CortadoError
from cortado.frontend.rewrite.integer_compare import _first_fraction, _lower_end
from cortado.plan.lowered import after, reference_outputs, run_reference
from helpers.exact import STEPS, assert_equal_to_eager, compiled, drawn
from helpers.single import Expression, decibels, randn


def positive(rng: torch.Generator) -> tuple[Tensor, ...]:
    return (torch.randint(1, 30, (6,), generator=rng),)


def placed(rng: torch.Generator) -> tuple[Tensor, ...]:
    return torch.randint(0, 5, (6,), generator=rng), torch.randint(-9, 50, (6,), generator=rng)


@pytest.mark.parametrize(
    ("function", "draw"),
    [
        (lambda n: 100 // n, positive),
        (lambda n: 7 % n, positive),
        (lambda i, v: torch.zeros(5, dtype=torch.int64).scatter_add(0, i, v), placed),
        (lambda i, v: torch.zeros(5, dtype=torch.int64).index_add(0, i, v), placed),
        (lambda i, v: torch.zeros(5, dtype=torch.int64).index_add(0, i, v, alpha=3), placed),
    ],
    ids=["quotient of a number", "rest of a number", "scatter_add", "index_add", "index_add times 3"],
)
def test_integers_are_those_of_the_model(function: Callable[..., Tensor], draw: Callable[..., Any]) -> None:
    assert_equal_to_eager(Expression(function), draw)


class Flags(nn.Module):
    """Truth values that last, changed by one of Python's operators in place."""

    flags: Tensor

    def __init__(self, how: str, start: bool) -> None:
        super().__init__()
        self.how = how
        self.register_buffer("flags", torch.full((4,), start))

    def forward(self, x: Tensor) -> Tensor:
        getattr(self.flags, self.how)(x > 0.5)
        return self.flags.clone()


@pytest.mark.parametrize(("how", "start"), [("__ior__", False), ("__ixor__", False), ("__iand__", True)])
def test_truth_state_is_changed_in_place(how: str, start: bool) -> None:
    """Inputs are 0 and 1: no rounding decides."""
    rng = torch.Generator().manual_seed(3)
    steps = [(torch.randint(0, 2, (4,), generator=rng).float(),) for _ in range(STEPS)]
    made = compiled(Flags(how, start), steps)
    eager = Flags(how, start)
    wanted = [eager(*one).clone() for one in steps]
    values: dict[str, Tensor] = {}
    for (step,), flags in zip(steps, wanted, strict=True):
        values = run_reference(made.graph, (step,), after(made.graph, values) if values else None)
        assert torch.equal(values[made.graph.outputs[0]].bool(), flags)


REPLACED: dict[str, Callable[[Tensor], Tensor]] = {
    "nan_to_num": lambda x: x.nan_to_num(0.125),
    "where": lambda x: torch.where(torch.isnan(x), torch.full_like(x, 0.125), x),
    "masked_fill": lambda x: x.masked_fill(x.isnan(), 0.125),
    "any": lambda x: torch.where(x.isnan().any(-1, keepdim=True), 0.125, x),
}


@pytest.mark.parametrize("how", REPLACED)
def test_a_number_stands_in_rows_that_minus_infinity_hides_whole(how: str) -> None:
    def parts(x: Tensor, keep: Tensor) -> Tensor:
        return REPLACED[how](x.masked_fill(~keep, -torch.inf).softmax(-1))

    def draw(rng: torch.Generator) -> tuple[Tensor, ...]:
        return 4 * torch.rand(3, 8, generator=rng) - 2, torch.rand(3, 1, generator=rng) > 0.5

    model = Expression(parts)
    made = compiled(model, drawn(draw, 0))
    for inputs in drawn(draw, 1):
        (found,) = reference_outputs(made.graph, inputs)
        assert float((found - model(*inputs)).abs().max()) < 2 / 256


def test_numbers_of_codes_are_finite() -> None:
    """Guards against NaN and infinity, which codes can't hold, choose the number itself."""

    def guarded(x: Tensor) -> tuple[Tensor, ...]:
        y = 2 * x
        return y.masked_fill(y.isnan() | y.isinf(), 0.5), torch.where(torch.isfinite(y), y, 0.5), y.isnan().any(-1)

    batches = [(randn(3, 8, seed=seed),) for seed in range(12)]
    made = compiled(Expression(guarded), batches[:8])
    for (x,) in batches[:2]:
        *found, none = reference_outputs(made.graph, (x,))
        assert not none.any()
        assert all(decibels(2 * x, one) > 30 for one in found)


def test_complex_factors_are_refused_in_a_sentence() -> None:
    with pytest.raises(CortadoError, match="gives complex numbers, expected real ones"):
        compiled(Expression(lambda x: (x * (1 + 2j)).abs()), [(randn(4),)])


@pytest.mark.parametrize("setting", ["autocast", "default dtype", "default device"])
def test_settings_of_torch_change_nothing(setting: str) -> None:
    torch.manual_seed(0)
    model, batches = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), [(randn(4, seed=seed),) for seed in range(8)]
    plain = compiled(model, batches).bundle
    if setting == "autocast":
        with torch.autocast("cpu"):
            found = compiled(model, batches).bundle
    else:
        undo = _change(setting)
        try:
            found = compiled(model, batches).bundle
        finally:
            undo()
    assert found.files == plain.files


def _change(setting: str) -> Callable[[], None]:
    if setting == "default dtype":
        torch.set_default_dtype(torch.float64)
        return lambda: torch.set_default_dtype(torch.float32)
    torch.set_default_device("meta")
    return lambda: torch.set_default_device(None)


def integers(low: int, high: int, count: int) -> Callable[[torch.Generator], tuple[Tensor, ...]]:
    return lambda rng: tuple(torch.randint(low, high, (16,), generator=rng) for _ in range(count))


def masks(rng: torch.Generator) -> tuple[Tensor, ...]:
    return torch.rand(8, 9, generator=rng) > 0.5, torch.rand(8, 9, generator=rng) > 0.5


def points(rng: torch.Generator) -> tuple[Tensor, ...]:
    return torch.randint(0, 6, (8, 3), generator=rng), torch.randint(0, 6, (8, 3), generator=rng)


@pytest.mark.filterwarnings("ignore:.*integers whose interval is not known")  # the products that compare quotients
@pytest.mark.parametrize(
    ("function", "draw"),
    [
        (lambda a, b: a / b == 2, integers(-9, 9, 2)),
        (lambda a, b: a / b != 2, integers(-9, 9, 2)),
        (lambda a, b: a / b >= 3, integers(-20, 20, 2)),
        (lambda a, b: a.float() / b < 0.3, integers(-50, 50, 2)),
        (lambda a, b, c: a / b > c, integers(-6, 6, 3)),
        (lambda a, b, c, d: a / b == c / d, integers(-4, 5, 4)),
        (lambda a, b, c, d: a / b.clamp(-5, -1) > c / d, integers(-4, 5, 4)),
        (lambda a, b: (a & b).float().sum(1) / (a | b).float().sum(1) >= 0.5, masks),
        (lambda a, b: ((a - b).float() ** 2).sum(1) <= 25, points),
    ],
    ids=["equal", "unequal", "at least", "below", "integer", "two", "two of signs", "masks", "squares"],
)
def test_quotients_and_squares_of_integers_are_compared_exactly(
    function: Callable[..., Tensor], draw: Callable[..., Any]
) -> None:
    """Division by zero included: infinities, and 0 / 0, which compares unequal to everything."""
    assert_equal_to_eager(Expression(function), draw)


def small(*sizes: int, count: int = 1, low: int = -2, high: int = 3) -> Callable[[torch.Generator], tuple[Tensor, ...]]:
    return lambda rng: tuple(
        torch.randint(low, high, sizes, generator=rng, dtype=torch.int32).to(torch.int8) for _ in range(count)
    )


MOVED: dict[str, tuple[Callable[..., Tensor], Callable[..., Any]]] = {
    "volumes of truth": (lambda x: functional.avg_pool3d((x > 0).float(), 2) == 0.5, small(1, 2, 4, 4, 4)),
    "padded volumes": (
        lambda x: functional.avg_pool3d((x > 0).float(), 2, stride=1, padding=1) == 0.25,
        small(1, 2, 4, 4, 4),
    ),
    "adaptive volumes": (lambda x: functional.adaptive_avg_pool3d((x > 0).float(), 2) == 0.5, small(1, 2, 4, 4, 4)),
    "adaptive images": (lambda x: functional.adaptive_avg_pool2d(x.float(), 2) > 0.75, small(1, 2, 4, 4)),
    "a mean that is moved": (lambda x: (x > 0).float().mean((2, 3)).view(-1).roll(1) == 0.5, small(1, 8, 2, 2)),
    "a diagonal": (lambda x: torch.diagonal(x.float(), 0, 1, 2).sum(1) == 1, small(1, 5, 5)),
    "one more dimension": (lambda x: (x > 0).float().unsqueeze(1).sum(2) == 8, small(1, 20)),
    "quotients beside one another": (lambda a, b: a / b == (a / b).roll(1, 1), small(1, 60, count=2)),
    "quotients of a row": (lambda a, b: (a / b)[:, 1:] >= (a / b)[:, :-1], small(1, 60, count=2)),
    "a negative number": (lambda a, b: a / -3 > b, small(1, 60, count=2, low=-50, high=50)),
    "a fraction": (lambda a, b: a / 2.5 <= b, small(1, 60, count=2, low=-50, high=50)),
    "a number that is none": (lambda a, b: a / 0.1 != b, small(1, 60, count=2, low=-50, high=50)),
    "a product with a real number": (lambda a, b: b < a * 0.4, small(1, 60, count=2, low=-50, high=50)),
    "a root of a column beside a row": (
        lambda a, b: a[:, :7, None].float().abs().sqrt() == b[:, None],
        small(1, 60, count=2, low=-5, high=17),
    ),
    "parts": (lambda a, b: torch.cat([one >= 1 for one in (a / b).chunk(2, 1)], 1), small(1, 60, count=2)),
    "parts that are put together again": (
        lambda a, b: torch.stack((a / b).unbind(1)[:9]) == torch.cat((a / b).split([51, 9], 1)[1:], 1).t(),
        small(1, 60, count=2),
    ),
    "beside other quotients": (lambda a, b: torch.cat([a / b, a / 3, b.float()], 1) > 0.5, small(1, 60, count=2)),
    "an integer divided by a number": (lambda a: (a / 10).flip(1) >= 0.5, small(1, 60, low=-20, high=21)),
    "percent": (lambda a, b: (a / b) * 100 >= 50, small(1, 60, count=2)),
    "a root": (lambda a, b: a.float().abs().sqrt() == b, small(1, 60, count=2, low=-5, high=17)),
}


@pytest.mark.parametrize("name", MOVED)
def test_means_and_quotients_of_integers_are_compared_exactly_behind_what_moves_them(name: str) -> None:
    assert_equal_to_eager(Expression(MOVED[name][0]), MOVED[name][1])


ROUNDED: tuple[Callable[[Tensor], Tensor], ...] = (Tensor.floor, Tensor.ceil, Tensor.trunc, Tensor.round, lambda x: x)


@pytest.mark.parametrize(
    "quotient",
    [lambda a, b: a / (b.abs().int() + 1), lambda a, b: torch.stack([a, b]).float().mean(0), lambda a, b: a / -4],
)
def test_quotients_of_integers_are_rounded_as_torch_rounds_them(quotient: Callable[..., Tensor]) -> None:
    def function(a: Tensor, b: Tensor) -> Tensor:
        return torch.stack([rounded(quotient(a, b)).long() for rounded in ROUNDED])

    assert_equal_to_eager(Expression(function), small(1, 60, count=2, low=-50, high=50))


def _first_replaced(x: Tensor) -> Tensor:
    y = x.clone()
    y[..., 0] = -7
    return y


def _truth_replaced(x: Tensor) -> Tensor:
    y = (x != 0).clone()
    y[..., 0] = -2
    return y


@pytest.mark.parametrize("kind", [torch.int8, torch.int16, torch.int32])
@pytest.mark.parametrize("function", [_first_replaced, _truth_replaced])
def test_a_number_is_written_into_integers_of_every_type(function: Callable[[Tensor], Tensor], kind: Any) -> None:
    assert_equal_to_eager(Expression(function), lambda rng: (torch.randint(-9, 9, (4, 6), generator=rng).to(kind),))


def test_the_first_fraction_beyond_a_number_is_the_smallest_there_is() -> None:
    for number in (0.3, 0.25, 1.0, -0.7, 3.1415927):
        end, included = _lower_end(np.float32(number))
        for most in (1, 2, 7, 40):
            found = _first_fraction(end, included, most)
            beyond = [
                Fraction(top, below)
                for below in range(1, most + 1)
                for top in range(int(end * below) - 2, int(end * below) + 3)
                if Fraction(top, below) > end or (included and Fraction(top, below) == end)
            ]
            assert found == min(beyond)
