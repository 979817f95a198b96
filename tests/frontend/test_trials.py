"""Advice on calibration data is tried before it is printed: what it promises is what it gives."""

import re
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

import cortado
from cortado.base.errors import CortadoWarning
from cortado.base.findings import FindingKind
from cortado.frontend.precision.judgement import decibels
from cortado.options import Artifacts, CalibrationMethod, Options
from cortado.plan.lowered import reference_outputs
from helpers.single import Expression
from helpers.values import present

Data = list[tuple[Tensor]]
MINMAX, MSE = CalibrationMethod.MINMAX, CalibrationMethod.MSE


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 8)).eval()


def drawn(count: int, seed: int = 0) -> Data:
    rng = torch.Generator().manual_seed(seed)
    return [(torch.randn(1, 16, generator=rng),) for _ in range(count)]


def compiled(model: nn.Module, data: Data, method: CalibrationMethod = MINMAX, int16: str = "") -> cortado.Compiled:
    how = Options(
        artifacts=Artifacts.C,
        calibration_method=method,
        bias_correction=False,
        int16=(int16,) if int16 else (),
    )
    return cortado.compile(model, data[0], "cortex-m4", data, "tried", how)


def kept(found: cortado.Compiled, model: nn.Module, data: Data) -> float:
    with torch.no_grad():
        return decibels([(model(*one), reference_outputs(present(found.graph), one)[0]) for one in data])


def told(found: cortado.Compiled, kind: FindingKind) -> str:
    return next(one.text for one in found.report.warnings if one.kind is kind)


def promised(text: str) -> Sequence[float]:
    """For the sample then and now, for the others then and now."""
    found = re.search(
        r"keeps (\d+) dB for it \(it keeps (\d+) dB now\) and keeps (\d+) dB for the others \(it keeps (\d+) dB now",
        text,
    )
    return [float(one) for one in present(found).groups()]


@pytest.mark.filterwarnings(f"ignore::{CortadoWarning.__module__}.CortadoWarning")
def test_minmax_gives_an_odd_sample_and_the_others_what_is_told() -> None:
    model, data = network(), drawn(40)
    data[23] = (data[23][0] * 12,)
    found = compiled(model, data, MSE)
    others = data[:23] + data[24:]
    cured = compiled(model, data, MINMAX)
    then, now, rest_then, rest_now = promised(told(found, FindingKind.ODD_SAMPLE))
    assert (then, now) == pytest.approx((kept(cured, model, data[23:24]), kept(found, model, data[23:24])), abs=2)
    assert (rest_then, rest_now) == pytest.approx((kept(cured, model, others), kept(found, model, others)), abs=2)
    assert rest_then < rest_now - 5


@pytest.mark.filterwarnings(f"ignore::{CortadoWarning.__module__}.CortadoWarning")
def test_minmax_takes_all_odd_samples_in_not_the_one_of_the_warning_alone() -> None:
    model, data = network(), drawn(40)
    data[23], data[7] = (data[23][0] * 8,), (data[7][0] * 80,)
    found, cured = compiled(model, data, MSE), compiled(model, data, MINMAX)
    others = [one for number, one in enumerate(data) if number not in (7, 23)]
    both = [one.text for one in found.report.warnings if one.kind is FindingKind.ODD_SAMPLE]
    assert [number for text in both for number in (7, 23) if f"sample {number} is left out" in text] == [7, 23]
    for text, odd in zip(both, (7, 23), strict=True):
        then, _, rest_then, _ = promised(text)
        assert then == pytest.approx(kept(cured, model, data[odd : odd + 1]), abs=2.5)
        assert rest_then == pytest.approx(kept(cured, model, others), abs=2)


def of_levels(decades: float, seed: int = 0) -> Data:
    """Samples of unlike loudness, whose loudest a few calibration samples miss."""
    rng = torch.Generator().manual_seed(seed)
    return [(10 ** (decades * torch.rand(1, generator=rng)) * torch.randn(1, 16, generator=rng),) for _ in range(248)]


def of_new(text: str) -> float:
    return float(present(re.search(r"of new samples, by a cautious estimate, it keeps (\d+) dB\)", text)).group(1))


@pytest.mark.filterwarnings(f"ignore::{CortadoWarning.__module__}.CortadoWarning")
def test_what_new_samples_keep_without_a_lone_sample_is_told_where_it_is_less() -> None:
    model, data = network(), of_levels(1.2)
    data[5] = (data[5][0] * 30,)
    text = told(compiled(model, data[:48]), FindingKind.LONE_SAMPLE)
    cured = compiled(model, [*data[:5], *data[6:48]])
    _, _, others, _ = promised(text)
    assert of_new(text) <= kept(cured, model, data[48:]) < others - 2


class Shifted(nn.Module):
    """A network of small differences."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner((x - 7.0) * 30.0)
        return result


@pytest.mark.filterwarnings(f"ignore::{CortadoWarning.__module__}.CortadoWarning")
def test_what_new_samples_keep_with_wider_codes_is_told_where_it_is_less() -> None:
    """The layers behind the wider codes have 8 bits."""
    data, model = [(7 + 0.006 * one,) for (one,) in of_levels(1.2)], Shifted().eval()
    text = told(compiled(model, data[:40]), FindingKind.FEW_CODES)
    option, then = present(re.search(r"With --int16 '(.*)' output 0 keeps (\d+) dB", text)).groups()
    assert of_new(text) <= kept(compiled(model, data[:40], int16=option), model, data[40:]) < float(then) - 2


@pytest.mark.filterwarnings(f"ignore::{CortadoWarning.__module__}.CortadoWarning")
def test_leaving_a_lone_sample_out_gives_what_is_told() -> None:
    model, data = network(), drawn(40)
    data[9] = (data[9][0] * 12,)
    found, others = compiled(model, data), data[:9] + data[10:]
    cured = compiled(model, others)
    then, now, rest_then, rest_now = promised(told(found, FindingKind.LONE_SAMPLE))
    assert (then, now) == pytest.approx((kept(cured, model, data[9:10]), kept(found, model, data[9:10])), abs=2)
    assert (rest_then, rest_now) == pytest.approx((kept(cured, model, others), kept(found, model, others)), abs=2)
    assert rest_then > rest_now + 5


@pytest.mark.filterwarnings(f"ignore::{CortadoWarning.__module__}.CortadoWarning")
def test_16_bits_give_a_tensor_of_few_codes_what_is_told() -> None:
    rng = torch.Generator().manual_seed(3)
    data = [(torch.rand(1, 16, generator=rng) * 0.1 + 7,) for _ in range(33)]
    model = Expression(lambda x: (x - 7.0) * 30.0)
    found = compiled(model, data)
    text = told(found, FindingKind.FEW_CODES)
    option, then, now = present(
        re.search(r"With --int16 '(.*)' output 0 keeps (\d+) dB \(it keeps (\d+) dB", text)
    ).groups()
    assert float(now) == pytest.approx(kept(found, model, data), abs=2)
    # 7 is rounded with the input's step, which the room for other data decides
    assert float(then) == pytest.approx(kept(compiled(model, data, int16=option), model, data), abs=4)


@pytest.mark.filterwarnings(f"ignore::{CortadoWarning.__module__}.CortadoWarning")
def test_16_bits_that_help_no_output_are_not_advised() -> None:
    """A branch of few codes that adds nothing to speak of."""
    data, weights = drawn(40), torch.cat([torch.eye(16), 1e-4 * torch.eye(16)])
    model = Expression(lambda x: torch.cat([300 * x, torch.sin(x)], 1) @ weights)
    found = compiled(model, data)
    text = told(found, FindingKind.FEW_CODES)
    option = present(re.search(r"16 bits for it \(--int16 '(.*)'\) improve no output", text)).group(1)
    assert kept(compiled(model, data, int16=option), model, data) < kept(found, model, data) + 3
