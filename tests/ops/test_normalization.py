"""Normalization by the data's own statistics, and attention: in integers, close to the float model, bit-exact in C."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import nn

from cortado import api
from cortado.base.element import INT8
from cortado.base.errors import CortadoError
from cortado.base.numerics import QParams
from cortado.base.target import Core, from_target_string
from cortado.ir.kernel import Array
from cortado.ops.pool.normalize import LARGEST_GROUP, NORMALIZE, AffineSteps, constants
from cortado.options import Options
from cortado.plan.lowered import LoweredGraph, reference_outputs
from helpers.cases import call_of
from helpers.cores import FOUR, each_core
from helpers.kernels import Calls
from helpers.machines import MACHINES, Machine, check, mve
from helpers.operator_cases import cases_of
from helpers.single import Function, decibels, lower

Tensor = torch.Tensor
M4 = from_target_string("cortex-m4")


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.heads(x, x, x, need_weights=False)[0]
        return y


MODELS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "layer norm": (nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16)), (1, 5, 16)),
    "layer norm over two dimensions": (nn.LayerNorm([3, 4]), (2, 3, 4)),
    "layer norm without weights": (nn.LayerNorm(8, elementwise_affine=False), (4, 8)),
    "rms norm": (nn.Sequential(nn.Linear(16, 16), nn.RMSNorm(16)), (1, 5, 16)),
    "group norm": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU()), (1, 3, 8, 8)),
    "instance norm": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True)), (1, 3, 8, 8)),
    "attention": (Attention(), (1, 6, 16)),
    "transformer layer": (nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), (1, 6, 16)),
}


AFFINE = (nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d, nn.RMSNorm)


def model_of(name: str) -> tuple[nn.Module, list[tuple[Tensor]]]:
    """Weights and biases that do something, and inputs."""
    torch.manual_seed(0)
    model, shape = MODELS[name]
    for module in model.modules():
        if isinstance(module, AFFINE) and module.weight is not None:
            nn.init.uniform_(module.weight, 0.5, 1.5)
            if not isinstance(module, nn.RMSNorm):
                nn.init.uniform_(module.bias, -0.5, 0.5)
    return model.eval(), [(torch.randn(shape),) for _ in range(8)]


@pytest.mark.cases(2)
@pytest.mark.host
@pytest.mark.parametrize("name", MODELS)
def test_in_integers_and_close(name: str, tmp_path: Path) -> None:
    model, batches = model_of(name)
    compiled = api.prepare(model, batches[0], batches, name="model").compile(M4)
    assert compiled.report.float_operators == ()
    assert compiled.graph is not None
    found = torch.cat([reference_outputs(compiled.graph, batch)[0].flatten() for batch in batches])
    wanted = torch.cat([model(*batch).detach().flatten() for batch in batches])
    noise = (found - wanted).square().sum()
    assert 10 * np.log10(float(wanted.square().sum() / noise)) > 28
    samples = [[batch[0].numpy()] for batch in batches]
    artifact = compiled.save(tmp_path / "model")
    assert artifact.run(samples, "host").bit_exact
    assert artifact.run(samples[:1], "executorch").bit_exact
    assert (name == "attention") == (compiled.report.pte_form is None)  # norms are there in pieces


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core("cortex-m0plus", "cortex-m55", here="cortex-m0plus"))
def test_a_transformer_layer_on_boards(target: str, tmp_path: Path) -> None:
    model, batches = model_of("transformer layer")
    compiled = api.prepare(model, batches[0], batches, name="model").compile(from_target_string(target))
    samples = [[batch[0].numpy()] for batch in batches[:2]]
    assert compiled.save(tmp_path / "model").run(samples, check_stores=True).bit_exact


# ---- groups of very different spread ---------------------------------------------------------------------------

SPREADS = torch.tensor([1.0, 0.1, 0.03, 0.01])
BATCHES = 8


def spread(*sizes: int) -> Tensor:
    """Samples with groups of all spreads, far from zero mean, in dimension 1."""
    rng = torch.Generator().manual_seed(1)
    scales = SPREADS.repeat_interleave(sizes[0] // len(SPREADS)).reshape(-1, *(1 for _ in sizes[1:]))
    values: Tensor = (torch.randn(BATCHES, *sizes, generator=rng) + 0.5) * scales
    return values


SPREAD_MODELS: dict[str, tuple[nn.Module, Tensor]] = {
    "layer norm": (nn.LayerNorm(64), spread(4, 64)),
    "layer norm without weights": (nn.LayerNorm(64, elementwise_affine=False), spread(4, 64)),
    "layer norm over two dimensions": (nn.LayerNorm([6, 12]), spread(4, 6, 12)),
    "group norm": (nn.GroupNorm(4, 16), spread(16, 9, 7)),
    "group norm without weights": (nn.GroupNorm(4, 16, affine=False), spread(16, 9, 7)),
    "instance norm": (nn.InstanceNorm2d(4, affine=True), spread(4, 16, 16)),
    "instance norm without weights": (nn.InstanceNorm2d(4), spread(4, 16, 16)),
    "instance norm of sequences": (nn.InstanceNorm1d(4, affine=True), spread(4, 100)),
    "rms norm": (nn.RMSNorm(64), spread(4, 64)),
    "rms norm without weights": (nn.RMSNorm(64, elementwise_affine=False), spread(4, 64)),
}


def border(graph: LoweredGraph, operator: str) -> QParams:
    call = next(call for call in graph.calls if call.operator == operator)
    return QParams(call.arguments["scale"], call.arguments["zero_point"], INT8)


def rounded(values: Tensor, qparams: QParams) -> Tensor:
    """The nearest int8 codes, as real numbers again."""
    codes = torch.round(values / qparams.scale) + qparams.zero_point
    return qparams.dequantize(codes.clamp(-128, 127))


@pytest.mark.cases(3)
@pytest.mark.filterwarnings("ignore::cortado.base.errors.CortadoWarning")  # what is small is worth few decibels here
@pytest.mark.parametrize("name", SPREAD_MODELS)
def test_groups_of_small_spread_are_kept(name: str) -> None:
    """Each group is as close to the float model as the float normalization of the same int8 input, rounded to int8."""
    model, values = SPREAD_MODELS[name]
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.uniform_(parameter, 0.5, 1.5)
    batches = [(values[i : i + 1],) for i in range(BATCHES)]
    graph = api.prepare(model, batches[0], batches, name="model").compile(M4).graph
    assert graph is not None
    found = torch.cat([reference_outputs(graph, batch)[0] for batch in batches])
    into, out = border(graph, "cortex_m::quantize_per_tensor"), border(graph, "cortex_m::dequantize_per_tensor")
    with torch.no_grad():
        wanted, ideal = model(values), rounded(model(rounded(values, into)), out)
    assert float((found - ideal).abs().max()) < 1.001 * out.scale
    groups = [tensor.reshape(BATCHES, len(SPREADS), -1) for tensor in (wanted, found, ideal)]
    for group in range(len(SPREADS)):
        want, got, best = (tensor[:, group] for tensor in groups)
        assert decibels(want, got) > decibels(want, best) - 0.2


# ---- the operator ----------------------------------------------------------------------------------------------


def exact(codes: Tensor, zero: int | None, epsilon: float, steps: AffineSteps) -> Tensor:
    """In float64: [groups, n] codes normalized, in steps of the output. `zero`: the mean is taken as that code."""
    values = codes.to(torch.float64)
    values = values - (values.mean(1, keepdim=True) if zero is None else zero)
    count = codes.shape[1]
    return values / (values.square().mean(1, keepdim=True) + epsilon / count**2).sqrt() * steps.weight + steps.bias


@pytest.mark.cases(4)
@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("count", [1, 2, 3, 64, 1000, 2**16, LARGEST_GROUP])
def test_any_spread_and_any_eps_is_exact(count: int, centered: bool) -> None:
    """From one element apart to the whole range, from no eps to one that drowns the variance."""
    rng = torch.Generator().manual_seed(count)
    codes = torch.randint(-128, 128, (5, count), generator=rng, dtype=torch.int8)
    codes[0] = torch.where(codes[0] > 0, 127, -128)
    codes[1] = 100
    codes[1, 0] = 101
    codes[2] = -128
    codes[3] = codes[3].clamp(-3, -1)
    zero = -128
    if count == LARGEST_GROUP:
        codes = codes[:2]
    for eps in (0.0, 1e5) if count == LARGEST_GROUP else (0.0, 1e-9, 0.01, 1.0, 1e5, 1e30):
        steps = AffineSteps(torch.tensor([37.5 * math.sqrt(1 + eps)]).double(), torch.tensor([-3.25]).double())
        given = constants(count, count**2 * eps, steps)
        assert given is not None
        found = NORMALIZE.reference(
            input=codes, dim=1, first=1, groups=1, centered=centered, input_zero_point=zero, **given,
            activation_min=-128, activation_max=127)  # fmt: skip
        wanted = exact(codes, None if centered else zero, count**2 * eps, steps)
        if eps == 0.0:
            wanted = wanted.nan_to_num(-3.25)  # a group without spread: 0/0
        assert float((found - wanted.clamp(-128, 127)).abs().max()) < 0.51


def test_groups_that_are_too_large_are_refused() -> None:
    model = Function(lambda self, x: nn.functional.group_norm(x, 1))
    with pytest.raises(CortadoError, match=rf"normalizes groups of {LARGEST_GROUP + 1} values; expected 1 to"):
        lower(model, [(1, 1, LARGEST_GROUP + 1)])


def test_a_weight_that_changes_with_the_input_is_refused() -> None:
    model = Function(lambda self, x: nn.functional.layer_norm(x, (8,), weight=x[0]))
    with pytest.raises(CortadoError, match="needs a constant weight"):
        lower(model, [(4, 8)])


def drawn(count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    @settings(max_examples=count)
    @given(arguments=cases_of(NORMALIZE))
    def draw(arguments: dict[str, Any]) -> None:
        found.append(arguments)

    draw()
    return found


def large_group(dim: int) -> dict[str, Any]:
    """More than 2^16 values, as far apart as they can be: 32 bits don't hold the sum of their squares. The four
    channels are dimension 1 or 2."""
    sizes = (1, -1, 4) if dim == 2 else (1, 4, -1)
    codes = torch.where(torch.arange(2**18 + 4) % 3 > 0, 127, -128).to(torch.int8).reshape(sizes)
    numbers = constants(
        codes.numel(), 0.5, AffineSteps(torch.tensor([40.0, 30.0, -20.0, 1.0]).double(), torch.zeros(4))
    )
    assert numbers is not None
    shape = {"input": codes, "dim": dim, "first": 1, "groups": 1, "centered": True, "input_zero_point": 0}
    return {**shape, **numbers, "activation_min": -128, "activation_max": 127}


@pytest.mark.cases(1)
@pytest.mark.parametrize("machine", MACHINES)
def test_the_kernel_equals_the_reference(machine: Machine) -> None:
    """Also in place, which its comment allows."""
    calls, outputs = Calls(), []
    narrow = [one for one in drawn(90) if one["input"].dtype == torch.int8]
    for number, arguments in enumerate([*narrow, large_group(1), large_group(2)]):
        call = call_of(NORMALIZE, arguments)
        assert NORMALIZE.kernel is not None
        fields = {
            name: calls.array(value.data) if isinstance(value, Array) else value
            for name, value in NORMALIZE.kernel(call, Core.PORTABLE).fields.items()
        }
        samples = math.prod(arguments["input"].shape[: arguments["first"]])
        layer, expected = calls.struct("cortado_normalize_t", **fields), NORMALIZE.reference(**arguments).numpy()
        for suffix in ("", "__mve") if "__mve" in machine.suffixes else ("",):
            source = calls.array(arguments["input"].numpy())
            out = source if number % 2 else calls.space(arguments["input"].numel())
            calls.call(f"cortado_normalize_s8{suffix}", layer, source, out, samples)
            outputs.append((out, expected, f"case {number}{suffix}"))
    check(machine, calls, outputs, "cortado_normalize_s8", *mve(machine, "normalize_s8"))


# ---- images ----------------------------------------------------------------------------------------------------


class Blocks(nn.Module):
    """Convolution, normalization and relu, twice, and a shortcut."""

    def __init__(self, norm: type[nn.Module] | Any) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), norm(8), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), norm(8))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.first(x)
        return torch.relu(self.second(y) + y)


@pytest.mark.parametrize("norm", [nn.InstanceNorm2d, lambda channels: nn.GroupNorm(4, channels)])
def test_images_are_normalized_as_they_lie(norm: Any) -> None:
    """No transpose but at the border, and the relu is the kernel's bound."""
    found = lower(Blocks(norm), [(2, 3, 12, 10)])
    inside = [name for name in found.operators if name != "transpose"]
    assert inside == ["quantized_conv2d_nhwc", "normalize", "quantized_conv2d_nhwc", "normalize", "quantized_add"]
    assert found.operators.count("transpose") == 2
    assert [call.arguments["dim"] for call in found.calls("cortado::normalize")] == [3, 3]


def test_layer_norm_of_pixels_runs_row_by_row() -> None:
    """As in networks that permute to channels-last and back: it stays in the cascade of its neighbours."""

    def forward(self: Any, x: Tensor) -> Tensor:
        y = self.norm(self.before(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        z: Tensor = self.after(y)
        return z

    torch.manual_seed(0)
    parts = {"before": nn.Conv2d(3, 8, 3), "norm": nn.LayerNorm(8), "after": nn.Conv2d(8, 4, 3)}
    model = Function(forward, **parts).eval()
    batches = [(torch.randn(1, 3, 24, 24),) for _ in range(4)]
    compiled = api.prepare(model, batches[0], batches, name="model").compile(M4)
    assert compiled.planned is not None
    stages = [[step.operator for step in stage.steps] for stage in compiled.planned.program.stages]
    assert ["cortex_m::quantized_conv2d_nhwc", "cortado::normalize", "cortex_m::quantized_conv2d_nhwc"] in stages


@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core(*FOUR, here="cortex-m33"))
def test_normalized_images_on_boards(target: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Blocks(lambda channels: nn.InstanceNorm2d(channels, affine=True)).eval()
    batches = [(torch.randn(1, 3, 8, 8),) for _ in range(2)]
    compiled = api.prepare(model, batches[0], batches, name="model").compile(from_target_string(target))
    samples = [[batch[0].numpy()] for batch in batches]
    assert compiled.save(tmp_path / "model").run(samples, check_stores=True).bit_exact


# ---- the .pte ----------------------------------------------------------------------------------------------------


@pytest.mark.host
@pytest.mark.parametrize("name", ["layer norm", "group norm", "instance norm", "rms norm"])
def test_in_float_in_the_pte_where_that_is_allowed(name: str, tmp_path: Path) -> None:
    model, batches = model_of(name)
    compiled = api.prepare(model, batches[0], batches, name="model").compile(M4, Options(allow_float=True))
    kept = [item.operator.split(".")[1] for item in compiled.report.float_operators]
    assert kept[0] == name.replace(" ", "_")
    assert kept[1:] == (["clamp"] if name == "group norm" else [])  # the relu that was its bound
    assert compiled.graph is not None
    assert compiled.pte_graph is not None
    assert "cortado::normalize" in [call.operator for call in compiled.graph.calls]
    assert decibels(model(*batches[0]).detach(), reference_outputs(compiled.pte_graph, batches[0])[0]) > 28
    artifact = compiled.save(tmp_path / "model")
    sample = [batches[0][0].numpy()]
    assert artifact.run([sample], "host").bit_exact
    assert artifact.run([sample], "executorch").right
