"""out = max(a, b), of codes: both operands and the output share scale and zero point."""

import torch

from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir.kernel import Kernel
from cortado.ir.op import Call, ElementOf, Operator, Pattern, Rewrite
from cortado.ops import _binary, minimum

aten = torch.ops.aten


def reference(*, self: Tensor, other: Tensor) -> Tensor:
    return torch.maximum(self, other).contiguous()


def kernel(call: Call, core: Core) -> Kernel:
    return minimum.kernel_of("maximum", call, core)


MAXIMUM = Operator(
    name="cortex_m::maximum",
    summary="the larger of two tensors, element by element",
    arguments="Tensor self, Tensor other",
    reference=reference,
    shape=_binary.output_shape,
    kernel=kernel,
    rows=_binary.rows,
    element=ElementOf(("self", "other")),
    tensors=("self", "other"),
    relayout=lambda arguments, perm: arguments,
    constraints="equal shapes; other shapes are expanded first",
    samples=minimum.samples,
)

MAXIMUM_PATTERN = Pattern(
    aten=(aten.maximum.default,),
    match=minimum.match,
    lower=lambda lowering: minimum.lower_to(MAXIMUM, lowering),
    elements=_binary.REALS,
)
MAXIMUM_REWRITE = Rewrite(
    aten=(aten.maximum.default, aten.max.other, aten.fmax.default),
    rewrite=lambda bound: _binary.rewritten(bound, aten.maximum.default, by_channel=False),
)
