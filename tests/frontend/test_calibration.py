"""Ranges from calibration data, samples that are left out of them, and biases that make up for rounding."""

import math
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import nn

import cortado
from cortado.api import Model, prepare
from cortado.base.errors import CortadoWarning
from cortado.frontend.ranges import Seen, choose_range, odd_samples
from cortado.options import CalibrationMethod, Options

MSE, MINMAX, PERCENTILE = CalibrationMethod.MSE, CalibrationMethod.MINMAX, CalibrationMethod.PERCENTILE


def seen(*samples: torch.Tensor) -> list[Seen]:
    return [Seen.of(number, x, float(x.min()), float(x.max())) for number, x in enumerate(samples)]


def squared_error(values: torch.Tensor, low: float, high: float) -> float:
    step = (high - low) / 255
    zero = round(-low / step)
    codes = (values / step).round().add(zero).clamp(0, 255)
    return float(((codes - zero) * step - values).square().sum())


@pytest.mark.parametrize("shift", [0.0, 3.0, -3.0])
def test_the_range_of_least_error_beats_every_other(shift: float) -> None:
    """On values with long tails: within 5% of the best of a grid, below the whole range."""
    rng = torch.Generator().manual_seed(0)
    samples = [torch.randn(4000, generator=rng) * torch.rand(4000, generator=rng).pow(-0.4) + shift for _ in range(8)]
    values = torch.cat(samples)
    low, high = choose_range(seen(*samples), MSE)
    least, most = min(0.0, float(values.min())), max(0.0, float(values.max()))
    grid = np.linspace(0.1, 1.0, 91)
    best = min(squared_error(values, least * a, most * b) for a in grid[::3] for b in grid[::3])
    assert low <= 0.0 <= high
    assert squared_error(values, low, high) <= 1.05 * best
    assert squared_error(values, low, high) < 0.95 * squared_error(values, least, most)


def test_all_values_and_all_but_a_few() -> None:
    values = torch.cat([torch.linspace(-1, 1, 30_000), torch.tensor([50.0])])
    assert choose_range(seen(values), MINMAX) == (-1.0, 50.0)
    low, high = choose_range(seen(values), PERCENTILE)
    assert low == pytest.approx(-1, abs=0.1)
    assert high == pytest.approx(1, abs=0.1)


def test_a_tensor_of_zeros_or_of_one_value_has_a_range() -> None:
    for method in CalibrationMethod:
        assert choose_range(seen(torch.zeros(5)), method) == (0.0, 0.0)
        assert choose_range(seen(torch.full((5,), 2.0)), method)[1] == pytest.approx(2.0, rel=0.01)


def test_a_sample_unlike_all_others_is_odd() -> None:
    rng = torch.Generator().manual_seed(0)
    samples = [torch.randn(200, generator=rng) for _ in range(30)]
    assert odd_samples(seen(*samples)) == {}
    samples[17] *= 20
    assert list(odd_samples(seen(*samples))) == [17]
    assert odd_samples(seen(torch.zeros(3), torch.zeros(3))) == {}


# ---- models --------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1, bias=bias)
        self.down = nn.Conv2d(8, 8, 3, stride=2, groups=8, bias=bias)
        self.head = nn.Linear(8, 4, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.down(torch.relu(self.conv(x))))
        scores: torch.Tensor = self.head(hidden.amax((2, 3)))
        return scores


def net(bias: bool = True) -> Net:
    torch.manual_seed(0)
    return Net(bias).eval()


def images(count: int, seed: int = 0) -> list[tuple[torch.Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    return [(torch.rand(1, 1, 12, 12, generator=rng),) for _ in range(count)]


def prepared(
    model: nn.Module, batches: Sequence[tuple[torch.Tensor, ...]], method: CalibrationMethod, bias: bool
) -> Model:
    return prepare(model, batches[0], batches, options=Options(calibration_method=method, bias_correction=bias))


def sqnr(model: nn.Module, found: Model) -> float:
    """Of the quantized graph on samples that calibration has not seen."""
    signal = noise = 0.0
    with torch.no_grad():
        for sample in images(64, seed=1):
            wanted = model(*sample)
            signal += float(wanted.square().sum())
            noise += float((wanted - found.quantized.converted(*sample)).square().sum())
    return 10 * math.log10(signal / noise)


def test_an_odd_sample_is_named_and_costs_little() -> None:
    model, batches = net(), images(40)
    usual = sqnr(model, prepared(model, batches, MSE, bias=True))
    batches[23] = (batches[23][0] * 20,)
    guarded = prepared(model, batches, MSE, bias=True)
    assert len(guarded.quantized.warnings) == 1
    assert "calibration sample 23" in guarded.quantized.warnings[0]
    assert sqnr(model, guarded) > usual - 1
    assert sqnr(model, prepared(model, batches, MINMAX, bias=False)) < usual - 6
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", CortadoWarning)
        compiled = guarded.compile("cortex-m4")
    assert any("calibration sample 23" in str(one.message) for one in told)
    assert compiled.report.warnings == guarded.quantized.warnings


@pytest.mark.parametrize("bias", [True, False])
def test_corrected_biases_bring_the_mean_back(bias: bool) -> None:
    """All weights but one are rounded to zero, and the inputs are positive: the outputs lose a tenth of their mean."""
    model = nn.Linear(64, 4, bias=bias).eval()
    with torch.no_grad():
        model.weight.fill_(0.0045)
        model.weight[:, 0] = 1.27
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rng = torch.Generator().manual_seed(0)
    batches = [(torch.rand(1, 64, generator=rng),) for _ in range(40)]
    means = {}
    for corrected in (False, True):
        found = prepared(model, batches, MSE, bias=corrected).quantized.converted
        with torch.no_grad():
            differences = [model(*batch) - found(*batch) for batch in batches]
        means[corrected] = float(torch.cat(differences).mean(0).abs().max())
    assert means[False] > 0.1
    assert means[True] < 0.05 * means[False]
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())  # the user's own are as they were


def test_a_bias_that_two_layers_share_is_left_alone() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            once: torch.Tensor = self.layer(x)
            return once + self.layer(once * 0.5)

    torch.manual_seed(0)
    batches = [(torch.randn(1, 6),) for _ in range(8)]
    found = prepared(Twice().eval(), batches, MSE, bias=True)
    found.compile("cortex-m4")


def test_corrected_models_run_bit_exact() -> None:
    batches = images(8)
    options = Options(calibration_method=MSE, bias_correction=True)
    compiled = cortado.compile(net(bias=False), batches[0], "cortex-m4", batches, name="net", options=options)
    assert compiled.run(*batches[1], on="host").bit_exact
    assert compiled.report.options.calibration_method is MSE
    assert compiled.report.options.bias_correction
