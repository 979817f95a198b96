"""Masks in front of a softmax, however they are written: the softmax takes them, and no number stands for infinity.

A constant that is added and holds nothing but 0 and large negative numbers, `masked_fill` and `where` with a constant
mask: all mean that some scores do not count. Factors before and behind the mask go into the softmax as well.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from cortado.base.errors import CortadoError
from cortado.ir.graph import Bound, add_call, bind, describe, is_call, shape
from cortado.ir.op import Rewrite
from cortado.ops._float import add_constant, add_permute, constant_data, is_constant
from cortado.ops.masked_softmax import SOFTMAX_MASKED
from cortado.ops.pointwise import uniform_value

aten = torch.ops.aten
Tensor = torch.Tensor

LEAST = -20.0
"""What is added to a score that is not to count is at most this. (Whether it is enough is seen once the range of the
scores is known.)"""

_PRODUCTS = (aten.mul.Tensor, aten.mul.Scalar, aten.multiply.Tensor)
_QUOTIENTS = (aten.div.Tensor, aten.div.Scalar, aten.divide.Tensor, aten.true_divide.Tensor)
_SUMS = (aten.add.Tensor,)
_FILLS = (aten.masked_fill.Scalar, aten.masked_fill.Tensor)
_VIEWS = (aten.expand.default, aten.reshape.default, aten.permute.default)
_CHOICES = (aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf)


@dataclass(frozen=True)
class Masked:
    """softmax(scores * factor) without the places where `mask` holds: there it has `fill`, or that is added."""

    scores: Node
    mask: Tensor
    fill: float
    added: bool
    factor: float = 1.0


def masked_softmax(like: Node, found: Masked, dim: int = -1) -> Node:
    """The call that takes the place of a softmax along `dim` of masked scores."""
    sizes = shape(found.scores)
    rank = len(sizes)
    order = [*(axis for axis in range(rank) if axis != dim % rank), dim % rank]
    mask = found.mask.expand(sizes).permute(order)
    nothing_left = mask.all(-1).reshape(-1).nonzero().reshape(-1).tolist()
    if nothing_left:
        raise CortadoError(
            f"{describe(like)}: the mask leaves nothing of row {nothing_left[0]} ({len(nothing_left)} of "
            f"{mask[..., 0].numel()} rows have nothing left), whose softmax would be 0 / 0; let every row keep a value"
        )
    while mask.dim() > 2 and bool((mask[:1] == mask).all()):  # the same for all: kept once
        mask = mask[0]
    constant = add_constant(like, "mask", mask)
    arguments = (constant, found.factor, found.fill, found.added)
    result = add_call(like, SOFTMAX_MASKED, add_permute(like, found.scores, order), *arguments)
    return add_permute(like, result, [order.index(axis) for axis in range(rank)])


def added_mask(scores: Node, data: Tensor) -> Masked | None:
    """A constant that is added, if it is a mask: 0 and large negative numbers."""
    mask = data != 0
    if data.dtype == torch.bool or not bool(mask.any()) or not bool((data[mask] <= LEAST).all()):
        return None
    return Masked(scores, mask, float(data[mask].max()), added=True)


def unmasked(node: Node) -> Masked | None:
    """What a softmax reads, as scores and a mask; None where there is no mask."""
    behind = 1.0  # factors between mask and softmax
    while (factor := _factor(node)) is not None:
        behind, node = behind * factor, node.all_input_nodes[0]
    found = _mask_at(node)
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


def _mask_at(node: Node) -> Masked | None:
    if is_call(node, *_SUMS):
        return _added(bind(node))
    if is_call(node, *_FILLS):
        bound = bind(node)
        return _filled(bound["self"], bound["mask"], bound["value"], negated=False)
    if is_call(node, *_CHOICES):
        bound = bind(node)
        condition, chosen, other = bound["condition"], bound["self"], bound["other"]
        return _filled(chosen, condition, other, negated=True) or _filled(other, condition, chosen, negated=False)
    return None


def _data(node: Any) -> Tensor | None:
    """A constant's data, also behind the views with which shapes are brought together."""
    if is_constant(node):
        return constant_data(node)
    source = _data(node.all_input_nodes[0]) if is_call(node, *_VIEWS) else None
    return None if source is None else node.target(source, *node.args[1:], **node.kwargs)


def _added(bound: Bound) -> Masked | None:
    left, right = bound["self"], bound["other"]
    if _data(left) is not None:
        left, right = right, left
    data = _data(right)
    if bound.get("alpha", 1) != 1 or not isinstance(left, Node) or _data(left) is not None or data is None:
        return None
    return added_mask(left, data)


def _filled(scores: Any, mask: Node, fill: Any, negated: bool) -> Masked | None:
    value = uniform_value(fill) if isinstance(fill, Node) else fill
    data = _data(mask)
    if not isinstance(scores, Node) or _data(scores) is not None or data is None or value is None:
        return None
    if data.dtype != torch.bool or value > LEAST:
        return None
    return Masked(scores, ~data if negated else data, float(value), added=False)


def of_masked(bound: Bound) -> Node | None:
    """softmax of masked scores."""
    found = unmasked(bound["self"]) if shape(bound["self"]) else None
    if found is None or (math.isfinite(found.fill) and _leaves_nothing(found, bound)):
        return None
    return masked_softmax(bound.node, found, bound["dim"])


def _leaves_nothing(found: Masked, bound: Bound) -> bool:
    """A row that is masked whole with numbers that are finite still has a softmax: no mask, but numbers."""
    return bool(found.mask.expand(shape(found.scores)).all(bound["dim"]).any())


MASK_REWRITE = Rewrite(aten=(aten.softmax.int, aten._softmax.default), rewrite=of_masked)
