"""aten.convolution, as decomposed graphs have it: each kind under its own name, in the spelling the rest knows."""

import torch
from torch.fx import Node

from cortado.ir.graph import Bound, add_call, bind, shape
from cortado.ir.op import Rewrite
from cortado.ops.convolution_forms import conv1d_to_conv2d, to_conv2d
from cortado.ops.transpose_conv2d import to_conv_transpose2d

aten = torch.ops.aten

_KINDS = {
    (1, False): (aten.conv1d.default, conv1d_to_conv2d),
    (2, False): (aten.conv2d.default, to_conv2d),
    (1, True): (aten.conv_transpose1d.default, to_conv_transpose2d),
    (2, True): (aten.conv_transpose2d.input, to_conv_transpose2d),
}


def to_named(bound: Bound) -> Node | None:
    kind = _KINDS.get((len(shape(bound["weight"])) - 2, bool(bound["transposed"])))
    if kind is None:
        return None
    target, rewrite = kind
    names = [argument.name for argument in target._schema.arguments]
    named = add_call(bound.node, target, *(bound[name] for name in names))
    return rewrite(bind(named)) or named


CONVOLUTION_REWRITE = Rewrite(aten=(aten.convolution.default,), rewrite=to_named)
