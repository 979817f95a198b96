"""ONNX files of anybody: damaged, too large, with ways out of their folder, not understood. One sentence each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from cortado.base.errors import CortadoError
from cortado.onnx.model import load_onnx
from helpers.cli import Run
from helpers.onnx_models import constant, model, saved

SIZES = [1, 4]


def plain(**changed: Any) -> onnx.ModelProto:
    nodes = [helper.make_node("Add", ["x", "w"], ["y"], name="sum")]
    return model(nodes, {"x": SIZES}, ["y"], [constant("w", [1, 2, 3, 4])], **changed)


def outside(proto: onnx.ModelProto, location: str, **entries: str) -> onnx.ModelProto:
    """The constant's data in another file."""
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return proto


def custom() -> onnx.ModelProto:
    proto = plain()
    proto.graph.node[0].domain = "com.example"
    return proto


def unknown() -> onnx.ModelProto:
    return model([helper.make_node("Det", ["x"], ["y"], name="det")], {"x": [1, 3, 3]}, ["y"])


def undefined() -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["z"], ["y"])], {"x": SIZES}, ["y"])


def too_large() -> onnx.ModelProto:
    proto = plain()
    proto.graph.initializer[0].dims[:] = [1 << 40]
    return proto


def shorter() -> onnx.ModelProto:
    proto = plain()
    proto.graph.initializer[0].dims[:] = [5]
    return proto


def bomb() -> onnx.ModelProto:
    nodes = [helper.make_node("Expand", ["x", "s"], ["y"], name="bomb")]
    return model(nodes, {"x": [1, 1]}, ["y"], [constant("s", [1 << 20, 1 << 20], np.int64)])


def open_sizes() -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["batch", 3, "side", None]}, ["y"])


def loops() -> onnx.ModelProto:
    body = helper.make_graph([], "body", [], [])
    return model([helper.make_node("Loop", ["x"], ["y"], name="loop", body=body)], {"x": SIZES}, ["y"])


def mismatched() -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    return model(nodes, {"x": SIZES}, ["y"], [constant("w", np.ones((3, 2)))])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (custom, "node 'sum' (Add) of model.onnx: it is com.example.Add, expected standard ONNX operators"),
        (unknown, "node 'det' (Det) of model.onnx: Det is not among the"),
        (undefined, "'z' is read but never defined"),
        (too_large, "constant 'w': it asks for a tensor of shape [1099511627776], expected at most"),
        (shorter, "constant 'w' is damaged"),
        (bomb, "node 'bomb' (Expand) of model.onnx: it asks for a tensor of shape [1048576, 1048576]"),
        (open_sizes, "input 'x' has the shape [batch,3,side,?], expected numbers; give them with --shape x=1,..."),
        (loops, "node 'loop' (Loop) of model.onnx: Loop is not among the"),
        (mismatched, "node 'product' (MatMul) of model.onnx: inputs of shapes [[1, 4], [3, 2]] do not fit"),
        (lambda: plain(opset=8), "is of opset 8, expected 9 or newer"),
        (lambda: outside(plain(), "../secret"), "is in '../secret', expected a file in the model's folder"),
        (lambda: outside(plain(), "/etc/passwd"), "expected a file in the model's folder"),
        (lambda: outside(plain(), "link"), "is in 'link', expected a file in the model's folder"),
        (lambda: outside(plain(), "short.bin"), "needs 16 bytes from 0 on of short.bin, which has 8"),
        (lambda: outside(plain(), "short.bin", offset="-4"), "needs 16 bytes from -4 on"),
        (lambda: outside(plain(), "short.bin", length="x"), "offset and length of its data are not numbers"),
    ],
)
def test_one_sentence(make: Callable[[], onnx.ModelProto], words: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(16))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "short.bin").write_bytes(bytes(8))
    with pytest.raises(CortadoError) as found:
        load_onnx(saved(make(), folder))
    assert words in str(found.value)
    assert "\n" not in str(found.value)


def test_damaged_bytes(tmp_path: Path) -> None:
    whole = plain().SerializeToString()
    path = tmp_path / "model.onnx"
    for end in range(0, len(whole), 3):
        path.write_bytes(whole[:end])
        with pytest.raises(CortadoError):
            load_onnx(path)


def test_mutated_bytes_end_in_a_model_or_a_sentence(tmp_path: Path) -> None:
    whole, rng = plain().SerializeToString(), np.random.default_rng(0)
    path = tmp_path / "model.onnx"
    for _ in range(400):
        changed = bytearray(whole)
        for at in rng.integers(0, len(whole), 3):
            changed[at] = rng.integers(256)
        path.write_bytes(bytes(changed))
        try:
            load_onnx(path)
        except CortadoError:
            continue


def test_external_data_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"...." + np.array([1, 2, 3, 4], dtype=np.float32).tobytes())
    found = load_onnx(saved(outside(plain(), "weights.bin", offset="4"), tmp_path))
    assert (found(found.example_inputs[0]) - found.example_inputs[0]).tolist() == [[1, 2, 3, 4]]


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("x", "expected the name of an input and its shape, as in image=1,3,96,96"),
        ("x=1,0,4,4", "expected the name of an input"),
        ("y=1,3,4,4", "has no input 'y'; its inputs are x"),
        ("x=1,4,4,4", "has the shape [batch,3,side,?], but [1, 4, 4, 4] was given"),
    ],
)
def test_wrong_shapes_on_the_command_line(run: Run, tmp_path: Path, shape: str, words: str) -> None:
    path = saved(open_sizes(), tmp_path)
    done = run("compile", path, "--shape", shape, "--calibration", "random", "-o", tmp_path / "out")
    assert done.code == 2
    assert words in done.err
    assert not (tmp_path / "out").exists()
