"""Ranges from calibration data, samples that are left out of them, and biases that make up for rounding."""

import gc
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torchao.quantization.pt2e import utils

import cortado
from cortado.api import Model, prepare
from cortado.artifact.page import build_page
from cortado.artifact.report import Report
from cortado.base.element import INT8
from cortado.base.errors import CortadoError, CortadoWarning
from cortado.base.findings import Finding, FindingKind
from cortado.base.names import html_text
from cortado.frontend.capture import torch_settings
from cortado.frontend.capture.torch_settings import OBJECTS
from cortado.frontend.quantize.ranges import Seen, choose_range, lone_sample, odd_samples, used_codes
from cortado.ir.patched import counted_on
from cortado.options import Artifacts, CalibrationMethod, Options
from helpers.single import Expression, randn
from helpers.values import present

MSE, MINMAX, PERCENTILE = CalibrationMethod.MSE, CalibrationMethod.MINMAX, CalibrationMethod.PERCENTILE


def seen(*samples: torch.Tensor) -> list[Seen]:
    return [Seen.of(number, "x", x, float(x.min()), float(x.max())) for number, x in enumerate(samples)]


def squared_error(values: torch.Tensor, low: float, high: float) -> float:
    step = (high - low) / 255
    zero = round(-low / step)
    codes = (values / step).round().add(zero).clamp(0, 255)
    return float(((codes - zero) * step - values).square().sum())


def test_a_histogram_of_the_largest_numbers_is_that_of_small_ones() -> None:
    """What float32 holds by itself, and not times the number of bins."""
    values = torch.linspace(-1, 1, 1001)
    small, large = seen(values), seen(values * 2.0**126)
    np.testing.assert_array_equal(large[0].counts, small[0].counts)


@pytest.mark.parametrize("shift", [0.0, 3.0, -3.0])
def test_the_range_of_least_error_beats_every_other(shift: float) -> None:
    """On values with long tails: within 5% of the best of a grid, below the whole range."""
    rng = torch.Generator().manual_seed(0)
    samples = [torch.randn(4000, generator=rng) * torch.rand(4000, generator=rng).pow(-0.4) + shift for _ in range(8)]
    values = torch.cat(samples)
    low, high = choose_range(seen(*samples), MSE, INT8)
    least, most = min(0.0, float(values.min())), max(0.0, float(values.max()))
    grid = np.linspace(0.1, 1.0, 91)
    best = min(squared_error(values, least * a, most * b) for a in grid[::3] for b in grid[::3])
    assert low <= 0.0 <= high
    assert squared_error(values, low, high) <= 1.05 * best
    assert squared_error(values, low, high) < 0.95 * squared_error(values, least, most)


def test_all_values_and_all_but_a_few() -> None:
    values = torch.cat([torch.linspace(-1, 1, 30_000), torch.tensor([50.0])])
    assert choose_range(seen(values), MINMAX, INT8) == (-1.0, 50.0)
    low, high = choose_range(seen(values), PERCENTILE, INT8)
    assert low == pytest.approx(-1, abs=0.1)
    assert high == pytest.approx(1, abs=0.1)


def test_a_tensor_of_zeros_or_of_one_value_has_a_range() -> None:
    for method in CalibrationMethod:
        assert choose_range(seen(torch.zeros(5)), method, INT8) == (0.0, 0.0)
        assert choose_range(seen(torch.full((5,), 2.0)), method, INT8)[1] == pytest.approx(2.0, rel=0.01)


def test_a_sample_unlike_all_others_is_odd() -> None:
    rng = torch.Generator().manual_seed(0)
    samples = [torch.randn(200, generator=rng) for _ in range(30)]
    assert odd_samples(seen(*samples)) == {}
    samples[17] *= 20
    assert list(odd_samples(seen(*samples))) == [17]
    assert odd_samples(seen(torch.zeros(3), torch.zeros(3))) == {}


def test_a_sample_that_sets_a_range_alone() -> None:
    rng = torch.Generator().manual_seed(0)
    samples = [torch.randn(2000, generator=rng) for _ in range(8)]
    assert lone_sample(seen(*samples), *choose_range(seen(*samples), MINMAX, INT8)) is None
    samples[5][17] = -60.0
    found = lone_sample(seen(*samples), *choose_range(seen(*samples), MINMAX, INT8))
    assert found is not None
    assert found.sample == 5
    assert found.times == pytest.approx(60 / 3.3, rel=0.1)  # of 1,000 values of this kind, one is beyond 3.3
    assert lone_sample(seen(*samples), -4.0, 4.0) is None  # it saturates, and costs nobody a code
    samples[3][2] = 50.0
    assert lone_sample(seen(*samples), *choose_range(seen(*samples), MINMAX, INT8)) is None  # there are two of them


def test_codes_are_few_where_values_differ_by_less_than_sixteen_steps() -> None:
    many = seen(torch.linspace(0, 1, 100), torch.linspace(0, 1.2, 100))
    assert used_codes(many, scale=1.0) == 2
    assert used_codes(many, scale=0.1) == 13
    assert used_codes(many, scale=0.05) is None
    mask = seen(torch.tensor([0.0, 1.0, 1.0]), torch.tensor([0.0, 1.0, 0.0]))
    assert used_codes(mask, scale=1.0) is None  # two codes say all there is to say


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
    (finding,) = guarded.quantized.findings
    assert (finding.kind, finding.sample, finding.limit) == (FindingKind.ODD_SAMPLE, 23, 2.5)
    assert 10 < present(finding.found) < 30
    assert "calibration sample 23" in finding.text
    assert sqnr(model, guarded) > usual - 1
    assert sqnr(model, prepared(model, batches, MINMAX, bias=False)) < usual - 6
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", CortadoWarning)
        compiled = guarded.compile("cortex-m4")
    assert any("calibration sample 23" in str(one.message) for one in told)
    (warned,) = compiled.report.warnings
    assert (warned.kind, warned.sample) == (finding.kind, finding.sample)
    assert warned.text.startswith(f"{finding.text}. With --calibration-method minmax")


@pytest.mark.cases(1)
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


# ---- warnings ------------------------------------------------------------------------------------------------------


def kinds(found: Model) -> list[FindingKind]:
    return [finding.kind for finding in found.quantized.findings]


def test_few_samples_are_told_of_and_enough_are_not() -> None:
    (finding,) = prepared(net(), images(31), MSE, bias=True).quantized.findings
    assert (finding.kind, finding.found, finding.limit) == (FindingKind.FEW_SAMPLES, 31, 32)
    assert finding.text.startswith("31 calibration samples, expected 32 or more")
    assert kinds(prepared(net(), images(32), MSE, bias=True)) == []


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("make", "expected", "different"),
    [
        (torch.zeros_like, [FindingKind.FEW_SAMPLES, FindingKind.CONSTANT_INPUT], 1),
        (lambda x: torch.full_like(x, 0.5), [FindingKind.FEW_SAMPLES, FindingKind.CONSTANT_INPUT], 1),
        (lambda x: images(1)[0][0], [FindingKind.FEW_SAMPLES], 1),
        (lambda x: images(2)[int(float(x.flatten()[0]) * 1e4) % 2][0], [FindingKind.FEW_SAMPLES], 2),
    ],
)
def test_data_that_say_nothing_are_told_of(
    make: Callable[[torch.Tensor], torch.Tensor], expected: list[FindingKind], different: int
) -> None:
    """All zeros, one number, one sample or two again and again; an error where warnings are."""
    batches = [(make(batch[0]),) for batch in images(40)]
    found = prepared(net(), batches, MSE, bias=True)
    assert kinds(found) == expected
    few = found.quantized.findings[0]
    assert (few.found, few.limit) == (different, 32)
    assert "of 40 that were given" in few.text
    if FindingKind.CONSTANT_INPUT in expected:
        assert "everywhere in every calibration sample" in found.quantized.findings[1].text
    with pytest.raises(CortadoError, match="none expected with --strict"):
        found.compile("cortex-m4", Options(strict=True, artifacts=Artifacts.C))


def test_an_input_of_many_that_never_changes_is_named() -> None:
    class Two(nn.Module):
        def forward(self, x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
            return x * gain

    batches = [(torch.randn(1, 4), torch.full((1, 1), 0.25)) for _ in range(32)]
    (finding,) = prepare(Two(), batches[0], batches).quantized.findings
    assert (finding.kind, finding.tensor) == (FindingKind.CONSTANT_INPUT, "input 'gain'")


def test_a_sample_is_reported_once() -> None:
    """With all values kept it sets ranges alone; where it is left out, that is told instead."""
    batches = images(32)
    batches[9] = (batches[9][0] * 30,)
    (alone,) = prepared(net(), batches, MINMAX, bias=False).quantized.findings
    assert (alone.kind, alone.sample) == (FindingKind.LONE_SAMPLE, 9)
    assert "calibration sample 9 alone sets the range of" in alone.text
    assert "--calibration-method mse" in alone.text
    assert kinds(prepared(net(), batches, MSE, bias=True)) == [FindingKind.ODD_SAMPLE]


class Head(nn.Module):
    """Scores from 0 to 1 beside coordinates in pixels, in one tensor or apart."""

    def __init__(self, joined: bool) -> None:
        super().__init__()
        self.boxes, self.scores, self.joined = nn.Linear(16, 8), nn.Linear(16, 8), joined

    def forward(self, x: torch.Tensor) -> Any:
        found = (self.boxes(x) * 100 + 160).relu(), self.scores(x).clamp(0, 1)
        return torch.cat(found, 1) if self.joined else found


def head(joined: bool) -> Model:
    torch.manual_seed(0)
    rng = torch.Generator().manual_seed(0)
    batches = [(torch.rand(1, 16, generator=rng),) for _ in range(40)]
    return prepared(Head(joined).eval(), batches, MSE, bias=True)


def test_a_part_of_a_concatenation_with_few_codes_is_named() -> None:
    (finding,) = head(joined=True).quantized.findings
    assert finding.kind is FindingKind.FEW_CODES
    assert 1 <= present(finding.found) <= 3
    assert "codes of 256 on the calibration data" in finding.text
    assert "torch.cat" in finding.text
    assert "test_calibration.py" in present(finding.tensor)  # the line of the scores
    assert kinds(head(joined=False)) == []


JOINED: dict[str, Callable[[torch.Tensor], Any]] = {
    "a usual range": lambda x: torch.cat([torch.sigmoid(6 * x), 300 * x], 1),
    "a fixed range": lambda x: torch.cat([torch.softmax(6 * x, 1), 300 * x], 1),
    "a scale of its own": lambda x: (torch.cat([y := torch.sin(x), 300 * x], 1), torch.exp(y)),
    "a join in a join": lambda x: torch.cat([torch.cat([torch.sin(x), torch.cos(x)], 1), 300 * x], 1),
    "below zero": lambda x: torch.cat([-torch.sigmoid(6 * x), 300 * torch.relu(x)], 1),
    "maximum": lambda x: torch.maximum(torch.sin(x), 300 * x.flip(1)),
}


def findings_of(function: Callable[[torch.Tensor], Any]) -> tuple[Finding, ...]:
    batches = [(randn(1, 16, seed=seed),) for seed in range(40)]
    return prepared(Expression(function), batches, MINMAX, bias=False).quantized.findings


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", JOINED)
def test_codes_are_counted_where_a_tensor_enters_a_join(name: str) -> None:
    (finding,) = findings_of(JOINED[name])
    assert finding.kind is FindingKind.FEW_CODES
    assert 1 <= present(finding.found) <= 4
    assert "test_calibration.py" in present(finding.tensor)


APART: dict[str, Callable[[torch.Tensor], Any]] = {
    "enough codes": lambda x: torch.cat([torch.sin(x), 2 * x], 1),
    "enough codes of a fixed range": lambda x: torch.cat([torch.softmax(6 * x, 1), x], 1),
    "a mask": lambda x: torch.cat([torch.where(x > 0, 1.0, 0.0), 300 * x], 1),
    "a constant": lambda x: torch.cat([torch.ones_like(x), 300 * x], 1),
    "a bound that is far away": lambda x: torch.minimum(x, torch.linspace(39, 39.1, 16)),
}


@pytest.mark.parametrize("name", APART)
def test_nothing_is_said_of_tensors_that_lose_nothing_in_a_join(name: str) -> None:
    assert findings_of(APART[name]) == ()


def test_strict_makes_warnings_errors() -> None:
    model = head(joined=True)
    with pytest.raises(CortadoError, match=r"net: 2 warnings, none expected with --strict .*\n  .*codes of 256"):
        replace(model, name="net").compile("cortex-m4", Options(strict=True))
    head(joined=False).compile("cortex-m4", Options(strict=True))


@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")
def test_warnings_are_data_in_the_report() -> None:
    compiled = head(joined=True).compile("cortex-m4")
    data, lost = compiled.report.to_json()["warnings"]
    assert (lost["kind"], "part [:, 8:16] of output 0" in lost["text"]) == ("low-sqnr", True)
    assert set(data) == {"kind", "text", "found", "limit", "tensor", "sample"}
    assert (data["kind"], data["limit"], data["sample"]) == ("few-codes", 16, None)
    assert Report.from_json(compiled.report.to_json(), "report.json") == compiled.report
    assert html_text(data["text"]) in build_page(compiled.report)


def test_the_report_says_how_the_model_was_calibrated() -> None:
    """Whatever the options are that a target is compiled with."""
    compiled = prepared(net(), images(8), MINMAX, bias=False).compile("cortex-m4")
    assert compiled.report.options.calibration_method is MINMAX
    assert not compiled.report.options.bias_correction


def _names_for(module: nn.Module) -> list[str]:
    """What PT2E calls nine attributes of a module that has some already."""
    found = []
    for number in range(9):
        name = utils.get_new_attr_name_with_prefix("a.b_" if number % 3 else "c_")(module)
        module.register_buffer(name, torch.zeros(()))
        found.append(name)
    return found


def test_names_that_are_counted_on_are_those_of_pt2e() -> None:
    first, second = nn.Linear(1, 1), nn.Linear(1, 1)
    for module in (first, second):
        module.register_buffer("a_b_2", torch.zeros(()))
    expected = _names_for(first)
    with counted_on():
        assert _names_for(second) == expected


def test_compiling_takes_one_thread_and_gives_the_others_back() -> None:
    threads: list[int] = []

    class Counting(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            threads.append(torch.get_num_threads())
            return torch.relu(x)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        prepare(Counting(), (torch.ones(1, 4),), [(torch.ones(1, 4),)])
        assert set(threads) == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_compiling_seldom_collects_garbage_and_leaves_the_collector_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_settings, "_frozen", [])
    seen: list[tuple[int, bool]] = []

    class Looking(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append((gc.get_threshold()[0], gc.get_freeze_count() > 0))
            return torch.relu(x)

    before = gc.get_threshold()
    gc.unfreeze()  # what conftest.py froze
    prepare(Looking(), (torch.ones(1, 4),), [(torch.ones(1, 4),)])
    assert set(seen) == {(OBJECTS, True)}
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)
    gc.freeze()  # as a server does before it forks
    try:
        prepare(Looking(), (torch.ones(1, 4),), [(torch.ones(1, 4),)])
        assert gc.get_freeze_count() > 0
    finally:
        gc.freeze()  # as conftest.py did
