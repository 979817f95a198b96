"""What a mask hides gets the lowest code, below all that is kept: a maximum, its position and topk don't see it.

The lowest code stands for minus infinity there; what is kept has the code above it at least.
"""

import math

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import INT8
from cortado.base.numerics import Tensor
from cortado.ir.functions import Functions
from cortado.ir.graph import Bound, shape
from cortado.ir.op import Lowering, Pattern
from cortado.ir.roles import Quantization, SharedWith
from cortado.ops import _wide
from cortado.ops.activation import all_codes, table
from cortado.ops.kept_log_softmax import LOG_SOFTMAX_KEPT
from cortado.ops.masked_softmax import SOFTMAX_KEPT, is_constant_mask, roles
from cortado.ops.requantize import requantized
from cortado.ops.truth import truth_codes
from cortado.ops.where import WHERE

_LIBRARY = Functions()
_LIBRARY.define("lowest_elsewhere(Tensor input, Tensor kept, bool infinite) -> Tensor")


def _in_float(input: Tensor, kept: Tensor, infinite: bool) -> Tensor:
    """-inf if the model has that, else a number below all others: of a row that is hidden whole both are no result, but
    what is computed of a difference to it may be one."""
    low, high = input.aminmax()
    return torch.where(kept != 0, input, -math.inf if infinite else low - 1e-3 * (high - low) - 1e-6)


_LIBRARY.impl("lowest_elsewhere", _in_float, "CompositeExplicitAutograd")
_LIBRARY.impl("lowest_elsewhere", lambda input, kept, infinite: torch.empty_like(input), "Meta")

LOWEST_ELSEWHERE: OpOverload = torch.ops.cortado.lowest_elsewhere.default


def match(bound: Bound) -> Quantization:
    return Quantization(roles(bound, "kept"), SharedWith("input"))


def lower(lowering: Lowering) -> Node:
    source, q = lowering.node("input"), lowering.q("input")
    if _wide.is_wide(q.element):
        above = requantized(lowering, source, q, q, (q.element.low + 1, q.element.high))
    else:
        above = table(lowering, source, all_codes().clamp(min=INT8.low + 1).to(torch.int8))
    if is_constant_mask(lowering.bound["kept"]):
        data = lowering.data("kept")
        assert data is not None
        kept = lowering.constant("kept", data.expand(shape(source)).to(torch.int8))
    else:
        kept = lowering.view(truth_codes(lowering, "kept"), shape(source))
    return lowering.call(WHERE, mask=kept, self=[above], other=[], number=q.element.low)


MASKED = (SOFTMAX_KEPT, LOG_SOFTMAX_KEPT, LOWEST_ELSEWHERE)
"""The calls of the float graph that read a mask, as truth values or as the real numbers 0 and 1."""

LOWEST_PATTERN = Pattern(aten=(LOWEST_ELSEWHERE,), match=match, lower=lower, elements=_wide.REALS)
