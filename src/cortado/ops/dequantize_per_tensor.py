"""out = (q - zero_point) * scale, in float32: the border from int8 to float."""

from typing import Any

import numpy as np
import torch
from torch.fx import Node

from cortado.base.element import FLOAT32, INT8, INT16
from cortado.base.numerics import QParams, Tensor
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Member, Operand, Row
from cortado.ir.kernel import ONE_ROW, Kernel, Rows
from cortado.ir.op import Call, Lowering, Operator, Pattern
from cortado.ops import quantize_per_tensor
from cortado.ops._work import ELEMENTS


def reference(
    *, input: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Tensor:
    return (input.to(torch.float32) - zero_point) * torch.tensor(scale, dtype=torch.float32)


def lower(lowering: Lowering) -> Node:
    return lowering.call(DEQUANTIZE, input=lowering.node("input"), **quantize_per_tensor.arguments(lowering.q("input")))


def kernel(call: Call, core: Core) -> Kernel:
    scale, bits = float(np.float32(call["scale"])), call.element_of("input").bits
    operands = (Row(0), Operand.OUT, Operand.N, Member("scale"), Member("zero_point"))
    return Kernel(
        call=CCall(f"cortado_dequantize_s{bits}_f32", operands),
        sources=(f"dequantize_s{bits}_f32.c",),
        struct="cortado_border_t",
        fields={"scale": scale, "zero_point": call["zero_point"]},
        work=ELEMENTS,
    )


def samples() -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        scale = float(np.float32(draw(st.sampled_from([1.0, 0.5, 0.0078125, 0.1, 3.7e-4]))))
        kind = draw(st.sampled_from([INT8, INT8, INT16]))
        codes = sampling.values(draw, (draw(st.integers(1, 70)),), element=kind)
        zero_point = draw(sampling.ZERO_POINTS) if kind.affine else 0
        return {"input": codes, **quantize_per_tensor.arguments(QParams(scale, zero_point, kind))}

    return draw_case()


DEQUANTIZE = Operator(
    name="cortex_m::dequantize_per_tensor",
    summary="int8 or int16 to float32",
    arguments="Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=kernel,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True, elementwise=True),
    element=FLOAT32,
    samples=samples,
)

DEQUANTIZE_PATTERN = Pattern(
    aten=(torch.ops.quantized_decomposed.dequantize_per_tensor.default,),
    match=quantize_per_tensor.match,
    lower=lower,
)
