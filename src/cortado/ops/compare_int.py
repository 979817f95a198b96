"""out = 1 where whole numbers are below, equal to or above others, or one number, as asked, else 0."""

import math
from typing import Any

import torch
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.base.numerics import INT32_MAX, INT32_MIN, Tensor
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row, Words
from cortado.ir.domain import DomainRule
from cortado.ir.graph import Bound, shape
from cortado.ir.op import Call, Kernel, Lowering, Operator, Pattern, Place, Quantization
from cortado.ops.activation import TRUTH
from cortado.ops.calculate_int import refused_shapes, steps_of, words
from cortado.ops.compare import ACCEPTED, accepted


def reference(*, self: Tensor, other: list[Tensor], number: int, accepts: int) -> Tensor:
    right = other[0] if other else number
    return accepted(self, right, accepts).to(torch.int8).contiguous()


# ---- from the float graph ------------------------------------------------------------------------------------

_LIBRARY = torch.library.Library("cortado", "FRAGMENT")
_LIBRARY.define("compared_ids(Tensor self, Tensor[] other, int number, int accepts) -> Tensor")


def _compared(self: Tensor, other: list[Tensor], number: int, accepts: int) -> Tensor:
    return accepted(self, other[0] if other else number, accepts).to(torch.float32)


def _meta(*operands: Tensor) -> Tensor:
    sizes = torch.broadcast_shapes(*(operand.shape for operand in operands))
    return torch.empty(sizes, dtype=torch.float32, device=operands[0].device)


_LIBRARY.impl("compared_ids", _compared, "CompositeExplicitAutograd")
_LIBRARY.impl("compared_ids", lambda self, other, number, accepts: _meta(self, *other), "Meta")
COMPARED_IDS = torch.ops.cortado.compared_ids.default


def match(bound: Bound) -> Quantization | Reject:
    operands = (bound["self"], *bound.nodes("other"))
    refused = refused_shapes(*(shape(operand) for operand in operands), out=shape(bound.node))
    return refused or Quantization({}, TRUTH)


def lower(lowering: Lowering) -> Node:
    bound = lowering.bound
    made = lowering.call(
        COMPARE_INT,
        self=words(lowering, "self"),
        other=[words(lowering, "other")] if bound.nodes("other") else [],
        number=max(INT32_MIN, min(INT32_MAX, int(bound["number"]))),
        accepts=int(bound["accepts"]),
    )
    return lowering.view(made, shape(bound.node))


def kernel(call: Call, core: Core) -> Kernel:
    out = output_shape(call)
    count = math.prod(out)
    if call["other"]:
        steps = steps_of(call.shape("self"), *call.shapes("other"), out=out)
        arguments: tuple[Any, ...] = (Words(Row(0)), Words(Row(1)), Operand.OUT, count, *steps, call["accepts"])
        return Kernel(call=CCall("cortado_compare_s32", arguments), sources=("compare_s32.c",))
    arguments = (Words(Row(0)), Operand.OUT, count, call["number"], call["accepts"])
    return Kernel(call=CCall("cortado_compare_number_s32", arguments), sources=("compare_s32.c",))


def output_shape(call: Call) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(call.shape("self"), *call.shapes("other")))


def samples() -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        seed = draw(sampling.SEEDS)
        sizes = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
        both, single = draw(st.booleans()), draw(st.sampled_from([None, "self", "other"]))
        first, second = ((1,) if single == name else sizes for name in ("self", "other"))
        return {
            "self": sampling.codes(seed, first if both else sizes, -4, 4, torch.int32),
            "other": [sampling.codes(seed + 1, second, -4, 4, torch.int32)] if both else [],
            "number": draw(st.integers(-5, 5)),
            "accepts": draw(st.sampled_from(sorted(set(ACCEPTED.values())))),
        }

    return draw_case()


COMPARE_INT = Operator(
    name="cortado::compare_int",
    summary="comparisons of whole numbers: truth values as 0 and 1",
    arguments="Tensor self, Tensor[] other, int number, int accepts",
    reference=reference,
    shape=output_shape,
    kernel=kernel,
    tensors=("self", "other"),
    places=frozenset({Place.C}),
    constraints="equal shapes, or one number; C bundle only: a .pte takes real numbers",
    samples=samples,
)

COMPARED_IDS_PATTERN = Pattern(aten=(COMPARED_IDS,), match=match, lower=lower)
COMPARED_IDS_RULE = DomainRule(aten=(COMPARED_IDS,), integers=("self", "other"))
