"""What can't be compiled is refused after the first calibration sample, with its line; what can be, is not."""

import inspect
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

import cortado
from cortado.api import Options, prepare
from cortado.base.errors import CortadoError, Refused
from cortado.options import Artifacts
from helpers.single import Function, randn, seeded


class Counted(nn.Module):
    """Counts the samples that a model is run with."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.calls: list[int] = []

    def forward(self, *inputs: Tensor) -> Tensor:
        if not torch.compiler.is_exporting():
            self.calls.append(1)
        result: Tensor = self.inner(*inputs)
        return result


class Running(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cumprod(x, dim=1)


class Huge(nn.Module):
    def __init__(self, height: int = 300, width: int = 300) -> None:
        super().__init__()
        self.weight = nn.Parameter(randn(1, 1, height, width))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.conv2d(x, self.weight)


def refusal(model: nn.Module, sizes: Sequence[int], options: Options = Options()) -> tuple[str, int]:  # noqa: B008
    """What is said, and how many samples were run until then."""
    counted = Counted(model)
    batches = [(randn(*sizes, seed=seed),) for seed in range(9)]
    with pytest.raises(Refused) as caught:
        cortado.compile(counted, batches[0], "cortex-m4", batches, options=options)
    return str(caught.value), len(counted.calls)


def line_of(model: type[nn.Module]) -> str:
    return f"{__file__}:{inspect.getsourcelines(model.forward)[1] + 1}"


def test_a_call_without_an_operator_is_refused_at_once() -> None:
    message, calls = refusal(nn.Sequential(nn.Linear(8, 8), Running()), (1, 8))
    assert "aten.cumprod" in message
    assert line_of(Running) in message
    assert calls < 9


def test_a_window_too_large_for_the_tables_is_refused_at_once_with_its_line() -> None:
    message, calls = refusal(Huge(), (1, 1, 310, 310))
    assert "a window's height of 300 is too large for the tables of a C bundle, expected at most 255" in message
    assert line_of(Huge) in message
    assert calls < 9


def test_a_window_wider_than_a_descriptor_holds_is_refused_at_once_with_its_line() -> None:
    """Its width is an int16_t of C."""
    message, _ = refusal(Huge(1, 1 << 15), (1, 1, 1, (1 << 15) + 1))
    assert "a kernel_w of 32768 is too large for the tables of a C bundle, expected at most 32767" in message
    assert line_of(Huge) in message


def test_what_a_pte_can_not_hold_is_refused_at_once_where_nothing_else_was_asked_for() -> None:
    message, calls = refusal(Function(lambda self, x: x.std(-1)), (3, 8), Options(artifacts=Artifacts.PTE))
    assert message.startswith("can't be a .pte, and nothing else was requested")
    assert calls < 9


def test_a_line_is_given_where_nothing_was_tried_too() -> None:
    batches = [(randn(1, 1, 310, 310, seed=seed),) for seed in range(2)]
    model = prepare(Huge(), batches[0], batches, name="net")
    with pytest.raises(CortadoError) as caught:
        model.compile("cortex-m4", Options(artifacts=Artifacts.C))
    assert line_of(Huge) in str(caught.value)


def test_scales_of_a_single_sample_refuse_nothing() -> None:
    """The first sample is all but zero, and so is what it makes of a subtraction."""
    batches = [(randn(1, 8, scale=1e-9 if seed == 0 else 1.0, seed=seed),) for seed in range(6)]
    model = Function(
        lambda self, x: self.last(torch.relu(self.first(x)) - x.mean()), first=nn.Linear(8, 4), last=nn.Linear(4, 2)
    )
    compiled = cortado.compile(seeded(model), batches[0], "cortex-m4", batches, options=Options(artifacts=Artifacts.C))
    assert compiled.report.model


def test_what_was_tried_leaves_no_trace() -> None:
    """The artifact is the same as without."""
    batches = [(randn(1, 3, 6, 6, seed=seed),) for seed in range(4)]
    model = seeded(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)))
    options = Options(artifacts=Artifacts.C)
    bundles = [
        prepare(model, batches[0], batches, name="net", target=target).compile("cortex-m4", options).bundle
        for target in (None, "cortex-m4")
    ]
    files = [bundle.files for bundle in bundles if bundle is not None]
    assert len(files) == 2
    assert files[0] == files[1]


# ---- numbers and types that are out of the ordinary ----------------------------------------------------------


@pytest.mark.parametrize("scale", [1e38, 1e-8])
def test_very_large_and_very_small_numbers(scale: float) -> None:
    batches = [
        ((torch.rand(1, 2, 5, 5, generator=torch.Generator().manual_seed(seed)) - 0.5) * scale,) for seed in range(6)
    ]
    first = nn.Conv2d(2, 4, 3, bias=False)
    model = seeded(nn.Sequential(first, nn.MaxPool2d(3), nn.Flatten(), nn.Softmax(-1)))
    with torch.no_grad():
        first.weight /= 100
    compiled = cortado.compile(model, batches[0], "cortex-m4", batches, options=Options(artifacts=Artifacts.C))
    checked = compiled.run(*batches[1], on="host")
    assert checked.bit_exact
    with torch.no_grad():
        assert float((torch.from_numpy(checked.outputs[0]) - model(*batches[1])).abs().max()) < 0.02


def test_ends_of_a_range_further_apart_than_float32_can_tell() -> None:
    batches = [
        ((torch.rand(1, 8, generator=torch.Generator().manual_seed(seed)) - 0.5) * 2 * 2.5e38,) for seed in range(6)
    ]
    model = Function(lambda self, x: x.flip(-1) * 0.5 + x * 0.5)
    compiled = cortado.compile(model, batches[0], "cortex-m4", batches, options=Options(artifacts=Artifacts.C))
    assert compiled.run(*batches[1], on="host").bit_exact


def test_what_is_computed_in_bfloat16_is_refused_in_words() -> None:
    model = Function(
        lambda self, x: nn.functional.conv2d(x.bfloat16(), self.weight.bfloat16()).float(),
        weight=nn.Parameter(randn(3, 2, 3, 3)),
    )
    message, _ = refusal(model, (1, 2, 6, 6))
    assert "aten.conv2d.default" in message
    assert "is computed in bfloat16, expected float32" in message
