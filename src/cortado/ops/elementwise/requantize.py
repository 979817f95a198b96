"""out = clamp(requant((x - input_zero_point) << up) + output_zero_point): codes in another scale, or another element.

The shift up makes a difference of codes 28 bits wide: 20 for int8, 13 for int16. Between int8 and int8 a table is used
instead (activation.py). If both sides have the same step, or int16 codes a smaller one by a power of two
(frontend/quantize/sharing), nothing is multiplied.
"""

from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import CODES, INT8, INT16, USUAL, WIDE, element_of
from cortado.base.numerics import Fixed, QParams, Tensor, requant
from cortado.base.target import Core
from cortado.ir.c_call import Bytes, Operand, Row
from cortado.ir.kernel import ONE_ROW, Rows
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator
from cortado.ir.roles import High, InZeroPoint, Low, Multiplier, OutZeroPoint
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import loops
from cortado.ops.loops import EIGHTS, ELEMENTS, FOURS

UPS = {INT8.bits: 20, INT16.bits: 13}
# From this factor on, one step of the operand spans all output codes; a larger factor gives the same result.
MOST = {INT8.bits: 2.0**16, INT16.bits: 2.0**15 - 2.0**-8}
WIDER = 128  # int16 steps per int8 step: 255 int8 steps away from zero are still within int16


def reference(
    *,
    input: Tensor,
    input_zero_point: InZeroPoint,
    output_zero_point: OutZeroPoint,
    output_multiplier: Multiplier,
    output_shift: int,
    activation_min: Low,
    activation_max: High,
    dtype: torch.dtype,
) -> Tensor:
    up = UPS[element_of(input.dtype).bits]
    scaled = requant((input.to(torch.int64) - input_zero_point) << up, output_multiplier, output_shift)
    return (scaled + output_zero_point).clamp(activation_min, activation_max).to(dtype).contiguous()


def factor_of(given: QParams, out: QParams) -> Fixed:
    bits = given.element.bits
    return Fixed.of(min(given.scale / out.scale, MOST[bits]) / 2.0 ** UPS[bits])


def requantized(
    lowering: Lowering, source: Node, given: QParams, out: QParams, bounds: tuple[int, int] | None = None
) -> Node:
    """Requantizes a tensor of codes to other parameters, within bounds."""
    factor, (low, high) = factor_of(given, out), bounds or out.element.codes
    return lowering.call(
        REQUANTIZE,
        input=source,
        input_zero_point=given.zero_point,
        output_zero_point=out.zero_point,
        **factor.arguments("output"),
        activation_min=low,
        activation_max=high,
        dtype=out.element.torch_dtype,
    )


def left_shift(call: Call) -> int | None:
    """Returns the power of two that codes are multiplied by; None if the factor is another number, or below 1."""
    given = call.element_of("input")
    shift = call["output_shift"] - 1 + UPS[given.bits]
    exact = call["output_multiplier"] == 2**30 and shift >= 0
    return shift if exact else None


def is_widened(call: Call) -> bool:
    """Whether it converts int8 codes to int16 exactly."""
    shift, zero = left_shift(call), call["input_zero_point"]
    if shift is None or _bits(call) != (USUAL.bits, WIDE.bits):
        return False
    bounds = ((INT8.low - zero) << shift, (INT8.high - zero) << shift)
    inside = call["activation_min"] <= bounds[0] and bounds[1] <= call["activation_max"]
    return inside and call["output_zero_point"] == 0


def is_limited(call: Call) -> bool:
    """Whether it converts int16 codes to bytes by saturation alone."""
    if left_shift(call) != 0 or _bits(call) != (WIDE.bits, USUAL.bits):
        return False
    return (call["activation_min"], call["activation_max"]) == INT8.codes and call["input_zero_point"] == 0


def _bits(call: Call) -> tuple[int, int]:
    return call.element_of("input").bits, call.element.bits


def _fields(call: Call) -> dict[str, int]:
    given = call.element_of("input")
    return {
        "in_bytes": given.bytes,
        "out_bytes": call.element.bytes,
        "up": UPS[given.bits],
    }


_WIDENED = KernelRow(
    "widen_codes",
    INT8,
    INT16,
    fits=is_widened,
    struct="cortado_widen_codes_t",
    fields=lambda call: {"left": left_shift(call)},
    work=ELEMENTS,
)
_LIMITED = KernelRow(
    "limit_codes",
    INT16,
    INT8,
    fits=is_limited,
    struct="cortado_limit_codes_t",
    work=ELEMENTS,
)
_SCALED = KernelRow(
    "requantize",
    None,
    arguments=(Operand.LAYER, Bytes(Row(0)), Bytes(Operand.OUT), Operand.N),
    struct="cortado_requantize_t",
    fields=_fields,
    work=lambda call: loops("calls spans spans*right", right=call["output_shift"] < 0),
)

KERNELS = KernelTable(
    (
        *(replace(row, cores=(Core.MVE,), work=EIGHTS) for row in (_WIDENED, _LIMITED)),
        *(replace(row, cores=(Core.DSP,), work=FOURS) for row in (_WIDENED, _LIMITED)),
        _WIDENED,
        _LIMITED,
        *(replace(_SCALED, reads=kind) for kind in CODES),
    )
)


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws all pairs of elements; factors from codes that vanish to codes that saturate."""
    as_usual = draw.flag()  # nothing is multiplied
    pairs = [(INT8, INT16), (INT16, INT8), *(() if as_usual else ((INT8, INT8), (INT16, INT16)))]
    given, out = draw.pick(pairs)
    sizes = draw.sizes(9, 1, 4)
    step = (WIDER if given.affine else 1) if as_usual else 2.0 ** draw.real(-12, 18)
    factor = factor_of(QParams(step, 0, given), QParams(1.0, 0, out))
    low, high = out.codes if as_usual else draw.bounds(out)
    return {
        "input": draw.codes(sizes, given),
        **factor.arguments("output"),
        "activation_min": low,
        "activation_max": high,
        "dtype": out.torch_dtype,
    }


REQUANTIZE = Operator(
    name="cortado::requantize",
    summary="codes converted to another scale or element type",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True, elementwise=True),
    element=ElementOf(("dtype",)),
    relayout=lambda arguments, perm: arguments,
    no_pte="ExecuTorch's operators take int8",
    by_channel=True,
    samples=samples,
)
