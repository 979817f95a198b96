"""out = clamp(round_away(sum of the window inside the image / pixels of the window inside the image)).

NHWC. The output keeps the input's scale and zero point, so no rescaling happens.
"""

import math
from typing import Any

import torch
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.base.numerics import INT8_MAX, INT8_MIN, Fixed, Tensor, clamp_int8, divide_round_away
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Function, Operand, Row
from cortado.ir.graph import TO_NCHW, TO_NHWC, Bound
from cortado.ir.op import (
    ONE_ROW,
    Call,
    Kernel,
    Lowering,
    Operator,
    Pattern,
    Quantization,
    Role,
    RowRule,
    Rows,
    SharedWith,
)
from cortado.ops import packing
from cortado.ops._float import pair

aten = torch.ops.aten
_UNIT = Fixed.of(1.0)


def _pool_sums(x: Tensor, kernel: list[int], stride: list[int], padding: list[int], ceil_mode: bool) -> Tensor:
    """Window sums, exact in float64; NCHW."""
    pooled = torch.nn.functional.avg_pool2d(
        x, kernel, stride, padding, ceil_mode=ceil_mode, count_include_pad=True, divisor_override=1
    )
    return pooled.to(torch.int64)


def reference(
    *,
    input: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    zero_point: int,
    multiplier: int,
    shift: int,
) -> Tensor:
    x = input.to(torch.float64).permute(TO_NCHW)
    total = _pool_sums(x, kernel_size, stride, padding, ceil_mode)
    count = _pool_sums(torch.ones_like(x), kernel_size, stride, padding, ceil_mode)
    return clamp_int8(divide_round_away(total, count)).permute(TO_NHWC).contiguous()


def pooled_size(size: int, kernel: int, stride: int, pad: int, ceil_mode: bool, dilation: int = 1) -> int:
    span = size + 2 * pad - dilation * (kernel - 1) - 1
    out = (-(-span // stride) if ceil_mode else span // stride) + 1
    # With ceil_mode a last window must still start inside the image or its left padding.
    return out - 1 if ceil_mode and (out - 1) * stride >= size + pad else out


def output_shape(call: Call) -> tuple[int, ...]:
    n, h, w, c = call.shape("input")
    (kh, kw), (sh, sw), (ph, pw) = call["kernel_size"], call["stride"], call["padding"]
    ceil = bool(call["ceil_mode"])
    return n, pooled_size(h, kh, sh, ph, ceil), pooled_size(w, kw, sw, pw, ceil), c


def match(bound: Bound) -> Quantization | Reject:
    """Other divisors than the pixels inside the image were rewritten (pool_forms) before anyone asks."""
    if bound["divisor_override"] is not None or (bound["count_include_pad"] and any(pair(bound["padding"]))):
        return Reject("divides by something else than the number of pixels inside the image")
    return Quantization({"self": Role.ACTIVATION}, SharedWith("self"))


def lower(lowering: Lowering) -> Node:
    bound = lowering.bound
    kernel = pair(bound["kernel_size"])
    result = lowering.call(
        AVG_POOL2D,
        input=lowering.transpose(lowering.node("self"), TO_NHWC),
        kernel_size=kernel,
        stride=pair(bound["stride"]) if bound["stride"] else kernel,
        padding=pair(bound["padding"]),
        ceil_mode=bool(bound["ceil_mode"]),
        zero_point=lowering.out.zero_point,
        multiplier=_UNIT.multiplier,
        shift=_UNIT.shift,
    )
    return lowering.transpose(result, TO_NCHW)


def pte_scratch(call: Call, backend: Any) -> tuple[int, ...]:
    from executorch.backends.cortex_m.library import cmsis_nn

    _, _, out_w, channels = call.out_shape
    size = cmsis_nn.avgpool_buffer_size(backend, cmsis_nn.DataType.A8W8, dim_dst_width=out_w, ch_src=channels)
    return (int(size),)


def is_one_window(call: Call) -> bool:
    """One output pixel, no padding: the rows are summed as they come, so none of them has to be kept."""
    inside = all(k <= size for k, size in zip(call["kernel_size"], call.shape("input")[1:3], strict=True))
    return call.out_shape[1:3] == (1, 1) and inside and not any(call["padding"])


def rows(call: Call) -> Rows:
    if is_one_window(call):
        return Rows((ONE_ROW,), accumulates=call["kernel_size"][0])
    return Rows((RowRule(call["kernel_size"][0], call["stride"][0], call["padding"][0]),))


def _one_window(call: Call, core: Core) -> tuple[str, str, tuple[str, ...]]:
    """How rows are summed, how the sums become means, and their sources."""
    if core is Core.MVE:
        vector = packing.fits_means_mve(math.prod(call["kernel_size"]))
        means = ("cortado_means_s8__mve", "means_s8__mve.S") if vector else ("cortado_means_s8", "sum_rows_s8.c")
        return "cortado_sum_rows_s8__mve", means[0], ("sum_rows_s8__mve.S", means[1])
    if core is Core.DSP:
        return "cortado_sum_rows_s8__dsp", "cortado_means_s8", ("sum_rows_s8.c", "sum_rows_s8__dsp.c")
    return "cortado_sum_rows_s8", "cortado_means_s8", ("sum_rows_s8.c",)


def _variant(call: Call, core: Core) -> tuple[str, tuple[str, ...]]:
    fits = packing.fits_avg_pool2d(*call["kernel_size"])
    if core is Core.MVE and fits:
        return "avg_pool2d_s8__mve", ("avg_pool2d_s8__mve.c", "pool16_s8__mve.S")
    if core is Core.DSP and fits and call.out_shape[3] >= 4:
        return "avg_pool2d_s8__dsp", ("avg_pool2d_s8__dsp.c",)
    return "avg_pool2d_s8", ("avg_pool2d_s8.c",)


def kernel(call: Call, core: Core) -> Kernel:
    fields = {
        "in_w": call.shape("input")[2],
        "channels": call.shape("input")[3],
        "out_w": call.out_shape[2],
        "kernel_h": call["kernel_size"][0],
        "kernel_w": call["kernel_size"][1],
        "stride_w": call["stride"][1],
        "pad_left": call["padding"][1],
        "dilation_w": 1,
        "act_min": INT8_MIN,
        "act_max": INT8_MAX,
    }
    if is_one_window(call):
        sum_rows, means, sources = _one_window(call, core)
        operands = (Operand.LAYER, Row(0), Operand.OUT, Operand.SCRATCH, Operand.Y, Function(sum_rows), Function(means))
        return Kernel(
            call=CCall("cortado_global_avg_pool_s8", operands),
            sources=("global_avg_pool_s8.c", *sources, "cortado_scratch.c"),
            struct="cortado_pool2d_t",
            fields=fields,
            scratch=4 * call.out_shape[3],
            scratch_check=CCall("cortado_global_avg_pool_s8_scratch", (Operand.LAYER,)),
        )
    symbol, sources = _variant(call, core)
    return Kernel(
        call=CCall(f"cortado_{symbol}", (Operand.LAYER, Operand.ROWS, Operand.OUT, Operand.SCRATCH)),
        sources=sources,
        struct="cortado_pool2d_t",
        fields=fields,
    )


def samples() -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        kernel = [draw(st.integers(1, 5)) for _ in range(2)]
        sizes = [draw(st.integers(k, k + 8)) for k in kernel]
        shape = (draw(st.sampled_from([1, 1, 2])), *sizes, draw(sampling.CHANNELS))
        return {
            "input": sampling.codes(draw(sampling.SEEDS), shape),
            "kernel_size": kernel,
            "stride": [draw(st.integers(1, 3)) for _ in kernel],
            "padding": [draw(st.integers(0, k // 2)) for k in kernel],
            "ceil_mode": draw(st.booleans()),
            "zero_point": draw(sampling.ZERO_POINTS),
            "multiplier": _UNIT.multiplier,
            "shift": _UNIT.shift,
        }

    return draw_case()


AVG_POOL2D = Operator(
    name="cortex_m::quantized_avg_pool2d_nhwc",
    summary="average over a window, padding not counted",
    arguments=(
        "Tensor input, int[] kernel_size, int[] stride, int[] padding, bool ceil_mode, int zero_point, "
        "int multiplier, int shift, Tensor scratch"
    ),
    reference=reference,
    shape=output_shape,
    kernel=kernel,
    rows=rows,
    pte_scratch=pte_scratch,
    samples=samples,
)

AVG_POOL2D_PATTERN = Pattern(aten=(aten.avg_pool2d.default,), match=match, lower=lower, images=True)
