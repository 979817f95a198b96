"""Masks in front of a softmax, however they are written: the softmax takes them, and no number stands for infinity.

Something that is added and holds large negative numbers, `masked_fill` and `where` with a mask: all mean that some
scores do not count. Factors before and behind the mask go into the softmax as well. The mask may be constant, or
computed (kept_softmax.py).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.errors import CortadoError
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, add_call, bind, describe, is_call, shape
from cortado.ir.op import Rewrite
from cortado.ops._float import add_constant, add_permute, add_view, constant_data, is_constant
from cortado.ops.kept_softmax import SOFTMAX_KEPT
from cortado.ops.masked_softmax import SOFTMAX_MASKED
from cortado.ops.pointwise import uniform_value

aten = torch.ops.aten
Tensor = torch.Tensor

LEAST = -20.0
"""What is added to a score that is not to count is at most this. (Whether it is enough is seen once the range of the
scores is known.)"""

CERTAIN = -1e4
"""Beside other numbers that are added, such as distances, what is at most this is a mask."""

_PRODUCTS = (aten.mul.Tensor, aten.mul.Scalar, aten.multiply.Tensor)
_QUOTIENTS = (aten.div.Tensor, aten.div.Scalar, aten.divide.Tensor, aten.true_divide.Tensor)
_SUMS = (aten.add.Tensor, aten.sub.Tensor)
_FILLS = (aten.masked_fill.Scalar, aten.masked_fill.Tensor)
_VIEWS = (aten.expand.default, aten.reshape.default, aten.permute.default)
_MOVES = (*_VIEWS, aten.view.default, aten.unsqueeze.default, aten.squeeze.dim, aten.transpose.int, aten.slice.Tensor)
_CHOICES = (aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf)


@dataclass(frozen=True)
class Masked:
    """softmax(scores * factor) without the places where `mask` holds: there it has `fill`, or that is added."""

    scores: Node
    mask: Tensor
    fill: float
    added: bool
    factor: float = 1.0


@dataclass(frozen=True)
class Kept:
    """softmax(scores * factor) where the computed truth value `kept` holds; elsewhere it has `fill`, or it is added."""

    scores: Node
    kept: Node
    fill: float
    added: bool
    factor: float = 1.0


@dataclass(frozen=True)
class Hidden:
    """A computed truth value: where a large negative number is added to scores, which is at most `fill`."""

    where: Node
    fill: float


def kept_softmax(like: Node, found: Kept, dim: int = -1) -> Node:
    """The call that takes the place of a softmax along `dim` of scores that a computed mask leaves."""
    sizes = shape(found.scores)
    order = _at_the_end(dim, len(sizes))
    own = shape(found.kept)
    while own and own[0] == 1 and len(own) > 1:  # the same for all: kept once
        own = own[1:]
    kept = add_view(like, found.kept, own)
    if order != sorted(order) or own != sizes[len(sizes) - len(own) :]:
        kept = add_permute(like, add_call(like, aten.expand.default, kept, list(sizes)), order)
    return _softmax(like, SOFTMAX_KEPT, found, kept, order)


def _at_the_end(dim: int, rank: int) -> list[int]:
    """The order of dimensions in which one is the last."""
    return [*(axis for axis in range(rank) if axis != dim % rank), dim % rank]


def _softmax(like: Node, target: OpOverload, found: Masked | Kept, mask: Node, order: list[int]) -> Node:
    """The call itself, on scores in this order; what it gives is in theirs."""
    scores = add_permute(like, found.scores, order)
    result = add_call(like, target, scores, mask, found.factor, found.fill, found.added)
    return add_permute(like, result, [order.index(axis) for axis in range(len(order))])


def masked_softmax(like: Node, found: Masked, dim: int = -1) -> Node:
    """The call that takes the place of a softmax along `dim` of masked scores."""
    sizes = shape(found.scores)
    order = _at_the_end(dim, len(sizes))
    mask = found.mask.expand(sizes).permute(order)
    nothing_left = mask.all(-1).reshape(-1).nonzero().reshape(-1).tolist()
    if nothing_left:
        raise CortadoError(
            f"{describe(like)}: the mask leaves nothing of row {nothing_left[0]} ({len(nothing_left)} of "
            f"{mask[..., 0].numel()} rows have nothing left), whose softmax would be 0 / 0; let every row keep a value"
        )
    while mask.dim() > 2 and bool((mask[:1] == mask).all()):  # the same for all: kept once
        mask = mask[0]
    return _softmax(like, SOFTMAX_MASKED, found, add_constant(like, "mask", mask), order)


def added_mask(like: Node, scores: Node, data: Tensor) -> Masked | None:
    """A constant that is added, if it is a mask: 0 and large negative numbers, or some that leave no doubt."""
    mask = data != 0
    if data.dtype == torch.bool or not bool(mask.any()):
        return None
    if not bool((data[mask] <= LEAST).all()):
        mask = data <= CERTAIN
        if not bool(mask.any()):
            return None
        others = add_constant(like, "added", torch.where(mask, 0.0, data))
        scores = add_call(like, aten.add.Tensor, scores, others)
    return Masked(scores, mask, float(data[mask].max()), added=True)


def hidden_by(like: Node, added: Any) -> Hidden | None:
    """What a computed tensor that is added to scores hides: it holds large negative numbers there, and 0 elsewhere."""
    if not isinstance(added, Node) or is_constant(added):
        return None
    if is_call(added, *_MOVES):
        source = hidden_by(like, added.all_input_nodes[0])
        target: Any = added.target
        if source is None:
            return None
        return replace(source, where=add_call(like, target, source.where, *added.args[1:], **added.kwargs))
    if is_call(added, aten.add.Tensor):
        sides = [side for side in (_either(like, node) for node in added.all_input_nodes) if side is not None]
        if len(sides) != 2:
            return None
        either = add_call(like, aten.logical_or.default, *(side.where for side in sides))
        return Hidden(either, max(side.fill for side in sides))
    return _hiding_choice(like, added)


def _either(like: Node, added: Node) -> Hidden | None:
    """One of two masks of which the sum is added; this one may be constant."""
    if not is_constant(added):
        return hidden_by(like, added)
    data = constant_data(added)
    mask = data != 0
    if not bool(mask.any()) or not bool((data[mask] <= LEAST).all()):
        return None
    return Hidden(add_constant(like, "mask", mask), float(data[mask].max()))


def _hiding_choice(like: Node, node: Node) -> Hidden | None:
    """zeros.masked_fill(m, -inf), where(m, -inf, 0.0) and the other way round."""
    if not is_call(node, *_FILLS, *_CHOICES, aten.where.Scalar):
        return None
    bound, fills = bind(node), is_call(node, *_FILLS)
    condition = bound["mask" if fills else "condition"]
    sides = (bound["value"], bound["self"]) if fills else (bound["self"], bound["other"])
    found = (uniform_value(side) if isinstance(side, Node) else side for side in sides)
    numbers = [float(number) for number in found if number is not None]
    if len(numbers) < 2 or shape(condition) != shape(node) or min(numbers) > LEAST or max(numbers) != 0:
        return None
    hides = condition if numbers[0] != 0 else add_call(like, aten.logical_not.default, condition)
    return Hidden(hides, min(numbers))


def unmasked(like: Node, node: Node) -> Masked | Kept | None:
    """What a softmax reads, as scores and a mask; None where there is no mask."""
    behind = 1.0  # factors between mask and softmax
    while (factor := _factor(node)) is not None:
        behind, node = behind * factor, node.all_input_nodes[0]
    found = _mask_at(like, node)
    if found is None or shape(found.scores) != shape(node):
        return None
    before, scores = behind, found.scores
    while (factor := _factor(scores)) is not None and shape(scores.all_input_nodes[0]) == shape(node):
        before, scores = before * factor, scores.all_input_nodes[0]
    return replace(found, scores=scores, factor=before, fill=found.fill * behind)


def _factor(node: Node) -> float | None:
    """The number that a call multiplies by, where it is positive."""
    if not is_call(node, *_PRODUCTS, *_QUOTIENTS):
        return None
    bound = bind(node)
    left, right = bound["self"], bound["other"]
    if is_call(node, *_PRODUCTS) and isinstance(left, Node) and is_constant(left):
        left, right = right, left
    number = uniform_value(right) if isinstance(right, Node) else right
    if number is None or is_constant(left) or not 0.0 < float(number) < math.inf:
        return None
    return 1.0 / float(number) if is_call(node, *_QUOTIENTS) else float(number)


def _mask_at(like: Node, node: Node) -> Masked | Kept | None:
    if is_call(node, *_SUMS):
        return _added(like, bind(node))
    if is_call(node, *_FILLS):
        bound = bind(node)
        return _filled(like, bound["self"], bound["mask"], bound["value"], negated=False)
    if is_call(node, *_CHOICES):
        bound = bind(node)
        condition, chosen, other = bound["condition"], bound["self"], bound["other"]
        first = _filled(like, chosen, condition, other, negated=True)
        return first or _filled(like, other, condition, chosen, negated=False)
    return None


def _data(node: Any) -> Tensor | None:
    """A constant's data, also behind the views with which shapes are brought together."""
    if is_constant(node):
        return constant_data(node)
    source = _data(node.all_input_nodes[0]) if is_call(node, *_VIEWS) else None
    return None if source is None else node.target(source, *node.args[1:], **node.kwargs)


def _added(like: Node, bound: Bound) -> Masked | Kept | None:
    left, right = bound["self"], bound["other"]
    minus = is_call(bound.node, aten.sub.Tensor)
    if bound.get("alpha", 1) != 1 or not isinstance(left, Node) or not isinstance(right, Node):
        return None
    if _data(left) is not None and not minus:
        left, right = right, left
    data = _data(right)
    if _data(left) is not None:
        return None
    if data is None:
        return None if minus else _computed(like, left, right)
    found = added_mask(like, left, -data if minus else data)
    return None if found is None else replace(found, scores=_without_zeros(found))


def _computed(like: Node, left: Node, right: Node) -> Kept | None:
    """A mask that is computed and added, on either side."""
    for scores, added in ((left, right), (right, left)):
        hidden = hidden_by(like, added)
        if hidden is not None:
            return Kept(scores, add_call(like, aten.logical_not.default, hidden.where), hidden.fill, added=True)
    return None


def _without_zeros(found: Masked) -> Node:
    """The scores without a product that makes those zero that are masked anyway."""
    if not is_call(found.scores, *_PRODUCTS):
        return found.scores
    operands = found.scores.all_input_nodes
    data = [_data(node) for node in operands]
    for kept, other in zip(data, reversed(operands), strict=True):
        alike = kept is not None and shape(other) == shape(found.scores)
        if alike and kept is not None and torch.equal(*torch.broadcast_tensors(kept, (~found.mask).to(kept.dtype))):
            return other
    return found.scores


def _filled(like: Node, scores: Any, mask: Node, fill: Any, negated: bool) -> Masked | Kept | None:
    value = uniform_value(fill) if isinstance(fill, Node) else fill
    data = _data(mask)
    if not isinstance(scores, Node) or _data(scores) is not None or value is None or value > LEAST:
        return None
    if data is None:
        kept = mask if negated else add_call(like, aten.logical_not.default, mask)
        return Kept(scores, kept, float(value), added=False) if dtype(mask) == torch.bool else None
    return Masked(scores, ~data if negated else data, float(value), added=False) if data.dtype == torch.bool else None


def of_masked(bound: Bound) -> Node | None:
    """softmax of masked scores."""
    found = unmasked(bound.node, bound["self"]) if shape(bound["self"]) else None
    if isinstance(found, Kept):
        return kept_softmax(bound.node, found, bound["dim"])
    if found is None or (math.isfinite(found.fill) and _leaves_nothing(found, bound)):
        return None
    return masked_softmax(bound.node, found, bound["dim"])


def _leaves_nothing(found: Masked, bound: Bound) -> bool:
    """A row that is masked whole with numbers that are finite still has a softmax: no mask, but numbers."""
    return bool(found.mask.expand(shape(found.scores)).all(bound["dim"]).any())


MASK_REWRITE = Rewrite(aten=(aten.softmax.int, aten._softmax.default), rewrite=of_masked)
