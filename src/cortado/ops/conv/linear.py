"""A linear layer is a 1x1 convolution over one pixel per row of its input: per-channel weights, the same for every ISA.

quantized_linear is the other form, with one scale for all weights: acc = bias + sum((x + input_offset) * w); out =
clamp(requant(acc) + output_offset). On MVE ExecuTorch reads kernel_sum = bias + input_offset * sum(w) instead of bias,
elsewhere bias instead of kernel_sum.
"""

import math
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT4, INT8
from cortado.base.errors import CortadoError, Reject
from cortado.base.numerics import Fixed, Tensor
from cortado.base.target import Isa
from cortado.ir import sampling
from cortado.ir.graph import Bound, shape
from cortado.ir.kernel import ONE_ROW, Rows
from cortado.ir.kernel_table import Several
from cortado.ir.op import Call, Lowering, Operator, Pattern
from cortado.ir.roles import Activation, High, InOffset, Low, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ops.conv import conv2d, kernels
from cortado.ops.conv.convolution import check_constants, check_sums, finish, requantization, sum_bounds, weighted
from cortado.options import LinearWeights

aten = torch.ops.aten


def match(bound: Bound) -> Quantization | Reject:
    output = Activation(bound.element)
    return check_constants(bound) or Quantization(weighted(bound, INT4), output, channel_axis=-1)


def lower(lowering: Lowering) -> Node:
    if lowering.linear is LinearWeights.PER_TENSOR and lowering.out.element.affine:
        return lower_per_tensor(lowering)
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
        **requantization(lowering, weight),
    )
    return lowering.view(result, (*leading, out_c))


LINEAR_PATTERN = Pattern(aten=(aten.linear.default,), match=match, lower=lower, fuses_clamp=True, rounds_once=True)


# ---- one scale for all weights -------------------------------------------------------------------------------


def reference(
    *,
    input: Tensor,
    weights: Tensor,
    bias: Tensor | None,
    kernel_sum: Tensor | None,
    input_offset: InOffset,
    filter_offset: int,
    output_offset: OutZeroPoint,
    requantize_multipliers: list[int],
    requantize_shifts: list[int],
    activation_max: High,
    activation_min: Low,
) -> Tensor:
    """Uses kernel_sum if it is given: a call that carries both must mean the same with either."""
    w = weights.to(torch.float64) + filter_offset
    acc = (input.to(torch.float64) + (input_offset if kernel_sum is None else 0)) @ w.T
    start = bias if kernel_sum is None else kernel_sum
    factors = (torch.tensor(requantize_multipliers[0]), torch.tensor(requantize_shifts[0]))
    return finish(acc.to(torch.int64), start, *factors, output_offset, activation_min, activation_max)


def one_scale(weight: Tensor, bias: Tensor | None, scales: Tensor) -> tuple[Tensor, Tensor | None, float]:
    """Requantizes the weights and the bias of channels with different scales to the largest of the scales."""
    largest = scales.max()
    ratio = scales / largest
    codes = torch.round(weight.to(torch.float64) * ratio[:, None]).clamp(-INT8.high, INT8.high).to(torch.int8)
    start = None if bias is None else torch.round(bias.to(torch.float64) * ratio).to(torch.int32)
    return codes, start, float(largest)


def lower_per_tensor(lowering: Lowering) -> Node:
    """Lowers a layer with just the constant that the target's cores read: bias or kernel_sum, or both for a target with
    several ISAs."""
    data = lowering.data("weight")
    assert data is not None
    weight, bias, scale = one_scale(data, lowering.data("bias"), lowering.weight_scales("weight"))
    source, offset = lowering.node("input"), -lowering.q("input").zero_point
    *leading, in_c = shape(source)
    fixed = Fixed.of(lowering.q("input").scale * scale / lowering.out.scale)
    bounds = sum_bounds(weight, bias, offset, INT8)
    check_sums(lowering.bound.node, *bounds, torch.full((len(weight),), fixed.shift))
    sums = weight.sum(1, dtype=torch.int64) * offset + (0 if bias is None else bias.to(torch.int64))
    if int(sums.abs().max()) >= 2**31:
        raise CortadoError("a linear layer's kernel sums don't fit 32 bits; use --linear per-channel")
    isas = lowering.target.isas
    low, high = lowering.bounds()
    result = lowering.call(
        QUANTIZED_LINEAR,
        input=lowering.view(source, (math.prod(leading), in_c)),
        weights=lowering.constant("weight", weight),
        bias=lowering.constant("bias", bias) if bias is not None and set(isas) != {Isa.MVE} else None,
        kernel_sum=lowering.constant("kernel_sum", sums.to(torch.int32)) if Isa.MVE in isas else None,
        input_offset=offset,
        filter_offset=0,
        output_offset=lowering.out.zero_point,
        requantize_multipliers=[fixed.multiplier],
        requantize_shifts=[fixed.shift],
        activation_max=high,
        activation_min=low,
    )
    return lowering.view(result, (*leading, len(weight)))


def as_conv2d(call: Call) -> Call:
    """Converts the call to conv2d, to share its kernels and their packing."""
    weights, bias = call["weights"], call["bias"]
    out_c, in_c = weights.shape
    if call["kernel_sum"] is not None:
        bias = call["kernel_sum"] - weights.sum(1, dtype=torch.int32) * call["input_offset"]
    arguments = {
        "input": (1, 1, math.prod(call.shape("input")[:-1]), in_c),
        "weight": weights.reshape(out_c, 1, 1, in_c),
        "bias": bias,
        "stride": [1, 1],
        "padding": [0, 0],
        "dilation": [1, 1],
        "requantize_multipliers": torch.full((out_c,), call["requantize_multipliers"][0], dtype=torch.int32),
        "requantize_shifts": torch.full((out_c,), call["requantize_shifts"][0], dtype=torch.int32),
        **{name: call[name] for name in ("input_offset", "output_offset", "activation_min", "activation_max")},
    }
    sizes = (1, 1, math.prod(call.out_shape[:-1]), out_c)
    return replace(call, operator=conv2d.CONV2D, arguments=arguments, out_shape=sizes)


KERNELS = Several(lambda call, core: conv2d.kernel(as_conv2d(call), core), kernels.DENSE[:1])


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws layers with a bias, with kernel_sum, with both and with neither."""
    seed, in_c, out_c = draw.seed(), draw.channels(), draw.channels()
    multipliers, shifts = sampling.fixed_points(seed, 1)
    weights = sampling.codes(seed + 1, (out_c, in_c), *sampling.WEIGHTS)
    offset = -draw.zero_point()
    with_bias, with_sum = draw.flag(), draw.flag()
    bias = sampling.codes(seed + 2, (out_c,), -(2**15), 2**15, torch.int32)
    sums = weights.sum(1, dtype=torch.int32) * offset + (bias if with_bias else 0)
    return {
        "input": sampling.codes(seed + 3, (draw.whole(1, 9), in_c)),
        "weights": weights,
        "bias": bias if with_bias else None,
        "kernel_sum": sums if with_sum else None,
        "input_offset": offset,
        "filter_offset": 0,
        "output_offset": draw.zero_point(),
        "requantize_multipliers": multipliers.tolist(),
        "requantize_shifts": shifts.tolist(),
    }


QUANTIZED_LINEAR = Operator(
    name="cortex_m::quantized_linear",
    summary="linear layer with one scale for all weights (--linear per-tensor)",
    reference=reference,
    shape=lambda call: (*call.shape("input")[:-1], call.shape("weights")[0]),
    kernel=KERNELS,
    element=INT8,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True),
    macs=lambda call: math.prod(call.shape("input")[:-1]) * math.prod(call.shape("weights")),
    channel_constants=("weights", "bias", "kernel_sum"),
    constraints="constant weights and bias; sums that fit 32 bits",
    samples=samples,
)
