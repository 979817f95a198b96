"""acc = bias + sum((x + input_offset) * w); out = clamp(requant(acc) + output_offset).

NHWC input, OHWI weights, one multiplier and shift per output channel. Padding adds nothing to the sum.
A weight that sees fewer input channels than there are makes the convolution grouped.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from cortado.base.errors import CortadoError, Reject
from cortado.base.numerics import INT8_MAX, INT8_MIN, INT32_MAX, INT32_MIN, Fixed, Tensor, clamp_int8, int_list, requant
from cortado.base.target import Core, CortexMTargetConfig
from cortado.ir.c_call import Argument, CCall, Operand, Row
from cortado.ir.graph import USER_INPUT, Bound, describe, shape
from cortado.ir.op import ONE_ROW, Array, Call, Kernel, Lowering, Operator, Pattern, Quantization, Role, RowRule, Rows
from cortado.ops import _height_one, packing

aten = torch.ops.aten

TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


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
    return finish(acc, bias, requantize_multipliers, requantize_shifts, output_offset, activation_min, activation_max)


def finish(
    acc: Tensor, bias: Tensor | None, multipliers: Tensor, shifts: Tensor, offset: int, low: int, high: int
) -> Tensor:
    """Bias, per-channel rescaling along the last dimension, offset and clamp."""
    if bias is not None:
        acc = acc + bias
    return clamp_int8(requant(acc, multipliers.to(torch.int64), shifts) + offset, low, high).contiguous()


def out_size(size: int, kernel: int, stride: int, pad: int, dilation: int) -> int:
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


def spatial_shape(call: Call, kernel: tuple[int, int], channels: int) -> tuple[int, int, int, int]:
    n, h, w, _ = call.shape("input")
    (sh, sw), (ph, pw), (dh, dw) = call["stride"], call["padding"], call["dilation"]
    return n, out_size(h, kernel[0], sh, ph, dh), out_size(w, kernel[1], sw, pw, dw), channels


def output_shape(call: Call) -> tuple[int, ...]:
    out_c, kh, kw, _ = call.shape("weight")
    return spatial_shape(call, (kh, kw), out_c)


def macs(call: Call) -> int:
    """Of ordinary, grouped and depthwise convolutions: every output takes its share of the weights."""
    return math.prod(call.out_shape) * (math.prod(call.shape("weight")) // call.out_shape[-1])


# ---- from aten -----------------------------------------------------------------------------------------------


def is_depthwise(bound: Bound) -> bool:
    """Every input channel makes its own output channels; a single input channel is an ordinary convolution."""
    in_c = shape(bound["input"])[1]
    return bool(bound["groups"] == in_c and in_c > 1)


def check_constants(bound: Bound) -> Reject | None:
    for operand, what in ((bound["weight"], "constant weights"), (bound["bias"], "a constant bias")):
        if operand is not None and USER_INPUT in operand.meta:
            return Reject(f"needs {what}, got the model's input '{operand.name}'")
        if operand is not None and operand.op not in ("get_attr", "placeholder"):
            return Reject(f"needs {what}, got the result of {operand.name}")
    return None


WEIGHTED = {"input": Role.ACTIVATION, "weight": Role.WEIGHT, "bias": Role.BIAS}


def match(bound: Bound) -> Quantization | Reject:
    if is_depthwise(bound):
        return Reject("a depthwise convolution")
    return check_constants(bound) or Quantization(WEIGHTED)


def rescaling(lowering: Lowering, input_name: str = "input", weight_name: str = "weight") -> tuple[Tensor, Tensor]:
    """Multipliers and shifts of in_scale * w_scale[c] / out_scale."""
    in_scale, out_scale = lowering.q(input_name).scale, lowering.out.scale
    fixed = [Fixed.of(in_scale * float(scale) / out_scale) for scale in lowering.weight_scales(weight_name)]
    multipliers = torch.tensor([f.multiplier for f in fixed], dtype=torch.int32)
    return multipliers, torch.tensor([f.shift for f in fixed], dtype=torch.int32)


def sum_bounds(weight: Tensor, bias: Tensor | None, offset: int) -> tuple[Tensor, Tensor]:
    """The least and the largest sum each output channel can reach over all int8 inputs; weight [out_c, ...]."""
    flat = weight.reshape(weight.shape[0], -1)
    above = flat.clamp(min=0).sum(1, dtype=torch.int64)
    below = flat.clamp(max=0).sum(1, dtype=torch.int64)
    least, largest = INT8_MIN + offset, INT8_MAX + offset  # of x - zero_point; 0 lies between them
    start = torch.zeros_like(above) if bias is None else bias.to(torch.int64)
    return start + above * least + below * largest, start + above * largest + below * least


def check_sums(node: Node, low: Tensor, high: Tensor, shifts: Tensor) -> None:
    """Refuses a layer whose 32-bit accumulator could overflow, before or after the left shift of its rescaling."""
    room = INT32_MAX >> shifts.clamp(min=0).to(torch.int64)
    most = torch.maximum(high, -low)
    if bool((most > room).any()):
        channel = int((most > room).nonzero()[0])
        raise CortadoError(
            f"{describe(node)}: the sum of output channel {channel} may reach {int(most[channel])}, expected at most "
            f"{int(room[channel])} so that it fits 32 bits when it is rescaled; use calibration data with the range "
            "the model really sees, or a smaller layer"
        )


def requantization(lowering: Lowering, weight: Tensor, groups: int = 1) -> dict[str, Any]:
    """The arguments every weighted operator shares: bias, offsets, multipliers, shifts, activation bounds.

    weight is [out_c, ...]. A grouped convolution gets a bias in any case: CMSIS-NN steps through it group by group.
    """
    multipliers, shifts = rescaling(lowering)
    offset, bias = -lowering.q("input").zero_point, lowering.data("bias")
    check_sums(lowering.bound.node, *sum_bounds(weight, bias, offset), shifts)
    if bias is None and groups > 1:
        bias = torch.zeros(weight.shape[0], dtype=torch.int32)
    low, high = lowering.bounds()
    return {
        "bias": None if bias is None else lowering.constant("bias", bias.to(torch.int32)),
        "input_offset": offset,
        "output_offset": lowering.out.zero_point,
        "requantize_multipliers": lowering.constant("multipliers", multipliers),
        "requantize_shifts": lowering.constant("shifts", shifts),
        "activation_min": low,
        "activation_max": high,
    }


def pair(value: Any) -> list[int]:
    values = int_list(value)
    return values * 2 if len(values) == 1 else values


def window(bound: Bound) -> dict[str, list[int]]:
    return {name: pair(bound[name]) for name in ("stride", "padding", "dilation")}


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


def cmsis_layer(call: Call) -> dict[str, Any]:
    """A convolution as the functions that give CMSIS-NN's scratch sizes are told it."""
    return {
        "input_nhwc": call.shape("input"),
        "filter_nhwc": call.shape("weight"),
        "padding_hw": call["padding"],
        "stride_hw": call["stride"],
        "dilation_hw": call["dilation"],
        "input_offset": call["input_offset"],
        "output_offset": call["output_offset"],
        "activation_min": call["activation_min"],
        "activation_max": call["activation_max"],
    }


def in_pte(arguments: Mapping[str, Any], add: Callable[..., Node], target: CortexMTargetConfig) -> Node:
    return _height_one.in_pte(CONV2D, arguments, shape(arguments["weight"])[3], add, target)


def pte_scratch(call: Call, backend: Any) -> tuple[int, ...]:
    from executorch.backends.cortex_m.library import cmsis_nn

    kind = cmsis_nn.DataType.A8W8
    return (int(cmsis_nn.convolve_wrapper_buffer_size(backend, kind, output_nhwc=call.out_shape, **cmsis_layer(call))),)


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


def fold_offset(call: Call, weight_sums: np.ndarray[Any, Any]) -> tuple[int, Array | None]:
    """(in_offset, bias) with the input offset folded into the bias, where that fits 32 bits."""
    bias = None if call["bias"] is None else call.array("bias").astype(np.int64)
    folded = weight_sums.astype(np.int64) * call["input_offset"] + (0 if bias is None else bias)
    if folded.min() >= INT32_MIN and folded.max() <= INT32_MAX:
        return 0, Array(folded.astype(np.int32))
    return call["input_offset"], None if bias is None else Array(bias.astype(np.int32))


def common_fields(call: Call, weight_sums: np.ndarray[Any, Any]) -> dict[str, Any]:
    in_offset, bias = fold_offset(call, weight_sums)
    return {
        "in_offset": in_offset,
        "out_offset": call["output_offset"],
        "act_min": call["activation_min"],
        "act_max": call["activation_max"],
        "bias": bias,
        "multiplier": Array(call.array("requantize_multipliers")),
        "shift": Array(call.array("requantize_shifts")),
    }


def window_fields(call: Call, kernel: tuple[int, int]) -> dict[str, Any]:
    return {
        "in_w": call.shape("input")[2],
        "in_c": call.shape("input")[3],
        "out_w": call.out_shape[2],
        "out_c": call.out_shape[3],
        "kernel_h": kernel[0],
        "kernel_w": kernel[1],
        "stride_w": call["stride"][1],
        "pad_left": call["padding"][1],
        "dilation_w": call["dilation"][1],
        "zero": Array(np.full(call.shape("input")[3], -call["input_offset"], dtype=np.int8)),
    }


def is_depthwise_call(call: Call) -> bool:
    """One group per input channel: a depthwise convolution that the .pte holds as a grouped one."""
    return call.shape("weight")[3] == 1 and call.shape("input")[3] > 1


def kernel(call: Call, core: Core) -> Kernel:
    if is_depthwise_call(call):
        from cortado.ops import depthwise_conv2d

        return depthwise_conv2d.kernel(depthwise_conv2d.from_grouped(call), core)
    return _pixels_kernel(call, core, _common(call)) if is_pointwise(call) else window_kernel(call, core)


def _common(call: Call) -> dict[str, Any]:
    weights = call.array("weight")
    return common_fields(call, weights.reshape(len(weights), -1).sum(axis=1, dtype=np.int64))


Numbers = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Variant:
    """A kernel that takes a layer: its symbol, sources, descriptor and scratch."""

    symbol: str
    sources: tuple[str, ...]
    fields: dict[str, Any]
    scratch: int = 0
    lean: "Variant | None" = None
    tile: int = 1
    packed: bool = True  # its descriptor holds a stream

    def struct(self, operator: str) -> str:
        """The descriptor of a layer of `operator`."""
        return f"cortado_{operator}{'_packed' if self.packed else ''}_t"

    def scratch_check(self, *arguments: Argument) -> CCall | None:
        """The function that works its scratch out again; None if it has none."""
        return CCall(f"cortado_{self.symbol}_scratch", arguments) if self.scratch else None


@dataclass(frozen=True)
class Stream:
    """What a variant's packing reads: weights, and bias, multiplier and shift per output channel."""

    weights: Numbers
    bias: Numbers
    multiplier: Numbers
    shift: Numbers

    @staticmethod
    def of(common: dict[str, Any], weights: np.ndarray[Any, Any], core: Core) -> "Stream | None":
        """None where only the portable kernel will do: elsewhere the input offset is folded into the bias."""
        if core is Core.PORTABLE or common["in_offset"] != 0:
            return None
        return Stream(weights, common["bias"].data, common["multiplier"].data, common["shift"].data)

    @property
    def all(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        return self.weights, self.bias, self.multiplier, self.shift


# What a portable layer's descriptor has and a packed one's has not: the stream holds it.
_IN_STREAM = frozenset({"in_offset", "weights", "bias", "multiplier", "shift"})


def packed(fields: dict[str, Any], stream: np.ndarray[Any, Any]) -> dict[str, Any]:
    """A descriptor whose weights are a variant's stream, which holds biases and factors too."""
    kept = {name: value for name, value in fields.items() if name not in _IN_STREAM}
    return {**kept, "weights": Array(stream, packed=fields["weights"].data.shape)}


def without_vectors(core: Core) -> Core:
    """What else a core with vector instructions has: the DSP instructions."""
    return Core.DSP if core is Core.MVE else core


# Inner loops: assembly, and the same in C for other machines.
CONV_TILE = ("conv_tile_s8__scalar_dsp.S", "conv_tile_s8__scalar.c")
LINEAR_GROUP = ("linear_group_s8__scalar_dsp.S", "linear_group_s8__scalar.c")

SUFFIX = {Core.SMALL: "scalar", Core.LONG: "scalar", Core.DSP: "dsp", Core.MVE: "mve", Core.PORTABLE: ""}


def _pixels_kernel(call: Call, core: Core, common: dict[str, Any]) -> Kernel:
    """1x1: over spans of pixels."""
    out_c, _, _, in_c = call.shape("weight")
    weights = call.array("weight").reshape(out_c, in_c)
    pixels = math.prod(call.out_shape[:3])
    fields = {"in_c": in_c, "out_c": out_c, "weights": Array(weights), **common}
    stream = Stream.of(common, weights, core)
    variant = None if stream is None else _pixels_variant(stream, core, fields, pixels)
    chosen = variant or Variant("conv1x1_s8", ("conv1x1_s8.c",), fields, packed=False)
    return Kernel(
        call=CCall(f"cortado_{chosen.symbol}", (Operand.LAYER, Row(0), Operand.OUT, Operand.N, Operand.SCRATCH)),
        sources=chosen.sources,
        struct=chosen.struct("conv1x1"),
        fields=chosen.fields,
        scratch=chosen.scratch,
        scratch_check=chosen.scratch_check(Operand.LAYER, pixels),
        tile=chosen.tile,
    )


def _pixels_variant(stream: Stream, core: Core, fields: dict[str, Any], pixels: int) -> Variant | None:
    """A single pixel is a linear layer, which has a kernel of its own."""
    if core is Core.MVE and packing.fits_conv_tile_mve(stream.shift):
        fields = packed(fields, packing.pack_conv_tile_mve(*stream.all))
        return Variant("conv1x1_s8__mve", ("conv1x1_s8__mve.c", "conv_tile_s8__mve.S"), fields, tile=2)
    core = without_vectors(core)
    if pixels == 1 and packing.fits_linear_group(stream.weights, stream.bias, stream.shift, core):
        fields = packed(fields, packing.pack_linear_group(*stream.all, core))
        return Variant(f"linear_s8__{SUFFIX[core]}", ("linear_s8__scalar_dsp.c", *LINEAR_GROUP), fields)
    if packing.fits_conv_tile(stream.weights, stream.bias, stream.shift, core):
        sources = ("conv1x1_s8__scalar_dsp.c", *CONV_TILE, "cortado_scratch.c")
        scratch = packing.scratch_conv1x1_tile(stream.weights.shape[1], pixels)
        fields = packed(fields, packing.pack_conv_tile(*stream.all, core))
        return Variant(f"conv1x1_s8__{SUFFIX[core]}", sources, fields, scratch, tile=4)
    return None


def window_kernel(call: Call, core: Core) -> Kernel:
    """Any window: one output row from the rows under it."""
    weights, common = call.array("weight"), _common(call)
    _, kh, kw, in_c = weights.shape
    groups = call.shape("input")[3] // in_c
    fields = {**window_fields(call, (kh, kw)), "groups": groups, "weights": Array(weights), **common}
    stream = Stream.of(common, weights, core)
    variant = None if stream is None else _window_variant(stream, core, fields)
    return _window_call(variant or Variant("conv2d_s8", ("conv2d_s8.c",), fields, packed=False))


def _window_call(chosen: Variant) -> Kernel:
    return Kernel(
        call=CCall(f"cortado_{chosen.symbol}", (Operand.LAYER, Operand.ROWS, Operand.OUT, Operand.SCRATCH)),
        sources=chosen.sources,
        struct=chosen.struct("conv2d"),
        fields=chosen.fields,
        scratch=chosen.scratch,
        scratch_check=chosen.scratch_check(Operand.LAYER),
        lean=None if chosen.lean is None else _window_call(chosen.lean),
    )


def _window_variant(stream: Stream, core: Core, fields: dict[str, Any]) -> Variant | None:
    _, kernel_h, kernel_w, depth = stream.weights.shape
    taps, out_w, groups = kernel_h * kernel_w, fields["out_w"], fields["groups"]
    if core is Core.MVE and packing.fits_conv_tile_mve(stream.shift):
        mve = ("conv2d_s8__mve.c", "conv_tile_s8__mve.S", "cortado_scratch.c")
        scratch = packing.scratch_conv2d_mve(taps * depth, out_w)
        return Variant("conv2d_s8__mve", mve, packed(fields, packing.pack_conv_tile_mve(*stream.all, groups)), scratch)
    core = without_vectors(core)
    if packing.fits_conv_tile(stream.weights, stream.bias, stream.shift, core):
        sources = ("conv2d_s8__scalar_dsp.c", *CONV_TILE, "cortado_scratch.c")
        scratch, less = (packing.scratch_conv2d_tile(taps, depth, out_w, core, lean) for lean in (False, True))
        fields, name = packed(fields, packing.pack_conv_tile(*stream.all, core, groups)), f"conv2d_s8__{SUFFIX[core]}"
        return Variant(name, sources, fields, scratch, Variant(name, sources, {**fields, "lean": 1}, less))
    return None


# ---- samples -------------------------------------------------------------------------------------------------


def samples() -> Any:
    """Any window that fits; in_c, out_c and widths at and around the kernels' tiles; groups; no bias."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
        in_c, out_c = (draw(sampling.CHANNELS) for _ in range(2))
        kernel = draw(st.sampled_from([(1, 1), (3, 3), (1, 1), (3, 3), (2, 5), (10, 4), (1, 3)]))
        return weighted_case(draw, kernel, (in_c * groups, out_c * groups), (out_c * groups, *kernel, in_c))

    return draw_case()


def weighted_case(
    draw: Any, kernel: tuple[int, int], channels: tuple[int, int], weight_shape: tuple[int, ...]
) -> dict[str, Any]:
    """Arguments of a convolution with that kernel: window, input, weights, requantization."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    seed = draw(sampling.SEEDS)
    window = draw_window(draw, kernel)
    sizes = [draw(st.integers(max(1, d * (k - 1) + 1 - 2 * p), d * (k - 1) + 9)) for k, p, d in window.pop("fits")]
    batch = draw(st.sampled_from([1, 1, 1, 2]))
    multipliers, shifts = sampling.fixed_points(seed, channels[1])
    low, high = draw(sampling.activation_bounds())
    bias = sampling.codes(seed + 1, (channels[1],), -(2**15), 2**15, torch.int32)
    return {
        "input": sampling.codes(seed + 2, (batch, *sizes, channels[0])),
        "weight": sampling.codes(seed + 3, weight_shape, -127, 127),
        "bias": bias if draw(st.booleans()) else None,
        **window,
        "input_offset": -draw(sampling.ZERO_POINTS),
        "output_offset": draw(sampling.ZERO_POINTS),
        "requantize_multipliers": multipliers,
        "requantize_shifts": shifts,
        "activation_min": low,
        "activation_max": high,
    }


def draw_window(draw: Any, kernel: tuple[int, int]) -> dict[str, Any]:
    """stride, padding (smaller than the kernel) and dilation; `fits` holds (kernel, padding, dilation) per axis."""
    from hypothesis import strategies as st

    plain = kernel == (1, 1) and draw(st.booleans())
    stride = [1, 1] if plain else [draw(st.sampled_from([1, 1, 2, 3])) for _ in kernel]
    padding = [0, 0] if plain else [draw(st.integers(0, k - 1)) for k in kernel]
    dilation = [1, 1] if plain else [draw(st.sampled_from([1, 1, 1, 2])) for _ in kernel]
    fits = list(zip(kernel, padding, dilation, strict=True))
    return {"stride": stride, "padding": padding, "dilation": dilation, "fits": fits}


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
    pte=in_pte,
    pte_scratch=pte_scratch,
    constraints="constant weights and bias; sums that fit 32 bits",
    samples=samples,
)

CONV2D_PATTERN = Pattern(aten=(aten.conv2d.default,), match=match, lower=lower, fuses_clamp=True)
