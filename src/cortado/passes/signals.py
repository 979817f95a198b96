"""signals-as-rows: turns a signal, whose time is the last dimension, from an image of one row into one of one
column."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from cortado.ir.facts import FRAMES, QPARAMS, STATE, TWIN, VALUE
from cortado.ir.frames import Sizes
from cortado.ir.graph import (
    add_constant,
    constant_value,
    fake_mode_of,
    outputs,
    remove_unused_constants,
    shape,
    sole_user,
    user_inputs,
)
from cortado.ir.op import Call, operator_of, quantizes, result_elements
from cortado.ops.move.reshape import TRANSPOSE, VIEW
from cortado.ops.pool.float32 import FLOAT_REDUCE
from cortado.ops.signal.spectrum import SPECTRUM
from cortado.passes.base import LoweredPass, PassContext
from cortado.passes.lower import add_operator_call
from cortado.passes.move_transposes import merge_views
from cortado.passes.orders import is_a, sizes_of

_SWAPPED = frozenset({"stride", "padding", "dilation", "kernel_size"})  # (height, width) becomes (width, height)
_WIDTHS = frozenset({"pre_pad", "post_pad"})  # one number for each dimension
_DIMS = {3: (0, 1, 3), 4: (0, 2, 1, 3)}  # the new positions of dimensions, by rank


class SignalsAsRows(LoweredPass):
    """Turns [1, 1, time, channels] into [1, time, 1, channels] in a stream whose input, or its frames, are [1,
    channels, time].

    No byte moves, kernels and bits stay the same, but time comes in rows. The graph stays as it is if it has a call
    whose column form is unknown.
    """

    name: ClassVar[str] = "signals-as-rows"

    @classmethod
    def applies(cls, context: PassContext) -> bool:
        return context.stream

    def run(self, module: GraphModule) -> bool:
        entrances = _entrances(self.program)
        if not entrances:
            return False
        try:
            turned = _found(self.program, entrances)
        except _Unknown:
            return False
        columns = _Columns(self.program)
        for entrance in entrances:
            columns.enter(entrance, turned)
        columns.build(turned)
        merge_views(module.graph)
        remove_unused_constants(self.program)
        return True


class _Unknown(Exception):
    """A call whose column form is unknown."""


def _entrances(program: ExportedProgram) -> list[Node]:
    """Returns the tensors from which on time can be rows: frames that are read by calls that take several at once, or
    else the only one that `_entrance` finds."""
    nodes = program.graph_module.graph.nodes
    left = [node for node in nodes if FRAMES.known(node) and any(not FRAMES.known(user) for user in node.users)]
    if left:
        return [node for node in left if len(shape(node)) in _DIMS and math.prod(shape(node)[:-2]) == 1]
    found = _entrance(program)
    return [] if found is None else [found]


def _entrance(program: ExportedProgram) -> Node | None:
    """Returns the only input, a signal, as the kernels read it (codes, channels last), or the frames computed from it;
    None if there is none."""
    frames = [node for node in program.graph_module.graph.nodes if is_a(node, SPECTRUM)]
    if frames:
        view = sole_user(frames[0]) if len(frames) == 1 else None
        is_row = view is not None and is_a(view, VIEW) and len(shape(view)) in _DIMS
        return view if view is not None and is_row and math.prod(shape(view)[:-2]) == 1 else None
    inputs = user_inputs(program)
    if len(inputs) != 1 or len(shape(inputs[0])) != 3 or STATE.known(inputs[0]):
        return None
    node = inputs[0]
    for turned in (False, True):
        user = sole_user(node)
        if not turned and user is not None and is_a(user, TRANSPOSE):
            continue  # float32 has no quantize
        if user is None or not (is_a(user, VIEW) or (is_a(user, TRANSPOSE) if turned else quantizes(user))):
            return None
        node = user
        if is_a(user, VIEW):
            break
    return node if len(shape(node)) == 3 else None


def _column(sizes: Sizes) -> Sizes:
    """Returns [1, time, channels] or [1, 1, time, channels] as [1, time, 1, channels]."""
    *outer, time, channels = sizes
    if math.prod(outer) != 1:
        raise _Unknown
    return (1, time, 1, channels)


# ---- calls as columns ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Turned:
    """A call that gives a column: its changed arguments, and new data for its weights."""

    arguments: Mapping[str, Any]
    weight: torch.Tensor | None = None


def _found(program: ExportedProgram, entrances: Sequence[Node]) -> dict[Node, _Turned]:
    """Returns every call that gives a column, before anything is changed."""
    columns: dict[Node, Sizes] = {entrance: _column(shape(entrance)) for entrance in entrances}
    found: dict[Node, _Turned] = {}
    leaving = set(outputs(program))
    for node in program.graph_module.graph.nodes:
        read = [source for source in node.all_input_nodes if source in columns]
        is_view = is_a(node, VIEW) and node in leaving
        if not read or node.op != "call_function" or is_view or len(sizes_of(node)) not in _DIMS:
            continue
        if FRAMES.known(node):
            continue
        if is_a(node, FLOAT_REDUCE):
            continue  # it gives no column, and reads the old shape
        if is_a(node, VIEW):
            if math.prod(shape(node)[:-2]) != 1 or _column(shape(node)) != columns[read[0]]:
                continue  # as an image it has the same bytes
            found[node] = _Turned({"size": list(_column(shape(node)))})
        else:
            found[node] = _turned(program, node)
            _check(node, found[node], columns)
        columns[node] = _column(shape(node))
    return found


def _check(node: Node, turned: _Turned, columns: Mapping[Node, Sizes]) -> None:
    """Checks that the turned call gives the column."""
    operator = operator_of(node.target)
    assert operator is not None
    weight = {} if turned.weight is None else {"weight": tuple(turned.weight.shape)}
    given: Any = map_arg({**node.kwargs, **turned.arguments, **weight}, lambda one: columns.get(one) or shape(one))
    try:
        found = tuple(operator.shape(Call(operator, given, (), result_elements(operator, node.kwargs)[0], {})))
    except ValueError:  # it can't take a tensor of four dimensions
        raise _Unknown from None
    if found != _column(shape(node)):
        raise _Unknown


def _turned(program: ExportedProgram, node: Node) -> _Turned:
    operator, rank = operator_of(node.target), len(shape(node))
    if operator is None:
        raise _Unknown
    found: dict[str, Any] = {}
    weight: torch.Tensor | None = None
    given: Mapping[str, Any] = node.kwargs
    for name, value in given.items():
        if name in _SWAPPED and rank == 4:
            found[name] = list(reversed(value))
        elif name == "dim":
            found[name] = _DIMS[rank][value % rank]
        elif name in _WIDTHS:
            *_, time, channels = value
            found[name] = [0, time, 0, channels]
        elif name == "weight" and name not in operator.tensors:
            weight = _weight(constant_value(program, value))
        elif isinstance(value, list | tuple) and not all(isinstance(one, Node) for one in value):
            raise _Unknown
    return _Turned(found, weight)


def _weight(data: torch.Tensor | None) -> torch.Tensor | None:
    """Returns the weight in its new layout; None if it is unchanged."""
    if data is None or data.dim() != 4 or data.shape[1] != 1:
        raise _Unknown
    return data.reshape(data.shape[0], data.shape[2], 1, data.shape[3]) if data.shape[2] > 1 else None


# ---- rewriting -----------------------------------------------------------------------------------------------


@dataclass
class _Columns:
    """The graph while its calls are turned; a view of each entrance gives it as a column."""

    program: ExportedProgram
    weights: dict[Node, Node] = field(default_factory=dict)

    @property
    def mode(self) -> FakeTensorMode:
        mode = fake_mode_of(self.program.graph_module.graph)
        assert mode is not None
        return mode

    def enter(self, entrance: Node, turned: Mapping[Node, _Turned]) -> None:
        """Gives the calls that are turned a view of an entrance as a column."""
        readers = list(entrance.users)
        with self.program.graph_module.graph.inserting_after(entrance):
            sizes = list(_column(shape(entrance)))
            view = add_operator_call(entrance, self.mode, VIEW, {"self": entrance, "size": sizes})
        QPARAMS.take(view, entrance)
        TWIN.take(view, entrance)
        for reader in readers:
            if reader in turned:
                reader.replace_input_with(entrance, view)

    def build(self, turned: Mapping[Node, _Turned]) -> None:
        mode = self.mode
        for node, new in turned.items():
            given = {**node.kwargs, **new.arguments}
            if new.weight is not None:
                given["weight"] = self._constant(node.kwargs["weight"], new.weight)
            node.kwargs = given
            self._back(node, [user for user in node.users if user not in turned])
            with mode:
                VALUE.note(node, torch.empty(_column(shape(node)), dtype=VALUE.must(node).dtype))

    def _back(self, node: Node, readers: list[Node]) -> None:
        """Gives readers the old shape; views don't need it."""
        for reader in readers:
            if not is_a(reader, VIEW):
                with node.graph.inserting_before(reader):
                    arguments = {"self": node, "size": list(shape(node))}
                    reader.replace_input_with(node, add_operator_call(node, self.mode, VIEW, arguments))

    def _constant(self, weight: Any, data: torch.Tensor) -> Node:
        if weight not in self.weights:
            self.weights[weight] = add_constant(self.program, f"{weight.name}_column", data)
            QPARAMS.take(self.weights[weight], weight)
        return self.weights[weight]
