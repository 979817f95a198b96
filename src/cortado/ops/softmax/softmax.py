"""out = exp(x - max) / sum(exp(x - max)) over the last dimension, as codes of scale 1/256 and zero point -128.

Fixed point throughout: exponentials are Q31 with 5 integer bits for their argument, their sum has 12 integer bits (if
it needed more, every output is 0), the reciprocal is three Newton steps. `input_multiplier` and `input_shift` encode
scale * 2^26; a difference to the largest value below `diff_min` counts as exp = 0.

For int16 codes 2^-y / sum(2^-y) with scale 2^-15, y = (max - x) * scale * log2(e): y has 16 fractional bits; 2^-y is
interpolated linearly between 129 powers, in steps of 2^-bits, with as many bits as the sum of a row has room for in 31;
one division per row computes 2^46 / sum. There `input_multiplier` and `input_shift` encode scale * log2(e) * 2^16.
"""

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16, INT32, Element, element_of
from cortado.base.errors import CortadoError, Reject
from cortado.base.numerics import Fixed, QParams, Tensor, clamp_int8, divide_by_power_of_two, requant
from cortado.base.target import Core
from cortado.ir.c_call import Number
from cortado.ir.graph import TO_NCHW, TO_NHWC, Bound, shape
from cortado.ir.kernel import ONE_ROW, Array, Field, Rows
from cortado.ir.kernel_table import EVERY_CORE, SPAN, KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern
from cortado.ir.roles import Activation, InZeroPoint, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Work, loops
from cortado.ops.elementwise.activation import UNIT_INTERVAL, WIDE_UNIT

aten = torch.ops.aten
INTEGER_BITS = 5  # of the exponentials' argument
SUM_BITS = 12
LOG_BITS = 20  # fractional bits of the base-2 logarithm of a sum
UNIT_BITS = 31 - SUM_BITS  # a sum of 1.0 is 2^19
BEYOND = 256  # larger than the distance of any two codes
LARGEST_SUM = 2**28  # from here on every output is the code of 0: the largest is 1/512, half a step
LARGEST_PTE_ROW = 1023  # in ExecuTorch's kernel: the sum stays below 2^29, and no shift exceeds 32

# exp(-2^k) as Q31 for k = -2 .. 4: one factor for each higher bit of the argument.
_FACTORS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
_EXP_MINUS_EIGHTH = 1895147668
_THIRD = 715827883


# ---- fixed point ---------------------------------------------------------------------------------------------


def _mul_high(a: Any, b: Any) -> Any:
    """Returns a * b / 2^31, rounded half up; for numbers and int64 tensors."""
    return (a * b + (1 << 30)) >> 31


def _divided(value: int, exponent: int) -> int:
    """Returns value / 2^exponent, rounded to nearest, ties away from zero."""
    size = (abs(value) + (1 << exponent >> 1)) >> exponent
    return size if value >= 0 else -size


def _exponential(value: int) -> int:
    """Returns exp(value / 2^26) as Q31, for value <= 0: a polynomial around -1/8 for the last quarter, then the
    factors."""
    if value == 0:
        return INT32.high
    quarter = (value & 0xFFFFFF) - (1 << 24)
    x = (quarter << INTEGER_BITS) + (1 << 28)
    x2 = _mul_high(x, x)
    x3, x4 = _mul_high(x2, x), _mul_high(x2, x2)
    tail = _mul_high(_divided(x4, 2) + x3, _THIRD) + x2
    result: int = _EXP_MINUS_EIGHTH + _mul_high(_EXP_MINUS_EIGHTH, x + _divided(tail, 1))
    rest = (quarter - value) >> 24
    for bit, factor in enumerate(_FACTORS):
        if rest >> bit & 1:
            result = _mul_high(result, factor)
    return result


@cache
def exponentials(multiplier: int, shift: int, diff_min: int) -> Tensor:
    """Returns exp of the differences 0, -1, -2, ... down to diff_min, at most 256 of them."""
    count = min(-diff_min, INT8.steps) + 1
    return torch.tensor(
        [_exponential(_mul_high(-difference << shift, multiplier)) for difference in range(count)], dtype=torch.int64
    )


def sum_of_exponentials(
    input: Tensor, multiplier: int, shift: int, diff_min: int, masked: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (differences to the largest, exponentials, their sum with 12 integer bits) along the last dimension.

    Masked values are further below the largest of the others than any code can be.
    """
    x = input.to(torch.int64)
    if masked is not None:
        x = torch.where(masked, INT8.low - BEYOND, x)
    below = (x.amax(-1, keepdim=True) - x).clamp(max=BEYOND)
    table = torch.zeros(BEYOND + 1, dtype=torch.int64)
    known = exponentials(multiplier, shift, diff_min)
    table[: len(known)] = known
    values = table[below]
    return below, values, divide_by_power_of_two(values, torch.tensor(SUM_BITS)).sum(-1, keepdim=True)


def leading_zeros(value: Tensor) -> Tensor:
    """Returns the number of leading zeros of a positive number in 32 bits, exactly: float64 holds it."""
    return 32 - torch.frexp(value.to(torch.float64)).exponent.to(torch.int64)


def log2(total: Tensor, unit_bits: int = UNIT_BITS) -> Tensor:
    """Returns the base-2 logarithm, truncated to 20 fractional bits, of a number >= 1 with `unit_bits` fractional
    bits."""
    headroom = leading_zeros(total)
    mantissa = (total << headroom.clamp(min=0)) >> -headroom.clamp(max=0)  # [1, 2) with 31 fractional bits
    result = 31 - headroom - unit_bits
    # A square needs 64 unsigned bits: numpy has them.
    square = mantissa.numpy().astype(np.uint64)
    for _ in range(LOG_BITS):
        square = (square * square) >> np.uint64(31)
        carry = square >> np.uint64(32)
        square = square >> carry
        result = (result << 1) | torch.from_numpy(carry.astype(np.int64))
    return result


def _saturate(value: Tensor) -> Tensor:
    return value.clamp(INT32.low, INT32.high)


def _reciprocal(value: Tensor) -> Tensor:
    """Returns 1 / (1 + value) for value in [0, 1), Q31: three Newton steps from 48/17 - 32/17 * (1 + value) / 2."""
    half = (value + 2**31) >> 1
    x: Tensor = 1515870810 + _mul_high(half, -1010580540)
    for _ in range(3):
        x = x + _saturate(_mul_high(x, (1 << 29) - _mul_high(half, x)) << 2)
    return _saturate(x << 1)


# ---- int16 codes ---------------------------------------------------------------------------------------------

FRACTION = 16  # fractional bits of y
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
    """Returns how far each value is below the largest of those that are kept; 0 for the others."""
    largest = torch.where(keeps, x, INT16.low).amax(-1, keepdim=True)
    return torch.where(keeps, largest - x, 0)


def over_kept(input: Tensor, keeps: Tensor, input_multiplier: int, input_shift: int) -> Tensor:
    """Returns softmax over the values of each row that are kept, 0 elsewhere."""
    bits = bits_of(input.shape[-1])
    below = below_largest(input.to(torch.int64), keeps)
    found = torch.where(keeps, powers(below, input_multiplier, input_shift, bits), 0)
    total = found.sum(-1, keepdim=True).clamp(min=1)  # for rows without kept values
    inverse = torch.div(torch.tensor(1 << 46), total, rounding_mode="floor")
    return ((found * inverse + (1 << 30)) >> 31).clamp(max=INT16.high).to(torch.int16).contiguous()


# ---- what it computes ----------------------------------------------------------------------------------------


def reference(
    *,
    input: Tensor,
    dim: int,
    input_zero_point: InZeroPoint,
    output_zero_point: OutZeroPoint,
    input_multiplier: int,
    input_shift: int,
    diff_min: int,
    masked: Tensor | None = None,
) -> Tensor:
    if element_of(input.dtype).symmetric:
        keeps = torch.ones_like(input, dtype=torch.bool) if masked is None else ~masked
        return over_kept(input, keeps, input_multiplier, input_shift)
    below, values, total = sum_of_exponentials(input, input_multiplier, input_shift, diff_min, masked)
    headroom = leading_zeros(total.clamp(max=LARGEST_SUM))
    scale = _reciprocal((total.clamp(max=LARGEST_SUM) << headroom) - 2**31)
    codes = divide_by_power_of_two(_mul_high(scale, values), SUM_BITS - headroom + 23) + output_zero_point
    return clamp_int8(torch.where(below <= -diff_min, codes, output_zero_point)).contiguous()


def unit_of(element: Element) -> QParams:
    """Returns scale and zero point of a softmax's result."""
    return UNIT_INTERVAL if element.affine else WIDE_UNIT


# ---- from aten -----------------------------------------------------------------------------------------------


def match_over(bound: Bound, quantization: Quantization) -> Quantization | Reject:
    return quantization if shape(bound["self"]) else Reject("softmax of a single number")


def match(bound: Bound) -> Quantization | Reject:
    kind = bound.element
    return match_over(bound, Quantization({"self": Activation(kind)}, unit_of(kind)))


def input_factor(scale: float, element: Element) -> dict[str, int]:
    """Returns the input scale in the form that kernels use, and for int8 codes the least difference to the largest that
    counts."""
    if not element.affine:
        return {**_wide_factor(scale), "diff_min": 0}
    factor = min(scale * 2.0 ** (31 - INTEGER_BITS), 2.0**30 * (1 - 2.0**-31))
    fixed = Fixed.of(factor)
    if fixed.shift < 0:  # negligible differences: the kernels only shift left
        fixed = Fixed(round(factor * 2**31), 0)
    radius = (2**INTEGER_BITS - 1) * 2.0 ** (31 - INTEGER_BITS) / 2.0**fixed.shift
    return {"input_multiplier": fixed.multiplier, "input_shift": fixed.shift, "diff_min": -math.floor(radius)}


def _wide_factor(scale: float) -> dict[str, int]:
    found = Fixed.of(scale * math.log2(math.e) * 2.0**FRACTION)
    if found.shift > LARGEST_SHIFT:
        raise CortadoError(
            f"softmax of int16 codes takes values between -5,000 and 5,000, found a scale of {scale:g}; divide the "
            "scores first"
        )
    return {"input_multiplier": found.multiplier, "input_shift": found.shift}


def over_last(lowering: Lowering, operator: Operator, **arguments: Any) -> Node:
    """Adds a call over the last dimension of the operand; another dimension is transposed there and back."""
    source = lowering.node("self")
    sizes = shape(source)
    dim = lowering.bound["dim"] % len(sizes)
    if math.prod(sizes[dim + 1 :]) == 1:
        flat = lowering.view(source, (math.prod(sizes[:dim]), sizes[dim]))
        return lowering.view(lowering.call(operator, input=flat, **arguments), sizes)
    if len(sizes) == 4 and dim == 1:  # over channels: these transposes cancel with the convolutions'
        result = lowering.call(operator, input=lowering.transpose(source, TO_NHWC), **arguments)
        return lowering.transpose(result, TO_NCHW)
    outer, inner = math.prod(sizes[:dim]), math.prod(sizes[dim + 1 :])
    moved = lowering.transpose(lowering.view(source, (outer, sizes[dim], inner)), (0, 2, 1))
    result = lowering.call(operator, input=moved, **arguments)
    return lowering.view(lowering.transpose(result, (0, 2, 1)), sizes)


def lower(lowering: Lowering) -> Node:
    qparams = lowering.q("self")
    factor = input_factor(qparams.scale, qparams.element)
    if qparams.element.affine and shape(lowering.node("self"))[lowering.bound["dim"]] > LARGEST_PTE_ROW:
        return over_last(lowering, LONG_SOFTMAX, **factor)
    zeros = {"input_zero_point": qparams.zero_point, "output_zero_point": lowering.out.zero_point}
    return over_last(lowering, SOFTMAX, dim=-1, **zeros, **factor)


# ---- the C kernel --------------------------------------------------------------------------------------------


def exp_table(call: Call) -> Array:
    """Returns the exponentials, and a 0 for all larger differences if there are any."""
    known = exponentials(call["input_multiplier"], call["input_shift"], call["diff_min"]).tolist()
    return Array(np.array([*known, 0][:256], dtype=np.int32))


# The functions that compute rows with a table of exponentials, and the cores that have them.
def row_work(call: Call) -> Work:
    """Returns the work of passes over every row, over single values and over vectors of them."""
    return loops("calls outputs spans spans*length/4 spans*length/16", length=call.shape("input")[-1])


# The functions that compute rows with a table of exponentials, and the cores that have them.
BY_TABLE = (("softmax_table_s8__mve", (Core.MVE,)), ("softmax_table_s8", EVERY_CORE))


def _fields(call: Call) -> dict[str, Field]:
    return {"exp_table": exp_table(call)}


def wide_fields(call: Call) -> dict[str, Field]:
    """Returns the powers for int16 codes, and the factor from differences to their arguments."""
    bits = bits_of(call.shape("input")[-1])
    factor = {"multiplier": call["input_multiplier"], "shift": call["input_shift"]}
    return {**factor, "bits": bits, "powers": Array(POWERS)}


def _wide_work(call: Call) -> Work:
    return loops("calls spans outputs outputs*right uncut", lowest=0, right=call["input_shift"] < 0)


def length_of(call: Call) -> tuple[int, ...]:
    """Returns the number of values in a row as kernels get it, as an argument after their span."""
    return call.shape("input")[-1:]


_BY_TABLE = KernelRow(
    "softmax_table_s8",
    INT8,
    arguments=(*SPAN, Number(0)),
    numbers=length_of,
    struct="cortado_softmax_t",
    fields=_fields,
    work=row_work,
)
KERNELS = KernelTable(
    (
        *(replace(_BY_TABLE, symbol=symbol, cores=cores) for symbol, cores in BY_TABLE),
        KernelRow(
            "softmax_s16",
            INT16,
            struct="cortado_softmax_s16_t",
            fields=lambda call: {"channels": call.shape("input")[-1], **wide_fields(call)},
            work=_wide_work,
        ),
    )
)


def draw_input(draw: CaseDraw, *long: int, element: Element = INT8) -> dict[str, Any]:
    """Draws an input of any rank, and a scale as multiplier, shift and diff_min; rows can also have the lengths
    `long`."""
    length = draw.pick([draw.channels(), draw.pick([100, 257, 511, LARGEST_PTE_ROW, *long])])
    sizes = (*draw.sizes(4, 0, 3), length)
    most = 5.5 if element.affine else 13.9 - FRACTION - math.log2(math.log2(math.e))
    factor = input_factor(2.0 ** draw.real(-12 if element.affine else -32, most), element)
    return {"input": draw.codes(sizes, element), **factor}


def samples(draw: CaseDraw) -> dict[str, Any]:
    kind = draw.element()
    return {
        **draw_input(draw, element=kind),
        "dim": -1,
        "output_zero_point": unit_of(kind).zero_point,
    }


def long_samples(draw: CaseDraw) -> dict[str, Any]:
    return draw_input(draw, 1024, 2500)


SOFTMAX = Operator(
    name="cortex_m::softmax",
    summary="softmax over the last dimension",
    parameters=(
        "Tensor input, int dim, int input_zero_point, int output_zero_point, int input_multiplier, int input_shift, "
        "int diff_min"
    ),
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    element=ElementOf(("input",)),
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True),
    constraints=f"at most {LARGEST_PTE_ROW} int8 values; a dimension other than the last is transposed first",
    samples=samples,
)


def long_reference(*, input: Tensor, input_multiplier: int, input_shift: int, diff_min: int) -> Tensor:
    return reference(
        input=input,
        dim=-1,
        input_zero_point=0,
        output_zero_point=UNIT_INTERVAL.zero_point,
        input_multiplier=input_multiplier,
        input_shift=input_shift,
        diff_min=diff_min,
    )


LONG_SOFTMAX = Operator(
    name="cortado::long_softmax",
    summary=f"softmax over more than {LARGEST_PTE_ROW} values",
    reference=long_reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    element=INT8,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True),
    no_pte=(
        f"the runtime's sum of exponentials has room for {LARGEST_PTE_ROW} values; with a scale of 1/256, nothing is "
        "left of 512 values if none stands out"
    ),
    samples=long_samples,
)

SOFTMAX_PATTERN = Pattern(aten=(aten.softmax.int, aten._softmax.default), match=match, lower=lower)
