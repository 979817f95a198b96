"""lerp: a point between two tensors is a sum with factors."""

import torch
from torch.fx import Node

from cortado.ir.graph import Bound, add_call
from cortado.ir.op import Rewrite
from cortado.ops.pointwise import uniform_value

aten = torch.ops.aten


def between(bound: Bound) -> Node:
    """(1 - weight) * self + weight * end; with a weight for each element self + weight * (end - self)."""
    like, start, end, weight = bound.node, bound["self"], bound["end"], bound["weight"]
    number = uniform_value(weight) if isinstance(weight, Node) else weight
    if number is None:
        step = add_call(like, aten.mul.Tensor, add_call(like, aten.sub.Tensor, end, start), weight)
        return add_call(like, aten.add.Tensor, start, step)
    part = add_call(like, aten.mul.Tensor, start, 1.0 - float(number))
    if number == 0:  # an addition has no such factor
        return add_call(like, aten.add.Tensor, part, add_call(like, aten.mul.Tensor, end, 0.0))
    return add_call(like, aten.add.Tensor, part, end, alpha=float(number))


LERP_REWRITE = Rewrite(aten=(aten.lerp.Scalar, aten.lerp.Tensor), rewrite=between)
