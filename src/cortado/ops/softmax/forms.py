"""Attention in terms of other calls: two matrix products, a mask and a softmax.

Also logsumexp, and the lowest code for masked values: it is below the code of every value that is kept, so a maximum,
its position and topk ignore masked values. The lowest code represents minus infinity there; values that are kept have
at least the next code.
"""

import math
from collections.abc import Sequence

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import INT8
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.op import Lowering, Pattern, Rewrite
from cortado.ir.roles import Quantization, SharedWith
from cortado.ir.schemas import Functions
from cortado.ops.elementwise.activation import all_codes, table
from cortado.ops.elementwise.requantize import requantized
from cortado.ops.elementwise.where import WHERE
from cortado.ops.float_graph import add_constant, constant_data, is_constant
from cortado.ops.integer.truth import truth_codes
from cortado.ops.pool.reductions import Reduction, dims_of, reduce
from cortado.ops.softmax.masked_softmax import hidden, is_constant_mask, roles

# ---- attention forms -------------------------------------------------------------------------------------

aten = torch.ops.aten


def refusal(bound: Bound) -> str | None:
    """Returns the reason why a call of scaled_dot_product_attention is refused, or None."""
    if bound["dropout_p"]:
        return (
            f"applies dropout to attention weights (dropout_p={bound['dropout_p']:g}); give dropout_p=0.0 in "
            "evaluation mode"
        )
    return None


def attention(bound: Bound) -> Node | None:
    """Rewrites attention as softmax(query x key^T * scale + mask) x value."""
    if refusal(bound) is not None:
        return None
    like, query, key, value = bound.node, bound["query"], bound["key"], bound["value"]
    if bound.get("enable_gqa"):
        key, value = _for_all_heads(like, query, key), _for_all_heads(like, query, value)
    scale = bound["scale"] if bound["scale"] is not None else 1 / math.sqrt(shape(query)[-1])
    scores = add_call(like, aten.matmul.default, query, add_call(like, aten.transpose.int, key, -2, -1))
    return add_call(like, aten.matmul.default, _weights(bound, scores, scale), value)


def _for_all_heads(like: Node, query: Node, shared: Node) -> Node:
    """Repeats a shared key or value for grouped queries, where several consecutive heads share one."""
    times = shape(query)[-3] // shape(shared)[-3]
    return shared if times == 1 else add_call(like, aten.repeat_interleave.self_int, shared, times, -3)


def _weights(bound: Bound, scores: Node, scale: float) -> Node:
    """Returns the softmax of the scores, with the mask in one of the forms that models use."""
    like, given = bound.node, bound["attn_mask"]
    scaled = add_call(like, aten.mul.Tensor, scores, scale)
    if bound["is_causal"]:
        later = add_constant(like, "later", torch.ones(shape(scores)[-2:], dtype=torch.bool).triu(1))
        scaled = add_call(like, aten.masked_fill.Scalar, scaled, later, -math.inf)
    elif given is not None and dtype(given) == torch.bool:
        hidden = _negated(like, given)
        scaled = add_call(like, aten.masked_fill.Scalar, scaled, hidden, -math.inf)
    elif given is not None:
        scaled = add_call(like, aten.add.Tensor, scaled, given)
    return add_call(like, aten.softmax.int, scaled, -1)


def _negated(like: Node, mask: Node) -> Node:
    if is_constant(mask):
        return add_constant(like, "hidden", ~constant_data(mask))
    return add_call(like, aten.logical_not.default, mask)


def match(bound: Bound) -> Reject:
    """Refuses the calls that the rewrite left alone."""
    return Reject(refusal(bound) or "is not written out")


def lower(lowering: Lowering) -> Node:
    raise AssertionError("scaled_dot_product_attention is written out before it is quantized")


ATTENTION_REWRITE = Rewrite(aten=(aten.scaled_dot_product_attention.default,), rewrite=attention)
ATTENTION_PATTERN = Pattern(aten=(aten.scaled_dot_product_attention.default,), match=match, lower=lower)


# ---- logsumexp forms -------------------------------------------------------------------------------------


def logsumexp(bound: Bound) -> Node | None:
    """Rewrites logsumexp as log(sum(exp(x - m))) + m with the largest x as m, so that the sum is at least 1."""
    like, source = bound.node, bound["self"]
    sizes, dims = shape(source), dims_of(bound, len(shape(source)))
    largest = reduce(like, source, dims, Reduction.MAX, _kept(sizes, dims))
    if largest is None:
        return None
    parts = add_call(like, aten.exp.default, add_call(like, aten.sub.Tensor, source, largest))
    total = reduce(like, parts, dims, Reduction.SUM, _kept(sizes, dims))
    if total is None:
        return None
    result = add_call(like, aten.add.Tensor, add_call(like, aten.log.default, total), largest)
    return add_call(like, aten.reshape.default, result, list(shape(like)))


def _kept(sizes: Sequence[int], dims: frozenset[int]) -> list[int]:
    """Returns the shape with the reduced dimensions as 1."""
    return [1 if dim in dims else size for dim, size in enumerate(sizes)]


LOGSUMEXP_REWRITE = Rewrite(aten=(aten.logsumexp.default,), rewrite=logsumexp)


# ---- lowest ----------------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define("lowest_elsewhere(Tensor input, Tensor kept, bool infinite) -> Tensor")


def _in_float(input: Tensor, kept: Tensor, infinite: bool) -> Tensor:
    """Replaces masked values by -inf if the model has that, else by a number below all others. In a row that is masked
    whole neither is meaningful, but a difference to such a number can be."""
    low, high = input.aminmax()
    return torch.where(kept != 0, input, -math.inf if infinite else low - 1e-3 * (high - low) - 1e-6)


_LIBRARY.impl("lowest_elsewhere", _in_float, "CompositeExplicitAutograd")
_LIBRARY.impl("lowest_elsewhere", lambda input, kept, infinite: torch.empty_like(input), "Meta")

LOWEST_ELSEWHERE: OpOverload = torch.ops.cortado.lowest_elsewhere.default


def lowest_match(bound: Bound) -> Quantization:
    return Quantization(roles(bound, "kept"), SharedWith("input"))


def lowest_lower(lowering: Lowering) -> Node:
    source, q = lowering.node("input"), lowering.q("input")
    if q.element.symmetric:
        above = requantized(lowering, source, q, q, (q.element.low + 1, q.element.high))
    else:
        above = table(lowering, source, all_codes().clamp(min=INT8.low + 1).to(torch.int8))
    if is_constant_mask(lowering.bound["kept"]):
        data = lowering.data("kept")
        assert data is not None
        kept = lowering.constant("kept", data.expand(shape(source)).to(torch.int8))
    else:
        kept = lowering.view(truth_codes(lowering, "kept"), shape(source))
    return lowering.call(WHERE, mask=kept, self=[above], other=[], number=q.element.low)


LOWEST_PATTERN = Pattern(aten=(LOWEST_ELSEWHERE,), match=lowest_match, lower=lowest_lower, hidden=hidden)
