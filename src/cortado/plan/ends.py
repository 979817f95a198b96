"""Which values of a tensor are at an end of its range: there they may be that value, or any beyond it."""

from dataclasses import dataclass

import torch

from cortado.base.element import Element
from cortado.base.numerics import QParams
from cortado.ir.op import registry
from cortado.ops.elementwise.activation import PLUS_MINUS_ONE, UNIT_INTERVAL, WIDE_UNIT
from cortado.plan.lowered import LoweredGraph

WHOLE = frozenset([UNIT_INTERVAL, PLUS_MINUS_ONE, WIDE_UNIT])  # of sigmoid, softmax and tanh, which can't pass them


@dataclass(frozen=True)
class Ends:
    """The codes at the ends of a range. Zeros of a tensor without negative values don't count, as a relu makes them."""

    element: Element
    low: int | None
    high: int

    def count(self, codes: torch.Tensor) -> int:
        low = 0 if self.low is None else int((codes == self.low).sum())
        return low + int((codes == self.high).sum())


def ends_of(qparams: QParams | None) -> Ends | None:
    """None where there is no range, or one that no value can pass."""
    if qparams is None or qparams in WHOLE:
        return None
    low, high = qparams.element.codes
    return Ends(qparams.element, low if qparams.zero_point > low else None, high)


def chosen_ends(graph: LoweredGraph) -> dict[str, Ends]:
    """Returns the ends of tensors of codes whose range was chosen; what only moves values has been counted before."""
    moved = {name for call in graph.calls if _moves(call.operator) for name in call.read}
    found = {name: ends_of(value.qparams) for name, value in graph.values.items() if name not in moved}
    return {name: ends for name, ends in found.items() if ends is not None}


def _moves(operator: str) -> bool:
    record = registry().operators.get(operator)
    return record is not None and (record.view or record.same_values)
