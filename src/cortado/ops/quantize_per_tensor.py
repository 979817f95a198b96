"""out = clamp(round_half_even(x * (1 / scale)) + zero_point), in float32: the border from float to int8."""

from typing import Any

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.base.numerics import INT8_MAX, INT8_MIN, QParams, Tensor, clamp_int8
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Floats, Member, Operand, Row
from cortado.ir.graph import Bound
from cortado.ir.op import ONE_ROW, Call, Kernel, Lowering, Operator, Pattern, Quantization, Rows
from cortado.ops._work import ELEMENTS


def reference(
    *, input: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Tensor:
    inverse = torch.tensor(1.0, dtype=torch.float32) / torch.tensor(scale, dtype=torch.float32)
    scaled = torch.nan_to_num(input.to(torch.float32) * inverse, nan=0.0)
    return clamp_int8(torch.round(scaled.clamp(-(2.0**20), 2.0**20)).to(torch.int64) + zero_point, quant_min, quant_max)


def match(bound: Bound) -> Quantization | Reject:
    return Quantization({})


def arguments(qparams: QParams) -> dict[str, object]:
    return {
        "scale": qparams.scale,
        "zero_point": qparams.zero_point,
        "quant_min": INT8_MIN,
        "quant_max": INT8_MAX,
        "dtype": torch.int8,
    }


def lower(lowering: Lowering) -> Node:
    return lowering.call(QUANTIZE, input=lowering.node("input"), **arguments(lowering.out))


def kernel(call: Call, core: Core) -> Kernel:
    scale = float(np.float32(call["scale"]))
    operands = (Floats(Row(0)), Operand.OUT, Operand.N, Member("scale"), Member("zero_point"))
    return Kernel(
        call=CCall("cortado_quantize_f32_s8", operands),
        sources=("quantize_f32_s8.c",),
        struct="cortado_border_t",
        fields={"scale": scale, "zero_point": call["zero_point"]},
        work=ELEMENTS,
    )


def samples() -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        seed = draw(sampling.SEEDS)
        scale = float(np.float32(draw(st.sampled_from([1.0, 0.5, 0.0078125, 0.1, 3.7e-4, 12.3]))))
        values = torch.randn(draw(st.integers(1, 70)), generator=sampling.generator(seed)) * scale * 60
        if seed % 3 == 0:  # ties, and values far outside
            values = torch.round(values / scale) * scale + 0.5 * scale
            values[0] = draw(st.sampled_from([1e30, -1e30, 0.0]))
        return {"input": values, **arguments(QParams(scale, draw(sampling.ZERO_POINTS)))}

    return draw_case()


QUANTIZE = Operator(
    name="cortex_m::quantize_per_tensor",
    summary="float32 to int8",
    arguments="Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=kernel,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True, elementwise=True),
    samples=samples,
)

QUANTIZE_PATTERN = Pattern(aten=(torch.ops.quantized_decomposed.quantize_per_tensor.default,), match=match, lower=lower)
