"""int8 and int16 tensors that measurement chose: the bar holds, the same bits everywhere, RAM near the best."""

import importlib
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from cortado.api import Compiled
from cortado.api import compile as compile_model
from cortado.base.errors import CortadoError
from cortado.frontend.precision.judgement import decibels
from cortado.models import zoo
from cortado.options import Options
from cortado.plan.lowered import run_reference
from cortado.run.runner import HOST, RUNTIME_CHECKS
from helpers.cores import THREE, each_core
from helpers.paths import ROOT

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples
BAR = 55.0


class Net(nn.Module):
    """Windows, a sum, a function, a mean, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.third, self.head = nn.Conv2d(6, 8, 1), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        first = torch.relu(self.first(x))
        both = first + torch.tanh(self.second(first))
        scores: Tensor = self.head(torch.relu(self.third(both)).mean((2, 3)))
        return scores


def images(count: int, seed: int) -> list[tuple[Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    return [(torch.randn(1, 2, 10, 10, generator=rng),) for _ in range(count)]


def mixed(target: str) -> tuple[nn.Module, Compiled]:
    torch.manual_seed(1)
    model, data = Net().eval(), images(33, 1)
    options = Options(artifacts="c", precision="auto", min_sqnr=BAR)  # type: ignore[arg-type]
    return model, compile_model(model, data[0], target, data, name="mixed", options=options)


@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*THREE, here="cortex-m4"))
def test_the_bar_holds_and_all_places_have_the_same_bits(target: str, tmp_path: Path) -> None:
    model, made = mixed(target)
    assert made.graph is not None
    assert {value.element.name for value in made.graph.values.values() if value.qparams is not None} == {
        "int8",
        "int16",
    }
    data = images(8, 1)
    with torch.no_grad():
        found = [(model(*one), run_reference(made.graph, one)[made.graph.outputs[0]]) for one in data]
    assert decibels(found) >= BAR
    report = made.report.precision
    assert report is not None
    assert made.report.memory is not None
    assert report.arena_bytes == made.report.memory.arena_bytes
    assert {one.element for one in report.tensors} == {"int8", "int16"}
    artifact = made.save(tmp_path / "mixed")
    page = (tmp_path / "mixed" / "report.html").read_text()
    assert "<h2>Precision</h2>" in page
    assert "dB for" in page
    fresh = [[one[0].numpy()] for one in images(3, 7)]
    assert artifact.run(fresh, HOST, flags=(RUNTIME_CHECKS,)).bit_exact
    assert artifact.run(fresh).bit_exact


@pytest.mark.slow
def test_nothing_is_written_where_a_bar_is_out_of_reach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from cortado.cli import main

    command = ["compile", "ds_cnn", "--precision", "auto", "--min-sqnr", "190", "--artifacts", "c"]
    assert main([*command, "--target", "cortex-m4", "--output", str(tmp_path / "out")]) == 2
    assert "--min-sqnr 190 is out of reach" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dense", "windows", "residual"])
def test_the_choice_is_near_the_best_of_all_subsets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    benchmark = importlib.import_module("mixed")
    rows = benchmark.measure(name, "cortex-m4")
    assert len(rows) == len(benchmark.BARS)
    assert all(row["calls"] <= 10 for row in rows)
    assert all(row["ratio"] <= benchmark.MOST for row in rows), rows


@pytest.mark.slow
def test_the_choice_takes_less_than_three_times_a_plain_compile() -> None:
    network = zoo.get("ds_cnn")
    data, taken = network.calibration(8), []
    for given in ({}, {"precision": "auto", "min_sqnr": 36.0}):
        options = Options(artifacts="c", **given)  # type: ignore[arg-type]
        made = compile_model(network.build(), network.example_inputs(), "cortex-m4", data, "timed", options)
        taken.append(sum(made.report.compile_seconds.values()))
    assert taken[1] < 3 * taken[0]


def test_a_network_of_integers_has_no_decibels() -> None:
    class Count(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x > 0.5).sum(1)

    data = [(torch.rand(1, 8),) for _ in range(3)]
    with pytest.raises(CortadoError, match=r"--min-sqnr 30: the model's outputs are integers and truth values"):
        compile_model(
            Count(),
            data[0],
            "cortex-m4",
            data,
            options=Options(artifacts="c", precision="auto", min_sqnr=30.0),  # type: ignore[arg-type]
        )
