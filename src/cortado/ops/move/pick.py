"""out[..., j] = in[..., position[..., j]]: the codes at computed positions along the last dimension.

At positions that topk or argmax found in the same tensor, they are a secondary output of that call.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Node

from cortado.base.element import INT32, Element
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.ir import sampling
from cortado.ir.c_call import Absent, Argument, Bytes, Number, Operand, Row, Written
from cortado.ir.facts import holds_integers
from cortado.ir.graph import Bound, taken_from
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, operator_of
from cortado.ir.roles import Activation, Plain, Quantization, SharedWith
from cortado.ir.sampling import CaseDraw
from cortado.ir.schemas import Functions
from cortado.ir.work import Work, loops
from cortado.ops.io.widen import as_words

aten = torch.ops.aten

_LIBRARY = Functions()
_LIBRARY.define("picked(Tensor self, Tensor positions) -> Tensor")
_LIBRARY.impl("picked", lambda self, positions: self.gather(-1, positions), "CompositeExplicitAutograd")
_LIBRARY.impl("picked", lambda self, positions: self.new_empty(positions.shape), "Meta")
PICKED = torch.ops.cortado.picked.default


def reference(*, input: Tensor, positions: Tensor) -> Tensor:
    within = positions.to(torch.int64).clamp(0, input.shape[-1] - 1)
    return input.gather(-1, within).contiguous()


def match(bound: Bound) -> Quantization | Reject:
    if holds_integers(bound["self"]) or bound.element.floating:
        return Quantization({}, Plain())
    return Quantization({"self": Activation(None)}, SharedWith("self"))


def lower(lowering: Lowering) -> Node:
    bound, positions = lowering.bound, as_words(lowering, lowering.node("positions"), "positions")
    source = as_words(lowering, bound["self"], "self") if holds_integers(bound["self"]) else lowering.node("self")
    call = taken_from(positions)
    operator = None if call is None else operator_of(call.target)
    if call is not None and operator is not None and VALUES in operator.results and call.kwargs["input"] is source:
        return lowering.part(call, VALUES)
    return lowering.call(PICK, input=source, positions=positions)


POSITIONS, VALUES = "out", "values"  # the results of the operators that search for extremes


def _read(positions: bool, values: bool) -> Callable[[Call], bool]:
    return lambda call: (call.gives(POSITIONS), call.gives(VALUES)) == (positions, values)


# A kernel can write both results; by which of them are read: the first goes to the output, the second to the row after
# the operand's.
_WRITTEN: tuple[tuple[Callable[[Call], bool], Argument, Argument], ...] = (
    (_read(True, True), Operand.OUT, Written(Row(1))),
    (_read(True, False), Operand.OUT, Absent()),
    (_read(False, True), Absent(), Operand.OUT),
)


def by_results(
    symbols: Mapping[str, Element], numbers: Callable[[Call], tuple[int, ...]], work: Callable[[Call], Work]
) -> KernelTable:
    """Returns the kernels of the operators that search for extremes; `numbers` are the arguments after the span."""
    count = 3 if any("topk" in symbol for symbol in symbols) else 2
    given = tuple(map(Number, range(count)))
    return KernelTable(
        tuple(
            KernelRow(
                symbol,
                kind,
                INT32 if positions is Operand.OUT else None,
                fits=fits,
                arguments=(Row(0), positions, Operand.N, *given, values),
                numbers=numbers,
                work=work,
            )
            for symbol, kind in symbols.items()
            for fits, positions, values in _WRITTEN
        )
    )


def _numbers(call: Call) -> tuple[int, ...]:
    *outer, channels = call.shape("input")
    return math.prod(outer), channels, call.shape("positions")[-1], call.element.bytes


def _work(call: Call) -> Work:
    return loops("calls pixels outputs", pixels=_numbers(call)[0])


def _wide_work(call: Call) -> Work:
    return loops("calls pixels picked outputs", pixels=_numbers(call)[0], picked=math.prod(call.shape("positions")))


_GIVEN = (Number(0), Number(1), Number(2))
KERNELS = KernelTable(
    (
        KernelRow(
            "pick_s8",
            (None, INT32),
            fits=lambda call: call.element.bytes == 1,
            arguments=(Row(0), Row(1), Operand.OUT, *_GIVEN),
            numbers=_numbers,
            work=_work,
        ),
        KernelRow(
            "pick_wide",
            (None, INT32),
            arguments=(Bytes(Row(0)), Row(1), Bytes(Operand.OUT), *_GIVEN, Number(3)),
            numbers=_numbers,
            work=_wide_work,
        ),
    )
)


def samples(draw: CaseDraw) -> dict[str, Any]:
    channels, outer = draw.channels(), draw.sizes(4, 0, 3)
    seed, count = draw.seed(), draw.whole(1, 9)
    return {
        "input": draw.codes((*outer, channels)),
        "positions": sampling.codes(seed + 1, (*outer, count), -1, channels, torch.int32),
    }


PICK = Operator(
    name="cortado::pick",
    summary="the values at computed positions along a dimension: topk, sort, gather",
    reference=reference,
    shape=lambda call: call.shape("positions"),
    kernel=KERNELS,
    element=ElementOf(("input",)),
    tensors=("input", "positions"),
    no_pte="ExecuTorch has no int8 kernel",
    samples=samples,
)

PICKED_PATTERN = Pattern(aten=(PICKED,), match=match, lower=lower)
