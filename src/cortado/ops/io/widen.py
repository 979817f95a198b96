"""out = x, in 32 bits: integers of 8 or 16 bits, and truth values, in the type of ids and comparisons.

`ids.long()` of an input of 8 or 16 bits is exactly this.
"""

from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT32
from cortado.base.errors import CortadoError
from cortado.base.numerics import Tensor
from cortado.ir import sampling
from cortado.ir.c_call import Bytes, Number, Operand, Row
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, describe
from cortado.ir.kernel_table import only
from cortado.ir.op import Lowering, Operator, Pattern
from cortado.ir.roles import Plain, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.schemas import Functions
from cortado.ir.work import loops

WIDTHS = {torch.int8: (1, 1), torch.uint8: (1, 0), torch.bool: (1, 0), torch.int16: (2, 1)}  # bytes, signed


def reference(*, input: Tensor, bytes: int, sign: int) -> Tensor:
    return input.to(torch.int32).contiguous()


_LIBRARY = Functions()
_LIBRARY.define("widened(Tensor self) -> Tensor")
_LIBRARY.impl("widened", lambda self: self.to(torch.int64), "CompositeExplicitAutograd")
_LIBRARY.impl("widened", lambda self: torch.empty_like(self, dtype=torch.int64), "Meta")
WIDENED = torch.ops.cortado.widened.default


def match(bound: Bound) -> Quantization:
    return Quantization({}, Plain())


def lower(lowering: Lowering) -> Node:
    return as_words(lowering, lowering.node("self"))


def as_words(lowering: Lowering, node: Node, name: str = "words") -> Node:
    """Returns integers of any type as int32, constants included."""
    data = lowering.constant_of(node)
    if data is not None:
        return lowering.constant(name, _narrowed(lowering, data))
    if dtype(node) in (torch.int32, torch.int64):
        return node
    size, sign = WIDTHS[dtype(node)]
    return lowering.call(WIDEN, input=node, bytes=size, sign=sign)


def _narrowed(lowering: Lowering, data: Tensor) -> Tensor:
    if not (INT32.holds(int(data.min())) and INT32.holds(int(data.max()))):
        largest = int(data.abs().max())
        raise CortadoError(f"{describe(lowering.bound.node)} calculates with {largest}, expected integers of 32 bits")
    return data.to(torch.int32)


KERNELS = only(
    "widen",
    None,
    INT32,
    arguments=(Bytes(Row(0)), Operand.OUT, Operand.N, Number(0), Number(1)),
    numbers=lambda call: (call["bytes"], call["sign"]),
    work=lambda call: loops("calls outputs outputs*wide", wide=call["bytes"] == 2),
)


def samples(draw: CaseDraw) -> dict[str, Any]:
    kind = draw.pick(list(WIDTHS))
    size, sign = WIDTHS[kind]
    low, high = (0, 1) if kind == torch.bool else (torch.iinfo(kind).min, torch.iinfo(kind).max)
    sizes = draw.sizes(9, 1, 4)
    return {"input": sampling.codes(draw.seed(), sizes, low, high, kind), "bytes": size, "sign": sign}


WIDEN = Operator(
    name="cortado::widen",
    summary="integers of 8 or 16 bits as 32",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    element=INT32,
    no_pte="a .pte takes real numbers",
    samples=samples,
)

WIDENED_PATTERN = Pattern(aten=(WIDENED,), match=match, lower=lower)
