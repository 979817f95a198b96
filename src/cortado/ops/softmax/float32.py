"""e = exp(x - m), m the largest of a row; out = e / sum(e), or its logarithm (x - m) - log(sum(e)), in float32.

The sum is computed in ascending order, starting from 0, over the last dimension.
"""

import numpy as np
import torch
from torch.fx import Node

from cortado.base import float32
from cortado.base.element import FLOAT32
from cortado.base.numerics import Tensor
from cortado.ir.c_call import Number, Operand, Row
from cortado.ir.graph import shape
from cortado.ir.kernel import ONE_ROW, Rows
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import Lowering, Operator, Pattern
from cortado.ir.work import loops
from cortado.ops.floats import as_it_is, quiet, stored

aten = torch.ops.aten
_LOGARITHMS = (aten.log_softmax.int, aten._log_softmax.default)


@quiet
def reference(*, input: Tensor, log: bool) -> Tensor:
    x = input.numpy()
    largest = x[..., 0]
    for at in range(1, x.shape[-1]):
        now = x[..., at]
        largest = np.where((now > largest) | np.isnan(now), now, largest)
    moved = x - largest[..., None]
    e = float32.exp(moved)
    total = float32.total(e, -1)[..., None]
    return stored(moved - float32.log(total) if log else e / total)


def lower(lowering: Lowering) -> Node:
    source, bound = lowering.node("self"), lowering.bound
    rank = len(shape(source))
    dim = int(bound["dim"]) % rank
    order = tuple([*(one for one in range(rank) if one != dim), dim])
    made = lowering.call(FLOAT_SOFTMAX, input=lowering.transpose(source, order), log=bound.node.target in _LOGARITHMS)
    return lowering.transpose(made, tuple(order.index(one) for one in range(rank)))


def _row(symbol: str, log: bool) -> KernelRow:
    return KernelRow(
        symbol,
        FLOAT32,
        fits=lambda call: bool(call["log"]) == log,
        arguments=(Row(0), Operand.OUT, Operand.N, Number(0)),
        numbers=lambda call: call.shape("input")[-1:],
        work=loops("calls spans outputs"),
    )


KERNELS = KernelTable((_row("softmax_f32", False), _row("log_softmax_f32", True)))


FLOAT_SOFTMAX = Operator(
    name="cortado::float_softmax",
    summary="softmax and log_softmax in float32 over the last dimension",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    element=FLOAT32,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True),
    constraints="a dimension other than the last is transposed first",
)
FLOAT_SOFTMAX_PATTERN = Pattern(
    aten=(aten.softmax.int, aten._softmax.default, *_LOGARITHMS), match=as_it_is, lower=lower, floating=True
)
