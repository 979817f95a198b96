"""Where tensors of 8 and of 16 bits meet: which codes are scaled there, and that nothing is rounded twice."""

import re

import pytest
import torch
from torch import Tensor, nn

import cortado
from cortado.frontend.quantize import convert
from cortado.options import Artifacts, CalibrationMethod, Options
from cortado.plan.lowered import reference_outputs

pytestmark = pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # few samples

BORDER = re.compile(r"^    cortado_(requantize|widen_codes|limit_codes)\(", re.MULTILINE)
SHAPE = (1, 4, 10, 10)


def samples(count: int, seed: int) -> list[tuple[Tensor]]:
    rng = torch.Generator().manual_seed(seed)
    return [(torch.randn(SHAPE, generator=rng),) for _ in range(count)]


def compiled(model: nn.Module, *wide: str) -> cortado.Compiled:
    """With these calls in 16 bits."""
    data = samples(12, 1)
    method = CalibrationMethod.MINMAX
    options = Options(artifacts=Artifacts.C, int16=wide, calibration_method=method, bias_correction=False)
    return cortado.compile(model.eval(), data[0], target="cortex-m4", calibration=data, options=options)


def borders(made: cortado.Compiled) -> set[str]:
    assert made.bundle is not None
    return set(BORDER.findall(made.bundle.files[f"{made.name}.c"]))


def chain(*between: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1), *between, nn.Conv2d(8, 4, 1))


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "between",
    [(), (nn.ReLU(),), (nn.ReLU6(), nn.MaxPool2d(2)), (nn.MaxPool2d(2), nn.Flatten(2), nn.Unflatten(2, (5, 5)))],
    ids=["nothing", "relu", "relu6, pool", "moved"],
)
def test_a_call_of_16_bits_between_calls_of_8_scales_nothing(between: tuple[nn.Module, ...]) -> None:
    assert borders(compiled(chain(*between), "1")) == {"widen_codes", "limit_codes"}


class Branches(nn.Module):
    """One tensor of 16 bits, read in both."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.wide, self.narrow = nn.Conv2d(4, 8, 1), nn.Conv2d(8, 4, 1), nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.first(x)
        return self.wide(y), self.narrow(y)


def test_a_tensor_that_is_read_in_both_keeps_its_own_steps() -> None:
    assert borders(compiled(Branches(), "first", "wide")) == {"requantize"}


def test_a_function_keeps_its_own_steps() -> None:
    """Its table has values between which it interpolates: they are to be finer than the codes of what reads it."""
    made = compiled(nn.Sequential(nn.Conv2d(4, 4, 1), nn.Tanh(), nn.Conv2d(4, 4, 1)), "0", "1")
    assert borders(made) == {"requantize"}


def test_a_pool_that_averages_reads_all_its_bits() -> None:
    made = compiled(chain(nn.AvgPool2d(3, padding=1, count_include_pad=False)), "1", "2")
    assert "limit_codes" not in borders(made)


def noise(made: cortado.Compiled, model: nn.Module) -> float:
    """Mean square of what the integers are beside the model, on data that they haven't seen."""
    assert made.graph is not None
    with torch.no_grad():
        return sum(
            float((reference_outputs(made.graph, one)[0] - model(*one)).square().mean()) for one in samples(24, 2)
        )


def test_rounding_once_is_nearer_to_the_model_than_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    model = chain(nn.ReLU())
    once = noise(compiled(model, "0", "1"), model)
    monkeypatch.setattr(convert, "meet", lambda prepared: None)
    scaled = compiled(model, "0", "1")
    assert borders(scaled) == {"requantize"}
    assert once < noise(scaled, model)


def test_probabilities_are_widened_too() -> None:
    """Codes of fixed steps, those of a softmax, may be read in 16 bits as any."""
    made = compiled(nn.Sequential(nn.Conv2d(4, 8, 1), nn.Softmax(1), nn.Conv2d(8, 4, 1)), "2")
    assert borders(made) == {"widen_codes"}


class Masked(nn.Module):
    """Scores of 8 bits, of which a softmax in 16 bits reads some."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.scores, self.parts = nn.Conv2d(4, 4, 1), nn.Softmax(-1)
        self.register_buffer("mask", torch.ones(10, 10).triu(1).bool())

    def forward(self, x: Tensor) -> Tensor:
        parts: Tensor = self.parts(self.scores(x).masked_fill(self.mask, float("-inf")))
        return parts


def test_a_mask_hides_scores_that_are_read_in_another_element() -> None:
    made, model = compiled(Masked(), "parts"), Masked()
    assert borders(made) == {"widen_codes"}
    assert noise(made, model) < 1e-4
