"""out = 1 where requant((a - a_zp) << 20) is below, equal to or above requant((b - b_zp) << 20), as requested, else 0.

Codes with equal scale and zero point are compared directly, and so are integers, where one side can be a single number.
Real numbers that differ by less than a step have equal codes, and compare as equal. Truth values are real numbers, 0
and 1, with scale 1 and zero point 0: they are moved, multiplied and joined like any tensor; only an output of the model
is converted to boolean (truth.py).
"""

from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16, INT32, element_of
from cortado.base.errors import Reject
from cortado.base.numerics import Fixed, QParams, Tensor, requant
from cortado.ir import sampling
from cortado.ir.c_call import Number, Operand, Row
from cortado.ir.domain import DomainRule
from cortado.ir.graph import Bound, shape
from cortado.ir.kernel import ONE_ROW, RowRule, Rows
from cortado.ir.kernel_table import PAIR, KernelRow, KernelTable
from cortado.ir.op import Call, Lowering, Operator, Pattern
from cortado.ir.roles import Activation, InZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.schemas import Functions
from cortado.ir.work import loops
from cortado.ops.elementwise.activation import TRUTH
from cortado.ops.elementwise.binary import viewed
from cortado.ops.elementwise.requantize import UPS
from cortado.ops.integer.calculate import refused_shapes, steps_of, words
from cortado.ops.loops import ELEMENTS
from cortado.ops.meaning import ABOVE, BELOW, EQUAL, CallKind, calls

ACCEPTED = tuple(sorted({found.accepts for found in calls(CallKind.COMPARE).values()}))  # bits: CORTADO_BELOW and so on


def accepted(a: Tensor, b: Tensor | int, accepts: int) -> Tensor:
    """Returns where a is below, equal to or above b, as the bits of `accepts` say."""
    if accepts == BELOW | ABOVE:
        return a != b  # NaN too
    wanted = ((a < b) & bool(accepts & BELOW)) | ((a == b) & bool(accepts & EQUAL)) | ((a > b) & bool(accepts & ABOVE))
    return wanted


def reference(
    *,
    self: Tensor,
    self_zero_point: InZeroPoint,
    self_multiplier: int,
    self_shift: int,
    other: Tensor,
    other_zero_point: InZeroPoint,
    other_multiplier: int,
    other_shift: int,
    accepts: int,
) -> Tensor:
    left, right = self.to(torch.int64), other.to(torch.int64)
    if (self_zero_point, self_multiplier, self_shift) != (other_zero_point, other_multiplier, other_shift):
        up = UPS[element_of(self.dtype).bits]
        left = requant((left - self_zero_point) << up, self_multiplier, self_shift)
        right = requant((right - other_zero_point) << up, other_multiplier, other_shift)
    return accepted(left, right, accepts).to(torch.int8).contiguous()


# ---- from the float graph ------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define("compared(Tensor self, Tensor other, int accepts) -> Tensor")
_LIBRARY.impl(
    "compared",
    lambda self, other, accepts: accepted(self, other, accepts).to(torch.float32),
    "CompositeExplicitAutograd",
)
_LIBRARY.impl(
    "compared",
    lambda self, other, accepts: self.new_empty(torch.broadcast_shapes(self.shape, other.shape), dtype=torch.float32),
    "Meta",
)
COMPARED = torch.ops.cortado.compared.default

_LIBRARY.define("compared_ids(Tensor self, Tensor[] other, int number, int accepts) -> Tensor")


def _compared_ids(self: Tensor, other: list[Tensor], number: int, accepts: int) -> Tensor:
    return accepted(self, other[0] if other else number, accepts).to(torch.float32)


def _meta_ids(self: Tensor, other: list[Tensor], number: int, accepts: int) -> Tensor:
    sizes = torch.broadcast_shapes(self.shape, *(operand.shape for operand in other))
    return self.new_empty(sizes, dtype=torch.float32)


_LIBRARY.impl("compared_ids", _compared_ids, "CompositeExplicitAutograd")
_LIBRARY.impl("compared_ids", _meta_ids, "Meta")
COMPARED_IDS = torch.ops.cortado.compared_ids.default


def match(bound: Bound) -> Quantization | Reject:
    kind = Activation(bound.element)
    return Quantization({"self": kind, "other": kind}, TRUTH)


def factors(left: QParams, right: QParams) -> tuple[Fixed, Fixed]:
    """Returns the factors that convert both operands to a common unit, large enough that results fit 30 bits."""
    unit = 2 * max(left.scale, right.scale)
    return Fixed.of(left.scale / unit), Fixed.of(right.scale / unit)


def lower(lowering: Lowering) -> Node:
    left, right = lowering.q("self"), lowering.q("other")
    first, second = factors(left, right)
    out = shape(lowering.bound.node)
    return lowering.call(
        COMPARE,
        self=viewed(lowering, "self", out),
        self_zero_point=left.zero_point,
        **first.arguments("self"),
        other=viewed(lowering, "other", out),
        other_zero_point=right.zero_point,
        **second.arguments("other"),
        accepts=int(lowering.bound["accepts"]),
    )


def match_ids(bound: Bound) -> Quantization | Reject:
    operands = (bound["self"], *bound.nodes("other"))
    refused = refused_shapes(*(shape(operand) for operand in operands), out=shape(bound.node))
    return refused or Quantization({}, TRUTH)


def lower_ids(lowering: Lowering) -> Node:
    """Lowers a comparison of integers, which needs no conversion to a common unit; a number is a constant with one
    value."""
    bound, unit = lowering.bound, Fixed.of(0.5)
    if bound.nodes("other"):
        other = words(lowering, "other")
    else:
        number = INT32.clamped(int(bound["number"]))
        other = lowering.constant("number", torch.full((1,) * len(shape(bound.node)), number, dtype=torch.int32))
    made = lowering.call(
        COMPARE,
        self=words(lowering, "self"),
        self_zero_point=0,
        **unit.arguments("self"),
        other=other,
        other_zero_point=0,
        **unit.arguments("other"),
        accepts=int(bound["accepts"]),
    )
    return lowering.view(made, shape(bound.node))


# ---- the C kernel --------------------------------------------------------------------------------------------


def output_shape(call: Call) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(call.shape("self"), call.shape("other")))


def rows(call: Call) -> Rows:
    steps = steps_of(call.shape("self"), call.shape("other"), out=output_shape(call))
    first, second = (ONE_ROW if step else RowRule(stride=0) for step in steps)
    return Rows((first, second), pixelwise=True, elementwise=True)


def _steps(call: Call) -> tuple[int, ...]:
    return (*steps_of(call.shape("self"), call.shape("other"), out=output_shape(call)), call["accepts"])


_CODES = KernelRow(
    "compare_s8",
    INT8,
    INT8,
    arguments=PAIR,
    struct="cortado_compare_t",
    work=lambda call: loops("calls outputs outputs*unlike", unlike=codes_of(call, "self") != codes_of(call, "other")),
)

KERNELS = KernelTable(
    (
        _CODES,
        replace(_CODES, symbol="compare_s16", reads=INT16),
        KernelRow(
            "compare_s32",
            INT32,
            INT8,
            arguments=(Row(0), Row(1), Operand.OUT, Operand.N, Number(0), Number(1), Number(2)),
            numbers=_steps,
            work=ELEMENTS,
        ),
    )
)


def codes_of(call: Call, operand: str) -> tuple[int, int, int]:
    """Returns what decides the meaning of an operand's codes: codes of equal meaning are compared directly."""
    zero_point, multiplier, shift = (call[f"{operand}_{name}"] for name in ("zero_point", "multiplier", "shift"))
    return zero_point, multiplier, shift


def samples(draw: CaseDraw) -> dict[str, Any]:
    seed = draw.seed()
    sizes = draw.rows()
    if draw.whole(0, 2) == 0:
        return _integers(draw, sizes)
    scale = draw.pick([1.0, 1.0, 0.37, 2.5, 1e-3])
    first, second = factors(QParams(1.0, 0, INT8), QParams(scale, 0, INT8))
    kind = draw.element()
    codes = (*kind.codes, kind.torch_dtype)
    return {
        "self": sampling.codes(seed, sizes, *codes),
        **first.arguments("self"),
        "other": sampling.codes(seed + 1, sizes, *codes),
        **second.arguments("other"),
        "accepts": draw.pick(ACCEPTED),
    }


def _integers(draw: CaseDraw, sizes: tuple[int, ...]) -> dict[str, Any]:
    single, unit = draw.pick([None, "self", "other"]), Fixed.of(0.5)
    case: dict[str, Any] = {"accepts": draw.pick(ACCEPTED)}
    for name in ("self", "other"):
        shape = (1,) * len(sizes) if single == name else sizes
        low, high = draw.pick([(-4, 4), INT32.codes])
        case[name] = sampling.codes(draw.seed(), shape, low, high, torch.int32)
        case |= {f"{name}_zero_point": 0, f"{name}_multiplier": unit.multiplier, f"{name}_shift": unit.shift}
    return case


COMPARE = Operator(
    name="cortado::compare",
    summary="comparisons of two tensors, or of integers with one number; truth values are 0 and 1",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    element=INT8,
    rows=rows,
    tensors=("self", "other"),
    relayout=lambda arguments, perm: arguments,
    constraints="numbers less than a step apart compare equal",
    no_pte="ExecuTorch has no int8 kernel",
    samples=samples,
)

COMPARED_PATTERN = Pattern(aten=(COMPARED,), match=match, lower=lower)
COMPARED_IDS_PATTERN = Pattern(aten=(COMPARED_IDS,), match=match_ids, lower=lower_ids)
COMPARED_IDS_RULE = DomainRule(aten=(COMPARED_IDS,), integers=("self", "other"))
