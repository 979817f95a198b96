"""How far the values of a call can reach, from how far those of its operands do: for tensors that nobody observed."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from cortado.base.numerics import QParams
from cortado.ops._float import constant_data
from cortado.ops.pointwise import FUNCTIONS, POINTWISE

Tensor = torch.Tensor
Span = tuple[float, float]
aten = torch.ops.aten
# Of each operand alone they rise or fall all the way: their extremes are at extremes of the operands.
_MONOTONE = (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.maximum.default, aten.minimum.default)
_MEANS = (aten.avg_pool2d.default, aten.mean.dim)  # between the least of their values and the largest


def reach(node: Node, operands: Mapping[Node, QParams]) -> Span | None:
    """The least and the largest value that a call can give for any codes of its operands; None where it isn't known."""
    if node.target in FUNCTIONS or node.target == POINTWISE:
        (operand, qparams), *others = operands.items()
        return None if others else _ends(_given(node, {operand: every_value(qparams)}))
    if node.target in _MONOTONE:
        ends = [every_value(qparams)[[0, -1]] for qparams in operands.values()]
        corners = [dict(zip(operands, corner, strict=True)) for corner in product(*ends)]
        return _ends(torch.stack([_given(node, corner) for corner in corners]))
    if node.target in _MEANS and len(operands) == 1:
        return hull(operands.values())
    return None


def hull(several: Iterable[QParams]) -> Span:
    """All that tensors of these parameters can hold."""
    values = torch.cat([every_value(qparams)[[0, -1]] for qparams in several])
    return float(values.min()), float(values.max())


def every_value(qparams: QParams) -> Tensor:
    """What the codes of an 8-bit tensor stand for, from the smallest on."""
    low, high = qparams.element.codes
    return (torch.arange(low, high + 1, dtype=torch.float32) - qparams.zero_point) * qparams.scale


def _given(node: Node, values: Mapping[Node, Tensor]) -> Tensor:
    def value(operand: Node) -> Any:
        return values[operand] if operand in values else constant_data(operand)

    target: Any = node.target
    result: Tensor = target(*map_arg(node.args, value), **map_arg(node.kwargs, value))
    return result


def _ends(values: Tensor) -> Span | None:
    if not bool(torch.isfinite(values).all()):
        return None
    return float(values.min()), float(values.max())
