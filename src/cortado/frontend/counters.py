"""Whole numbers that are computed: counters, positions, ids of a history, and what they do to real numbers.

`count + 1`, `count % n`, `torch.where(count < n, count, 0)` become calls on 32 bits; what only moves whole numbers
stays as it is, on 32 bits. A position that is computed reads or writes a row of a tensor by comparing every row's
number with it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.node import map_arg

from cortado.ir.facts import STATE, VALUE, dtype
from cortado.ir.graph import Bound, add_call, bind, shape
from cortado.ops._binary import padded, spread
from cortado.ops._float import add_constant, add_view, is_constant
from cortado.ops.calculate_int import CALCULATED_IDS, How
from cortado.ops.compare import ACCEPTED, COMPARED_IDS
from cortado.ops.pointwise import uniform_value
from cortado.ops.truth import AS_TRUTH, AS_WHOLE
from cortado.ops.where import CHOSEN, CHOSEN_IDS
from cortado.ops.widen import WIDENED

aten = torch.ops.aten

_BOTH: Mapping[str, How] = {
    "add": How.SUM,
    "sub": How.DIFFERENCE,
    "subtract": How.DIFFERENCE,
    "mul": How.PRODUCT,
    "multiply": How.PRODUCT,
    "remainder": How.REMAINDER,
    "floor_divide": How.QUOTIENT,
    "minimum": How.SMALLER,
    "maximum": How.LARGER,
}
_VIEWS = frozenset({"reshape", "view", "unsqueeze", "squeeze", "flatten", "unflatten"})
_MOVES = frozenset({"slice", "cat", "index_select", "select", "expand", "permute", "transpose"})


def name_of(node: Node) -> str:
    """gt of aten.gt.Tensor; empty for what is no operator of aten."""
    target = node.target
    found = isinstance(target, OpOverload) and target.namespace == "aten"
    return target._schema.name.removeprefix("aten::") if isinstance(target, OpOverload) and found else ""


def is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, Node) and uniform_value(value) is not None)


def number_in(value: Any) -> float:
    found = uniform_value(value) if isinstance(value, Node) else value
    assert found is not None
    return found


@dataclass(frozen=True)
class Counters:
    """The calls that compute whole numbers. `real` gives a truth value as 0 and 1; `is_truth`, `from_truth`: whether a
    node holds truth values, or what is computed of them alone."""

    real: Callable[[Node], Node | None]
    is_truth: Callable[[Node], bool]
    from_truth: Callable[[Node], bool]

    def computed(self, node: Node) -> Node | None:
        """The same whole numbers in operators that there are; None where there are none, or no need."""
        name, bound = name_of(node), bind(node)
        if name in _BOTH:
            return self._both(bound, bound["self"], bound["other"], _BOTH[name])
        if name in ("rsub", "div", "neg", "abs"):
            return self._single(bound, name)
        if name in ("clamp", "clamp_min", "clamp_max"):
            return self._clamped(bound)
        if name in ("where", "masked_fill"):
            return self._chosen(bound, fills=name == "masked_fill")
        if name in ("to", "_to_copy"):
            return self._word(node, node.all_input_nodes[0])
        return self._moved(bound, name)

    # ---- operands

    def _word(self, like: Node, value: Any) -> Node | None:
        """An operand as whole numbers; None for what has no such form."""
        if is_number(value):
            whole = number_in(value)
            return add_constant(like, "number", torch.tensor([int(whole)])) if whole == int(whole) else None
        if is_constant(value):
            return value if not VALUE.must(value).is_floating_point() else None
        if dtype(value).is_floating_point:
            return None
        if self.is_truth(value):
            real = self.real(value)
            return None if real is None else add_call(like, AS_WHOLE, real)
        if self.from_truth(value):
            return None
        return value if dtype(value) in (torch.int32, torch.int64) else add_call(like, WIDENED, value)

    def spread(self, like: Node, node: Node, sizes: tuple[int, ...]) -> Node:
        """An operand under the shape of the result; a single number stays one."""
        if math.prod(shape(node)) == 1:
            return add_view(like, node, (1,) * len(sizes))
        if math.prod(shape(node)) == math.prod(sizes):
            return add_view(like, node, sizes)
        return add_call(like, aten.expand.default, add_view(like, node, padded(shape(node), len(sizes))), list(sizes))

    # ---- arithmetic

    def _both(self, bound: Bound, left: Any, right: Any, how: How) -> Node | None:
        like, sizes = bound.node, shape(bound.node)
        words = [self._word(like, one) for one in (left, right)]
        if words[0] is None or words[1] is None:
            return None
        alpha = bound.get("alpha", 1)
        if alpha != 1:
            words[1] = self._calculated(like, words[1], alpha, How.PRODUCT)
        first, second = (self.spread(like, word, sizes) for word in words if word is not None)
        return add_view(like, add_call(like, CALCULATED_IDS, first, second, int(how)), sizes)

    def _calculated(self, like: Node, node: Node, number: int, how: How) -> Node:
        constant = add_constant(like, "number", torch.tensor([number]).reshape((1,) * len(shape(node))))
        return add_call(like, CALCULATED_IDS, node, constant, int(how))

    def _single(self, bound: Bound, name: str) -> Node | None:
        if name == "rsub":
            return self._both(bound, bound["other"], bound["self"], How.DIFFERENCE)
        if name == "div":
            floor = bound.get("rounding_mode") == "floor"
            return self._both(bound, bound["self"], bound["other"], How.QUOTIENT) if floor else None
        word = self._word(bound.node, bound["self"])
        if word is None:
            return None
        negative = self._calculated(bound.node, word, -1, How.PRODUCT)
        return negative if name == "neg" else add_call(bound.node, CALCULATED_IDS, word, negative, int(How.LARGER))

    def _clamped(self, bound: Bound) -> Node | None:
        found: Any = bound["self"]
        for name, how in (("min", How.LARGER), ("max", How.SMALLER)):
            if found is not None and bound.get(name) is not None:
                found = self._both(bound, found, bound[name], how)
        return found if isinstance(found, Node) else None

    # ---- choices

    def _chosen(self, bound: Bound, *, fills: bool) -> Node | None:
        condition = bound["mask" if fills else "condition"]
        sides = (bound["value"], bound["self"]) if fills else (bound["self"], bound["other"])
        like, sizes = bound.node, shape(bound.node)
        mask = self.real(condition)
        words = [self._word(like, side) for side in sides]
        if mask is None or words[0] is None or words[1] is None:
            return None
        first, second = (self.spread(like, word, sizes) for word in words if word is not None)
        return add_call(like, CHOSEN_IDS, spread(bound, mask, sizes), first, second)

    # ---- movement

    def _moved(self, bound: Bound, name: str) -> Node | None:
        """The call on whole numbers of 32 bits; None where its operands are that."""
        like = bound.node
        if name not in _MOVES:
            return None
        words = {node: self._word(like, node) for node in like.all_input_nodes}
        if None in words.values() or all(word is node for node, word in words.items()):
            return None
        args, kwargs = map_arg((like.args, like.kwargs), lambda one: words[one])
        target: Any = like.target
        return add_call(like, target, *args, **kwargs)

    # ---- outputs

    def own(self, node: Node) -> Node:
        """An output that is what state was before the call: a copy, as state is overwritten."""
        root = node
        while root.op == "call_function" and name_of(root) in _VIEWS:
            root = root.all_input_nodes[0]
        if not STATE.known(root) or dtype(root).is_floating_point:
            return node
        if dtype(root) != torch.bool:
            return self._calculated(node, node, 0, How.SUM)
        real = self.real(node)
        return node if real is None else add_call(node, AS_TRUTH, add_call(node, aten.minimum.default, real, real))


# ---- real numbers at positions that are computed -----------------------------------------------------------------


def at_position(node: Node) -> Node | None:
    """x[:, position] and x[:, position] = y, index_select and index_copy, where one position is computed."""
    name, bound = name_of(node), bind(node)
    dim, position = _position(name, bound)
    if position is None or is_constant(position) or math.prod(shape(position)) != 1:
        return None
    source: Node = bound["self"]
    sizes = shape(source)
    numbers = add_constant(node, "numbers", torch.arange(sizes[dim]))
    found = add_call(node, COMPARED_IDS, numbers, [add_view(node, position, (1,))], 0, ACCEPTED["eq"])
    mask = add_view(node, found, tuple(size if other == dim else 1 for other, size in enumerate(sizes)))
    mask = add_call(node, aten.expand.default, mask, list(sizes))
    if name in ("index", "index_select"):
        zero = add_constant(node, "zero", torch.tensor([0.0]))
        row = add_call(node, aten.sum.dim_IntList, add_call(node, CHOSEN, mask, source, zero), [dim], True)
        return add_view(node, row, shape(node))
    row = _row(bound, bound["source" if name == "index_copy" else "values"], sizes, dim, len(shape(position)))
    return add_call(node, CHOSEN, mask, add_call(node, aten.expand.default, row, list(sizes)), source)


def _position(name: str, bound: Bound) -> tuple[int, Node | None]:
    if name in ("index_copy", "index_select"):
        return bound["dim"] % max(len(shape(bound["self"])), 1), bound["index"]
    if name not in ("index", "index_put") or bound.get("accumulate"):
        return 0, None
    given = [(dim, one) for dim, one in enumerate(bound["indices"]) if one is not None]
    return given[0] if len(given) == 1 and len(shape(given[0][1])) <= 1 else (0, None)


def _row(bound: Bound, value: Node, sizes: tuple[int, ...], dim: int, rank: int) -> Node:
    """What is written, with the dimension of the position in its place."""
    if rank or name_of(bound.node) == "index_copy":
        return add_view(bound.node, value, padded(shape(value), len(sizes)))
    inner = padded(shape(value), len(sizes) - 1)
    return add_view(bound.node, value, (*inner[:dim], 1, *inner[dim:]))
