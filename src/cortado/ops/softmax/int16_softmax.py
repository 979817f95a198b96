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


def powers(below: Tensor, multiplier: int, shift: int, bits: int) -> Tensor:
    y = requant(below, multiplier, shift)
    table = torch.from_numpy(POWERS.astype(np.int64))
    at = (y & 0xFFFF) >> 9
    value = table[at] - (((table[at] - table[at + 1]) * (y & 511)) >> 9)
    right = 30 - bits + (y >> FRACTION)
    return torch.where(right < 32, value >> right.clamp(max=32), 0)


def below_largest(x: Tensor, keeps: Tensor) -> Tensor:
    """How far each value is below the largest of those that are kept; 0 of the others."""
    largest = torch.where(keeps, x, INT16.low).amax(-1, keepdim=True)
    return torch.where(keeps, largest - x, 0)


def over_kept(input: Tensor, keeps: Tensor, input_multiplier: int, input_shift: int) -> Tensor:
    """Softmax over what is kept of each row, 0 elsewhere."""
    bits = bits_of(input.shape[-1])
    below = below_largest(input.to(torch.int64), keeps)
    found = torch.where(keeps, powers(below, input_multiplier, input_shift, bits), 0)
    total = found.sum(-1, keepdim=True).clamp(min=1)  # of a row of which nothing is kept
    inverse = torch.div(torch.tensor(1 << 46), total, rounding_mode="floor")
    return ((found * inverse + (1 << 30)) >> 31).clamp(max=INT16.high).to(torch.int16).contiguous()


def reference(*, input: Tensor, input_multiplier: int, input_shift: int) -> Tensor:
    return over_kept(input, torch.ones_like(input, dtype=torch.bool), input_multiplier, input_shift)


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
        struct="cortado_softmax_s16_t",
        fields={
            "channels": length,
            "multiplier": call["input_multiplier"],
            "shift": call["input_shift"],
            "bits": bits_of(length),
            "powers": Array(POWERS),
        },
        work=loops("calls spans outputs outputs*right uncut", lowest=0, right=call["input_shift"] < 0),
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
