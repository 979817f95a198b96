"""acc = bias + sum((x + input_offset) * w); out = clamp(requant(acc) + output_offset).

NHWC input, OHWI weights, one multiplier and shift per output channel. Padding adds nothing to the sum.
A weight that sees fewer input channels than there are makes the convolution grouped.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from cortado.base.element import INT4, INT8, element_of
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.base.target import Core, CortexMTargetConfig
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.graph import TO_NCHW, TO_NHWC, Bound, shape
from cortado.ir.kernel import ONE_ROW, Array, Kernel, RowRule, Rows
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, PteWriter
from cortado.ir.roles import Activation, Quantization
from cortado.ops import reach
from cortado.ops.conv import convolution, depthwise_conv2d, int16, packing
from cortado.ops.conv.convolution import (
    SUFFIX,
    ChannelParameters,
    Variant,
    check_constants,
    cmsis_layer,
    codes_of,
    common_fields,
    finish,
    macs,
    packed,
    requantization,
    spatial_shape,
    weighted,
    weighted_case,
    window,
    window_fields,
    window_fits,
    window_of,
    without_vectors,
)
from cortado.ops.conv.convolution_work import Codes, pixels_work, window_work
from cortado.ops.loops import Window

aten = torch.ops.aten


def reference(
    *,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    input_offset: int,
    output_offset: int,
    requantize_multipliers: Tensor,
    requantize_shifts: Tensor,
    activation_min: int,
    activation_max: int,
) -> Tensor:
    """float64 holds every product and sum of a convolution of this size exactly."""
    x = (input.to(torch.float64) + input_offset).permute(TO_NCHW)
    w = weight.to(torch.float64).permute(TO_NCHW)
    groups = input.shape[3] // weight.shape[3]
    acc = torch.conv2d(x, w, None, stride, padding, dilation, groups).permute(TO_NHWC).to(torch.int64)
    if reach.is_wide(element_of(input.dtype)):
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
    """1x1, stride 1, no padding, one group: it runs over any span of pixels."""
    _, kh, kw, in_c = call.shape("weight")
    plain = list(call["stride"]) == [1, 1] and list(call["padding"]) == [0, 0]
    return kh == kw == 1 and plain and in_c == call.shape("input")[3]


def rows(call: Call) -> Rows:
    if is_pointwise(call):
        return Rows((ONE_ROW,), pixelwise=True)
    return Rows((RowRule(call.shape("weight")[1], call["stride"][0], call["padding"][0], call["dilation"][0]),))


def is_depthwise_call(call: Call) -> bool:
    """One group per input channel: a depthwise convolution that the .pte holds as a grouped one."""
    return call.shape("weight")[3] == 1 and call.shape("input")[3] > 1


def kernel(call: Call, core: Core) -> Kernel:
    if is_depthwise_call(call):
        return depthwise_conv2d.kernel(depthwise_conv2d.from_grouped(call), core)
    if reach.is_wide(call.element):
        of_pixels = is_pointwise(call)
        return int16.pixels_kernel(call, core) if of_pixels else int16.window_kernel(call, core)
    return _pixels_kernel(call, core, _common(call)) if is_pointwise(call) else window_kernel(call, core)


def _common(call: Call) -> dict[str, Any]:
    weights = call.array("weight")
    return common_fields(call, weights.reshape(len(weights), -1).sum(axis=1, dtype=np.int64))


def _pixels_kernel(call: Call, core: Core, common: dict[str, Any]) -> Kernel:
    """1x1: over spans of pixels."""
    out_c, _, _, in_c = call.shape("weight")
    weights = call.array("weight").reshape(out_c, in_c)
    pixels = math.prod(call.out_shape[:3])
    fields = {"in_c": in_c, "out_c": out_c, "weights": Array(weights), **common}
    stream = ChannelParameters.of(common, weights, core)
    variant = None if stream is None else _pixels_variant(stream, core, fields, pixels)
    chosen = variant or Variant("conv1x1_s8", fields, packed=False)
    return Kernel(
        call=CCall(f"cortado_{chosen.symbol}", (Operand.LAYER, Row(0), Operand.OUT, Operand.N, Operand.SCRATCH)),
        struct=chosen.struct("conv1x1"),
        fields=chosen.fields,
        scratch=chosen.scratch,
        scratch_check=chosen.scratch_check(Operand.LAYER, pixels),
        tile=chosen.tile,
        work=pixels_work(chosen.symbol, in_c, out_c, codes_of(call, common)),
    )


def _pixels_variant(stream: ChannelParameters, core: Core, fields: dict[str, Any], pixels: int) -> Variant | None:
    """A single pixel is a linear layer, which has kernels of its own."""
    if core is Core.MVE and packing.fits_conv_tile_mve(stream.shift):
        fields = packed(fields, packing.pack_conv_tile_mve(*stream.all))
        return Variant("conv1x1_s8__mve", fields, tile=2)
    core = without_vectors(core)
    linear = _linear_variant(stream, core, fields) if pixels == 1 else None
    if linear is not None:
        return linear
    scratch = packing.scratch_conv1x1_tile(stream.weights.shape[1], pixels, core)
    if core is Core.DSP and packing.fits_conv_lanes(stream.weights, stream.bias, stream.shift):
        fields = packed(fields, packing.pack_conv_lanes(*stream.all))
        return Variant("conv1x1_lanes_s8__dsp", fields, scratch, tile=2)
    if packing.fits_conv_tile(stream.weights, stream.bias, stream.shift, core):
        tile = 4 if core is Core.SMALL else 2
        fields = packed(fields, packing.pack_conv_tile(*stream.all, core))
        return Variant(f"conv1x1_s8__{SUFFIX[core]}", fields, scratch, tile=tile)
    return None


def _linear_variant(stream: ChannelParameters, core: Core, fields: dict[str, Any]) -> Variant | None:
    if core is Core.DSP and packing.fits_linear_lanes(stream.weights, stream.bias, stream.shift):
        fields = packed(fields, packing.pack_linear_lanes(*stream.all))
        return Variant("linear_lanes_s8__dsp", fields)
    if packing.fits_linear_group(stream.weights, stream.bias, stream.shift, core):
        fields = packed(fields, packing.pack_linear_group(*stream.all, core))
        return Variant(f"linear_s8__{SUFFIX[core]}", fields)
    return None


def window_kernel(call: Call, core: Core) -> Kernel:
    """Any window: one output row from the rows under it."""
    weights, common = call.array("weight"), _common(call)
    _, kh, kw, in_c = weights.shape
    groups = call.shape("input")[3] // in_c
    fields = {**window_fields(call, (kh, kw)), "groups": groups, "weights": Array(weights), **common}
    stream = ChannelParameters.of(common, weights, core)
    variant = _window_variant(stream, core, fields) if stream is not None and window_fits(fields, np.int16) else None
    chosen = variant or Variant("conv2d_s8", fields, packed=False)
    return _window_call(chosen, window_of(call, (kh, kw), groups), codes_of(call, common))


def _window_call(chosen: Variant, window: Window, codes: Codes) -> Kernel:
    return Kernel(
        call=CCall(f"cortado_{chosen.symbol}", (Operand.LAYER, Operand.ROWS, Operand.OUT, Operand.SCRATCH)),
        struct=chosen.struct("conv2d"),
        fields=chosen.fields,
        scratch=chosen.scratch,
        scratch_check=chosen.scratch_check(Operand.LAYER),
        lean=None if chosen.lean is None else _window_call(chosen.lean, window, replace(codes, lean=True)),
        work=window_work(chosen.symbol, window, codes),
    )


def _window_variant(stream: ChannelParameters, core: Core, fields: dict[str, Any]) -> Variant | None:
    _, kernel_h, kernel_w, depth = stream.weights.shape
    taps, out_w, groups = kernel_h * kernel_w, fields["out_w"], fields["groups"]
    if core is Core.MVE and packing.fits_conv_tile_mve(stream.shift):
        scratch = packing.scratch_conv2d_mve(taps * depth, out_w)
        return Variant("conv2d_s8__mve", packed(fields, packing.pack_conv_tile_mve(*stream.all, groups)), scratch)
    core = without_vectors(core)
    scratch, less = (packing.scratch_conv2d_tile(taps, depth, out_w, core, lean) for lean in (False, True))
    if core is Core.DSP and packing.fits_conv_lanes(stream.weights, stream.bias, stream.shift):
        fields = packed(fields, packing.pack_conv_lanes(*stream.all, groups))
        return Variant("conv2d_lanes_s8__dsp", fields, scratch)
    if packing.fits_conv_tile(stream.weights, stream.bias, stream.shift, core):
        name = f"conv2d_s8__{SUFFIX[core]}"
        fields = packed(fields, packing.pack_conv_tile(*stream.all, core, groups))
        lean = None if core is not Core.SMALL else Variant(name, {**fields, "lean": 1}, less)
        return Variant(name, fields, scratch, lean)
    return None


# ---- samples -------------------------------------------------------------------------------------------------


def samples() -> Any:
    """Any window that fits; in_c, out_c and widths at and around the kernels' tiles; groups; no bias."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        groups, usual = draw(st.sampled_from([1, 1, 1, 2, 3])), draw(st.booleans())
        in_c, out_c = (draw(sampling.CHANNELS) for _ in range(2))
        kernel = draw(st.sampled_from([(1, 1), (3, 3), (1, 1), (3, 3), (1, 1), (2, 5), (10, 4), (1, 3)]))
        return weighted_case(draw, kernel, (in_c * groups, out_c * groups), (out_c * groups, *kernel, in_c), usual)

    return draw_case()


CONV2D = Operator(
    name="cortex_m::quantized_conv2d_nhwc",
    summary="2-D convolution, grouped or not, with bias and clamp",
    arguments=(
        "Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int input_offset, "
        "int output_offset, Tensor requantize_multipliers, Tensor requantize_shifts, int activation_min, "
        "int activation_max, Tensor scratch"
    ),
    reference=reference,
    shape=output_shape,
    kernel=kernel,
    rows=rows,
    macs=macs,
    element=ElementOf(("input",)),
    pte=in_pte,
    pte_limit=pte_limit,
    pte_scratch=pte_scratch,
    channel_constants=("weight", "bias", "requantize_multipliers", "requantize_shifts"),
    constraints="constant weights and bias; sums that fit 32 bits",
    samples=samples,
)

CONV2D_PATTERN = Pattern(
    aten=(aten.conv2d.default,),
    match=match,
    lower=lower,
    fuses_clamp=True,
    images=True,
    rounds_once=True,
)
