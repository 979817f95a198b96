"""out = clamp(requant(clamp(x, low, high)) + zero_point): integers of more than 8 bits as real numbers.

This is `.to(torch.float32)` of integers. `low` and `high` are slightly outside the range of the codes, so that no
intermediate result overflows. int16 codes are rounded once: out = clamp(x * multiplier * 2^(shift - 31)).
"""

import math
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import CODES, INT8, INT16, INT32, element_of
from cortado.base.errors import Reject
from cortado.base.numerics import Fixed, QParams, Tensor, clamp_int8, requant
from cortado.ir import sampling
from cortado.ir.c_call import Number, Operand, Row
from cortado.ir.facts import dtype, holds_integers
from cortado.ir.graph import Bound
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import ElementOf, Lowering, Operator, Pattern
from cortado.ir.roles import Activation, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import loops
from cortado.ops import reach
from cortado.ops.elementwise.activation import refuse
from cortado.ops.io.widen import as_words
from cortado.ops.loops import ELEMENTS

aten = torch.ops.aten


def reference(
    *, input: Tensor, low: int, high: int, multiplier: int, shift: int, zero_point: int, dtype: torch.dtype
) -> Tensor:
    if element_of(dtype).symmetric:
        return reach.to_codes(reach.rounded(input, multiplier, shift))
    within = input.to(torch.int64).clamp(low, high)
    return clamp_int8(requant(within, multiplier, shift) + zero_point).contiguous()


def arguments(out: QParams) -> dict[str, Any]:
    """Returns the operator's arguments that convert integers to codes of these parameters."""
    low, high = -INT32.high, INT32.high
    if out.element.affine:
        fixed = Fixed.of(1.0 / out.scale)
        low = max(math.floor((out.element.low - 1 - out.zero_point) * out.scale), low)
        high = min(math.ceil((out.element.high + 1 - out.zero_point) * out.scale), high)
    else:
        fixed = Fixed(*reach.once(1.0 / out.scale))
    factor = {"multiplier": fixed.multiplier, "shift": fixed.shift, "zero_point": out.zero_point}
    return {"low": low, "high": high, **factor, "dtype": out.element.torch_dtype}


def match(bound: Bound) -> Quantization | Reject:
    source = bound["self"]
    if dtype(bound.node) != torch.float32 or not holds_integers(source) or dtype(source) == torch.bool:
        return refuse(bound)
    return Quantization({}, Activation(bound.element))


def lower(lowering: Lowering) -> Node:
    words = as_words(lowering, lowering.node("self"))
    return lowering.call(QUANTIZE_INT, input=words, **arguments(lowering.out))


KERNELS = KernelTable(
    (
        KernelRow(
            "quantize_s32_s8",
            INT32,
            INT8,
            struct="cortado_quantize_int_t",
            fields=lambda call: {name: call[name] for name in ("low", "high", "multiplier", "shift", "zero_point")},
            work=lambda call: loops("calls outputs outputs*right", right=call["shift"] < 0),
        ),
        KernelRow(
            "quantize_s32_s16",
            INT32,
            INT16,
            arguments=(Row(0), Operand.OUT, Operand.N, Number(0), Number(1)),
            numbers=lambda call: (call["multiplier"], call["shift"]),
            work=ELEMENTS,
        ),
    )
)


def samples(draw: CaseDraw) -> dict[str, Any]:
    kind, sizes = (
        draw.pick(CODES),
        draw.sizes(9, 1, 4),
    )
    scale = 2.0 ** (draw.real(-12, 24) if kind.affine else draw.real(-15, 20))
    most = min(int(300 * scale) + 1, INT32.high) if kind.affine else draw.pick([99, INT32.high])
    given = sampling.codes(draw.seed(), sizes, -most, most, torch.int32)
    zero_point = draw.zero_point(kind)
    return {"input": given, **arguments(QParams(scale, zero_point, kind))}


QUANTIZE_INT = Operator(
    name="cortado::quantize_int",
    summary="integers of 16 or 32 bits as real numbers",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    element=ElementOf(("dtype",)),
    no_pte="a .pte takes real numbers",
    samples=samples,
)


QUANTIZE_INT_PATTERN = Pattern(aten=(aten.to.dtype,), match=match, lower=lower)
