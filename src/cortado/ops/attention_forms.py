"""Attention in operators that there are: two matrix products and a softmax."""

import math

import torch
from torch.fx import Node

from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.op import Rewrite

aten = torch.ops.aten


def attention(bound: Bound) -> Node | None:
    """softmax(query x key^T * scale) x value. A mask would need minus infinity, which no int8 scale has."""
    if bound["attn_mask"] is not None or bound["is_causal"] or bound["dropout_p"] or bound.get("enable_gqa"):
        return None
    like, query, key, value = bound.node, bound["query"], bound["key"], bound["value"]
    scale = bound["scale"] if bound["scale"] is not None else 1 / math.sqrt(shape(query)[-1])
    scores = add_call(like, aten.matmul.default, query, add_call(like, aten.transpose.int, key, -2, -1))
    weights = add_call(like, aten.softmax.int, add_call(like, aten.mul.Tensor, scores, scale), -1)
    return add_call(like, aten.matmul.default, weights, value)


ATTENTION_REWRITE = Rewrite(aten=(aten.scaled_dot_product_attention.default,), rewrite=attention)
