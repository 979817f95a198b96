"""out = -(y + log2(sum of 2^-y)) * factor: the logarithm of softmax of int16 codes, over the last dimension.

y, with 16 fractional bits, and the powers are wide_softmax's; the logarithm of their sum has 20, found bit by bit as in
log_softmax. Over all of a row, or over what a computed mask keeps of it: the lowest code stands where it does not.
"""

import math
from typing import Any

import torch

from cortado.base.element import INT16
from cortado.base.numerics import Tensor, requant
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.kernel import ONE_ROW, Array, Kernel, Rows
from cortado.ir.op import Call, Operator, Place
from cortado.ir.work import loops
from cortado.ops import softmax, wide_softmax
from cortado.ops.wide_masked_softmax import draw_rows

MULTIPLIER_BITS = 24  # beside a sum of 36
MOST_RIGHT = 62


def reference(
    *, input: Tensor, kept: list[Tensor], input_multiplier: int, input_shift: int, multiplier: int, right: int
) -> Tensor:
    x = input.to(torch.int64)
    keeps = (kept[0] != 0).repeat(len(x) // len(kept[0]), 1) if kept else torch.ones_like(x, dtype=torch.bool)
    below = wide_softmax.below_largest(x, keeps)
    bits = wide_softmax.bits_of(x.shape[-1])
    powers = torch.where(keeps, wide_softmax.powers(below, input_multiplier, input_shift, bits), 0)
    total = powers.sum(-1, keepdim=True).clamp(min=1 << bits)  # of a row of which nothing is kept
    y = requant(below, input_multiplier, input_shift)
    fixed = (y << (softmax.LOG_BITS - wide_softmax.FRACTION)) + softmax.log2(total, bits)
    found = -((fixed * multiplier + (1 << (right - 1))) >> right).clamp(max=-INT16.low)
    return torch.where(keeps, found, INT16.low).to(torch.int16).contiguous()


def factor(out_scale: float) -> dict[str, int]:
    """ln(2) / out_scale, of a number with 20 fractional bits."""
    mantissa, exponent = math.frexp(math.log(2) / out_scale * 2.0**-softmax.LOG_BITS)
    right = min(max(MULTIPLIER_BITS - exponent, 1), MOST_RIGHT)
    multiplier = min(round(math.ldexp(mantissa, exponent + right)), 2**MULTIPLIER_BITS - 1)
    return {"multiplier": multiplier, "right": right}


def kernel(call: Call, core: Core) -> Kernel:
    *outer, length = call.shape("input")
    fields = {
        "rows": math.prod(outer),
        "length": length,
        "kept_rows": call.shapes("kept")[0][0] if call["kept"] else 0,
        "multiplier": call["input_multiplier"],
        "shift": call["input_shift"],
        "bits": wide_softmax.bits_of(length),
        "out_multiplier": call["multiplier"],
        "out_right": call["right"],
        "powers": Array(wide_softmax.POWERS),
    }
    if call["kept"]:
        made = CCall("cortado_kept_log_softmax_s16", (Operand.LAYER, Row(0), Row(1), Operand.OUT))
        terms = "calls rows outputs outputs*marked outputs*marked*right"
        work = loops(terms, mask=1, rows=math.prod(outer), right=call["input_shift"] < 0)
    else:
        made = CCall("cortado_log_softmax_s16", (Operand.LAYER, Row(0), Operand.OUT, Operand.N))
        work = loops("calls spans outputs outputs*right", right=call["input_shift"] < 0)
    return Kernel(
        call=made, sources=("log_softmax_s16.c",), struct="cortado_log_softmax_s16_t", fields=fields, work=work
    )


def samples() -> Any:
    """Output scales from codes that saturate to codes that vanish."""
    from hypothesis import strategies as st

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        drawn, mask = draw_rows(draw)
        kept = [(~mask).to(torch.int8)] if draw(st.booleans()) else []
        return {**drawn, "kept": kept, **factor(2.0 ** draw(st.one_of(st.floats(-16, -4), st.floats(-40, 20))))}

    return draw_case()


WIDE_LOG_SOFTMAX = Operator(
    name="cortado::wide_log_softmax",
    summary="logarithm of softmax of int16 codes, over all or over what a mask keeps",
    arguments="Tensor input, Tensor[] kept, int input_multiplier, int input_shift, int multiplier, int right",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=kernel,
    rows=lambda call: None if call["kept"] else Rows((ONE_ROW,), pixelwise=True),
    element=INT16,
    tensors=("input", "kept"),
    places=frozenset({Place.C}),
    constraints="C bundle only: ExecuTorch's operators take int8",
    samples=samples,
)
