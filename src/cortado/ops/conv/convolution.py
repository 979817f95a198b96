"""Shared parts of ordinary, grouped, depthwise and transposed convolutions and linear layers.

Sums over taps, one multiplier and shift per output channel, windows, the descriptor of a layer and the variants of its
kernel.

Convolutions over images of height 1 in the .pte: CMSIS-NN has an MVE kernel for them that is correct for some only. It
computes one row of outputs in three parts: those whose windows extend past the left end, those inside, and as many past
the right end as past the left. The windows at an end are copied to scratch, filled up from that end, one stride apart.
So the last window must end exactly with the padding, and the first output on the right must lack exactly one input. It
copies whole windows: it reads past the end of a shorter input, and without padding past any input if the stride is more
than 1.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from cortado.base.element import CODES, INT32, Element
from cortado.base.errors import CortadoError, Reject
from cortado.base.numerics import Fixed, Tensor, clamp_int8, requant
from cortado.base.target import Core, CortexMTargetConfig, Isa
from cortado.ir import sampling
from cortado.ir.facts import USER_INPUT
from cortado.ir.graph import Bound, describe, shape
from cortado.ir.kernel import Array
from cortado.ir.op import Call, Lowering, Operator, PteWriter, shaped_call
from cortado.ir.roles import Activation, Bias, Role, Weight
from cortado.ir.sampling import CaseDraw
from cortado.ops import reach
from cortado.ops.float_graph import pair
from cortado.ops.loops import Window, sliding_fields
from cortado.ops.move import pad
from cortado.ops.move.reshape import VIEW

# ---- convolution -----------------------------------------------------------------------------------------


def finish(
    acc: Tensor, bias: Tensor | None, multipliers: Tensor, shifts: Tensor, offset: int, low: int, high: int
) -> Tensor:
    """Adds the bias, requantizes per channel (along the last dimension), adds the offset and clamps."""
    if bias is not None:
        acc = acc + bias
    return clamp_int8(requant(acc, multipliers.to(torch.int64), shifts) + offset, low, high).contiguous()


def out_size(size: int, kernel: int, stride: int, pad: int, dilation: int) -> int:
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


def spatial_shape(call: Call, kernel: tuple[int, int], channels: int) -> tuple[int, int, int, int]:
    n, h, w, _ = call.shape("input")
    (sh, sw), (ph, pw), (dh, dw) = call["stride"], call["padding"], call["dilation"]
    return n, out_size(h, kernel[0], sh, ph, dh), out_size(w, kernel[1], sw, pw, dw), channels


def macs(call: Call) -> int:
    """Counts the multiply-accumulates of a convolution of any grouping: each output uses one output channel's
    weights."""
    return math.prod(call.out_shape) * (math.prod(call.shape("weight")) // call.out_shape[-1])


# ---- from aten -----------------------------------------------------------------------------------------------


def weighted(bound: Bound, narrowest: Element) -> dict[str, Role]:
    """Returns the roles of a weighted layer's operands, with the element asked for."""
    return {"input": Activation(bound.element), "weight": Weight(narrowest), "bias": Bias()}


def check_constants(bound: Bound) -> Reject | None:
    for operand, what in ((bound["weight"], "constant weights"), (bound["bias"], "a constant bias")):
        if operand is not None and USER_INPUT.known(operand):
            return Reject(f"needs {what}, got the model's input '{operand.name}'")
        if operand is not None and operand.op not in ("get_attr", "placeholder"):
            return Reject(f"needs {what}, got the result of {operand.name}")
    return None


def rescaling(lowering: Lowering, divided: int) -> tuple[Tensor, Tensor]:
    """Returns multipliers and shifts for in_scale * w_scale[c] / out_scale, for sums that were divided by 2^divided."""
    in_scale, out_scale = lowering.q("input").scale * 2.0**divided, lowering.out.scale
    fixed = [Fixed.of(in_scale * float(scale) / out_scale) for scale in lowering.weight_scales("weight")]
    multipliers = torch.tensor([f.multiplier for f in fixed], dtype=torch.int32)
    return multipliers, torch.tensor([f.shift for f in fixed], dtype=torch.int32)


def sum_bounds(weight: Tensor, bias: Tensor | None, offset: int, element: Element) -> tuple[Tensor, Tensor]:
    """Returns the least and the largest sum of each output channel over all input codes; weight is [out_c, ...]."""
    flat = weight.reshape(weight.shape[0], -1)
    above = flat.clamp(min=0).sum(1, dtype=torch.int64)
    below = flat.clamp(max=0).sum(1, dtype=torch.int64)
    least, largest = element.low + offset, element.high + offset  # of x - zero_point; 0 lies between them
    start = torch.zeros_like(above) if bias is None else bias.to(torch.int64)
    return start + above * least + below * largest, start + above * largest + below * least


def check_sums(node: Node, low: Tensor, high: Tensor, shifts: Tensor) -> None:
    """Refuses a layer whose 32-bit accumulator could overflow, before or after the left shift of its requantization."""
    room = INT32.high >> shifts.clamp(min=0).to(torch.int64)
    most = torch.maximum(high, -low)
    if bool((most > room).any()):
        channel = int((most > room).nonzero()[0])
        raise CortadoError(
            f"{describe(node)}: the sum of output channel {channel} may reach {int(most[channel])}, expected at most "
            f"{int(room[channel])} so that it fits 32 bits when rescaled; use calibration data with the range that the "
            "model really sees, or a smaller layer"
        )


def requantization(lowering: Lowering, weight: Tensor, groups: int = 1) -> dict[str, Any]:
    """Returns the arguments that all weighted operators share: bias, offsets, multipliers, shifts, activation bounds.

    weight is [out_c, ...]. A grouped convolution always gets a bias: CMSIS-NN steps through it group by group.
    """
    given, bias = lowering.q("input"), lowering.data("bias")
    divided = reach.sum_shift(weight, bias) if given.element.symmetric else 0
    multipliers, shifts = rescaling(lowering, divided=divided)
    offset = -given.zero_point
    least, most = (reach.divided(one, divided) for one in sum_bounds(weight, bias, offset, given.element))
    check_sums(lowering.bound.node, least, most, shifts)
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


def window(bound: Bound) -> dict[str, list[int]]:
    return {name: pair(bound[name]) for name in ("stride", "padding", "dilation")}


# ---- the .pte ------------------------------------------------------------------------------------------------


def cmsis_layer(call: Call) -> dict[str, Any]:
    """Returns the arguments that describe a convolution to CMSIS-NN's functions for scratch sizes."""
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


# ---- the C kernel --------------------------------------------------------------------------------------------


def fold_offset(call: Call, weight_sums: np.ndarray[Any, Any]) -> tuple[int, Array | None]:
    """Returns (in_offset, bias) with the input offset folded into the bias, if that fits 32 bits."""
    bias = None if call["bias"] is None else call.array("bias").astype(np.int64)
    folded = weight_sums.astype(np.int64) * call["input_offset"] + (0 if bias is None else bias)
    if folded.min() >= INT32.low and folded.max() <= INT32.high:
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
    zero = np.full(call.shape("input")[3], -call["input_offset"], dtype=np.int8)
    return {**sliding_fields(call, kernel), "zero": Array(zero)}


def window_of(call: Call, kernel: tuple[int, int], groups: int = 1) -> Window:
    """Returns the window of a convolution, for the work of its kernel."""
    return Window(
        in_w=call.shape("input")[2],
        in_c=call.shape("input")[3],
        out_w=call.out_shape[2],
        out_c=call.out_shape[3],
        kernel_h=kernel[0],
        kernel_w=kernel[1],
        stride_w=call["stride"][1],
        pad_left=call["padding"][1],
        dilation_w=call["dilation"][1],
        groups=groups,
    )


_WINDOW = ("kernel_h", "kernel_w", "stride_w", "pad_left", "dilation_w")


def window_fits(fields: dict[str, Any], number: type[np.integer[Any]]) -> bool:
    """Whether the window's sizes fit a packed descriptor, whose members are narrower than a portable one's."""
    limits = np.iinfo(number)
    return all(limits.min <= fields[name] <= limits.max for name in _WINDOW)


Numbers = np.ndarray[Any, np.dtype[Any]]
SUFFIX = {Core.SMALL: "scalar", Core.LONG: "scalar", Core.DSP: "dsp", Core.MVE: "mve", Core.PORTABLE: ""}


# Members of a portable layer's descriptor that a packed one lacks, because its stream holds them.
_IN_STREAM = frozenset({"in_offset", "weights", "bias", "multiplier", "shift", "scale"})


def packed(fields: dict[str, Any], stream: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Returns a descriptor whose weights are a variant's stream, which holds biases and factors too."""
    kept = {name: value for name, value in fields.items() if name not in _IN_STREAM}
    return {**kept, "weights": Array(stream, packed=fields["weights"].data.shape)}


# ---- samples -------------------------------------------------------------------------------------------------


def weighted_case(
    draw: CaseDraw,
    kernel: tuple[int, int],
    channels: tuple[int, int],
    weight_shape: tuple[int, ...],
    usual: bool = False,
    kinds: tuple[Element, ...] = CODES,
) -> dict[str, Any]:
    """Draws the arguments of a convolution with that kernel: window, input, weights, requantization. With `usual`,
    values typical of networks, for which cores have specialized kernels."""
    seed = draw.seed()
    window = draw_window(draw, kernel, usual)
    sizes = [draw.whole(max(1, d * (k - 1) + 1 - 2 * p), d * (k - 1) + 9) for k, p, d in window.pop("fits")]
    sizes = [1, 1] if usual and kernel == (1, 1) and draw.pick([True, True, False]) else sizes  # linear
    batch = draw.pick([1, 1, 1, 2])
    kind = draw.pick(kinds)
    largest = -1 if usual else 1 if kind.affine else 0
    multipliers, shifts = sampling.fixed_points(seed, channels[1], high=largest)
    low, high = kind.codes if usual else draw.bounds(kind)
    bias = sampling.codes(seed + 1, (channels[1],), -(2**15), 2**15, torch.int32)
    return {
        "input": sampling.codes(seed + 2, (batch, *sizes, channels[0]), kind.low, kind.high, kind.torch_dtype),
        "weight": sampling.codes(seed + 3, weight_shape, *sampling.WEIGHTS),
        "bias": bias if draw.flag() else None,
        **window,
        "input_offset": -draw.zero_point(kind),
        "output_offset": draw.zero_point(kind),
        "requantize_multipliers": multipliers,
        "requantize_shifts": shifts,
        "activation_min": low,
        "activation_max": high,
    }


def draw_window(draw: CaseDraw, kernel: tuple[int, int], usual: bool = False) -> dict[str, Any]:
    """Draws stride, padding (smaller than the kernel) and dilation; `fits` holds (kernel, padding, dilation) per
    axis."""
    plain = usual or (kernel == (1, 1) and draw.flag())
    stride = [1, 1] if plain else [draw.pick([1, 1, 2, 3]) for _ in kernel]
    padding = [k // 2 for k in kernel] if plain else [draw.whole(0, k - 1) for k in kernel]
    dilation = [1, 1] if plain else [draw.pick([1, 1, 1, 2]) for _ in kernel]
    fits = list(zip(kernel, padding, dilation, strict=True))
    return {"stride": stride, "padding": padding, "dilation": dilation, "fits": fits}


# ---- height one ------------------------------------------------------------------------------------------


def is_wrong_on_mve(call: Call, depth: int) -> bool:
    """Whether that kernel takes a convolution and is wrong or reads past its input; `depth`: channels of a group."""
    (_, height, width, channels), (_, kernel_h, kernel, _) = call.shape("input"), call.shape("weight")
    stride, (above, beside), dilation = call["stride"][1], call["padding"], list(call["dilation"])
    pointwise = kernel_h == kernel == 1 and above == beside == 0 and dilation == [1, 1]
    signal = height == kernel_h == dilation[1] == 1 and channels == depth and stride * channels % 4 == 0
    if pointwise or not signal:
        return False
    ends = stride == 1 if beside == 0 else (beside - 1) % stride == 0
    return above > 0 or (width + 2 * beside - kernel) % stride > 0 or not ends or width < kernel


def in_pte(
    operator: Operator, arguments: Mapping[str, Any], depth: int, add: PteWriter, target: CortexMTargetConfig
) -> Node:
    """Adds a convolution unchanged, or, where that kernel would be wrong, in a form that the kernel does not take."""
    if Isa.MVE not in target.isas or not is_wrong_on_mve(shaped_call(operator, arguments), depth):
        return add(operator, **arguments)
    if arguments["padding"][0] > 0:
        return add(operator, **_on_padded_rows(arguments, add, target))
    return _turned(add(operator, **_upright(arguments, add)), add)


def _on_padded_rows(arguments: Mapping[str, Any], add: PteWriter, target: CortexMTargetConfig) -> dict[str, Any]:
    """Writes the rows of padding above and below the image out, which makes it higher than 1."""
    above, beside = arguments["padding"]
    rows = [0, above, 0, 0]
    border = {"pre_pad": rows, "post_pad": rows, "pad_value": -arguments["input_offset"]}
    padded = pad.in_pte({"input": arguments["input"], **border}, add, target)
    return {**arguments, "input": padded, "padding": [0, beside]}


def _upright(arguments: Mapping[str, Any], add: PteWriter) -> dict[str, Any]:
    """Swaps height and width: the same bytes under other sizes."""
    numbers = {name: list(reversed(arguments[name])) for name in ("stride", "padding", "dilation")}
    tensors = {name: _turned(arguments[name], add) for name in ("input", "weight")}
    return {**arguments, **numbers, **tensors}


def _turned(node: Node, add: PteWriter) -> Node:
    first, height, width, last = shape(node)
    return add(VIEW, self=node, size=[first, width, height, last])
