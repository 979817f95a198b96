"""ONNX files for the tests: written by hand, exported from torch, and the official cases of every operator."""

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]
FLOAT = TensorProto.FLOAT


def constant(name: str, value: Any, dtype: Any = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype=dtype), name)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str | None]],
    outputs: Sequence[str],
    constants: Sequence[onnx.TensorProto] = (),
    opset: int = 17,
    kind: int = FLOAT,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, kind, list(sizes)) for name, sizes in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        list(constants),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def saved(proto: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def exported(module: torch.nn.Module, inputs: Sequence[torch.Tensor], path: Path, **options: Any) -> Path:
    """A module as torch itself writes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter without onnxscript is called legacy
        torch.onnx.export(module.eval(), tuple(inputs), str(path), dynamo=False, **options)
    return path


def by_onnxruntime(path: Path, inputs: Sequence[torch.Tensor]) -> list[Array]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    return [np.asarray(one) for one in session.run(None, dict(zip(names, map(_array, inputs), strict=True)))]


def _array(value: torch.Tensor) -> Array:
    return value.detach().numpy()


# ---- the official cases ------------------------------------------------------------------------------------------

_TYPES = {1, 2, 3, 6, 7, 9, 10, 11}  # floats, integers, booleans
_OLDEST = 9


@cache
def official_cases() -> dict[str, list[Any]]:
    """The cases of ONNX's own test-suite that are one node on numbers, by operator."""
    from onnx.backend.test.case.node import collect_testcases

    found: dict[str, list[Any]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        assert case.model is not None
        graph = case.model.graph
        types = {one.type.tensor_type.elem_type for one in (*graph.input, *graph.output)}
        if len(graph.node) == 1 and types <= _TYPES:
            found.setdefault(graph.node[0].op_type, []).append(case)
    return found


def with_one_input(case: Any, folder: Path) -> tuple[Path, Array, list[Array]]:
    """A case whose inputs but for the first are constants of the file; that input, and the right outputs."""
    (given, outputs), *_ = case.data_sets
    arrays = [_as_array(one) for one in given]
    proto = onnx.ModelProto()
    proto.CopyFrom(case.model)
    proto.opset_import[0].version = max(proto.opset_import[0].version, _OLDEST)  # it means the same since then
    if proto.graph.node[0].op_type == "LayerNormalization":  # its statistics are refused
        del proto.graph.output[1:]
    names = [one.name for one in proto.graph.input]
    del proto.graph.input[1:]
    for name, value in zip(names[1:], arrays[1:], strict=True):
        proto.graph.initializer.append(numpy_helper.from_array(value, name))
    return saved(proto, folder), arrays[0], [_as_array(one) for one in outputs]


def _as_array(value: Any) -> Array:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
