"""out[..., j] = in[..., position[..., j]]: the codes at computed positions along the last dimension.

At positions that topk or argmax have found in the same tensor they are a result of that call.
"""

import math
from typing import Any

import torch
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir.c_call import Absent, Argument, Bytes, CCall, Operand, Row, Written
from cortado.ir.facts import holds_integers
from cortado.ir.functions import Functions
from cortado.ir.graph import Bound, taken_from
from cortado.ir.kernel import Kernel
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern, Place, operator_of
from cortado.ir.roles import Activation, Plain, Quantization, SharedWith
from cortado.ir.work import loops
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
    bound, positions = lowering.bound, lowering.node("positions")
    source = as_words(lowering, bound["self"], "self") if holds_integers(bound["self"]) else lowering.node("self")
    call = taken_from(positions)
    operator = None if call is None else operator_of(call.target)
    if call is not None and operator is not None and VALUES in operator.results and call.kwargs["input"] is source:
        return lowering.part(call, VALUES)
    return lowering.call(PICK, input=source, positions=positions)


POSITIONS, VALUES = "out", "values"  # the results of what looks for the best


def written(call: Call) -> tuple[Argument, Argument]:
    """Returns where a kernel writes both: the first that is read where outputs go, a second one behind the operand."""
    positions, values = call.gives(POSITIONS), call.gives(VALUES)
    behind: Argument = Written(Row(1)) if positions else Operand.OUT
    return Operand.OUT if positions else Absent(), behind if values else Absent()


def kernel(call: Call, core: Core) -> Kernel:
    *outer, channels = call.shape("input")
    pixels, positions = math.prod(outer), call.shape("positions")
    arguments = (Row(0), Row(1), Operand.OUT, pixels, channels, positions[-1])
    if call.element.bytes == 1:
        work = loops("calls pixels outputs", pixels=pixels)
        return Kernel(call=CCall("cortado_pick_s8", arguments), work=work)
    wide = (Bytes(Row(0)), Row(1), Bytes(Operand.OUT), *arguments[3:], call.element.bytes)
    work = loops("calls pixels picked outputs", pixels=pixels, picked=math.prod(positions))
    return Kernel(call=CCall("cortado_pick_wide", wide), work=work)


def samples() -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        channels, outer = draw(sampling.CHANNELS), tuple(draw(st.lists(st.integers(1, 4), max_size=3)))
        seed, count = draw(sampling.SEEDS), draw(st.integers(1, 9))
        return {
            "input": sampling.values(draw, (*outer, channels)),
            "positions": sampling.codes(seed + 1, (*outer, count), -1, channels, torch.int32),
        }

    return draw_case()


PICK = Operator(
    name="cortado::pick",
    summary="the values at computed positions along a dimension: topk, sort, gather",
    arguments="Tensor input, Tensor positions",
    reference=reference,
    shape=lambda call: call.shape("positions"),
    kernel=kernel,
    element=ElementOf(("input",)),
    tensors=("input", "positions"),
    places=frozenset({Place.C}),
    constraints="C bundle only: ExecuTorch has no int8 kernel",
    samples=samples,
)

PICKED_PATTERN = Pattern(aten=(PICKED,), match=match, lower=lower)
