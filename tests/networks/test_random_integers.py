"""Random networks of integers and truth values: just what torch gives, and the same bits in C.

`make fuzz` runs hundreds of them (docs/testing.md); here are a few.
"""

import pytest
import torch

from fuzz.integers import IntegerCase, Integers, check_c, check_exact, check_seed, draw_integers
from fuzz.oracles import Choices
from fuzz.steps import CALLS, STEPS, Step

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples
SEEDS = range(12)


@pytest.mark.host
def test_random_networks_of_integers_are_exact() -> None:
    found = [check_seed(seed) for seed in SEEDS]
    assert [text for kind, text, _ in found if kind in ("wrong", "crash")] == []
    cases = [case for _, _, case in found if case is not None]
    assert len(cases) >= len(SEEDS) - 2
    assert check_c(cases[::3]) == []


def test_every_call_is_drawn_by_its_name() -> None:
    assert set(STEPS) == set(CALLS)


def test_the_same_seed_is_the_same_network() -> None:
    assert draw_integers(3) == draw_integers(3)
    assert repr(draw_integers(3)) != repr(draw_integers(4))


def test_what_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that is another one when it is compared."""
    recipe = Integers(((torch.int64, (2, 3)),), (Step("add number", (0,), {"number": 1}),), (1,), 0)
    case = IntegerCase(recipe, Choices.draw(0), "net")
    assert check_exact(case) == ""
    monkeypatch.setitem(CALLS, "add number", lambda a, number: a + number + 1)
    assert "output 0 is" in check_exact(case)
