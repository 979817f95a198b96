"""a' = requant((a - a_zp) << 20, a_multiplier, a_shift), b' alike; out = clamp(requant(a' + b') + out_zp).

Of int16, whose zero points are 0, the same with << 13: a difference of codes then has 28 bits in both.

A subtraction is an addition whose second multiplier is negative: the rounding of requant is defined for either sign,
and the runtime takes any int32. `alpha` scales that multiplier, so it costs nothing either.

lerp: a point between two tensors is a sum with factors.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16, element_of
from cortado.base.errors import Reject
from cortado.base.numerics import Fixed, Tensor, requant
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.graph import Bound, add_call
from cortado.ir.kernel import Kernel
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, Rewrite
from cortado.ir.roles import Quantization
from cortado.ir.work import Calls, Quantities, Work, loops
from cortado.ops.conv import packing
from cortado.ops.elementwise import binary
from cortado.ops.elementwise.pointwise import uniform_value

# ---- add -------------------------------------------------------------------------------------------------

aten = torch.ops.aten
LEFT_SHIFTS = {INT8.bits: 20, INT16.bits: 13}  # a difference of codes has 8 bits, or 15
LARGEST_SHIFT = 2  # |a' + b'| <= 2^28, and kernels rely on 30 bits


def reference(
    *,
    self: Tensor,
    self_zero_point: int,
    self_multiplier: int,
    self_shift: int,
    other: Tensor,
    other_zero_point: int,
    other_multiplier: int,
    other_shift: int,
    output_zero_point: int,
    output_multiplier: int,
    output_shift: int,
    activation_min: int,
    activation_max: int,
) -> Tensor:
    up = LEFT_SHIFTS[element_of(self.dtype).bits]
    left = requant((self.to(torch.int64) - self_zero_point) << up, self_multiplier, self_shift)
    right = requant((other.to(torch.int64) - other_zero_point) << up, other_multiplier, other_shift)
    total = requant(left + right, output_multiplier, output_shift) + output_zero_point
    return total.clamp(activation_min, activation_max).to(self.dtype).contiguous()


# ---- from aten -----------------------------------------------------------------------------------------------


def match(bound: Bound) -> Quantization | Reject:
    if bound.get("alpha", 1) == 0:
        return Reject("alpha = 0 leaves one operand without a meaning; drop the addition")
    return binary.check(bound, by_channel=True) or binary.of_one_element(bound)


def lower(lowering: Lowering) -> Node:
    alpha = float(lowering.bound.get("alpha", 1))
    if lowering.bound.node.target == aten.sub.Tensor:
        alpha = -alpha
    return lower_sum(lowering, 1.0, alpha)


def lower_sum(lowering: Lowering, self_factor: float, other_factor: float) -> Node:
    """self_factor * self + other_factor * other, as one call."""
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
        output_multiplier=out.multiplier,
        output_shift=out.shift,
        activation_min=low,
        activation_max=high,
    )
    return operands.restore(result)


def _term(lowering: Lowering, name: str, factor: float) -> tuple[int, float]:
    """Zero point and scale of factor * operand."""
    qparams = lowering.q(name)
    return qparams.zero_point, factor * qparams.scale


def to_add(bound: Bound) -> Node | None:
    return binary.rewritten(bound, aten.add.Tensor, by_channel=True, **_alpha(bound))


def to_sub(bound: Bound) -> Node | None:
    return binary.rewritten(bound, aten.sub.Tensor, by_channel=True, **_alpha(bound))


def to_reversed_sub(bound: Bound) -> Node | None:
    """rsub(a, b) = b - alpha * a."""
    if not isinstance(bound["other"], Node):
        return None
    new = binary.broadcast(bound, bound["other"], bound["self"], by_channel=True)
    return add_call(bound.node, aten.sub.Tensor, *new, **_alpha(bound))


def to_sum_with(combination: Any, by_channel: bool) -> Callable[[Bound], Node]:
    """addcmul and addcdiv: self + value * combination(tensor1, tensor2)."""

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


def _work(symbol: str, fields: Mapping[str, int]) -> Work:
    """Four elements at a time, the last of them by way of a copy; in portable C one by one, with a loop of its own for
    an operand whose factor is a half."""
    if symbol != "add_s8":
        return Work(("calls", "fours", "parts"), _fours)
    half = any((fields[f"{one}_multiplier"], fields[f"{one}_shift"]) == packing.ADD_HALF for one in "ab")
    unhalved = _has_left_shift(fields) or not half
    return loops("calls outputs outputs*unhalved cut uncut", fields["act_min"], unhalved=unhalved)


def _has_left_shift(fields: Mapping[str, int]) -> bool:
    return any(fields[f"{one}_shift"] > 0 for one in ("a", "b", "out"))


def kernel(call: Call, core: Core) -> Kernel:
    channels = binary.by_channel(call)
    if call.element.bits == INT16.bits:
        return _wide_kernel(call, channels)
    if channels is not None:
        operands = (Operand.LAYER, Row(0), Row(1), Operand.OUT, Operand.N, channels)
        fields = _fields(call, "self", "other")
        symbol = "add_channel_any_s8" if _has_left_shift(fields) else "add_channel_s8"
        return Kernel(
            call=CCall(f"cortado_{symbol}", operands),
            struct="cortado_add_t",
            fields=fields,
            work=loops("calls calls*channels outputs", channels=channels),
        )
    swap = (call["self_multiplier"], call["self_shift"]) == packing.ADD_HALF
    fields = _fields(call, "other", "self") if swap else _fields(call, "self", "other")
    symbol = _variant(fields, core)
    a, b = (Row(1), Row(0)) if swap else (Row(0), Row(1))
    return Kernel(
        call=CCall(f"cortado_{symbol}", (Operand.LAYER, a, b, Operand.OUT, Operand.N)),
        struct="cortado_add_t",
        fields=fields,
        work=_work(symbol, fields),
    )


def _wide_kernel(call: Call, channels: int | None) -> Kernel:
    """Returns the kernel for int16: one for every core, which rounds with the multiply that the core has."""
    operands = (Operand.LAYER, Row(0), Row(1), Operand.OUT, Operand.N)
    whole = CCall("cortado_add_s16", operands)
    fields = _fields(call, "self", "other")
    return Kernel(
        call=whole if channels is None else CCall("cortado_add_channel_s16", (*operands, channels)),
        struct="cortado_add_s16_t",
        fields={name: value for name, value in fields.items() if not name.endswith("_zero")},
        work=binary.wide_work(channels),
    )


def _fields(call: Call, a: str, b: str) -> dict[str, int]:
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


def _variant(fields: dict[str, int], core: Core) -> str:
    """The kernel for two tensors of equal shape."""
    a, b, out = ((fields[f"{operand}_multiplier"], fields[f"{operand}_shift"]) for operand in ("a", "b", "out"))
    if core is Core.MVE and packing.fits_add_mve(a, b, out):
        return "add_s8__mve"
    clamp = (fields["act_min"], fields["act_max"])
    if core in (Core.LONG, Core.DSP, Core.MVE) and packing.fits_add(a, b, out, clamp):
        return f"add_s8__{'scalar' if core is Core.LONG else 'dsp'}"
    return "add_s8"


def samples() -> Any:
    """Any two scales, either sign, any output scale that fits; equal shapes and a channel operand."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        scales = [2.0 ** draw(st.floats(-8, 0)) for _ in range(2)]
        twice_largest = 2 * max(scales)
        left, right = (Fixed.of(scale / twice_largest) for scale in scales)
        # 2^-16: sums of all kinds; 2^1: nearly cancelling operands, where almost every result saturates.
        out = Fixed.of(2.0 ** draw(st.one_of(st.floats(-22, -16), st.floats(-16, 1.99))))
        kind = draw(st.sampled_from([INT8, INT8, INT16]))
        low, high = draw(sampling.activation_bounds(kind))
        sign, zero_points = draw(st.sampled_from([1, -1])), sampling.ZERO_POINTS if kind.affine else st.just(0)
        return {
            **binary.draw_operands(draw, by_channel=True, element=kind),
            "self_zero_point": draw(zero_points),
            "self_multiplier": left.multiplier,
            "self_shift": left.shift,
            "other_zero_point": draw(zero_points),
            "other_multiplier": sign * right.multiplier,
            "other_shift": right.shift,
            "output_zero_point": draw(zero_points),
            "output_multiplier": out.multiplier,
            "output_shift": out.shift,
            "activation_min": low,
            "activation_max": high,
        }

    return draw_case()


ADD: Operator = Operator(
    name="cortex_m::quantized_add",
    summary="sum or difference of two tensors, scaled, with clamp",
    arguments=(
        "Tensor self, int self_zero_point, int self_multiplier, int self_shift, Tensor other, int other_zero_point, "
        "int other_multiplier, int other_shift, int output_zero_point, int output_multiplier, int output_shift, "
        "int activation_min, int activation_max"
    ),
    reference=reference,
    shape=binary.output_shape,
    kernel=kernel,
    rows=binary.rows,
    element=ElementOf(("self", "other")),
    tensors=("self", "other"),
    relayout=lambda arguments, perm: arguments,
    pte=lambda arguments, add, target: binary.in_pte(ADD, arguments, add),
    pte_limit=binary.pte_limit,
    constraints="equal shapes or one value per channel; other shapes are expanded first",
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
    """(1 - weight) * self + weight * end; with a weight for each element self + weight * (end - self)."""
    like, start, end, weight = bound.node, bound["self"], bound["end"], bound["weight"]
    number = uniform_value(weight) if isinstance(weight, Node) else weight
    if number is None:
        step = add_call(like, aten.mul.Tensor, add_call(like, aten.sub.Tensor, end, start), weight)
        return add_call(like, aten.add.Tensor, start, step)
    part = add_call(like, aten.mul.Tensor, start, 1.0 - float(number))
    if number == 0:  # an addition has no such factor
        return add_call(like, aten.add.Tensor, part, add_call(like, aten.mul.Tensor, end, 0.0))
    return add_call(like, aten.add.Tensor, part, end, alpha=float(number))


LERP_REWRITE = Rewrite(aten=(aten.lerp.Scalar, aten.lerp.Tensor), rewrite=between)
