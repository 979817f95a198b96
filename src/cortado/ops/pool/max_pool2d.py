"""out = clamp(largest value of the window inside the image). NHWC; the codes keep their scale and zero point."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.base.target import Core, CortexMTargetConfig
from cortado.ir.graph import TO_NCHW, TO_NHWC, Bound, shape
from cortado.ir.kernel import RowRule, Rows
from cortado.ir.kernel_table import WINDOW, KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, PteWriter
from cortado.ir.roles import Activation, High, InZeroPoint, Low, OutZeroPoint, Quantization, SharedWith
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Work
from cortado.ops.float_graph import pair
from cortado.ops.loops import pool
from cortado.ops.move import pad
from cortado.ops.pool.avg_pool2d import pool_fields, pool_window, pooled_size

# ---- max pool2d ------------------------------------------------------------------------------------------

aten = torch.ops.aten


def reference(
    *,
    input: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
    input_zero_point: InZeroPoint,
    output_zero_point: OutZeroPoint,
    activation_min: Low,
    activation_max: High,
) -> Tensor:
    x = input.to(torch.float32).permute(TO_NCHW)
    largest = torch.max_pool2d(x, kernel_size, stride, padding, dilation, ceil_mode)
    return largest.clamp(activation_min, activation_max).to(input.dtype).permute(TO_NHWC).contiguous()


def output_shape(call: Call) -> tuple[int, ...]:
    n, *sizes, channels = call.shape("input")
    axes = zip(sizes, call["kernel_size"], call["stride"], call["padding"], call["dilation"], strict=True)
    out_h, out_w = (pooled_size(size, k, s, p, bool(call["ceil_mode"]), d) for size, k, s, p, d in axes)
    return n, out_h, out_w, channels


def match(bound: Bound) -> Quantization | Reject:
    return Quantization({"self": Activation(None)}, SharedWith("self"))


def lower(lowering: Lowering) -> Node:
    bound = lowering.bound
    kernel, dilation = pair(bound["kernel_size"]), pair(bound["dilation"])
    stride = pair(bound["stride"]) if bound["stride"] else kernel
    padding = pair(bound["padding"])
    source = lowering.transpose(lowering.node("self"), TO_NHWC)
    axes = list(zip(shape(source)[1:3], kernel, stride, padding, dilation, strict=True))
    sizes = [
        [pooled_size(size, k, s, p, up, d) for size, k, s, p, d in axes] for up in (False, bool(bound["ceil_mode"]))
    ]
    clipped = sizes[0] != sizes[1]  # the last window extends past the padding
    operator = DILATED_MAX_POOL2D if dilation != [1, 1] else CLIPPED_MAX_POOL2D if clipped else MAX_POOL2D
    result = lowering.call(
        operator,
        input=source,
        kernel_size=kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        ceil_mode=clipped,
        input_zero_point=lowering.q("self").zero_point,
        output_zero_point=lowering.out.zero_point,
        activation_min=lowering.out.element.low,
        activation_max=lowering.out.element.high,
    )
    return lowering.transpose(result, TO_NCHW)


# ---- the .pte ------------------------------------------------------------------------------------------------


def pte_limit(call: Call) -> str | None:
    plain = not call["ceil_mode"] and list(call["dilation"]) == [1, 1]
    return None if plain else "supports neither ceil_mode nor dilation"


def clipped_in_pte(arguments: Mapping[str, Any], add: PteWriter, target: CortexMTargetConfig) -> Node:
    """Writes the pool on a larger image, padded with the smallest code: ExecuTorch's kernel has no windows past the
    padding."""
    source = arguments["input"]
    numbers = (arguments[name] for name in ("kernel_size", "stride", "padding"))
    grow = [_missing(*axis) for axis in zip(shape(source)[1:3], *numbers, strict=True)]
    border = {"input": source, "pre_pad": [0, 0, 0, 0], "post_pad": [0, *grow, 0], "pad_value": INT8.low}
    grown = pad.in_pte(border, add, target)
    return add(MAX_POOL2D, **{**arguments, "input": grown, "ceil_mode": False})


def _missing(size: int, kernel: int, stride: int, border: int) -> int:
    """Returns the number of rows that the last window of ceil_mode lacks."""
    last = (pooled_size(size, kernel, stride, border, ceil_mode=True) - 1) * stride
    return max(0, last + kernel - (size + 2 * border))


# ---- the C kernel --------------------------------------------------------------------------------------------


def rows(call: Call) -> Rows:
    taps, stride, above, dilation = (call[name][0] for name in ("kernel_size", "stride", "padding", "dilation"))
    return Rows((RowRule(taps, stride, above, dilation),))


def _fields(call: Call) -> dict[str, int]:
    return pool_fields(call, call["dilation"][1])


def _work(call: Call) -> Work:
    limited = call["activation_max"] < call.element.high
    return pool(pool_window(call, call["dilation"][1]), call["activation_min"], limited)


def _four_channels(call: Call) -> bool:
    return call.out_shape[3] >= 4


_ROW = KernelRow("max_pool2d_s8", INT8, arguments=WINDOW, struct="cortado_pool2d_t", fields=_fields, work=_work)
KERNELS = KernelTable(
    (
        replace(_ROW, symbol="max_pool2d_s8__mve", cores=(Core.MVE,), fits=_four_channels),
        replace(_ROW, symbol="max_pool2d_s8__dsp", cores=(Core.DSP,), fits=_four_channels),
        _ROW,
        replace(_ROW, symbol="max_pool2d_s16", reads=INT16),
    )
)


# ---- samples -------------------------------------------------------------------------------------------------


def _samples(draw: CaseDraw, *, ceil_mode: bool = True, dilations: tuple[int, ...] = (1,)) -> dict[str, Any]:
    kernel = [draw.whole(1, 5) for _ in range(2)]
    dilation = [draw.pick(dilations) for _ in range(2)]
    padding = [draw.whole(0, k // 2) for k in kernel]
    reach = [d * (k - 1) + 1 - 2 * p for k, d, p in zip(kernel, dilation, padding, strict=True)]
    sizes = [draw.whole(max(1, r), max(1, r) + 8) for r in reach]
    kind = draw.element()
    zero_point = draw.zero_point(kind)
    return {
        "input": draw.codes((draw.pick([1, 1, 2]), *sizes, draw.channels()), kind),
        "kernel_size": kernel,
        "stride": [draw.whole(1, 3) for _ in kernel],
        "padding": padding,
        "dilation": dilation,
        "ceil_mode": ceil_mode and draw.flag(),
        "input_zero_point": zero_point,
        "output_zero_point": zero_point,
    }


MAX_POOL2D = Operator(
    name="cortex_m::quantized_max_pool2d_nhwc",
    summary="maximum over a window, padding not counted",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=rows,
    element=ElementOf(("input",)),
    pte_limit=pte_limit,
    by_channel=True,
    samples=partial(_samples, ceil_mode=False),
)

CLIPPED_MAX_POOL2D = replace(
    MAX_POOL2D,
    name="cortado::max_pool2d_nhwc",
    summary="maximum over a window that may reach past the padding (ceil_mode)",
    pte=clipped_in_pte,
    pte_limit=lambda call: None,
    constraints="in the .pte, the image is padded with the smallest code first",
    samples=_samples,
)

DILATED_MAX_POOL2D = replace(
    MAX_POOL2D,
    name="cortado::dilated_max_pool2d_nhwc",
    summary="maximum over a window with gaps",
    constraints="",
    no_pte="ExecuTorch's max_pool2d kernel takes no dilation",
    samples=partial(_samples, dilations=(1, 2, 3)),
)

MAX_POOL2D_PATTERN = Pattern(aten=(aten.max_pool2d.default,), match=match, lower=lower, monotone=True, images=True)
