"""A warning of a lost output names the tensors that lose it, and what to do."""

import math
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from cortado.api import prepare
from cortado.base.errors import CortadoWarning
from cortado.base.findings import FindingKind
from cortado.frontend.precision.judgement import AGREES
from cortado.options import Activations, Artifacts, CalibrationMethod, Options, Weights
from cortado.plan.lowered import reference_outputs
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


def scores(seed: int) -> Tensor:
    return torch.randn(1, 64, generator=torch.Generator().manual_seed(seed))


def coordinates(x: Tensor) -> Tensor:
    """A place in a heat map of 8 by 8, as a mean over probabilities that are moved before they are added."""
    return (torch.softmax(0.5 * x, 1).view(1, 1, 8, 8).sum(2) * torch.linspace(-1, 1, 8)).sum(-1)


DISTANT = torch.tensor([[0.013] + [900.0] * 15])


BLAMED: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[int], Tensor], str, str]] = {
    "input": (lambda x: torch.log(x + 1), powers, "input 'inputs_0'", "the logarithm or root"),
    "merged": (lambda x: torch.cat([900 * x, torch.sin(x)], 1)[:, 16:] * 2, normal, "aten.sin", "keep them apart"),
    "moved": (coordinates, scores, "aten.softmax", "half of its 64 probabilities are below"),
    "constant": (lambda x: (x - DISTANT)[:, :1], normal, "the constant of aten.sub", "in a range of"),
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
    named = re.findall(r"(?:most|;) to (\S+)", low.text)
    assert len(named) == len(set(named))


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


def truths(seed: int) -> Tensor:
    """Numbers of which a few in a hundred lie beyond the bound of a comparison."""
    return torch.randn(1, 400, generator=torch.Generator().manual_seed(seed))


class Event(nn.Module):
    """A truth value of small numbers beside a large one: int8 can't tell them apart, int16 can."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([300 + x[:, :1], x[:, 1:]], 1)[:, 1:] * 0.5 > 1.0


class Toggled(nn.Module):
    """A truth value that a comparison of real numbers toggles, or the last one alone."""

    flag: Tensor

    def __init__(self, kept: bool) -> None:
        super().__init__()
        self.kept = kept
        self.register_buffer("flag", torch.zeros(1, 16, dtype=torch.bool))

    def forward(self, x: Tensor) -> Tensor:
        self.flag = (self.flag & self.kept) ^ (x > 0)
        return self.flag


@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")
@pytest.mark.parametrize("kept", [True, False])
def test_differences_that_stay_in_state_are_told(kept: bool) -> None:
    batches, options = [(normal(seed),) for seed in range(320)], replace(C, sequence=10)
    compiled = prepare(Toggled(kept), batches[0], batches, options=options).compile("cortex-m4", options)
    found = [one.text for one in compiled.report.warnings if one.kind is FindingKind.LOW_AGREEMENT]
    assert len(found) == kept
    assert all("differences stay in state" in text and "--activations int16 it agrees in" in text for text in found)


def test_of_truth_values_what_would_help_is_tried() -> None:
    batches = [(truths(seed),) for seed in range(32)]
    fresh = [truths(1000 + seed) for seed in range(32)]
    model = Event()
    with pytest.warns(CortadoWarning):
        compiled = prepare(model, batches[0], batches).compile("cortex-m4", C)
    (found,) = [one for one in compiled.report.warnings if one.kind is FindingKind.LOW_AGREEMENT]
    said = re.search(r"With (--\S+ \S+) it agrees in ([\d.]+)% \(it agrees in ([\d.]+)% now", found.text)
    assert said is not None, found.text
    assert said[1] == "--activations int16"
    assert float(said[2]) > 95 > float(said[3])
    wide = replace(C, activations=Activations.INT16)
    better = prepare(model, batches[0], batches, options=wide).compile("cortex-m4", wide)
    assert better.graph is not None
    pairs = [(model(x), reference_outputs(better.graph, [x])[0]) for x in fresh]
    assert AGREES.of(pairs) == pytest.approx(float(said[2]) / 100, abs=0.03)


class Oscillator(nn.Module):
    """A loop that turns its state by the same angle each step: an error of its weights grows with the steps."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Linear(2, 2, bias=False)
        angle = torch.tensor(0.1)
        self.turn.weight.data = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).reshape(2, 2)
        self.state = nn.Buffer(torch.zeros(1, 2))

    def forward(self, x: Tensor) -> Tensor:
        self.state.copy_(self.turn(self.state) + 0.01 * x)
        return self.state * 1.0


def test_a_loop_that_drifts_away_is_told_what_float32_keeps_over_its_steps() -> None:
    steps = [(x,) for x in torch.randn(500, 2, generator=torch.Generator().manual_seed(3)).split(1)]
    chosen = replace(C, sequence=500)
    with pytest.warns(CortadoWarning):
        compiled = prepare(Oscillator().eval(), steps[0], steps, options=chosen).compile("cortex-m4", chosen)
    (low,) = [one for one in compiled.report.warnings if one.kind is FindingKind.LOW_SQNR]
    assert "ith --activations float32 --weights float32 it keeps all of its signal" in low.text
    whole = replace(chosen, activations=Activations.FLOAT32, weights=Weights.FLOAT32)
    exact = prepare(Oscillator().eval(), steps[0], steps, options=whole).compile("cortex-m4", whole)
    assert not [one for one in exact.report.warnings if one.kind is FindingKind.LOW_SQNR]


def test_a_range_that_cuts_values_off_is_widened_before_that_is_advised() -> None:
    """Percentiles leave out what this output consists of."""
    cut = Options(artifacts=Artifacts.C, calibration_method=CalibrationMethod.PERCENTILE, bias_correction=False)

    def loud(seed: int) -> Tensor:
        x = torch.randn(1, 4000, generator=torch.Generator().manual_seed(seed))
        rare = torch.tensor([[30.0 + seed / 7, 17.3 + seed / 9]])
        return torch.cat([x, rare if seed % 8 == 0 else torch.ones(1, 2)], 1)

    rare = [(loud(seed),) for seed in range(32)]
    with pytest.warns(CortadoWarning):
        compiled = prepare(Expression(lambda x: torch.relu(x - 9.0) * 2), rare[0], rare, options=cut).compile(
            "cortex-m4", cut
        )
    (found,) = [one for one in compiled.report.warnings if one.kind is FindingKind.LOW_SQNR]
    said = re.search(r"With --calibration-method minmax it keeps (\d+) dB \(it keeps (\d+) dB now", found.text)
    assert said is not None, found.text
    assert int(said[1]) > int(said[2]) + 3
