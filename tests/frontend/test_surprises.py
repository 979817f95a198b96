"""What goes wrong with models in practice: each is right here, or one clear error."""

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import cortado
from cortado.api import Compiled, Options, prepare
from cortado.base.errors import CortadoError, NotInteger
from cortado.base.target import from_target_string
from cortado.plan.lowered import LoweredGraph, reference_outputs
from helpers import single
from helpers.single import Function, Single, assert_close, lower, lower_on

Tensor = torch.Tensor

CONV = "cortex_m::quantized_conv2d_nhwc"
TABLE = "cortex_m::quantized_activation"
BORDERS = ("cortex_m::quantize_per_tensor", "cortex_m::dequantize_per_tensor")
MOVEMENT = {f"aten::{name}" for name in ("cat", "index_select", "permute_copy", "repeat", "slice_copy", "view_copy")}


def between_borders(graph: LoweredGraph) -> list[str]:
    """The operators behind the inputs' quantize and before the outputs' dequantize; none of them sees a float."""
    found = []
    for call in graph.calls:
        refs = call.refs(*call.arguments)
        if call.operator == BORDERS[0] and refs[0] in graph.inputs:
            continue
        if call.operator == BORDERS[1] and call.name in graph.outputs:
            continue
        namespace = call.operator.split("::")[0]
        assert namespace in ("cortex_m", "cortado") or call.operator in MOVEMENT, call.operator
        tensors = [graph.constants[ref] if ref in graph.constants else graph.values[ref] for ref in refs]
        for tensor in [*tensors, graph.values[call.name]]:
            assert not tensor.dtype.is_floating_point, call
        found.append(call.operator)
    return found


def is_integer(found: Single, most: float = 1.001) -> list[str]:
    """A model that runs in integers and is no further than this from PT2E's graph, in steps of the output."""
    assert found.worst() < most
    operators = between_borders(found.graph)
    assert operators
    return operators


def far_from_float(found: Single, model: nn.Module) -> float:
    """The largest difference to the float model, in steps of the first output."""
    worst = 0.0
    for batch in found.batches:
        with torch.no_grad():
            wanted = model(*[value.clone() for value in batch])
        worst = max(worst, float((reference_outputs(found.graph, batch)[0] - wanted).abs().max()))
    return worst / found.scales[0]


def seeded(model: nn.Module, seed: int = 1) -> nn.Module:
    single.randomize(model, seed)
    return model.eval()


def images(count: int = 3, size: int = 8) -> list[tuple[Tensor, ...]]:
    rng = torch.Generator().manual_seed(7)
    return [(torch.randn(1, 3, size, size, generator=rng),) for _ in range(count)]


# ---- layouts -------------------------------------------------------------------------------------------------


def small_net(channels: int = 3) -> nn.Module:
    layers = [nn.Conv2d(channels, 5, 3), nn.ReLU(), nn.Conv2d(5, 5, 3, groups=5), nn.MaxPool2d(2), nn.Conv2d(5, 4, 1)]
    return seeded(nn.Sequential(*layers))


def test_a_channels_first_input_stays_in_integers() -> None:
    operators = is_integer(lower_on(small_net(), images()))
    assert operators.count("cortex_m::transpose") == 2  # one at each border, none between the layers
    assert operators[0] == operators[-1] == "cortex_m::transpose"


@pytest.mark.host
@pytest.mark.parametrize("model_too", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_channels_last_memory_is_no_part_of_the_model(channels: int, model_too: bool) -> None:
    """The same file runs, whatever the strides of the inputs it was compiled with, or is given."""
    model = small_net(channels)
    plain = [(x[:, :channels].contiguous(),) for (x,) in images()]
    last = [(x.to(memory_format=torch.channels_last),) for (x,) in plain]
    if model_too:
        model = model.to(memory_format=torch.channels_last)
    compiled = prepare(model, last[0], last, name="net").compile(from_target_string("cortex-m55"))
    assert between_borders(compiled.graph) == is_integer(lower_on(small_net(channels), plain))
    for place in ("host", "executorch"):
        results = [compiled.run(*sample, on=place) for sample in (plain[1], last[1], plain[2])]
        assert all(result.bit_exact for result in results)
        same, again, different = (result.result.samples[0][0].tobytes() for result in results)
        assert same == again != different


def test_a_model_that_takes_channels_last_needs_no_transpose() -> None:
    net = Function(lambda self, x: self.net(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1), net=small_net())
    batches = [(x.permute(0, 2, 3, 1).contiguous(),) for (x,) in images()]
    operators = is_integer(lower_on(net, batches))
    assert "cortex_m::transpose" not in operators


# ---- calibration ---------------------------------------------------------------------------------------------


def test_no_calibration_data_is_an_error() -> None:
    with pytest.raises(CortadoError, match=r"no calibration data: .*give `calibration=`"):
        prepare(small_net(), images()[0], [])


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_calibration_data_that_is_not_finite_is_an_error(value: float) -> None:
    batches = images()
    batches[1][0][0, 2, 3, 4] = value
    with pytest.raises(CortadoError, match=r"calibration batch 1 holds NaN or infinity"):
        prepare(small_net(), batches[0], batches)


# ---- operators that are easily left in float -----------------------------------------------------------------


def test_where_compares_numbers_and_not_codes() -> None:
    """An off-centre range, so that code 0 is not the number 0."""
    rng = torch.Generator().manual_seed(3)
    batches = [(torch.rand(1, 64, generator=rng) * 6 - 1,) for _ in range(3)]
    model = Function(lambda self, a: torch.where(a > 0, a, 0.1 * a))
    found = lower_on(model, batches)
    zero_point = next(call for call in found.graph.calls if call.operator == BORDERS[0]).arguments["zero_point"]
    assert zero_point < -64
    assert is_integer(found) == [TABLE]
    assert far_from_float(found, model) < 1.6  # half a step of the input, rounding, half a step of the output


def test_dropout_leaves_no_node() -> None:
    def layers(dropout: bool) -> nn.Module:
        extra: list[nn.Module] = [nn.Dropout(0.5), nn.Dropout2d(0.5)] if dropout else []
        return seeded(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), *extra, nn.Conv2d(4, 2, 1)))

    with_dropout, without = lower_on(layers(True), images()), lower_on(layers(False), images())
    assert is_integer(with_dropout) == is_integer(without)
    for batch in images():
        wanted = reference_outputs(without.graph, batch)[0]
        assert torch.equal(reference_outputs(with_dropout.graph, batch)[0], wanted)


@pytest.mark.parametrize(
    ("layer", "plain"),
    [
        (nn.Dropout(0.5, inplace=True), nn.Identity()),
        (nn.AlphaDropout(0.5, inplace=True), nn.Identity()),
        (nn.FeatureAlphaDropout(0.5, inplace=True), nn.Identity()),
        (nn.RReLU(0.1, 0.3), nn.LeakyReLU(0.2)),  # FX takes every call of it for one that must not go
        (nn.RReLU(0.1, 0.3, inplace=True), nn.LeakyReLU(0.2)),
    ],
    ids=str,
)
def test_what_is_random_in_training_is_plain_in_evaluation(layer: nn.Module, plain: nn.Module) -> None:
    found, wanted = (
        lower_on(seeded(nn.Sequential(nn.Conv2d(3, 4, 3), chosen, nn.Tanh())), images()) for chosen in (layer, plain)
    )
    assert is_integer(found) == is_integer(wanted)
    for batch in images():
        pairs = zip(reference_outputs(found.graph, batch), reference_outputs(wanted.graph, batch), strict=True)
        assert all(torch.equal(got, want) for got, want in pairs)


def test_a_model_in_training_mode_is_compiled_in_eval_mode_and_left_as_it_was() -> None:
    model = seeded(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5))).train()
    statistics = model[1].running_mean.clone()
    prepared = prepare(model, images()[0], images(), name="net")
    assert model.training
    assert model[1].training
    assert torch.equal(model[1].running_mean, statistics)
    graph = prepared.compile(from_target_string("cortex-m4")).graph
    assert [name for name in between_borders(graph) if name != "cortex_m::transpose"] == [CONV]


LAYERS: dict[str, tuple[nn.Module, Sequence[int]]] = {
    "conv1d": (nn.Conv1d(3, 4, 3, stride=2, padding=1), (1, 3, 17)),
    "depthwise conv1d": (nn.Conv1d(4, 4, 5, groups=4), (1, 4, 17)),
    "prelu": (nn.PReLU(), (1, 4, 6, 5)),
    "prelu per channel": (nn.PReLU(4), (1, 4, 6, 5)),
    "upsample": (nn.Upsample(scale_factor=2), (1, 3, 5, 4)),
    "interpolate": (Function(lambda self, x: F.interpolate(x, size=(10, 12), mode="nearest")), (1, 3, 5, 4)),
    "leaky_relu": (nn.LeakyReLU(0.2), (1, 3, 5, 4)),
    "scalar add": (Function(lambda self, x: x + 1.5), (1, 3, 5, 4)),
    "scalar mul": (Function(lambda self, x: 0.3 * x), (1, 3, 5, 4)),
    "scalar sub": (Function(lambda self, x: 1 - x), (1, 3, 5, 4)),
    "scalar div": (Function(lambda self, x: x / 3), (1, 3, 5, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_runs_in_integers(name: str) -> None:
    layer, shape = LAYERS[name]
    is_integer(lower(seeded(layer), [shape]))


@pytest.mark.parametrize("name", LAYERS)
def test_runs_in_integers_between_layers(name: str) -> None:
    """Behind a layer there is no border that could hide a float operator."""
    layer, shape = LAYERS[name]
    first = (nn.Conv1d if len(shape) == 3 else nn.Conv2d)(shape[1], shape[1], 1)
    # Two roundings: of the first layer's output, which the second may amplify, and of its own.
    is_integer(lower(seeded(nn.Sequential(first, layer)), [shape]), most=2.001)


@pytest.mark.parametrize("form", [nn.Hardswish(), nn.Hardswish(inplace=True)])
def test_hardswish_is_one_table(form: nn.Module) -> None:
    found = lower(seeded(nn.Sequential(nn.Conv2d(3, 4, 3), form)), [(1, 3, 8, 8)])
    assert [name for name in is_integer(found) if name != "cortex_m::transpose"] == [CONV, TABLE]


def test_hardswish_written_out_is_one_table() -> None:
    model = Function(lambda self, x: x * F.relu6(x + 3) / 6)
    assert is_integer(lower(model, [(1, 3, 8, 8)])) == [TABLE]


NORMS: dict[str, tuple[nn.Module, Sequence[int]]] = {
    "normalize": (Function(lambda self, x: F.normalize(x, dim=-1)), (1, 8)),
    "normalize channels": (Function(lambda self, x: F.normalize(x, dim=1)), (1, 8, 5, 6)),
    "norm": (Function(lambda self, x: x.norm(dim=-1)), (2, 8)),
    "norm of all": (Function(lambda self, x: x.norm()), (2, 8)),
    "norm of order 1": (Function(lambda self, x: torch.linalg.vector_norm(x, 1, -1, keepdim=True)), (2, 8)),
    "largest magnitude": (Function(lambda self, x: x.norm(p=torch.inf, dim=-1)), (2, 8)),
    "logsumexp": (Function(lambda self, x: torch.logsumexp(x, -1)), (2, 8)),
    "logsumexp over two": (Function(lambda self, x: torch.logsumexp(x, (1, 2), keepdim=True)), (2, 8, 5)),
    "rms_norm": (nn.RMSNorm(8), (1, 5, 8)),
    "rms_norm of images": (nn.RMSNorm((4, 8), eps=0.01, elementwise_affine=False), (1, 3, 4, 8)),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_run_in_integers(name: str) -> None:
    """Several roundings, of the squares, of their sum and of its root, are a few steps of the output."""
    model, shape = NORMS[name]
    found = lower(seeded(model), [shape])
    is_integer(found)
    assert far_from_float(found, model) < 4


def test_a_norm_of_another_order_is_refused() -> None:
    message = refusal(Function(lambda self, x: x.norm(p=3, dim=-1)), (2, 8))
    assert "aten.linalg_vector_norm.default" in message


# ---- in-place forms ------------------------------------------------------------------------------------------

IN_PLACE: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "relu_": (lambda y, x: y.relu_(), lambda y, x: y.relu()),
    "hardtanh_": (lambda y, x: F.hardtanh_(y, -0.5, 0.75), lambda y, x: F.hardtanh(y, -0.5, 0.75)),
    "relu6": (lambda y, x: F.relu6(y, inplace=True), lambda y, x: F.relu6(y)),
    "hardswish_": (lambda y, x: F.hardswish(y, inplace=True), lambda y, x: F.hardswish(y)),
    "leaky_relu_": (lambda y, x: F.leaky_relu_(y, 0.1), lambda y, x: F.leaky_relu(y, 0.1)),
    "clamp_": (lambda y, x: y.clamp_(min=-0.5), lambda y, x: y.clamp(min=-0.5)),
    "add_": (lambda y, x: y.add_(x), lambda y, x: y + x),
    "+=": (lambda y, x: y.__iadd__(x), lambda y, x: y + x),
    "mul_": (lambda y, x: y.mul_(x), lambda y, x: y * x),
    "add_ of a number": (lambda y, x: y.add_(1.5), lambda y, x: y + 1.5),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_forms_are_their_plain_forms(name: str) -> None:
    def model(function: Callable[[Tensor, Tensor], Tensor]) -> nn.Module:
        return seeded(Function(lambda self, x: function(self.conv(x), x), conv=nn.Conv2d(3, 3, 1)))

    in_place, plain = IN_PLACE[name]
    found, wanted = lower_on(model(in_place), images()), lower_on(model(plain), images())
    assert between_borders(found.graph) == is_integer(wanted)
    for batch in images():
        assert torch.equal(reference_outputs(found.graph, batch)[0], reference_outputs(wanted.graph, batch)[0])


def test_a_tensor_read_after_an_in_place_write_has_its_new_value() -> None:
    def twice(self: Any, x: Tensor) -> Tensor:
        before = self.conv(x)
        after = before.relu_()
        return before + after

    model = seeded(Function(twice, conv=nn.Conv2d(3, 3, 1)))
    found = lower_on(model, images())
    assert_close(found)
    between_borders(found.graph)
    assert min(float(reference_outputs(found.graph, batch)[0].min()) for batch in images()) == 0.0
    assert far_from_float(found, model) < 6


# ---- numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tiny", [0.0, 1e-12, 1e-7])
@pytest.mark.parametrize("kind", [nn.Conv2d, nn.Linear])
def test_a_channel_of_almost_no_weights_keeps_its_bias(kind: type[nn.Module], tiny: float) -> None:
    """Its own scale would be so small that the bias overflows int32 in steps of it."""
    layer: Any = seeded(kind(3, 4, *([1] if kind is nn.Conv2d else [])))
    with torch.no_grad():
        layer.weight[2] = tiny * torch.sign(layer.weight[2])
        layer.bias.copy_(torch.tensor([0.5, -1.0, 3.0, -3.0]))
    found = lower(layer, [(1, 3, 4, 4) if kind is nn.Conv2d else (1, 3)])
    is_integer(found)
    assert far_from_float(found, layer) < 3
    biases = [data for name, data in found.graph.constants.items() if name.endswith("_bias")]
    assert len(biases) == 1
    assert int(biases[0].abs().max()) < 2**31 - 1
    channel = reference_outputs(found.graph, found.batches[0])[0].flatten(2)[:, 2] if kind is nn.Conv2d else None
    if channel is not None:
        assert float((channel - 3.0).abs().max()) <= found.scales[0]


class Extras(nn.Module):
    """A layer beside things that a checkpoint holds and forward doesn't read."""

    def __init__(self, extras: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        single.randomize(self, 5)
        if extras:
            self.register_buffer("history", torch.full((4096,), 0.123))
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
            self.unused = nn.Linear(64, 64)
            self.scale = nn.Parameter(torch.full((777,), 0.321))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return y


def test_a_tensor_that_calibration_saw_as_zeros_keeps_the_next_bias() -> None:
    """A relu that is dead on the calibration data, in front of a layer of small weights."""
    first, second = nn.Conv2d(2, 3, 1), nn.Conv2d(3, 4, 1)
    with torch.no_grad():
        first.bias.fill_(-100.0)  # type: ignore[union-attr]
        second.weight.mul_(0.001)
        second.bias.copy_(torch.tensor([0.5, -3.0, 0.0, 8.0]))  # type: ignore[union-attr]
    found = lower(nn.Sequential(first, nn.ReLU(), second), [(1, 2, 3, 3)])
    assert_close(found)
    values = reference_outputs(found.graph, found.batches[0])[0]
    assert torch.allclose(values.mean((2, 3))[0], torch.tensor([0.5, -3.0, 0.0, 8.0]), atol=0.05)


def test_a_difference_that_is_always_zero_is_zero() -> None:
    found = lower(Function(lambda self, x: x - x.roll(3, 0)), [(1, 4, 5)])
    assert not reference_outputs(found.graph, found.batches[0])[0].any()


def test_unused_buffers_are_in_no_file() -> None:
    config = from_target_string("cortex-m4")
    plain, extra = (prepare(Extras(e), images()[0], images(), name="net").compile(config) for e in (False, True))
    assert sorted(extra.graph.constants) == sorted(plain.graph.constants)
    read = {ref for call in extra.graph.calls for ref in call.refs(*call.arguments)}
    assert set(extra.graph.constants) <= read
    assert plain.pte is not None
    assert extra.pte is not None
    assert extra.pte.data == plain.pte.data
    assert extra.bundle.files == plain.bundle.files


# ---- what isn't supported ------------------------------------------------------------------------------------


class Running(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cumsum(x, dim=1)


class Cell(nn.Module):
    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        y = self.cell(x)
        return y if isinstance(y, Tensor) else y[0]


def first_line(model: type[nn.Module]) -> str:
    """Where the body of a model's forward begins, as the error prints it."""
    return f"{__file__}:{inspect.getsourcelines(model.forward)[1] + 1}"


def refusal(model: nn.Module, shape: Sequence[int]) -> str:
    """The message of a model that can't be compiled; the line for its first operator."""
    rng = torch.Generator().manual_seed(0)
    batches = [(torch.randn(*shape, generator=rng),) for _ in range(2)]
    prepared = prepare(model, batches[0], batches, name="net")
    with pytest.raises(CortadoError) as caught:
        prepared.compile(from_target_string("cortex-m55"))
    return str(caught.value)


def test_an_unsupported_operator_is_named_with_its_line_and_module() -> None:
    body = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), Running())
    message = refusal(Function(lambda self, x: self.body(x), body=body), (1, 8))
    line = next(line for line in message.splitlines() if "aten.cumsum" in line)
    assert "in module 'body.2'" in line
    assert first_line(Running) in line
    assert "torch.cumsum(x, dim=1)" in line
    assert "aten.linear" not in message


@pytest.mark.parametrize(
    ("cell", "shape", "operator"),
    [
        (nn.LSTM(8, 4, batch_first=True), (1, 5, 8), "aten.lstm"),
        (nn.GRU(8, 4, batch_first=True), (1, 5, 8), "aten.gru"),
    ],
)
def test_layers_without_an_integer_form_are_refused_by_name(
    cell: nn.Module, shape: Sequence[int], operator: str
) -> None:
    message = refusal(Cell(cell), shape)
    _, line, *hint = message.splitlines()  # one line: none for each of the results
    assert operator in line
    assert len(hint) <= 1
    assert "in module 'cell'" in line
    assert f"{first_line(Cell)} (y = self.cell(x))" in line
    assert "cortado ops" in line


# ---- numbers that are not finite float32 ---------------------------------------------------------------------


def rejected(model: nn.Module, *inputs: Tensor) -> str:
    """The message of a model that isn't even quantized."""
    with pytest.raises(CortadoError) as caught:
        prepare(model, inputs, [inputs], name="net")
    return str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_numbers_other_than_float32_are_refused(dtype: torch.dtype) -> None:
    name, x = str(dtype).removeprefix("torch."), torch.randn(1, 4)
    layer = nn.Sequential(nn.Linear(4, 4))
    assert rejected(layer, x.to(dtype)).startswith(f"example input 0 is {name}, expected float32; give x.float()")
    message = rejected(nn.Sequential(nn.Linear(4, 4)).to(dtype), x)
    assert message.startswith(f"parameter '0.weight' is {name}, expected float32; convert the model with model.float()")


def test_a_buffer_in_float64_is_named() -> None:
    layer = nn.BatchNorm1d(4)
    layer.running_mean = torch.zeros(4, dtype=torch.float64)
    assert rejected(layer, torch.randn(2, 4)).startswith("buffer 'running_mean' is float64, expected float32")


@pytest.mark.parametrize(("value", "name"), [(torch.nan, "NaN"), (torch.inf, "infinity"), (-torch.inf, "infinity")])
def test_weights_that_are_not_finite_are_named(value: float, name: str) -> None:
    model = nn.Sequential(nn.ReLU(), nn.Linear(4, 4))
    with torch.no_grad():
        model[1].bias[2] = value  # type: ignore[operator,index]
    assert rejected(model, torch.randn(1, 4)).startswith(f"parameter '1.bias' holds {name}, expected finite numbers")


def test_a_parameter_that_nothing_reads_may_be_anything() -> None:
    model = Function(lambda self, x: self.used(x), used=nn.Linear(4, 4), unused=nn.Linear(4, 4).double())
    with torch.no_grad():
        model.unused.weight.fill_(torch.nan)  # type: ignore[operator,union-attr]
    prepare(model, (torch.randn(1, 4),), [(torch.randn(1, 4),)], name="net")


class LogOfNegatives(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.log(x - 100) @ x.mT


def test_an_activation_that_is_never_finite_is_named_with_its_line() -> None:
    message = rejected(LogOfNegatives(), torch.randn(1, 4))
    assert f"at {first_line(LogOfNegatives)} (return torch.log(x - 100) @ x.mT)" in message
    assert "calibration gave NaN or infinity only" in message


# ---- inputs and outputs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("extra", "found"), [(None, "None"), (3, "3")])
def test_outputs_that_are_no_tensors_are_refused(extra: object, found: str) -> None:
    model = Function(lambda self, x: (x.relu(), extra))
    message = rejected(model, torch.randn(1, 4))
    assert message == f"the model's outputs must be tensors: output 1 is {found}; return tensors only"


def unsupported(model: nn.Module, *inputs: Tensor) -> str:
    """The message of a model that can't be lowered."""
    with pytest.raises(NotInteger) as caught:
        prepare(model, inputs, [inputs], name="net").compile(from_target_string("cortex-m4"))
    return str(caught.value)


@pytest.mark.parametrize("pick", [lambda self, x, i: x[:, i], lambda self, x, i: x.index_select(1, i)])
def test_positions_that_are_an_input_are_refused(pick: Callable[..., Tensor]) -> None:
    message = unsupported(Function(pick), torch.randn(1, 6), torch.tensor([1, 2]))
    assert "needs constant positions, got the model's input 'i" in message or "the model's input 'x_1'" in message


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda self, x, w: F.conv2d(x, w), "needs constant weights, got the model's input"),
        (lambda self, x, w: F.conv2d(x, torch.ones(4, 3, 3, 3), w[:, 0, 0, 0]), "needs a constant bias, got the res"),
    ],
)
def test_weights_that_are_an_input_are_refused(function: Callable[..., Tensor], message: str) -> None:
    found = unsupported(Function(function), torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3))
    assert message in found
    assert "quantized_decomposed" not in found


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64])
def test_an_integer_input_made_float_inside_is_refused(dtype: torch.dtype) -> None:
    model = Function(lambda self, x: self.conv(x.float()), conv=nn.Conv2d(3, 4, 3))
    message = unsupported(model, torch.ones(1, 3, 8, 8, dtype=dtype))
    assert f"converts an input of {dtype}, and the model's inputs must be float32; move the conversion out" in message


# ---- what forward raises ---------------------------------------------------------------------------------------


class Raises(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise ValueError("no such thing")


class ToNumpy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(x.numpy() * 2)


class WrongShape(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x @ torch.ones(5, 5)


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.sum() > 0 else x - 1


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (Raises, "ValueError: no such thing at "),
        (ToNumpy, "RuntimeError: .numpy() is not supported"),
        (WrongShape, "RuntimeError: "),
        (Branches, "what it does depends on the values of a tensor at "),
    ],
)
def test_what_forward_raises_comes_with_its_line(
    model: type[nn.Module], what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    message = rejected(model(), torch.randn(1, 4))
    assert message.startswith(f"torch.export can't capture this model: {what}")
    assert f" at {first_line(model)} (" in message
    assert len(message.splitlines()) == 1
    assert capfd.readouterr().err == ""


def test_layers_that_do_not_fit_are_named() -> None:
    """There may be no line of the user's."""
    message = rejected(nn.Sequential(nn.Linear(4, 2), nn.Sequential(nn.ReLU(), nn.Linear(4, 2))), torch.randn(1, 4))
    assert message.startswith("torch.export can't capture this model: RuntimeError: ")
    assert " in module '1.1'" in message


def test_what_forward_itself_prints_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    def loud(self: Any, x: Tensor) -> Tensor:
        print("loud", file=sys.stderr)
        return x.relu()

    prepare(Function(loud), (torch.randn(1, 4),), [(torch.randn(1, 4),)], name="net")
    assert "loud\n" in capfd.readouterr().err


# ---- hints -----------------------------------------------------------------------------------------------------

HINT = "ExecuTorch has float kernels for this"


@pytest.mark.parametrize(
    ("function", "operator", "hinted"),
    [
        (lambda self, x: F.cosine_similarity(x, x * 2 + 1), "aten.", False),
        (lambda self, x: torch.tril(x), "aten.tril", False),
        (lambda self, x: F.scaled_dot_product_attention(x, x, x, is_causal=True), "aten.scaled_dot_product", False),
        (lambda self, x: x.cumsum(-1), "aten.cumsum", True),
        (lambda self, x: x.std(-1), "aten.std", True),
        (lambda self, x: torch.einsum("bi,bj->bij", x, x), "aten.einsum", True),
    ],
)
def test_the_hint_is_given_only_where_it_helps(function: Callable[..., Tensor], operator: str, hinted: bool) -> None:
    model, x = Function(function), torch.randn(2, 8)
    message = unsupported(model, x)
    assert message.startswith("can't run in integer arithmetic:\n  ")
    assert operator in message
    assert (HINT in message) == hinted
    prepared = prepare(model, (x,), [(x,)], name="net")
    allowed = Options(allow_float=True)
    if hinted:
        assert prepared.compile("cortex-m4", allowed).run(x, on="executorch").right
    else:
        with pytest.raises(NotInteger, match="can't run in integer arithmetic"):
            prepared.compile("cortex-m4", allowed)


def test_a_batch_norm_without_statistics_is_refused() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, track_running_stats=False))
    message = rejected(model, *images()[0])
    assert message.startswith("aten.batch_norm.default in module '1'")
    assert "has no running statistics" in message


# ---- the Python interface --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return cortado.compile(small_net(), images()[0], target="cortex-m4", calibration=images())


def test_what_the_package_exports() -> None:
    for name in cortado.__all__:
        assert getattr(cortado, name) is not None
    assert cortado.CortadoError is CortadoError
    assert cortado.Options is Options


@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        ("random", "calibration must be a sequence of inputs, each a tuple of tensors, .*; found 'random'"),
        (torch.zeros(3, 3, 8, 8), "calibration must be a sequence of inputs, .*; found a Tensor"),
        (3, "calibration must be a sequence of inputs, .*; found a int"),
        ([(np.zeros((1, 3, 8, 8), np.float32),)], "calibration batch 0 must be a tuple of tensors, found ndarray"),
        ([np.zeros((1, 3, 8, 8), np.float32)], "calibration batch 0 must be a tuple of tensors, found ndarray"),
    ],
)
def test_calibration_of_the_wrong_kind_is_refused(calibration: Any, message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        cortado.compile(small_net(), images()[0], target="cortex-m4", calibration=calibration)


@pytest.mark.host
def test_a_numpy_array_may_be_run(compiled: Compiled) -> None:
    sample = images()[1][0]
    tensor, array = (compiled.run(value, on="host") for value in (sample, sample.numpy()))
    assert tensor.bit_exact
    assert array.bit_exact
    assert tensor.result.samples[0][0].tobytes() == array.result.samples[0][0].tobytes()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (images()[0], r"found tuple; pass the tensors of a tuple one by one: run\(\*sample\)"),
        (3, "input 0 must be a tensor or a NumPy array, found int$"),
    ],
)
def test_what_can_not_be_run_is_refused(compiled: Compiled, value: Any, message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        compiled.run(value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimize": "ram"}, "optimize='ram' is no cortado.options.Optimize; expected one of Optimize.RAM, "),
        ({"border": "float"}, "border='float' is no cortado.options.Border; expected one of Border.INT8, "),
        ({"ram_budget": "4K"}, "ram_budget='4K' is no number of bytes; expected an int"),
    ],
)
def test_options_of_the_wrong_kind_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CortadoError, match=message):
        Options(**options)


def test_a_prepared_model_takes_a_target_by_name() -> None:
    model = prepare(small_net(), images()[0], images(), name="net")
    assert model.compile("cortex-m4").target == from_target_string("cortex-m4")
    with pytest.raises(CortadoError, match="unknown target 'cortex-m99'"):
        model.compile("cortex-m99")
