"""out = clamp(round_half_even(x * (1 / scale)) + zero_point), in float32: the border from float to int8.

out = (q - zero_point) * scale, in float32: the border from int8 to float.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed
from torch.fx import Node

from cortado.base.element import CODES, FLOAT32, INT8, INT16, element_of
from cortado.base.errors import Reject
from cortado.base.numerics import QParams, Tensor
from cortado.ir import facts, sampling
from cortado.ir.c_call import Member, Operand, Row
from cortado.ir.graph import Bound
from cortado.ir.kernel import ONE_ROW, Rows
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import ElementOf, Lowering, Operator, Pattern
from cortado.ir.roles import Activation, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ops.loops import ELEMENTS

# ---- quantize per tensor ---------------------------------------------------------------------------------


def reference(
    *, input: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Tensor:
    inverse = torch.tensor(1.0, dtype=torch.float32) / torch.tensor(scale, dtype=torch.float32)
    scaled = torch.nan_to_num(input.to(torch.float32) * inverse, nan=0.0)
    steps = torch.round(scaled.clamp(-(2.0**20), 2.0**20)).to(torch.int64)
    return (steps + zero_point).clamp(quant_min, quant_max).to(dtype)


def match(bound: Bound) -> Quantization | Reject:
    return Quantization({}, Activation(element_of(bound["dtype"])))


def match_real(bound: Bound) -> Quantization | Reject:
    """Refuses codes of other parameters, which are not real numbers: tables (activation.py) have taken the convertible
    ones."""
    known = facts.qparams(bound["input"])
    if known is None:
        return match(bound)
    before, behind = known.element.name, qparams_of(bound).element.name
    return Reject(f"{before} codes are read as {behind} codes of another scale, and no operator converts them")


def arguments(qparams: QParams) -> dict[str, object]:
    return {
        "scale": qparams.scale,
        "zero_point": qparams.zero_point,
        "quant_min": qparams.element.low,
        "quant_max": qparams.element.high,
        "dtype": qparams.element.torch_dtype,
    }


def qparams_of(bound: Bound) -> QParams:
    """Returns the qparams of a quantize or dequantize call whose parameters are numbers: the inverse of `arguments`."""
    return QParams(float(bound["scale"]), int(bound["zero_point"]), element_of(bound["dtype"]))


def lower(lowering: Lowering) -> Node:
    return lowering.call(QUANTIZE, input=lowering.node("input"), **arguments(lowering.out))


_BORDER = KernelRow(
    "quantize_f32_s8",
    FLOAT32,
    INT8,
    arguments=(Row(0), Operand.OUT, Operand.N, Member("scale"), Member("zero_point")),
    struct="cortado_border_t",
    fields=lambda call: {"scale": float(np.float32(call["scale"])), "zero_point": call["zero_point"]},
    work=ELEMENTS,
)
KERNELS = KernelTable((_BORDER, replace(_BORDER, symbol="quantize_f32_s16", makes=INT16)))


def samples(draw: CaseDraw) -> dict[str, Any]:
    seed = draw.seed()
    scale = float(np.float32(draw.pick([1.0, 0.5, 0.0078125, 0.1, 3.7e-4, 12.3])))
    values = torch.randn(draw.whole(1, 70), generator=sampling.generator(seed)) * scale * 60
    if seed % 3 == 0:  # ties, and values far outside
        values = torch.round(values / scale) * scale + 0.5 * scale
        values[0] = draw.pick([1e30, -1e30, 0.0])
    if draw.whole(0, 2) == 0:
        return {"input": values * 500, **arguments(QParams(scale, 0, INT16))}
    return {"input": values, **arguments(QParams(scale, draw.zero_point(), INT8))}


QUANTIZE = Operator(
    name="cortex_m::quantize_per_tensor",
    summary="float32 to int8 or int16",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True, elementwise=True),
    relayout=lambda arguments, perm: arguments,
    element=ElementOf(("dtype",)),
    quantizes=True,
    samples=samples,
)

QUANTIZE_PATTERN = Pattern(
    aten=(torch.ops.quantized_decomposed.quantize_per_tensor.default,), match=match_real, lower=lower
)


# ---- dequantize per tensor -------------------------------------------------------------------------------


def dequantize_per_tensor_reference(
    *, input: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Tensor:
    return (input.to(torch.float32) - zero_point) * torch.tensor(scale, dtype=torch.float32)


def dequantize_per_tensor_lower(lowering: Lowering) -> Node:
    return lowering.call(DEQUANTIZE, input=lowering.node("input"), **arguments(lowering.q("input")))


DEQUANTIZE_KERNELS = KernelTable(
    tuple(replace(_BORDER, symbol=f"dequantize_s{kind.bits}_f32", reads=kind, makes=FLOAT32) for kind in CODES)
)


def dequantize_per_tensor_samples(draw: CaseDraw) -> dict[str, Any]:
    scale = float(np.float32(draw.pick([1.0, 0.5, 0.0078125, 0.1, 3.7e-4])))
    kind = draw.element()
    codes = draw.codes((draw.whole(1, 70),), kind)
    zero_point = draw.zero_point(kind)
    return {"input": codes, **arguments(QParams(scale, zero_point, kind))}


DEQUANTIZE = Operator(
    name="cortex_m::dequantize_per_tensor",
    summary="int8 or int16 to float32",
    reference=dequantize_per_tensor_reference,
    shape=lambda call: call.shape("input"),
    kernel=DEQUANTIZE_KERNELS,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True, elementwise=True),
    relayout=lambda arguments, perm: arguments,
    element=FLOAT32,
    dequantizes=True,
    samples=dequantize_per_tensor_samples,
)

DEQUANTIZE_PATTERN = Pattern(
    aten=(torch.ops.quantized_decomposed.dequantize_per_tensor.default,),
    match=match,
    lower=dequantize_per_tensor_lower,
)
