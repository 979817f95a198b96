"""move-transposes: layout changes sink through operators that don't care, meet, and cancel."""

from typing import Any, ClassVar

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from cortado.graph import add_constant, constant_value, fake_mode_of, shape
from cortado.op import Operator, operator_of
from cortado.ops.conv2d import CONV2D
from cortado.ops.reshape import VIEW
from cortado.ops.transpose import TRANSPOSE
from cortado.passes.base import CortexMPass
from cortado.passes.lower import add_operator_call, add_transpose, add_view
from cortado.verify import Level


def is_a(node: Any, operator: Operator) -> bool:
    return isinstance(node, Node) and node.op == "call_function" and operator_of(node.target) is operator


class MoveTransposes(CortexMPass):
    """One walk in order: transposes of transposes become one, views of views become one, a transpose in front of an
    operator that works in any layout moves behind it, one in front of a flatten and linear goes into the weights."""

    name: ClassVar[str] = "move-transposes"
    level_before: ClassVar[Level] = Level.LOWERED
    level_after: ClassVar[Level] = Level.LOWERED

    def __init__(self, exported_program: ExportedProgram) -> None:
        self.program = exported_program

    def run(self, module: GraphModule) -> bool:
        mode = fake_mode_of(module.graph)
        assert mode is not None
        changed = False
        for node in list(module.graph.nodes):
            if node.op != "call_function":
                continue
            with module.graph.inserting_before(node):
                new = self._rewrite(node, mode)
            if new is not None:
                node.replace_all_uses_with(new)
                module.graph.erase_node(node)
                changed = True
        module.graph.eliminate_dead_code()
        return changed

    def _rewrite(self, node: Node, mode: FakeTensorMode) -> Node | None:
        if is_a(node, TRANSPOSE):
            return _merge_transposes(node, mode)
        if is_a(node, VIEW):
            return _merge_views(node, mode)
        if is_a(node, CONV2D):
            return self._fold_into_linear(node, mode)
        return _sink(node, mode)

    def _fold_into_linear(self, node: Node, mode: FakeTensorMode) -> Node | None:
        """A linear layer over a flattened transpose reads the untransposed tensor with its weights reordered."""
        view = node.kwargs["input"]
        if not (isinstance(view, Node) and is_a(view, VIEW) and is_a(view.kwargs["self"], TRANSPOSE)):
            return None
        transpose = view.kwargs["self"]
        assert isinstance(transpose, Node)
        perm, sizes = tuple(transpose.kwargs["perm"]), shape(transpose)  # type: ignore[arg-type]
        weight = constant_value(self.program, node.kwargs["weight"])
        flat = shape(view) == (1, 1, sizes[0], _product(sizes[1:]))
        if perm[0] != 0 or not flat or weight is None or tuple(weight.shape[1:3]) != (1, 1):
            return None
        out_c = weight.shape[0]
        inverse = [perm.index(dim) for dim in range(len(perm))]
        moved = weight.reshape(out_c, *sizes[1:]).permute(0, *inverse[1:]).reshape(weight.shape)
        source = transpose.kwargs["input"]
        assert isinstance(source, Node)
        arguments = {
            **node.kwargs,
            "input": add_view(view, mode, source, shape(view)),
            "weight": add_constant(self.program, f"{node.kwargs['weight']}_moved", moved),
        }
        return add_operator_call(node, mode, CONV2D, arguments)


def _product(sizes: tuple[int, ...]) -> int:
    return int(torch.Size(sizes).numel())


def _merge_transposes(node: Node, mode: FakeTensorMode) -> Node | None:
    source = node.kwargs["input"]
    assert isinstance(source, Node)
    if is_a(source, TRANSPOSE):
        inner, outer = source.kwargs["perm"], node.kwargs["perm"]
        perm = [inner[dim] for dim in outer]  # type: ignore[index, union-attr]
        first = source.kwargs["input"]
        assert isinstance(first, Node)
        return first if perm == sorted(perm) else add_transpose(node, mode, first, perm)  # type: ignore[type-var]
    return None


def _merge_views(node: Node, mode: FakeTensorMode) -> Node | None:
    source = node.kwargs["self"]
    assert isinstance(source, Node)
    if is_a(source, VIEW):
        first = source.kwargs["self"]
        assert isinstance(first, Node)
        return add_view(node, mode, first, shape(node))
    return source if shape(source) == shape(node) else None


def _sink(node: Node, mode: FakeTensorMode) -> Node | None:
    """op(transpose(a), transpose(b)) -> transpose(op(a, b)) where the operator can be told about it."""
    operator = operator_of(node.target)
    if operator is None or operator.relayout is None:
        return None
    operands = {name: node.kwargs[name] for name in operator.tensors}
    if not all(is_a(value, TRANSPOSE) for value in operands.values()):
        return None
    perms = {tuple(value.kwargs["perm"]) for value in operands.values()}  # type: ignore[union-attr, arg-type]
    if len(perms) != 1:
        return None
    perm = perms.pop()
    arguments = {**node.kwargs, **{name: value.kwargs["input"] for name, value in operands.items()}}  # type: ignore[union-attr]
    new = add_operator_call(node, mode, operator, dict(operator.relayout(arguments, perm)))
    return add_transpose(node, mode, new, perm)
