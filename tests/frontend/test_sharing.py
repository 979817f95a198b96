"""Scales where tensors meet: every operand of a join keeps its own where that gains, and nothing is added elsewhere."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cortado.api import prepare
from cortado.base.target import from_target_string
from cortado.emit.pte.program import emit_pte
from cortado.run.executorch_host import run_pte
from helpers.cores import THREE, each_core
from helpers.single import Expression, Function, Single, decibels, lower_on, randn, seeded, tensors

Tensor = torch.Tensor
Inputs = tuple[Tensor, ...]
COUNT = 8


def batches(*sizes: int, count: int = COUNT) -> list[Inputs]:
    return [(randn(*sizes, seed=seed),) for seed in range(count)]


def signal_to_noise(found: Single, model: nn.Module) -> list[float]:
    """Of every output, against the model itself."""
    with torch.no_grad():
        wanted = [tensors(model(*batch)) for batch in found.batches]
    got = [found.outputs(*batch) for batch in found.batches]
    columns = zip(zip(*wanted, strict=True), zip(*got, strict=True), strict=True)
    return [decibels(torch.stack(want), torch.stack(have)) for want, have in columns]


def side_output() -> nn.Module:
    parts = {"inner": seeded(nn.Conv2d(3, 8, 3, padding=1)), "head": seeded(nn.Conv2d(3, 4, 3), 2)}
    return Function(lambda model, x: (torch.cat([x, 50 * model.inner(x)], 1), model.head(x)), **parts)


def head_alone() -> nn.Module:
    return Function(lambda model, x: model.head(x), head=seeded(nn.Conv2d(3, 4, 3), 2))


def test_a_side_output_costs_the_other_head_nothing() -> None:
    found, alone = (lower_on(model, batches(1, 3, 8, 8)) for model in (side_output(), head_alone()))
    side, head = signal_to_noise(found, side_output())
    assert side > 35
    assert head > 36
    assert head == pytest.approx(signal_to_noise(alone, head_alone())[0], abs=0.001)
    assert found.kernels.count("quantized_activation") == 0  # concatenation looks the input up


def test_a_tensor_stacked_with_its_normalization_keeps_its_levels() -> None:
    parts = {"linear": seeded(nn.Linear(16, 16)), "norm": nn.LayerNorm(16)}

    def forward(model: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        y = 0.02 * model.linear(x)
        return torch.stack([y, model.norm(y)]), y.reshape(-1)

    model = Function(forward, **parts)
    found = lower_on(model, batches(8, 16))
    stacked, alone = signal_to_noise(found, model)
    assert stacked > 34
    assert alone > 36
    assert len(torch.cat([found.outputs(*batch)[1] for batch in found.batches]).unique()) > 100


BOUNDS: dict[str, Callable[..., Tensor]] = {
    "minimum": lambda x, most: torch.minimum(x, most),
    "maximum": lambda x, most: torch.maximum(x, -most),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_bound_that_is_far_away_costs_nothing(name: str) -> None:
    model = Expression(BOUNDS[name], most=torch.linspace(39, 40, 64))
    assert signal_to_noise(lower_on(model, batches(4, 64)), model)[0] > 38


def test_a_bound_that_is_near_saturates() -> None:
    """What is made for a minimum alone is made in its scale: there is nothing to rescale."""
    model = Function(lambda model, x: torch.minimum(model.a(x), model.b(x)), a=nn.Linear(16, 16), b=nn.Linear(16, 16))
    found = lower_on(seeded(model), batches(8, 16))
    assert signal_to_noise(found, model)[0] > 34
    assert "quantized_activation" not in found.operators


# ---- nothing is added where nothing is gained ------------------------------------------------------------------------


def two_readers(factor: float) -> Single:
    """A tensor that a concatenation and a convolution read, beside one of `factor` times its range."""
    model = Function(lambda model, x, y: (torch.cat([x, y], 1), model.head(x)), head=seeded(nn.Conv2d(3, 4, 3)))
    x = randn(1, 3, 8, 8)
    return lower_on(model, [(x, factor * x)])


@pytest.mark.cases(2)
@pytest.mark.parametrize(("factor", "shared"), [(1.0, True), (1.1, True), (1.2, False), (0.5, True), (20.0, False)])
def test_an_operand_that_others_read_shares_up_to_one_decibel(factor: float, shared: bool) -> None:
    found = two_readers(factor)
    assert ("cat" in found.operators) is shared
    assert ("cat_rescaled" in found.operators) is not shared
    assert found.worst() < 1.001


def test_what_only_concatenations_read_is_made_in_the_finest_scale() -> None:
    model = Function(
        lambda model, x: (torch.cat([model.a(x), x], 1), torch.cat([model.a(x), 30 * torch.tanh(x)], 1)),
        a=seeded(nn.Conv2d(3, 4, 1)),
    )
    found = lower_on(model, batches(1, 3, 6, 6))
    first, second = signal_to_noise(found, model)
    assert first > 35
    assert second > 35


def test_zeros_need_no_scale_of_their_own() -> None:
    model = Function(lambda model, x, zeros: (torch.cat([x, zeros], 1), model.linear(zeros)), linear=nn.Linear(8, 8))
    found = lower_on(model, [(randn(2, 8), torch.zeros(2, 8))])
    assert "cat" in found.operators


@pytest.mark.parametrize("count", [1, 2])
def test_fixed_scales_that_are_alike_stay(count: int) -> None:
    """Softmax has one scale; a sigmoid beside it can have the same."""
    others = (torch.sigmoid,) if count == 2 else ()
    model = Function(
        lambda model, x: torch.cat(
            [torch.softmax(3 * x, -1), torch.softmax(-3 * x, -1), *(f(5 * x) for f in others)], 1
        )
    )
    found = lower_on(model, batches(2, 16))
    assert found.operators[:4] == ["quantized_activation", "softmax"] * 2
    assert len(found.operators) == 5
    assert found.scales == (1 / 256,)
    assert found.worst() < 1.001


# ---- sigmoids --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gate", [lambda x: torch.sigmoid(x - 6), lambda x: F.hardsigmoid(0.05 * x - 2.9), lambda x: torch.tanh(0.02 * x)]
)
def test_a_gate_that_hardly_opens_keeps_its_levels(gate: Callable[[Tensor], Tensor]) -> None:
    linear = nn.Linear(64, 64)
    seeded(linear)
    with torch.no_grad():
        linear.weight.mul_(0.1)
    model = Function(lambda model, x: gate(model.linear(x)) * x, linear=linear)
    assert signal_to_noise(lower_on(model, batches(4, 64)), model)[0] > 25  # with a step of 1/256: less than 10


# ---- the same bits ---------------------------------------------------------------------------------------------------


class Joins(nn.Module):
    """Concatenation, stack, minimum and maximum of tensors that other layers read too, in very different ranges."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 1), nn.Conv2d(19, 6, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = F.relu(self.first(x))
        z = torch.minimum(self.second(y), 0.1 * y)
        return self.last(torch.cat([x, 40 * y, z], 1)), torch.stack([y, 9 * z], 2), torch.maximum(z, y - 1.5)


def joins() -> nn.Module:
    return seeded(Joins())


@pytest.mark.host
def test_the_runtime_has_the_same_bits() -> None:
    found = lower_on(joins(), batches(1, 3, 6, 6), "cortex-m55")
    assert {"cat_rescaled", "minimum", "maximum"} <= set(found.operators)
    pte = emit_pte(found.program, from_target_string("cortex-m55"), {})
    assert pte.limits == ()
    got = run_pte(pte.data, [[value.numpy() for value in batch] for batch in found.batches])
    for have, batch in zip(got, found.batches, strict=True):
        assert all(np.array_equal(a, b.numpy()) for a, b in zip(have, found.outputs(*batch), strict=True))


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m0plus"))
def test_boards_have_the_same_bits(target: str, tmp_path: Path) -> None:
    inputs: Sequence[Inputs] = batches(1, 3, 6, 6)
    model = prepare(joins(), inputs[0], list(inputs), name="joins")
    assert model.compile(target).save(tmp_path / "joins").run([[inputs[0][0].numpy()]], check_stores=True).bit_exact


class LastState(nn.Module):
    """Of a layer whose states fade the last one, beside another tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.RNN(2, 2, batch_first=True, bias=False)
        with torch.no_grad():
            self.layer.get_parameter("weight_ih_l0").copy_(torch.eye(2))
            self.layer.get_parameter("weight_hh_l0").copy_(0.9 * torch.eye(2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.layer(x)[1][0], 0.05 * x[:, 0]], -1)


def test_states_that_are_not_read_do_not_saturate() -> None:
    """They are what a layer computes the next from."""
    fading = torch.tensor([3.0, 0.1, 0.0, 0.0, 0.0, 0.0]).reshape(1, 6, 1)
    inputs = [(randn(1, 6, 2, seed=seed) * fading,) for seed in range(24)]
    model = LastState().eval()
    assert min(signal_to_noise(lower_on(model, inputs), model)) > 30
