"""out = clamp(round_away(((a - a_zp) / (b - b_zp)) * factor) + out_zp), in float32; a quotient by zero is zero.

One of the three operators that are defined in float32. factor = a_scale / (b_scale * out_scale).
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16, element_of
from cortado.base.errors import CortadoError, Reject
from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir.c_call import Member, Operand, Row
from cortado.ir.graph import Bound, add_call, describe
from cortado.ir.kernel_table import PAIR, KernelRow, KernelTable
from cortado.ir.op import Call, Lowering, Pattern, Rewrite
from cortado.ir.roles import InZeroPoint, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ops.elementwise import binary
from cortado.ops.elementwise.activation import clamped
from cortado.ops.elementwise.pointwise import attribute, uniform_value
from cortado.ops.float_graph import add_constant
from cortado.ops.loops import ELEMENTS, QUADS

aten = torch.ops.aten
LARGEST_FACTOR = 2.0**22  # times 255 it still fits int32; the runtime converts without a check


def reference(
    *,
    self: Tensor,
    self_zero_point: InZeroPoint,
    other: Tensor,
    other_zero_point: InZeroPoint,
    output_zero_point: OutZeroPoint,
    output_scale: float,
) -> Tensor:
    top = (self.to(torch.int32) - self_zero_point).to(torch.float32)
    bottom = (other.to(torch.int32) - other_zero_point).to(torch.float32)
    quotient = torch.where(bottom == 0, torch.zeros_like(top), top / torch.where(bottom == 0, 1.0, bottom))
    scaled = quotient * torch.tensor(output_scale, dtype=torch.float32)
    whole = torch.trunc(scaled)
    rest = scaled - whole  # exact: adding a half first would round
    away = torch.where(rest >= 0.5, 1.0, 0.0) - torch.where(rest <= -0.5, 1.0, 0.0)
    codes = (whole + away).to(torch.int64) + output_zero_point
    return codes.clamp(*element_of(self.dtype).codes).to(self.dtype).contiguous()


def match(bound: Bound) -> Quantization | Reject:
    return binary.check(bound, by_channel=False) or binary.of_one_element(bound)


def lower(lowering: Lowering) -> Node:
    operands = binary.prepare(lowering)
    left, right = lowering.q("self"), lowering.q("other")
    factor = left.scale / (right.scale * lowering.out.scale)
    if not factor <= LARGEST_FACTOR:
        raise CortadoError(
            f"{describe(lowering.bound.node)}: one step of the numerator is {factor:g} steps of the quotient, which is "
            "almost zero for every calibration input. Calibrate with inputs for which it is not"
        )
    result = lowering.call(
        DIV,
        self=operands.first,
        self_zero_point=left.zero_point,
        other=operands.second,
        other_zero_point=right.zero_point,
        output_zero_point=lowering.out.zero_point,
        output_scale=float(np.float32(factor)),
    )
    return operands.restore(clamped(lowering, result))


def to_div(bound: Bound) -> Node | None:
    """Rewrites a division by a constant tensor as a product with its reciprocals."""
    other = bound["other"]
    data = attribute(other) if isinstance(other, Node) and uniform_value(other) is None else None
    if data is None or bool((data == 0).any()) or not isinstance(bound["self"], Node):
        return binary.rewritten(bound, aten.div.Tensor, by_channel=False)
    inverse = add_constant(bound.node, "reciprocals", 1.0 / data)
    return add_call(bound.node, aten.mul.Tensor, *binary.broadcast(bound, bound["self"], inverse, by_channel=True))


def _fields(call: Call) -> dict[str, float]:
    return {
        "a_zero": call["self_zero_point"],
        "b_zero": call["other_zero_point"],
        "out_zero": call["output_zero_point"],
        "factor": float(np.float32(call["output_scale"])),
        "act_min": INT8.low,
        "act_max": INT8.high,
    }


_BYTES = KernelRow("div_s8", INT8, arguments=PAIR, struct="cortado_div_t", fields=_fields, work=ELEMENTS)
KERNELS = KernelTable(
    (
        replace(_BYTES, symbol="div_s8__mve", cores=(Core.MVE,), work=QUADS),
        _BYTES,
        KernelRow(
            "div_s16",
            INT16,
            arguments=(Row(0), Row(1), Operand.OUT, Operand.N, Member("scale")),
            struct="cortado_border_t",
            fields=lambda call: {"scale": float(np.float32(call["output_scale"])), "zero_point": 0},
            work=ELEMENTS,
        ),
    )
)


def pte_limit(call: Call) -> str | None:
    mine, other = call.shape("self"), call.shape("other")
    return None if mine == other else f"takes equal shapes, found {list(mine)} and {list(other)}"


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws operands with zero denominators, ties and saturation included."""
    factor = draw.pick([draw.pick([0.5, 1.0, 2.0, 64.0]), draw.real(2.0**-10, 2.0**22)])
    kind = draw.element()
    return {
        **binary.draw_operands(draw, by_channel=False, element=kind),
        "output_scale": float(np.float32(factor)),
    }


DIV = binary.operator_on_two(
    name="cortex_m::quantized_div",
    summary="quotient of two tensors, in float32; a zero denominator gives quotient 0",
    reference=reference,
    kernel=KERNELS,
    pte_limit=pte_limit,
    constraints="equal shapes; other shapes are expanded first; a constant divisor becomes a product",
    samples=samples,
)

DIV_PATTERN = Pattern(aten=(aten.div.Tensor,), match=match, lower=lower, fuses_clamp=True)
DIV_REWRITE = Rewrite(aten=(aten.div.Tensor, aten.divide.Tensor, aten.true_divide.Tensor), rewrite=to_div)
