"""The lowered graph as kernels and buffers: what the C bundle, the memory plan and the report are made of."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from cortado.ops.transpose import TRANSPOSE
from cortado.target import CortexMTargetConfig, Isa


class Walk(Enum):
    """How a kernel goes over its output."""

    ROWS = "one row from the rows of its window"
    PIXELS = "any span of pixels"
    ELEMENTS = "any span of elements, in place if need be"
    ACCUMULATE = "one input row after the other into one output row"
    WHOLE = "the whole tensor at once"


@dataclass(frozen=True)
class Buffer:
    """A tensor in the arena, whole, or as a ring of `rows` of its rows where `rows` is not 0."""

    name: str
    size: int  # of the whole tensor
    rows: int = 0


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

    def collapsed(self, images: int) -> "Port":
        """The whole tensor as one row; an operand that every row reads whole stays as it is."""
        if self.rule.stride == 0:
            return self
        return replace(self, height=1, row_bytes=images * self.image_bytes, rule=ONE_ROW)


@dataclass(frozen=True)
class Step:
    """One kernel over one tensor: `images` times `rows` output rows of `row_bytes`, `n` pixels or elements each.

    An accumulating step is called once per INPUT row and leaves its only output row behind after the last.
    """

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
    kind: Walk
    macs: int = 0

    @property
    def scratch(self) -> int:
        return max(kernel.scratch for kernel in self.kernels.values())

    @property
    def image_bytes(self) -> int:
        return self.row_bytes if self.kind is Walk.ACCUMULATE else self.rows * self.row_bytes

    def collapsed(self) -> "Step":
        """A pixelwise step over all its rows at once: one call instead of one per row."""
        if self.kind not in (Walk.PIXELS, Walk.ELEMENTS):
            return self
        return replace(
            self,
            inputs=tuple(port.collapsed(self.images) for port in self.inputs),
            images=1,
            rows=1,
            row_bytes=self.images * self.rows * self.row_bytes,
            n=self.images * self.rows * self.n,
        )


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
    layout: tuple[int, ...]  # the model's dimensions in the order in which they lie here: (0, 2, 3, 1) is NHWC


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
        results = [self._output(node, position) for position, node in enumerate(outputs(self.program))]
        return Program(self.name, self.target, self.buffers, tuple(self.stages), tuple(inputs), tuple(results))

    def _input(self, node: Node) -> Tensor:
        """With an int8 border the program starts behind the quantize, and behind a change of layout that follows it."""
        chain = [node]
        while self.border is Border.INT8 and len(chain[-1].users) == 1:
            user = next(iter(chain[-1].users))
            if not (_is(user, QUANTIZE) if len(chain) == 1 else _is(user, TRANSPOSE)):
                break
            chain.append(user)
        entry = chain[-1] if len(chain) > 1 else node
        place = self._buffer(entry)
        for skipped in chain:
            self.place[skipped] = place
        return self._tensor(node.name, entry, _permutation(chain))

    def _output(self, node: Node, position: int) -> Tensor:
        """With an int8 border the program ends before the dequantize, and before a change of layout in front of it."""
        chain = [node]
        while chain[-1] not in self.place:
            source = chain[-1].kwargs["input"]
            assert isinstance(source, Node)
            chain.append(source)
        perm = _permutation(chain[::-1])
        return self._tensor(f"output{position}", chain[-1], tuple(perm.index(dim) for dim in range(len(perm))))

    def _tensor(self, name: str, node: Node, layout: tuple[int, ...]) -> Tensor:
        place = self.place[node]
        if not isinstance(place, str):
            raise CortadoError(f"output '{name}' is a constant; there is nothing to compile for it")
        dtype = str(node.meta["val"].dtype).removeprefix("torch.")
        return Tensor(name, node.name, place, shape(node), dtype, node.meta.get("qparams"), layout)

    def _buffer(self, node: Node) -> str:
        size = math.prod(shape(node)) * node.meta["val"].dtype.itemsize
        name = node.name
        self.buffers[name] = Buffer(name, size)
        return name

    def _add(self, node: Node) -> None:
        call = call_of(node, self.program)
        operator = call.operator
        if operator.view:
            self.place[node] = self._source(node.kwargs[operator.tensors[0]])
            return
        if self.border is Border.INT8 and _leaves(node):
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
        kernel_of = call.operator.kernel
        assert kernel_of is not None
        operands = self._operands(node, call.operator)
        rows = call.operator.rows(call)
        kind = _walk(rows)
        itemsize = node.meta["val"].dtype.itemsize
        images, height, row_bytes = _geometry(shape(node), itemsize, kind is not Walk.WHOLE)
        rules = rows.inputs if rows is not None else tuple(None for _ in operands)
        ports = tuple(self._port(operand, rule) for operand, rule in zip(operands, rules, strict=True))
        return Step(
            name=node.name,
            operator=call.operator.name,
            module=module_path(node) or "",
            inputs=ports,
            output=str(self.place[node]),
            images=images,
            rows=rows.accumulates if rows is not None and rows.accumulates else height,
            row_bytes=row_bytes,
            n=_span(shape(node), kind),
            kernels={isa: kernel_of(call, isa) for isa in self.target.isas},
            kind=kind,
            macs=_macs(call),
        )

    def _port(self, operand: Node, rule: RowRule | None) -> Port:
        itemsize = operand.meta["val"].dtype.itemsize
        by_row = rule is not None and rule.stride != 0
        _, height, row_bytes = _geometry(shape(operand), itemsize, by_row)
        return Port(self._source(operand), height, row_bytes, rule or ONE_ROW)


def _walk(rows: Rows | None) -> Walk:
    if rows is None:
        return Walk.WHOLE
    if rows.accumulates:
        return Walk.ACCUMULATE
    if rows.elementwise:
        return Walk.ELEMENTS
    return Walk.PIXELS if rows.pixelwise else Walk.ROWS


def _leaves(node: Node) -> bool:
    """A dequantize in front of a graph output, or a change of layout in front of such a dequantize only."""
    if _is(node, DEQUANTIZE):
        return all(user.op == "output" for user in node.users)
    return _is(node, TRANSPOSE) and bool(node.users) and all(_is(u, DEQUANTIZE) and _leaves(u) for u in node.users)


def _permutation(chain: list[Node]) -> tuple[int, ...]:
    """The order of dimensions after the transposes of a chain of nodes."""
    order = tuple(range(len(shape(chain[0]))))
    for node in chain:
        if _is(node, TRANSPOSE):
            perm = node.kwargs["perm"]
            assert isinstance(perm, list | tuple)
            order = tuple(order[int(dim)] for dim in perm)  # type: ignore[call-overload]
    return order


def _is(node: Node, operator: Operator) -> bool:
    return node.op == "call_function" and operator_of(node.target) is operator


def _geometry(sizes: tuple[int, ...], itemsize: int, by_row: bool) -> tuple[int, int, int]:
    """(images, rows, bytes of a row): NHWC row by row, anything else as one row."""
    if by_row and len(sizes) == 4:
        n, h, w, c = sizes
        return n, h, w * c * itemsize
    return 1, 1, math.prod(sizes) * itemsize


def _span(sizes: tuple[int, ...], kind: Walk) -> int:
    """What `n` counts in one row: elements, or pixels of the last dimension's channels."""
    row = sizes[2:] if len(sizes) == 4 else sizes
    if kind is Walk.WHOLE:
        return math.prod(sizes)
    return math.prod(row) if kind is Walk.ELEMENTS else math.prod(row[:-1])


def _macs(call: Call) -> int:
    """Multiply-accumulates of convolutions and linear layers."""
    weight = call.arguments.get("weight")
    if not isinstance(weight, torch.Tensor):
        return 0
    per_output = int(np.prod(weight.shape)) // call.out_shape[-1]
    return math.prod(call.out_shape) * per_output
