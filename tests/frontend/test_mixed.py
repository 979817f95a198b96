"""--precision auto: which tensors are int16 where measurement chooses, and mistakes around it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cortado.api import Model, prepare
from cortado.base.element import INT8, INT16
from cortado.base.errors import CortadoError
from cortado.options import Artifacts, Options
from helpers.single import decibels

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples

C_ALONE = Options(artifacts=Artifacts.C)


class Narrow(nn.Module):
    """The first tensor has small values of which all depends, and a large one that is of no account."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(16, 12), nn.Linear(12, 8), nn.Linear(8, 4)
        with torch.no_grad():
            self.first.weight[0] *= 50
            self.second.weight[:, 0] *= 0.001

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.third(torch.tanh(self.second(self.first(x))))
        return scores


def samples(count: int, seed: int = 1) -> list[tuple[Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    return [(torch.randn(1, 16, generator=rng),) for _ in range(count)]


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Narrow().eval()


def prepared(model: nn.Module, **options: object) -> Model:
    data = samples(33)
    return prepare(model, data[0], data, "mixed", options=Options(artifacts=Artifacts.C, **options), target="cortex-m4")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def auto(model: nn.Module) -> Model:
    return prepared(model, precision="auto", min_sqnr=33)


@pytest.mark.slow
def test_the_tensors_that_cost_most_are_int16_and_the_others_are_not() -> None:
    torch.manual_seed(0)
    network = Narrow().eval()
    network.third = nn.Linear(8, 64)  # its output would take most RAM, and is no tensor of small values
    mixed = prepared(network, precision="auto", min_sqnr=28).quantized.mixed
    assert mixed is not None
    by_name = {one.tensor: one for one in mixed.tensors}
    assert by_name["linear"].element == INT16
    assert by_name["linear"].why.startswith("int16: +")
    assert by_name["linear"].why.endswith(" dB for 12 bytes")
    narrow = [one for one in mixed.tensors if one.element == INT8]
    assert narrow
    assert all("is not needed" in one.why for one in narrow)
    assert mixed.bar == "--min-sqnr 28"
    assert mixed.ram[0] <= mixed.ram[1]


@pytest.mark.slow
def test_the_same_model_gives_the_same_choice(auto: Model, model: nn.Module) -> None:
    assert prepared(model, precision="auto", min_sqnr=33).quantized.mixed == auto.quantized.mixed


def test_a_bar_that_int8_reaches_leaves_all_as_it_is(model: nn.Module) -> None:
    plain, easy = prepared(model), prepared(model, precision="auto", min_sqnr=5)
    assert easy.quantized.mixed is not None
    assert not easy.quantized.mixed.calls
    files = [made.compile("cortex-m4", C_ALONE).bundle for made in (plain, easy)]
    assert files[0] is not None
    assert files[1] is not None
    assert files[0].files == files[1].files


def test_what_was_chosen_is_chosen_by_hand_in_the_same_way(auto: Model, model: nn.Module) -> None:
    assert auto.quantized.mixed is not None
    names = tuple(sorted(auto.quantized.mixed.calls))
    by_hand = prepared(model, int16=names).compile("cortex-m4", C_ALONE)
    made = auto.compile("cortex-m4", C_ALONE)
    assert made.graph is not None
    assert by_hand.graph is not None
    assert [value.element for value in made.graph.values.values()] == [
        value.element for value in by_hand.graph.values.values()
    ]


def test_a_bar_out_of_reach_says_what_was_reached_and_with_what(model: nn.Module) -> None:
    with pytest.raises(
        CortadoError,
        match=r"--min-sqnr 190 is out of reach: [0-9.]+ dB with all 4 calls .* \([0-9,]+ bytes of RAM, [0-9,]+ "
        r"cycles\), [0-9.]+ dB in int8 .* It is held back by weights of 8 bits \([0-9.]+ dB alone\)",
    ):
        prepared(model, precision="auto", min_sqnr=190)


@pytest.mark.host
def test_float32_is_the_third_rung(model: nn.Module) -> None:
    """A bar that int16 does not reach, and float32 does."""
    made = prepared(model, precision="auto", min_sqnr=110).compile("cortex-m4", C_ALONE)
    report = made.report.precision
    assert report is not None
    assert {one.element for one in report.tensors} == {"float32"}
    assert "no choice of int16 tensors reaches the bar" in report.tensors[0].why
    assert float(report.reached.split()[0]) >= 110 > float(report.int8.split()[0])
    (fresh,) = samples(1, seed=77)
    found = made.run(*fresh, on="host")
    assert found.bit_exact
    with torch.no_grad():
        wanted = model(*fresh)
    assert decibels(wanted, torch.as_tensor(found.outputs[0]).reshape(wanted.shape)) > 100


def labelled(model: nn.Module, place: Path, count: int = 60) -> str:
    data = samples(count, seed=5)
    with torch.no_grad():
        labels = np.array([int(model(*one).argmax()) for one in data])
    np.savez(place / "test.npz", x=np.concatenate([one[0].numpy() for one in data]), labels=labels)
    return str(place / "test.npz")


def test_accuracy_on_labelled_samples_may_be_the_bar(model: nn.Module, tmp_path: Path) -> None:
    made = prepared(model, precision="auto", max_drop=0.0, labelled=labelled(model, tmp_path))
    assert made.quantized.mixed is not None
    assert made.quantized.mixed.reached == "100.00% of 60 samples right (100.00% in float)"
    np.savez(tmp_path / "wrong.npz", x=np.zeros((3, 16), np.float32), labels=np.zeros(3, np.float32))
    with pytest.raises(CortadoError, match=r"'labels' holds float32 values of shape \[3\]; expected one integer"):
        prepared(model, precision="auto", max_drop=0.0, labelled=str(tmp_path / "wrong.npz"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"precision": "auto"}, "needs one target to reach, found none"),
        ({"precision": "auto", "min_sqnr": 30, "max_drop": 0.1}, "found --min-sqnr and --max-drop"),
        ({"precision": "auto", "max_drop": 0.1}, "--max-drop needs samples with labels: --labelled FILE"),
        ({"precision": "auto", "min_sqnr": 30, "labelled": "x.npz"}, "--min-sqnr needs no labels"),
        ({"min_sqnr": 30}, "--min-sqnr is a target for --precision auto"),
        ({"labelled": "x.npz"}, "--labelled is a target for --precision auto"),
        ({"precision": "auto", "min_sqnr": 30, "activations": "int16"}, "--precision auto and --activations int16"),
        ({"precision": "auto", "min_sqnr": 30, "artifacts": "pte"}, "--precision auto and --artifacts pte"),
        (
            {"activations": "int16", "artifacts": "pte"},
            "--activations int16 and --artifacts pte: int16",
        ),
        ({"int16": ("encoder",), "artifacts": "pte"}, "--int16 and --artifacts pte"),
        ({"precision": "auto", "min_sqnr": -3}, "--min-sqnr -3: expected a number of decibels from 0 to 200"),
        ({"precision": "auto", "min_sqnr": "35"}, "min_sqnr='35' is not a number"),
        ({"precision": "best"}, "precision='best': expected one of 'given', 'auto'"),
    ],
)
def test_what_can_not_be_meant_is_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(CortadoError) as error:
        Options(**given)  # type: ignore[arg-type]
    assert message in str(error.value)
