"""However a mask is written: what is hidden has probability 0, and the rest is as accurate as behind masked_fill."""

import math
from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import nn
from torch.nn import functional

from cortado.frontend.capture.export import capture
from cortado.frontend.rewrite.pipeline import canonicalize
from cortado.ir.graph import is_call
from cortado.ops.softmax.masked_softmax import SOFTMAX_KEPT
from helpers.single import Function, decibels, lower_on, randn, rejected

Tensor = torch.Tensor
SIZE = 6
AHEAD = torch.ones(SIZE, SIZE, dtype=torch.bool).triu(1)
SECOND = torch.arange(SIZE) == 1
EDGE = torch.full((SIZE, 1), -math.inf)


def written(s: Tensor, fill: float) -> Tensor:
    s = s.clone()
    s[:, 1:2] = fill
    return s


def added(s: Tensor, fill: float) -> Tensor:
    s = s.clone()
    s[:, 1:2] += fill
    return s


def filled(s: Tensor, fill: float) -> Tensor:
    s = s.clone()
    s[:, 1].fill_(fill)
    return s


BY_MASK: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "masked_fill": lambda s, m, fill: s.masked_fill(m, fill),
    "new_full": lambda s, m, fill: torch.where(m, s.new_full(s.shape, fill), s),
    "two of them": lambda s, m, fill: torch.where(m, s.new_full((), fill), torch.where(m, s.new_full((), fill), s)),
    "zeros_like, filled": lambda s, m, fill: torch.where(m, torch.zeros_like(s).fill_(fill), s),
    "empty_like, filled": lambda s, m, fill: torch.where(m, torch.empty_like(s).fill_(fill), s),
    "masked_scatter": lambda s, m, fill: s.masked_scatter(m.expand(s.shape), torch.full_like(s, fill)),
    "index_put": lambda s, m, fill: s.index_put((m.expand(s.shape),), torch.tensor(fill)),
    "minimum": lambda s, m, fill: torch.minimum(s, torch.where(m, fill, math.inf)),
    "quotient": lambda s, m, fill: s + (-1.0 * m) / 1e-9,
    "xlogy": lambda s, m, fill: s + torch.special.xlogy(1.0, (~m).float()),
    "padded mask": lambda s, m, fill: functional.pad(s, (0, 1)) + functional.pad(m * -1e9, (0, 1), value=-1e9),
}
BY_PLACE: dict[str, Callable[[Tensor, float], Tensor]] = {
    "written": written,
    "added": lambda s, fill: added(s, -1e9),
    "filled": filled,
    "select_scatter": lambda s, fill: torch.select_scatter(s, torch.full((SIZE,), fill), 1, 1),
    "slice_scatter": lambda s, fill: torch.slice_scatter(s, torch.full((SIZE, 1), fill), 1, 1, 2),
    "index_fill": lambda s, fill: s.index_fill(1, torch.tensor([1]), fill),
    "index_copy": lambda s, fill: s.index_copy(1, torch.tensor([1]), torch.full((SIZE, 1), fill)),
    "scatter": lambda s, fill: s.scatter(1, torch.ones(SIZE, 1, dtype=torch.long), fill),
    "scatter of a tensor": lambda s, fill: s.scatter(
        1, torch.ones(SIZE, 1, dtype=torch.long), torch.full((SIZE, 1), fill)
    ),
    "cat": lambda s, fill: torch.cat([s[:, :1], s.new_full((SIZE, 1), fill), s[:, 2:]], 1),
    "hstack": lambda s, fill: torch.hstack([torch.full((SIZE, 2), fill), s]),
    "pad": lambda s, fill: functional.pad(s, (1, 2), value=fill),
}


def batch(seed: int, size: float) -> tuple[Tensor, Tensor]:
    hidden = torch.rand(1, SIZE, generator=torch.Generator().manual_seed(seed)) < 0.4
    hidden[:, 0] = False
    return randn(SIZE, SIZE, seed=seed, scale=size), hidden


def judged(model: nn.Module) -> float:
    """The decibels of the integers beside the user's own module on fresh data; nothing where that has 0."""
    found = lower_on(model, [batch(seed, 0.7) for seed in range(12)])
    fresh = [batch(seed, 0.5) for seed in range(40, 52)]
    with torch.no_grad():
        wanted = torch.cat([model(*one) for one in fresh])
    got = torch.cat([found.outputs(*one)[0] for one in fresh])
    assert bool((wanted == 0).any())
    assert not bool(got[wanted == 0].any())
    return decibels(wanted, got)


@cache
def usual(by_place: bool) -> float:
    """With masked_fill."""
    return judged(Function(lambda self, s, m: s.masked_fill(SECOND if by_place else m, -math.inf).softmax(-1)))


@pytest.mark.parametrize("fill", [-math.inf, -1e9])
@pytest.mark.parametrize("name", BY_MASK)
def test_a_mask_in_every_spelling(name: str, fill: float) -> None:
    found = judged(Function(lambda self, s, m: BY_MASK[name](s, m, fill).softmax(-1)))
    assert found > usual(False) - 1.5


@pytest.mark.parametrize("fill", [-math.inf, -1e9])
@pytest.mark.parametrize("name", BY_PLACE)
def test_places_in_every_spelling(name: str, fill: float) -> None:
    found = judged(Function(lambda self, s, m: BY_PLACE[name](s, fill).softmax(-1)))
    assert found > usual(True) - 1.5


@pytest.mark.parametrize("name", [name for name in BY_PLACE if name not in ("hstack", "pad")])
def test_what_stays_where_it_is_is_not_moved(name: str) -> None:
    """A write into some places is a mask on the scores themselves: nothing is cut, joined or copied."""
    model = Function(lambda self, s, m: BY_PLACE[name](s, -math.inf).softmax(-1))
    found = lower_on(model, [batch(seed, 0.7) for seed in range(2)])
    assert set(found.kernels) == {"masked_softmax"} or name == "added"


MOVED: dict[str, Callable[[Tensor], Tensor]] = {
    "expand": lambda x: x.expand(2, 3, 1, SIZE),
    "transpose": lambda x: x.transpose(-1, -2).transpose(-2, -1),
    "permute": lambda x: x.reshape(2, 1, 1, 3).permute(3, 1, 2, 0).permute(3, 1, 2, 0).reshape(1, 1, 1, SIZE),
    "reshape": lambda x: x.reshape(1, SIZE, 1).reshape(1, 1, 1, SIZE),
    "repeat": lambda x: x.repeat(2, 1, 1, 1),
    "narrow": lambda x: x.expand(2, 3, 1, SIZE).narrow(1, 0, 2).narrow(1, 1, 1),
}


@pytest.mark.parametrize("name", MOVED)
def test_a_computed_mask_stays_as_small_as_it_is(name: str) -> None:
    """Where a movement only repeats it, or gives it another shape."""
    model = Function(lambda self, s, m: (s[None, None] + MOVED[name](m[None, None] * -1e9)).softmax(-1))
    graph = canonicalize(capture(model, batch(0, 1.0)).module, batch(0, 1.0)).graph
    (call,) = [node for node in graph.nodes if is_call(node, SOFTMAX_KEPT)]
    mask = call.args[1]
    assert isinstance(mask, torch.fx.Node)
    assert mask.meta["val"].numel() == SIZE


@pytest.mark.parametrize("name", MOVED)
def test_a_mask_of_numbers_can_be_moved_behind_its_product(name: str) -> None:
    """0 and 1 as real numbers, as language models have them: what is moved is -1e9 already."""
    scores, hidden = batch(0, 1.0)
    model = Function(lambda self, s, m: (s[None, None] + MOVED[name](m[None, None] * -1e9)).softmax(-1))
    graph = canonicalize(capture(model, (scores, hidden.float())).module, (scores, hidden.float())).graph
    assert any(is_call(node, SOFTMAX_KEPT) for node in graph.nodes)


def test_bounds_and_levels_are_values() -> None:
    """20,000 pascal at least, silence of -80 dB around a spectrogram: no mask, however large."""
    models = {
        "pressure": (lambda self, x: (x.clamp(min=2e4) - 1e5) * 1e-4, 1e5 + 3e4 * randn(4, 32)),
        "silence": (
            lambda self, x: torch.maximum(functional.pad(x, (1, 1), value=-80.0), x.amin() - 20),
            -60 + 30 * randn(4, 32),
        ),
    }
    for function, x in models.values():
        model = Function(function)
        assert decibels(model(x), lower_on(model, [(x,)]).outputs(x)[0]) > 30


def test_infinite_constants_are_refused_where_no_rule_knows_them() -> None:
    message = rejected(Function(lambda self, x: x @ torch.cat([EDGE, torch.ones(SIZE, 1)], 1)), randn(SIZE, SIZE))
    assert message.startswith("a constant holds infinity, expected finite numbers")
