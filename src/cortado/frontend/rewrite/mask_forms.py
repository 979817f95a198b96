"""Rewrites of calls that contain a mask, or the softmax after one, as one call for each part.

Also helpers that insert sums, products and selections of visible values into a graph.
"""

import math
import operator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from cortado.base.numerics import Tensor
from cortado.frontend.rewrite.mask_fact import LEAST, hides, hiding, numbers_of
from cortado.frontend.rewrite.mask_places import Places, as_node
from cortado.ir.analysis import rewrite_each
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, add_call, bind, is_call, shape
from cortado.ir.op import registry
from cortado.ops.elementwise.pointwise import attribute, is_elementwise, uniform_value
from cortado.ops.float_graph import add_constant, is_constant, out_of_place
from cortado.ops.meaning import CallKind, meaning_of, means
from cortado.ops.softmax.forms import ATTENTION_REWRITE

# ---- mask parts ------------------------------------------------------------------------------------------


def number_in(value: Any) -> float | None:
    """Returns a number, or the value of a uniform constant; None for anything else."""
    if isinstance(value, bool | int | float):
        return float(value)
    found = uniform_value(value) if isinstance(value, Node) else None
    return None if found is None else float(found)


def plain_target(node: Node) -> Any:
    """Returns the out-of-place form of a call's target: log for log_."""
    target: Any = node.target
    return out_of_place(target) or target if isinstance(target, OpOverload) else target


def values_at(node: Node, source: Node, values: list[float]) -> list[float]:
    """Evaluates a function of one tensor, and of constants, at these values; NaN where it gives no real number."""
    function: Any = plain_target(node)
    given = torch.tensor(values, dtype=dtype(source))

    def value(one: Node) -> Tensor:
        return given if one is source else torch.tensor(uniform_value(one), dtype=dtype(one))

    args, kwargs = map_arg((node.args, node.kwargs), value)
    try:
        found: Tensor = function(*args, **kwargs)
    except RuntimeError:  # 7 // 0 of integers
        return [math.nan] * len(values)
    return [math.nan] * len(values) if found.is_complex() else [float(one) for one in found]


def fit(like: Node, found: Node) -> Node:
    sizes = shape(like)
    return found if shape(found) == sizes else add_call(like, aten.expand.default, found, list(sizes))


def times(like: Node, visible: Node | None, factor: float) -> Node | None:
    if visible is None or factor == 1.0:
        return visible
    return add_call(like, aten.mul.Tensor, visible, factor)


def real(like: Node, value: Any) -> Node:
    """Returns a visible operand as a tensor."""
    if isinstance(value, Node):
        return value
    return add_constant(like, "visible", torch.tensor([0.0 if value is None else float(value)]))


def choose(like: Node, where: Places, first: Node, second: Node) -> Node:
    """Selects from two tensors, element by element."""
    number = number_in(first)
    if number is not None:
        return add_call(like, aten.masked_fill.Scalar, fit(like, second), as_node(like, where), number)
    data = where.constant
    if data is None:
        return add_call(like, aten.where.self, as_node(like, where), first, second)
    parts = [
        add_call(like, aten.mul.Tensor, one, add_constant(like, "part", kept.to(torch.float32)))
        for one, kept in ((first, data), (second, ~data))
    ]
    return add_call(like, aten.add.Tensor, *parts)


# ---- mask forms ------------------------------------------------------------------------------------------

aten = torch.ops.aten


def may_have_masks(graph: Graph) -> bool:
    """Whether any number is large enough to stand for infinity; without one, no mask is searched for."""
    return any(_may_hide(node) or _hand_written(node) is not None for node in graph.nodes)


def _may_hide(node: Node) -> bool:
    if is_constant(node):
        data = attribute(node)
        return (
            data is not None
            and data.dtype != torch.bool
            and any(hiding(sign * data.float()) is not None for sign in (1, -1))
        )
    if node.op != "call_function":
        return False
    return _has_mask(node) or any(abs(one) >= -LEAST for one in (*numbers_of(node), *_of_truth(node)))


def _has_mask(node: Node) -> bool:
    """Whether a call is attention with a mask."""
    if not means(node, CallKind.ATTENTION):
        return False
    bound = bind(node)
    return bool(bound["is_causal"]) or bound["attn_mask"] is not None


def _of_truth(node: Node) -> list[float]:
    """Returns the values of a function of one tensor at 0 and 1, such as log(0) or 1 / 0."""
    others = [one for one in node.all_input_nodes if uniform_value(one) is None]
    return values_at(node, others[0], [0.0, 1.0]) if is_elementwise(plain_target(node)) and len(others) == 1 else []


def puts_masks(node: Node) -> bool:
    """Whether a call with a large number has a decomposition into smaller calls."""
    return node.target in registry().decompositions and any(hides(number) for number in numbers_of(node))


def write_out_masks(module: GraphModule) -> None:
    """Expands attention with a mask, and turns softmax written as a formula into softmax."""
    rewrite_each(module.graph.nodes, _written_out)


def _written_out(node: Node) -> Node | None:
    bound = bind(node)
    if _has_mask(node):
        return ATTENTION_REWRITE.rewrite(bound)
    if means(node, CallKind.SOFTMAX) and shape(bound["self"]):  # invariant to adding a number along it
        dim = bound["dim"] % len(shape(bound["self"]))
        source = _without_largest(bound["self"], dim)
        return None if source is bound["self"] else add_call(node, aten.softmax.int, source, dim)
    found = _hand_written(node)
    return None if found is None else add_call(node, aten.softmax.int, *found)


def _hand_written(node: Node) -> tuple[Node, int] | None:
    """Returns x and dim of exp(x) / exp(x).sum(dim, keepdim=True), the softmax of x; its largest value is not
    subtracted."""
    if not means(node, CallKind.QUOTIENT):
        return None
    bound = bind(node)
    above, below = bound["self"], bound["other"]
    if not means(above, CallKind.EXPONENTIAL):
        return None
    dim = _reduced(below, above, CallKind.TOTAL)
    return None if dim is None else (_without_largest(bind(above)["self"], dim), dim)


def _without_largest(source: Node, dim: int) -> Node:
    """Returns x if given x - x.amax(dim, keepdim=True)."""
    found = meaning_of(source)
    if found is not None and found.signs == (1, -1):
        bound = bind(source)
        left, right = bound["self"], bound["other"]
        if isinstance(right, Node) and bound.get("alpha", 1) == 1 and _reduced(right, left, CallKind.EXTREME) == dim:
            return left
    return source


def _reduced(node: Any, source: Any, kind: CallKind) -> int | None:
    """Returns the one dimension that a call reduces, keeping it as 1; None for other calls."""
    if is_call(node, operator.getitem):
        pair, place = node.args
        node = pair if place == 0 else None
    found = meaning_of(node)
    if found is None or found.kind is not kind or (kind is CallKind.EXTREME and not (found.largest and found.value)):
        return None
    bound: Bound = bind(node)
    dims = bound.get("dim")
    given = [dims] if isinstance(dims, int) else list(dims or ())
    if bound["self"] is not source or not bound.get("keepdim") or len(given) != 1:
        return None
    return int(given[0]) % len(shape(source))
