"""Transposed convolutions with groups, in C: a grouped or depthwise convolution for each phase of rows and columns.

The pixels x, x + stride, x + 2 * stride, ... of an output row are a row of one such convolution. It makes them side by
side, and they are then moved to their places.
"""

import math

import numpy as np
import torch

from cortado.base.target import Core
from cortado.ir.c_call import Callee, CCall, Member, Offset, Operand
from cortado.ir.kernel import Called, Kernel, NestedDescriptor
from cortado.ir.op import Call
from cortado.ir.work import Calls, Quantities, Work
from cortado.ops import conv2d, depthwise_conv2d
from cortado.ops._transposed import Phases, column_weights, split_groups
from cortado.ops._work import COPIED, RunSteps, copies

MOST = 4  # phases of one axis

_KINDS = {
    "cortado_conv2d_t": "conv_columns",
    "cortado_conv2d_packed_t": "conv_packed_columns",
    "cortado_depthwise_t": "depthwise_columns",
    "cortado_depthwise_packed_t": "depthwise_packed_columns",
}
ALIGNED = 16  # bytes, to which the scratch of a column's kernel is
_MOST_DENSE = 4096  # bytes of weights, with the zeros between groups
# Products that take as long as laying out the window of one group does.
_WINDOW = {Core.SMALL: 100, Core.LONG: 150, Core.DSP: 200, Core.MVE: 1000, Core.PORTABLE: 150}


def pays(call: Call, phases: tuple[Phases, Phases], groups: int, core: Core) -> bool:
    """Whether groups are faster by themselves than with zeros between them: with few channels they are not."""
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
    """The convolution of one phase of rows and one of columns: what its one row call gets and gives."""
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
    return Call(conv2d.CONV2D, arguments, (n, height, math.ceil((width - column) / len(across.taps)), out_c))


def _row_kernel(call: Call, core: Core) -> Kernel:
    """By window, even where it is one pixel: its rows come as pointers."""
    if conv2d.is_depthwise_call(call):
        return depthwise_conv2d.kernel(depthwise_conv2d.from_grouped(call), core)
    return conv2d.window_kernel(call, core)


def columns_kernel(call: Call, phases: tuple[Phases, Phases], groups: int, core: Core) -> Kernel:
    """One kernel for all phases of rows and columns; the portable one where they would have different ones."""
    down, across = phases
    places = [(row, column) for row in range(len(down.taps)) for column in range(len(across.taps))]
    calls = [_column_call(call, phases, place, groups) for place in places]
    parts = [_row_kernel(one, core) for one in calls]
    if len({(part.call, part.struct) for part in parts}) > 1:
        parts = [_row_kernel(one, Core.PORTABLE) for one in calls]
    lean = [part.lean for part in parts if part.lean is not None]
    whole = _joined(call, phases, parts)
    return whole if len(lean) < len(parts) else _with_lean(whole, _joined(call, phases, lean))


def _with_lean(whole: Kernel, lean: Kernel) -> Kernel:
    return Kernel(**{**vars(whole), "lean": lean})


def _joined(call: Call, phases: tuple[Phases, Phases], parts: list[Kernel]) -> Kernel:
    (down, across), struct, out_c = phases, parts[0].struct, call.out_shape[3]
    assert struct is not None
    name, rows, columns = _KINDS[struct], len(down.taps), len(across.taps)
    made = -(-math.ceil(call.out_shape[2] / columns) * out_c // ALIGNED) * ALIGNED
    most = max(part.scratch for part in parts)
    check = next((part.scratch_check for part in parts if part.scratch_check is not None), None)
    top = Offset(Operand.ROWS, by=Member("top", phases=rows))
    given = Callee(parts[0].call.function)
    return Kernel(
        call=CCall(f"cortado_{name}_s8", (Operand.LAYER, top, Operand.OUT, Operand.SCRATCH, Operand.Y, given)),
        sources=(f"{name}_s8.c", "copy2d.c", *parts[0].sources, "cortado_scratch.c"),
        struct=f"cortado_{name}_t",
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
            f"cortado_{name}_s8_scratch", (Operand.LAYER, 0 if check is None else Callee(check.function))
        ),
        work=_work(columns, out_c),
        called=tuple(Called(part, 1 / rows, 1 / len(parts)) for part in parts),
    )


def _work(columns: int, out_c: int) -> Work:
    def quantities(calls: Calls) -> Quantities:
        moved = copies(calls.outputs / out_c, out_c, RunSteps(0, out_c), RunSteps(0, columns * out_c))
        return {"columns": columns, **moved}

    return Work(("calls", "calls*columns", *COPIED), quantities)
