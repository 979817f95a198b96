"""Attention in operators that there are: two matrix products, and a softmax that takes the mask."""

import math
from dataclasses import replace

import torch
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.op import Lowering, Pattern, Rewrite
from cortado.ops._float import constant_data, is_constant
from cortado.ops.mask_forms import LEAST, Kept, Masked, added_mask, hidden_by, kept_softmax, masked_softmax

aten = torch.ops.aten
Tensor = torch.Tensor


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
    like, mask = bound.node, _constant_mask(bound, scores)
    if mask is not None:
        return masked_softmax(like, Masked(scores, mask.mask, mask.fill, mask.added, scale))
    kept = _computed_mask(bound, scores)
    if kept is not None:
        return kept_softmax(like, replace(kept, factor=scale))
    return _biased(bound, add_call(like, aten.mul.Tensor, scores, scale))


def _biased(bound: Bound, scaled: Node) -> Node:
    """With numbers that are added to the scores, of which some may hide them."""
    like, given = bound.node, bound["attn_mask"]
    if given is None or dtype(given) == torch.bool:
        return add_call(like, aten.softmax.int, scaled, -1)
    masked = added_mask(like, scaled, constant_data(given)) if is_constant(given) else None
    if masked is not None:
        return masked_softmax(like, masked)
    return add_call(like, aten.softmax.int, add_call(like, aten.add.Tensor, scaled, given), -1)


def _computed_mask(bound: Bound, scores: Node) -> Kept | None:
    """What a mask that is no constant keeps."""
    given = bound["attn_mask"]
    if given is None or is_constant(given):
        return None
    if dtype(given) == torch.bool:
        return Kept(scores, given, -math.inf, added=False)
    hidden = hidden_by(bound.node, given)
    if hidden is None:
        return None
    return Kept(scores, add_call(bound.node, aten.logical_not.default, hidden.where), hidden.fill, added=True)


def _constant_mask(bound: Bound, scores: Node) -> Masked | None:
    """What does not count whatever the scores are; None where nothing is masked, or numbers are added."""
    given = bound["attn_mask"]
    if bound["is_causal"]:
        return Masked(scores, torch.ones(shape(scores)[-2:], dtype=torch.bool).triu(1), -math.inf, added=False)
    if given is None or not is_constant(given):
        return None
    data = constant_data(given)
    if data.dtype != torch.bool:
        only = bool((data[data != 0] <= LEAST).all())
        return added_mask(bound.node, scores, data) if only else None
    return Masked(scores, ~data, -math.inf, added=False) if bool((~data).any()) else None


def match(bound: Bound) -> Reject:
    """Only what the rewrite leaves alone comes here."""
    return Reject(refusal(bound) or "is not written out")


def lower(lowering: Lowering) -> Node:
    raise AssertionError("scaled_dot_product_attention is written out before it is quantized")


ATTENTION_REWRITE = Rewrite(aten=(aten.scaled_dot_product_attention.default,), rewrite=attention)
ATTENTION_PATTERN = Pattern(aten=(aten.scaled_dot_product_attention.default,), match=match, lower=lower)
