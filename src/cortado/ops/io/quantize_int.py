"""out = clamp(requant(clamp(x, low, high)) + zero_point): integers of more than 8 bits as real numbers.

`.to(torch.float32)` of them is where real numbers begin. `low` and `high` are a little beyond what the codes stand for,
so that nothing overflows on the way. int16 codes are rounded once, out = clamp(x * multiplier * 2^(shift - 31)).
"""

import math
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16, INT32
from cortado.base.errors import Reject
from cortado.base.numerics import Fixed, QParams, Tensor, clamp_int8, requant
from cortado.ir.c_call import Number, Operand, Row
from cortado.ir.facts import dtype, holds_integers
from cortado.ir.graph import Bound
from cortado.ir.kernel_table import only
from cortado.ir.op import Lowering, Operator, Pattern, Place
from cortado.ir.roles import Activation, Quantization
from cortado.ir.work import loops
from cortado.ops import reach
from cortado.ops.elementwise.activation import refuse
from cortado.ops.io.widen import as_words
from cortado.ops.loops import ELEMENTS

aten = torch.ops.aten


def reference(*, input: Tensor, low: int, high: int, multiplier: int, shift: int, zero_point: int) -> Tensor:
    within = input.to(torch.int64).clamp(low, high)
    return clamp_int8(requant(within, multiplier, shift) + zero_point).contiguous()


def arguments(out: QParams) -> dict[str, int]:
    """The operator's arguments that turn integers into codes of these parameters."""
    fixed = Fixed.of(1.0 / out.scale)
    low = math.floor((INT8.low - 1 - out.zero_point) * out.scale)
    high = math.ceil((INT8.high + 1 - out.zero_point) * out.scale)
    return {
        "low": max(low, -INT32.high),
        "high": min(high, INT32.high),
        "multiplier": fixed.multiplier,
        "shift": fixed.shift,
        "zero_point": out.zero_point,
    }


def match(bound: Bound) -> Quantization | Reject:
    source = bound["self"]
    if dtype(bound.node) != torch.float32 or not holds_integers(source) or dtype(source) == torch.bool:
        return refuse(bound)
    return Quantization({}, Activation(bound.element))


def lower(lowering: Lowering) -> Node:
    words = as_words(lowering, lowering.node("self"))
    if reach.is_wide(lowering.out.element):
        multiplier, shift = reach.once(1.0 / lowering.out.scale)
        return lowering.call(WIDE_QUANTIZE_INT, input=words, output_multiplier=multiplier, output_shift=shift)
    return lowering.call(QUANTIZE_INT, input=words, **arguments(lowering.out))


KERNELS = only(
    "quantize_s32_s8",
    INT32,
    INT8,
    struct="cortado_quantize_int_t",
    fields=lambda call: {name: call[name] for name in ("low", "high", "multiplier", "shift", "zero_point")},
    work=lambda call: loops("calls outputs outputs*right", right=call["shift"] < 0),
)


def samples() -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        scale = 2.0 ** draw(st.floats(-12, 24))
        sizes = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
        most = min(int(300 * scale) + 1, INT32.high)
        given = sampling.codes(draw(sampling.SEEDS), sizes, -most, most, torch.int32)
        return {"input": given, **arguments(QParams(scale, draw(sampling.ZERO_POINTS), INT8))}

    return draw_case()


QUANTIZE_INT = Operator(
    name="cortado::quantize_int",
    summary="integers of 16 or 32 bits as real numbers",
    arguments="Tensor input, int low, int high, int multiplier, int shift, int zero_point",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    element=INT8,
    places=frozenset({Place.C}),
    constraints="C bundle only: a .pte takes real numbers",
    samples=samples,
)


def wide_reference(*, input: Tensor, output_multiplier: int, output_shift: int) -> Tensor:
    return reach.to_codes(reach.rounded(input, output_multiplier, output_shift))


WIDE_KERNELS = only(
    "quantize_s32_s16",
    INT32,
    INT16,
    arguments=(Row(0), Operand.OUT, Operand.N, Number(0), Number(1)),
    numbers=lambda call: (call["output_multiplier"], call["output_shift"]),
    work=ELEMENTS,
)


def wide_samples() -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        sizes, most = (
            tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))),
            draw(st.sampled_from([99, 2**31])),
        )
        given = sampling.codes(draw(sampling.SEEDS), sizes, -most, most - 1, torch.int32)
        return {"input": given, **reach.draw_once(draw, -20, 15)}

    return draw_case()


WIDE_QUANTIZE_INT = Operator(
    name="cortado::wide_quantize_int",
    summary="integers of 16 or 32 bits as real numbers of 16 bits",
    arguments="Tensor input, int output_multiplier, int output_shift",
    reference=wide_reference,
    shape=lambda call: call.shape("input"),
    kernel=WIDE_KERNELS,
    element=INT16,
    places=frozenset({Place.C}),
    constraints="C bundle only: a .pte takes real numbers",
    samples=wide_samples,
)

QUANTIZE_INT_PATTERN = Pattern(aten=(aten.to.dtype,), match=match, lower=lower)
