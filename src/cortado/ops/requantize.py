"""out = clamp(requant((x - input_zero_point) << up) + output_zero_point): codes in another scale, or another element.

up makes 28 bits of a difference of codes: 20 for int8, 13 for int16. From int8 to int8 a table is looked up instead
(activation.py).
"""

from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16, Element, element_of
from cortado.base.numerics import Fixed, QParams, Tensor, requant
from cortado.base.target import Core
from cortado.ir.c_call import Bytes, CCall, Operand, Row
from cortado.ir.kernel import ONE_ROW, Kernel, Rows
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Place
from cortado.ops._work import ELEMENTS

UPS = {INT8.bits: 20, INT16.bits: 13}
# One step of an operand is all of the output's codes from here on; a larger factor gives the same.
MOST = {INT8.bits: 2.0**16, INT16.bits: 2.0**15 - 2.0**-8}


def reference(
    *,
    input: Tensor,
    input_zero_point: int,
    output_zero_point: int,
    output_multiplier: int,
    output_shift: int,
    activation_min: int,
    activation_max: int,
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
    """A tensor of codes in other parameters, within bounds."""
    factor, (low, high) = factor_of(given, out), bounds or out.element.codes
    return lowering.call(
        REQUANTIZE,
        input=source,
        input_zero_point=given.zero_point,
        output_zero_point=out.zero_point,
        output_multiplier=factor.multiplier,
        output_shift=factor.shift,
        activation_min=low,
        activation_max=high,
        dtype=out.element.torch_dtype,
    )


def kernel(call: Call, core: Core) -> Kernel:
    given = call.element_of("input")
    return Kernel(
        call=CCall("cortado_requantize", (Operand.LAYER, Bytes(Row(0)), Bytes(Operand.OUT), Operand.N)),
        sources=("requantize.c",),
        struct="cortado_requantize_t",
        fields={
            "in_bytes": given.bytes,
            "out_bytes": call.element.bytes,
            "in_zero": call["input_zero_point"],
            "up": UPS[given.bits],
            "multiplier": call["output_multiplier"],
            "shift": call["output_shift"],
            "out_zero": call["output_zero_point"],
            "act_min": call["activation_min"],
            "act_max": call["activation_max"],
        },
        work=ELEMENTS,
    )


def samples() -> Any:
    """All pairs of elements; factors from codes that vanish to codes that saturate."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    def zero_point(draw: Any, kind: Element) -> int:
        return int(draw(sampling.ZERO_POINTS)) if kind.affine else 0

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        given, out = (draw(st.sampled_from([INT8, INT16])) for _ in range(2))
        sizes = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
        factor = factor_of(QParams(2.0 ** draw(st.floats(-12, 18)), 0, given), QParams(1.0, 0, out))
        low, high = draw(sampling.activation_bounds(out))
        return {
            "input": sampling.values(draw, sizes, element=given),
            "input_zero_point": zero_point(draw, given),
            "output_zero_point": zero_point(draw, out),
            "output_multiplier": factor.multiplier,
            "output_shift": factor.shift,
            "activation_min": low,
            "activation_max": high,
            "dtype": out.torch_dtype,
        }

    return draw_case()


REQUANTIZE = Operator(
    name="cortado::requantize",
    summary="codes in another scale, or of another element",
    arguments=(
        "Tensor input, int input_zero_point, int output_zero_point, int output_multiplier, int output_shift, "
        "int activation_min, int activation_max, ScalarType dtype"
    ),
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=kernel,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True, elementwise=True),
    element=ElementOf(("dtype",)),
    relayout=lambda arguments, perm: arguments,
    places=frozenset({Place.C}),
    constraints="C bundle only: ExecuTorch's operators take int8",
    by_channel=True,
    samples=samples,
)
