"""Batch normalization is x * scale[c] + shift[c]: folded into the layer before it, or a 1x1 depthwise convolution."""

import math

import torch
from torch.fx import Node

from cortado.base.errors import CortadoError
from cortado.ir.graph import Bound, add_call, bind, describe, is_call, shape, sole_user
from cortado.ir.op import Rewrite
from cortado.ops.float_graph import (
    add_constant,
    add_permute,
    add_view,
    constant_data,
    is_constant,
    replace_values,
    values_only,
)

aten = torch.ops.aten
Tensor = torch.Tensor

_CONVOLUTIONS = (aten.conv2d.default, aten.conv_transpose2d.input)


def affine(bound: Bound) -> tuple[Tensor, Tensor] | None:
    """Returns (scale, shift) per channel; None in training mode or if statistics are not constant."""
    if bound.get("training"):
        return None
    constants = [bound[name] for name in ("running_mean", "running_var", "weight", "bias")]
    if not all(is_constant(node) for node in constants[:2]) or not all(
        node is None or is_constant(node) for node in constants[2:]
    ):
        return None
    mean, variance = constant_data(constants[0]), constant_data(constants[1])
    scale = torch.rsqrt(variance.to(torch.float64) + float(bound["eps"]))
    if constants[2] is not None:
        scale = scale * constant_data(constants[2])
    shift = -mean * scale
    return scale, shift if constants[3] is None else shift + constant_data(constants[3])


def layer_before(node: Node) -> Node | None:
    """Returns the convolution or linear layer whose output channels are the normalized ones, if nothing else reads
    it."""
    axis: int | None = 1
    while axis is not None and sole_user(node) is not None and is_call(node, *_MOVES):
        node, axis = node.all_input_nodes[0], _axis_before(node, axis)
    if axis is None or sole_user(node) is None or not is_call(node, *_CONVOLUTIONS, aten.linear.default):
        return None
    if axis != (len(shape(node)) - 1 if is_call(node, aten.linear.default) else 1):
        return None
    bound = bind(node)
    constant = is_constant(bound["weight"]) and (bound["bias"] is None or is_constant(bound["bias"]))
    grouped = node.target == aten.conv_transpose2d.input and bound["groups"] != 1
    return node if constant and not grouped else None


_MOVES = (aten.reshape.default, aten.view.default, aten.permute.default, aten.transpose.int)


def _axis_before(node: Node, axis: int) -> int | None:
    """Returns the dimension of the operand of a reshape or a permutation that becomes this one of its result, if there
    is one."""
    bound, before, behind = bind(node), shape(node.all_input_nodes[0]), shape(node)
    if is_call(node, aten.permute.default):
        return int(bound["dims"][axis]) % len(before)
    if is_call(node, aten.transpose.int):
        order = list(range(len(before)))
        first, second = bound["dim0"], bound["dim1"]
        order[first], order[second] = order[second], order[first]
        return order[axis]
    inner = math.prod(behind[axis + 1 :])
    same = (dim for dim, size in enumerate(before) if size == behind[axis] and math.prod(before[dim + 1 :]) == inner)
    return next(same, None)


def fold(layer: Node, scale: Tensor, shift: Tensor) -> None:
    """Replaces the layer's weights by weights * scale, and its bias by bias * scale + shift."""
    bound = bind(layer)
    weight = constant_data(bound["weight"]).to(torch.float64)
    axis = 1 if layer.target == aten.conv_transpose2d.input else 0
    sizes = [1] * weight.dim()
    sizes[axis] = -1
    bias = 0.0 if bound["bias"] is None else constant_data(bound["bias"]).to(torch.float64)
    with layer.graph.inserting_before(layer):
        new = {
            "weight": add_constant(layer, "weight", (weight * scale.reshape(sizes)).to(torch.float32)),
            "bias": add_constant(layer, "bias", (bias * scale + shift).to(torch.float32)),
        }
    layer.args, layer.kwargs = tuple({**bound.values, **new}.values()), {}


def as_convolution(like: Node, source: Node, scale: Tensor, shift: Tensor) -> Node:
    """Adds x * scale + shift as a 1x1 depthwise convolution, with the tensor viewed as images."""
    n, channels, *spatial = sizes = shape(source)
    if spatial:
        height = 1 if len(spatial) == 1 else torch.Size(spatial[:-1]).numel()
        images = add_view(like, source, (n, channels, height, spatial[-1]))
    else:
        images = add_permute(like, add_view(like, source, (1, n, 1, channels)), (0, 3, 1, 2))
    weight = add_constant(like, "weight", scale.to(torch.float32).reshape(-1, 1, 1, 1))
    bias = add_constant(like, "bias", shift.to(torch.float32))
    arguments = (images, weight, bias, [1, 1], [0, 0], [1, 1], channels)
    result = add_call(like, aten.conv2d.default, *arguments)
    return add_view(like, result if spatial else add_permute(like, result, (0, 2, 3, 1)), sizes)


def _normalized(bound: Bound) -> Node | None:
    source: Node = bound["input"]
    if bound["running_mean"] is None:
        raise CortadoError(
            f"{describe(bound.node)} has no running statistics, so it would need those of each input; train the model "
            "with track_running_stats=True"
        )
    factors = affine(bound)
    if factors is None:
        return None
    layer = layer_before(source)
    if layer is None:
        return as_convolution(bound.node, source, *factors)
    fold(layer, *factors)
    return source


def values_of_normalized(bound: Bound) -> None:
    """Rewrites the batch norm of decomposed graphs, which also returns its statistics, if only its values are read."""
    users = values_only(bound.node)
    values = _normalized(bound) if users else None
    if users and values is not None:
        replace_values(users, values)


BATCH_NORM_REWRITE = Rewrite(aten=(aten.batch_norm.default,), rewrite=_normalized, any_element=True)
DECOMPOSED_REWRITE = Rewrite(
    aten=(aten._native_batch_norm_legit_no_training.default,), rewrite=values_of_normalized, any_element=True
)
