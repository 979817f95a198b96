"""ONNX files with codes, as onnxruntime writes them, beside onnxruntime itself; types and branches of other files."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from torch import Tensor, nn

import cortado
from helpers.onnx_models import by_onnxruntime, constant, exported, model, saved

node = helper.make_node
SIZES = (1, 3, 8, 8)
C_ONLY = cortado.Options(artifacts="c")


class Network(nn.Module):
    """Layers, a sum, pools and movement; with a transposed convolution or without."""

    def __init__(self, *, transposed: bool) -> None:
        super().__init__()
        self.stem, self.own = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.up: nn.Module = nn.ConvTranspose2d(8, 4, 2, 2) if transposed else nn.Conv2d(8, 4, 1)
        self.head = nn.Linear(4 * (64 if transposed else 16), 5)

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.max_pool2d(torch.relu(self.stem(x)), 2)
        y = y + torch.relu(self.own(y))
        return self.head(self.up(y).flatten(1))


class Samples(CalibrationDataReader):
    def __init__(self) -> None:
        draw = np.random.default_rng(0).uniform
        self.left: Iterator[Any] = iter([{"x": draw(-1, 1, SIZES).astype(np.float32)} for _ in range(8)])

    def get_next(self) -> Any:
        return next(self.left, None)


@dataclass(frozen=True)
class Kind:
    layout: QuantFormat
    activations: QuantType
    weights: QuantType
    per_channel: bool = False
    transposed: bool = False
    error: float = 0.02  # of the largest output: a step or two of int8


KINDS = {
    "qdq": Kind(QuantFormat.QDQ, QuantType.QUInt8, QuantType.QInt8, per_channel=True, transposed=True),
    "qdq with uint8 weights": Kind(QuantFormat.QDQ, QuantType.QUInt8, QuantType.QUInt8),
    "qdq with int16": Kind(QuantFormat.QDQ, QuantType.QInt16, QuantType.QInt8, transposed=True, error=0.001),
    "qdq with uint16": Kind(QuantFormat.QDQ, QuantType.QUInt16, QuantType.QInt8, per_channel=True, error=0.001),
    "operators on codes": Kind(QuantFormat.QOperator, QuantType.QUInt8, QuantType.QInt8, per_channel=True),
    "operators on uint8 codes": Kind(QuantFormat.QOperator, QuantType.QUInt8, QuantType.QUInt8),
}


def quantized(kind: Kind, folder: Path) -> Path:
    torch.manual_seed(0)
    real = exported(
        Network(transposed=kind.transposed),
        [torch.rand(SIZES)],
        folder / "float.onnx",
        input_names=["x"],
        opset_version=17,
    )
    logging.disable(logging.WARNING)
    try:
        quantize_static(
            str(real),
            str(folder / "model.onnx"),
            Samples(),
            quant_format=kind.layout,
            activation_type=kind.activations,
            weight_type=kind.weights,
            per_channel=kind.per_channel,
        )
    finally:
        logging.disable(logging.NOTSET)
    return folder / "model.onnx"


@pytest.mark.host
@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_the_quantizer_of_onnxruntime_keeps_its_scales(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    path = quantized(kind, tmp_path)
    found, x = cortado.load_onnx(path), torch.rand(SIZES, generator=torch.Generator().manual_seed(1)) * 2 - 1
    (right,) = by_onnxruntime(path, [x])
    compiled = cortado.compile(found, (x,), target="cortex-m4", calibration=[], options=C_ONLY)
    checked = compiled.run(x, on="host")
    assert checked.bit_exact
    for output in (found(x).detach().numpy(), checked.outputs[0]):
        assert np.abs(output - right).max() < kind.error * np.abs(right).max()


def test_only_movement_reads_codes(tmp_path: Path) -> None:
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("Cast", ["q"], ["y"], name="n", to=1)]
    path = saved(model(nodes, {"x": [1, 4]}, ["y"], [constant("s", 0.1), constant("z", 3, np.uint8)]), tmp_path)
    with pytest.raises(cortado.CortadoError, match=r"node 'n' \(Cast\) of model.onnx reads the codes of a quantized"):
        cortado.load_onnx(path)


@pytest.mark.parametrize("count", [2, 4, 5, 9])
def test_an_operator_on_codes_with_inputs_that_lack_a_scale(count: int, tmp_path: Path) -> None:
    names = ["x", *"abcdefgh"][:count]
    proto = model([node("QLinearAdd", names, ["y"], name="n", domain="com.microsoft")], {"x": [1, 4]}, ["y"])
    proto.graph.initializer.extend([constant(name, 1) for name in names[1:]])
    with pytest.raises(cortado.CortadoError, match=r"node 'n' \(QLinearAdd\)"):
        cortado.load_onnx(saved(proto, tmp_path))


# ---- types and branches ----------------------------------------------------------------------------------------------


def test_bfloat16_is_float32(tmp_path: Path) -> None:
    weights = helper.make_tensor("w", TensorProto.BFLOAT16, [4], [1.0, -2.5, 0.5, 3.0])
    nodes = [
        node("Cast", ["x"], ["h"], to=TensorProto.BFLOAT16),
        node("Mul", ["h", "w"], ["m"]),
        node("Cast", ["m"], ["y"], to=TensorProto.FLOAT),
    ]
    found = cortado.load_onnx(saved(model(nodes, {"x": [1, 4]}, ["y"], [weights]), tmp_path))
    assert found(torch.ones(1, 4)).tolist() == [[1.0, -2.5, 0.5, 3.0]]


def branching(condition: list[onnx.NodeProto], wanted: str) -> onnx.ModelProto:
    """An If whose branches use names of the outer graph, names of their own, and an If of their own."""

    def branch(name: str, nodes: list[onnx.NodeProto], output: str) -> onnx.GraphProto:
        outputs = [helper.make_empty_tensor_value_info(output)]
        return helper.make_graph(nodes, name, [], outputs, [constant("own", [2])])

    inner = node(
        "If",
        ["c"],
        ["v"],
        name="inner",
        then_branch=branch("a", [node("Mul", ["r", "own"], ["p"])], "p"),
        else_branch=branch("b", [node("Neg", ["r"], ["p"])], "p"),
    )
    outer = node(
        "If",
        ["c"],
        ["y"],
        name="outer",
        then_branch=branch(
            "then", [node("Add", ["r", "own"], ["u"], name="sum"), inner, node("Sub", ["u", "v"], ["w"])], "w"
        ),
        else_branch=branch("else", [node("Identity", ["r"], ["w"])], "w"),
    )
    return model(
        [node("Relu", ["x"], ["r"]), *condition, outer], {"x": [1, "n"]}, [wanted], [constant("four", 4, np.int64)]
    )


SHAPED = [
    node("Shape", ["x"], ["s"]),
    node("Constant", [], ["one"], value_int=1),
    node("Gather", ["s", "one"], ["n"]),
    node("Equal", ["n", "four"], ["c"]),
]


@pytest.mark.parametrize("size", [4, 3])
def test_a_branch_that_follows_from_shapes(size: int, tmp_path: Path) -> None:
    path = saved(branching(SHAPED, "y"), tmp_path)
    found = cortado.load_onnx(path, {"x": (1, size)})
    x = torch.rand(1, size) - 0.5
    np.testing.assert_allclose(found(x).numpy(), by_onnxruntime(path, [x])[0], rtol=1e-6)


def test_a_branch_that_follows_from_values_is_refused(tmp_path: Path) -> None:
    condition = [node("ReduceMax", ["x"], ["m"], keepdims=0), node("Cast", ["m"], ["c"], to=TensorProto.BOOL)]
    with pytest.raises(
        cortado.CortadoError, match=r"node 'outer' \(If\) of model.onnx: its condition is computed from"
    ):
        cortado.load_onnx(saved(branching(condition, "y"), tmp_path), {"x": (1, 4)})


@pytest.mark.host
def test_values_scattered_to_constant_positions(tmp_path: Path) -> None:
    nodes = [node("Neg", ["x"], ["n"]), node("ScatterElements", ["x", "at", "n"], ["y"], axis=1)]
    positions = constant("at", [[3, -4, 2, 1, 5, 4]], np.int64)
    path = saved(model(nodes, {"x": [1, 6]}, ["y"], [positions]), tmp_path)
    found, x = cortado.load_onnx(path), torch.rand(1, 6) - 0.5
    (right,) = by_onnxruntime(path, [x])
    compiled = cortado.compile(found, (x,), target="cortex-m4", calibration=[(x,)], options=C_ONLY)
    np.testing.assert_allclose(compiled.run(x, on="host").outputs[0], right, atol=0.01)
