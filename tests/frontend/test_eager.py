"""The captured graph is held to the user's own module, run eagerly and untouched; quantized modules are refused."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.ao.nn.quantized as quantized_modules
from torch import nn
from torch.ao.quantization import DeQuantStub, FakeQuantize, QuantStub
from torch.nn import functional

from cortado.api import prepare
from cortado.artifact.opened import Artifact
from cortado.base.errors import CortadoError
from cortado.frontend.capture import eager
from cortado.frontend.capture.eager import Eager, RightKernels
from cortado.frontend.capture.export import capture
from cortado.frontend.quantize import convert
from cortado.frontend.quantize.convert import FloatModel, quantize
from cortado.frontend.rewrite import writes
from cortado.scoring.floats import float_model
from cortado.scoring.validate import validate
from helpers.aliases import RIGHT, SHAPE
from helpers.single import Function, lower

Tensor = torch.Tensor


def images(count: int = 3) -> list[tuple[Tensor, ...]]:
    rng = torch.Generator().manual_seed(0)
    return [(torch.randn(SHAPE, generator=rng),) for _ in range(count)]


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no name shared memory with any other: every write is lost but for the name it goes through."""
    monkeypatch.setattr(writes._Names, "write", lambda self, node: None)


# ---- the net -----------------------------------------------------------------------------------------------------


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", ["dropout", "chunk", "unbind", "type_as", "input", "einsum", "assignments"])
def test_a_graph_that_computes_something_else_is_refused(name: str, blind: None) -> None:
    with pytest.raises(
        CortadoError,
        match=r"the captured graph does not compute what the model does: on calibration batch 0 output \d of the graph "
        r"differs in \d+ of \d+ values, by up to .*(.|\n)*write these without(.|\n)*\n  aten\.\w+_\.\w+ at ",
    ):
        lower(Function(RIGHT[name]), [SHAPE])


def test_every_input_counts(blind: None) -> None:
    """A write that shows on one input only; the example is not among the calibration inputs."""
    model = Function(lambda model, x: RIGHT["chunk"](model, x))
    positive, (mixed,) = [(batch[0].abs(),) for batch in images()], images()[0]
    quantize(capture(model, positive[0]), positive[0], positive)
    for example, batches, where in [
        ((mixed,), positive, "the example inputs"),
        (positive[0], [*positive, (mixed,)], "calibration batch 3"),
    ]:
        with pytest.raises(CortadoError, match=f"what the model does: on {where} output 0"):
            quantize(capture(model, example), example, batches)


@pytest.mark.parametrize(
    "function",
    [
        lambda model, x: functional.dropout(x, 0.5, training=True),
        lambda model, x: x + torch.rand(8),
        lambda model, x: x + torch.zeros_like(x).uniform_(),
    ],
)
def test_a_model_that_is_random_is_refused(function: Callable[..., Tensor]) -> None:
    with pytest.raises(
        CortadoError, match=r"gives different outputs each time it is run: on calibration batch 0 output 0"
    ):
        lower(Function(function), [SHAPE])


def test_a_model_that_fails_on_its_data_is_named() -> None:
    class Picky(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if not torch.compiler.is_compiling() and float(x.max()) > 3:
                raise ValueError("too large")
            return x * 2

    (x,) = images()[0]
    with pytest.raises(CortadoError, match="the model itself fails on calibration batch 1: ValueError: too large"):
        quantize(capture(Picky(), (x * 0,)), (x * 0,), [(x * 0,), (x * 9,)])


# ---- what rounding explains --------------------------------------------------------------------------------------


def held(model: nn.Module, inputs: tuple[Tensor, ...], found: Any) -> str | None:
    """What is said of a graph's outputs."""
    try:
        Eager(model).check("it", inputs, found, [])
    except CortadoError as error:
        return str(error)
    return None


def test_rounding_inside_the_model_is_measured_and_integers_are_not_shaken() -> None:
    """A difference of almost equal sums is rounding alone; whether a count is 3 is not."""

    def sums(x: Tensor) -> Tensor:
        return (x / 7).sum(1) - (x / 7).flip(1).cumsum(1)[:, -1]

    ids = torch.arange(60).reshape(2, 30) % 11
    model = Function(lambda self, i: (1e6 * sums(i.float()), i.float().sum(1) == 153))
    noise, equal = model(ids)
    assert float(noise.abs().max()) > 0
    assert held(model, (ids,), (torch.zeros_like(noise), equal)) is None
    assert held(model, (ids,), (noise, ~equal)) is not None


def test_rounding_is_no_difference_and_a_lost_write_is() -> None:
    model, (x,) = nn.Conv2d(4, 4, 3), images()[0]
    wanted = model(x).detach()
    assert held(model, (x,), wanted * (1 + 1e-5)) is None
    one = wanted.clone()
    one[0, 1, 2, 3] += 0.02 * wanted.abs().max()
    text = held(model, (x,), one)
    assert text is not None
    assert "output 0 of the graph differs in 1 of 192 values" in text
    assert "please report it" in text
    assert held(model, (x,), wanted[:, 1:]) is not None
    assert held(model, (x,), (wanted, wanted)) is not None


def test_values_that_are_not_finite_must_be_the_same_ones() -> None:
    model, x = Function(lambda model, x: 1 / x), torch.tensor([0.0, -0.0, 2.0, 4.0])
    wanted = model(x)
    assert held(model, (x,), wanted.clone()) is None
    for position, value in [(0, 5.0), (0, -torch.inf), (1, torch.nan), (2, torch.inf)]:
        wrong = wanted.clone()
        wrong[position] = value
        assert held(Function(lambda model, x: model.w.clone(), w=wanted), (x,), wrong) is not None
    nothing = torch.full((4,), torch.nan)
    assert held(Function(lambda model, x: x * torch.nan), (x,), nothing) is None


def test_a_tie_may_fall_either_way_and_nothing_else_may() -> None:
    """Integers and booleans are equal, but where rounding alone decides them."""
    x = torch.tensor([[0.5, 1.0, 1.0 + 1e-7, 0.25], [4.0, 1.0, 2.0, 3.0]])
    best, above = Function(lambda model, x: x.argmax(1)), Function(lambda model, x: x > 1.0)
    assert held(best, (x,), torch.tensor([1, 0])) is None
    assert held(best, (x,), torch.tensor([2, 3])) is not None
    wanted = above(x)
    wanted[0, 1] = True
    assert held(above, (x,), wanted) is None
    wanted[1, 1] = True
    assert held(above, (x,), wanted) is None
    wanted[0, 0] = True
    assert held(above, (x,), wanted) is not None


def test_a_folded_batch_norm_is_no_difference() -> None:
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(True))]
    lower(nn.Sequential(*layers), [SHAPE])


def test_transposed_convolutions_that_skip_outputs_are_computed_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN's may be wrong there; which library ran shows in the switch while the convolution runs."""
    switched: list[bool] = []

    def watch() -> Any:
        switched.append(True)
        return original()

    original = eager._without_onednn
    monkeypatch.setattr(eager, "_without_onednn", watch)
    for stride, dilation, kernel, count in [(2, 1, 2, 0), (2, 2, 3, 1), (3, 1, 2, 1)]:
        switched.clear()
        layer = nn.ConvTranspose2d(4, 2, kernel, stride=stride, dilation=dilation)
        (found,) = Eager(layer)(images()[0])
        assert len(switched) == count
        wanted = copy.deepcopy(layer).double()(images()[0][0].double())
        assert torch.allclose(found.double(), wanted, atol=1e-5)
    with RightKernels():
        assert torch.topk(torch.tensor([3.0, 9.0, 1.0, 7.0, 8.0]), 3, sorted=False).values.tolist() == [9.0, 8.0, 7.0]
        assert torch.equal(functional.relu(torch.tensor([-1.0, 1.0])), torch.tensor([0.0, 1.0]))
        ties = torch.tensor([[1, 0] * 20])
        for found in (ties.sort()[1], ties.argsort(1), ties.topk(40, largest=False)[1]):
            assert found.tolist() == [[*range(1, 40, 2), *range(0, 40, 2)]]


# ---- the module stays as it was ----------------------------------------------------------------------------------


class Touchy(nn.Module):
    """Writes into its input, remembers things, and has a part that is frozen while the rest trains."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.norm = nn.BatchNorm2d(4).eval()
        self.register_buffer("scale", torch.ones(1))
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        if not torch.compiler.is_compiling():
            self.seen.append(1)
        x.mul_(2.0)
        out: Tensor = self.norm(self.conv(x)) * self.scale
        return out


def test_the_model_and_its_inputs_stay_as_they_were() -> None:
    model, batches = Touchy(), images()
    before = copy.deepcopy(model.state_dict())
    kept = [(batch[0].clone(),) for batch in batches]
    prepare(model, batches[0], batches)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert (model.training, model.conv.training, model.norm.training) == (True, True, False)
    assert model.seen == []
    assert all(torch.equal(one[0], other[0]) for one, other in zip(batches, kept, strict=True))


def test_a_module_that_can_not_be_copied_is_run_itself() -> None:
    model = nn.Conv2d(4, 4, 1)
    model.square = model.weight**2  # a tensor with a gradient
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(model)
    assert torch.equal(Eager(model)(images()[0])[0], model(images()[0][0]))


# ---- validate ----------------------------------------------------------------------------------------------------


@pytest.mark.host
def test_validate_compares_with_the_module_not_with_a_graph(
    tmp_path: Any, blind: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong graph that reference, C and .pte agree on."""
    model, batches = Function(RIGHT["chunk"]), images()
    monkeypatch.setattr(Eager, "check", lambda *arguments: None)
    artifact: Artifact = prepare(model, batches[0], batches, "wrong").compile("cortex-m4").save(tmp_path / "wrong")
    floats = float_model(artifact, model, batches[0])
    monkeypatch.setattr(convert, "canonicalize", None)  # no graph has a say
    monkeypatch.setattr("cortado.scoring.validate._runs", lambda *arguments: [])
    found = validate(artifact, [artifact.example()], floats=floats)
    fidelity = found.places[0].fidelity
    assert fidelity is not None
    assert fidelity.sqnr is not None
    assert fidelity.sqnr < 10


def test_the_float_models_outputs_are_the_modules() -> None:
    model, (x,) = Function(RIGHT["dropout"]), images()[0]
    floats, kept = FloatModel(model, (x,)), x.clone()
    assert torch.equal(floats.outputs((x,))[0], model(x.clone()))
    assert torch.equal(x, kept)
    assert "cat" in floats.twins((x,))


# ---- models that are quantized already ---------------------------------------------------------------------------

NOT_TAKEN = r"Cortado takes quantized models from PT2E only"


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantized_modules_are_refused() -> None:
    layer = quantized_modules.LeakyReLU(0.1, 0)  # a convolution of them can't be made on every machine
    with pytest.raises(CortadoError, match=rf"module '1' is a torch\.ao\.nn\.quantized\..*LeakyReLU.*{NOT_TAKEN}"):
        prepare(nn.Sequential(nn.ReLU(), layer), images()[0], images())
    with pytest.raises(CortadoError, match=rf"module '0' is a .*FakeQuantize.*{NOT_TAKEN}"):
        prepare(nn.Sequential(FakeQuantize(), nn.Conv2d(4, 4, 1)), images()[0], images())


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantized_weights_are_refused() -> None:
    model = nn.Conv2d(4, 4, 1)
    packed = torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.qint8)
    model.register_buffer("packed", packed)
    with pytest.raises(CortadoError, match=rf"'packed' of the model is quantized \(torch\.qint8\); {NOT_TAKEN}"):
        prepare(model, images()[0], images())


def test_fake_quantization_in_forward_is_refused() -> None:
    function = Function(lambda model, x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127))
    with pytest.raises(CortadoError, match=rf"aten\.fake_quantize_per_tensor_affine.* at .*{NOT_TAKEN}"):
        prepare(function, images()[0], images())


def test_stubs_are_no_quantized_modules() -> None:
    prepare(nn.Sequential(QuantStub(), nn.Conv2d(4, 4, 1), DeQuantStub()), images()[0], images())


# ---- exported programs -------------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.parametrize("training", [False, True])
def test_the_module_of_an_exported_program_is_taken(training: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.ReLU()).train(training)
    program = torch.export.export(model, images()[0])
    module = program.module()
    code = module.code
    wanted = prepare(model, images()[0], images()).quantized.converted
    found = prepare(module, images()[0], images()).quantized.converted
    assert module.code == code
    assert torch.equal(found(*images()[1]), wanted(*images()[1]))
    again = prepare(program, images()[0], images()).quantized.converted
    assert torch.equal(again(*images()[1]), wanted(*images()[1]))


def test_a_layer_that_waits_to_be_quantized_is_a_float_one() -> None:
    """An LSTM of torch's quantizable modules, which adds and multiplies by FloatFunctional."""
    torch.manual_seed(0)
    layer = torch.ao.nn.quantizable.LSTM(4, 3, batch_first=True).eval()
    batches = [(torch.randn(1, 5, 4),) for _ in range(4)]
    made = prepare(Function(lambda m, x: m.layer(x)[0], layer=layer), batches[0], batches, name="waits")
    assert made.compile("cortex-m4").bundle is not None
