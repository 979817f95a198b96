"""move-transposes: gives every tensor its cheapest layout, and transposes only where layouts still differ.

nhwc-inputs: images come in as a camera gives them, channels last.
"""

from typing import Any, ClassVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from cortado.ir.facts import QPARAMS, STATE, TWIN, VALUE
from cortado.ir.graph import (
    TO_NCHW,
    TO_NHWC,
    add_call,
    add_constant,
    bind,
    constant_value,
    fake,
    fake_mode_of,
    shape,
    user_inputs,
)
from cortado.ir.op import operator_of
from cortado.ir.passes import Level
from cortado.ops.io.quantize import qparams_of
from cortado.ops.meaning import CallKind, means
from cortado.ops.move.reshape import TRANSPOSE, VIEW
from cortado.options import InputLayout
from cortado.passes.base import ContextPass, LoweredPass, PassContext
from cortado.passes.lower import add_operator_call, add_transpose, add_view
from cortado.passes.orders import (
    Order,
    Orders,
    channels_merged,
    channels_split,
    feeds_linear,
    inverse,
    is_a,
    linear_constants,
    operands,
    plain,
)


class MoveTransposes(LoweredPass):
    """Cancels transposes that meet, folds them into constants, or moves them to where they are cheapest; merges views
    of views."""

    name: ClassVar[str] = "move-transposes"

    def run(self, module: GraphModule) -> bool:
        merge_views(module.graph)
        orders = Orders(self.program)
        orders.choose()
        _Rewriter(self.program, orders).rewrite()
        merge_views(module.graph)
        return True


def merge_views(graph: Graph) -> None:
    """Makes a view of a view read the first one's input; removes views that don't change the shape."""
    for node in list(graph.nodes):
        if is_a(node, VIEW):
            source = operands(node)[0]
            if is_a(source, VIEW):
                source = operands(source)[0]
                node.update_kwarg("self", source)
            if shape(source) == shape(node):
                node.replace_all_uses_with(source)
    graph.eliminate_dead_code()


class _Rewriter:
    """Rewrites every node in the layout chosen for it."""

    def __init__(self, program: ExportedProgram, orders: Orders) -> None:
        self.program, self.orders = program, orders
        self.stored: dict[Node, Node] = {}  # an old node -> the new node with its value, in the old node's chosen order
        self.moved: dict[tuple[Node, Order], Node] = {}
        mode = fake_mode_of(program.graph_module.graph)
        assert mode is not None
        self.mode: FakeTensorMode = mode

    def rewrite(self) -> None:
        for node in list(self.program.graph_module.graph.nodes):
            with node.graph.inserting_before(node):
                self.stored[node] = self._rewrite(node)

    def _rewrite(self, node: Node) -> Node:
        if node.op == "placeholder":
            return node
        if is_a(node, TRANSPOSE):
            return self._operand(node, 0)
        if is_a(node, VIEW):
            return self._reshaped(node)
        if node in self.orders.links and self.orders.of[node] != plain(node):
            return self._relaid(node)
        kept: Any = map_arg((node.args, node.kwargs), lambda operand: self._fetch(operand, plain(operand)))
        node.args, node.kwargs = kept
        return node

    def _reshaped(self, node: Node) -> Node:
        source = operands(node)[0]
        order = self.orders.of[node]
        if linear_constants(source):
            self._permute_outputs(self.stored[source], node)
        if feeds_linear(node):
            self._permute_inputs(node)
        sizes = [shape(node)[dim] for dim in order]
        return add_view(node, self.mode, self._operand(node, 0), sizes)

    def _relaid(self, node: Node) -> Node:
        """Adds the same call on operands in the node's order."""
        operator, order = operator_of(node.target), self.orders.of[node]
        assert operator is not None
        assert operator.relayout is not None
        found = iter([self._operand(node, i) for i in range(len(operands(node)))])
        arguments: dict[str, Any] = dict(node.kwargs)
        for name in operator.tensors:
            several = isinstance(arguments[name], list | tuple)
            arguments[name] = [next(found) for _ in arguments[name]] if several else next(found)
        moved = operator.relayout(arguments, inverse(order))
        assert moved is not None
        return add_operator_call(node, self.mode, operator, dict(moved))

    # ---- operands

    def _operand(self, node: Node, position: int) -> Node:
        """Returns an operand in the order in which the node reads it."""
        return self._fetch(*self.orders.needs(node)[position])

    def _fetch(self, node: Node, order: Order) -> Node:
        have = self.orders.of.get(node)
        if have is None:  # a constant made for this order
            return node
        if order == have:
            return self.stored[node]
        if (node, order) not in self.moved:
            self.moved[node, order] = self._transposed(node, tuple(have.index(dim) for dim in order))
        return self.moved[node, order]

    def _transposed(self, node: Node, perm: Order) -> Node:
        data = constant_value(self.program, node)
        if data is None:
            return add_transpose(node, self.mode, self.stored[node], perm)
        holder = add_constant(self.program, f"{node.name}_moved", data.permute(perm))
        QPARAMS.take(holder, node)
        return holder

    # ---- linear layers

    def _permute_inputs(self, node: Node) -> None:
        """Permutes the weight columns of linear layers to the memory order of the flattened tensor."""
        source, dims = operands(node)[0], channels_merged(node)
        moved = [dim for dim in self.orders.needs(node)[0][1] if dim in dims]
        if moved == list(dims):
            return
        for user in list(node.users):
            name = linear_constants(user)[0]
            weight = constant_value(self.program, user.kwargs[name])
            assert weight is not None
            columns = weight.reshape(len(weight), *(shape(source)[dim] for dim in dims))
            columns = columns.permute(0, *(1 + dims.index(dim) for dim in moved)).reshape(weight.shape)
            user.update_kwarg(name, add_constant(self.program, f"{user.kwargs[name]}_moved", columns))

    def _permute_outputs(self, linear: Node, node: Node) -> None:
        """Permutes the outputs of a linear layer to the order that the reshape after it wants."""
        dims = channels_split(node)
        moved = [dim for dim in self.orders.of[node] if dim in dims]
        if moved == list(dims):
            return
        TWIN.take(linear, node)  # it now holds the values of the reshape after it
        for name in linear_constants(linear):
            data = constant_value(self.program, linear.kwargs[name])
            if data is not None:
                rows = data.reshape(*(shape(node)[dim] for dim in dims), *data.shape[1:])
                rows = rows.permute(*(dims.index(dim) for dim in moved), *range(len(dims), rows.dim()))
                linear.update_kwarg(
                    name, add_constant(self.program, f"{linear.kwargs[name]}_moved", rows.reshape(data.shape))
                )


# ---- nhwc inputs -------------------------------------------------------------------------------------------------


aten = torch.ops.aten


class NhwcInputs(ContextPass):
    """Makes every input of rank 4 [N, H, W, C] if the caller asks for it; a permute after its quantize restores the
    model's NCHW."""

    name: ClassVar[str] = "nhwc-inputs"
    level_before: ClassVar[Level] = Level.QUANTIZED
    level_after: ClassVar[Level] = Level.QUANTIZED

    @classmethod
    def applies(cls, context: PassContext) -> bool:
        return context.input_layout is InputLayout.NHWC

    def run(self, module: GraphModule) -> bool:
        nodes = user_inputs(self.program)
        images = [node for node in nodes if len(shape(node)) == 4 and not STATE.known(node)]
        for node in images:
            _take_nhwc(node)
        values, kwargs = self.program.example_inputs or ((), {})
        self.program.example_inputs = (
            tuple(
                value.permute(TO_NHWC).contiguous() if node in images else value
                for node, value in zip(nodes, values, strict=True)
            ),
            kwargs,
        )
        return bool(images)


def _take_nhwc(node: Node) -> None:
    """Permutes an input after its quantizes, where a quarter of the bytes move and the permute meets those of
    convolutions."""
    users = list(node.users)
    _permute_value(node)
    for user in users:
        quantized = means(user, CallKind.QUANTIZE)
        if quantized:
            _permute_value(user)
            QPARAMS.note(user, qparams_of(bind(user)))
        source = user if quantized else node
        with node.graph.inserting_after(source):
            restored = add_call(source, aten.permute.default, source, list(TO_NCHW))
        if quantized:
            QPARAMS.take(restored, user)
            source.replace_all_uses_with(restored)
            restored.replace_input_with(restored, source)
        else:
            user.replace_input_with(node, restored)


def _permute_value(node: Node) -> None:
    value = fake(node)
    with value.fake_mode:
        VALUE.note(node, torch.empty([value.shape[dim] for dim in TO_NHWC], dtype=value.dtype))
