"""A linear layer is a 1x1 convolution over one pixel per row of its input: per-channel weights, no ISA dependence."""

import math

import torch
from torch.fx import Node

from cortado.errors import Reject
from cortado.graph import Bound, shape
from cortado.op import Lowering, Pattern, Quantization
from cortado.ops import conv2d

aten = torch.ops.aten


def match(bound: Bound) -> Quantization | Reject:
    return conv2d.check_constants(bound) or Quantization(conv2d.WEIGHTED)


def lower(lowering: Lowering) -> Node:
    weight = lowering.data("weight")
    assert weight is not None
    source = lowering.node("input")
    *leading, in_c = shape(source)
    out_c = weight.shape[0]
    result = lowering.call(
        conv2d.CONV2D,
        input=lowering.view(source, (1, 1, math.prod(leading), in_c)),
        weight=lowering.constant("weight", weight.reshape(out_c, 1, 1, in_c)),
        stride=[1, 1],
        padding=[0, 0],
        dilation=[1, 1],
        **conv2d.requantization(lowering, weight),
    )
    return lowering.view(result, (*leading, out_c))


LINEAR_PATTERN = Pattern(aten=(aten.linear.default,), match=match, lower=lower, fuses_clamp=True)
