"""What goes wrong with models in practice, and is right here: layouts, layers easily left in float, numbers."""

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cortado.api import prepare
from cortado.base.errors import CortadoError
from cortado.base.target import from_target_string
from cortado.frontend.capture import inputs
from cortado.frontend.capture.inputs import check_batches
from cortado.frontend.capture.numbers import without_numbers
from cortado.models.sources import _from_function
from cortado.plan.lowered import LoweredGraph, reference_outputs
from helpers import single
from helpers.single import Function, Single, assert_close, far_from_float, images, lower, lower_on, seeded, small_net
from helpers.values import present

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


# ---- layouts -------------------------------------------------------------------------------------------------


def test_a_channels_first_input_stays_in_integers() -> None:
    operators = is_integer(lower_on(small_net(), images()))
    assert operators.count("cortex_m::transpose") == 2  # one at each border, none between the layers
    assert operators[0] == operators[-1] == "cortex_m::transpose"


@pytest.mark.cases(1)
@pytest.mark.host
@pytest.mark.parametrize("model_too", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_channels_last_memory_is_no_part_of_the_model(channels: int, model_too: bool) -> None:
    """The same file runs, whatever the strides of the inputs it was compiled with, or is given."""
    model = small_net(channels)
    plain = [(x[:, :channels].contiguous(),) for (x,) in images()]
    last = [(x.to(memory_format=torch.channels_last),) for (x,) in plain]
    if model_too:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    compiled = prepare(model, last[0], last, name="net").compile(from_target_string("cortex-m55"))
    assert between_borders(present(compiled.graph)) == is_integer(lower_on(small_net(channels), plain))
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


@pytest.mark.parametrize("most", ["MOST_BATCHES", "MOST_VALUES"])
def test_calibration_data_that_never_end_are_an_error(most: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their number or their size, also where numbers stand among the inputs; a list may be as long as it likes."""
    monkeypatch.setattr(inputs, most, 3 if most == "MOST_BATCHES" else 3 * images()[0][0].numel())
    with pytest.raises(CortadoError, match=r"not ended after 3 batches .*itertools\.islice\(batches, 200\)"):
        prepare(small_net(), images()[0], cast(Any, itertools.cycle(images())))
    with pytest.raises(CortadoError, match=r"is it an endless generator\?"):
        without_numbers(itertools.repeat((*images()[0], 2)), (*images()[0], 2))
    many = images() * 2
    for lazy, said in ((deque(many), r"has 6 batches, expected at most 3"), (iter(many), "not ended after 3")):
        with pytest.raises(CortadoError, match=said if most == "MOST_BATCHES" else "not ended after 3"):
            check_batches(lazy, many[0])
    assert len(check_batches(many, many[0])) == len(many) > 3


def test_a_users_function_that_never_ends_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_BATCHES", 50)
    (tmp_path / "data.py").write_text(
        "import torch\ndef calibration():\n    while True:\n        yield (torch.zeros(1, 4),)\n"
    )
    with pytest.raises(CortadoError, match=r"not ended after 50 batches"):
        _from_function(tmp_path / "data.py", "calibration")


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


@pytest.mark.cases(2)
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
    norm = nn.BatchNorm2d(4)
    model = seeded(nn.Sequential(nn.Conv2d(3, 4, 3), norm, nn.Dropout(0.5))).train()
    statistics = present(norm.running_mean).clone()
    prepared = prepare(model, images()[0], images(), name="net")
    assert model.training
    assert norm.training
    assert torch.equal(present(norm.running_mean), statistics)
    graph = present(prepared.compile(from_target_string("cortex-m4")).graph)
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


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", LAYERS)
def test_runs_in_integers(name: str) -> None:
    layer, shape = LAYERS[name]
    is_integer(lower(seeded(layer), [shape]))


@pytest.mark.cases(3)
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
    "rms_norm of images": (nn.RMSNorm([4, 8], eps=0.01, elementwise_affine=False), (1, 3, 4, 8)),
}


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", NORMS)
def test_norms_run_in_integers(name: str) -> None:
    """Several roundings, of the squares, of their sum and of its root, are a few steps of the output."""
    model, shape = NORMS[name]
    found = lower(seeded(model), [shape])
    is_integer(found)
    assert far_from_float(found, model) < 4


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


@pytest.mark.cases(3)
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


@pytest.mark.cases(2)
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
    biases = [data for name, data in found.graph.constants.items() if "_bias" in name]
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
    graph = present(extra.graph)
    assert sorted(graph.constants) == sorted(present(plain.graph).constants)
    read = {ref for call in graph.calls for ref in call.refs(*call.arguments)}
    assert set(graph.constants) <= read
    assert present(extra.pte).data == present(plain.pte).data
    assert present(extra.bundle).files == present(plain.bundle).files
