"""acc = bias + sum((x + input_offset) * w); out = clamp(requant(acc) + output_offset).

NHWC input, OHWI weights, one multiplier and shift per output channel. Padding adds nothing to the sum. The convolution
is grouped if the weight has fewer input channels than the input.

With a `run` the weights have 4 bits (--weights int4). The codes are then 8-bit values factor * q with |q| <= 7, with
one factor for each run of that many products; if `run` is 0, all factors are 1.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT4, INT8, element_of
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.base.target import Core, CortexMTargetConfig
from cortado.ir.graph import TO_NCHW, TO_NHWC, Bound, shape
from cortado.ir.kernel import ONE_ROW, Kernel, RowRule, Rows
from cortado.ir.kernel_table import Several
from cortado.ir.op import Call, ElementOf, Int4Form, Lowering, Operator, Pattern, PteWriter
from cortado.ir.roles import Activation, High, InOffset, Low, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ops import reach
from cortado.ops.conv import convolution, depthwise_conv2d, kernels
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
from cortado.ops.conv.int4 import RUN, drawn
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
    input_offset: InOffset,
    output_offset: OutZeroPoint,
    requantize_multipliers: Tensor,
    requantize_shifts: Tensor,
    activation_min: Low,
    activation_max: High,
    run: int | None = None,
) -> Tensor:
    """Computes the sums in float64, which holds every product and sum of a convolution of this size exactly."""
    x = (input.to(torch.float64) + input_offset).permute(TO_NCHW)
    w = weight.to(torch.float64).permute(TO_NCHW)
    groups = input.shape[3] // weight.shape[3]
    acc = torch.conv2d(x, w, None, stride, padding, dilation, groups).permute(TO_NHWC).to(torch.int64)
    if element_of(input.dtype).symmetric:
        factors = requantize_multipliers, requantize_shifts
        return reach.finish(acc, weight, bias, factors, (activation_min, activation_max))
    return finish(acc, bias, requantize_multipliers, requantize_shifts, output_offset, activation_min, activation_max)


def output_shape(call: Call) -> tuple[int, ...]:
    out_c, kh, kw, _ = call.shape("weight")
    return spatial_shape(call, (kh, kw), out_c)


# ---- from aten -----------------------------------------------------------------------------------------------


def match(bound: Bound) -> Quantization | Reject:
    narrowest = INT4 if bound["groups"] == 1 else INT8
    return check_constants(bound) or Quantization(weighted(bound, narrowest), Activation(bound.element))


def lower(lowering: Lowering) -> Node:
    weight = lowering.data("weight")
    assert weight is not None
    result = lowering.call(
        CONV2D,
        input=lowering.transpose(lowering.node("input"), TO_NHWC),
        weight=lowering.constant("weight", weight.permute(TO_NHWC)),
        **window(lowering.bound),
        **requantization(lowering, weight, lowering.bound["groups"]),
    )
    return lowering.transpose(result, TO_NCHW)


# ---- the .pte ------------------------------------------------------------------------------------------------


def in_pte(arguments: Mapping[str, Any], add: PteWriter, target: CortexMTargetConfig) -> Node:
    return convolution.in_pte(CONV2D, arguments, shape(arguments["weight"])[3], add, target)


def pte_scratch(call: Call, backend: Any) -> tuple[int, ...]:
    from executorch.backends.cortex_m.library import cmsis_nn

    kind = cmsis_nn.DataType.A8W8
    return (int(cmsis_nn.convolve_wrapper_buffer_size(backend, kind, output_nhwc=call.out_shape, **cmsis_layer(call))),)


def pte_limit(call: Call) -> str | None:
    grouped = call.shape("input")[3] != call.shape("weight")[3]
    return "needs a bias when it is grouped" if grouped and call["bias"] is None else None


# ---- the C kernel --------------------------------------------------------------------------------------------


def is_pointwise(call: Call) -> bool:
    """Whether it is 1x1 with stride 1, no padding and one group, so that it runs over any span of pixels."""
    _, kh, kw, in_c = call.shape("weight")
    plain = list(call["stride"]) == [1, 1] and list(call["padding"]) == [0, 0]
    return kh == kw == 1 and plain and in_c == call.shape("input")[3]


def rows(call: Call) -> Rows:
    if is_pointwise(call):
        return Rows((ONE_ROW,), pixelwise=True)
    return Rows((RowRule(call.shape("weight")[1], call["stride"][0], call["padding"][0], call["dilation"][0]),))


def is_depthwise_call(call: Call) -> bool:
    """Whether it has one group per input channel: a depthwise convolution that the .pte holds as a grouped one."""
    return call.shape("weight")[3] == 1 and call.shape("input")[3] > 1


def kernel(call: Call, core: Core) -> Kernel:
    if is_depthwise_call(call):
        return depthwise_conv2d.KERNELS(depthwise_conv2d.from_grouped(call), core)
    return kernels.kernel(call, core, ConvForm.PIXELS if is_pointwise(call) else ConvForm.WINDOW)


KERNELS = Several(kernel, (*kernels.DENSE, depthwise_conv2d.KERNELS))


# ---- samples -------------------------------------------------------------------------------------------------


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws any window that fits, channels and widths at and around the kernels' tiles, groups, with or without a
    bias."""
    groups, usual = draw.pick([1, 1, 1, 2, 3]), draw.flag()
    in_c, out_c = (draw.channels() for _ in range(2))
    kernel = draw.pick([(1, 1), (3, 3), (1, 1), (3, 3), (1, 1), (2, 5), (10, 4), (1, 3)])
    return weighted_case(draw, kernel, (in_c * groups, out_c * groups), (out_c * groups, *kernel, in_c), usual)


# Kernel size, whether it is a linear layer, run: cores have separate kernels for each.
_FORMS = [
    (kernel, pixel, run)
    for kernel, pixel in [*2 * [((1, 1), True), ((1, 1), False)], ((3, 3), False), ((2, 5), False), ((1, 3), False)]
    for run in (0, RUN)
]


def int4_samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws calls like conv2d's, with one group, with runs or without, and layers deep enough for several runs."""
    seed = draw.seed()
    kernel, pixel, run = Random(seed).choice(_FORMS)
    deep = draw.pick([32, 63, 64, 65, 96, 640, 1200]) if kernel == (1, 1) else draw.channels()
    in_c, out_c = draw.pick([draw.channels(), deep]), draw.channels()
    sizes = (out_c, *kernel, in_c)
    usual = draw.pick([True, True, True, False])
    case = weighted_case(draw, kernel, (in_c, out_c), sizes, usual, kinds=(INT8,))
    if pixel:
        case["input"] = case["input"][:1, :1, :1].contiguous()
    if draw.pick([True, True, True, False]):  # cores have special kernels for these shifts
        case["requantize_shifts"] = case["requantize_shifts"].clamp(max=-1)
    return {**case, "weight": drawn(seed, sizes, run), "run": run}


CONV2D = Operator(
    name="cortex_m::quantized_conv2d_nhwc",
    summary="2-D convolution, grouped or not, with bias and clamp",
    scratch=("scratch",),
    c_parameters=("run",),
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=rows,
    macs=macs,
    element=ElementOf(("input",)),
    pte=in_pte,
    pte_limit=pte_limit,
    pte_scratch=pte_scratch,
    channel_constants=("weight", "bias", "requantize_multipliers", "requantize_shifts"),
    weight_axis=0,
    int4=Int4Form.CHANNELS,
    constraints="constant weights and bias; sums that fit 32 bits; in the .pte, each 4-bit weight takes a byte",
    samples=lambda draw: draw.pick([samples, int4_samples])(draw),
)

CONV2D_PATTERN = Pattern(
    aten=(aten.conv2d.default,),
    match=match,
    lower=lower,
    fuses_clamp=True,
    images=True,
    rounds_once=True,
)
