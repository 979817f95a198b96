"""The lowered graph as kernels and buffers: what the C bundle, the memory plan and the report are made of."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.fx import Node

from cortado.errors import CortadoError
from cortado.graph import constant_value, describe, module_path, outputs, shape, user_inputs
from cortado.lowered import call_of
from cortado.numerics import QParams
from cortado.op import ONE_ROW, Array, Call, Kernel, Operator, RowRule, Rows, operator_of
from cortado.ops.dequantize_per_tensor import DEQUANTIZE
from cortado.ops.quantize_per_tensor import QUANTIZE
from cortado.target import CortexMTargetConfig, Isa


@dataclass(frozen=True)
class Buffer:
    """A tensor in the arena: `rows` rows of `row_bytes`. A ring holds fewer rows than the tensor has."""

    name: str
    rows: int
    row_bytes: int

    @property
    def size(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class Port:
    """One tensor operand of a step: where its rows lie and which of them an output row needs."""

    source: str | Array  # a buffer's name, or a constant in flash
    height: int  # rows of one image
    row_bytes: int
    rule: RowRule = ONE_ROW

    @property
    def image_bytes(self) -> int:
        return self.height * self.row_bytes


@dataclass(frozen=True)
class Step:
    """One kernel over one tensor: `images` times `rows` output rows of `row_bytes`, `n` pixels or elements each."""

    name: str
    operator: str
    module: str
    inputs: tuple[Port, ...]
    output: str
    images: int
    rows: int
    row_bytes: int
    n: int
    kernels: Mapping[Isa, Kernel]
    macs: int = 0

    @property
    def scratch(self) -> int:
        return max(kernel.scratch for kernel in self.kernels.values())

    @property
    def image_bytes(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class Stage:
    """Steps that run together, row by row."""

    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Tensor:
    """An input or output of the program; `node` is the value of the lowered graph that it holds."""

    name: str
    node: str
    buffer: str
    shape: tuple[int, ...]
    dtype: str
    qparams: QParams | None


@dataclass(frozen=True)
class Program:
    """A whole network: buffers, stages in order, inputs and outputs."""

    name: str
    target: CortexMTargetConfig
    buffers: Mapping[str, Buffer]
    stages: tuple[Stage, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(step for stage in self.stages for step in stage.steps)


# ---- from the lowered graph ----------------------------------------------------------------------------------


class Border(Enum):
    """What the bundle's inputs and outputs hold where the graph's border is a quantize or a dequantize."""

    INT8 = "int8"  # the codes themselves: the caller quantizes
    FLOAT = "float"  # real numbers: the bundle quantizes


def build_program(
    name: str, program: ExportedProgram, target: CortexMTargetConfig, border: Border = Border.INT8
) -> Program:
    """One stage per kernel."""
    return _Builder(name, program, target, border).build()


class _Builder:
    def __init__(self, name: str, program: ExportedProgram, target: CortexMTargetConfig, border: Border) -> None:
        self.name, self.program, self.target, self.border = name, program, target, border
        self.buffers: dict[str, Buffer] = {}
        self.place: dict[Node, str | Array] = {}  # where each node's bytes lie
        self.stages: list[Stage] = []

    def build(self) -> Program:
        inputs = [self._input(node) for node in user_inputs(self.program)]
        for node in self.program.graph_module.graph.nodes:
            if node.op == "call_function" and node not in self.place:
                self._add(node)
        results = [self._output(node) for node in outputs(self.program)]
        return Program(self.name, self.target, self.buffers, tuple(self.stages), tuple(inputs), tuple(results))

    def _input(self, node: Node) -> Tensor:
        """A float input that is only quantized is left out: the program starts with the int8 tensor."""
        user = next(iter(node.users), None)
        skips = self.border is Border.INT8 and len(node.users) == 1 and user is not None and _is(user, QUANTIZE)
        entry = user if skips and user is not None else node
        self.place[node] = self.place[entry] = self._buffer(entry)
        return self._tensor(node.name, entry)

    def _output(self, node: Node) -> Tensor:
        value = node if node in self.place else node.kwargs["input"]
        assert isinstance(value, Node)
        return self._tensor(node.name, value)

    def _tensor(self, name: str, node: Node) -> Tensor:
        place = self.place[node]
        if not isinstance(place, str):
            raise CortadoError(f"output '{name}' is a constant; there is nothing to compile for it")
        dtype = str(node.meta["val"].dtype).removeprefix("torch.")
        return Tensor(name, node.name, place, shape(node), dtype, node.meta.get("qparams"))

    def _buffer(self, node: Node) -> str:
        size = math.prod(shape(node)) * node.meta["val"].dtype.itemsize
        name = node.name
        self.buffers[name] = Buffer(name, 1, size)
        return name

    def _add(self, node: Node) -> None:
        call = call_of(node, self.program)
        operator = call.operator
        if operator.view:
            self.place[node] = self._source(node.kwargs[operator.tensors[0]])
            return
        leaves = operator is DEQUANTIZE and all(user.op == "output" for user in node.users)
        if leaves and self.border is Border.INT8:
            return
        if operator.kernel is None:
            raise CortadoError(f"{describe(node)}: the C bundle has no kernel for {operator.name}")
        self.place[node] = self._buffer(node)
        self.stages.append(Stage((self._step(node, call),)))

    def _source(self, node: object) -> str | Array:
        assert isinstance(node, Node)
        if node in self.place:
            return self.place[node]
        data = constant_value(self.program, node)
        if data is None:
            raise CortadoError(f"{describe(node)} has no place in the program")
        return Array(data.numpy())

    def _operands(self, node: Node, operator: Operator) -> list[Node]:
        found: list[Node] = []
        for name in operator.tensors:
            value = node.kwargs[name]
            found.extend(value if isinstance(value, list | tuple) else [value])  # type: ignore[arg-type, list-item]
        return found

    def _step(self, node: Node, call: Call) -> Step:
        rows = call.operator.rows(call)
        kernel_of = call.operator.kernel
        assert kernel_of is not None
        size = node.meta["val"].dtype.itemsize
        operands = self._operands(node, call.operator)
        by_row = rows is not None and not rows.pixelwise
        ports = tuple(
            self._port(operand, rows.inputs[i] if by_row and rows is not None else None)
            for i, operand in enumerate(operands)
        )
        images, height, row_bytes = _geometry(shape(node), size, by_row)
        return Step(
            name=node.name,
            operator=call.operator.name,
            module=module_path(node) or "",
            inputs=ports,
            output=str(self.place[node]),
            images=images,
            rows=height,
            row_bytes=row_bytes,
            n=_span(shape(node), rows),
            kernels={isa: kernel_of(call, isa) for isa in self.target.isas},
            macs=_macs(call),
        )

    def _port(self, operand: Node, rule: RowRule | None) -> Port:
        size = operand.meta["val"].dtype.itemsize
        _, height, row_bytes = _geometry(shape(operand), size, rule is not None)
        return Port(self._source(operand), height, row_bytes, rule or ONE_ROW)


def _is(node: Node, operator: Operator) -> bool:
    return node.op == "call_function" and operator_of(node.target) is operator


def _geometry(sizes: tuple[int, ...], itemsize: int, by_row: bool) -> tuple[int, int, int]:
    """(images, rows, bytes of a row): NHWC row by row, or everything as one row."""
    if by_row:
        n, h, w, c = sizes
        return n, h, w * c * itemsize
    return 1, 1, math.prod(sizes) * itemsize


def _span(sizes: tuple[int, ...], rows: Rows | None) -> int:
    """What `n` counts when the whole tensor is one row: elements, or pixels of the last dimension's channels."""
    if rows is None or rows.elementwise:
        return math.prod(sizes)
    return math.prod(sizes[:-1]) if rows.pixelwise else sizes[2]


def _macs(call: Call) -> int:
    """Multiply-accumulates of convolutions and linear layers."""
    weight = call.arguments.get("weight")
    if not isinstance(weight, torch.Tensor):
        return 0
    per_output = int(np.prod(weight.shape)) // call.out_shape[-1]
    return math.prod(call.out_shape) * per_output
