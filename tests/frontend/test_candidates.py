"""Ranges and corrected biases are chosen for the sake of the outputs, and are never worse than min-max alone."""

import math
from collections.abc import Sequence

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

from cortado.api import Model, prepare
from cortado.artifact.page import build_page
from cortado.artifact.report import Report
from cortado.frontend.precision.judgement import decibels
from cortado.frontend.quantize.calibration import give_ranges
from cortado.frontend.quantize.candidates import ENOUGH, FEWEST, MOST, STEPS, held_back, most_judged
from cortado.options import DEFAULTS, Artifacts, CalibrationMethod, Options
from helpers.values import present

Tensor = torch.Tensor
Batches = Sequence[tuple[Tensor, ...]]
MINMAX = Options(calibration_method=CalibrationMethod.MINMAX, bias_correction=False)
MSE = Options(calibration_method=CalibrationMethod.MSE)


class Alarm(nn.Module):
    """One sample in sixteen is loud behind the first layer, though all inputs are alike: rare values are the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.score = nn.Linear(16, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.score(self.layer(x[:, 1:]) * (0.05 + x[:, :1]))
        return found


def alarms(count: int, seed: int) -> Batches:
    rng = torch.Generator().manual_seed(seed)
    found = [2 * torch.rand(1, 17, generator=rng) - 1 for _ in range(count)]
    for number, x in enumerate(found):
        x[0, 0] = float(number % 16 == 5)
    return [(x,) for x in found]


def kept(module: nn.Module, model: Model, fresh: Batches) -> float:
    with torch.no_grad():
        return decibels([(module(*inputs), model.quantized.converted(*inputs)) for inputs in fresh])


def test_rare_values_that_are_the_answer_are_not_given_away() -> None:
    """On fresh data: as good as min-max, where the least error of each tensor loses by far."""
    torch.manual_seed(0)
    module, batches, fresh = Alarm().eval(), alarms(64, 0), alarms(64, 1)
    found = {way: prepare(module, batches[0], batches, options=way) for way in (DEFAULTS, MINMAX, MSE)}
    default, minmax, mse = (kept(module, model, fresh) for model in found.values())
    assert mse < minmax - 10  # else this network shows nothing
    assert default > minmax - 0.5
    choice = present(found[DEFAULTS].quantized.choice)
    assert choice.judged[0].candidate.method is CalibrationMethod.MINMAX
    assert choice.gain >= 0


def test_the_report_says_what_was_chosen_and_by_how_much() -> None:
    torch.manual_seed(0)
    batches = alarms(40, 0)
    compiled = prepare(Alarm().eval(), batches[0], batches).compile("cortex-m4", Options(artifacts=Artifacts.C))
    chosen = present(compiled.report.calibrated)
    assert compiled.report.options.calibration_method is CalibrationMethod.AUTO
    assert chosen.samples == 20
    assert len(chosen.candidates) >= 4
    gained = {(one.method, one.corrected_layers): present(one.outputs_db[0]) for one in chosen.candidates}
    least = gained[CalibrationMethod.MINMAX, 0]
    assert gained[chosen.method, chosen.corrected_layers] - least == pytest.approx(chosen.gain_db, abs=0.02)
    assert Report.from_json(compiled.report.to_json(), "report.json") == compiled.report
    assert f"Judged by {chosen.samples} calibration samples" in build_page(compiled.report)
    asked = prepare(Alarm().eval(), batches[0], batches, options=MSE).quantized.choice
    assert present(asked).judged == ()  # what the user asks for is not judged


def test_samples_are_held_back_within_a_bound_on_the_work() -> None:
    assert most_judged(1000, ENOUGH - 1, state=False) == ENOUGH - 1
    assert [most_judged(1000, samples, state=False) for samples in (8, 33, 5000)] == [4, 16, MOST]
    assert most_judged(10**9, 100, state=False) == FEWEST
    assert most_judged(1000, 1000, state=True) == STEPS
    assert held_back(10, 5) == [1, 3, 5, 7, 9]
    numbers = held_back(100, 20, rare=range(0, 100, 10), wrong=[10, 11])
    assert len(numbers) == len(set(numbers)) == 20
    assert len(set(numbers) & set(range(0, 100, 10))) == 2
    assert not {10, 11} & set(numbers)


def test_ranges_are_chosen_once_for_all_corrections_of_biases(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    chosen = list[tuple[CalibrationMethod, bool]]()

    def noted(prepared: GraphModule, method: CalibrationMethod, widened: bool) -> None:
        chosen.append((method, widened))
        give_ranges(prepared, method, widened)

    monkeypatch.setattr("cortado.frontend.quantize.convert.give_ranges", noted)
    batches = alarms(32, 0)
    judged = present(prepare(Alarm().eval(), batches[0], batches).quantized.choice).judged
    assert len(judged) > len(chosen)
    assert len(chosen) == len(set(chosen))
    assert set(chosen) == {(one.candidate.method, one.candidate.widened) for one in judged}


def test_a_model_with_state_is_judged_step_by_step() -> None:
    class Smooth(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.level = nn.Buffer(torch.zeros(1, 8))
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            self.level.copy_(0.9 * self.level + 0.1 * self.layer(x))
            return self.level * 2

    torch.manual_seed(0)
    steps = [(x[:, :8],) for (x,) in alarms(60, 0)]
    found = prepare(Smooth().eval(), steps[0], steps, options=Options(sequence=20))
    choice = present(found.quantized.choice)
    assert choice.samples == 60
    assert all(math.isfinite(one.kept[0]) for one in choice.judged)
    assert min(one.kept[0] for one in choice.judged) > 10
