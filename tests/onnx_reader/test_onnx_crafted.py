"""Crafted ONNX files: each ends in one sentence and exit code 2, none takes the machine's memory or its time."""

import itertools
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from cortado.base.errors import CortadoError
from cortado.onnx.files import MOST_CONSTANT_BYTES
from cortado.onnx.model import load_onnx
from helpers.cli import Run, one_sentence
from helpers.onnx_models import constant, model, saved

node = helper.make_node
HUGE = 1 << 40


def single(
    kind: str,
    sizes: Sequence[int] = (1, 4),
    constants: Sequence[onnx.TensorProto] = (),
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node."""
    inputs = ["x", *(one.name for one in constants)]
    return model([node(kind, inputs, outputs, name="n", **attributes)], {"x": sizes}, ["y"], constants, opset)


def integers(name: str, *values: int) -> onnx.TensorProto:
    return constant(name, list(values), np.int64)


def quantized(scale: float) -> onnx.ModelProto:
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"], name="n"), node("DequantizeLinear", ["q", "s", "z"], ["y"])]
    return model(nodes, {"x": [1, 4]}, ["y"], [constant("s", scale), constant("z", 0, np.int8)])


def ranged(*bounds: Any) -> onnx.ModelProto:
    nodes = [node("Range", ["a", "b", "c"], ["r"], name="n"), node("Add", ["x", "r"], ["y"])]
    return model(nodes, {"x": [1, 4]}, ["y"], [constant(name, one) for name, one in zip("abc", bounds, strict=True)])


def recurrent(units: int, sizes: Sequence[int] = (1, 12, 4)) -> onnx.ModelProto:
    weights = [constant("w", np.ones(sizes)), constant("r", np.ones(sizes))]
    return single("GRU", (5, 1, 4), weights, hidden_size=units, linear_before_reset=1)


def elsewhere(location: str) -> onnx.ModelProto:
    proto = single("Add", constants=[constant("w", [1, 2, 3, 4])])
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return proto


def plain(*nodes: onnx.NodeProto, constants: Sequence[onnx.TensorProto] = ()) -> onnx.ModelProto:
    return model(nodes, {"x": [1, 4]}, ["y"], constants)


def doubled(times: int) -> onnx.ModelProto:
    names = ["w", *(f"c{number}" for number in range(times))]
    nodes = [node("Concat", [a, a], [b], axis=0) for a, b in itertools.pairwise(names)]
    nodes += [node("ReduceSum", [names[-1]], ["s"], keepdims=0), node("Add", ["x", "s"], ["y"])]
    return plain(*nodes, constants=[constant("w", [1])])


def filled(times: int) -> onnx.ModelProto:
    """Constants of 2^26 elements each, which are added up."""
    parts = [f"s{number}" for number in range(times)]
    nodes = [node("ConstantOfShape", ["n"], [f"c{number}"]) for number in range(times)]
    nodes += [node("ReduceSum", [f"c{number}"], [part], keepdims=0) for number, part in enumerate(parts)]
    return plain(*nodes, node("Sum", ["x", *parts], ["y"]), constants=[integers("n", 1 << 26)])


def outer(size: int) -> onnx.ModelProto:
    nodes = [
        node("Mul", ["a", "b"], ["c"]),
        node("ReduceSum", ["c"], ["s"], keepdims=0),
        node("Add", ["x", "s"], ["y"]),
    ]
    return plain(*nodes, constants=[constant("a", np.ones((size, 1))), constant("b", np.ones((1, size)))])


def same_bytes(times: int) -> onnx.ModelProto:
    """Constants that are all the same part of one file, each with half of what a tensor may have."""
    proto = elsewhere("weights.bin")
    first = proto.graph.initializer[0]
    first.dims[:] = [1 << 25]
    for number in range(times):
        proto.graph.initializer.add().CopyFrom(first)
        proto.graph.initializer[-1].name = f"w{number}"
    return proto


FILES: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "sizes of 2^33": (lambda: single("Relu", [1, 1 << 33]), "input 'x': it asks for a tensor of shape [1, 8589934592]"),
    "no inputs": (lambda: plain(node("Relu", [], ["y"], name="n")), "node 'n' (Relu) of model.onnx: 0 inputs"),
    "an input left out": (lambda: plain(node("Concat", ["x", "", "x"], ["y"], axis=0)), "input 1 is missing"),
    "no outputs": (lambda: plain(node("Relu", ["x"], []), node("Relu", ["x"], ["y"])), "has no outputs"),
    "no constant": (lambda: plain(node("Constant", [], ["c"]), node("Add", ["x", "c"], ["y"])), "expected numbers"),
    "group -1": (lambda: single("Conv", [1, 3, 4], [constant("w", np.ones((4, 3, 1)))], group=-1), "'group' holds -1"),
    "blocksize 0": (lambda: single("DepthToSpace", [1, 4, 4, 4], blocksize=0), "'blocksize' holds 0"),
    "hidden_size 2^30": (lambda: recurrent(1 << 30), "input 1 of shape [1, 12, 4], expected [1, 3221225472, 4]"),
    "weights of rank 2": (lambda: recurrent(4, (12, 4)), "input 1 of shape [12, 4]"),
    "scale 0": (lambda: quantized(0.0), "expected finite scales above 0"),
    "scale NaN": (lambda: quantized(np.nan), "expected finite scales above 0"),
    "range of nothing": (lambda: ranged([], 3, 1), "input 0 holds 0 numbers"),
    "endless range": (lambda: ranged(0, np.inf, 1), "expected finite numbers"),
    "path with NUL": (lambda: elsewhere("a\0b"), "expected a file in the model's folder"),
    "path that is too long": (lambda: elsewhere("a/" * 5000), "expected a file in the model's folder"),
    "two of one name": (
        lambda: plain(node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])),
        "'y' is defined twice; export the model again",
    ),
    "an input's name again": (lambda: plain(node("Relu", ["x"], ["x"]), node("Neg", ["x"], ["y"])), "'x' is defined"),
    "alpha NaN": (
        lambda: single("LeakyRelu", alpha=float("nan")),
        "attribute 'alpha' is nan, expected a finite number",
    ),
    "alpha infinite": (lambda: single("Elu", alpha=float("inf")), "attribute 'alpha' is inf, expected a finite number"),
    "bound NaN": (lambda: single("Clip", constants=[constant("a", np.nan)]), "input 1 is not a number (NaN)"),
    "attribute of another type": (lambda: single("LeakyRelu", alpha=3), "'alpha' is int, expected float"),
    "unknown attribute": (lambda: single("Relu", slope=0.5), "attribute 'slope', expected one of []"),
    "operator of a newer opset": (lambda: single("Gelu", opset=13), "Gelu in a file of opset 13"),
    "2^40 outputs": (lambda: single("Split", outputs=["y", "z"], opset=18, axis=1, num_outputs=HUGE), "num_outputs"),
    "padding of 2^40": (lambda: single("Pad", constants=[integers("p", 0, 0, 0, HUGE)]), "it asks for a tensor"),
    "reflections of 2^40": (lambda: single("Pad", constants=[integers("p", 0, 0, 0, HUGE)], mode="edge"), "asks for"),
    "depth of 2^40": (
        lambda: single("OneHot", constants=[constant("d", HUGE, np.int64), constant("v", [0, 1])]),
        "it asks for a tensor of shape [1099511627776]",
    ),
    "doubled": (lambda: doubled(29), "it asks for a tensor of shape [134217728], expected at most 67,108,864 elements"),
    "filled": (lambda: filled(4), f"take more than {MOST_CONSTANT_BYTES:,} bytes, expected less"),
    "outer product": (lambda: outer(30_000), "it asks for a tensor of shape [30000, 30000]"),
    "the same bytes often": (lambda: same_bytes(8), f"take more than {MOST_CONSTANT_BYTES:,} bytes, expected less"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_crafted_file_is_refused_in_one_sentence(name: str, run: Run, tmp_path: Path) -> None:
    make, words = FILES[name]
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(4 << 25)
    path = saved(make(), tmp_path)
    done = run("compile", path, "--calibration", "random", "-o", tmp_path / "out")
    one_sentence(done, words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["class", "self", "forward", "x\0y", "None"])
def test_an_input_may_have_any_name(name: str, tmp_path: Path) -> None:
    found = load_onnx(saved(model([node("Relu", [name], ["y"])], {name: [1, 4]}, ["y"]), tmp_path))
    assert torch.equal(found(*found.example_inputs), found.example_inputs[0].relu())
    torch.export.export(found, found.example_inputs)


@pytest.mark.parametrize("name", ["/".join(["a"] * 5000), "a" * 5000, "forward", "0", "...", "training/type"])
def test_a_node_may_have_any_name(name: str, tmp_path: Path) -> None:
    nodes = [node("Relu", ["x"], ["z"], name=name), node("Neg", ["z"], ["y"], name=name)]
    found = load_onnx(saved(model(nodes, {"x": [1, 4]}, ["y"]), tmp_path))
    assert torch.equal(found(*found.example_inputs), -found.example_inputs[0].relu())
    assert len(set(found.steps)) == 2
    torch.export.export(found, found.example_inputs)


def test_shapes_are_known_before_memory_is_taken(tmp_path: Path) -> None:
    """A layer that no machine has the memory for is refused without a byte for it."""
    nodes = [node("MatMul", ["x", "w"], ["y"], name="n")]
    path = saved(model(nodes, {"x": [1 << 24, 1]}, ["y"], [constant("w", np.ones((1, 1 << 12)))]), tmp_path)
    with pytest.raises(CortadoError, match=r"it asks for a tensor of shape \[16777216, 4096\]"):
        load_onnx(path)


def test_tables_of_positions_take_little_memory(tmp_path: Path) -> None:
    path = saved(single("Resize", [1, 1, 4, 1], [constant("r", []), constant("s", [1, 1, 1 << 18, 1])]), tmp_path)
    tracemalloc.start()
    load_onnx(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20  # a list of Python's numbers takes ten times as much


@pytest.mark.parametrize("same", [False, True], ids=["names of their own", "one name"])
def test_the_time_to_read_grows_as_the_number_of_nodes(same: bool, tmp_path: Path) -> None:
    def seconds(count: int) -> float:
        names = ["x", *(f"v{number}" for number in range(count))]
        nodes = [node("Relu", [a], [b], name="n" if same else f"/f/{b}") for a, b in itertools.pairwise(names)]
        path = saved(model(nodes, {"x": [1, 4]}, [names[-1]]), tmp_path)
        started = time.process_time()
        load_onnx(path)
        return time.process_time() - started

    seconds(10)
    assert seconds(4000) < 8 * seconds(1000)
