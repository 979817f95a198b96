"""out = exp(x - max) / sum(exp(x - max)) over the last dimension, as codes of scale 1/256 and zero point -128.

Fixed point throughout: exponentials are Q31 with 5 integer bits for their argument, their sum carries 12 integer bits
(where more were needed every output is 0), the reciprocal is three Newton steps. `input_multiplier` and `input_shift`
encode scale * 2^26; a difference to the largest value below `diff_min` counts as exp = 0.
"""

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16, INT32
from cortado.base.errors import Reject
from cortado.base.numerics import Fixed, Tensor, clamp_int8, divide_by_power_of_two
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.graph import TO_NCHW, TO_NHWC, Bound, shape
from cortado.ir.kernel import ONE_ROW, Array, Kernel, Rows
from cortado.ir.op import Call, Lowering, Operator, Pattern, Place
from cortado.ir.roles import Activation, Quantization
from cortado.ir.work import Work, loops
from cortado.ops.elementwise.activation import UNIT_INTERVAL, WIDE_UNIT
from cortado.ops.softmax import int16_softmax

aten = torch.ops.aten
INTEGER_BITS = 5  # of the exponentials' argument
SUM_BITS = 12
LOG_BITS = 20  # fractional bits of the base-2 logarithm of a sum
UNIT_BITS = 31 - SUM_BITS  # a sum of 1.0 is 2^19
BEYOND = 256  # no two codes are this far apart
LARGEST_SUM = 2**28  # from here on every output is the code of 0: half a step of 1/256 is 1/512 of the largest
LARGEST_PTE_ROW = 1023  # of ExecuTorch's kernel: the sum stays below 2^29, and no shift goes beyond 32

# exp(-2^k) as Q31 for k = -2 .. 4: one factor for each higher bit of the argument.
_FACTORS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
_EXP_MINUS_EIGHTH = 1895147668
_THIRD = 715827883


# ---- fixed point ---------------------------------------------------------------------------------------------


def _mul_high(a: Any, b: Any) -> Any:
    """a * b / 2^31, rounded half up: of numbers or of int64 tensors."""
    return (a * b + (1 << 30)) >> 31


def _divided(value: int, exponent: int) -> int:
    """value / 2^exponent to nearest, ties away from zero."""
    size = (abs(value) + (1 << exponent >> 1)) >> exponent
    return size if value >= 0 else -size


def _exponential(value: int) -> int:
    """exp(value / 2^26) as Q31, for value <= 0: a polynomial around -1/8 within the last quarter, then the factors."""
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
    """exp of the differences 0, -1, -2, ... down to diff_min, at most 256 of them."""
    count = min(-diff_min, INT8.steps) + 1
    return torch.tensor(
        [_exponential(_mul_high(-difference << shift, multiplier)) for difference in range(count)], dtype=torch.int64
    )


def sum_of_exponentials(
    input: Tensor, multiplier: int, shift: int, diff_min: int, masked: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """(differences to the largest, exponentials, their sum with 12 integer bits) along the last dimension.

    What is masked is further below the largest of the others than any code can be."""
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
    """Returns the leading zeros of a positive number as 32 bits: exact, float64 holds it."""
    return 32 - torch.frexp(value.to(torch.float64)).exponent.to(torch.int64)


def log2(total: Tensor, unit_bits: int = UNIT_BITS) -> Tensor:
    """Base-2 logarithm, 20 fractional bits truncated, of a number >= 1 with `unit_bits` fractional bits."""
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
    """1 / (1 + value) for value in [0, 1), Q31: three Newton steps from 48/17 - 32/17 * (1 + value) / 2."""
    half = (value + 2**31) >> 1
    x: Tensor = 1515870810 + _mul_high(half, -1010580540)
    for _ in range(3):
        x = x + _saturate(_mul_high(x, (1 << 29) - _mul_high(half, x)) << 2)
    return _saturate(x << 1)


def reference(
    *,
    input: Tensor,
    dim: int,
    input_zero_point: int,
    output_zero_point: int,
    input_multiplier: int,
    input_shift: int,
    diff_min: int,
    masked: Tensor | None = None,
) -> Tensor:
    below, values, total = sum_of_exponentials(input, input_multiplier, input_shift, diff_min, masked)
    headroom = leading_zeros(total.clamp(max=LARGEST_SUM))
    scale = _reciprocal((total.clamp(max=LARGEST_SUM) << headroom) - 2**31)
    codes = divide_by_power_of_two(_mul_high(scale, values), SUM_BITS - headroom + 23) + output_zero_point
    return clamp_int8(torch.where(below <= -diff_min, codes, output_zero_point)).contiguous()


# ---- from aten -----------------------------------------------------------------------------------------------


def match_over(bound: Bound, quantization: Quantization) -> Quantization | Reject:
    return quantization if shape(bound["self"]) else Reject("softmax of a single number")


def match(bound: Bound) -> Quantization | Reject:
    kind = bound.element
    return match_over(bound, Quantization({"self": Activation(kind)}, UNIT_INTERVAL if kind == INT8 else WIDE_UNIT))


def input_factor(scale: float) -> dict[str, int]:
    """The input scale as the kernels want it: differences times scale, with 26 fractional bits."""
    factor = min(scale * 2.0 ** (31 - INTEGER_BITS), 2.0**30 * (1 - 2.0**-31))
    fixed = Fixed.of(factor)
    if fixed.shift < 0:  # differences that hardly count: the kernels shift to the left only
        fixed = Fixed(round(factor * 2**31), 0)
    radius = (2**INTEGER_BITS - 1) * 2.0 ** (31 - INTEGER_BITS) / 2.0**fixed.shift
    return {"input_multiplier": fixed.multiplier, "input_shift": fixed.shift, "diff_min": -math.floor(radius)}


def over_last(lowering: Lowering, operator: Operator, **arguments: Any) -> Node:
    """A call over the last dimension of the operand, with what it takes to bring another dimension there and back."""
    source = lowering.node("self")
    sizes = shape(source)
    dim = lowering.bound["dim"] % len(sizes)
    if math.prod(sizes[dim + 1 :]) == 1:
        flat = lowering.view(source, (math.prod(sizes[:dim]), sizes[dim]))
        return lowering.view(lowering.call(operator, input=flat, **arguments), sizes)
    if len(sizes) == 4 and dim == 1:  # over channels: these transposes meet the convolutions'
        result = lowering.call(operator, input=lowering.transpose(source, TO_NHWC), **arguments)
        return lowering.transpose(result, TO_NCHW)
    outer, inner = math.prod(sizes[:dim]), math.prod(sizes[dim + 1 :])
    moved = lowering.transpose(lowering.view(source, (outer, sizes[dim], inner)), (0, 2, 1))
    result = lowering.call(operator, input=moved, **arguments)
    return lowering.view(lowering.transpose(result, (0, 2, 1)), sizes)


def lower(lowering: Lowering) -> Node:
    qparams = lowering.q("self")
    if qparams.element == INT16:
        return over_last(lowering, int16_softmax.WIDE_SOFTMAX, **int16_softmax.factor(qparams.scale))
    if shape(lowering.node("self"))[lowering.bound["dim"]] > LARGEST_PTE_ROW:
        return over_last(lowering, LONG_SOFTMAX, **input_factor(qparams.scale))
    return over_last(
        lowering,
        SOFTMAX,
        dim=-1,
        input_zero_point=qparams.zero_point,
        output_zero_point=lowering.out.zero_point,
        **input_factor(qparams.scale),
    )


# ---- the C kernel --------------------------------------------------------------------------------------------


def exp_table(call: Call) -> Array:
    """The exponentials, and a 0 for all larger differences where there are any."""
    known = exponentials(call["input_multiplier"], call["input_shift"], call["diff_min"]).tolist()
    return Array(np.array([*known, 0][:256], dtype=np.int32))


def by_table(core: Core) -> str:
    """A core's function over rows with a table of exponentials."""
    return "cortado_softmax_table_s8__mve" if core is Core.MVE else "cortado_softmax_table_s8"


def row_work(call: Call) -> Work:
    """Returns the work of passes over every row, of its values one by one or as vectors."""
    return loops("calls outputs spans spans*length/4 spans*length/16", length=call.shape("input")[-1])


def kernel(call: Call, core: Core) -> Kernel:
    return Kernel(
        call=CCall(by_table(core), (Operand.LAYER, Row(0), Operand.OUT, Operand.N, call.shape("input")[-1])),
        struct="cortado_softmax_t",
        fields={
            "in_multiplier": call["input_multiplier"],
            "in_shift": call["input_shift"],
            "diff_min": call["diff_min"],
            "exp_table": exp_table(call),
        },
        work=row_work(call),
    )


def draw_input(draw: Any, *long: int) -> dict[str, Any]:
    """An input of any rank and a scale, as multiplier, shift and diff_min; rows may also be as `long`."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    lengths = st.one_of(sampling.CHANNELS, st.sampled_from([100, 257, 511, LARGEST_PTE_ROW, *long]))
    sizes = (*draw(st.lists(st.integers(1, 4), max_size=3)), draw(lengths))
    return {"input": sampling.codes(draw(sampling.SEEDS), sizes), **input_factor(2.0 ** draw(st.floats(-12, 5.5)))}


def samples() -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        return {
            **draw_input(draw),
            "dim": -1,
            "input_zero_point": draw(sampling.ZERO_POINTS),
            "output_zero_point": UNIT_INTERVAL.zero_point,
        }

    return draw_case()


def long_samples() -> Any:
    from hypothesis import strategies as st

    return st.composite(lambda draw: draw_input(draw, 1024, 2500))()


SOFTMAX = Operator(
    name="cortex_m::softmax",
    summary="softmax over the last dimension",
    arguments=(
        "Tensor input, int dim, int input_zero_point, int output_zero_point, int input_multiplier, int input_shift, "
        "int diff_min"
    ),
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=kernel,
    element=INT8,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True),
    constraints=f"at most {LARGEST_PTE_ROW} values; another dimension than the last is transposed there",
    samples=samples,
)

LONG_SOFTMAX = Operator(
    name="cortado::long_softmax",
    summary=f"softmax over more than {LARGEST_PTE_ROW} values",
    arguments="Tensor input, int input_multiplier, int input_shift, int diff_min",
    reference=lambda **arguments: reference(
        dim=-1, input_zero_point=0, output_zero_point=UNIT_INTERVAL.zero_point, **arguments
    ),
    shape=lambda call: call.shape("input"),
    kernel=kernel,
    element=INT8,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True),
    places=frozenset({Place.C}),
    constraints=(
        f"C bundle only: the runtime's sum of exponentials has room for {LARGEST_PTE_ROW} values; of a scale of 1/256 "
        "nothing is left where no value stands out of 512"
    ),
    samples=long_samples,
)

SOFTMAX_PATTERN = Pattern(aten=(aten.softmax.int, aten._softmax.default), match=match, lower=lower)
