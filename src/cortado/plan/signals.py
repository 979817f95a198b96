"""Signals, whose time is the last dimension: in the lowered graph they are images of one row, [1, 1, time, channels].

Without moving a byte they are images of one column as well, and then time comes in rows. Kernels and bits stay.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from cortado.ir.op import registry
from cortado.ops.quantize_per_tensor import QUANTIZE
from cortado.ops.reshape import VIEW
from cortado.ops.transpose import TRANSPOSE
from cortado.plan.lowered import LoweredCall, LoweredGraph, Ref, Value

_SWAPPED = frozenset({"stride", "padding", "dilation", "kernel_size"})  # (height, width) as (width, height)
_WIDTHS = frozenset({"pre_pad", "post_pad"})  # for each dimension
_DIMS = {3: (0, 1, 3), 4: (0, 2, 1, 3)}  # where dimensions go, by rank


def signals_as_rows(graph: LoweredGraph) -> LoweredGraph:
    """The same graph, of which a signal is a column; as it was where there is none, or where that can't be."""
    try:
        return _Turned(graph).build() if _is_signal(graph) else graph
    except _Unknown:
        return graph


class _Unknown(Exception):
    """A call of which the column is not known."""


def _is_signal(graph: LoweredGraph) -> bool:
    return len(graph.inputs) == 1 and len(graph.values[graph.inputs[0]].shape) == 3 and not graph.state


@dataclass
class _Turned:
    graph: LoweredGraph
    calls: list[LoweredCall] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values: dict[str, Value] = dict(self.graph.values)
        self.constants: dict[str, Tensor] = dict(self.graph.constants)
        self.columns: dict[str, str] = {}  # what stands for a value as a column

    def build(self) -> LoweredGraph:
        entrance = self._entrance()
        for call in self.graph.calls:
            self.calls.append(self._turned(call))
            if call.name == entrance:
                self._enter(entrance)
        return replace(self.graph, calls=tuple(self.calls), values=self.values, constants=self.constants)

    def _entrance(self) -> str:
        """The input as the kernels read it: codes, channels last."""
        name = self.graph.inputs[0]
        for operator in (QUANTIZE, TRANSPOSE):
            users = self.graph.users.get(name, [])
            if len(users) != 1 or users[0].operator not in (operator.name, VIEW.name):
                raise _Unknown
            name = users[0].name
            if users[0].operator == VIEW.name:
                break
        if len(self.values[name].shape) != 3:
            raise _Unknown
        return name

    def _enter(self, name: str) -> None:
        value, column = self.values[name], f"{name}_column"
        self.values[column] = replace(value, shape=_column(value.shape))
        self.calls.append(
            LoweredCall(column, VIEW.name, {"self": Ref(name), "size": list(_column(value.shape))}, "", name)
        )
        self.columns[name] = column

    def _turned(self, call: LoweredCall) -> LoweredCall:
        read = [name for name in call.refs(*call.arguments) if name in self.columns]
        if not read:
            return call
        shape = self.graph.values[call.name].shape
        given = {name: self._source(value) for name, value in call.arguments.items()}
        if call.operator == VIEW.name:
            same = len(shape) in _DIMS and _column(shape) == self.values[self.columns[read[0]]].shape
            if not same:
                return replace(call, arguments=given)
            given["size"] = list(_column(shape))
        elif call.name in self.graph.outputs or len(shape) not in _DIMS:
            return replace(call, arguments=given)
        else:
            given = self._arguments(call, given, len(shape))
        self.values[call.name] = replace(self.values[call.name], shape=_column(shape))
        self.columns[call.name] = call.name
        return replace(call, arguments=given)

    def _source(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._source(one) for one in value]
        return Ref(self.columns.get(value.name, value.name)) if isinstance(value, Ref) else value

    def _arguments(self, call: LoweredCall, given: Mapping[str, Any], rank: int) -> dict[str, Any]:
        tensors = registry().operators[call.operator].tensors
        found = dict(given)
        for name, value in given.items():
            if name in _SWAPPED and rank == 4:
                found[name] = list(reversed(value))
            elif name == "dim":
                found[name] = _DIMS[rank][value % rank]
            elif name in _WIDTHS:
                *_, time, channels = value
                found[name] = [0, time, 0, channels]
            elif name == "weight" and name not in tensors:
                found[name] = self._weight(value)
            elif isinstance(value, list) and not all(isinstance(one, Ref) for one in value):
                raise _Unknown
        return found

    def _weight(self, ref: Ref) -> Ref:
        data = self.constants[ref.name]
        if data.dim() != 4 or data.shape[1] != 1:
            raise _Unknown
        name = f"{ref.name}_column"
        self.constants[name] = data.reshape(data.shape[0], data.shape[2], 1, data.shape[3])
        return Ref(name)


def _column(shape: tuple[int, ...]) -> tuple[int, ...]:
    """[1, time, channels] and [1, 1, time, channels] as [1, time, 1, channels]."""
    *outer, time, channels = shape
    if math.prod(outer) != 1:
        raise _Unknown
    return (1, time, 1, channels)
