"""Reading .onnx files of anybody: sizes, paths and types are checked before anything is believed."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cortado.base.errors import CortadoError
from cortado.onnx.elementwise import TYPES, real
from cortado.onnx.node import MOST_ELEMENTS

Tensor = torch.Tensor
OLDEST_OPSET = 9
MOST_BYTES = 1 << 31  # protobuf's own limit
MOST_NODES = 100_000
_DOMAINS = ("", "ai.onnx")
_EXTERNAL = 1  # TensorProto.EXTERNAL


@dataclass(frozen=True)
class Raw:
    """A node as the file has it."""

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Input:
    """An input of the model; a size that the file leaves open is None, or the name that it has there."""

    name: str
    dtype: torch.dtype
    sizes: tuple[int | str | None, ...]


@dataclass(frozen=True)
class OnnxFile:
    """The graph of a file, with its constants."""

    path: Path
    opset: int
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Tensor]
    nodes: tuple[Raw, ...]


def read(path: Path) -> OnnxFile:
    if not path.is_file():
        raise CortadoError(f"there is no file {path}")
    if path.stat().st_size > MOST_BYTES:
        raise CortadoError(f"{path} has {path.stat().st_size:,} bytes, expected at most {MOST_BYTES:,}")
    proto = _parsed(path)
    opset = _opset(path, proto)
    graph = proto.graph
    if len(graph.node) > MOST_NODES or not graph.node:
        raise CortadoError(f"{path} has {len(graph.node):,} nodes, expected 1 to {MOST_NODES:,}")
    constants = {one.name: tensor(path, one) for one in graph.initializer}
    if graph.sparse_initializer or proto.functions:
        raise CortadoError(f"{path} has sparse constants or functions of its own, expected neither; simplify the model")
    inputs = tuple(_input(path, one) for one in graph.input if one.name not in constants)
    nodes = tuple(_node(path, number, node) for number, node in enumerate(graph.node))
    return OnnxFile(path, opset, inputs, tuple(one.name for one in graph.output), constants, nodes)


def _parsed(path: Path) -> Any:
    try:
        import onnx
    except ImportError as error:
        raise CortadoError(
            "reading .onnx files needs the onnx package, which is not installed; pip install 'cortado[onnx]'"
        ) from error
    try:
        proto = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # what protobuf raises of damaged bytes has no common class
        raise CortadoError(f"{path} is not a readable ONNX model ({type(error).__name__}); export it again") from error
    if (
        not proto.opset_import
        or not proto.graph.output
        or not all(isinstance(name, str) for name in _names(proto.graph))
    ):
        raise CortadoError(f"{path} is not a readable ONNX model (no graph in it); export it again")
    return proto


def _names(graph: Any) -> Iterator[Any]:
    """All names in a graph. protobuf gives one that is no text as bytes."""
    for one in (*graph.initializer, *graph.input, *graph.output):
        yield one.name
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def _opset(path: Path, proto: Any) -> int:
    found = [int(one.version) for one in proto.opset_import if one.domain in _DOMAINS]
    if not found or max(found) < OLDEST_OPSET:
        raise CortadoError(
            f"{path} is of opset {max(found, default=0)}, expected {OLDEST_OPSET} or newer; convert it with "
            "onnx.version_converter, or export the model again"
        )
    return max(found)


def _input(path: Path, proto: Any) -> Input:
    kind = proto.type.tensor_type
    if not proto.type.HasField("tensor_type") or kind.elem_type not in TYPES:
        raise CortadoError(f"{path}: input '{proto.name}' is no tensor of numbers, expected one")
    sizes = tuple(
        int(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value > 0 else dim.dim_param or None
        for dim in kind.shape.dim
    )
    return Input(proto.name, real(TYPES[kind.elem_type]), sizes)


def _node(path: Path, number: int, proto: Any) -> Raw:
    name = proto.name or f"{proto.op_type}_{number}"
    if proto.domain not in _DOMAINS:
        raise CortadoError(
            f"{path}: node '{name}' is {proto.domain}.{proto.op_type}, expected operators of ONNX itself; export the "
            "model without operators of a runtime's own (no graph optimizations before saving)"
        )
    attributes = {one.name: _attribute(path, name, one) for one in proto.attribute}
    return Raw(proto.op_type, name, tuple(proto.input), tuple(proto.output), attributes)


def _attribute(path: Path, node: str, proto: Any) -> Any:
    """A number, a text, a tensor, or a list of these; a graph as its class, which no builder takes."""
    import onnx

    kinds = onnx.AttributeProto
    if proto.type == kinds.TENSOR:
        return tensor(path, proto.t)
    if proto.type in (kinds.FLOAT, kinds.INT, kinds.STRING, kinds.FLOATS, kinds.INTS, kinds.STRINGS):
        value = onnx.helper.get_attribute_value(proto)
        return list(value) if proto.type in (kinds.FLOATS, kinds.INTS, kinds.STRINGS) else value
    return _Unknown(f"attribute '{proto.name}' of node '{node}'")


@dataclass(frozen=True)
class _Unknown:
    """Something that is no number, text or tensor."""

    what: str


# ---- tensors -------------------------------------------------------------------------------------------------------


def tensor(path: Path, proto: Any) -> Tensor:
    """A constant of the file; what it claims to be is compared with the bytes that there are."""
    import onnx
    from onnx import numpy_helper

    where = f"{path}: constant '{proto.name}'"
    sizes = tuple(int(size) for size in proto.dims)
    if any(size < 0 for size in sizes) or math.prod(sizes) > MOST_ELEMENTS:
        raise CortadoError(f"{where} has shape {list(sizes)}, expected at most {MOST_ELEMENTS:,} elements")
    if proto.data_type not in TYPES:
        kind = onnx.TensorProto.DataType.Name(proto.data_type) if proto.data_type in _known_types() else proto.data_type
        raise CortadoError(f"{where} is of type {kind}, expected a float, an integer or a boolean")
    if proto.data_location == _EXTERNAL:
        array = _external(path, proto, sizes, where)
    else:
        try:
            array = numpy_helper.to_array(proto)
        except (ValueError, TypeError) as error:
            raise CortadoError(f"{where} is damaged ({' '.join(str(error).split())})") from error
    if array.shape != sizes:
        raise CortadoError(f"{where} holds {array.shape}, expected {list(sizes)}")
    return _as_torch(array)


def _known_types() -> set[int]:
    import onnx

    return {int(number) for number in onnx.TensorProto.DataType.values()}


def _external(path: Path, proto: Any, sizes: tuple[int, ...], where: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Data in another file: one beside the model, named without a way out of its folder."""
    import onnx

    entries = {one.key: one.value for one in proto.external_data}
    folder = path.parent.resolve()
    place = (folder / entries.get("location", "")).resolve()
    if not place.is_relative_to(folder) or not place.is_file():
        raise CortadoError(f"{where} is in '{entries.get('location', '')}', expected a file in the model's folder")
    kind = onnx.helper.tensor_dtype_to_np_dtype(proto.data_type)
    count = math.prod(sizes)
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", str(count * kind.itemsize)))
    except ValueError as error:
        raise CortadoError(f"{where}: offset and length of its data are no numbers") from error
    if offset < 0 or length != count * kind.itemsize or offset + length > place.stat().st_size:
        raise CortadoError(
            f"{where} needs {count * kind.itemsize:,} bytes from {offset:,} on of {place.name}, which has "
            f"{place.stat().st_size:,}"
        )
    with place.open("rb") as file:
        file.seek(offset)
        return np.frombuffer(file.read(length), dtype=kind).reshape(sizes)


def _as_torch(array: np.ndarray[Any, np.dtype[Any]]) -> Tensor:
    if array.dtype.kind == "f":
        return torch.from_numpy(array.astype(np.float32))
    return torch.from_numpy(array.copy())


def undefined(file: OnnxFile) -> Iterator[str]:
    """Names that nodes read before anything defines them."""
    known = {one.name for one in file.inputs} | set(file.constants) | {""}
    for node in file.nodes:
        yield from (name for name in node.inputs if name not in known)
        known.update(node.outputs)
    yield from (name for name in file.outputs if name not in known)
