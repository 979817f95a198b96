"""out = f(x) in float32, element by element: functions of one argument, and bounds.

Each is a fixed sequence of IEEE operations, the same in C and here; NaN results are the canonical NaN.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base import float32
from cortado.base.element import FLOAT32
from cortado.base.numerics import Tensor
from cortado.ir.c_call import Operand, Row
from cortado.ir.kernel import ONE_ROW, Rows
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import Lowering, Operator, Pattern
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Marks, Work, loops
from cortado.ops.elementwise.pointwise import CLAMPS, clamp_bounds
from cortado.ops.floats import NO_BOUNDS, FloatArray, as_it_is, bounded, quiet, stored
from cortado.ops.loops import ELEMENTS

aten = torch.ops.aten

BOUNDS = "bounds"
FUNCTIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": lambda x: np.where(np.isnan(x), np.float32(0), np.sign(x)) + np.float32(0),
    "round": float32.rint,
    **{
        name: getattr(float32, name)
        for name in (
            *("exp", "exp2", "expm1", "sigmoid", "tanh", "erf", "log", "log2", "log10", "log1p", "sqrt", "rsqrt"),
            *("reciprocal", "sin", "cos", "tan", "atan", "asin", "acos", "trunc", "floor", "ceil"),
        )
    },
}
ATEN: dict[OpOverload, str] = {getattr(aten, name).default: name for name in FUNCTIONS}


@quiet
def reference(*, input: Tensor, function: str, low: float, high: float) -> Tensor:
    if function == BOUNDS:
        return bounded(input.numpy(), low, high)
    return stored(FUNCTIONS[function](input.numpy()))


def lower(lowering: Lowering) -> Node:
    function = ATEN[lowering.bound.node.target]  # type: ignore[index]
    low, high = NO_BOUNDS
    return lowering.call(FLOAT_FUNCTION, input=lowering.node("self"), function=function, low=low, high=high)


def lower_clamp(lowering: Lowering) -> Node:
    low, high = clamp_bounds(lowering.bound)
    source = lowering.node("self")
    return lowering.call(FLOAT_FUNCTION, input=source, function=BOUNDS, low=float(low), high=float(high))


# The numbers that a shorter polynomial takes, or that need no reduction.
_HALF = math.sqrt(0.5)
_QUARTER_TURN = math.pi / 4
_SHORT = {
    "expm1": (-0.5, 0.5),
    "tanh": (-0.625, 0.625),
    "erf": (-0.875, 0.875),
    "log1p": (_HALF - 1, 2 * _HALF - 1),
    **dict.fromkeys(("sin", "cos", "tan"), (-_QUARTER_TURN, _QUARTER_TURN)),
    **dict.fromkeys(("asin", "acos"), (-0.5, 0.5)),
}


def _work(function: str) -> Work:
    if function not in _SHORT:
        return ELEMENTS
    low, high = _SHORT[function]
    return replace(loops("calls outputs outputs*marked"), marks=Marks(0, low, high, usual=0.5))


def _row(function: str) -> KernelRow:
    return KernelRow(
        f"{function}_f32",
        FLOAT32,
        fits=lambda call: call["function"] == function,
        arguments=(Row(0), Operand.OUT, Operand.N),
        work=_work(function),
    )


KERNELS = KernelTable(
    (
        *(_row(function) for function in FUNCTIONS),
        KernelRow(
            "bounds_f32",
            FLOAT32,
            struct="cortado_bounds_f32_t",
            work=ELEMENTS,
        ),
    )
)


def samples(draw: CaseDraw) -> dict[str, Any]:
    sizes = draw.rows()
    function = draw.pick([BOUNDS, *FUNCTIONS])
    low, high = draw.pick([(0.0, math.inf), (-1.0, 1.5), (-math.inf, 0.25)])
    low, high = (low, high) if function == BOUNDS else NO_BOUNDS
    return {"input": draw.numbers(sizes), "function": function, "low": low, "high": high}


FLOAT_FUNCTION = Operator(
    name="cortado::float_function",
    summary="functions of one float32 number: clamp, " + ", ".join(FUNCTIONS),
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    element=FLOAT32,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True, elementwise=True),
    relayout=lambda arguments, perm: arguments,
    samples=samples,
)

FLOAT_FUNCTION_PATTERN = Pattern(aten=tuple(ATEN), match=as_it_is, lower=lower, floating=True)
FLOAT_CLAMP_PATTERN = Pattern(aten=CLAMPS, match=as_it_is, lower=lower_clamp, floating=True)
