"""Steps of gradient descent: one call for each parameter and momentum, near what eager torch makes."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from cortado.api import prepare
from cortado.options import Activations, Artifacts, Options
from helpers.single import decibels

FLOAT = Options(activations=Activations.FLOAT32, artifacts=Artifacts.C)
UPDATE, PRODUCT = "cortado::float_update", "cortado::float_matmul"
Step = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


class Descent(nn.Module):
    """A linear layer that learns with every call; returns what it said before."""

    weight: Tensor
    speed: Tensor

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step
        self.register_buffer("weight", torch.linspace(-1.0, 1.0, 15).reshape(3, 5))
        self.register_buffer("speed", torch.zeros(3, 5))

    def forward(self, x: Tensor, wanted: Tensor, rate: Tensor) -> Tensor:
        found = x @ self.weight.T
        gradient = (found - wanted).T @ x
        self.weight, self.speed = self.step(self.weight, self.speed, gradient, rate)
        return found


def momentum(w: Tensor, v: Tensor, g: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
    v = 0.9 * v + (g + 1e-2 * w)
    return w - 0.05 * v, v


def other_spelling(w: Tensor, v: Tensor, g: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
    v = v.mul(0.9).add(w, alpha=1e-2).add(g)
    return torch.add(w, v, alpha=-0.05), v


def clipped(w: Tensor, v: Tensor, g: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
    norm = (g * g).sum().sqrt()
    v = 0.9 * v + g * torch.clamp(1.0 / (norm + 1e-6), max=1.0)
    return w - rate * v, v


def plain(w: Tensor, v: Tensor, g: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
    return w - 0.1 * g, v  # which nothing depends on


def decayed(w: Tensor, v: Tensor, g: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
    return w - 0.1 * (g + 0.02 * w), v


def looking_ahead(w: Tensor, v: Tensor, g: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
    v = 0.9 * v + g
    return w - 0.05 * (g + 0.9 * v), v


@pytest.mark.host
@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    ("step", "updates", "whole"),
    [
        (momentum, 1, 0),
        (other_spelling, 1, 0),
        (clipped, 2, 0),
        (plain, 1, 0),
        (decayed, 1, 0),
        (looking_ahead, 2, 1),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_step_of_gradient_descent_is_at_most_one_call_for_each_tensor(
    step: Step, updates: int, whole: int, batch: int
) -> None:
    generator = torch.Generator().manual_seed(batch)
    calls = [tuple(torch.randn(batch, size, generator=generator) for size in (5, 3)) for _ in range(20)]
    rate = torch.tensor([0.03])
    compiled = prepare(Descent(step), (*calls[0], rate), options=FLOAT).compile("cortex-m4", FLOAT)
    assert compiled.planned is not None
    made = compiled.planned.program.steps
    assert [one.operator for one in made].count(UPDATE) == updates
    sizes = [one.row_bytes for one in made if one.operator == PRODUCT]
    needed = whole or (step is clipped and batch > 1)  # the norm of a sum of products needs all of it
    assert (3 * 5 * 4 in sizes) == bool(needed)
    assert (
        len(compiled.planned.in_place) == len(compiled.planned.program.state) == (1 if step in (plain, decayed) else 2)
    )
    eager = Descent(step)
    wanted = torch.cat([eager(*one, rate) for one in calls])
    steps = [torch.cat(one) for one in zip(*calls, strict=True)]
    found = compiled.run(*steps, rate.repeat(len(calls)), on="host")
    assert found.bit_exact
    assert decibels(wanted, torch.as_tensor(found.outputs[0]).reshape(wanted.shape)) > 100.0
