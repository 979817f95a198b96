"""Images that are resized by weights along each axis: bicubic, with anti-aliasing, and volumes.

Every output pixel is a sum of input pixels, and its weights are products of one for each axis. So each axis is a linear
layer along its dimension, whose weights are what the call itself makes of rows that are 0 but for a single 1.
"""

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.op import Rewrite
from cortado.ops._float import add_constant, add_permute

aten = torch.ops.aten
Tensor = torch.Tensor


def _weights(bound: Bound, axis: int, spatial: int) -> Tensor:
    """[out, in]: of what each output pixel is made along one axis."""
    target: Any = bound.node.target
    assert isinstance(target, OpOverload)
    size, out = shape(bound["input"])[2 + axis], shape(bound.node)[2 + axis]
    others: dict[str, Any] = {name: value for name, value in bound.values.items() if name != "input"}
    if others.get("output_size") is not None:
        others["output_size"] = [out if one == axis else STILL for one in range(spatial)]
    factors = others.get("scale_factors")
    if factors is not None:
        others["scale_factors"] = [float(one) if place == axis else 1.0 for place, one in enumerate(factors)]
    single = torch.eye(size).reshape(1, size, *(size if one == axis else 1 for one in range(spatial)))
    image = single.expand(1, size, *(size if one == axis else STILL for one in range(spatial)))
    made: Tensor = target(image.contiguous(), **others)
    return made.movedim(2 + axis, 2).reshape(size, out, -1)[..., 0].T


STILL = 2  # pixels along the other axes, which keep their size: of a single one torch makes mistakes


def resized(bound: Bound) -> Node | None:
    like, result = bound.node, bound["input"]
    rank = len(shape(result))
    for axis in range(rank - 2):
        weights = _weights(bound, axis, rank - 2)
        if torch.equal(weights, torch.eye(*weights.shape)):
            continue
        last = [*(dim for dim in range(rank) if dim != 2 + axis), 2 + axis]
        rows = add_permute(like, result, last)
        made = add_call(like, aten.linear.default, rows, add_constant(like, "weight", weights))
        result = add_permute(like, made, [last.index(dim) for dim in range(rank)])
    return result


RESIZED_REWRITE = Rewrite(
    aten=(
        aten.upsample_bicubic2d.vec,
        aten._upsample_bilinear2d_aa.vec,
        aten._upsample_bicubic2d_aa.vec,
        aten.upsample_trilinear3d.vec,
    ),
    rewrite=resized,
)
