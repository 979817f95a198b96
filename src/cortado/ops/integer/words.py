"""Shared parts of integer rules: numbers as operands, broadcasting, 32-bit calls, narrower types.

out = x modulo 2^bits, between the bounds of a type: what int8, int16, uint8 and int32 keep of a larger result. There is
no kernel of its own: it is computed as a sum, a remainder and a difference; for 32 bits as nothing, because every
calculation is modulo 2^32.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from cortado.base.numerics import Tensor
from cortado.ir.domain import Making
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, add_call, shape
from cortado.ir.op import Lowering, Pattern
from cortado.ir.roles import Plain, Quantization
from cortado.ir.schemas import Functions
from cortado.ops.elementwise.binary import padded
from cortado.ops.elementwise.pointwise import uniform_value
from cortado.ops.float_graph import add_constant, add_view
from cortado.ops.integer.calculate import CALCULATE_INT, CALCULATED_IDS, How
from cortado.ops.io.widen import as_words

# ---- words -----------------------------------------------------------------------------------------------

aten = torch.ops.aten


def is_number(value: Any) -> bool:
    """Whether an operand is a number, or a constant with only one number."""
    return isinstance(value, bool | int | float) or (isinstance(value, Node) and uniform_value(value) is not None)


def known_number(value: Any) -> float:
    """Returns the number of an operand for which `is_number` holds."""
    found = uniform_value(value) if isinstance(value, Node) else value
    assert found is not None
    return found


def number_as(kind: torch.dtype, number: int) -> int:
    """Converts a number to a tensor's type, wrapping around."""
    if kind in (torch.bool, torch.int64) or kind.is_floating_point:
        return number
    low, high = torch.iinfo(kind).min, torch.iinfo(kind).max
    return (number - low) % (high - low + 1) + low


def integer_in(value: Any) -> int | None:
    """Returns a number as an integer; None if it isn't one, or if the operand is not a number."""
    number = known_number(value) if is_number(value) else math.nan
    return int(number) if math.isfinite(number) and number == int(number) else None


def word_of(making: Making, like: Node, value: Any) -> Node | None:
    """Returns an operand, a tensor or a number, as 32-bit integers."""
    if not is_number(value):
        return making.word(value)
    number = integer_in(value)
    return None if number is None else add_constant(like, "number", torch.tensor([number_as(dtype(like), number)]))


def broadcast_word(like: Node, node: Node, sizes: Sequence[int]) -> Node:
    """Broadcasts an operand to the shape of the result; a single number stays single."""
    return add_view(like, node, (1,) * len(sizes)) if math.prod(shape(node)) == 1 else expanded_word(like, node, sizes)


def expanded_word(like: Node, node: Node, sizes: Sequence[int]) -> Node:
    """Reshapes an operand, and expands it if it has fewer values."""
    if math.prod(shape(node)) == math.prod(sizes):
        return add_view(like, node, sizes)
    return add_call(like, aten.expand.default, add_view(like, node, padded(shape(node), len(sizes))), list(sizes))


def calculated(like: Node, left: Node, right: Node, how: How) -> Node:
    """Adds a calculation on two operands, in the shape that they broadcast to."""
    sizes = tuple(torch.broadcast_shapes(shape(left), shape(right)))
    found = add_call(
        like, CALCULATED_IDS, broadcast_word(like, left, sizes), broadcast_word(like, right, sizes), int(how)
    )
    return add_view(like, found, sizes)


def calculated_by(like: Node, node: Node, number: int, how: How) -> Node:
    """Adds a calculation with one number."""
    constant = add_constant(like, "number", torch.tensor([number]).reshape((1,) * len(shape(node))))
    return add_call(like, CALCULATED_IDS, node, constant, int(how))


# ---- wrap int --------------------------------------------------------------------------------------------

WORD_BITS = 32

_LIBRARY = Functions()
_LIBRARY.define("wrapped_ids(Tensor self, int bits, bool sign) -> Tensor")


def _wrapped(self: Tensor, bits: int, sign: bool) -> Tensor:
    lowest = -(1 << (bits - 1)) if sign else 0
    return (self.to(torch.int64) - lowest).remainder(1 << bits) + lowest


_LIBRARY.impl("wrapped_ids", _wrapped, "CompositeExplicitAutograd")
_LIBRARY.impl("wrapped_ids", lambda self, bits, sign: torch.empty_like(self, dtype=torch.int64), "Meta")
WRAPPED_IDS = torch.ops.cortado.wrapped_ids.default


def match(bound: Bound) -> Quantization:
    return Quantization({}, Plain())


def lower(lowering: Lowering) -> Node:
    bound = lowering.bound
    made, bits = as_words(lowering, lowering.node("self")), int(bound["bits"])
    if bits == WORD_BITS:
        return made
    half = 1 << (bits - 1) if bound["sign"] else 0
    steps = ((How.SUM, half), (How.REMAINDER, 1 << bits), (How.DIFFERENCE, half))
    for how, number in [step for step in steps if step[1]]:
        constant = lowering.constant("number", torch.full((1,) * max(len(shape(made)), 1), number, dtype=torch.int32))
        made = lowering.call(CALCULATE_INT, self=made, other=constant, how=int(how))
    return lowering.view(made, shape(bound.node))


WRAPPED_IDS_PATTERN = Pattern(aten=(WRAPPED_IDS,), match=match, lower=lower)
