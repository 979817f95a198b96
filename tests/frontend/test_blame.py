"""A warning of a lost output names the tensors that lose it, and what to do."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from cortado.api import prepare
from cortado.base.errors import CortadoWarning
from cortado.base.findings import FindingKind
from cortado.options import Artifacts, Options
from cortado.scoring.blame import Alone, remedy
from helpers.single import Expression, lower_on

Tensor = torch.Tensor
C = Options(artifacts=Artifacts.C)


def powers(seed: int) -> Tensor:
    """As a mel spectrum without a logarithm: six orders of magnitude."""
    rng = torch.Generator().manual_seed(seed)
    return torch.exp(14 * torch.rand(1, 16, generator=rng))


def normal(seed: int) -> Tensor:
    return torch.randn(1, 16, generator=torch.Generator().manual_seed(seed))


def wide(seed: int) -> Tensor:
    return torch.randn(1, 600, generator=torch.Generator().manual_seed(seed))


BLAMED: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[int], Tensor], str, str]] = {
    "input": (lambda x: torch.log(x + 1), powers, "input 'inputs_0'", "the logarithm or the root"),
    "merged": (lambda x: torch.cat([900 * x, torch.sin(x)], 1)[:, 16:] * 2, normal, "aten.sin", "keep them apart"),
    "softmax": (lambda x: torch.softmax(0.1 * x, 1), wide, "softmax", "return the scores before the softmax"),
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", BLAMED)
def test_a_lost_output_names_the_tensor_and_what_to_do(name: str) -> None:
    function, draw, tensor, remedy = BLAMED[name]
    batches = [(draw(seed),) for seed in range(32)]
    with pytest.warns(CortadoWarning):
        compiled = prepare(Expression(function), batches[0], batches).compile("cortex-m4", C)
    (low,) = [one for one in compiled.report.warnings if one.kind is FindingKind.LOW_SQNR]
    assert "It loses most to" in low.text
    assert "dB alone)" in low.text
    assert tensor in low.text
    assert remedy in low.text


def test_a_state_is_blamed_over_its_sequence() -> None:
    """A mean of values that moves by less than its code's step: one step alone would not show it."""

    class Slow(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.level = torch.nn.Buffer(torch.zeros(1, 4))

        def forward(self, x: Tensor) -> Tensor:
            self.level.copy_(0.999 * self.level + 0.001 * x)
            return self.level * 1.0

    torch.manual_seed(0)
    steps = [(x,) for x in (torch.randn(300, 4) + 1.0).split(1)]
    mse = Options(artifacts=Artifacts.C, calibration_method="mse", state="int8")  # type: ignore[arg-type]
    with pytest.warns(CortadoWarning):
        compiled = prepare(Slow().eval(), steps[0], steps, options=mse).compile("cortex-m4", mse)
    (low,) = [one for one in compiled.report.warnings if one.kind is FindingKind.LOW_SQNR]
    assert "It loses most to" in low.text
    assert "aten.add" in low.text


def test_of_a_tensor_without_a_finite_value_that_is_said() -> None:
    found = lower_on(nn.Softmax(-1), [(torch.zeros(1, 4),)])
    for place in Alone(found.quantized.converted).places:
        assert "none of its values is finite" in remedy(place, torch.full((1, 4), -math.inf))
