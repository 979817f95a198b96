"""Attention in operators that there are: two matrix products, a mask and a softmax."""

import math

import torch
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.op import Lowering, Pattern, Rewrite
from cortado.ops._float import add_constant, constant_data, is_constant

aten = torch.ops.aten


def refusal(bound: Bound) -> str | None:
    """What can't be taken of a call of scaled_dot_product_attention."""
    if bound["dropout_p"]:
        return f"drops attention weights out (dropout_p={bound['dropout_p']:g}); give dropout_p=0.0 in evaluation mode"
    return None


def attention(bound: Bound) -> Node | None:
    """softmax(query x key^T * scale + mask) x value."""
    if refusal(bound) is not None:
        return None
    like, query, key, value = bound.node, bound["query"], bound["key"], bound["value"]
    if bound.get("enable_gqa"):
        key, value = _for_all_heads(like, query, key), _for_all_heads(like, query, value)
    scale = bound["scale"] if bound["scale"] is not None else 1 / math.sqrt(shape(query)[-1])
    scores = add_call(like, aten.matmul.default, query, add_call(like, aten.transpose.int, key, -2, -1))
    return add_call(like, aten.matmul.default, _weights(bound, scores, scale), value)


def _for_all_heads(like: Node, query: Node, shared: Node) -> Node:
    """Grouped queries: several heads in a row have one key and one value."""
    times = shape(query)[-3] // shape(shared)[-3]
    return shared if times == 1 else add_call(like, aten.repeat_interleave.self_int, shared, times, -3)


def _weights(bound: Bound, scores: Node, scale: float) -> Node:
    """softmax of the scores, with the mask in one of the forms that a model may write it in."""
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
    """Only what the rewrite leaves alone comes here."""
    return Reject(refusal(bound) or "is not written out")


def lower(lowering: Lowering) -> Node:
    raise AssertionError("scaled_dot_product_attention is written out before it is quantized")


ATTENTION_REWRITE = Rewrite(aten=(aten.scaled_dot_product_attention.default,), rewrite=attention)
ATTENTION_PATTERN = Pattern(aten=(aten.scaled_dot_product_attention.default,), match=match, lower=lower)
