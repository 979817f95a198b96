"""lower: replaces every aten node by calls of `cortex_m::` operators, views and constants."""

import math
from collections.abc import Sequence
from operator import getitem
from typing import Any, ClassVar

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from cortado.base.errors import CortadoError, Refused, Reject
from cortado.base.numerics import ChannelQParams, QParams
from cortado.ir.facts import CLAMP, NOT_ATEN, QPARAMS, TRAINED, TWIN, VALUE, dtype, qparams
from cortado.ir.graph import (
    Bound,
    add_constant,
    bind,
    constant_value,
    copy_origin,
    describe,
    fake_mode_of,
    shape,
    shaped,
    user_inputs,
)
from cortado.ir.matching import Match, find, not_taken
from cortado.ir.op import Operator, c_only, operator_of, result_elements, shaped_call
from cortado.ir.passes import Level
from cortado.ir.portable import FLOAT, arguments_of, float_call, is_function, stays_in_float
from cortado.ir.portable import operands as float_operands
from cortado.ir.schemas import overload
from cortado.ops.io.quantize import DEQUANTIZE, QUANTIZE
from cortado.ops.io.quantize import arguments as quantize_arguments
from cortado.ops.meaning import CallKind, means
from cortado.ops.move.reshape import TRANSPOSE, VIEW
from cortado.passes.base import ContextPass, PassContext

Tensor = torch.Tensor


class Lower(ContextPass):
    """Replaces each node by the lowering of its pattern; spatial operators come wrapped in layout transposes.

    With `allow_float` the graph is for a .pte only: calls that a .pte can't hold in integers stay float calls of aten,
    between a dequantize and a quantize.
    """

    name: ClassVar[str] = "lower"
    level_before: ClassVar[Level] = Level.QUANTIZED
    level_after: ClassVar[Level] = Level.LOWERED

    def run(self, module: GraphModule) -> bool:
        mode = fake_mode_of(module.graph)
        assert mode is not None
        _narrow_inputs(self.program, mode)
        refused: dict[Node, str] = {}
        for node in [node for node in module.graph.nodes if node.op == "call_function"]:
            source = node.args[0] if node.target is getitem else None
            if source in refused or stays_in_float(node):  # a result of a call that is already handled
                continue
            reason = self._lower(node, mode)
            if reason is not None and self.context.allow_float:
                reason = _FloatKeeper(self.program, node, mode).keep(reason)
            if reason is not None:
                refused[node] = reason
        if refused:
            raise not_taken(refused)
        module.graph.eliminate_dead_code()
        return True

    def _lower(self, node: Node, mode: FakeTensorMode) -> str | None:
        """Replaces one node, or returns why it can't."""
        match = find(node)
        if isinstance(match, Reject):
            return match.reason
        lowering = LoweringContext(self.context, node, match, mode)
        missing = lowering.missing_qparams()
        if missing:
            return f"{missing} was not quantized"
        twin, before = _twin(node), node.prev
        if not is_function(node.target):
            NOT_ATEN.note(node, True)
        TWIN.forget(node)  # only those of its calls that hold its values inherit it
        with node.graph.inserting_before(node):
            try:
                new = match.pattern.lower(lowering)
            except Refused as error:  # for the scales that calibration chose
                return str(error)
        if self.context.allow_float:
            reason = _undo_c_only(before, node)
            if reason is not None:
                return reason
        if shape(new) != shape(node):
            raise CortadoError(f"{describe(node)} was lowered to shape {shape(new)}, expected {shape(node)}")
        _note_twin(new, twin)
        node.replace_all_uses_with(new)
        node.graph.erase_node(node)
        return None


def _narrow_inputs(program: ExportedProgram, mode: FakeTensorMode) -> None:
    """Makes 64-bit integer inputs 32-bit: torch's integers have 64 bits by default, and ids need 32 at most."""
    nodes = user_inputs(program)
    wide = [node for node in nodes if dtype(node) == torch.int64]
    for node in wide:
        with mode:
            VALUE.note(node, torch.empty(shape(node), dtype=torch.int32))
    values, kwargs = program.example_inputs or ((), {})
    pairs = zip(nodes, values, strict=True)
    program.example_inputs = (tuple(x.to(torch.int32) if node in wide else x for node, x in pairs), kwargs)


def _twin(node: Node) -> str:
    """Returns the float graph's name for a node's values; a quantize or dequantize is not in that graph and has its
    input's."""
    source = node.all_input_nodes[0] if node.all_input_nodes else node
    holder = source if means(node, CallKind.QUANTIZE, CallKind.DEQUANTIZE) else node
    return TWIN.of(holder) or holder.name


def _note_twin(node: Node, twin: str) -> None:
    """Records the twin of the last call, which holds the lowered node's values, and of the tensors that it only views
    or transposes."""
    while node.op == "call_function" and not TWIN.known(node):
        TWIN.note(node, twin)
        operator = operator_of(node.target)
        if operator is None or not operator.same_values:
            return
        node = node.all_input_nodes[0]


def _undo_c_only(before: Node, node: Node) -> str | None:
    """Undoes a lowering that a .pte can't hold, and returns why."""
    new, last = [], node.prev
    while last is not before:
        new.append(last)
        last = last.prev
    reason = next((found for found in map(c_only, new) if found is not None), None)
    for call in new if reason is not None else ():
        call.graph.erase_node(call)
    return reason


class _FloatKeeper:
    """Keeps one call in float, between a dequantize and a quantize."""

    def __init__(self, program: ExportedProgram, node: Node, mode: FakeTensorMode) -> None:
        self.program, self.node, self.mode = program, node, mode

    def keep(self, reason: str) -> str | None:
        """Replaces the call by its float form, or returns why it can't."""
        node = self.node
        if operator_of(node.target) is not None or not isinstance(node.target, OpOverload):
            return reason
        with node.graph.inserting_before(node):
            real: Any = map_arg(arguments_of(node), self._real)
            new = self._call(node.target, real, reason)
            bounds = CLAMP.of(node)
            if isinstance(new, Node) and bounds is not None:
                low, high = (None if math.isinf(bound) else bound for bound in bounds)
                clamp = torch.ops.aten.clamp.default
                new = self._call(clamp, {"self": new, "min": low, "max": high}, "fused into the call before it")
            if isinstance(new, Reject):
                return new.reason
            out = qparams(node)
            if out is not None:
                new = self._add(QUANTIZE, input=new, **quantize_arguments(out))
                QPARAMS.note(new, out)
        node.replace_all_uses_with(new)
        node.graph.erase_node(node)
        return None

    def _call(self, target: OpOverload, arguments: dict[str, Any], reason: str) -> Node | Reject:
        kept = float_call(target, arguments, reason)
        if isinstance(kept, Reject):
            return kept
        new = self.node.graph.call_function(target, (), _read(arguments, kept.reads))
        VALUE.take(new, self.node)
        FLOAT.note(new, kept)
        copy_origin(self.node, new)
        return new

    def _real(self, operand: Node) -> Node:
        """Returns an operand as real numbers, dequantized if need be."""
        known, data = QPARAMS.of(operand), constant_value(self.program, operand)
        if known is None or dtype(operand).is_floating_point:
            return operand
        if data is not None:
            return add_constant(self.program, f"{operand.name}_float", known.dequantize(data))
        assert isinstance(known, QParams)
        return self._add(DEQUANTIZE, input=operand, **quantize_arguments(known))

    def _add(self, operator: Operator, **arguments: Any) -> Node:
        new = add_operator_call(self.node, self.mode, operator, arguments)
        QPARAMS.forget(new)
        return new


def _read(arguments: dict[str, Any], reads: Sequence[bool]) -> Any:
    """Returns the arguments of a float call; operands that it does not depend on are replaced by one that it does, so
    that they need not be computed."""
    read = [operand for operand, is_read in zip(float_operands(arguments), reads, strict=True) if is_read]
    order = iter(reads)
    return map_arg(arguments, lambda operand: operand if next(order) or not read else read[0])


class LoweringContext:
    """A node as a pattern's `lower` sees it; see op.Lowering."""

    def __init__(self, context: PassContext, node: Node, match: Match, mode: FakeTensorMode) -> None:
        self.program = context.exported_program
        self.target = context.target_config
        self.linear = context.linear
        self.codes = context.codes_in_floats and TRAINED.known(node)
        self.bound: Bound = bind(node)
        self.match = match
        self._node = node
        self._mode = mode
        self.clamp: tuple[float, float] = CLAMP.of(node) or (-math.inf, math.inf)

    @property
    def out(self) -> QParams:
        known = qparams(self._node)
        assert known is not None
        return known

    def missing_qparams(self) -> str | None:
        for name in self.match.quantization.inputs:
            for operand in self.bound.nodes(name):
                if not QPARAMS.known(operand):
                    return f"its {name}"
        return None

    def q(self, name: str) -> QParams:
        known = qparams(self.node(name))
        assert known is not None
        return known

    def weight_scales(self, name: str) -> Tensor:
        known = QPARAMS.of(self.node(name))
        assert isinstance(known, ChannelQParams)
        return torch.tensor(known.scales, dtype=torch.float64)

    def node(self, name: str) -> Node:
        value = self.bound[name]
        assert isinstance(value, Node)
        return value

    def data(self, name: str) -> Tensor | None:
        """Returns the constant of an argument, or the first one in a list."""
        nodes = self.bound.nodes(name)
        return constant_value(self.program, nodes[0]) if nodes else None

    def bounds(self) -> tuple[int, int]:
        """Returns the clamp in output codes."""
        low, high = self.clamp
        return (
            self.out.element.low if math.isinf(low) else self.out.quantize(low),
            self.out.element.high if math.isinf(high) else self.out.quantize(high),
        )

    def constant_of(self, node: Node) -> Tensor | None:
        return constant_value(self.program, node)

    def constant(self, name: str, data: Tensor) -> Node:
        return add_constant(self.program, f"{self._node.name}_{name}", data)

    def call(self, operator: Operator, /, **arguments: Any) -> Node:
        return add_operator_call(self._node, self._mode, operator, arguments)

    def part(self, call: Node, result: str) -> Node:
        return add_part(self._node, call, result)

    def view(self, node: Node, shape: Sequence[int]) -> Node:
        return add_view(self._node, self._mode, node, shape)

    def transpose(self, node: Node, perm: Sequence[int]) -> Node:
        return add_transpose(self._node, self._mode, node, perm)


def add_operator_call(like: Node, mode: FakeTensorMode, operator: Operator, arguments: dict[str, Any]) -> Node:
    """Adds a call with its arguments by name; shapes and dtypes come from the operator's record. Each of several
    results is taken by a node of its own: `add_part`."""
    node = like.graph.call_function(overload(operator), (), arguments)
    sizes = operator.sizes(shaped_call(operator, arguments))
    kinds = result_elements(operator, arguments)
    made = tuple(shaped(mode, size, kind.torch_dtype) for size, kind in zip(sizes, kinds, strict=True))
    VALUE.note(node, made if operator.extra_results else made[0])
    known = qparams(like)
    # Intermediate results can have another element, and readers of a refused call are float32.
    if not operator.extra_results and known is not None and (kinds[0].floating or kinds[0].name == known.element.name):
        QPARAMS.note(node, known)
    copy_origin(like, node)
    return node


def add_part(like: Node, call: Node, result: str) -> Node:
    """Adds a node that takes one of several results of a call, with the facts of `like`."""
    operator = operator_of(call.target)
    assert operator is not None
    position = operator.results.index(result)
    node = call.graph.create_node("call_function", getitem, (call, position), name=f"{call.name}_{result}")
    VALUE.note(node, VALUE.must(call)[position])
    QPARAMS.take(node, like)
    copy_origin(like, node)
    return node


def add_view(like: Node, mode: FakeTensorMode, node: Node, sizes: Sequence[int]) -> Node:
    if tuple(sizes) == shape(node):
        return node
    new = add_operator_call(like, mode, VIEW, {"self": node, "size": list(sizes)})
    QPARAMS.take(new, node)
    return new


def add_transpose(like: Node, mode: FakeTensorMode, node: Node, perm: Sequence[int]) -> Node:
    """Adds a transpose, or a view if only dimensions of size 1 move."""
    sizes = shape(node)
    moved = [dim for dim in perm if sizes[dim] != 1]
    if moved == sorted(moved):
        return add_view(like, mode, node, [sizes[dim] for dim in perm])
    arguments = {"input": node, "perm": list(perm)}
    new = add_operator_call(like, mode, TRANSPOSE, arguments)
    QPARAMS.take(new, node)
    return new
