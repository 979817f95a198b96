"""out = clamp(round_away(sum of the window inside the image / pixels of the window inside the image)).

NHWC. The output keeps the input's scale and zero point, so nothing is requantized.

The mean over an image, or over its upper rows, spreads much less than its pixels do, so it has a scale of its own: out
= clamp(requant(sum of (x + input_offset)) + output_offset). A sum is the same with another factor. In ExecuTorch that
is a convolution with a column of weights of 1, over a view in which the image is as high as it has pixels and as wide
as it has blocks of up to four channels.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16, element_of
from cortado.base.errors import Reject
from cortado.base.numerics import Fixed, Tensor, divide_round_away, requant
from cortado.base.target import Core, CortexMTargetConfig
from cortado.ir.c_call import Callee, Operand, Row
from cortado.ir.graph import TO_NCHW, TO_NHWC, Bound, shape
from cortado.ir.kernel import ONE_ROW, RowRule, Rows, Running
from cortado.ir.kernel_table import EVERY_CORE, WINDOW, KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, PteWriter
from cortado.ir.roles import Activation, InOffset, InZeroPoint, Multiplier, OutZeroPoint, Quantization, SharedWith
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Work
from cortado.ops.conv import conv2d, packing
from cortado.ops.float_graph import pair
from cortado.ops.loops import Window, pool, row_sums
from cortado.ops.move.reshape import VIEW

aten = torch.ops.aten
_UNIT = Fixed.of(1.0)


def _pool_sums(x: Tensor, kernel: list[int], stride: list[int], padding: list[int], ceil_mode: bool) -> Tensor:
    """Returns window sums, exact in float64; NCHW."""
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
    zero_point: InZeroPoint,
    multiplier: Multiplier,
    shift: int,
) -> Tensor:
    x = input.to(torch.float64).permute(TO_NCHW)
    total = _pool_sums(x, kernel_size, stride, padding, ceil_mode)
    count = _pool_sums(torch.ones_like(x), kernel_size, stride, padding, ceil_mode)
    return divide_round_away(total, count).to(input.dtype).permute(TO_NHWC).contiguous()


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
    """Takes pools that divide by the number of pixels inside the image; other divisors have been rewritten
    (forms.py)."""
    kind = Activation(bound.element)
    if is_mean(bound):
        return Quantization({"self": kind}, kind)
    if bound["divisor_override"] is not None or (bound["count_include_pad"] and any(pair(bound["padding"]))):
        return Reject("divides by a number other than that of the pixels inside the image")
    return Quantization({"self": Activation(bound.wanted)}, SharedWith("self"))


MOST_PIXELS = 4096
FEW_PIXELS = 256  # up to here the .pte can hold 16 weights for each pixel, above it one
# From this factor on, every sum but 0 saturates; a larger factor gives the same codes.
LARGEST_FACTORS = {INT8.bits: 2.0**9, INT16.bits: 2.0**3}  # 4,096 pixels of 16 bits have 28 of 31


def is_mean(bound: Bound) -> bool:
    """Whether it is one window of one image, as wide as the image, whatever its sum is divided by."""
    divisor = bound["divisor_override"]
    if any(pair(bound["padding"])) or bound["ceil_mode"] or shape(bound.node)[2:] != (1, 1):
        return False
    if divisor is not None and divisor < 0:
        return False
    return is_one_image(shape(bound["self"]), pair(bound["kernel_size"]))


def is_one_image(sizes: tuple[int, ...], kernel: Sequence[int]) -> bool:
    """Whether a window is as wide as the only NCHW image, and the kernel for means takes it."""
    images, _, _, width = sizes
    return images == 1 and kernel[1] == width and 1 < math.prod(kernel) <= MOST_PIXELS


def lower_mean(lowering: Lowering) -> Node:
    source = lowering.transpose(lowering.node("self"), TO_NHWC)
    pixels, given = math.prod(pair(lowering.bound["kernel_size"])), lowering.q("self")
    divisor = lowering.bound["divisor_override"] or pixels
    fixed = Fixed.of(min(given.scale / (divisor * lowering.out.scale), LARGEST_FACTORS[given.element.bits]))
    result = lowering.call(
        GLOBAL_MEAN,
        input=source,
        pixels=pixels,
        input_offset=-given.zero_point,
        output_offset=lowering.out.zero_point,
        **fixed.arguments("requantize"),
    )
    return lowering.transpose(result, TO_NCHW)


def block_of(channels: int, pixels: int) -> int:
    """Returns how many channels lie side by side in the view: more are faster, but take more weights."""
    return next(block for block in (4, 2, 1) if channels % block == 0 and (pixels <= FEW_PIXELS or block == 1))


def ones_of(pixels: int, block: int) -> Tensor:
    """Returns the weights of that convolution, which keeps the channels of a block separate."""
    return torch.eye(block, dtype=torch.int8).reshape(block, 1, 1, block).repeat(1, pixels, 1, 1)


def lower(lowering: Lowering) -> Node:
    bound = lowering.bound
    if is_mean(bound):
        return lower_mean(lowering)
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
    """Whether it has one output pixel and no padding: the rows are accumulated as they arrive, so none has to be
    kept."""
    if call.element_of("input").symmetric:
        return False
    inside = all(k <= size for k, size in zip(call["kernel_size"], call.shape("input")[1:3], strict=True))
    return call.out_shape[1:3] == (1, 1) and inside and not any(call["padding"])


def rows(call: Call) -> Rows:
    if is_one_window(call):
        return Rows((ONE_ROW,), accumulates=call["kernel_size"][0])
    return Rows((RowRule(call["kernel_size"][0], call["stride"][0], call["padding"][0]),))


# The functions that sum rows, and the cores that have them.
_SUM_ROWS = (
    ("cortado_sum_rows_s8__mve", (Core.MVE,)),
    ("cortado_sum_rows_s8__dsp", (Core.DSP,)),
    ("cortado_sum_rows_s8", EVERY_CORE),
)
_SUMMED = (Operand.LAYER, Row(0), Operand.OUT, Operand.SCRATCH, Operand.Y)


def pool_fields(call: Call, dilation: int = 1) -> dict[str, int]:
    """Returns the descriptor members of a pool's window."""
    return {
        "in_w": call.shape("input")[2],
        "channels": call.shape("input")[3],
        "out_w": call.out_shape[2],
        "kernel_h": call["kernel_size"][0],
        "kernel_w": call["kernel_size"][1],
        "stride_w": call["stride"][1],
        "pad_left": call["padding"][1],
        "dilation_w": dilation,
    }


def pool_window(call: Call, dilation: int = 1) -> Window:
    """Returns the window of a pool, for the work of its kernel."""
    fields = pool_fields(call, dilation)
    channels = fields.pop("channels")
    return Window(**fields, in_c=channels, out_c=call.out_shape[3])


def _fits(call: Call) -> bool:
    return packing.fits_avg_pool2d(*call["kernel_size"])


def _fits_vectors(call: Call) -> bool:
    return is_one_window(call) and packing.fits_means_mve(math.prod(call["kernel_size"]))


_WINDOWS = KernelRow(
    "avg_pool2d_s8",
    INT8,
    arguments=(*WINDOW, Operand.SCRATCH),
    struct="cortado_pool2d_t",
    fields=pool_fields,
    work=lambda call: pool(pool_window(call), call.element.low),
)


def _whole_row(sums: str, cores: tuple[Core, ...], means: str, fits: Callable[[Call], bool]) -> KernelRow:
    return replace(
        _WINDOWS,
        symbol="global_avg_pool_s8",
        cores=cores,
        fits=fits,
        arguments=(*_SUMMED, Callee(sums), Callee(means)),
        scratch=lambda call: 4 * call.out_shape[3],
        work=lambda call: row_sums(call.out_shape[3], call["kernel_size"][1], call["kernel_size"][0]),
    )


KERNELS = KernelTable(
    (
        _whole_row("cortado_sum_rows_s8__mve", (Core.MVE,), "cortado_means_s8__mve", _fits_vectors),
        *(_whole_row(sums, cores, "cortado_means_s8", is_one_window) for sums, cores in _SUM_ROWS),
        replace(_WINDOWS, symbol="avg_pool2d_s8__mve", cores=(Core.MVE,), fits=_fits),
        replace(
            _WINDOWS,
            symbol="avg_pool2d_s8__dsp",
            cores=(Core.DSP,),
            fits=lambda call: _fits(call) and call.out_shape[3] >= 4,
        ),
        _WINDOWS,
        replace(_WINDOWS, symbol="avg_pool2d_s16", reads=INT16),
    )
)


def samples(draw: CaseDraw) -> dict[str, Any]:
    kernel, whole = [draw.whole(1, 5) for _ in range(2)], draw.pick([False, False, True])
    sizes = kernel if whole else [draw.whole(k, k + 8) for k in kernel]
    shape = (draw.pick([1, 1, 2]), *sizes, draw.channels())
    kind = draw.element()
    return {
        "input": draw.codes(shape, kind),
        "kernel_size": kernel,
        "stride": [draw.whole(1, 3) for _ in kernel],
        "padding": [0 if whole else draw.whole(0, k // 2) for k in kernel],
        "multiplier": _UNIT.multiplier,
        "shift": _UNIT.shift,
    }


AVG_POOL2D = Operator(
    name="cortex_m::quantized_avg_pool2d_nhwc",
    summary="average over a window, padding not counted",
    scratch=("scratch",),
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=rows,
    element=ElementOf(("input",)),
    pte_scratch=pte_scratch,
    by_channel=True,
    samples=samples,
)

# ---- the mean over a whole image -----------------------------------------------------------------------------


def mean_reference(
    *,
    input: Tensor,
    pixels: int,
    input_offset: InOffset,
    output_offset: OutZeroPoint,
    requantize_multiplier: int,
    requantize_shift: int,
) -> Tensor:
    acc = (input.flatten(1, 2)[:, :pixels, None].to(torch.int64) + input_offset).sum(1, keepdim=True)
    scaled = requant(acc, requantize_multiplier, requantize_shift)
    return (scaled + output_offset).clamp(*element_of(input.dtype).codes).to(input.dtype).contiguous()


def mean_in_pte(arguments: Mapping[str, Any], add: PteWriter, target: CortexMTargetConfig) -> Node:
    """Writes the mean as a convolution with a column of pixels that slides over the blocks of channels."""
    _, height, width, channels = shape(arguments["input"])
    block = block_of(channels, arguments["pixels"])
    factors = {
        f"requantize_{name}s": add.constant(f"{name}s", torch.full((block,), arguments[f"requantize_{name}"]).int())
        for name in ("multiplier", "shift")
    }
    convolution = {
        "input": add(VIEW, self=arguments["input"], size=[1, height * width, channels // block, block]),
        "weight": add.constant("ones", ones_of(arguments["pixels"], block)),
        "bias": None,
        "stride": [height * width, 1],
        "padding": [0, 0],
        "dilation": [1, 1],
        "input_offset": arguments["input_offset"],
        "output_offset": arguments["output_offset"],
        **factors,
        "activation_min": INT8.low,
        "activation_max": INT8.high,
    }
    return add(VIEW, self=conv2d.in_pte(convolution, add, target), size=[1, 1, 1, channels])


def _mean_fields(call: Call) -> dict[str, int]:
    _, _, width, channels = call.shape("input")
    return {
        "rows": call["pixels"] // width,
        "in_w": width,
        "channels": channels,
        "start": call["pixels"] * call["input_offset"],
        "multiplier": call["requantize_multiplier"],
        "shift": call["requantize_shift"],
    }


def _mean_work(call: Call) -> Work:
    _, _, width, channels = call.shape("input")
    return row_sums(channels, width, call["pixels"] // width)


def _ring_bytes(call: Call, row_sum: int) -> int:
    """Returns the bytes of a place in the ring, the sums of all rows, and the sum of each row by channel."""
    _, _, width, channels = call.shape("input")
    return int(4 + 4 * channels + row_sum * (call["pixels"] // width) * channels)


_MEAN = KernelRow(
    "global_mean_s16",
    INT16,
    arguments=_SUMMED,
    struct="cortado_global_mean_t",
    fields=_mean_fields,
    scratch=lambda call: 4 * call.shape("input")[3],
    scratch_check="global_mean_s8_scratch",
    work=_mean_work,
)
_MEANS = tuple(
    replace(_MEAN, symbol="global_mean_s8", reads=INT8, cores=cores, arguments=(*_SUMMED, Callee(sums)))
    for sums, cores in _SUM_ROWS
)
WIDEST_ROW = 255  # pixels of int8 codes whose sum fits 16 bits


def _narrow(call: Call) -> bool:
    return bool(call.shape("input")[2] <= WIDEST_ROW)


# Means over the last rows, after every row: see running_mean_s8.c.
_RUNNING_MEANS = tuple(
    replace(row, symbol="running_mean_s8", scratch=lambda call: _ring_bytes(call, 2), scratch_check=None, fits=_narrow)
    for row in _MEANS
)
_RUNNING_MEAN = replace(_MEAN, symbol="running_mean_s16", scratch=lambda call: _ring_bytes(call, 4), scratch_check=None)
MEAN_KERNELS = KernelTable((*_MEANS, _MEAN), (*_RUNNING_MEANS, _RUNNING_MEAN))


def running_mean(call: Call, core: Core) -> Running | None:
    kernel = MEAN_KERNELS.running(call, core)
    if kernel is None:
        return None
    return Running(Rows((ONE_ROW,), accumulates=call["pixels"] // call.shape("input")[2]), kernel)


def mean_samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws factors from means that vanish to means that saturate."""
    height, width, channels = draw.whole(1, 9), draw.whole(2, 9), draw.channels()
    pixels = width * draw.whole(1, height)
    kind = draw.element()
    largest = 9 if kind.affine else 3
    fixed = Fixed.of(2.0 ** draw.real(-20, largest) / draw.pick([1, pixels]))
    return {
        "input": draw.codes((1, height, width, channels), kind),
        "pixels": pixels,
        **fixed.arguments("requantize"),
    }


GLOBAL_MEAN = Operator(
    name="cortado::global_mean_nhwc",
    summary="mean or sum over an image or its upper rows, with its own scale",
    reference=mean_reference,
    shape=lambda call: (1, 1, 1, call.shape("input")[3]),
    kernel=MEAN_KERNELS,
    running=running_mean,
    element=ElementOf(("input",)),
    rows=lambda call: Rows((ONE_ROW,), accumulates=call["pixels"] // call.shape("input")[2]),
    pte=mean_in_pte,
    constraints=f"one image, 2 to {MOST_PIXELS} pixels; in the .pte, a convolution with weights of 1",
    by_channel=True,
    samples=mean_samples,
)

AVG_POOL2D_PATTERN = Pattern(aten=(aten.avg_pool2d.default,), match=match, lower=lower, images=True, rounds_once=True)
