"""The lowered graph as plain data, its file format, and the exact integer reference that runs it.

Its identity is a hash of what it computes, independent of layer names and of the machine that compiled it. For each
tensor it also has the ends of the range: a code there can represent any value beyond it.
"""

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.fx import Node

from cortado.base.arrays import stored_headers
from cortado.base.element import Element, element_of
from cortado.base.errors import CortadoError
from cortado.base.names import ID_DIGITS, is_node_name, printable
from cortado.base.numerics import QParams
from cortado.ir.facts import FRAMES, STATE, TWIN, VALUE, element, qparams
from cortado.ir.graph import constant_names, module_path, outputs, part_index, shape, user_inputs
from cortado.ir.op import Call, Operator, operator_of, registry
from cortado.ir.portable import arguments_of, call_name, is_float_call, run_float, stays_in_float
from cortado.ops.elementwise.activation import PLUS_MINUS_ONE, UNIT_INTERVAL, WIDE_UNIT

# ---- lowered ---------------------------------------------------------------------------------------------

Tensor = torch.Tensor


@dataclass(frozen=True)
class Ref:
    """A tensor argument: the name of a constant, an input or an earlier call."""

    name: str


@dataclass(frozen=True)
class Value:
    """Facts about a tensor, without its data."""

    shape: tuple[int, ...]
    element: Element
    qparams: QParams | None = None

    @property
    def dtype(self) -> torch.dtype:
        return self.element.torch_dtype

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.element.bytes


@dataclass(frozen=True)
class LoweredCall:
    """A call of an operator, or of aten in float; `module` is its origin in the user's model.

    `twin` is the node of the float graph (convert.FloatModel) with the same values, in any layout. A call with several
    results has a name for each, "" for one that nothing reads; the call itself is named after the first that is read.
    """

    name: str
    operator: str
    arguments: Mapping[str, Any]
    module: str = ""
    twin: str = ""
    results: tuple[str, ...] = ()
    frames: int = 0  # its tensors are this many equal parts, and it runs once for each; 0: at once, or by its own rows

    @property
    def read(self) -> tuple[str, ...]:
        """The names of the results that are read; the only result is always included."""
        return tuple(name for name in self.results if name) or (self.name,)

    def refs(self, *names: str) -> list[str]:
        """Returns the names of the tensors in these arguments, lists flattened."""
        found: list[str] = []
        for name in names:
            value = self.arguments[name]
            found += [item.name for item in (value if isinstance(value, list) else [value]) if isinstance(item, Ref)]
        return found


@dataclass(frozen=True)
class State:
    """A buffer of the model that persists from one run of the graph to the next."""

    buffer: str  # its name in the model
    name: str  # the value that a run reads
    source: str  # the value that replaces it after the run
    initial: Tensor  # what the first run reads


@dataclass(frozen=True)
class LoweredGraph:
    """Inputs, constants, calls in order, outputs: enough to run the exact reference or to build a bundle on any
    machine."""

    inputs: tuple[str, ...]
    constants: Mapping[str, Tensor]
    calls: tuple[LoweredCall, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, Value]  # of inputs, state and calls, except float calls with several results
    state: tuple[State, ...] = ()

    def __repr__(self) -> str:
        return f"<LoweredGraph of {len(self.calls)} calls, {len(self.constants)} constants>"

    @cached_property
    def leaving(self) -> frozenset[str]:
        """Values that are read after a run: outputs and new state."""
        return frozenset((*self.outputs, *(state.source for state in self.state)))

    @cached_property
    def by_name(self) -> dict[str, LoweredCall]:
        """Maps each value to the call that computes it."""
        return {name: call for call in self.calls for name in call.read}

    @cached_property
    def users(self) -> dict[str, list[LoweredCall]]:
        """Maps each input or call to its readers, the graph's outputs not included."""
        found: dict[str, list[LoweredCall]] = {}
        for call in self.calls:
            for name in dict.fromkeys(call.refs(*call.arguments)):
                found.setdefault(name, []).append(call)
        return found

    def up_to(self, names: Sequence[str]) -> "LoweredGraph":
        """Returns the subgraph that computes `names`, which are its outputs."""
        needed, calls = set(names), []
        for call in reversed(self.calls):
            if not needed.isdisjoint(call.read):
                needed.update(call.refs(*call.arguments))
                calls.append(call)
        return replace(self, calls=tuple(reversed(calls)), outputs=tuple(names))

    def bound(self, call: LoweredCall) -> Call:
        """Converts a call to `ir.op.Call`: constants as data, other tensors as shapes."""

        def value(ref: Ref) -> Any:
            return self.constants[ref.name] if ref.name in self.constants else self.values[ref.name].shape

        arguments = {name: _map(item, Ref, value) for name, item in call.arguments.items()}
        operator, own = registry().operators[call.operator], self.values[call.name]
        if not call.results:
            return Call(operator, arguments, own.shape, own.element, self._elements(call))
        named = zip(operator.results, call.results, strict=True)
        unread = frozenset(result for result, name in named if not name)
        found = Call(operator, arguments, (), own.element, self._elements(call), unread)
        return replace(found, out_shape=operator.shape(found))

    def _elements(self, call: LoweredCall) -> dict[str, Element]:
        """Returns the elements of a call's tensors, by argument."""
        first = {name: call.refs(name)[:1] for name in call.arguments}
        return {name: self.element(found[0]) for name, found in first.items() if found}

    def element(self, name: str) -> Element:
        known = self.values.get(name)
        return element_of(self.constants[name].dtype).unscaled if known is None else known.element


def lowered_graph(program: ExportedProgram) -> LoweredGraph:
    """Converts a lowered ExportedProgram to plain data."""
    entering, returned = user_inputs(program), outputs(program)
    lasting = [node for node in entering if STATE.known(node)]
    reader = _Reader(entering)
    for node in program.graph_module.graph.nodes:
        reader.read(node)
    given = len(returned) - len(lasting)
    return LoweredGraph(
        inputs=tuple(node.name for node in entering if node not in lasting),
        constants={name: program.state_dict[target] for name, target in constant_names(program).items()},
        calls=tuple(reader.calls),
        outputs=tuple(reader.name(node) for node in returned[:given]),
        values=reader.values,
        state=tuple(
            State(STATE.must(node).buffer, node.name, reader.name(source), STATE.must(node).initial)
            for node, source in zip(lasting, returned[given:], strict=True)
        ),
    )


class _Reader:
    """Collects the calls and values of a graph, node by node."""

    def __init__(self, entering: Sequence[Node]) -> None:
        self.calls: list[LoweredCall] = []
        self.values = {node.name: _value(node) for node in entering}
        self.twins = {name: name for name in self.values}
        self.renamed: dict[Node, str] = {}  # of several results, the first that is read has the call's name

    def name(self, node: Node) -> str:
        return self.renamed.get(node, node.name)

    def read(self, node: Node) -> None:
        operator = operator_of(node.target) if node.op == "call_function" else None
        if operator is not None and operator.extra_results:
            self._several(node, operator)
        elif operator is not None:
            moved = self.twins.get(self.name(node.all_input_nodes[0]), "") if operator.same_values else ""
            self._add(node, operator.name, node.kwargs, TWIN.of(node) or moved)
        elif stays_in_float(node):
            self._add(node, call_name(node), arguments_of(node), TWIN.of(node) or "")

    def _add(self, node: Node, name: str, given: Mapping[str, Any], twin: str) -> None:
        self.twins[node.name] = twin
        frames = FRAMES.of(node) or 0
        module = module_path(node) or ""
        self.calls.append(LoweredCall(node.name, name, self._arguments(given), module, twin, frames=frames))
        if isinstance(VALUE.must(node), Tensor):
            self.values[node.name] = _value(node)

    def _several(self, node: Node, operator: Operator) -> None:
        """Adds a call with several results together with the getitem nodes that take them."""
        taken = {part_index(part): part for part in node.users}
        parts = [taken.get(index) for index in range(len(operator.results))]
        first = next(part for part in parts if part is not None)
        self.renamed |= {part: node.name for part in node.users if part_index(part) == part_index(first)}
        for part in taken.values():
            self.twins[self.name(part)] = TWIN.of(part) or ""
            self.values[self.name(part)] = _value(part)
        self.calls.append(
            LoweredCall(
                name=node.name,
                operator=operator.name,
                arguments=self._arguments(node.kwargs),
                module=module_path(node) or "",
                twin=self.twins[node.name],
                results=tuple("" if part is None else self.name(part) for part in parts),
            )
        )

    def _arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _map(item, Node, lambda node: Ref(self.name(node))) for name, item in given.items()}


def _value(node: Node) -> Value:
    return Value(shape(node), element(node), qparams(node))


def _map(value: Any, kind: type, change: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_map(item, kind, change) for item in value]
    return change(value) if isinstance(value, kind) else value


def run_reference(
    graph: LoweredGraph, inputs: Sequence[Tensor], state: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """Computes every call's value exactly; a float call's is torch's (a tuple if it has several results).

    `state` is the state after the previous run (`after`); None stands for the initial values.
    """
    before = {one.name: one.initial for one in graph.state} if state is None else state
    given = {
        name: _as_read(value, graph.values[name].element) for name, value in zip(graph.inputs, inputs, strict=True)
    }
    values: dict[str, Any] = {**graph.constants, **before, **given}
    for call in graph.calls:
        values.update(reference_of(call, values))
    return values


def reference_of(call: LoweredCall, values: Mapping[str, Any]) -> dict[str, Any]:
    """Computes the results of one call, by name."""
    arguments = {name: _map(item, Ref, lambda r: values[r.name]) for name, item in call.arguments.items()}
    made = _made(call, arguments)
    return dict(zip(call.results, made, strict=True) if call.results else [(call.name, made)])


def _made(call: LoweredCall, arguments: Mapping[str, Any]) -> Any:
    if is_float_call(call.operator):
        return run_float(call.operator, arguments)
    return registry().operators[call.operator].reference(**arguments)


def _as_read(value: Tensor, element: Element) -> Tensor:
    """Converts an integer input to the dtype that the network reads: torch's are mostly 64-bit."""
    return value if value.is_floating_point() else value.to(element.torch_dtype)


def after(graph: LoweredGraph, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the state for the next run, from the values of the last."""
    return {one.name: values[one.source] for one in graph.state}


def reference_outputs(graph: LoweredGraph, inputs: Sequence[Tensor]) -> list[Tensor]:
    values = run_reference(graph, inputs)
    return [values[name] for name in graph.outputs]


# ---- the file ------------------------------------------------------------------------------------------------

CONSTANT = "constant."  # the prefix of constants' names


def _encode(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_encode(item) for item in value]
    if isinstance(value, Ref):
        return {"ref": value.name}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if isinstance(value, dict):
        return Ref(value["ref"]) if "ref" in value else _dtype(value["dtype"])
    return value


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise CortadoError(f"'{name}' is not a numeric type")
    return found


def npz_bytes(arrays: Mapping[str, np.ndarray[Any, np.dtype[Any]]]) -> bytes:
    """Builds an .npz file of arrays with any names; deterministic, without pickles."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as file:
                np.lib.format.write_array(file, np.asarray(array, order="C"), allow_pickle=False)
    return stream.getvalue()


def to_bytes(graph: LoweredGraph) -> bytes:
    """Serializes a graph as an .npz file: one JSON text and the constants; deterministic, without pickles."""
    calls = [
        {
            "name": call.name,
            "operator": call.operator,
            "arguments": {name: _encode(value) for name, value in call.arguments.items()},
            "module": call.module,
            "twin": call.twin,
            **({"results": call.results} if call.results else {}),
            **({"frames": call.frames} if call.frames else {}),
        }
        for call in graph.calls
    ]
    values = {
        name: {
            "shape": value.shape,
            "dtype": value.element.name,
            "qparams": [value.qparams.scale, value.qparams.zero_point] if value.qparams else None,
        }
        for name, value in graph.values.items()
    }
    record = {"version": 1, "inputs": graph.inputs, "calls": calls, "outputs": graph.outputs, "values": values}
    arrays = {f"{CONSTANT}{name}": data.numpy() for name, data in graph.constants.items()}
    if graph.state:
        record["state"] = [{"buffer": one.buffer, "name": one.name, "source": one.source} for one in graph.state]
        arrays |= {f"state.{one.name}": one.initial.numpy() for one in graph.state}
    return npz_bytes({"graph": np.frombuffer(json.dumps(record).encode(), dtype=np.uint8), **arrays})


def _stored_value(sizes: tuple[int, ...], kind: Element, numbers: Sequence[Any] | None) -> Value:
    if numbers is None:
        return Value(sizes, kind.unscaled)
    scale, zero_point = numbers
    return Value(sizes, kind, QParams(scale, zero_point, kind))


def from_bytes(data: bytes) -> LoweredGraph:
    try:
        stream = io.BytesIO(data)
        stored_headers(stream)
        with np.load(stream, allow_pickle=False) as file:
            record = json.loads(file["graph"].tobytes())
            arrays = {key: torch.from_numpy(file[key]) for key in file.files if key != "graph"}
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise CortadoError(f"the reference file can't be read ({error}); compile the model again") from error
    calls = [
        LoweredCall(
            name=call["name"],
            operator=call["operator"],
            arguments={name: _decode(value) for name, value in call["arguments"].items()},
            module=printable(call["module"]),
            twin=call.get("twin", ""),
            results=tuple(call.get("results", ())),
            frames=int(call.get("frames", 0)),
        )
        for call in record["calls"]
    ]
    values = {
        name: _stored_value(tuple(value["shape"]), element_of(_dtype(value["dtype"])), value["qparams"])
        for name, value in record["values"].items()
    }
    state = [
        State(printable(one["buffer"]), one["name"], one["source"], arrays[f"state.{one['name']}"])
        for one in record.get("state", ())
    ]
    constants = {name.removeprefix(CONSTANT): data for name, data in arrays.items() if name.startswith(CONSTANT)}
    named = (*record["inputs"], *(one.name for one in state), *(name for call in calls for name in call.read))
    strange = [name for name in named if not is_node_name(name)]
    if strange:
        raise CortadoError(f"{strange[0]!r} can't name a node")
    return LoweredGraph(
        tuple(record["inputs"]), constants, tuple(calls), tuple(record["outputs"]), values, tuple(state)
    )


# ---- identity --------------------------------------------------------------------------------------------


def model_id(graph: LoweredGraph) -> str:
    """Returns sixteen hexadecimal digits, a hash of calls, constants, scales and shapes; names are ignored."""
    found = hashlib.sha256()
    names = _Numbers()
    text = {
        "inputs": [[names.of(name), _hashed_value(graph.values[name])] for name in graph.inputs],
        "state": [
            [names.of(one.name), _hashed_value(graph.values[one.name]), _data(one.initial)] for one in graph.state
        ],
        "calls": [
            [
                call.operator,
                {name: _argument(value, graph, names) for name, value in sorted(call.arguments.items())},
                [names.of(name) if name else None for name in call.results or (call.name,)],
                [_hashed_value(graph.values[name]) for name in call.read if name in graph.values],
            ]
            for call in graph.calls
        ],
        "outputs": [names.of(name) for name in graph.outputs],
        "kept": [names.of(one.source) for one in graph.state],
    }
    found.update(json.dumps(text, sort_keys=True).encode())
    return found.hexdigest()[:ID_DIGITS]


class _Numbers:
    """Numbers for values, in the order of their first mention."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def of(self, name: str) -> int:
        return self.known.setdefault(name, len(self.known))


def _hashed_value(value: Value) -> list[Any]:
    codes = None if value.qparams is None else [value.qparams.scale, value.qparams.zero_point]
    return [list(value.shape), value.element.name, codes]


def _data(tensor: torch.Tensor) -> list[Any]:
    data = tensor.detach().contiguous().numpy()
    return [str(data.dtype), list(data.shape), hashlib.sha256(data.tobytes()).hexdigest()]


def _argument(value: Any, graph: LoweredGraph, names: _Numbers) -> Any:
    if isinstance(value, list | tuple):
        return [_argument(item, graph, names) for item in value]
    if isinstance(value, Ref):
        return _data(graph.constants[value.name]) if value.name in graph.constants else {"value": names.of(value.name)}
    return value if isinstance(value, int | float | str | None) else str(value)


# ---- ends ------------------------------------------------------------------------------------------------

WHOLE = frozenset([UNIT_INTERVAL, PLUS_MINUS_ONE, WIDE_UNIT])  # of sigmoid, softmax and tanh, which can't exceed them


@dataclass(frozen=True)
class Ends:
    """The codes at the ends of a range. The zeros of a tensor without negative values are not counted, as a relu makes
    them."""

    element: Element
    low: int | None
    high: int

    def count(self, codes: torch.Tensor) -> int:
        low = 0 if self.low is None else int((codes == self.low).sum())
        return low + int((codes == self.high).sum())


def ends_of(qparams: QParams | None) -> Ends | None:
    """Returns the ends of a tensor's range; None if it has no range, or one that no value can exceed."""
    if qparams is None or qparams in WHOLE:
        return None
    low, high = qparams.element.codes
    return Ends(qparams.element, low if qparams.zero_point > low else None, high)


def chosen_ends(graph: LoweredGraph) -> dict[str, Ends]:
    """Returns the ends of the tensors whose range was chosen; calls that only move values are excluded, to count each
    value once."""
    moved = {name for call in graph.calls if _moves(call.operator) for name in call.read}
    found = {name: ends_of(value.qparams) for name, value in graph.values.items() if name not in moved}
    return {name: ends for name, ends in found.items() if ends is not None}


def _moves(operator: str) -> bool:
    record = registry().operators.get(operator)
    return record is not None and (record.view or record.same_values)
