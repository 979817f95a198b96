"""out[i] = clamp(requant(s[i] << left_shift) + output_zero_point), s[i] the sum of x[j] - input_zero_point for j <= i.

Along the last dimension. The sums are exact: rounding errors don't accumulate. The shift keeps the two roundings of
requant from losing bits of small sums; int16 codes are rounded once, without it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16, element_of
from cortado.base.errors import Reject
from cortado.base.numerics import LEAST_SHIFT, Fixed, Tensor, clamp_int8, requant
from cortado.base.target import Core
from cortado.ir import sampling
from cortado.ir.graph import Bound, shape
from cortado.ir.kernel import ONE_ROW, Rows
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern
from cortado.ir.roles import Activation, InZeroPoint, Multiplier, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Work, loops
from cortado.ops import reach

aten = torch.ops.aten
SUM_BITS = 30


def reference(
    *,
    input: Tensor,
    input_zero_point: InZeroPoint,
    left_shift: int,
    output_zero_point: OutZeroPoint,
    output_multiplier: Multiplier,
    output_shift: int,
) -> Tensor:
    total = (input.to(torch.int64) - input_zero_point).cumsum(-1) << left_shift
    if element_of(input.dtype).symmetric:
        return reach.to_codes(reach.rounded(total, output_multiplier, output_shift))
    return clamp_int8(requant(total, output_multiplier, output_shift) + output_zero_point).contiguous()


# ---- from aten -----------------------------------------------------------------------------------------------

LARGEST_ROW = 2 ** (SUM_BITS - 16)  # leaves room in the sums for eight more bits


def _room(length: int) -> int:
    """Returns the number of bits that the sums of a row leave free."""
    return SUM_BITS - (INT8.steps * length).bit_length()


def match(bound: Bound) -> Quantization | Reject:
    sizes = shape(bound["self"])
    if not sizes:
        return Reject("a running sum of a single number")
    length = sizes[bound["dim"]]
    if length > LARGEST_ROW:
        return Reject(f"a running sum of {length} values; expected at most {LARGEST_ROW}, so that it fits 32 bits")
    kind = Activation(bound.element)
    return Quantization({"self": kind}, kind)


def _factor(ratio: float, room: int) -> tuple[int, int]:
    """Returns the factor, limited to where all but the smallest sums saturate anyway."""
    fixed = Fixed.of(min(ratio, INT8.steps) / 2**room)
    return fixed.multiplier, fixed.shift


def lower(lowering: Lowering) -> Node:
    source, q, out = lowering.node("self"), lowering.q("self"), lowering.out
    sizes = shape(source)
    dim = lowering.bound["dim"] % len(sizes)
    order = [*(axis for axis in range(len(sizes)) if axis != dim), dim]
    room = 0 if q.element.symmetric else _room(sizes[dim])
    multiplier, shift = _factor(q.scale / out.scale, room) if room else reach.once(q.scale / out.scale)
    result = lowering.call(
        CUMSUM,
        input=_moved(lowering, source, order),
        input_zero_point=q.zero_point,
        left_shift=room,
        output_zero_point=out.zero_point,
        output_multiplier=multiplier,
        output_shift=shift,
    )
    return _moved(lowering, result, [order.index(axis) for axis in range(len(sizes))])


def _moved(lowering: Lowering, node: Node, order: Sequence[int]) -> Node:
    return node if list(order) == sorted(order) else lowering.transpose(node, tuple(order))


# ---- the C kernel --------------------------------------------------------------------------------------------


def _fields(call: Call) -> dict[str, int]:
    return {"length": call.shape("input")[-1]}


_WIDE = KernelRow("cumsum_s16", INT16, struct="cortado_cumsum_t", fields=_fields, work=loops("calls spans outputs"))
_BYTES = replace(_WIDE, symbol="cumsum_s8", reads=INT8)


def _vectors(call: Call) -> Work:
    """Counts up to four elements of a row at a time."""
    return loops("calls spans spans*length/4", length=call.shape("input")[-1])


KERNELS = KernelTable((replace(_BYTES, symbol="cumsum_s8__mve", cores=(Core.MVE,), work=_vectors), _BYTES, _WIDE))


def samples(draw: CaseDraw) -> dict[str, Any]:
    sizes = (*draw.sizes(4, 0, 3), draw.pick([draw.channels(), draw.pick([100, 1000])]))
    if draw.pick([False, False, True]):
        numbers = {"input_zero_point": 0, "left_shift": 0, "output_zero_point": 0, **reach.draw_once(draw, -14, 4)}
        return {"input": draw.codes(sizes, INT16), **numbers}
    return {
        "input": sampling.codes(draw.seed(), sizes),
        "left_shift": _room(sizes[-1]),
        "output_shift": max(draw.whole(-12, 8) - _room(sizes[-1]), LEAST_SHIFT),
    }


CUMSUM = Operator(
    name="cortado::cumsum",
    summary="running sums along the last dimension",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True),
    element=ElementOf(("input",)),
    constraints="a dimension other than the last is transposed first",
    no_pte="the runtime has no integer operator for it",
    samples=samples,
)

CUMSUM_PATTERN = Pattern(aten=(aten.cumsum.default,), match=match, lower=lower)
