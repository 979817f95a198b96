"""Reads untrusted .onnx files: sizes, paths and types are validated before use.

Bounds on what an untrusted file makes this machine compute: shapes are inferred before memory is allocated.

`Bounded` intercepts every call of torch while a file is read, whichever node or builder makes it. It first infers the
shapes of the results on meta tensors, and refuses those that are too large. Only results that depend on no input of the
model are then computed.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from cortado.base.errors import CortadoError
from cortado.onnx.elementwise import TYPES, real
from cortado.onnx.node import ML

Tensor = torch.Tensor

# ---- bounds on what a file makes this machine compute -----------------------------------------------

MOST_ELEMENTS = 1 << 26
"""Elements of one tensor: more do not fit any microcontroller."""
MOST_CONSTANT_BYTES = 1 << 29
"""Bytes of all constants together: those in the file, and those that its nodes compute."""


class ConstantBudget:
    """The bytes that constants may still take; `where` names what requests them, for messages."""

    def __init__(self, where: str) -> None:
        self.where, self.left = where, MOST_CONSTANT_BYTES

    def check(self, sizes: Sequence[int]) -> None:
        """Refuses a tensor that is too large."""
        if any(size < 0 for size in sizes) or math.prod(sizes) > MOST_ELEMENTS:
            raise CortadoError(
                f"{self.where}: it asks for a tensor of shape {list(sizes)}, expected at most {MOST_ELEMENTS:,} "
                "elements"
            )

    def take(self, sizes: Sequence[int], dtype: torch.dtype) -> None:
        """Refuses a constant that is too large, or that exceeds the total for all constants."""
        self.check(sizes)
        self.left -= math.prod(sizes) * dtype.itemsize
        if self.left < 0:
            raise CortadoError(
                f"{self.where}: with its tensor of shape {list(sizes)} the constants of the file, given and computed, "
                f"take more than {MOST_CONSTANT_BYTES:,} bytes, expected less; export a smaller model"
            )


def without_data(value: Tensor) -> Tensor:
    """Returns a meta tensor with the same shape, strides and dtype."""
    if value.is_meta:
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")


class Bounded(TorchDispatchMode):
    """A mode in which no call of torch allocates a tensor that exceeds the budget.

    A call with a meta operand returns meta results; every other call is computed.
    """

    def __init__(self, budget: ConstantBudget) -> None:
        super().__init__()
        self.budget = budget
        self._found: dict[Any, Any] = {}  # meta results, by call and operands: inferring them is slow

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named: Mapping[str, Any] = kwargs or {}
        if not _makes_tensors(call):
            return call(*args, **named)
        found = self._shapes(call, args, named)
        if any(one.is_meta for one in _tensors((args, tuple(named.values())))):
            for one in _tensors(found):
                self.budget.check(one.shape)
            return found
        for one in _tensors(found):
            self.budget.take(one.shape, one.dtype)
        return call(*args, **named)

    def _shapes(self, call: Any, args: Any, named: Mapping[str, Any]) -> Any:
        key: Any = (call, _key(args), _key(tuple(named.items())))
        try:
            if key in self._found:
                return self._found[key]
        except TypeError:  # an operand that can't be hashed
            key = None
        inner, inner_named = tree_map_only(Tensor, without_data, (args, dict(named)))
        if _takes_device(call):
            inner_named["device"] = "meta"
        found = call(*inner, **inner_named)
        if key is not None:
            self._found[key] = found
        return found


@cache
def _makes_tensors(call: Any) -> bool:
    """Returns whether a call allocates tensors: views and in-place writes don't, nor do calls that return numbers."""
    returns = call._schema.returns
    return all(one.alias_info is None for one in returns) and any("Tensor" in str(one.type) for one in returns)


@cache
def _takes_device(call: Any) -> bool:
    return any(one.name == "device" for one in call._schema.arguments)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _tensors(one)


def _key(value: Any) -> Any:
    """Returns the properties of an operand that determine the shapes of results."""
    if isinstance(value, Tensor):
        return (value.shape, value.stride(), value.dtype)
    if isinstance(value, tuple | list):
        return tuple(map(_key, value))
    return (type(value), value)


# ---- files ----------------------------------------------------------------------------------------------

OLDEST_OPSET = 9
MOST_BYTES = 1 << 31  # protobuf's own limit
MOST_NODES = 100_000
_DOMAINS = ("", "ai.onnx")
_EXTERNAL = 1  # TensorProto.EXTERNAL


@dataclass(frozen=True)
class Raw:
    """A node as in the file; `graphs` are the graphs among its attributes."""

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    domain: str = ""
    graphs: Mapping[str, "Graph"] = field(default_factory=dict)


@dataclass(frozen=True)
class Input:
    """An input of the model; a size that the file leaves open is None, or its symbolic name."""

    name: str
    dtype: torch.dtype
    sizes: tuple[int | str | None, ...]


@dataclass(frozen=True)
class Graph:
    """Constants, and nodes in topological order."""

    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Tensor]
    nodes: tuple[Raw, ...]


@dataclass(frozen=True)
class OnnxFile:
    """The graph of a file, the opsets of its domains, and what remains of the budget for constants."""

    path: Path
    opsets: Mapping[str, int]
    graph: Graph
    budget: ConstantBudget


def read(path: Path) -> OnnxFile:
    if "\0" in str(path) or not path.is_file():
        raise CortadoError(f"there is no file {path}")
    if path.stat().st_size > MOST_BYTES:
        raise CortadoError(f"{path} has {path.stat().st_size:,} bytes, expected at most {MOST_BYTES:,}")
    proto = _parsed(path)
    count = sum(1 for _ in _all_nodes(proto.graph))
    if not 0 < count <= MOST_NODES:
        raise CortadoError(f"{path} has {count:,} nodes, expected 1 to {MOST_NODES:,}")
    if proto.functions:
        raise CortadoError(f"{path} has functions of its own, expected none; simplify the model")
    opsets, budget = _opsets(path, proto), ConstantBudget(str(path))
    graph = _graph(path, proto.graph, budget)
    problem = next(_misnamed(graph, set()), None)
    if problem is not None:
        raise CortadoError(f"{path}: {problem}; export the model again")
    return OnnxFile(path, opsets, graph, budget)


def _graph(path: Path, proto: Any, budget: ConstantBudget) -> Graph:
    if not all(isinstance(name, str) for name in _names(proto)):
        raise CortadoError(f"{path} is not a readable ONNX model (a name is not text); export it again")
    if proto.sparse_initializer:
        raise CortadoError(f"{path} has sparse constants, expected none; simplify the model")
    constants = {one.name: tensor(path, one, budget) for one in proto.initializer}
    if len(constants) < len(proto.initializer):
        raise CortadoError(f"{path} has two constants with the same name, expected one; export the model again")
    inputs = tuple(_input(path, one) for one in proto.input if one.name not in constants)
    nodes = tuple(_node(path, number, node, budget) for number, node in enumerate(proto.node))
    return Graph(inputs, tuple(one.name for one in proto.output), constants, nodes)


def _all_nodes(graph: Any) -> Iterator[Any]:
    """Yields all nodes, including those of nested graphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from _all_nodes(attribute.g) if attribute.HasField("g") else ()


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
    if not proto.opset_import or not proto.graph.output:
        raise CortadoError(f"{path} is not a readable ONNX model (no graph in it); export it again")
    return proto


def _names(graph: Any) -> Iterator[Any]:
    """Yields all names in a graph. protobuf returns a name that is not valid text as bytes."""
    for one in (*graph.initializer, *graph.input, *graph.output):
        yield one.name
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def _opsets(path: Path, proto: Any) -> dict[str, int]:
    """Returns the opset version of each domain; that of ONNX itself is ''."""
    found = {ML: 1, "com.microsoft": 1, "": 0}
    for one in proto.opset_import:
        domain = "" if one.domain in _DOMAINS else one.domain
        found[domain] = max(found.get(domain, 0), int(one.version))
    if found[""] < OLDEST_OPSET:
        raise CortadoError(
            f"{path} is of opset {found['']}, expected {OLDEST_OPSET} or newer; convert it with "
            "onnx.version_converter, or export the model again"
        )
    return found


def _input(path: Path, proto: Any) -> Input:
    kind = proto.type.tensor_type
    if not proto.type.HasField("tensor_type") or kind.elem_type not in TYPES:
        raise CortadoError(f"{path}: input '{proto.name}' is not a tensor of numbers, expected one")
    sizes = tuple(
        int(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value > 0 else dim.dim_param or None
        for dim in kind.shape.dim
    )
    return Input(proto.name, real(TYPES[kind.elem_type]), sizes)


def _node(path: Path, number: int, proto: Any, budget: ConstantBudget) -> Raw:
    name = proto.name or f"{proto.op_type}_{number}"
    attributes = {one.name: _attribute(path, name, one, budget) for one in proto.attribute}
    return Raw(
        kind=proto.op_type,
        name=name,
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        attributes=attributes,
        domain="" if proto.domain in _DOMAINS else proto.domain,
        graphs={name: one for name, one in attributes.items() if isinstance(one, Graph)},
    )


def _attribute(path: Path, node: str, proto: Any, budget: ConstantBudget) -> Any:
    """Returns a number, a text, a tensor, a graph, or a list of the first two; anything else becomes an object that no
    builder accepts."""
    import onnx

    kinds = onnx.AttributeProto
    if proto.type == kinds.TENSOR:
        return tensor(path, proto.t, budget)
    if proto.type == kinds.GRAPH:
        return _graph(path, proto.g, budget)
    if proto.type in (kinds.FLOAT, kinds.INT, kinds.STRING, kinds.FLOATS, kinds.INTS, kinds.STRINGS):
        value = onnx.helper.get_attribute_value(proto)
        return list(value) if proto.type in (kinds.FLOATS, kinds.INTS, kinds.STRINGS) else value
    return _Unknown(f"attribute '{proto.name}' of node '{node}'")


@dataclass(frozen=True)
class _Unknown:
    """An attribute of any other kind."""

    what: str


# ---- tensors -------------------------------------------------------------------------------------------------------


def tensor(path: Path, proto: Any, budget: ConstantBudget) -> Tensor:
    """Reads a constant, checking its declared size against the bytes present."""
    import onnx
    from onnx import numpy_helper

    where = f"{path}: constant '{proto.name}'"
    sizes = tuple(int(size) for size in proto.dims)
    if proto.data_type not in TYPES:
        kind = onnx.TensorProto.DataType.Name(proto.data_type) if proto.data_type in _known_types() else proto.data_type
        raise CortadoError(f"{where} is of type {kind}, expected a float, an integer or a boolean")
    budget.where = where
    budget.take(sizes, real(TYPES[proto.data_type]))
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
    """Reads data from another file, which must be in the model's folder."""
    import onnx

    entries = {one.key: one.value for one in proto.external_data}
    folder = path.parent.resolve()
    location = entries.get("location", "")
    try:
        place = (folder / location).resolve()
        inside = place.is_relative_to(folder) and place.is_file()
    except (OSError, ValueError):  # too long a name, or one with a NUL
        inside = False
    if not inside:
        raise CortadoError(f"{where} is in {location[:80]!r}, expected a file in the model's folder")
    kind = onnx.helper.tensor_dtype_to_np_dtype(proto.data_type)
    count = math.prod(sizes)
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", str(count * kind.itemsize)))
    except ValueError as error:
        raise CortadoError(f"{where}: offset and length of its data are not numbers") from error
    if offset < 0 or length != count * kind.itemsize or offset + length > place.stat().st_size:
        raise CortadoError(
            f"{where} needs {count * kind.itemsize:,} bytes from {offset:,} on of {place.name}, which has "
            f"{place.stat().st_size:,}"
        )
    with place.open("rb") as file:
        file.seek(offset)
        return np.frombuffer(file.read(length), dtype=kind).reshape(sizes)


def _as_torch(array: np.ndarray[Any, np.dtype[Any]]) -> Tensor:
    if array.dtype.kind in "fV":  # V: bfloat16, which numpy lacks
        return torch.from_numpy(array.astype(np.float32))
    return torch.from_numpy(array.copy())


def _misnamed(graph: Graph, known: set[str]) -> Iterator[str]:
    """Yields the names that are read before they are defined, and those defined twice. `known` is restored at the
    end."""
    own: set[str] = set()
    added: list[str] = []

    def defined(name: str) -> Iterator[str]:
        if name in own:
            yield f"'{name}' is defined twice"
        own.add(name)
        if name not in known:
            known.add(name)
            added.append(name)

    for name in ("", *graph.constants, *(one.name for one in graph.inputs)):
        yield from defined(name)
    for node in graph.nodes:
        yield from (f"'{name}' is read but never defined" for name in node.inputs if name not in known)
        for inner in node.graphs.values():
            yield from _misnamed(inner, known)
        if not any(node.outputs):
            yield f"node '{node.name[:80]}' ({node.kind}) has no outputs"
        for name in filter(None, node.outputs):
            yield from defined(name)
    yield from (f"'{name}' is read but never defined" for name in graph.outputs if name not in known)
    known.difference_update(added)
