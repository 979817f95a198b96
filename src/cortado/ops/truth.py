"""Truth values at the border of a model: 0 and 1 as booleans (a view of the same bytes), or as integers."""

import torch
from torch.fx import Node

from cortado.base.element import BOOL
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.ir.functions import Functions
from cortado.ir.graph import Bound
from cortado.ir.op import Lowering, Operator, Pattern, Place
from cortado.ir.roles import Activation, Plain, Quantization
from cortado.ops._binary import REALS
from cortado.ops.activation import TRUTH, all_codes, table
from cortado.ops.widen import WIDEN

aten = torch.ops.aten

_LIBRARY = Functions()
for _name, _kind in (("as_truth", torch.bool), ("as_integer", torch.int64)):
    _LIBRARY.define(f"{_name}(Tensor self) -> Tensor")
    _LIBRARY.impl(_name, lambda self, kind=_kind: self.to(kind), "CompositeExplicitAutograd")
    _LIBRARY.impl(_name, lambda self, kind=_kind: torch.empty_like(self, dtype=kind), "Meta")
AS_TRUTH = torch.ops.cortado.as_truth.default
AS_INTEGER = torch.ops.cortado.as_integer.default


def reference(*, input: Tensor) -> Tensor:
    return input.contiguous().view(torch.bool)


def match(bound: Bound) -> Quantization | Reject:
    return Quantization({"self": Activation()}, Plain())


def truth_codes(lowering: Lowering, name: str = "self") -> Node:
    """An operand as codes of 0 and 1."""
    source, known = lowering.node(name), lowering.q(name)
    if known == TRUTH:
        return source
    return table(lowering, source, (all_codes() != known.zero_point).to(torch.int8))


def lower(lowering: Lowering) -> Node:
    return lowering.call(TRUTH_VIEW, input=truth_codes(lowering))


def lower_integer(lowering: Lowering) -> Node:
    return lowering.call(WIDEN, input=truth_codes(lowering), bytes=1, sign=1)


TRUTH_VIEW = Operator(
    name="cortado::truth",
    summary="truth values as an output of the model: no kernel, no copy",
    arguments="Tensor input",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=None,
    view=True,
    element=BOOL,
    places=frozenset({Place.C}),
    constraints="C bundle only: a .pte gives real numbers",
)

AS_TRUTH_PATTERN = Pattern(aten=(AS_TRUTH,), match=match, lower=lower, elements=REALS)
AS_INTEGER_PATTERN = Pattern(aten=(AS_INTEGER,), match=match, lower=lower_integer, elements=REALS)
