"""triu, tril and masked_fill with a constant mask: a product with ones and zeros, and the filling added.

x[mask] = number is a masked_fill, whatever the mask is.
"""

import torch
from torch.fx import Node

from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, add_call, bind, shape
from cortado.ir.op import Rewrite
from cortado.ops._float import add_constant, add_view, constant_data, is_constant
from cortado.ops.placing_forms import placed
from cortado.ops.pointwise import uniform_value

aten = torch.ops.aten
Tensor = torch.Tensor

_LARGE = 20.0  # what is filled with such a number has a range of its own


def _zeroed(like: Node, source: Node, kept: Tensor) -> Node:
    """`kept` is 1 where a value stays and 0 elsewhere."""
    return add_call(like, aten.mul.Tensor, source, add_constant(like, "kept", kept.to(dtype(source))))


def triangle(bound: Bound) -> Node:
    target, sizes = bound.node.target, shape(bound["self"])
    kept = torch.ones(sizes[-2:])
    upper = target == aten.triu.default
    return _zeroed(bound.node, bound["self"], kept.triu(bound["diagonal"]) if upper else kept.tril(bound["diagonal"]))


def filled(bound: Bound) -> Node | None:
    """masked_fill with a small number by a constant mask; a large one would take the range of the others."""
    like, mask, value = bound.node, bound["mask"], bound["value"]
    number = uniform_value(value) if isinstance(value, Node) else value
    if number is None or not is_constant(mask) or not abs(float(number)) < _LARGE or is_constant(bound["self"]):
        return None
    data = constant_data(mask)
    if bool((data == data.reshape(-1)[0]).all()):
        return None  # a function of one tensor
    return zeroed(like, bound["self"], ~data, float(number))


def zeroed(like: Node, source: Node, kept: Tensor, number: float) -> Node:
    """A tensor where `kept` holds, and a number elsewhere."""
    result = _zeroed(like, source, kept)
    if number == 0:
        return result
    return add_call(like, aten.add.Tensor, result, add_constant(like, "filling", ~kept * number))


def written(bound: Bound) -> Node | None:
    """A number, written where a mask holds: over the dimensions that it has, from the place on where it stands."""
    like, source, indices = bound.node, bound["self"], bound["indices"]
    given = [(place, one) for place, one in enumerate(indices) if one is not None]
    number = uniform_value(bound["values"])
    if bound["accumulate"]:
        return None
    if number is None or len(given) != 1 or dtype(given[0][1]) != torch.bool:
        return placed(bound, "values")
    place, mask = given[0]
    behind = len(shape(source)) - place - len(shape(mask))
    if is_constant(mask):
        mask = add_constant(like, "mask", constant_data(mask).reshape(*shape(mask), *(1,) * behind))
    else:
        mask = add_view(like, mask, (*shape(mask), *(1,) * behind))
    new = add_call(like, aten.masked_fill.Scalar, source, mask, float(number))
    return filled(bind(new)) or new


TRIANGLE_REWRITE = Rewrite(aten=(aten.triu.default, aten.tril.default), rewrite=triangle)
FILLED_REWRITE = Rewrite(aten=(aten.masked_fill.Scalar, aten.masked_fill.Tensor), rewrite=filled)
WRITTEN_REWRITE = Rewrite(aten=(aten.index_put.default,), rewrite=written)
