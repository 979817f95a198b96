"""Tensors of tiny values keep their signal or are refused; an output that loses its signal is warned about."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cortado import api
from cortado.artifact.page import build_page
from cortado.base.errors import CortadoError, CortadoWarning
from cortado.base.findings import FindingKind
from cortado.cli.entry import main
from cortado.frontend.precision.judgement import decibels
from cortado.plan.lowered import reference_outputs
from helpers.single import Function, lower
from helpers.values import present

Tensor = torch.Tensor


def tiny_network(size: float) -> nn.Module:
    """Its activations, weights and biases make values of about `size`."""
    torch.manual_seed(0)
    first, second, last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 1), nn.Linear(288, 5)
    with torch.no_grad():
        first.weight.mul_(size)
        for layer in (first, second, last):
            present(layer.bias).mul_(size)
    return nn.Sequential(first, nn.ReLU(), second, nn.Hardswish(), nn.Flatten(), last).eval()


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize("size", [1e-5, 1e-8, 1e-12])
def test_activations_of_tiny_values_keep_their_signal(size: float, tmp_path: Path) -> None:
    model = tiny_network(size)
    batches = [(torch.randn(1, 3, 8, 8),) for _ in range(4)]
    compiled = api.prepare(model, batches[0], batches, name="tiny").compile("cortex-m4")
    assert compiled.graph is not None
    pairs = [(model(*batch).detach(), reference_outputs(compiled.graph, batch)[0]) for batch in batches]
    assert decibels(pairs) > 25
    assert [finding.kind for finding in compiled.report.warnings] == [FindingKind.FEW_SAMPLES]
    assert compiled.save(tmp_path / "tiny").run([[batches[0][0].numpy()]], "host").bit_exact


def test_a_bias_of_ordinary_size_behind_tiny_values_is_kept() -> None:
    """In steps of the input's scale times the weights' it would not fit 32 bits."""
    first, second = nn.Conv2d(2, 3, 1), nn.Conv2d(3, 4, 1)
    with torch.no_grad():
        first.weight.mul_(1e-9)
        first.bias.mul_(1e-9)  # type: ignore[union-attr]
        second.bias.copy_(torch.tensor([0.5, -3.0, 0.0, 8.0]))  # type: ignore[union-attr]
    found = lower(nn.Sequential(first, second), [(1, 2, 3, 3)])
    values = reference_outputs(found.graph, found.batches[0])[0]
    assert float((values - second.bias.detach()[:, None, None]).abs().max()) <= found.scales[0]  # type: ignore[union-attr]


def test_values_below_every_scale_are_refused() -> None:
    model = Function(lambda self, x: self.linear(x) * 1e-25, linear=nn.Linear(4, 4))
    with pytest.raises(CortadoError, match=r"small_ranges\.py:\d+ .*: no value of this tensor exceeds .*e-2\d on the"):
        lower(model, [(1, 4)])


# ---- outputs that lose their signal ------------------------------------------------------------------------------


class Lost(nn.Module):
    """A large value beside a small one in one tensor, of which only the small one goes out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.second(x)
        both = torch.cat((1000.0 * y, y), 1)
        return self.first(x), both[:, 8:].relu()


def batches_of(seed: int = 0) -> list[tuple[Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    return [(torch.randn(1, 8, generator=rng),) for _ in range(4)]


def test_an_output_without_signal_is_warned_about() -> None:
    torch.manual_seed(0)
    batches = batches_of()
    prepared = api.prepare(Lost(), batches[0], batches, name="lost")
    with pytest.warns(CortadoWarning, match=r"lost: output 1 \('relu.*'\) keeps nothing of its signal") as caught:
        compiled = prepared.compile("cortex-m4")
    warnings = compiled.report.warnings
    assert [str(item.message) for item in caught] == [f"lost: {finding.text}" for finding in warnings]
    few, codes, low = warnings
    assert (few.kind, codes.kind, low.kind) == (FindingKind.FEW_SAMPLES, FindingKind.FEW_CODES, FindingKind.LOW_SQNR)
    assert (low.limit, codes.found) == (20.0, 1)
    assert low.found is None or low.found < 1
    assert "keeps nothing of its signal" in build_page(compiled.report).replace("&#x27;", "'")


MODEL_FILE = """
import torch
from torch import nn

class Lost(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        y = self.linear(x)
        return torch.cat((1000.0 * y, y), 1)[:, 8:].relu()

def model():
    torch.manual_seed(0)
    return Lost(), (torch.randn(1, 8),)
"""


def test_the_command_line_warns_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lost.py").write_text(MODEL_FILE)
    arguments = [
        "compile",
        f"{tmp_path / 'lost.py'}:model",
        "--calibration",
        "random",
        "--target",
        "cortex-m4",
        "--json",
    ]
    assert main([*arguments, "-o", str(tmp_path / "out")]) == 0
    out, err = capsys.readouterr()
    codes, low = json.loads(out)["warnings"]
    assert (codes["kind"], low["kind"]) == ("few-codes", "low-sqnr")
    assert low["text"].startswith("output 0 ('relu")
    assert f"warning: {json.loads(out)['model']}: {low['text']}" in err
    assert main([*arguments, "--strict", "-o", str(tmp_path / "strict")]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["exit_code"] == 2
    assert "2 warnings, none expected with --strict" in err
    assert low["text"] in err
    assert not (tmp_path / "strict").exists()


@pytest.mark.parametrize(
    ("wanted", "found", "kept"),
    [
        ([1.0, 1.0], [1.0, 1.0], math.inf),
        ([0.0, 0.0], [0.0, 0.0], math.inf),
        ([0.0, 0.0], [0.0, 0.1], -math.inf),
        ([3.0, 1.0], [3.0, 0.0], 10.0),
        ([3.0, math.inf, 1.0], [3.0, 7.0, 0.0], 10.0),
    ],
)
def test_decibels(wanted: list[float], found: list[float], kept: float) -> None:
    assert decibels([(torch.tensor(wanted), torch.tensor(found))]) == pytest.approx(kept)


def test_several_samples_count_for_small_networks() -> None:
    """The first sample is all zeros in the output that is lost: only the others show it."""
    torch.manual_seed(0)
    model: Any = Lost()
    nn.init.zeros_(model.second.bias)
    batches = [(torch.zeros(1, 8),), *batches_of()]
    with pytest.warns(CortadoWarning, match="output 1"):
        api.prepare(model, batches[0], batches, name="lost").compile("cortex-m4")
