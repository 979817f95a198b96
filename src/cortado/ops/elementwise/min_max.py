"""out = min(a, b) or max(a, b), of codes: both operands and the output share scale and zero point."""

from dataclasses import replace

import torch
from torch.fx import Node

from cortado.base.element import INT8, INT16
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir.c_call import Operand, Row
from cortado.ir.graph import Bound, add_call, bind, shape
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import Lowering, Operator, Pattern, Rewrite
from cortado.ir.roles import Joined, Quantization
from cortado.ops.elementwise import binary
from cortado.ops.float_graph import is_constant
from cortado.ops.loops import ELEMENTS, FOURS, VECTORS

# ---- minimum ---------------------------------------------------------------------------------------------

aten = torch.ops.aten


def reference(*, self: Tensor, other: Tensor) -> Tensor:
    return torch.minimum(self, other).contiguous()


def match(bound: Bound) -> Quantization | Reject:
    refused, alike = binary.check(bound, by_channel=False), binary.of_one_element(bound)
    return refused or replace(alike, output=Joined(element=bound.element))


def lower_to(operator: Operator, lowering: Lowering) -> Node:
    """Adds a call on raw codes. CMSIS-NN reads only the last four dimensions, so higher ranks are flattened."""
    operands = binary.prepare(lowering)
    flat = (binary.flat_rank4(lowering, node) for node in (operands.first, operands.second))
    first, second = flat
    result = lowering.call(operator, self=first, other=second)
    return lowering.view(result, shape(lowering.bound.node))


def kernels(name: str) -> KernelTable:
    """Returns the kernels of minimum or maximum; for 16 bits there is one for all cores."""
    row = KernelRow(f"{name}_s8", INT8, arguments=(Row(0), Row(1), Operand.OUT, Operand.N), work=ELEMENTS)
    return KernelTable(
        (
            replace(row, symbol=f"{name}_s8__mve", cores=(Core.MVE,), work=VECTORS),
            replace(row, symbol=f"{name}_s8__dsp", cores=(Core.DSP,), work=FOURS),
            row,
            replace(row, symbol=f"{name}_s16", reads=INT16),
        )
    )


MINIMUM = binary.operator_on_two(
    name="cortex_m::minimum",
    summary="the smaller of two tensors, element by element",
    reference=reference,
    kernel=kernels("minimum"),
    constraints="equal shapes; other shapes are expanded first",
)


def clamped(bound: Bound) -> Node | None:
    """Rewrites a clamp between tensors, at least one of them computed: a maximum, then a minimum."""
    limits = ((aten.maximum.default, bound.get("min")), (aten.minimum.default, bound.get("max")))
    given = [(target, limit) for target, limit in limits if limit is not None]
    if all(is_constant(limit) for _, limit in given):
        return None
    found: Node = bound["self"]
    for target, limit in given:
        new = add_call(bound.node, target, found, limit)
        found = binary.rewritten(bind(new), target, by_channel=False) or new
    return found


MINIMUM_PATTERN = Pattern(aten=(aten.minimum.default,), match=match, lower=lambda lowering: lower_to(MINIMUM, lowering))
MINIMUM_REWRITE = Rewrite(
    aten=(aten.minimum.default, aten.min.other, aten.fmin.default),
    rewrite=lambda bound: binary.rewritten(bound, aten.minimum.default, by_channel=False),
)
CLAMP_REWRITE = Rewrite(
    aten=(aten.clamp.Tensor, aten.clip.Tensor, aten.clamp_min.Tensor, aten.clamp_max.Tensor), rewrite=clamped
)


# ---- maximum ---------------------------------------------------------------------------------------------


def maximum_reference(*, self: Tensor, other: Tensor) -> Tensor:
    return torch.maximum(self, other).contiguous()


MAXIMUM = binary.operator_on_two(
    name="cortex_m::maximum",
    summary="the larger of two tensors, element by element",
    reference=maximum_reference,
    kernel=kernels("maximum"),
    constraints="equal shapes; other shapes are expanded first",
)

MAXIMUM_PATTERN = Pattern(aten=(aten.maximum.default,), match=match, lower=lambda lowering: lower_to(MAXIMUM, lowering))
MAXIMUM_REWRITE = Rewrite(
    aten=(aten.maximum.default, aten.max.other, aten.fmax.default),
    rewrite=lambda bound: binary.rewritten(bound, aten.maximum.default, by_channel=False),
)
