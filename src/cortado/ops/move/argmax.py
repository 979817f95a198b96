"""out = the first position of the largest code along the last dimension, or of the smallest; a second result, values =
the code at that position.

Real numbers that differ by less than a step have equal codes; the first of these is taken, as torch does for equal
numbers.
"""

import math

import torch
from torch.fx import Node

from cortado.base.element import CODES, INT32
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.ir.graph import Bound, shape
from cortado.ir.kernel import ONE_ROW, Rows
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, Result
from cortado.ir.roles import Activation, Plain, Quantization
from cortado.ir.work import loops
from cortado.ops.move.pick import POSITIONS, VALUES, by_results

aten = torch.ops.aten


def reference(*, input: Tensor, largest: bool) -> tuple[Tensor, Tensor]:
    codes = input.to(torch.int64)
    best = (codes if largest else -codes).max(-1, keepdim=True).values
    first = ((codes if largest else -codes) == best).to(torch.int32).argmax(-1, keepdim=True)
    return first.to(torch.int32).contiguous(), input.gather(-1, first).contiguous()


def match(bound: Bound) -> Quantization | Reject:
    return Quantization({"self": Activation(None)}, Plain())


def last(lowering: Lowering, node: Node, dim: int) -> Node:
    """Moves one dimension of a tensor to the end."""
    rank = len(shape(node))
    order = [*(other for other in range(rank) if other != dim % max(rank, 1)), *([dim % rank] if rank else [])]
    return lowering.transpose(node, tuple(order))


def lower(lowering: Lowering) -> Node:
    bound, source = lowering.bound, lowering.node("self")
    dim = bound["dim"]
    if dim is None or not shape(source):
        moved = lowering.view(source, (1, math.prod(shape(source))))
    else:
        moved = last(lowering, source, dim)
    largest = bound.node.target == aten.argmax.default
    found = lowering.part(lowering.call(ARGMAX, input=moved, largest=largest), POSITIONS)
    return lowering.view(found, shape(bound.node))


def output_shape(call: Call) -> tuple[int, ...]:
    return (*call.shape("input")[:-1], 1)


KERNELS = by_results(
    {f"argmax_s{kind.bits}": kind for kind in CODES},
    lambda call: (call.shape("input")[-1], int(call["largest"])),
    lambda call: loops("calls spans spans*channels", channels=call.shape("input")[-1]),
)


ARGMAX = Operator(
    name="cortado::argmax",
    summary="the position of the largest or smallest value along a dimension; that value",
    reference=reference,
    shape=output_shape,
    kernel=KERNELS,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True),
    element=INT32,
    extra_results=(Result(VALUES, output_shape, ElementOf(("input",))),),
    constraints="of equal codes, the first",
    no_pte="ExecuTorch has no int8 kernel",
)

ARGMAX_PATTERN = Pattern(aten=(aten.argmax.default, aten.argmin.default), match=match, lower=lower)
