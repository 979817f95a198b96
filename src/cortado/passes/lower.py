"""lower: every aten node becomes calls of `cortex_m::` operators, views and constants."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from cortado.errors import CortadoError, Reject
from cortado.graph import (
    TWIN,
    Bound,
    add_constant,
    bind,
    constant_value,
    copy_origin,
    describe,
    fake_mode_of,
    shape,
)
from cortado.numerics import INT8_MAX, INT8_MIN, ChannelQParams, QParams
from cortado.op import Call, LinearWeights, Match, Operator, find, operator_of, overload, registry
from cortado.passes.base import CortexMPass
from cortado.target import CortexMTargetConfig
from cortado.verify import Level

Tensor = torch.Tensor

_BORDERS = (
    torch.ops.quantized_decomposed.quantize_per_tensor.default,
    torch.ops.quantized_decomposed.dequantize_per_tensor.default,
)


class Lower(CortexMPass):
    """Replaces each node by what its pattern lowers it to; spatial operators come wrapped in layout transposes."""

    name: ClassVar[str] = "lower"
    level_before: ClassVar[Level] = Level.QUANTIZED
    level_after: ClassVar[Level] = Level.LOWERED

    def __init__(
        self,
        exported_program: ExportedProgram,
        target_config: CortexMTargetConfig,
        linear: LinearWeights = LinearWeights.PER_CHANNEL,
    ) -> None:
        self.program = exported_program
        self.target = target_config
        self.linear = linear

    def run(self, module: GraphModule) -> bool:
        mode = fake_mode_of(module.graph)
        assert mode is not None
        refused: list[str] = []
        for node in list(module.graph.nodes):
            if node.op == "call_function":
                reason = self._lower(node, mode)
                if reason is not None:
                    refused.append(f"{describe(node)}: {reason}")
        if refused:
            raise CortadoError("can't run in integer arithmetic:\n  " + "\n  ".join(refused))
        module.graph.eliminate_dead_code()
        return True

    def _lower(self, node: Node, mode: FakeTensorMode) -> str | None:
        """Replaces one node, or tells why it can't."""
        match = find(node)
        if isinstance(match, Reject):
            return match.reason
        context = LoweringContext(self.program, self.target, self.linear, node, match, mode)
        missing = context.missing_qparams()
        if missing:
            return f"{missing} was not quantized"
        twin = _twin(node)
        node.meta.pop(TWIN, None)  # of the calls it becomes, only those that hold its values inherit it
        with node.graph.inserting_before(node):
            new = match.pattern.lower(context)
        if shape(new) != shape(node):
            raise CortadoError(f"{describe(node)} was lowered to shape {shape(new)}, expected {shape(node)}")
        _note_twin(new, twin)
        node.replace_all_uses_with(new)
        node.graph.erase_node(node)
        return None


def _twin(node: Node) -> str:
    """The float graph's name for a node's values; quantize and dequantize are not in it, they stand for their input."""
    source = node.all_input_nodes[0] if node.all_input_nodes else node
    holder = source if node.target in _BORDERS else node
    name: str = holder.meta.get(TWIN, holder.name)
    return name


def _note_twin(node: Node, twin: str) -> None:
    """The last call holds the values of the lowered node, and so does what it only views or transposes."""
    while node.op == "call_function" and TWIN not in node.meta:
        node.meta[TWIN] = twin
        if operator_of(node.target) not in _same_values():
            return
        node = node.all_input_nodes[0]


def _same_values() -> tuple[Operator, ...]:
    operators = registry().operators
    return operators["aten::view_copy"], operators["cortex_m::transpose"]


class LoweringContext:
    """What a pattern's `lower` sees of its node; see op.Lowering."""

    def __init__(
        self,
        program: ExportedProgram,
        target: CortexMTargetConfig,
        linear: LinearWeights,
        node: Node,
        match: Match,
        mode: FakeTensorMode,
    ) -> None:
        self.program = program
        self.target = target
        self.linear = linear
        self.bound: Bound = bind(node)
        self.match = match
        self._node = node
        self._mode = mode
        self.clamp: tuple[float, float] = node.meta.get("clamp", (-math.inf, math.inf))

    @property
    def out(self) -> QParams:
        qparams = self._node.meta["qparams"]
        assert isinstance(qparams, QParams)
        return qparams

    def missing_qparams(self) -> str | None:
        for name in self.match.quantization.inputs:
            for operand in self.bound.nodes(name):
                if "qparams" not in operand.meta:
                    return f"its {name}"
        return None

    def q(self, name: str) -> QParams:
        qparams = self.node(name).meta["qparams"]
        assert isinstance(qparams, QParams)
        return qparams

    def weight_scales(self, name: str) -> Tensor:
        qparams = self.node(name).meta["qparams"]
        assert isinstance(qparams, ChannelQParams)
        return torch.tensor(qparams.scales, dtype=torch.float64)

    def node(self, name: str) -> Node:
        value = self.bound[name]
        assert isinstance(value, Node)
        return value

    def data(self, name: str) -> Tensor | None:
        """The constant behind an argument, or the first one in a list."""
        nodes = self.bound.nodes(name)
        return constant_value(self.program, nodes[0]) if nodes else None

    def bounds(self) -> tuple[int, int]:
        """The clamp in output codes."""
        low, high = self.clamp
        return (
            INT8_MIN if math.isinf(low) else self.out.quantize(low),
            INT8_MAX if math.isinf(high) else self.out.quantize(high),
        )

    def constant(self, name: str, data: Tensor) -> Node:
        return add_constant(self.program, f"{self._node.name}_{name}", data)

    def call(self, operator: Operator, /, **arguments: Any) -> Node:
        return add_operator_call(self._node, self._mode, operator, arguments)

    def view(self, node: Node, shape: Sequence[int]) -> Node:
        return add_view(self._node, self._mode, node, shape)

    def transpose(self, node: Node, perm: Sequence[int]) -> Node:
        return add_transpose(self._node, self._mode, node, perm)


def add_operator_call(like: Node, mode: FakeTensorMode, operator: Operator, arguments: dict[str, Any]) -> Node:
    """A call with its arguments by name; shape and dtype come from the operator's record."""
    node = like.graph.call_function(overload(operator), (), arguments)
    sizes = operator.shape(shaped_call(operator, arguments))
    operands = [value for value in arguments.values() if isinstance(value, Node)]
    dtype = operands[0].meta["val"].dtype if operator.view else operator.dtype
    with mode:
        node.meta["val"] = torch.empty(sizes, dtype=dtype)
    if "qparams" in like.meta:
        node.meta["qparams"] = like.meta["qparams"]
    copy_origin(like, node)
    return node


def shaped_call(operator: Operator, arguments: dict[str, Any], out_shape: tuple[int, ...] = ()) -> Call:
    """A Call that knows shapes only."""
    return Call(operator, {name: _shapes(value) for name, value in arguments.items()}, out_shape)


def _shapes(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_shapes(item) for item in value]
    return shape(value) if isinstance(value, Node) else value


def add_view(like: Node, mode: FakeTensorMode, node: Node, sizes: Sequence[int]) -> Node:
    if tuple(sizes) == shape(node):
        return node
    new = add_operator_call(like, mode, registry().operators["aten::view_copy"], {"self": node, "size": list(sizes)})
    new.meta["qparams"] = node.meta.get("qparams")
    return new


def add_transpose(like: Node, mode: FakeTensorMode, node: Node, perm: Sequence[int]) -> Node:
    """A transpose, or a view when only dimensions of size 1 move."""
    sizes = shape(node)
    moved = [dim for dim in perm if sizes[dim] != 1]
    if moved == sorted(moved):
        return add_view(like, mode, node, [sizes[dim] for dim in perm])
    arguments = {"input": node, "perm": list(perm)}
    new = add_operator_call(like, mode, registry().operators["cortex_m::transpose"], arguments)
    new.meta["qparams"] = node.meta.get("qparams")
    return new
