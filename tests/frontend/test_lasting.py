"""Ranges of tensors that regress are as wide as new data will need, where that costs less than saturation."""

import pytest
import torch
from torch import nn

from cortado.api import prepare
from cortado.base.findings import FindingKind
from cortado.frontend.precision.judgement import decibels
from cortado.frontend.quantize.calibration import LEAST_TO_LEAVE_ONE_OUT, lasting
from cortado.frontend.quantize.ranges import Seen
from cortado.options import Options

Tensor = torch.Tensor
MINMAX = Options(calibration_method="minmax", bias_correction=False)  # type: ignore[arg-type]


def seen(*samples: Tensor) -> list[Seen]:
    return [Seen.of(number, "x", x, float(x.min()), float(x.max())) for number, x in enumerate(samples)]


def test_a_range_is_wider_where_the_largest_sample_is_alone() -> None:
    """One value of four is 30% beyond all others: its square is a hundred times what rounding costs."""
    usual = [torch.tensor([0.0, 0.2, 0.4, 1.0]) for _ in range(15)]
    found = lasting(seen(*usual, torch.tensor([0.0, 0.2, 0.4, 1.3])), 0.0, 1.3, 255)
    assert found is not None
    assert found.factor == pytest.approx(1.3)
    assert found.beyond == pytest.approx(0.3)
    assert found.often == pytest.approx(1 / 17)
    assert found.ratio < 1
    equal = lasting(seen(*usual), 0.0, 1.0, 255)
    assert equal is not None
    assert (equal.factor, equal.beyond, equal.often) == (1.0, 0.0, 0.0)
    below = lasting(seen(*(-x for x in usual), torch.tensor([0.0, -0.2, -0.4, -1.3])), -1.3, 0.0, 255)
    assert below is not None
    assert below.factor == pytest.approx(1.3)


def test_what_rounding_would_cost_more_is_left_as_it_is() -> None:
    """One value of 100,000 reaches a little further: finer steps for all others are worth more."""
    usual = [torch.linspace(0, 1, 100_000) for _ in range(15)]
    large = usual[0].clone()
    large[-1] = 1.02
    found = lasting(seen(*usual, large), 0.0, 1.02, 255)
    assert found is not None
    assert found.factor == 1.0
    assert lasting(seen(*usual[: LEAST_TO_LEAVE_ONE_OUT - 1]), 0.0, 1.0, 255) is None


class Boxes(nn.Module):
    """Four coordinates, the logarithms of which a layer gives."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(1.5 * self.layer(x))


def data(count: int, seed: int) -> list[tuple[Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    return [(torch.randn(1, 8, generator=rng),) for _ in range(count)]


def test_coordinates_lose_less_on_new_data_and_the_rest_is_told() -> None:
    torch.manual_seed(0)
    module, batches, fresh = Boxes().eval(), data(16, 0), data(400, 1)
    kept = {}
    for name, options in {"minmax": MINMAX, "default": Options()}.items():
        model = prepare(module, batches[0], batches, options=options).quantized
        with torch.no_grad():
            kept[name] = decibels([(module(*x), model.converted(*x)) for x in fresh])
    assert kept["default"] > kept["minmax"] + 1
    told = {one.kind: one for one in model.findings}
    assert "of new samples" in told[FindingKind.SATURATION].text
