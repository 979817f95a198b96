"""Softmax of int16 codes over the last dimension: 2^-y / sum(2^-y) with scale 2^-15, y = (max - x) * scale * log2(e).

y has 16 fractional bits; 2^-y is a line between two of 129 powers, in steps of 2^-bits, as many as the sum of a row
has room for in 31 bits; one division per row gives 2^46 / sum.
"""

import math
from typing import Any

import numpy as np
import torch

from cortado.base.element import INT16
from cortado.base.errors import CortadoError
from cortado.base.numerics import Fixed, Tensor, requant
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.kernel import ONE_ROW, Array, Kernel, Rows
from cortado.ir.op import Call, Operator, Place
from cortado.ir.work import loops

FRACTION = 16  # bits of y behind the point
POWERS = np.array([round(2.0 ** (30 - i / 128)) for i in range(129)], dtype=np.int32)
LARGEST_SHIFT = 14  # a difference of codes has 16 bits
MOST_BITS = 24


def bits_of(length: int) -> int:
    return min(MOST_BITS, 31 - math.ceil(math.log2(length)))


def _powers(below: Tensor, multiplier: int, shift: int, bits: int) -> Tensor:
    y = requant(below, multiplier, shift)
    table = torch.from_numpy(POWERS.astype(np.int64))
    at = (y & 0xFFFF) >> 9
    value = table[at] - (((table[at] - table[at + 1]) * (y & 511)) >> 9)
    right = 30 - bits + (y >> FRACTION)
    return torch.where(right < 32, value >> right.clamp(max=32), 0)


def reference(*, input: Tensor, input_multiplier: int, input_shift: int) -> Tensor:
    x = input.to(torch.int64)
    bits = bits_of(input.shape[-1])
    powers = _powers(x.amax(-1, keepdim=True) - x, input_multiplier, input_shift, bits)
    inverse = torch.div(torch.tensor(1 << 46), powers.sum(-1, keepdim=True), rounding_mode="floor")
    return ((powers * inverse + (1 << 30)) >> 31).clamp(max=INT16.high).to(torch.int16).contiguous()


def factor(scale: float) -> dict[str, int]:
    found = Fixed.of(scale * math.log2(math.e) * 2.0**FRACTION)
    if found.shift > LARGEST_SHIFT:
        raise CortadoError(
            f"softmax of int16 codes takes values between -5,000 and 5,000, found a scale of {scale:g}; divide the "
            "scores before"
        )
    return {"input_multiplier": found.multiplier, "input_shift": found.shift}


def kernel(call: Call, core: Core) -> Kernel:
    length = call.shape("input")[-1]
    return Kernel(
        call=CCall("cortado_softmax_s16", (Operand.LAYER, Row(0), Operand.OUT, Operand.N)),
        sources=("softmax_s16.c",),
        struct="cortado_softmax_s16_t",
        fields={
            "channels": length,
            "multiplier": call["input_multiplier"],
            "shift": call["input_shift"],
            "bits": bits_of(length),
            "powers": Array(POWERS),
        },
        work=loops("calls spans outputs"),
    )


def samples() -> Any:
    """Rows of equal values, of one that stands out, long ones."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        lengths = st.one_of(sampling.CHANNELS, st.sampled_from([100, 257, 1500]))
        sizes = (*draw(st.lists(st.integers(1, 4), max_size=2)), draw(lengths))
        scale = Fixed.of(2.0 ** draw(st.floats(-16, 13.9)))
        codes = sampling.values(draw, sizes, element=INT16)
        return {"input": codes, "input_multiplier": scale.multiplier, "input_shift": scale.shift}

    return draw_case()


WIDE_SOFTMAX = Operator(
    name="cortado::wide_softmax",
    summary="softmax of int16 codes over the last dimension",
    arguments="Tensor input, int input_multiplier, int input_shift",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=kernel,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True),
    element=INT16,
    places=frozenset({Place.C}),
    constraints="C bundle only: ExecuTorch's operators take int8",
    samples=samples,
)
