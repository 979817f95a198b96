"""Counters, positions and truth values as state: the module's own integers, and the same bits everywhere."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado.api import compile as compile_model
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.options import Options
from cortado.run.runner import HOST, RUNTIME_CHECKS
from helpers.stateful import decibels

STEPS = 40


class Cache(nn.Module):
    """Attention over the last steps; positions say where the newest keys and values go, and which there are so far."""

    at: Tensor
    count: Tensor
    keys: Tensor
    values: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.keys_of, self.values_of, self.wanted = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.places = nn.Embedding(10, 8)
        self.register_buffer("keys", torch.zeros(1, 10, 8))
        self.register_buffer("values", torch.zeros(1, 10, 8))
        self.register_buffer("at", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("count", torch.zeros((), dtype=torch.int32))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = x + self.places(self.at)
        self.keys[:, self.at] = self.keys_of(x)
        self.values.index_copy_(1, self.at, self.values_of(x))
        self.count += 1
        scores = self.wanted(x) @ self.keys.transpose(1, 2) / 8**0.5
        seen = torch.arange(10) < self.count
        y = torch.softmax(torch.where(seen, scores, -8.0), -1) @ self.values
        before = self.at
        self.at = (self.at + 1) % 10
        return y, self.values.index_select(1, before), before, self.count.clone()


class Clock(nn.Module):
    """What is counted, wrapped, compared, chosen, reset; a history of labels; a switch."""

    tick: Tensor
    left: Tensor
    on: Tensor
    labels: Tensor
    grid: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("tick", torch.tensor([5], dtype=torch.int64))
        self.register_buffer("left", torch.tensor([3], dtype=torch.int32))
        self.register_buffer("on", torch.tensor([[True]]))
        self.register_buffer("labels", torch.full((1, 4), -1))
        self.register_buffer("grid", torch.tensor([[1], [2], [3]], dtype=torch.int32))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        was = self.on
        loud = x.amax(1) > 0.0
        self.left = torch.where(loud, 4, (self.left - 1).clamp(min=0))
        self.on = (self.left > 2)[:, None]
        self.tick = self.tick + loud.long() * 3
        self.labels = torch.cat([self.labels[:, 1:], x.argmax(1, keepdim=True) * 2 - self.tick[:, None] // 7], 1)
        self.grid.add_(1).remainder_(5)
        table = self.grid + torch.tensor([[10, 20]]) - self.tick % -4
        y = torch.where(self.on, x, 0.25 * x) + self.tick.float() / 64
        return y, was, self.on.clone(), self.left.clone(), self.labels.clone(), table, -self.grid.t().abs()


def _steps(kind: type[nn.Module]) -> Tensor:
    """Far from every threshold, so that codes decide as real numbers do."""
    rng = torch.Generator().manual_seed(4)
    if kind is Cache:
        return torch.randn(STEPS, 1, 8, generator=rng)
    ranks = torch.stack([torch.randperm(6, generator=rng) for _ in range(STEPS)]).float() - 2.5
    return ranks * 0.4 - 2.0 * (torch.rand(STEPS, 1, generator=rng) > 0.4)


def _eager(model: nn.Module, steps: Tensor) -> list[Tensor]:
    running = copy.deepcopy(model)
    with torch.no_grad():
        found = [[value.clone() for value in running(step[None])] for step in steps]
    return [torch.stack(values) for values in zip(*found, strict=True)]


@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("kind", "boards"), [(Cache, ("cortex-m4", "cortex-m33")), (Clock, ("cortex-m0plus", "cortex-m55"))]
)
def test_integers_last_from_step_to_step(kind: type[nn.Module], boards: tuple[str, ...], tmp_path: Path) -> None:
    torch.manual_seed(2)
    model, steps = kind().eval(), _steps(kind)
    compiled = compile_model(model, (steps[:1],), "cortex-m", steps, name="net")
    assert compiled.pte is None
    assert any("a .pte takes real numbers" in reason for reason in compiled.report.pte_missing)
    artifact = compiled.save(tmp_path / "net")
    found = artifact.run([[step[None].numpy()] for step in steps], HOST, flags=(RUNTIME_CHECKS,))
    assert found.bit_exact
    for wanted, made in zip(_eager(model, steps), found.outputs, strict=True):
        if wanted.is_floating_point():
            assert decibels(wanted.numpy(), np.asarray(made)) > 24
        else:
            assert np.array_equal(wanted.numpy().reshape(-1), np.asarray(made).reshape(-1))
    for target in boards:
        board = artifact.for_target(from_target_string(target))
        assert board.run([[step[None].numpy()] for step in steps[:12]]).bit_exact


@pytest.mark.host
@pytest.mark.parametrize("kind", [Cache, Clock])
def test_integers_last_beside_float32(kind: type[nn.Module]) -> None:
    """Positions and counters of 64 bits are of 32 in the arena, beside real numbers that keep their bits."""
    torch.manual_seed(2)
    model, steps = kind().eval(), _steps(kind)
    options = Options(activations="float32", weights="float32", artifacts="c")  # type: ignore[arg-type]
    compiled = compile_model(model, (steps[:1],), "cortex-m4", name="net", options=options)
    found = compiled.run(steps[:, None], on="host")
    assert found.bit_exact
    for wanted, made in zip(_eager(model, steps), found.outputs, strict=True):
        assert decibels(wanted.to(torch.float32).numpy(), np.asarray(made)) > 100


class Small(nn.Module):
    count: Tensor

    def __init__(self, start: Tensor, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change = change
        self.register_buffer("count", start)

    def forward(self, x: Tensor) -> Tensor:
        self.count = self.change(self.count)
        return x * (self.count > 2)


@pytest.mark.parametrize(
    ("start", "change", "message"),
    [
        (
            torch.tensor([2**40]),
            lambda count: count - 1,
            "starts with 1099511627776, expected integers of 32 bits",
        ),
        (
            torch.zeros(1, dtype=torch.int64),
            lambda count: count + 2**33,
            "calculates with 8589934592, expected .* 32 bits",
        ),
    ],
)
def test_what_can_not_be_counted_is_refused(start: Tensor, change: Callable[[Tensor], Tensor], message: str) -> None:
    x = torch.randn(40, 4)
    with pytest.raises(CortadoError, match=message):
        compile_model(Small(start, change).eval(), (x[:1],), "cortex-m4", x)
