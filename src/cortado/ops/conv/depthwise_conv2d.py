"""acc = bias + sum over taps((x + input_offset) * w); out = clamp(requant(acc) + output_offset).

Output channel c reads input channel c // depth_multiplier. NHWC input, weights [1, kh, kw, out_c].
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT8, element_of
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.base.target import CortexMTargetConfig
from cortado.ir.graph import TO_NCHW, TO_NHWC, Bound, shape
from cortado.ir.kernel import RowRule, Rows
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, Priority, PteWriter
from cortado.ir.roles import Activation, High, InOffset, Low, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ops import reach
from cortado.ops.conv import convolution, kernels
from cortado.ops.conv.convolution import (
    check_constants,
    cmsis_layer,
    finish,
    macs,
    requantization,
    spatial_shape,
    weighted,
    weighted_case,
    window,
)
from cortado.ops.conv.kernels import ConvForm

aten = torch.ops.aten


def reference(
    *,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    depth_multiplier: int,
    input_offset: InOffset,
    output_offset: OutZeroPoint,
    requantize_multipliers: Tensor,
    requantize_shifts: Tensor,
    activation_min: Low,
    activation_max: High,
) -> Tensor:
    (sh, sw), (ph, pw), (dh, dw) = stride, padding, dilation
    _, kh, kw, _ = weight.shape
    wide = element_of(input.dtype).symmetric
    number = torch.int64 if wide else torch.int32
    x = torch.nn.functional.pad(input.to(number) + input_offset, (0, 0, pw, pw, ph, ph))
    x = x.repeat_interleave(depth_multiplier, dim=3)
    height, width = x.shape[1] - dh * (kh - 1), x.shape[2] - dw * (kw - 1)  # where a window can start
    acc = torch.zeros((), dtype=number)
    # Tap by tap, for all windows at once: torch has no fast convolution of integers, nor a fast grouped one of float64.
    for i, j in product(range(kh), range(kw)):
        rows = x[:, dh * i : dh * i + height : sh, dw * j : dw * j + width : sw]
        acc = torch.addcmul(acc, rows, weight[0, i, j].to(number))
    acc = acc.to(torch.int64)
    if wide:
        factors = requantize_multipliers, requantize_shifts
        return reach.finish(acc, weight.permute(3, 1, 2, 0), bias, factors, (activation_min, activation_max))
    return finish(acc, bias, requantize_multipliers, requantize_shifts, output_offset, activation_min, activation_max)


def output_shape(call: Call) -> tuple[int, ...]:
    _, kh, kw, out_c = call.shape("weight")
    return spatial_shape(call, (kh, kw), out_c)


def match(bound: Bound) -> Quantization | Reject:
    """Takes convolutions in which every input channel has its own output channels.

    With a single input channel it is an ordinary convolution; several images make it a grouped one, because
    ExecuTorch's kernel takes only one image.
    """
    images, channels = shape(bound["input"])[:2]
    if bound["groups"] != channels or channels == 1 or images > 1:
        return Reject("not a depthwise convolution of one image")
    kind = bound.element
    if not kind.affine and shape(bound["weight"])[3] > reach.LONGEST_ROW:
        return Reject(f"has a window of {shape(bound['weight'])[3]} columns, expected at most {reach.LONGEST_ROW}")
    return check_constants(bound) or Quantization(weighted(bound, INT8), Activation(kind))


def lower(lowering: Lowering) -> Node:
    weight, groups = lowering.data("weight"), lowering.bound["groups"]
    assert weight is not None
    result = lowering.call(
        DEPTHWISE,
        input=lowering.transpose(lowering.node("input"), TO_NHWC),
        weight=lowering.constant("weight", weight.permute(1, 2, 3, 0)),
        depth_multiplier=weight.shape[0] // groups,
        **window(lowering.bound),
        **requantization(lowering, weight),
    )
    return lowering.transpose(result, TO_NCHW)


def from_grouped(call: Call) -> Call:
    """Converts a grouped convolution with one input channel per group into a call of this operator."""
    weight = call["weight"]
    arguments = {
        **call.arguments,
        "weight": weight.permute(3, 1, 2, 0).contiguous(),
        "depth_multiplier": weight.shape[0] // call.shape("input")[3],
    }
    return replace(call, operator=DEPTHWISE, arguments=arguments)


def in_pte(arguments: Mapping[str, Any], add: PteWriter, target: CortexMTargetConfig) -> Node:
    """Writes the call; on MVE, CMSIS-NN runs a layer with one input channel as an ordinary convolution, with its
    kernels."""
    if shape(arguments["input"])[3] > 1:
        return add(DEPTHWISE, **arguments)
    return convolution.in_pte(DEPTHWISE, arguments, 1, add, target)


def pte_scratch(call: Call, backend: Any) -> tuple[int, ...]:
    from executorch.backends.cortex_m.library import cmsis_nn

    size = cmsis_nn.depthwise_conv_wrapper_buffer_size(
        backend,
        cmsis_nn.DataType.A8W8,
        output_nhwc=call.out_shape,
        ch_mult=call["depth_multiplier"],
        **cmsis_layer(call),
    )
    return (int(size),)


def pte_limit(call: Call) -> str | None:
    images = call.shape("input")[0]
    return f"takes one image at a time, found a batch of {images}" if images > 1 else None


def rows(call: Call) -> Rows:
    return Rows((RowRule(call.shape("weight")[1], call["stride"][0], call["padding"][0], call["dilation"][0]),))


KERNELS = kernels.ConvKernels(ConvForm.DEPTHWISE)


def samples(draw: CaseDraw) -> dict[str, Any]:
    in_c, usual = draw.channels(), draw.flag()
    multiplier = 1 if usual else draw.pick([1, 1, 2, 3])
    kernel = draw.pick([(3, 3), (3, 3), (5, 5)] if usual else [(3, 3), (1, 1), (5, 5), (5, 5), (2, 3), (1, 4)])
    case = weighted_case(draw, kernel, (in_c, in_c * multiplier), (1, *kernel, in_c * multiplier), usual)
    return {**case, "depth_multiplier": multiplier}


DEPTHWISE = Operator(
    name="cortex_m::quantized_depthwise_conv2d_nhwc",
    summary="depthwise 2-D convolution, any depth multiplier, with bias and clamp",
    scratch=("scratch",),
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=rows,
    macs=macs,
    element=ElementOf(("input",)),
    pte=in_pte,
    pte_limit=pte_limit,
    pte_scratch=pte_scratch,
    weight_axis=3,
    constraints="constant weights and bias; sums that fit 32 bits; several images run as a grouped convolution",
    samples=samples,
)

DEPTHWISE_PATTERN = Pattern(
    aten=(aten.conv2d.default,),
    match=match,
    lower=lower,
    priority=Priority.SPECIAL,
    fuses_clamp=True,
    images=True,
    rounds_once=True,
)
