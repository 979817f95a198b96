"""out = clamp(requant((a - a_zp) * (b - b_zp), multiplier, shift) + out_zp)."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import CODES, INT8, INT16, element_of
from cortado.base.errors import Reject
from cortado.base.numerics import Fixed, Tensor, requant
from cortado.base.target import Core
from cortado.ir.c_call import Number
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.kernel_table import PAIR, KernelRow, KernelTable
from cortado.ir.op import Call, Lowering, Operator, Pattern, Rewrite
from cortado.ir.roles import InZeroPoint, Multiplier, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Calls, Quantities, Work
from cortado.ops.conv import packing
from cortado.ops.elementwise import binary
from cortado.ops.elementwise.activation import clamped

aten = torch.ops.aten
# A product of two differences is below 2^16, and kernels rely on 30 bits; int16 products have 30 bits already.
LARGEST_SHIFTS = {INT8.bits: 14, INT16.bits: 0}


def reference(
    *,
    self: Tensor,
    self_zero_point: InZeroPoint,
    other: Tensor,
    other_zero_point: InZeroPoint,
    output_zero_point: OutZeroPoint,
    output_multiplier: Multiplier,
    output_shift: int,
) -> Tensor:
    product = (self.to(torch.int64) - self_zero_point) * (other.to(torch.int64) - other_zero_point)
    scaled = requant(product, output_multiplier, output_shift) + output_zero_point
    return scaled.clamp(*element_of(self.dtype).codes).to(self.dtype).contiguous()


def match(bound: Bound) -> Quantization | Reject:
    return binary.check(bound, by_channel=True) or binary.of_one_element(bound)


def lower(lowering: Lowering) -> Node:
    operands = binary.prepare(lowering)
    first, second = ("other", "self") if operands.swapped else ("self", "other")
    left, right = lowering.q(first), lowering.q(second)
    most = LARGEST_SHIFTS[lowering.out.element.bits]
    factor = binary.fixed(lowering, left.scale * right.scale / lowering.out.scale, most)
    result = lowering.call(
        MUL,
        self=operands.first,
        self_zero_point=left.zero_point,
        other=operands.second,
        other_zero_point=right.zero_point,
        output_zero_point=lowering.out.zero_point,
        **factor.arguments("output"),
    )
    return operands.restore(clamped(lowering, result))


def to_mul(bound: Bound) -> Node | None:
    return binary.rewritten(bound, aten.mul.Tensor, by_channel=True)


def split_gate(bound: Bound) -> Node:
    """Rewrites glu: the first half of a dimension times the sigmoid of the second."""
    source: Node = bound["self"]
    dim = bound["dim"] % len(shape(source))
    half = shape(source)[dim] // 2
    value = add_call(bound.node, aten.slice.Tensor, source, dim, 0, half)
    gate = add_call(bound.node, aten.slice.Tensor, source, dim, half, 2 * half)
    return add_call(bound.node, aten.mul.Tensor, value, add_call(bound.node, aten.sigmoid.default, gate))


# ---- the C kernel --------------------------------------------------------------------------------------------


def _vector_work(call: Call) -> Work:
    """Counts eight numbers at a time; with a channel operand, eight channels of all pixels."""
    width = binary.by_channel(call)

    def quantities(calls: Calls) -> Quantities:
        if width is None:
            return {"eights": calls.spans / max(calls.span, 1) * math.ceil(calls.span / 8)}
        return {"pixels": calls.spans / width, "eights": math.ceil(width / 8)}

    terms = ("calls", "eights") if width is None else ("calls", "calls*eights", "pixels*eights")
    return Work(terms, quantities)


def _fours_work(call: Call) -> Work:
    """Counts four channels of all pixels at a time, then the remaining channels one by one."""
    channels = binary.by_channel(call) or 1

    def quantities(calls: Calls) -> Quantities:
        return {"pixels": calls.spans / channels, "fours": channels // 4, "few": channels % 4}

    return Work(("calls", "calls*fours", "calls*few", "pixels*fours", "pixels*few"), quantities)


def _fits_dsp(call: Call) -> bool:
    return binary.is_by_channel(call) and packing.fits_mul_dsp(call["output_shift"])


def _fits_mve(call: Call) -> bool:
    return packing.fits_mul_mve(call["output_shift"])


_WHOLE = KernelRow(
    "mul_s8",
    INT8,
    arguments=PAIR,
    struct="cortado_mul_t",
    work=lambda call: binary.work(binary.by_channel(call), INT8.low),
)
_CHANNEL = replace(
    _WHOLE, symbol="mul_channel_s8", fits=binary.is_by_channel, arguments=(*PAIR, Number(0)), numbers=binary.channels
)
_VECTORS = replace(_WHOLE, symbol="mul_s8__mve", cores=(Core.MVE,), fits=_fits_mve, work=_vector_work)
_WIDE = replace(
    _WHOLE,
    reads=INT16,
    struct="cortado_mul_s16_t",
    work=binary.wide_work,
    fields=lambda call: {"right": -call["output_shift"]},
)

KERNELS = KernelTable(
    (
        replace(_WIDE, symbol="mul_channel_s16", fits=binary.is_by_channel, arguments=_CHANNEL.arguments,
                numbers=binary.channels),
        replace(_WIDE, symbol="mul_s16"),
        replace(_VECTORS, symbol="mul_channel_s8__mve", arguments=_CHANNEL.arguments, numbers=binary.channels,
                fits=lambda call: binary.is_by_channel(call) and _fits_mve(call)),
        _VECTORS,
        replace(_CHANNEL, symbol="mul_channel_s8__dsp", cores=(Core.DSP,), fits=_fits_dsp, work=_fours_work),
        _CHANNEL,
        _WHOLE,
    )
)  # fmt: skip


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws any factor, from products that vanish to products that saturate; equal shapes or a channel operand."""
    kind = draw.pick(CODES)
    power = draw.pick([draw.real(-12, 0), draw.real(-31, 13.99)]) if kind.affine else draw.real(-31, -0.01)
    factor = Fixed.of(2.0**power)
    return {
        **binary.draw_operands(draw, by_channel=True, element=kind),
        **factor.arguments("output"),
    }


MUL: Operator = binary.operator_on_two(
    name="cortex_m::quantized_mul",
    summary="product of two tensors",
    reference=reference,
    kernel=KERNELS,
    pte=lambda arguments, add, target: binary.in_pte(MUL, arguments, add),
    pte_limit=binary.pte_limit,
    constraints="equal shapes, or one value per channel; other shapes are expanded first",
    samples=samples,
)

MUL_PATTERN = Pattern(aten=(aten.mul.Tensor,), match=match, lower=lower, fuses_clamp=True, rounds_once=True)
MUL_REWRITE = Rewrite(aten=(aten.mul.Tensor, aten.multiply.Tensor), rewrite=to_mul)
GLU_REWRITE = Rewrite(aten=(aten.glu.default,), rewrite=split_gate)
