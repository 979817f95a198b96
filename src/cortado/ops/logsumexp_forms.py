"""logsumexp, written out in operators that exist."""

from collections.abc import Sequence

import torch
from torch.fx import Node

from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.op import Rewrite
from cortado.ops.reductions import dims_of, reduce

aten = torch.ops.aten


def logsumexp(bound: Bound) -> Node | None:
    """log(sum(exp(x - m))) + m with the largest x as m, so that the sum is at least 1."""
    like, source = bound.node, bound["self"]
    sizes, dims = shape(source), dims_of(bound, len(shape(source)))
    largest = reduce(like, source, dims, "max", _kept(sizes, dims))
    if largest is None:
        return None
    parts = add_call(like, aten.exp.default, add_call(like, aten.sub.Tensor, source, largest))
    total = reduce(like, parts, dims, "sum", _kept(sizes, dims))
    if total is None:
        return None
    result = add_call(like, aten.add.Tensor, add_call(like, aten.log.default, total), largest)
    return add_call(like, aten.reshape.default, result, list(shape(like)))


def _kept(sizes: Sequence[int], dims: frozenset[int]) -> list[int]:
    """The shape with the reduced dimensions as 1."""
    return [1 if dim in dims else size for dim, size in enumerate(sizes)]


LOGSUMEXP_REWRITE = Rewrite(aten=(aten.logsumexp.default,), rewrite=logsumexp)
