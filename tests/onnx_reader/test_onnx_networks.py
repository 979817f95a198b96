"""Networks as ONNX files: read as onnxruntime runs them, compiled, and the same bits on this machine and on boards."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper
from torch import Tensor, nn

import cortado
from helpers.cli import Run
from helpers.onnx_models import by_onnxruntime, constant, exported, model, saved

TARGET = "cortex-m4"
C_ONLY = cortado.Options(artifacts="c")


class Classifier(nn.Module):
    """Convolutions of all kinds, a residual sum, a mean, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6())
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pointwise = nn.Conv2d(8, 8, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x + torch.relu(self.pointwise(self.depthwise(x)))
        return torch.softmax(self.head(x.mean((2, 3))), -1)


class Speech(nn.Module):
    """A recurrent layer whose last step is read."""

    def __init__(self, layer: nn.Module, directions: int = 1) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(12 * directions, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0][:, -1])


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.inner = nn.Conv2d(1, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(4, 4, 2, 2), nn.Conv2d(5, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(nn.functional.leaky_relu(self.inner(torch.relu(self.down(x)))))
        return torch.sigmoid(self.out(torch.cat([x, nn.functional.interpolate(y, scale_factor=1.0)], 1)))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.conv, self.head = nn.Embedding(40, 8), nn.Conv1d(8, 8, 3), nn.Linear(8, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(torch.relu(self.conv(self.table(ids).transpose(1, 2))).amax(-1))


class Detector(nn.Module):
    """Two outputs, upsampling, slices."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.boxes, self.scores = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 4, 1), nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = nn.functional.interpolate(torch.relu(self.body(x)), scale_factor=2, mode="nearest")
        return self.boxes(y).flatten(2).transpose(1, 2), torch.sigmoid(self.scores(y)[:, 1:])


def quantized(folder: Path) -> Path:
    """A convolution as onnxruntime's quantizer writes it: uint8 activations, int8 weights per channel, int32 biases."""
    rng = np.random.default_rng(0)
    scales = np.array([0.01, 0.02, 0.015, 0.008], dtype=np.float32)
    constants = [
        constant("sx", 0.02),
        constant("zx", 128, np.uint8),
        constant("w", rng.integers(-127, 128, (4, 3, 3, 3)), np.int8),
        constant("sw", scales),
        constant("zw", [0] * 4, np.int8),
        constant("b", rng.integers(-2000, 2000, 4), np.int32),
        constant("sb", 0.02 * scales),
        constant("zb", [0] * 4, np.int32),
        constant("sy", 0.05),
        constant("zy", 0, np.uint8),
    ]
    pairs = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "sx", "zx"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["wd"], axis=0),
        helper.make_node("DequantizeLinear", ["b", "sb", "zb"], ["bd"], axis=0),
        helper.make_node("Conv", ["xd", "wd", "bd"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("QuantizeLinear", ["r", "sy", "zy"], ["yq"]),
        helper.make_node("DequantizeLinear", ["yq", "sy", "zy"], ["y"]),
    ]
    return saved(model(pairs, {"x": [1, 3, 8, 8]}, ["y"], constants), folder)


def by_hand(folder: Path) -> Path:
    """Shapes computed by nodes, as exporters of dynamic shapes leave them, and operators of old opsets."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", auto_pad="SAME_UPPER", strides=[2, 2]),
        helper.make_node("Clip", ["c"], ["k"], name="clip", min=0.0, max=6.0),
        helper.make_node("Pad", ["k"], ["p"], name="pad", pads=[0, 0, 1, 0, 0, 0, 0, 1]),
        helper.make_node("Shape", ["p"], ["s"], name="shape"),
        helper.make_node("Gather", ["s", "zero"], ["n"], name="batch"),
        helper.make_node("Unsqueeze", ["n"], ["n1"], name="one", axes=[0]),
        helper.make_node("Concat", ["n1", "rest"], ["t"], name="sizes", axis=0),
        helper.make_node("Reshape", ["p", "t"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "m", "b"], ["y"], name="head", transB=1),
    ]
    rng = np.random.default_rng(1)
    constants = [
        constant("w", rng.normal(size=(4, 3, 3, 3)) / 5),
        constant("zero", 0, np.int64),
        constant("rest", [-1], np.int64),
        constant("m", rng.normal(size=(2, 4 * 5 * 5)) / 10),
        constant("b", [0.5, -0.5]),
    ]
    return saved(model(nodes, {"x": ["n", 3, 7, 7]}, ["y"], constants, opset=9), folder)


def of(make: Callable[[], nn.Module], *sizes: int, ids: int = 0) -> Callable[[Path], Path]:
    def export(folder: Path) -> Path:
        torch.manual_seed(0)
        x = torch.randint(ids, sizes) if ids else torch.rand(sizes) * 2 - 1
        return exported(make(), [x], folder / "model.onnx")

    return export


@dataclass(frozen=True)
class Kind:
    make: Callable[[Path], Path]
    ids: int = 0


KINDS = {
    "classifier": Kind(of(Classifier, 1, 3, 16, 16)),
    "gru": Kind(of(lambda: Speech(nn.GRU(6, 12, batch_first=True)), 1, 9, 6)),
    "lstm": Kind(of(lambda: Speech(nn.LSTM(6, 12, batch_first=True, bidirectional=True), 2), 1, 9, 6)),
    "rnn": Kind(of(lambda: Speech(nn.RNN(6, 12, batch_first=True)), 1, 9, 6)),
    "unet": Kind(of(UNet, 1, 1, 12, 12)),
    "encoder": Kind(of(Encoder, 1, 6, 16)),
    "words": Kind(of(Words, 1, 10, ids=40), ids=40),
    "detector": Kind(of(Detector, 1, 3, 8, 8)),
    "quantized": Kind(quantized),
    "by_hand": Kind(by_hand),
}


def inputs(model: Any, count: int, ids: int) -> list[tuple[Tensor, ...]]:
    rng = torch.Generator().manual_seed(1)
    (example,) = model.example_inputs
    if ids:
        return [(torch.randint(ids, example.shape, generator=rng),) for _ in range(count)]
    return [(torch.rand(example.shape, generator=rng) * 2 - 1,) for _ in range(count)]


@pytest.mark.host
@pytest.mark.parametrize("name", KINDS)
def test_as_onnxruntime_and_bit_exact(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    path = kind.make(tmp_path)
    found = cortado.load_onnx(path)
    samples = inputs(found, 33, kind.ids)
    expected = by_onnxruntime(path, samples[0])
    results = found(*samples[0])
    for output, right in zip(results if isinstance(results, tuple) else (results,), expected, strict=True):
        step = 0.0501 if name == "quantized" else 1e-4  # codes: onnxruntime rounds the sum otherwise than float does
        np.testing.assert_allclose(output.detach().numpy(), right, rtol=1e-3, atol=step)
    calibration = samples[1:] if name != "quantized" else []
    compiled = cortado.compile(found, samples[0], target=TARGET, calibration=calibration, options=C_ONLY)
    checked = compiled.run(*samples[0], on="host")
    assert checked.bit_exact
    for output, right in zip(checked.outputs, expected, strict=True):
        noise = np.mean((output - right) ** 2)
        assert 10 * np.log10(np.mean(right**2) / max(noise, 1e-12)) > 20, name


def test_codes_of_a_quantized_file_are_kept(tmp_path: Path) -> None:
    found = cortado.load_onnx(quantized(tmp_path))
    compiled = cortado.compile(found, found.example_inputs, target=TARGET, calibration=[], options=C_ONLY)
    (given,), (output,) = compiled.report.inputs, compiled.report.outputs
    assert (given.scale, given.zero_point) == (pytest.approx(0.02), 0)
    assert (output.scale, output.zero_point) == (pytest.approx(0.05), -128)


FIRST = "classifier"


@pytest.mark.qemu
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name != FIRST)) for name in KINDS])
def test_from_the_command_line_to_a_board(name: str, run: Run, tmp_path: Path) -> None:
    """Compiled, run on a board, and what came out of it beside onnxruntime's answer."""
    path, out = KINDS[name].make(tmp_path), tmp_path / "out"
    samples = [x for (x,) in inputs(cortado.load_onnx(path), 33, KINDS[name].ids)]
    np.save(tmp_path / "typical.npy", np.concatenate([x.numpy() for x in samples[1:]]))
    np.save(tmp_path / "one.npy", samples[0].numpy())
    typical = [] if name == "quantized" else ["--calibration", tmp_path / "typical.npy"]
    done = run("compile", path, *typical, "-t", TARGET, "--artifacts", "c", "-o", out)
    assert done.code == 0, done.err
    done = run("run", out, "--input", tmp_path / "one.npy", "--output", tmp_path / "found.npz")
    assert done.code == 0, done.err
    assert "bit-exact with the reference" in done.out
    with np.load(tmp_path / "found.npz") as found:
        given = [found[key] for key in found.files]
    for output, right in zip(given, by_onnxruntime(path, [samples[0]]), strict=True):
        assert 10 * np.log10(np.mean(right**2) / max(np.mean((output - right) ** 2), 1e-12)) > 20, name
    done = run("validate", out, "--model", path, "--min-sqnr", "15")
    assert done.code == 0, done.err


def test_layers_have_the_names_of_nodes(tmp_path: Path) -> None:
    found = cortado.load_onnx(by_hand(tmp_path))
    compiled = cortado.compile(
        found, found.example_inputs, target=TARGET, calibration=[found.example_inputs], options=C_ONLY
    )
    assert {layer.module for layer in compiled.report.layers if layer.module} >= {"conv", "head"}


def test_a_refused_operator_is_named_by_its_node(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Acos", ["x"], ["a"], name="odd/angle"),
        helper.make_node("Tan", ["a"], ["y"], name="tan"),
    ]
    nodes.append(helper.make_node("Pow", ["y", "w"], ["z"], name="odd/power"))
    path = saved(model(nodes, {"x": [1, 4], "w": [1, 4]}, ["z"]), tmp_path)
    found = cortado.load_onnx(path)
    with pytest.raises(cortado.CortadoError, match=r"in module 'odd\.power'"):
        cortado.compile(found, found.example_inputs, target=TARGET, calibration=[found.example_inputs], options=C_ONLY)
