"""Truth values as real numbers: 0 and 1, which are moved, multiplied and joined as any tensor.

A comparison inside a function of one tensor stays what it is, a part of a table. Any other truth value becomes a tensor
of real numbers: `a > b` a comparison that gives 0 and 1, `m & n` their minimum, `torch.where(m, a, b)` a choice between
codes. What is boolean, or a whole number, in the model's outputs is made that again at the very end. In the same way
whole numbers that are computed of truth values, as in `mask.sum(1)`, are real numbers, and others are converted where
real numbers are computed of them.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from cortado.base.errors import CortadoError
from cortado.frontend.counters import Counters, at_position, is_number, name_of, number_in
from cortado.ir.facts import STATE, VALUE, dtype
from cortado.ir.graph import Bound, add_call, bind, describe, output_node, shape
from cortado.ops._binary import spread
from cortado.ops._float import add_constant, is_constant
from cortado.ops.compare import ACCEPTED, COMPARED, COMPARED_IDS
from cortado.ops.embedding_bag import BAGS
from cortado.ops.lowest import MASKED
from cortado.ops.pick import PICKED
from cortado.ops.pointwise import is_bytes, sources
from cortado.ops.truth import AS_TRUTH, AS_WHOLE, DIFFERENCES, JOINS, NEGATIONS, QUANTIFIERS
from cortado.ops.where import CHOSEN

aten = torch.ops.aten
Tensor = torch.Tensor

_LOOKUPS = (aten.embedding.default, BAGS, PICKED)
_SUMS = ("sum", "count_nonzero")
_MOVES = frozenset(
    {"reshape", "view", "expand", "permute", "transpose", "unsqueeze", "squeeze", "flatten", "slice", "select", "cat"}
    | {"stack", "clone", "contiguous", "clamp", "clamp_min", "clamp_max", "index_select", "flip", "roll", "repeat"}
    | {"narrow", "t", "movedim"}
)
_ARITHMETIC = frozenset(
    {"add", "sub", "subtract", "rsub", "mul", "multiply", "div", "divide", "true_divide", "pow", "maximum", "minimum"}
    | {"matmul", "mm", "bmm", "linear", "sum", "mean", "cat", "stack"}
)


def make_conditions_real(module: GraphModule) -> None:
    """Rewrites in place; a graph without truth values and whole numbers stays as it is."""
    if any(_is_whole(node) for node in module.graph.nodes if node.op == "call_function" or node.op == "placeholder"):
        _Rewriter(module).rewrite()


def _is_whole(node: Any) -> bool:
    value = VALUE.of(node) if isinstance(node, Node) else None
    return isinstance(value, Tensor) and not value.dtype.is_floating_point


def _is_real(node: Node) -> bool:
    value = VALUE.of(node)
    return isinstance(value, Tensor) and value.dtype == torch.float32


class _Rewriter:
    def __init__(self, module: GraphModule) -> None:
        self.graph = module.graph
        self.pieces = sources(module.graph)
        self.real: dict[Node, Node | None] = {}
        self.counters = Counters(self.number, self._is_truth, self._from_truth)

    def rewrite(self) -> None:
        counted = self._counted()
        for node in list(self.graph.nodes):
            if node.op == "call_function" and (node not in self.pieces or node in counted):
                with self.graph.inserting_before(node):
                    self._rewrite(node)
        self._rewrite_outputs()
        self.graph.eliminate_dead_code()

    def _counted(self) -> set[Node]:
        """Whole numbers inside functions of one tensor of which counters are computed, that are looked up, or that the
        model gives."""
        found: set[Node] = set()
        for node in reversed(self.graph.nodes):
            counts = node in found or (node not in self.pieces and _is_whole(node) and node.op == "call_function")
            if counts or node.op == "output" or node.target in _LOOKUPS:
                found.update(one for one in node.all_input_nodes if one in self.pieces and self._is_id(one))
        return found

    # ---- what reads truth values and whole numbers, and gives real ones

    def _rewrite(self, node: Node) -> None:
        whole = [operand for operand in node.all_input_nodes if _is_whole(operand) and not is_constant(operand)]
        new = self._real_of(node, whole) if whole and _is_real(node) else None
        if whole and self._is_id(node):
            new = self.counters.computed(node)
        if new is not None:
            node.replace_all_uses_with(new)

    def _real_of(self, node: Node, whole: list[Node]) -> Node | None:
        name, new = name_of(node), at_position(node)
        if node.target in MASKED:
            new = self._again(node)
        elif name in ("where", "masked_fill"):
            new = self._choice(bind(node))
        elif name in ("to", "_to_copy"):
            new = self._converted(node, whole[0])
        elif name in _ARITHMETIC:
            new = self._again(node)
        return new

    def _converted(self, node: Node, source: Node) -> Node | None:
        """`.float()` of what is real already; of ids and images it stays."""
        return self.number(source) if self._from_truth(source) else None

    def _choice(self, bound: Bound) -> Node | None:
        """where and masked_fill of several tensors."""
        fills = name_of(bound.node) == "masked_fill"
        condition = bound["mask" if fills else "condition"]
        first, second = (bound["value"], bound["self"]) if fills else (bound["self"], bound["other"])
        mask = self.number(condition)
        if mask is None or is_constant(condition):
            return None
        like, sizes = bound.node, shape(bound.node)
        if is_number(first) and is_number(second):
            high, low = number_in(first), number_in(second)
            scaled = add_call(like, aten.mul.Tensor, spread(bound, mask, sizes), high - low)
            return add_call(like, aten.add.Tensor, scaled, low)
        sides = [self._side(bound, side, sizes) for side in (first, second)]
        return add_call(like, CHOSEN, spread(bound, mask, sizes), *sides) if None not in sides else None

    def _side(self, bound: Bound, side: Any, sizes: tuple[int, ...]) -> Node | None:
        """A tensor of the result's shape, or a constant of one number."""
        if is_number(side):
            return add_constant(bound.node, "number", torch.tensor([float(number_in(side))]))
        real = self.number(side)
        return None if real is None else spread(bound, real, sizes)

    # ---- as real numbers

    def number(self, node: Node) -> Node | None:
        """A node's values as real numbers; None where that can't be."""
        if _is_real(node):
            return node
        if node not in self.real:
            with self.graph.inserting_before(node.next):
                self.real[node] = self._made(node)
        return self.real[node]

    def _made(self, node: Node) -> Node | None:
        if node in self.pieces or node.op == "placeholder" or is_constant(node):
            return add_call(node, aten.to.dtype, node, torch.float32)
        if not self._from_truth(node):
            return add_call(node, aten.to.dtype, node, torch.float32) if _is_whole(node) else None
        for names, make in self._makers():
            if name_of(node) in names:
                return make(node)
        return None

    def _makers(self) -> list[tuple[Any, Callable[[Node], Node | None]]]:
        return [
            (ACCEPTED, self._compared),
            (JOINS, self._joined),
            (NEGATIONS, self._negated),
            (DIFFERENCES, self._differing),
            (QUANTIFIERS, self._quantified),
            (("where", "masked_fill"), self._either),
            ((*_MOVES, *_SUMS), self._again),
            (("to", "_to_copy"), lambda node: self.number(node.all_input_nodes[0])),
        ]

    def _from_truth(self, node: Node) -> bool:
        """Whether a node is a truth value, or a whole number that is computed of truth values alone."""
        if dtype(node) == torch.bool:
            return True
        known = name_of(node) in (*_MOVES, *_SUMS, "to", "_to_copy")
        operands = [operand for operand in node.all_input_nodes if _is_whole(operand)]
        return known and bool(operands) and all(self._from_truth(operand) for operand in operands)

    def _is_truth(self, node: Node) -> bool:
        """Whether a node holds truth values, if need be as whole numbers; a sum of them is a number of its own."""
        if dtype(node) == torch.bool:
            return True
        known = name_of(node) in (*_MOVES, "to", "_to_copy")
        operands = [operand for operand in node.all_input_nodes if _is_whole(operand)]
        return known and bool(operands) and all(self._is_truth(operand) for operand in operands)

    def _again(self, node: Node) -> Node | None:
        """The same call on real numbers."""
        index = bind(node).get("index")  # positions stay what they are
        given = {one: self.number(one) for one in node.all_input_nodes if _is_whole(one) and one is not index}
        if None in given.values():
            return None
        kept = {key: value for key, value in node.kwargs.items() if key != "dtype"}
        args, kwargs = map_arg((node.args, kept), lambda one: given.get(one) or one)
        return add_call(node, node.target, *args, **kwargs)

    def _compared(self, node: Node) -> Node | None:
        bound, accepts = bind(node), ACCEPTED[name_of(node)]
        left, right = bound["self"], bound["other"]
        if self._is_id(left) and not (isinstance(right, Node) and not self._is_id(right) and not is_number(right)):
            return self._compared_ids(node, left, right, accepts)
        sides = [None if is_number(side) else self.number(side) for side in (left, right)]
        if is_number(right) and sides[0] is not None:  # a function of one tensor, once that is real
            found = add_call(node, node.target, sides[0], right)
            return add_call(node, aten.to.dtype, found, torch.float32)
        if sides[0] is None or sides[1] is None:
            return None
        spreads = [spread(bound, side, shape(node)) for side in sides if side is not None]
        return add_call(node, COMPARED, *spreads, accepts)

    def _is_id(self, node: Any) -> bool:
        """A whole number that is no truth value, and has too many values for a table."""
        return _is_whole(node) and not self._from_truth(node) and not is_bytes(node)

    def _compared_ids(self, node: Node, left: Node, right: Any, accepts: int) -> Node | None:
        if is_number(right):
            number = number_in(right)
            return add_call(node, COMPARED_IDS, left, [], int(number), accepts) if number == int(number) else None
        sides = [self.counters.spread(node, side, shape(node)) for side in (left, right)]
        return add_call(node, COMPARED_IDS, sides[0], sides[1:], 0, accepts)

    def _sides(self, node: Node) -> list[Node] | None:
        bound = bind(node)
        sides = [self.number(bound[name]) for name in ("self", "other") if isinstance(bound[name], Node)]
        return [side for side in sides if side is not None] if len(sides) == 2 and None not in sides else None

    def _joined(self, node: Node) -> Node | None:
        sides = self._sides(node)
        if sides is None:
            return None
        spreads = [spread(bind(node), side, shape(node)) for side in sides]
        return add_call(node, JOINS[name_of(node)], *spreads)

    def _differing(self, node: Node) -> Node | None:
        sides = self._sides(node)
        if sides is None:
            return None
        spreads = [spread(bind(node), side, shape(node)) for side in sides]
        return add_call(node, COMPARED, *spreads, ACCEPTED["ne"])

    def _negated(self, node: Node) -> Node | None:
        source = self.number(node.all_input_nodes[0])
        if source is None:
            return None
        return add_call(node, aten.to.dtype, add_call(node, aten.eq.Scalar, source, 0), torch.float32)

    def _either(self, node: Node) -> Node | None:
        """A choice between truth values: one where the condition holds, or the other where it does not."""
        bound, fills = bind(node), name_of(node) == "masked_fill"
        condition = self.number(bound["mask" if fills else "condition"])
        sides = (bound["value"], bound["self"]) if fills else (bound["self"], bound["other"])
        if condition is None:
            return None
        opposite = add_call(node, aten.to.dtype, add_call(node, aten.eq.Scalar, condition, 0), torch.float32)
        parts = [self._where(bound, *both) for both in zip((condition, opposite), sides, strict=True)]
        return None if None in parts else add_call(node, aten.maximum.default, *parts)

    def _where(self, bound: Bound, condition: Node, side: Any) -> Node | None:
        """What of a truth value counts: that where a condition holds."""
        like, sizes = bound.node, shape(bound.node)
        holds = spread(bound, condition, sizes)
        if is_number(side):
            return add_call(like, aten.mul.Tensor, holds, float(number_in(side)))
        real = self.number(side)
        return None if real is None else add_call(like, aten.minimum.default, holds, spread(bound, real, sizes))

    def _quantified(self, node: Node) -> Node | None:
        bound, source = bind(node), self.number(node.all_input_nodes[0])
        if source is None:
            return None
        dims = bound.get("dim", bound.get("dims"))
        given = list(range(len(shape(source)))) if dims is None else [dims] if isinstance(dims, int) else list(dims)
        return add_call(node, QUANTIFIERS[name_of(node)], source, given, bool(bound.get("keepdim", False)))

    # ---- the outputs

    def _rewrite_outputs(self) -> None:
        output = output_node(self.graph)
        with self.graph.inserting_before(output):
            output.args = map_arg(output.args, self._returned)
            output.args = (self._own(output.args[0]),)

    def _own(self, returned: Any) -> Any:
        """The user's outputs, none of which lies where state does, and what becomes of state."""
        count = sum(1 for node in self.graph.nodes if node.op == "placeholder" and STATE.known(node))
        if not count or not isinstance(returned, list | tuple):
            return returned
        users = len(returned) - count
        return (*(self.counters.own(node) for node in returned[:users]), *returned[users:])

    def _returned(self, node: Node) -> Node:
        computed = node.op == "call_function" and node.target not in (AS_TRUTH, AS_WHOLE)
        if computed and name_of(node) in _SUMS and _is_whole(node) and self._from_truth(node):
            raise CortadoError(
                f"{describe(node)} counts truth values, and a count is kept as a real number, expected one as an "
                "output; give .float() of the truth values before it"
            )
        if not computed or not _is_whole(node) or not self._is_truth(node):
            return node
        real = self.number(node)
        if real is None:
            return node
        return add_call(node, AS_TRUTH if dtype(node) == torch.bool else AS_WHOLE, real)
