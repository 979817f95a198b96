"""out = a + b, a - b, a * b, a // b, a % b, min(a, b), max(a, b), their bits or shifts, modulo 2^32, of integers.

One of the two can be a single number for all elements. Quotients are rounded down and remainders have the divisor's
sign, as in Python and torch; both are 0 if the divisor is. A shift by less than 0 or more than 31 shifts all bits out.
"""

import math
from enum import IntEnum
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT32
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.ir import sampling
from cortado.ir.c_call import Number, Operand, Row
from cortado.ir.graph import Bound, shape
from cortado.ir.kernel_table import only
from cortado.ir.op import Call, Lowering, Operator, Pattern
from cortado.ir.roles import Plain, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.schemas import Functions
from cortado.ir.work import Work, loops
from cortado.ops.io.widen import as_words


class How(IntEnum):
    """Arithmetic operations, numbered as in cortado.h."""

    SUM = 0
    DIFFERENCE = 1
    PRODUCT = 2
    QUOTIENT = 3
    REMAINDER = 4
    SMALLER = 5
    LARGER = 6
    BOUNDED_SUM = 7  # only for reductions
    AND = 8
    OR = 9
    XOR = 10
    LEFT = 11
    RIGHT = 12


def calculated(a: Tensor, b: Tensor, how: int) -> Tensor:
    """Returns the result in 64 bits, which hold the exact result for any 32-bit operands."""
    if how in (How.QUOTIENT, How.REMAINDER):
        safe = torch.where(b == 0, 1, b)
        found = a.div(safe, rounding_mode="floor") if how == How.QUOTIENT else a.remainder(safe)
        return torch.where(b == 0, 0, found)
    if how in (How.SUM, How.DIFFERENCE):
        return a + b if how == How.SUM else a - b
    if how == How.PRODUCT:
        return a * b
    if how in (How.SMALLER, How.LARGER):
        return torch.minimum(a, b) if how == How.SMALLER else torch.maximum(a, b)
    return _bits(a, b, how)


def _bits(a: Tensor, b: Tensor, how: int) -> Tensor:
    if how in (How.LEFT, How.RIGHT):
        by = torch.where((b < 0) | (b > INT32.bits - 1), INT32.bits, b)
        return a << by if how == How.LEFT else a >> by
    if how == How.XOR:
        return a ^ b
    return a & b if how == How.AND else a | b


def reference(*, self: Tensor, other: Tensor, how: int) -> Tensor:
    return calculated(self.to(torch.int64), other.to(torch.int64), how).to(torch.int32).contiguous()


# ---- from the float graph ------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define("calculated_ids(Tensor self, Tensor other, int how) -> Tensor")


def _wide(self: Tensor, other: Tensor, how: int) -> Tensor:
    return calculated(self.to(torch.int64), other.to(torch.int64), how)


def _meta(self: Tensor, other: Tensor, how: int) -> Tensor:
    sizes = torch.broadcast_shapes(self.shape, other.shape)
    return torch.empty(sizes, dtype=torch.int64, device=self.device)


_LIBRARY.impl("calculated_ids", _wide, "CompositeExplicitAutograd")
_LIBRARY.impl("calculated_ids", _meta, "Meta")
CALCULATED_IDS = torch.ops.cortado.calculated_ids.default


def steps_of(*operands: tuple[int, ...], out: tuple[int, ...]) -> tuple[int, ...]:
    """Returns 1 for an operand with a number for each element of the result, 0 for one with a single number."""
    return tuple(int(math.prod(sizes) == math.prod(out)) for sizes in operands)


def refused_shapes(*operands: tuple[int, ...], out: tuple[int, ...]) -> Reject | None:
    """Refuses operands that have neither the result's shape nor a single number."""
    odd = [sizes for sizes in operands if math.prod(sizes) not in (1, math.prod(out))]
    return Reject(f"takes integers of equal shapes, or one number, got {list(odd[0])}") if odd else None


def words(lowering: Lowering, name: str) -> Node:
    """Returns an operand as int32, also a constant one."""
    return as_words(lowering, lowering.bound.nodes(name)[0], name)


def match(bound: Bound) -> Quantization | Reject:
    refused = refused_shapes(shape(bound["self"]), shape(bound["other"]), out=shape(bound.node))
    return refused or Quantization({}, Plain())


def lower(lowering: Lowering) -> Node:
    given = {name: words(lowering, name) for name in ("self", "other")}
    made = lowering.call(CALCULATE_INT, **given, how=int(lowering.bound["how"]))
    return lowering.view(made, shape(lowering.bound.node))


def _numbers(call: Call) -> tuple[int, ...]:
    out = output_shape(call)
    return math.prod(out), *steps_of(call.shape("self"), call.shape("other"), out=out), int(call["how"])


def _work(call: Call) -> Work:
    return loops(
        "calls elements elements*multiplied elements*divided elements*compared",
        elements=math.prod(output_shape(call)),
        multiplied=call["how"] == How.PRODUCT,
        divided=call["how"] in (How.QUOTIENT, How.REMAINDER),
        compared=call["how"] in (How.SMALLER, How.LARGER) or call["how"] >= How.AND,
    )


KERNELS = only(
    "calculate_s32",
    INT32,
    arguments=(Row(0), Row(1), Operand.OUT, *map(Number, range(4))),
    numbers=_numbers,
    work=_work,
)


def output_shape(call: Call) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(call.shape("self"), call.shape("other")))


def samples(draw: CaseDraw) -> dict[str, Any]:
    seed, how = draw.seed(), draw.pick([how for how in How if how is not How.BOUNDED_SUM])
    sizes = draw.sizes(9, 1, 4)
    single = draw.pick([None, "self", "other"])
    most = draw.pick([4, INT32.high])
    given = {
        name: sampling.codes(seed + number, (1,) if single == name else sizes, -most - 1, most, torch.int32)
        for number, name in enumerate(("self", "other"))
    }
    return {**given, "how": int(how)}


CALCULATE_INT = Operator(
    name="cortado::calculate_int",
    summary="sums, products, quotients, remainders, minimum, maximum, bits and shifts of integers: counters, positions",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    element=INT32,
    tensors=("self", "other"),
    constraints="equal shapes, or one number; modulo 2^32",
    no_pte="a .pte takes real numbers",
    samples=samples,
)

CALCULATED_IDS_PATTERN = Pattern(aten=(CALCULATED_IDS,), match=match, lower=lower)
