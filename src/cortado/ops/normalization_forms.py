"""Normalization by statistics of the data itself, and attention, in operators that there are.

Layer, group and instance normalization: (x - mean) * rsqrt(mean((x - mean)^2) + eps), then weight and bias. Every piece
is quantized by itself, so a step of the variance is a 255th of the largest one that calibration saw.
"""

import math
from collections.abc import Sequence

import torch
from torch.fx import Node

from cortado.graph import Bound, add_call, shape
from cortado.op import Rewrite
from cortado.ops._float import add_constant, add_view, constant_data, is_constant

aten = torch.ops.aten


def normalized(like: Node, x: Node, dims: Sequence[int], eps: float) -> Node:
    centred = add_call(like, aten.sub.Tensor, x, add_call(like, aten.mean.dim, x, list(dims), True))
    squared = add_call(like, aten.mul.Tensor, centred, centred)
    variance = add_call(like, aten.mean.dim, squared, list(dims), True)
    factor = add_call(like, aten.rsqrt.default, add_call(like, aten.add.Tensor, variance, eps))
    return add_call(like, aten.mul.Tensor, centred, factor)


def _scaled(like: Node, x: Node, weight: Node | None, bias: Node | None, sizes: Sequence[int]) -> Node:
    """x * weight + bias, both spread over dimensions of these sizes."""
    if weight is not None:
        x = add_call(like, aten.mul.Tensor, x, add_constant(like, "weight", constant_data(weight).reshape(sizes)))
    if bias is not None:
        x = add_call(like, aten.add.Tensor, x, add_constant(like, "bias", constant_data(bias).reshape(sizes)))
    return x


def _constants(bound: Bound) -> bool:
    return all(bound[name] is None or is_constant(bound[name]) for name in ("weight", "bias"))


def layer_norm(bound: Bound) -> Node | None:
    if not _constants(bound):
        return None
    x: Node = bound["input"]
    sizes = [int(size) for size in bound["normalized_shape"]]
    dims = range(len(shape(x)) - len(sizes), len(shape(x)))
    return _scaled(bound.node, normalized(bound.node, x, dims, bound["eps"]), bound["weight"], bound["bias"], sizes)


def group_norm(bound: Bound) -> Node | None:
    return _by_groups(bound, int(bound["num_groups"])) if _constants(bound) else None


def instance_norm(bound: Bound) -> Node | None:
    """With statistics of the image at hand; recorded ones are batch normalization."""
    if not bound["use_input_stats"] or not _constants(bound):
        return None
    return _by_groups(bound, shape(bound["input"])[1])


def _by_groups(bound: Bound, groups: int) -> Node:
    x: Node = bound["input"]
    n, channels, *spatial = sizes = shape(x)
    flat = add_view(bound.node, x, (n, groups, math.prod(sizes[1:]) // groups))
    result = add_view(bound.node, normalized(bound.node, flat, [2], bound["eps"]), sizes)
    return _scaled(bound.node, result, bound["weight"], bound["bias"], [channels, *(1 for _ in spatial)])


def attention(bound: Bound) -> Node | None:
    """softmax(query x key^T * scale) x value. A mask would need minus infinity, which no int8 scale has."""
    if bound["attn_mask"] is not None or bound["is_causal"] or bound["dropout_p"] or bound.get("enable_gqa"):
        return None
    like, query, key, value = bound.node, bound["query"], bound["key"], bound["value"]
    scale = bound["scale"] if bound["scale"] is not None else 1 / math.sqrt(shape(query)[-1])
    scores = add_call(like, aten.matmul.default, query, add_call(like, aten.transpose.int, key, -2, -1))
    weights = add_call(like, aten.softmax.int, add_call(like, aten.mul.Tensor, scores, scale), -1)
    return add_call(like, aten.matmul.default, weights, value)


LAYER_NORM_REWRITE = Rewrite(aten=(aten.layer_norm.default,), rewrite=layer_norm)
GROUP_NORM_REWRITE = Rewrite(aten=(aten.group_norm.default,), rewrite=group_norm)
INSTANCE_NORM_REWRITE = Rewrite(aten=(aten.instance_norm.default,), rewrite=instance_norm)
ATTENTION_REWRITE = Rewrite(aten=(aten.scaled_dot_product_attention.default,), rewrite=attention)
