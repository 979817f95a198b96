"""out = clamp(largest value of the window inside the image). NHWC; the codes keep their scale and zero point.

Where the largest value of each window of a max pool is, and what puts values back there (max_unpool).

The windows are picked from the image; the first largest value of each is found in it, and its place in the window gives
its place in the image, as integers. A tap outside the image reads the pixel at the border that is nearest, which
lies in the same window.
"""

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node
from torch.nn import functional as F

from cortado.base.element import INT8, INT16
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.base.target import Core, CortexMTargetConfig
from cortado.ir.c_call import CCall, Operand
from cortado.ir.graph import TO_NCHW, TO_NHWC, Bound, bind, is_call, shape
from cortado.ir.kernel import Kernel, RowRule, Rows
from cortado.ir.op import Call, Decomposition, ElementOf, Lowering, Operator, Pattern, Place, PteWriter
from cortado.ir.roles import Activation, Quantization, SharedWith
from cortado.ops.float_graph import height_one, pair, parts_of
from cortado.ops.loops import pool
from cortado.ops.move import pad
from cortado.ops.pool.avg_pool2d import pool_window, pooled_size

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
    input_zero_point: int,
    output_zero_point: int,
    activation_min: int,
    activation_max: int,
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
    clipped = sizes[0] != sizes[1]  # the last window reaches past the padding
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
    return None if plain else "knows neither ceil_mode nor dilation"


def clipped_in_pte(arguments: Mapping[str, Any], add: PteWriter, target: CortexMTargetConfig) -> Node:
    """ExecuTorch's kernel has no windows that reach past the padding: the image grows by the smallest code."""
    source = arguments["input"]
    numbers = (arguments[name] for name in ("kernel_size", "stride", "padding"))
    grow = [_missing(*axis) for axis in zip(shape(source)[1:3], *numbers, strict=True)]
    border = {"input": source, "pre_pad": [0, 0, 0, 0], "post_pad": [0, *grow, 0], "pad_value": INT8.low}
    grown = pad.in_pte(border, add, target)
    return add(MAX_POOL2D, **{**arguments, "input": grown, "ceil_mode": False})


def _missing(size: int, kernel: int, stride: int, border: int) -> int:
    """Rows that the last window of ceil_mode lacks."""
    last = (pooled_size(size, kernel, stride, border, ceil_mode=True) - 1) * stride
    return max(0, last + kernel - (size + 2 * border))


# ---- the C kernel --------------------------------------------------------------------------------------------


def rows(call: Call) -> Rows:
    taps, stride, above, dilation = (call[name][0] for name in ("kernel_size", "stride", "padding", "dilation"))
    return Rows((RowRule(taps, stride, above, dilation),))


def kernel(call: Call, core: Core) -> Kernel:
    fields = {
        "in_w": call.shape("input")[2],
        "channels": call.shape("input")[3],
        "out_w": call.out_shape[2],
        "kernel_h": call["kernel_size"][0],
        "kernel_w": call["kernel_size"][1],
        "stride_w": call["stride"][1],
        "pad_left": call["padding"][1],
        "dilation_w": call["dilation"][1],
        "act_min": call["activation_min"],
        "act_max": call["activation_max"],
    }
    symbol = "max_pool2d_s8"
    if call.element.bits == INT16.bits:
        symbol = "max_pool2d_s16"
    elif core is Core.MVE and call.out_shape[3] >= 4:
        symbol = "max_pool2d_s8__mve"
    elif core is Core.DSP and call.out_shape[3] >= 4:
        symbol = "max_pool2d_s8__dsp"
    return Kernel(
        call=CCall(f"cortado_{symbol}", (Operand.LAYER, Operand.ROWS, Operand.OUT)),
        struct="cortado_pool2d_t",
        fields=fields,
        work=pool(
            pool_window(call, call["dilation"][1]),
            call["activation_min"],
            call["activation_max"] < call.element.high,
        ),
    )


# ---- samples -------------------------------------------------------------------------------------------------


def _samples(ceil_mode: bool, dilations: tuple[int, ...]) -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        kernel = [draw(st.integers(1, 5)) for _ in range(2)]
        dilation = [draw(st.sampled_from(dilations)) for _ in range(2)]
        padding = [draw(st.integers(0, k // 2)) for k in kernel]
        reach = [d * (k - 1) + 1 - 2 * p for k, d, p in zip(kernel, dilation, padding, strict=True)]
        sizes = [draw(st.integers(max(1, r), max(1, r) + 8)) for r in reach]
        kind = draw(st.sampled_from([INT8, INT8, INT16]))
        zero_point = draw(sampling.ZERO_POINTS) if kind.affine else 0
        low, high = draw(sampling.activation_bounds(kind))
        return {
            "input": sampling.values(
                draw, (draw(st.sampled_from([1, 1, 2])), *sizes, draw(sampling.CHANNELS)), element=kind
            ),
            "kernel_size": kernel,
            "stride": [draw(st.integers(1, 3)) for _ in kernel],
            "padding": padding,
            "dilation": dilation,
            "ceil_mode": ceil_mode and draw(st.booleans()),
            "input_zero_point": zero_point,
            "output_zero_point": zero_point,
            "activation_min": low,
            "activation_max": high,
        }

    return draw_case()


MAX_POOL2D = Operator(
    name="cortex_m::quantized_max_pool2d_nhwc",
    summary="maximum over a window, padding not counted",
    arguments=(
        "Tensor input, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode, "
        "int input_zero_point, int output_zero_point, int activation_min, int activation_max"
    ),
    reference=reference,
    shape=output_shape,
    kernel=kernel,
    rows=rows,
    element=ElementOf(("input",)),
    pte_limit=pte_limit,
    by_channel=True,
    samples=lambda: _samples(False, (1,)),
)

CLIPPED_MAX_POOL2D = replace(
    MAX_POOL2D,
    name="cortado::max_pool2d_nhwc",
    summary="maximum over a window that may reach past the padding (ceil_mode)",
    pte=clipped_in_pte,
    pte_limit=lambda call: None,
    constraints="in the .pte the image is padded with the smallest code first",
    samples=lambda: _samples(True, (1,)),
)

DILATED_MAX_POOL2D = replace(
    MAX_POOL2D,
    name="cortado::dilated_max_pool2d_nhwc",
    summary="maximum over a window with gaps",
    places=frozenset({Place.C}),
    constraints="ExecuTorch's max_pool2d kernel takes no dilation",
    samples=lambda: _samples(True, (1, 2, 3)),
)

MAX_POOL2D_PATTERN = Pattern(aten=(aten.max_pool2d.default,), match=match, lower=lower, monotone=True, images=True)


# ---- pool positions --------------------------------------------------------------------------------------


def _rows(size: int, kernel: int, stride: int, pad: int, dilation: int, ceil_mode: bool) -> Tensor:
    """[windows, taps]: which row of the image each tap is over; it may be outside."""
    count = pooled_size(size, kernel, stride, pad, ceil_mode, dilation)
    return torch.arange(count).reshape(-1, 1) * stride - pad + torch.arange(kernel) * dilation


def max_pool2d(
    self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    kernel, pads, gaps = pair(kernel_size), pair(padding), pair(dilation)
    steps = pair(stride) if stride else kernel
    height, width = self.shape[-2:]
    images = self.reshape(-1, height * width)
    above, left = (_rows(*axis, ceil_mode) for axis in zip((height, width), kernel, steps, pads, gaps, strict=True))
    rows, columns = above.clamp(0, height - 1), left.clamp(0, width - 1)
    places = rows.reshape(-1, 1, kernel[0], 1) * width + columns.reshape(1, -1, 1, kernel[1])
    windows = images.index_select(1, places.reshape(-1)).reshape(-1, *places.shape[:2], kernel[0] * kernel[1])
    best = windows.argmax(-1)
    row = above[:, :1] + best // kernel[1] * gaps[0]
    column = left[:, 0] + best % kernel[1] * gaps[1]
    if any(pads) or ceil_mode:
        row = torch.minimum(torch.maximum(row, torch.tensor(0)), torch.tensor(height - 1))
        column = torch.minimum(torch.maximum(column, torch.tensor(0)), torch.tensor(width - 1))
    sizes = (*self.shape[:-2], *places.shape[:2])
    values = F.max_pool2d(self, kernel, steps, pads, gaps, ceil_mode)
    return values, (row * width + column).reshape(sizes)


def max_pool1d(
    self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[Tensor, Tensor]:
    """A signal is an image of height 1."""
    kernel, steps, gaps = (height_one(value, 1) for value in (kernel_size, stride or kernel_size, dilation))
    values, positions = max_pool2d(self.unsqueeze(-2), kernel, steps, height_one(padding, 0), gaps, ceil_mode)
    return values.squeeze(-2), positions.squeeze(-2)


def _gives_positions(bound: Bound) -> bool:
    """Somebody reads them; with gaps between its taps a pixel at the border may lie in no window."""
    read = any(part.users for part in parts_of(bound.node, 1))
    inside = not any(pair(bound["padding"])) and not bound["ceil_mode"]
    return read and (inside or all(gap == 1 for gap in pair(bound["dilation"])))


# ---- back ----------------------------------------------------------------------------------------------------


def _pool_of(positions: Any) -> Bound | None:
    """The max pool of whose results these are the positions."""
    if not is_call(positions, operator.getitem) or positions.args[1] != 1:
        return None
    pool = positions.args[0]
    assert isinstance(pool, Node)
    return bind(pool) if is_call(pool, aten.max_pool2d_with_indices.default) else None


def _goes_back(bound: Bound) -> bool:
    """Into windows that lie side by side, of the image that was pooled."""
    pool = _pool_of(bound["indices"])
    if pool is None or shape(bound["self"]) != shape(bound["indices"]):
        return False
    kernel = pair(pool["kernel_size"])
    apart = (pair(pool["stride"]) if pool["stride"] else kernel) == kernel and pair(pool["dilation"]) == [1, 1]
    inside = not any(pair(pool["padding"])) and not pool["ceil_mode"]
    return apart and inside and list(shape(pool["self"])[-2:]) == [int(size) for size in bound["output_size"]]


def max_unpool2d(self: Tensor, indices: Tensor, output_size: Any) -> Tensor:
    """Every value is repeated over its window, and kept where its position is."""
    height, width = output_size
    *outer, rows, columns = self.shape
    taps = (height // rows, width // columns)
    places = (torch.arange(rows * taps[0]).reshape(-1, 1) * width + torch.arange(columns * taps[1])).to(torch.int64)

    def repeated(values: Tensor) -> Tensor:
        expanded = values.reshape(-1, rows, 1, columns, 1).expand(-1, rows, taps[0], columns, taps[1])
        return expanded.reshape(-1, rows * taps[0], columns * taps[1])

    kept = (repeated(indices) == places).to(torch.float32)
    made = (repeated(self) * kept).reshape(*outer, rows * taps[0], columns * taps[1])
    return F.pad(made, (0, width - columns * taps[1], 0, height - rows * taps[0]))


MAX_POOL2D_POSITIONS = Decomposition(
    aten=(aten.max_pool2d_with_indices.default,), function=max_pool2d, takes=_gives_positions
)
MAX_POOL1D = Decomposition(aten=(aten.max_pool1d_with_indices.default,), function=max_pool1d, takes=_gives_positions)
MAX_UNPOOL2D = Decomposition(aten=(aten.max_unpool2d.default,), function=max_unpool2d, takes=_goes_back)
