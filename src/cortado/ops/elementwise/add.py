"""a' = requant((a - a_zp) << 20, a_multiplier, a_shift), likewise b'; out = clamp(requant(a' + b') + out_zp).

For int16, whose zero points are 0, the shift is 13: a difference of codes then has 28 bits for both elements. A
subtraction is an addition whose second multiplier is negative: the rounding of requant is defined for either sign, and
the runtime takes any int32. `alpha` scales that multiplier, so it is free too.

lerp: a point between two tensors is a sum with factors.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16, element_of
from cortado.base.errors import Reject
from cortado.base.numerics import Fixed, Tensor, requant
from cortado.base.target import Core
from cortado.ir.c_call import Number, Operand, Row
from cortado.ir.graph import Bound, add_call
from cortado.ir.kernel_table import PAIR, KernelRow, KernelTable
from cortado.ir.op import Call, Lowering, Operator, Pattern, Rewrite
from cortado.ir.roles import High, InZeroPoint, Low, Multiplier, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Calls, Quantities, Work, loops
from cortado.ops.conv import packing
from cortado.ops.elementwise import binary
from cortado.ops.elementwise.pointwise import uniform_value

# ---- add -------------------------------------------------------------------------------------------------

aten = torch.ops.aten
LEFT_SHIFTS = {INT8.bits: 20, INT16.bits: 13}  # a difference of codes has 8 bits, or 15
LARGEST_SHIFT = 2  # |a' + b'| <= 2^28, and kernels rely on sums below 2^30


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
    output_zero_point: OutZeroPoint,
    output_multiplier: Multiplier,
    output_shift: int,
    activation_min: Low,
    activation_max: High,
) -> Tensor:
    up = LEFT_SHIFTS[element_of(self.dtype).bits]
    left = requant((self.to(torch.int64) - self_zero_point) << up, self_multiplier, self_shift)
    right = requant((other.to(torch.int64) - other_zero_point) << up, other_multiplier, other_shift)
    total = requant(left + right, output_multiplier, output_shift) + output_zero_point
    return total.clamp(activation_min, activation_max).to(self.dtype).contiguous()


# ---- from aten -----------------------------------------------------------------------------------------------


def match(bound: Bound) -> Quantization | Reject:
    if bound.get("alpha", 1) == 0:
        return Reject("alpha = 0 makes one operand irrelevant; drop the addition")
    return binary.check(bound, by_channel=True) or binary.of_one_element(bound)


def lower(lowering: Lowering) -> Node:
    alpha = float(lowering.bound.get("alpha", 1))
    if lowering.bound.node.target == aten.sub.Tensor:
        alpha = -alpha
    return lower_sum(lowering, 1.0, alpha)


def lower_sum(lowering: Lowering, self_factor: float, other_factor: float) -> Node:
    """Adds self_factor * self + other_factor * other as one call."""
    operands = binary.prepare(lowering)
    sides = [_term(lowering, "self", self_factor), _term(lowering, "other", other_factor)]
    if operands.swapped:
        sides.reverse()
    twice_largest, up = 2 * max(abs(scale) for _, scale in sides), LEFT_SHIFTS[lowering.out.element.bits]
    names = ("self", "other")
    arguments: dict[str, Any] = {}
    for name, node, (zero_point, scale) in zip(names, (operands.first, operands.second), sides, strict=True):
        factor = Fixed.of(abs(scale) / twice_largest)
        arguments[name] = node
        arguments[f"{name}_zero_point"] = zero_point
        arguments[f"{name}_multiplier"] = factor.multiplier if scale > 0 else -factor.multiplier
        arguments[f"{name}_shift"] = factor.shift
    out = binary.fixed(lowering, twice_largest / (2**up * lowering.out.scale), LARGEST_SHIFT)
    low, high = lowering.bounds()
    result = lowering.call(
        ADD,
        **arguments,
        output_zero_point=lowering.out.zero_point,
        **out.arguments("output"),
        activation_min=low,
        activation_max=high,
    )
    return operands.restore(result)


def _term(lowering: Lowering, name: str, factor: float) -> tuple[int, float]:
    """Returns zero point and scale of factor * operand."""
    qparams = lowering.q(name)
    return qparams.zero_point, factor * qparams.scale


def to_add(bound: Bound) -> Node | None:
    return binary.rewritten(bound, aten.add.Tensor, by_channel=True, **_alpha(bound))


def to_sub(bound: Bound) -> Node | None:
    return binary.rewritten(bound, aten.sub.Tensor, by_channel=True, **_alpha(bound))


def to_reversed_sub(bound: Bound) -> Node | None:
    """Rewrites rsub(a, b) = b - alpha * a."""
    if not isinstance(bound["other"], Node):
        return None
    new = binary.broadcast(bound, bound["other"], bound["self"], by_channel=True)
    return add_call(bound.node, aten.sub.Tensor, *new, **_alpha(bound))


def to_sum_with(combination: Any, by_channel: bool) -> Callable[[Bound], Node]:
    """Returns a rewrite of addcmul or addcdiv: self + value * combination(tensor1, tensor2)."""

    def rewrite(bound: Bound) -> Node:
        pair = binary.broadcast(bound, bound["tensor1"], bound["tensor2"], by_channel)
        term = add_call(bound.node, combination, *pair)
        value = bound.get("value", 1)
        scaled = {} if value == 1 else {"alpha": value}
        return add_call(bound.node, aten.add.Tensor, *binary.broadcast(bound, bound["self"], term, True), **scaled)

    return rewrite


def _alpha(bound: Bound) -> dict[str, Any]:
    alpha = bound.get("alpha", 1)
    return {} if alpha == 1 else {"alpha": alpha}


# ---- the C kernel --------------------------------------------------------------------------------------------


def _fours(calls: Calls) -> Quantities:
    whole, part = calls.in_spans(4)
    return {"fours": whole, "parts": part}


def _work(call: Call) -> Work:
    """Counts element by element; there is a separate loop for an operand whose factor is 1/2."""
    fields = _fields(call)
    half = any(_factor(fields, one) == packing.ADD_HALF for one in "ab")
    unhalved = _has_left_shift(call) or not half
    return loops("calls outputs outputs*unhalved cut uncut", fields["act_min"], unhalved=unhalved)


def _factor(fields: Mapping[str, int], operand: str) -> tuple[int, int]:
    return fields[f"{operand}_multiplier"], fields[f"{operand}_shift"]


def _has_left_shift(call: Call) -> bool:
    return any(call[f"{one}_shift"] > 0 for one in ("self", "other", "output"))


def _is_swapped(call: Call) -> bool:
    """Whether kernels read the operands in reverse order: the factor 1/2 has to be that of `b`."""
    return not binary.is_by_channel(call) and (call["self_multiplier"], call["self_shift"]) == packing.ADD_HALF


def _fields(call: Call) -> dict[str, int]:
    a, b = ("other", "self") if _is_swapped(call) else ("self", "other")
    return {
        "a_zero": call[f"{a}_zero_point"],
        "a_multiplier": call[f"{a}_multiplier"],
        "a_shift": call[f"{a}_shift"],
        "b_zero": call[f"{b}_zero_point"],
        "b_multiplier": call[f"{b}_multiplier"],
        "b_shift": call[f"{b}_shift"],
        "out_zero": call["output_zero_point"],
        "out_multiplier": call["output_multiplier"],
        "out_shift": call["output_shift"],
        "act_min": call["activation_min"],
        "act_max": call["activation_max"],
    }


def _channel_vectors(call: Call) -> Work:
    """Counts four channels of all pixels at a time."""
    channels = binary.channels(call)[0]

    def quantities(calls: Calls) -> Quantities:
        return {"pixels": calls.spans / channels, "fours": math.ceil(channels / 4)}

    return Work(("calls", "calls*fours", "pixels*fours"), quantities)


def _fits_mve(call: Call) -> bool:
    fields = _fields(call)
    return packing.fits_add_mve(*(_factor(fields, one) for one in ("a", "b", "out")))


def _fits_fours(call: Call) -> bool:
    fields = _fields(call)
    a, b, out = (_factor(fields, one) for one in ("a", "b", "out"))
    return packing.fits_add(a, b, out, (fields["act_min"], fields["act_max"]))


def _both_ways(row: KernelRow) -> tuple[KernelRow, KernelRow]:
    """Returns a row that reads its operands in order, and one that swaps them."""
    fits = row.fits

    def straight(call: Call) -> bool:
        return not _is_swapped(call) and (fits is None or fits(call))

    def swapped(call: Call) -> bool:
        return _is_swapped(call) and (fits is None or fits(call))

    other = (Operand.LAYER, Row(1), Row(0), Operand.OUT, Operand.N)
    return replace(row, fits=straight), replace(row, fits=swapped, arguments=other)


_WHOLE = KernelRow("add_s8", INT8, arguments=PAIR, struct="cortado_add_t", fields=_fields, work=_work)
_FOURS = replace(_WHOLE, work=Work(("calls", "fours", "parts"), _fours))
_CHANNEL = replace(
    _WHOLE,
    fits=binary.is_by_channel,
    arguments=(*PAIR, Number(0)),
    numbers=binary.channels,
    work=lambda call: loops("calls calls*channels outputs", channels=binary.channels(call)[0]),
)
# The int16 kernels are the same for every core; they round with the multiply that the core has.
_WIDE = replace(_WHOLE, reads=INT16, struct="cortado_add_s16_t", fields=None, work=binary.wide_work)

KERNELS = KernelTable(
    (
        replace(_WIDE, symbol="add_channel_s16", fits=binary.is_by_channel, arguments=_CHANNEL.arguments,
                numbers=binary.channels),
        replace(_WIDE, symbol="add_s16"),
        replace(_CHANNEL, symbol="add_channel_any_s8",
                fits=lambda call: binary.is_by_channel(call) and _has_left_shift(call)),
        replace(_CHANNEL, symbol="add_channel_s8__mve", cores=(Core.MVE,), work=_channel_vectors),
        replace(_CHANNEL, symbol="add_channel_s8"),
        *_both_ways(replace(_FOURS, symbol="add_s8__mve", cores=(Core.MVE,), fits=_fits_mve)),
        *_both_ways(replace(_FOURS, symbol="add_s8__dsp", cores=(Core.DSP, Core.MVE), fits=_fits_fours)),
        *_both_ways(replace(_FOURS, symbol="add_s8__scalar", cores=(Core.LONG,), fits=_fits_fours)),
        *_both_ways(_WHOLE),
    )
)  # fmt: skip


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws any two scales, either sign, any output scale that fits; equal shapes or a channel operand."""
    scales = [2.0 ** draw.real(-8, 0) for _ in range(2)]
    twice_largest = 2 * max(scales)
    left, right = (Fixed.of(scale / twice_largest) for scale in scales)
    # Up to 2^-16: ordinary sums; up to 2^1: nearly cancelling operands, where almost every result saturates.
    out = Fixed.of(2.0 ** draw.pick([draw.real(-22, -16), draw.real(-16, 1.99)]))
    kind = draw.element()
    sign = draw.pick([1, -1])
    return {
        **binary.draw_operands(draw, by_channel=True, element=kind),
        **left.arguments("self"),
        "other_multiplier": sign * right.multiplier,
        "other_shift": right.shift,
        **out.arguments("output"),
    }


ADD: Operator = binary.operator_on_two(
    name="cortex_m::quantized_add",
    summary="sum or difference of two tensors, scaled, with clamp",
    reference=reference,
    kernel=KERNELS,
    pte=lambda arguments, add, target: binary.in_pte(ADD, arguments, add),
    pte_limit=binary.pte_limit,
    constraints="equal shapes, or one value per channel; other shapes are expanded first",
    samples=samples,
)

ADD_PATTERN = Pattern(
    aten=(aten.add.Tensor, aten.sub.Tensor),
    match=match,
    lower=lower,
    fuses_clamp=True,
    rounds_once=True,
)
ADD_REWRITE = Rewrite(aten=(aten.add.Tensor,), rewrite=to_add)
SUB_REWRITE = Rewrite(aten=(aten.sub.Tensor, aten.subtract.Tensor), rewrite=to_sub)
ADDCMUL_REWRITE = Rewrite(aten=(aten.addcmul.default,), rewrite=to_sum_with(aten.mul.Tensor, by_channel=True))
ADDCDIV_REWRITE = Rewrite(aten=(aten.addcdiv.default,), rewrite=to_sum_with(aten.div.Tensor, by_channel=False))
RSUB_REWRITE = Rewrite(aten=(aten.rsub.Tensor,), rewrite=to_reversed_sub)


# ---- lerp ------------------------------------------------------------------------------------------------


def between(bound: Bound) -> Node:
    """Rewrites lerp as (1 - weight) * self + weight * end; with a weight tensor as self + weight * (end - self)."""
    like, start, end, weight = bound.node, bound["self"], bound["end"], bound["weight"]
    number = uniform_value(weight) if isinstance(weight, Node) else weight
    if number is None:
        step = add_call(like, aten.mul.Tensor, add_call(like, aten.sub.Tensor, end, start), weight)
        return add_call(like, aten.add.Tensor, start, step)
    part = add_call(like, aten.mul.Tensor, start, 1.0 - float(number))
    if number == 0:  # an addition can't have such a factor
        return add_call(like, aten.add.Tensor, part, add_call(like, aten.mul.Tensor, end, 0.0))
    return add_call(like, aten.add.Tensor, part, end, alpha=float(number))


LERP_REWRITE = Rewrite(aten=(aten.lerp.Scalar, aten.lerp.Tensor), rewrite=between)
