"""out = x modulo 2^bits, between the bounds of a type: what int8, int16, uint8 and int32 keep of a result too large.

No kernel of its own: a sum, a remainder and a difference; for 32 bits nothing, as every calculation is modulo 2^32.
"""

import torch
from torch.fx import Node

from cortado.base.numerics import Tensor
from cortado.ir.functions import Functions
from cortado.ir.graph import Bound, shape
from cortado.ir.op import Lowering, Pattern
from cortado.ir.roles import Plain, Quantization
from cortado.ops.calculate_int import CALCULATE_INT, How
from cortado.ops.widen import as_words

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
