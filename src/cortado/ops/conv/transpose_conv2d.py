"""acc = bias + sum of (x + input_offset) * w over the taps that reach an output pixel; out = clamp(requant(acc) + ...).

Input pixel (i, j) reaches the output pixels (i * stride + ky * dilation - padding, ...). NHWC input, OHWI weights.

One form of call serves the .pte and the C bundle. CMSIS-NN's kernel is correct only for some shapes and supports
neither dilation nor groups, so a layer is lowered to an equivalent one that it computes correctly: with more taps, all
zero. The C kernel skips those: tap rows or columns of zeros, and blocks of zeros between groups, never reach the
bundle.

In C most layers run as ordinary convolutions. The output pixels x, x + stride, x + 2 * stride, ... are a convolution of
the input with every stride-th tap. The results for x = 0, 1, ... stride - 1 lie side by side in the row, so one
convolution computes them all, as its output channels; each of `stride` consecutive rows has its own convolution. With
groups there is one convolution for every such x as well.

Transposed convolutions with groups, in C: a grouped or depthwise convolution for each phase of rows and columns. The
pixels x, x + stride, x + 2 * stride, ... of an output row are a row of one such convolution. It computes them side by
side; they are then moved to their positions.

aten.convolution, as decomposed graphs have it, is rewritten to the aten call of its kind.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16, element_of
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir import sampling
from cortado.ir.c_call import Callee, CCall, Member, Offset, Operand, Row
from cortado.ir.graph import TO_NCHW, TO_NHWC, Bound, add_call, bind, shape
from cortado.ir.kernel import Array, Called, Kernel, NestedDescriptor, RowRule, Rows
from cortado.ir.kernel_table import KernelRow, KernelTable, Several
from cortado.ir.op import Call, ElementOf, Kernels, Lowering, Operator, Pattern, Rewrite
from cortado.ir.roles import Activation, High, InOffset, Low, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Calls, Quantities, Work, loops
from cortado.ops import reach
from cortado.ops.conv import conv2d, depthwise_conv2d, kernels
from cortado.ops.conv.convolution import check_constants, cmsis_layer, finish, requantization, weighted
from cortado.ops.conv.forms import conv1d_to_conv2d, images, to_conv2d
from cortado.ops.conv.kernels import ConvForm
from cortado.ops.conv.transposed_taps import (
    Phases,
    Taps,
    TransposedAxis,
    column_weights,
    dense,
    dilated,
    group_count,
    phase_weights,
    split_groups,
    zero_taps,
)
from cortado.ops.float_graph import add_constant, add_view, constant_data, height_one, is_constant, pair
from cortado.ops.loops import COPIED, RunSteps, copies

# ---- columns ---------------------------------------------------------------------------------------------

MOST = 4  # phases of one axis, at most

_KINDS = {
    "cortado_conv2d_t": "conv_columns",
    "cortado_conv2d_packed_t": "conv_packed_columns",
    "cortado_depthwise_t": "depthwise_columns",
    "cortado_depthwise_packed_t": "depthwise_packed_columns",
}
ALIGNED = 16  # bytes: the alignment of a column kernel's scratch
_MOST_DENSE = 4096  # bytes of weights, with the zeros between groups
# The number of products that take as long as laying out the window of one group.
_WINDOW = {Core.SMALL: 100, Core.LONG: 150, Core.DSP: 200, Core.MVE: 1000, Core.PORTABLE: 150}


def pays(call: Call, phases: tuple[Phases, Phases], groups: int, core: Core) -> bool:
    """Whether computing groups separately is faster than one dense layer with zeros between them; with few channels it
    is not."""
    down, across = phases
    out_c, _, _, in_c = call.shape("weight")
    columns, depth = len(across.taps), in_c // groups
    height = max(bottom - top + 1 for top, bottom in map(down.range, range(len(down.taps))))
    widths = [right - left + 1 for left, right in map(across.reach, range(columns))]
    dense = columns * out_c * height * (across.last - across.first + 1) * in_c
    laid_out = 0 if depth == 1 else _WINDOW[core] * columns * groups
    if call.out_shape[2] % columns != 0 or len(down.taps) * dense > _MOST_DENSE:
        return True
    return out_c * height * sum(widths) * depth + laid_out < dense


def _column_call(call: Call, phases: tuple[Phases, Phases], place: tuple[int, int], groups: int) -> Call:
    """Returns the convolution of one phase of rows and one of columns: the operands and result of one row call."""
    (down, across), column = phases, place[1]
    weights = split_groups(column_weights(call.array("weight"), down, across, place), groups)
    n, height, width, out_c = call.out_shape
    arguments = {
        **call.arguments,
        "weight": torch.from_numpy(np.ascontiguousarray(weights)),
        "stride": [1, 1],
        "padding": [0, -across.reach(column)[0]],
        "dilation": [1, 1],
    }
    sizes = (n, height, math.ceil((width - column) / len(across.taps)), out_c)
    return replace(call, operator=conv2d.CONV2D, arguments=arguments, out_shape=sizes)


def _row_kernel(call: Call, core: Core) -> Kernel:
    """Chooses a kernel for windows even for a single pixel, because its rows are given as pointers."""
    if conv2d.is_depthwise_call(call):
        return kernels.kernel(depthwise_conv2d.from_grouped(call), core, ConvForm.DEPTHWISE, own=True)
    return kernels.kernel(call, core, ConvForm.WINDOW)


def columns_kernel(call: Call, phases: tuple[Phases, Phases], groups: int, core: Core) -> Kernel:
    """Builds one kernel for all phases of rows and columns; the portable one if they would have different ones."""
    down, across = phases
    places = [(row, column) for row in range(len(down.taps)) for column in range(len(across.taps))]
    calls = [_column_call(call, phases, place, groups) for place in places]
    parts = [_row_kernel(one, core) for one in calls]
    if len({(part.call, part.struct) for part in parts}) > 1:
        parts = [_row_kernel(one, Core.PORTABLE) for one in calls]
    lean = [part.lean for part in parts if part.lean is not None]
    whole = _columns_joined(call, phases, parts)
    return whole if len(lean) < len(parts) else _with_lean(whole, _columns_joined(call, phases, lean))


def _with_lean(whole: Kernel, lean: Kernel) -> Kernel:
    return Kernel(**{**vars(whole), "lean": lean})


def _columns_bare(part: Kernel, rows: int) -> Kernel:
    """Returns the function and descriptor type of columns that are computed by one kernel."""
    assert part.struct is not None
    top, name = Offset(Operand.ROWS, by=Member("top", phases=rows)), _KINDS[part.struct]
    given = (Operand.LAYER, top, Operand.OUT, Operand.SCRATCH, Operand.Y, Callee(part.call.function))
    return Kernel(call=CCall(f"cortado_{name}_s8", given), struct=f"cortado_{name}_t")


def _columns_joined(call: Call, phases: tuple[Phases, Phases], parts: list[Kernel]) -> Kernel:
    (down, across), struct, out_c = phases, parts[0].struct, call.out_shape[3]
    assert struct is not None
    rows, columns = len(down.taps), len(across.taps)
    made = -(-math.ceil(call.out_shape[2] / columns) * out_c // ALIGNED) * ALIGNED
    most = max(part.scratch for part in parts)
    check = next((part.scratch_check for part in parts if part.scratch_check is not None), None)
    bare = _columns_bare(parts[0], rows)
    return replace(
        bare,
        fields={
            "top": tuple(down.range(phase)[0] - down.first for phase in range(rows)),
            "phases": rows,
            "columns": columns,
            "out_c": out_c,
            "made_bytes": made,
            "column": tuple(NestedDescriptor(struct, part.fields) for part in parts),
        },
        scratch=made + most,
        scratch_check=CCall(
            f"{bare.call.function}_scratch", (Operand.LAYER, 0 if check is None else Callee(check.function))
        ),
        work=_work(columns, out_c),
        called=tuple(Called(part, 1 / rows, 1 / len(parts)) for part in parts),
    )


def _work(columns: int, out_c: int) -> Work:
    def quantities(calls: Calls) -> Quantities:
        moved = copies(calls.outputs / out_c, out_c, RunSteps(0, out_c), RunSteps(0, columns * out_c))
        return {"columns": columns, **moved}

    return Work(("calls", "calls*columns", *COPIED), quantities)


# ---- transpose conv2d ------------------------------------------------------------------------------------

aten = torch.ops.aten


def reference(
    *,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    output_padding: list[int],
    dilation: list[int],
    input_offset: InOffset,
    output_offset: OutZeroPoint,
    requantize_multipliers: Tensor,
    requantize_shifts: Tensor,
    activation_min: Low,
    activation_max: High,
) -> Tensor:
    """Computes the sums over all taps in float64, which holds them exactly, then crops to the output."""
    x = (input.to(torch.float64) + input_offset).permute(TO_NCHW)
    w = weight.to(torch.float64).permute(3, 0, 1, 2)
    every = torch.conv_transpose2d(x, w, None, stride, dilation=dilation)
    sizes = [
        out_size(*axis)
        for axis in zip(input.shape[1:3], weight.shape[1:3], stride, padding, output_padding, dilation, strict=True)
    ]
    ends = [pad + size - full for pad, size, full in zip(padding, sizes, every.shape[2:], strict=True)]
    every = torch.nn.functional.pad(every, (-padding[1], ends[1], -padding[0], ends[0]))
    acc = every.permute(TO_NHWC).to(torch.int64)
    if element_of(input.dtype).symmetric:
        factors = requantize_multipliers, requantize_shifts
        return reach.finish(acc, weight, bias, factors, (activation_min, activation_max))
    return finish(acc, bias, requantize_multipliers, requantize_shifts, output_offset, activation_min, activation_max)


def out_size(size: int, kernel: int, stride: int, pad: int, extra: int, dilation: int) -> int:
    return (size - 1) * stride - 2 * pad + dilation * (kernel - 1) + 1 + extra


def output_shape(call: Call) -> tuple[int, ...]:
    n, height, width, _ = call.shape("input")
    out_c, kh, kw, _ = call.shape("weight")
    (sh, sw), (ph, pw), (oh, ow), (dh, dw) = (
        call[name] for name in ("stride", "padding", "output_padding", "dilation")
    )
    return n, out_size(height, kh, sh, ph, oh, dh), out_size(width, kw, sw, pw, ow, dw), out_c


def macs(call: Call) -> int:
    """Counts the multiply-accumulates: every input pixel is multiplied by every weight once."""
    return math.prod(call.shape("input")[:3]) * math.prod(call.shape("weight"))


# ---- from aten -----------------------------------------------------------------------------------------------


def to_conv_transpose2d(bound: Bound) -> Node | None:
    """Rewrites to a batch of images and one group. A signal is an image of height 1.

    The quantizer scales weights per output channel, which therefore has to be an axis of the weight: groups are written
    as one group with zeros between them.
    """
    weight, groups = bound["weight"], int(bound["groups"])
    spatial = len(shape(weight)) - 2
    source = images(bound.node, bound["input"], spatial)
    if not is_constant(weight) or (spatial == 2 and groups == 1 and source is bound["input"]):
        return None
    data = constant_data(weight)
    data = dense(data if spatial == 2 else data.unsqueeze(2), groups)
    wide = (lambda value, fill: pair(value)) if spatial == 2 else height_one
    fills = {"stride": 1, "padding": 0, "output_padding": 0, "dilation": 1}
    stride, padding, extra, dilation = (wide(bound[name], fill) for name, fill in fills.items())
    arguments = (source, add_constant(bound.node, "weight", data), bound["bias"], stride, padding, extra, 1, dilation)
    result = add_call(bound.node, aten.conv_transpose2d.input, *arguments)
    return add_view(bound.node, result, shape(bound.node))


def match(bound: Bound) -> Quantization | Reject:
    if len(shape(bound["input"])) != 4 or bound["groups"] != 1:
        return Reject(f"needs constant weights, got the result of {bound['weight'].name}")
    kind = Activation(bound.element)
    return check_constants(bound) or Quantization(weighted(bound, INT8), kind, weight_axis=1)


def lower(lowering: Lowering) -> Node:
    data, bound = lowering.data("weight"), lowering.bound
    assert data is not None
    weight = dilated(data.permute(1, 2, 3, 0), pair(bound["dilation"]))
    stride, padding, extra = (pair(bound[name]) for name in ("stride", "padding", "output_padding"))
    axes = [TransposedAxis(*numbers) for numbers in zip(weight.shape[1:3], stride, padding, extra, strict=True)]
    source = lowering.transpose(lowering.node("input"), TO_NHWC)
    found = zero_taps(axes[0], axes[1], shape(source))
    taps = found or [(0, 0), (0, 0)]
    axes = [axis.with_zeros(*zeros) for axis, zeros in zip(axes, taps, strict=True)]
    result = lowering.call(
        TRANSPOSE_CONV2D_C if found is None else TRANSPOSE_CONV2D,
        input=source,
        weight=lowering.constant("weight", torch.nn.functional.pad(weight, (0, 0, *taps[1], *taps[0]))),
        stride=stride,
        padding=[axis.pad for axis in axes],
        output_padding=[axis.extra for axis in axes],
        dilation=[1, 1],
        **requantization(lowering, weight),
    )
    return lowering.transpose(result, TO_NCHW)


# ---- the .pte ------------------------------------------------------------------------------------------------


def pte_scratch(call: Call, backend: Any) -> tuple[int, ...]:
    from executorch.backends.cortex_m.library import cmsis_nn

    layer = {**cmsis_layer(call), "padding_offsets_hw": call["output_padding"]}
    kind = cmsis_nn.DataType.A8W8
    rolling = cmsis_nn.transpose_conv_buffer_size(backend, kind, output_nhwc=call.out_shape, **layer)
    reverse = cmsis_nn.transpose_conv_reverse_conv_buffer_size(backend, kind, **layer)
    return int(rolling), int(reverse)


def pte_limit(call: Call) -> str | None:
    numbers = (call[name] for name in ("stride", "padding", "output_padding"))
    down, across = (TransposedAxis(*axis) for axis in zip(call.shape("weight")[1:3], *numbers, strict=True))
    right = zero_taps(down, across, call.shape("input")) == [(0, 0), (0, 0)] and list(call["dilation"]) == [1, 1]
    return None if right else "gives wrong results for this kernel, stride, padding, output padding and dilation"


# ---- the C kernel --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WholeLayer:
    """A layer that is computed in one call: its nonzero taps, and its groups."""

    call: Call
    weights: np.ndarray[Any, Any]
    taps: tuple[Taps, Taps]
    groups: int

    @staticmethod
    def of(call: Call) -> "WholeLayer":
        weights = call.array("weight")
        used = weights != 0
        ky, kx = Taps.of(used.any(axis=(0, 2, 3))), Taps.of(used.any(axis=(0, 1, 3)))
        weights = weights[:, ky.slice, kx.slice]
        return WholeLayer(call, weights, (ky, kx), group_count(weights))

    def fields(self) -> dict[str, Any]:
        call, (ky, kx) = self.call, self.taps
        (sh, sw), (ph, pw), (dh, dw) = call["stride"], call["padding"], call["dilation"]
        n, in_h, in_w, in_c = call.shape("input")
        return {
            "images": n,
            "in_h": in_h,
            "in_w": in_w,
            "in_c": in_c,
            "out_h": call.out_shape[1],
            "out_w": call.out_shape[2],
            "out_c": call.out_shape[3],
            "kernel_h": ky.count,
            "kernel_w": kx.count,
            "stride_h": sh,
            "stride_w": sw,
            "pad_top": ph - ky.first * dh,
            "pad_left": pw - kx.first * dw,
            "dilation_h": dh * ky.step,
            "dilation_w": dw * kx.step,
            "groups": self.groups,
            "in_offset": call["input_offset"],
            "out_offset": call["output_offset"],
            "act_min": call["activation_min"],
            "act_max": call["activation_max"],
            "weights": Array(split_groups(self.weights, self.groups)),
            "bias": None if call["bias"] is None else Array(call.array("bias")),
            "multiplier": Array(call.array("requantize_multipliers")),
            "shift": Array(call.array("requantize_shifts")),
        }

    def wide_fields(self) -> dict[str, Any]:
        """Returns the members for codes without a zero point, whose sums can be divided before requantization."""
        kept = {name: value for name, value in self.fields().items() if name not in ("in_offset", "out_offset")}
        return {**kept, "sum_shift": reach.sum_shift(self.call["weight"], self.call["bias"])}

    def work(self) -> Work:
        """Counts, for every output, its rows of taps, and the products of each tap."""
        call, taps = self.call, self.taps
        n, *sizes, in_c = call.shape("input")
        _, height, width, out_c = call.out_shape
        numbers = zip(
            sizes, (height, width), taps, *(call[name] for name in ("stride", "padding", "dilation")), strict=True
        )
        down, across = (_reached(*axis) for axis in numbers)
        return loops(
            "rows rows*kernel_h pixels pixels*kernel_w outputs outputs*kernel_h tap_rows taps taps*depth taps*depth/4",
            rows=n * height,
            kernel_h=taps[0].count,
            kernel_w=taps[1].count,
            pixels=n * height * width,
            tap_rows=n * down * width * out_c,
            taps=n * down * across * out_c,
            depth=in_c // self.groups,
        )


_WHOLE = KernelRow(
    "transpose_conv2d_all_s8",
    INT8,
    arguments=(Operand.LAYER, Row(0), Operand.OUT, Operand.SCRATCH),
    struct="cortado_transpose_conv2d_all_t",
    fields=lambda call: WholeLayer.of(call).fields(),
    scratch=lambda call: 8 * WholeLayer.of(call).taps[0].count,  # a pointer for each tap row, on any machine
    work=lambda call: WholeLayer.of(call).work(),
)
WHOLE = KernelTable(
    (
        _WHOLE,
        KernelRow(
            "transpose_conv2d_s16",
            INT16,
            arguments=(Operand.LAYER, Row(0), Operand.OUT),
            struct="cortado_transpose_conv2d_s16_t",
            fields=lambda call: WholeLayer.of(call).wide_fields(),
            work=_WHOLE.work,
        ),
    )
)


def _reached(size: int, out: int, taps: Taps, stride: int, pad: int, dilation: int) -> int:
    """Counts the pairs of an output position and a tap through which an input position reaches it."""
    places = [y + pad - (taps.first + tap * taps.step) * dilation for y in range(out) for tap in range(taps.count)]
    return sum(place % stride == 0 and 0 <= place // stride < size for place in places)


def axes(call: Call) -> tuple[Phases, Phases]:
    _, kh, kw, _ = call.shape("weight")
    vertical, horizontal = zip((kh, kw), call["stride"], call["padding"], call["dilation"], strict=True)
    return Phases.of(*vertical), Phases.of(*horizontal)


def as_convolutions(call: Call) -> bool:
    """Whether a layer runs as convolutions: the vertical stride is one that the row loop can repeat rows by; rows are a
    multiple of the horizontal stride, or, with groups, have a separate convolution for each of a few phases."""
    stride_h, stride_w = call["stride"]
    if stride_h.bit_count() != 1 or stride_h > MOST:
        return False
    grouped = group_count(call.array("weight")) > 1
    return stride_w <= min(MOST, call.out_shape[2]) if grouped else call.out_shape[2] % stride_w == 0


def rows(call: Call) -> Rows | None:
    if call.element.symmetric or not as_convolutions(call):
        return None
    down, _ = axes(call)
    return Rows((RowRule(down.last - down.first + 1, 1, -down.first, repeat=call["stride"][0]),))


def phase_call(call: Call, phase: int) -> Call:
    """Returns the convolution of one phase of the rows: the operands and result of one row call."""
    down, across = axes(call)
    count = len(across.taps)
    n, height, width, out_c = call.out_shape
    per_channel = {
        name: None if call[name] is None else torch.from_numpy(np.tile(call.array(name), count))
        for name in ("bias", "requantize_multipliers", "requantize_shifts")
    }
    arguments = {
        **call.arguments,
        "weight": torch.from_numpy(phase_weights(call.array("weight"), down, across, phase)),
        "stride": [1, 1],
        "padding": [0, -across.first],
        "dilation": [1, 1],
        **per_channel,
    }
    sizes = (n, height, width // count, count * out_c)
    return replace(call, operator=conv2d.CONV2D, arguments=arguments, out_shape=sizes)


def _phases_kernel(call: Call, core: Core) -> Kernel:
    """Builds one convolution per phase of the rows, all with the same kernel."""
    down, _ = axes(call)
    calls = [phase_call(call, phase) for phase in range(len(down.taps))]
    parts = [kernels.kernel(one, core, ConvForm.WINDOW) for one in calls]
    if len({part.call for part in parts}) > 1:
        parts = [kernels.kernel(one, Core.PORTABLE, ConvForm.WINDOW) for one in calls]
    lean = [part.lean for part in parts if part.lean is not None]
    tops = tuple(down.range(phase)[0] - down.first for phase in range(len(parts)))
    return _joined(tops, parts, _joined(tops, lean) if len(lean) == len(parts) else None)


_PHASES = {"cortado_conv2d_t": "cortado_phases_t", "cortado_conv2d_packed_t": "cortado_phases_packed_t"}


def _joined(tops: tuple[int, ...], parts: Sequence[Kernel], lean: Kernel | None = None) -> Kernel:
    symbol, count = parts[0].call.function, len(parts)
    layer, rows = Member("phase", phases=count), Offset(Operand.ROWS, by=Member("top", phases=count))
    need = (Operand.LAYER, count, Callee(f"{symbol}_scratch"))
    scratch = max(part.scratch for part in parts)
    struct = parts[0].struct  # the same for all, as their calls are
    assert struct is not None
    return Kernel(
        call=CCall(symbol, (layer, rows, Operand.OUT, Operand.SCRATCH)),
        struct=_PHASES[struct],
        fields={"top": tops, "phase": tuple(NestedDescriptor(struct, part.fields) for part in parts)},
        scratch=scratch,
        scratch_check=CCall("cortado_phases_scratch", need) if scratch else None,
        lean=lean,
        called=tuple(Called(part, 1 / count, 1 / count) for part in parts),
    )


def kernel(call: Call, core: Core) -> Kernel:
    if call.element.symmetric or not as_convolutions(call):
        return WHOLE(call, core)
    groups, phases = group_count(call.array("weight")), axes(call)
    if groups > 1 and pays(call, phases, groups, core):
        return columns_kernel(call, phases, groups, core)
    return _phases_kernel(call, core)


@dataclass(frozen=True)
class PhaseKernels(Kernels):
    """The convolutions of phases, for one column phase at a time or for all: kernels for windows, and for depthwise
    layers with their own descriptor."""

    def __call__(self, call: Call, core: Core) -> Kernel:
        return kernel(call, core)

    def every(self) -> Iterator[tuple[Core, Kernel]]:
        forms = (ConvForm.WINDOW, ConvForm.DEPTHWISE)
        rows = [(form, row) for form in forms for row in kernels.TABLES[form]]
        for form, row in rows:
            if row.elements != kernels.A8W8 or row.grouped:
                continue
            part, counts = kernels.bare(form, row), [count for count in range(1, MOST + 1) if count.bit_count() == 1]
            for core, count in product(row.cores, counts):
                tops = (0,) * count
                yield core, _columns_bare(part, count)
                if form is ConvForm.WINDOW:
                    yield core, _joined(tops, [part] * count)


KERNELS = Several(kernel, (WHOLE, PhaseKernels()))


# ---- samples -------------------------------------------------------------------------------------------------


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws any kernel, stride, padding, output padding and dilation; some taps zero, some layers in groups."""
    kernel = [draw.whole(1, 5) for _ in range(2)]
    stride = [draw.whole(1, 4) for _ in range(2)]
    dilation = [draw.pick([1, 1, 1, 2, 3]) for _ in range(2)]
    extra = [draw.whole(0, 3) for _ in range(2)]
    sizes = [draw.whole(1, 7) for _ in range(2)]
    full = [out_size(n, k, s, 0, e, d) for n, k, s, e, d in zip(sizes, kernel, stride, extra, dilation, strict=True)]
    padding = [draw.whole(0, min(k, (size - 1) // 2)) for k, size in zip(kernel, full, strict=True)]
    groups, kind = draw.pick([1, 1, 2, 3]), draw.element()
    in_c, out_c = (groups * draw.whole(1, 6) for _ in range(2))
    seed = draw.seed()
    weight = sampling.codes(seed, (out_c, *kernel, in_c), *sampling.WEIGHTS)
    weight = weight * dense(torch.ones(in_c, out_c // groups, 1, 1, dtype=torch.int8), groups).permute(1, 2, 3, 0)
    multipliers, shifts = sampling.fixed_points(seed + 1, out_c, *((-14, 1) if kind.affine else (-20, -1)))
    bias = sampling.codes(seed + 2, (out_c,), -(2**15), 2**15, torch.int32)
    images = draw.pick([1, 1, 2])
    return {
        "input": sampling.codes(seed + 3, (images, *sizes, in_c), kind.low, kind.high, kind.torch_dtype),
        "weight": weight.contiguous(),
        "bias": bias if draw.flag() else None,
        "stride": stride,
        "padding": padding,
        "output_padding": extra,
        "dilation": dilation,
        "requantize_multipliers": multipliers,
        "requantize_shifts": shifts,
    }


TRANSPOSE_CONV2D = Operator(
    name="cortex_m::quantized_transpose_conv2d_nhwc",
    summary="2-D transposed convolution with bias and clamp",
    scratch=(
        "scratch",
        "output_scratch",
    ),
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=rows,
    macs=macs,
    element=ElementOf(("input",)),
    pte_limit=pte_limit,
    pte_scratch=pte_scratch,
    weight_axis=0,
    constraints=(
        "constant weights and bias; sums that fit 32 bits; in the .pte, dilation and groups become zeros in the weights"
    ),
    samples=samples,
)

TRANSPOSE_CONV2D_C = replace(
    TRANSPOSE_CONV2D,
    name="cortado::transpose_conv2d_nhwc",
    scratch=(),
    summary="2-D transposed convolution of a shape for which CMSIS-NN gives wrong results",
    pte_scratch=lambda call, backend: (),
    constraints="",
    no_pte=(
        "CMSIS-NN's kernel takes one image, and padding below the kernel size if strides are at most 2 and channels "
        "more than 16; otherwise height x stride must be at least the padding"
    ),
)

CONV_TRANSPOSE2D_PATTERN = Pattern(
    aten=(aten.conv_transpose2d.input,),
    match=match,
    lower=lower,
    fuses_clamp=True,
    images=True,
    rounds_once=True,
)
CONV_TRANSPOSE_REWRITE = Rewrite(
    aten=(aten.conv_transpose1d.default, aten.conv_transpose2d.input),
    rewrite=to_conv_transpose2d,
    any_element=True,
)


# ---- convolution -----------------------------------------------------------------------------------------

_CONVOLUTION_KINDS = {
    (1, False): (aten.conv1d.default, conv1d_to_conv2d),
    (2, False): (aten.conv2d.default, to_conv2d),
    (1, True): (aten.conv_transpose1d.default, to_conv_transpose2d),
    (2, True): (aten.conv_transpose2d.input, to_conv_transpose2d),
}


def to_named(bound: Bound) -> Node | None:
    kind = _CONVOLUTION_KINDS.get((len(shape(bound["weight"])) - 2, bool(bound["transposed"])))
    if kind is None:
        return None
    target, rewrite = kind
    names = [argument.name for argument in target._schema.arguments]
    named = add_call(bound.node, target, *(bound[name] for name in names))
    return rewrite(bind(named)) or named


CONVOLUTION_REWRITE = Rewrite(aten=(aten.convolution.default,), rewrite=to_named, any_element=True)
