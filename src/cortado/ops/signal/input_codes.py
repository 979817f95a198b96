"""out = clamp(x - offset): samples of 8 or 16 bits, or 8-bit codes without their zero point, as 16-bit codes.

An input of integers that a signal operator reads holds codes already, with scale 1: int16 needs no copy; for
`(x.float() - 128) / 128` the offset is subtracted here, and the factor is applied by the signal operator. A signal of
real numbers is quantized to 16 bits.
"""

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import INT16
from cortado.base.numerics import QParams, Tensor
from cortado.ir import sampling
from cortado.ir.c_call import Bytes, Operand, Row
from cortado.ir.domain import DomainRule
from cortado.ir.facts import dtype, holds_integers
from cortado.ir.graph import Bound
from cortado.ir.kernel import ONE_ROW, Rows
from cortado.ir.kernel_table import only
from cortado.ir.op import Call, Lowering, Operator, Pattern
from cortado.ir.roles import Activation, Quantization, SharedWith
from cortado.ir.sampling import CaseDraw
from cortado.ir.schemas import Functions
from cortado.ir.work import Work, loops

_WIDTHS = {torch.int8: (1, 1), torch.uint8: (1, 0), torch.int16: (2, 1)}  # bytes, signed
KINDS = tuple(_WIDTHS)
_NO_PTE = "a .pte takes real numbers"

# ---- in the float graph --------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define("samples_of(Tensor self, int offset) -> Tensor")
_LIBRARY.impl("samples_of", lambda self, offset: self.to(torch.float32) - offset, "CompositeExplicitAutograd")
_LIBRARY.impl("samples_of", lambda self, offset: torch.empty_like(self, dtype=torch.float32), "Meta")

SAMPLES_OF: OpOverload = torch.ops.cortado.samples_of.default


def match(bound: Bound) -> Quantization:
    if holds_integers(bound["self"]):
        return Quantization({}, QParams(1.0, 0, INT16))
    return Quantization({"self": Activation(INT16)}, SharedWith("self"))


def lower(lowering: Lowering) -> Node:
    node = lowering.node("self")
    return as_samples(lowering, node, lowering.bound["offset"]) if holds_integers(node) else node


def as_samples(lowering: Lowering, node: Node, offset: int) -> Node:
    """Converts integers of 8 or 16 bits, or 8-bit codes, to samples, minus an offset."""
    size, sign = _WIDTHS[dtype(node)]
    if size == 2 and offset == 0:
        return lowering.call(RAW_SAMPLES, input=node)
    return lowering.call(SAMPLES, input=node, offset=offset, bytes=size, sign=sign)


# ---- the operators -------------------------------------------------------------------------------------------


def reference(*, input: Tensor, offset: int, bytes: int, sign: int) -> Tensor:
    return (input.to(torch.int64) - offset).clamp(INT16.low, INT16.high).to(torch.int16).contiguous()


def _work(call: Call) -> Work:
    terms = "calls outputs outputs*narrow outputs*unsigned"
    return loops(terms, narrow=call["bytes"] == 1, unsigned=call["sign"] == 0)


KERNELS = only(
    "samples_s16",
    None,
    INT16,
    arguments=(Operand.LAYER, Bytes(Row(0)), Operand.OUT, Operand.N),
    struct="cortado_samples_t",
    fields=lambda call: {
        "channels": call.shape("input")[-1],
        **{name: call[name] for name in ("offset", "bytes", "sign")},
    },
    work=_work,
)


def samples(draw: CaseDraw) -> dict[str, Any]:
    kind = draw.pick(KINDS)
    size, sign = _WIDTHS[kind]
    sizes = draw.sizes(9, 1, 4)
    data = sampling.codes(draw.seed(), sizes, torch.iinfo(kind).min, torch.iinfo(kind).max, kind)
    return {"input": data, "offset": draw.whole(-40_000, 40_000), "bytes": size, "sign": sign}


SAMPLES = Operator(
    name="cortado::samples",
    summary="samples of 8 or 16 bits as 16-bit codes, less an offset",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True),
    element=INT16,
    relayout=lambda arguments, perm: arguments,
    no_pte=_NO_PTE,
    samples=samples,
)


def raw_reference(*, input: Tensor) -> Tensor:
    return input.contiguous()


RAW_SAMPLES = Operator(
    name="cortado::raw_samples",
    summary="an int16 input, used as codes directly: no kernel, no copy",
    reference=raw_reference,
    shape=lambda call: call.shape("input"),
    kernel=None,
    element=INT16,
    view=True,
    relayout=lambda arguments, perm: arguments,
    no_pte=_NO_PTE,
)

SAMPLES_PATTERN = Pattern(aten=(SAMPLES_OF,), match=match, lower=lower)
SAMPLES_DOMAIN = DomainRule(aten=(SAMPLES_OF,), real=lambda making, bound: bound.node)
