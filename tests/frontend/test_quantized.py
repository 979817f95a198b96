"""Models that PT2E has quantized are taken as they are: their scales, no calibration; what does not fit is an error."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.nn import functional as F
from torchao.quantization.pt2e import MinMaxObserver
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer
from torchao.quantization.pt2e.quantizer import arm_inductor_quantizer as arm_inductor
from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86_inductor
from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

from cortado.api import compile, prepare
from cortado.frontend.quantize.quantizer import CortexMQuantizer
from cortado.plan.lowered import reference_outputs
from helpers.cli import Run
from helpers.cores import each_core
from helpers.digits import digits, trained
from helpers.fake import Coded, fq, keep
from helpers.single import Function, decibels, images, randn, rejected, seeded

_ops: Any = torch.ops.quantized_decomposed
aten = torch.ops.aten


def converted(
    model: nn.Module, quantizer: Quantizer, batches: Sequence[tuple[Tensor, ...]], fold: bool = True
) -> GraphModule:
    """PT2E as a user writes it."""
    prepared = prepare_pt2e(torch.export.export(model.eval(), batches[0]).module(), quantizer)
    for batch in batches:
        prepared(*batch)
    result: GraphModule = convert_pt2e(prepared, fold_quantize=fold)
    return result


# ---- the same network, quantized elsewhere -------------------------------------------------------------------


@pytest.mark.host
def test_a_pt2_keeps_its_accuracy_and_costs_what_cortados_own_does(tmp_path: Path, run: Run) -> None:
    """1,000 samples in the C kernels, beside the converted model in torch: another calibration would be seen."""
    data, model = digits(), trained()
    few = [(sample,) for sample in data.train[:32].split(1)]
    other = converted(model, CortexMQuantizer(), few)
    path = tmp_path / "digits.pt2"
    torch.export.save(torch.export.export(other, few[0]), path)
    done = run("compile", path, "--target", "cortex-m4", "-o", tmp_path / "out", "--json")
    assert done.code == 0, done.err
    assert "only open files you trust" in done.err
    assert done.json["calibration"] is None
    taken = compile(torch.export.load(path), few[0], "cortex-m4", name="digits")
    with torch.no_grad():
        right = sum(int(other(x).argmax()) == int(y) for x, y in zip(data.test.split(1), data.labels, strict=True))
    assert right > 900
    found = taken.evaluate(data.test, data.labels).accuracy
    assert found is not None
    assert abs(found - right / len(data.labels)) <= 0.002
    own = prepare(model, few[0], few, name="digits").compile("cortex-m4")
    assert taken.bundle is not None
    assert own.bundle is not None
    assert taken.bundle.calls == own.bundle.calls
    assert taken.report.operators == own.report.operators
    assert taken.report.memory == own.report.memory


class Branches(nn.Module):
    """What a quantizer may share, or leave out: pools, a join, a residual, a mean, a reshape."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm, self.third, self.last = nn.BatchNorm2d(8), nn.Conv1d(16, 6, 3), nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        a = torch.relu(self.first(x))
        b = nn.functional.hardtanh(self.norm(self.second(a)) + a, 0.0, 4.0)
        joined = torch.cat([torch.max_pool2d(a, 2), torch.max_pool2d(b, 2)], 1)
        line = torch.relu(self.third(torch.flatten(joined, 2)))
        return self.last(line.mean(2))


QUANTIZERS: dict[str, Callable[[], Quantizer]] = {
    "cortado": CortexMQuantizer,
    "per channel": lambda: XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True)),
    "per tensor": lambda: XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=False)),
    "only layers": lambda: OnlyLayers(),
}


class OnlyLayers(Quantizer):
    """Each layer's input, weights and output and nothing else: weights with one scale and a code of -128, activations
    that leave -128 out, and no word of relu, pools, joins and reshapes."""

    activation = QuantizationSpec(
        torch.int8, MinMaxObserver, quant_min=-127, quant_max=127, qscheme=torch.per_tensor_affine
    )
    weight = QuantizationSpec(
        torch.int8, MinMaxObserver, quant_min=-128, quant_max=127, qscheme=torch.per_tensor_symmetric
    )

    def annotate(self, model: GraphModule) -> GraphModule:
        layers = (aten.conv1d.default, aten.conv2d.default, aten.linear.default, aten.add.Tensor, aten.mean.dim)
        for node in [node for node in model.graph.nodes if node.target in layers]:
            operands = {one: self.activation for one in node.all_input_nodes if one.op != "get_attr"}
            weights = {one: self.weight for one in node.args[1:2] if getattr(one, "op", "") == "get_attr"}
            node.meta["quantization_annotation"] = QuantizationAnnotation(
                {**operands, **weights}, self.activation, _annotated=True
            )
        return model

    def validate(self, model: GraphModule) -> None:
        pass


@pytest.mark.filterwarnings("ignore:XNNPACKQuantizer is deprecated")
@pytest.mark.parametrize(
    ("name", "fold"), [*((name, True) for name in QUANTIZERS), ("cortado", False), ("only layers", False)]
)
def test_other_quantizers_scales_are_kept(name: str, fold: bool) -> None:
    """As near to the converted model as rounding in seven layers allows; one wrong scale gives 10 dB."""
    batches = images(4)
    model = converted(seeded(Branches()), QUANTIZERS[name](), batches, fold)
    found = keep(model, *batches[0])
    wanted = torch.cat([model(*batch) for batch in batches])
    integers = torch.cat([reference_outputs(found.graph, batch)[0] for batch in batches])
    noise, signal = (wanted - integers).square().sum(), wanted.square().sum()
    assert float(noise) < 3e-4 * float(signal)  # 35 dB
    assert found.off(batches)[0] < 2.5


class Sequences(nn.Module):
    """A recurrent layer of one kind, and a linear one on its last step."""

    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.layer, self.last = kind(6, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layer(x)[0][:, -1])


@pytest.mark.cases(1)
@pytest.mark.filterwarnings("ignore:The tensor attributes")
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_recurrent_layers_by_cortados_quantizer_in_pt2es_hands(kind: Callable[..., nn.Module]) -> None:
    batches = [(torch.randn(1, 7, 6),) for _ in range(4)]
    model = converted(seeded(Sequences(kind)), CortexMQuantizer(), batches)
    assert keep(model, *batches[0]).off(batches)[0] < 2.5


@pytest.mark.cases(1)
@pytest.mark.filterwarnings("ignore:XNNPACKQuantizer is deprecated")
@pytest.mark.parametrize("name", ["cortado", "per channel", "per tensor"])
def test_linear_layers_that_were_decomposed_after_they_were_quantized(name: str) -> None:
    """Their biases, which other quantizers leave in float, are operands of addmm."""
    batches = [(torch.randn(2, 8),) for _ in range(4)]
    layers = seeded(nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4)))
    model = converted(layers, QUANTIZERS[name](), batches)
    program = torch.export.export(model, batches[0]).run_decompositions()
    assert aten.addmm.default in {node.target for node in program.graph.nodes}
    assert keep(program.module(), *batches[0]).off(batches)[0] < 1.001


def test_joins_of_small_values_by_cortados_quantizer_in_pt2es_hands() -> None:
    """Nothing is settled after the calibration that PT2E does: every observer has to know its own range."""
    batches = [(0.05 * x,) for (x,) in images(4)]
    layers = {"a": seeded(nn.Conv2d(3, 4, 1, bias=False)), "b": seeded(nn.Conv2d(3, 2, 1, bias=False))}
    model = Function(lambda m, x: torch.cat([m.a(x), m.b(x)], 1), **layers)
    found = converted(model, CortexMQuantizer(), batches)
    with torch.no_grad():
        assert min(decibels(model(*batch), found(*batch)) for batch in batches) > 30
    assert keep(found, *batches[0]).off(batches)[0] < 1.001


@pytest.mark.slow
def test_an_exported_program_and_its_module_are_taken_wherever_a_module_is() -> None:
    batches = images()
    model = seeded(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()))
    program = torch.export.export(model, batches[0])
    wanted = compile(model, batches[0], "cortex-m4", batches, "net")
    for other in (program, program.module()):
        found = compile(other, batches[0], "cortex-m4", batches, "net")
        assert found.bundle == wanted.bundle
        samples = torch.cat([x for (x,) in batches])
        beside = [one.evaluate(samples, model=it).outputs[0].sqnr_db for one, it in ((found, other), (wanted, model))]
        assert beside[0] == pytest.approx(beside[1], abs=0.01)


def test_calibration_data_only_serves_as_a_check() -> None:
    batches = images()
    model = converted(seeded(Branches()), CortexMQuantizer(), batches)
    without = prepare(model, batches[0]).quantized
    given = prepare(model, batches[0], [(10 * x,) for (x,) in batches]).quantized
    assert len(given.checked) == len(batches)
    assert torch.equal(without.converted(*batches[1]), given.converted(*batches[1]))


# ---- scales that differ where Cortado shares one -------------------------------------------------------------


def conv(out: int = 4, size: int = 1, **options: Any) -> Coded:
    return Coded(seeded(nn.Conv2d(3, out, size)), **options)


A, B, C, D = (0.031, 4), (0.02, -9), (0.05, 0), (0.023, -100)
DIFFERENT: dict[str, Callable[[Any, Tensor], Any]] = {
    "max pool": lambda m, x: fq(torch.max_pool2d(fq(m.a(fq(x, *A)), *B), 2), *C),
    "reshape": lambda m, x: fq(torch.flatten(fq(m.a(fq(x, *A)), *B), 1), *C),
    "cat": lambda m, x: fq(torch.cat([fq(m.a(fq(x, *A)), *B), fq(m.b(fq(x, *A)), *D)], 1), *C),
    "cat, one of them as it is": lambda m, x: fq(torch.cat([fq(m.a(fq(x, *A)), *C), fq(x, *A)], 1), *C),
    "minimum": lambda m, x: fq(torch.minimum(fq(m.a(fq(x, *A)), *B), fq(m.b(fq(x, *A)), *D)), *C),
    "maximum, one constant": lambda m, x: fq(torch.maximum(fq(m.a(fq(x, *A)), *B), fq(m.bound, *D)), *C),
    "relu behind a scale": lambda m, x: fq(torch.relu(fq(m.a(fq(x, *A)), *B)), *D),
    "relu without one": lambda m, x: torch.relu(fq(m.a(fq(x, *A)), *B)),
    "softmax": lambda m, x: fq(torch.softmax(fq(m.a(fq(x, *A)), *C), 3), 0.004, -120),
    "softmax without one": lambda m, x: torch.softmax(fq(m.a(fq(x, *A)), *C), 3),
    "sigmoid": lambda m, x: fq(torch.sigmoid(fq(m.a(fq(x, *A)), *C)), 0.005, -90),
    "input moved first": lambda m, x: fq(m.a(fq(torch.max_pool2d(x, 2).transpose(2, 3), *A)), *B),
    "narrow codes": lambda m, x: fq(torch.relu(m.a(fq(x, 0.03, 0, -127, 127))), 0.05, 0, -127, 100),
    "narrow codes behind a pool": lambda m, x: fq(torch.max_pool2d(torch.relu(m.a(fq(x, *A))), 2), 0.01, 0, -100, 90),
    "batch norm by itself": lambda m, x: fq(m.norm(fq(m.a(fq(x, *A)), *B)), *C),
    "codes of a constant": lambda m, x: fq(fq(m.a(fq(x, *A)), *B) * fq(m.bound, *D), *C),
    "a constant that is none": lambda m, x: fq(fq(m.a(fq(x, *A)), *B) + m.bound, *C),
    "a mean": lambda m, x: fq(fq(m.a(fq(x, *A)), *B).mean((2, 3)), *C),
    "a signal": lambda m, x: fq(m.line(fq(torch.flatten(x, 2), *A)), *B),
}


def parts() -> dict[str, Any]:
    norm = seeded(nn.BatchNorm2d(4))
    line = Coded(seeded(nn.Conv1d(3, 4, 5)))
    return {"a": conv(), "b": conv(low=-128), "norm": norm, "line": line, "bound": randn(1, 4, 8, 8, scale=0.4, seed=3)}


@pytest.mark.parametrize("name", DIFFERENT)
def test_scales_that_differ_are_kept(name: str) -> None:
    """Never other numbers than the model's: codes are rescaled between, which rounds once more at most."""
    batches = images(3)
    found = keep(Function(DIFFERENT[name], **parts()).eval(), *batches[0])
    worst, share = found.off(batches)
    assert worst < 1.001, found.kernels
    assert share < 0.3, found.kernels


OPEN: dict[str, Callable[[Any, Tensor], Any]] = {
    "a function before a pool": lambda m, x: fq(F.avg_pool2d(F.gelu(fq(m.a(fq(x, *A)), *B)), 2), *B),
    "a function at the end": lambda m, x: F.silu(fq(m.a(fq(x, *A)), *B)),
    "prelu before a pool": lambda m, x: fq(F.avg_pool2d(F.prelu(fq(m.a(fq(x, *A)), *B), m.slopes), 2), *B),
    "prelu at the end": lambda m, x: F.prelu(fq(m.a(fq(x, *A)), *B), m.slopes),
    "a gate": lambda m, x: fq(m.e(F.glu(fq(m.a(fq(x, *A)), *B), 1)), *C),
    "a sum": lambda m, x: torch.relu(fq(m.a(fq(x, *A)), *B) + fq(m.b(fq(x, *A)), *D)),
    "a choice": lambda m, x: torch.where(fq(x, *A)[:, :1] > 0, fq(m.a(fq(x, *A)), *B), fq(m.b(fq(x, *A)), *D)),
    "masked values": lambda m, x: fq(m.a(fq(x, *A)), *B).masked_fill(fq(x, *A)[:, :1] > 0, 0.0),
    "a join of different scales": lambda m, x: torch.cat([fq(m.a(fq(x, *A)), *B), fq(m.b(fq(x, *A)), *C)], 1),
}


@pytest.mark.parametrize("name", OPEN)
def test_a_tensor_that_nobody_quantized_has_the_range_that_it_can_have(name: str) -> None:
    own = {**parts(), "slopes": torch.tensor([0.25, -0.1, 0.5, 0.0]), "e": Coded(seeded(nn.Conv2d(2, 4, 1)))}
    model, batches = Function(OPEN[name], **own).eval(), images(3)
    found = keep(model, *batches[0])
    with torch.no_grad():
        wanted = torch.cat([model(*batch) for batch in batches])
    integers = torch.cat([reference_outputs(found.graph, batch)[0] for batch in batches])
    assert float((wanted - integers).square().sum()) < 1e-3 * float(wanted.square().sum()), found.kernels  # 30 dB


def wide(x: Tensor, scale: float = 2e-4) -> Tensor:
    return per_tensor(x, scale, 0, -32768, 32767, torch.int16)


WIDE: dict[str, Callable[[Any, Tensor], Any]] = {
    "all of it": lambda m, x: wide(m.e(wide(torch.relu(m.a(wide(x)))))),
    "left open": lambda m, x: F.silu(wide(m.a(wide(x)))) + wide(m.b(wide(x))),
    "the input alone": lambda m, x: fq(m.a(wide(x)), *B),
    "the output alone": lambda m, x: wide(m.a(fq(x, *A))),
    "in the middle": lambda m, x: fq(m.e(wide(m.a(fq(x, *A)))), *C),
    "a constant": lambda m, x: wide(wide(m.a(wide(x))) * m.bound),
    "moved and joined": lambda m, x: wide(torch.cat([wide(m.a(wide(x)), 3e-4).flip(3), wide(m.b(wide(x)))], 1)),
}


@pytest.mark.parametrize("name", WIDE)
def test_int16_activations_are_kept(name: str) -> None:
    """As near to the model as the coarsest of its codes."""
    own = {**parts(), "e": Coded(seeded(nn.Conv2d(4, 4, 1)))}
    batches = images(3)
    model = Function(WIDE[name], **own).eval()
    found = keep(model, *batches[0])
    with torch.no_grad():
        wanted = torch.cat([model(*batch) for batch in batches])
    integers = torch.cat([reference_outputs(found.graph, batch)[0] for batch in batches])
    noise = float((wanted - integers).square().sum() / wanted.square().sum())
    assert noise < (3e-3 if name == "the input alone" else 1e-3 if name == "in the middle" else 1e-6), found.kernels


REFUSED: dict[str, tuple[Callable[[], Quantizer], str]] = {
    "X86InductorQuantizer": (
        lambda: x86_inductor.X86InductorQuantizer().set_global(
            x86_inductor.get_default_x86_inductor_quantization_config()
        ),
        "an activation is quantized to uint8, expected int8",
    ),
    "ArmInductorQuantizer": (  # it leaves the output of the last layer in float
        lambda: arm_inductor.ArmInductorQuantizer().set_global(
            arm_inductor.get_default_arm_inductor_quantization_config()
        ),
        "aten.linear.default in module '2': its output is not quantized, expected a quantize",
    ),
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", REFUSED)
def test_quantizers_of_other_machines_are_refused_by_what_they_leave_open(name: str) -> None:
    quantizer, message = REFUSED[name]
    layers = seeded(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 5)))
    batches = images(2)
    assert message in rejected(converted(layers, quantizer(), batches), *batches[0])


def test_a_scale_that_a_join_has_already_costs_no_call() -> None:
    (x,) = images(1)[0]
    same = keep(
        Function(lambda m, x: fq(torch.cat([fq(m.a(fq(x, *A)), *C), fq(m.b(fq(x, *A)), *C)], 1), *C), **parts()), x
    )
    other = keep(Function(DIFFERENT["cat"], **parts()), x)
    assert "quantized_activation" not in " ".join(same.kernels), same.kernels
    assert len(other.kernels) == len(same.kernels) + 2


@pytest.mark.host
@pytest.mark.qemu
@pytest.mark.parametrize("target", each_core("cortex-m0", "cortex-m4", "cortex-m55", here="cortex-m4"))
def test_weights_of_128_run_to_the_bit(target: str) -> None:
    (x,) = images(1)[0]
    layer = Coded(seeded(nn.Conv2d(3, 8, 3, padding=1)), low=-128)
    depthwise = Coded(seeded(nn.Conv2d(8, 8, 3, padding=1, groups=8)), low=-128)
    assert int(layer.codes.min()) == int(depthwise.codes.min()) == -128  # type: ignore[operator]
    model = Function(lambda m, x: fq(m.depthwise(fq(m.layer(fq(x, *A)), *C)), *C), layer=layer, depthwise=depthwise)
    compiled = compile(model, (x,), target, name="net")
    assert compiled.run(x).bit_exact
    assert compiled.run(x, on="host").bit_exact


# ---- what does not fit ---------------------------------------------------------------------------------------


def per_tensor(x: Tensor, scale: float, zero_point: int, low: int, high: int, dtype: torch.dtype) -> Tensor:
    rest = (scale, zero_point, low, high, dtype)
    result: Tensor = _ops.dequantize_per_tensor(_ops.quantize_per_tensor(x, *rest), *rest)
    return result


def channels(x: Tensor, scales: Tensor) -> Tensor:
    rest = (scales, torch.zeros(3, dtype=torch.int64), 1, -127, 127, torch.int8)
    result: Tensor = _ops.dequantize_per_channel(_ops.quantize_per_channel(x, *rest), *rest)
    return result


def dynamic(x: Tensor) -> Tensor:
    scale, zero_point = _ops.choose_qparams.tensor(x, -128, 127, 1e-6, torch.int8)
    rest = (scale, zero_point, -128, 127, torch.int8)
    result: Tensor = _ops.dequantize_per_tensor.tensor(_ops.quantize_per_tensor.tensor(x, *rest), *rest)
    return result


def layer(weight: Callable[[Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    return lambda m, x: fq(torch.conv2d(fq(x, *A), weight(m.weight)), *B)


def shifted(weight: Tensor) -> Tensor:
    return per_tensor(weight, 0.02, 5, -128, 127, torch.int8)


MISFITS: dict[str, tuple[Callable[[Any, Tensor], Any], list[str]]] = {
    "uint8 activations": (
        lambda m, x: per_tensor(m.a(fq(x, *A)), 0.02, 100, 0, 255, torch.uint8),
        ["an activation is quantized to uint8, expected int8", "change that in the quantizer"],
    ),
    "uint8 inputs": (lambda m, x: fq(m.a(per_tensor(x, 0.02, 100, 0, 255, torch.uint8)), *B), ["quantized to uint8"]),
    "int16 with a zero point": (
        lambda m, x: fq(m.a(per_tensor(x, 0.001, 7, -32768, 32767, torch.int16)), *B),
        ["quantized to int16 with zero point 7, expected int8", "or int16 with zero point 0"],
    ),
    "channels of an activation": (
        lambda m, x: fq(m.a(channels(x, m.scales)), *B),
        ["an activation has a scale for each channel, expected int8 with one scale"],
    ),
    "asymmetric weights": (layer(shifted), ["aten.conv2d", "with zero points (5 is the first", "zero point 0"]),
    "uint8 weights": (
        layer(lambda w: per_tensor(w, 0.02, 128, 0, 255, torch.uint8)),
        ["a constant is quantized to uint8"],
    ),
    "scales of input channels": (
        lambda m, x: fq(torch.conv2d(fq(x, *A), channels(m.weight, m.scales)), *B),
        ["aten.conv2d", "3 scales along a dimension other than that of the output channels (0)"],
    ),
    "dynamic": (lambda m, x: fq(m.a(dynamic(x)), *B), ["chooses a new scale for every input (dynamic quantization)"]),
    "missing in the middle": (
        lambda m, x: fq(m.c(m.a(fq(x, *A))), *B),
        ["aten.conv2d", "its output is not quantized, expected a quantize and a dequantize after it"],
    ),
    "missing before an operand": (
        lambda m, x: fq(fq(m.d(fq(x, *A)), *B) + x, *C),
        ["aten.add.Tensor", "its operand the model's input '", "is not quantized, expected a quantize"],
    ),
    "missing before a quotient, behind data movement": (
        lambda m, x: (lambda y: fq(fq(y, *A) + fq(y.reciprocal(), *B), *C))(x.transpose(2, 3)),
        ["aten.transpose", "its operand the model's input '", "is not quantized, expected a quantize"],
    ),
    "missing at the end": (lambda m, x: m.a(fq(x, *A)), ["aten.conv2d", "its output is not quantized"]),
    "weights in float": (layer(lambda w: w), ["aten.conv2d", "its weights ('weight') are not quantized"]),
    "batch norm behind codes": (
        lambda m, x: fq(m.norm(m.a(fq(x, *A))), *B),
        ["aten.batch_norm", "so folding it would change quantized weights; fold it before quantizing"],
    ),
    "codes for outputs": (
        lambda m, x: _ops.quantize_per_tensor(m.a(fq(x, *A)), 0.1, 0, -128, 127, torch.int8),
        ["its codes are read by output", "expected a dequantize after every quantize"],
    ),
    "two scales of one tensor": (
        lambda m, x: (lambda y: fq(fq(y, 0.02, 1) + fq(y, 0.03, -1), *C))(m.a(fq(x, *A))),
        ["aten.conv2d", "is quantized with several scales (0.02, 0.03), expected one"],
    ),
    "two scales of an input": (
        lambda m, x: fq(fq(m.a(fq(x, *A)), *B) + fq(m.b(fq(x, *B)), *B), *C),
        ["placeholder", "is quantized with several scales (0.031, 0.02), expected one"],
    ),
    "another dequantize": (
        lambda m, x: _ops.dequantize_per_tensor(
            _ops.quantize_per_tensor(m.a(fq(x, *A)), 0.1, 0, -128, 127, torch.int8), 0.2, 0, -128, 127, torch.int8
        ),
        ["the dequantize after it has different parameters", "scale=0.2", "scale=0.1"],
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_is_told_with_its_line(name: str) -> None:
    function, wanted = MISFITS[name]
    own: dict[str, Any] = {
        **parts(),
        "c": Coded(seeded(nn.Conv2d(4, 4, 1))),
        "weight": randn(4, 3, 1, 1),
        "d": conv(3),
        "scales": torch.tensor([0.03, 0.04, 0.05]),
    }
    message = rejected(Function(function, **own).eval(), *images(1)[0])
    for text in wanted:
        assert text in message
    assert Path(__file__).name in message or "fake.py" in message


def test_a_model_that_is_only_prepared_is_refused() -> None:
    prepared = prepare_pt2e(torch.export.export(seeded(Branches()), images(1)[0]).module(), CortexMQuantizer())
    message = rejected(prepared, *images(1)[0])
    assert "convert_pt2e" in message


# ---- state -------------------------------------------------------------------------------------------------------


class Ring(nn.Module):
    """A causal convolution over the last samples."""

    past: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(6, 10, (5, 1)), nn.Linear(10, 4)
        self.register_buffer("past", torch.linspace(-1, 1, 24).reshape(1, 6, 4, 1))

    def forward(self, x: Tensor) -> Tensor:
        window = torch.cat([self.past, x], 2)
        self.past = window[:, :, 1:]
        y: Tensor = self.out(torch.relu(self.conv(window)).flatten(1))
        return y


@pytest.mark.host
def test_a_quantized_model_keeps_its_state() -> None:
    torch.manual_seed(0)
    model, steps = Ring().eval(), randn(40, 6, 1, 1, seed=1)
    given = converted(
        copy.deepcopy(model),
        XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True)),
        [(step[None],) for step in steps],
    )
    with torch.no_grad():
        given.get_buffer("past").copy_(model.past)  # calibration left something there
        found = compile(given, (steps[:1],), "cortex-m4", steps, name="net").run(steps, on="host")
        wanted = torch.cat([model(step[None]) for step in steps])
    assert found.bit_exact
    assert decibels(wanted, torch.from_numpy(found.outputs[0]).reshape(wanted.shape)) > 30
