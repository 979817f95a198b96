"""out = 1 where whole numbers are below, equal to or above others, or one number, as asked, else 0."""

import math
from typing import Any

import torch
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.base.numerics import INT32_MAX, INT32_MIN, Tensor
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row, Words
from cortado.ir.graph import Bound, shape
from cortado.ir.op import Call, Kernel, Lowering, Operator, Pattern, Place, Quantization
from cortado.ops.activation import TRUTH
from cortado.ops.compare import ACCEPTED, accepted
from cortado.ops.widen import as_words


def reference(*, self: Tensor, other: list[Tensor], number: int, accepts: int) -> Tensor:
    right = other[0] if other else number
    return accepted(self, right, accepts).to(torch.int8).contiguous()


# ---- from the float graph ------------------------------------------------------------------------------------

_LIBRARY = torch.library.Library("cortado", "FRAGMENT")
_LIBRARY.define("compared_ids(Tensor self, Tensor[] other, int number, int accepts) -> Tensor")


def _compared(self: Tensor, other: list[Tensor], number: int, accepts: int) -> Tensor:
    return accepted(self, other[0] if other else number, accepts).to(torch.float32)


_LIBRARY.impl("compared_ids", _compared, "CompositeExplicitAutograd")
_LIBRARY.impl("compared_ids", lambda self, other, number, accepts: torch.empty_like(self, dtype=torch.float32), "Meta")
COMPARED_IDS = torch.ops.cortado.compared_ids.default


def match(bound: Bound) -> Quantization | Reject:
    others = bound.nodes("other")
    if others and shape(others[0]) != shape(bound["self"]):
        return Reject(f"compares whole numbers of shapes {list(shape(bound['self']))} and {list(shape(others[0]))}")
    return Quantization({}, TRUTH)


def lower(lowering: Lowering) -> Node:
    bound = lowering.bound
    return lowering.call(
        COMPARE_INT,
        self=as_words(lowering, lowering.node("self")),
        other=[as_words(lowering, node) for node in bound.nodes("other")],
        number=max(INT32_MIN, min(INT32_MAX, int(bound["number"]))),
        accepts=int(bound["accepts"]),
    )


def kernel(call: Call, core: Core) -> Kernel:
    count = math.prod(call.shape("self"))
    if call["other"]:
        arguments: tuple[Any, ...] = (Words(Row(0)), Words(Row(1)), Operand.OUT, count, call["accepts"])
        return Kernel(call=CCall("cortado_compare_s32", arguments), sources=("compare_s32.c",))
    arguments = (Words(Row(0)), Operand.OUT, count, call["number"], call["accepts"])
    return Kernel(call=CCall("cortado_compare_number_s32", arguments), sources=("compare_s32.c",))


def samples() -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        seed = draw(sampling.SEEDS)
        sizes = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
        both = draw(st.booleans())
        return {
            "self": sampling.codes(seed, sizes, -4, 4, torch.int32),
            "other": [sampling.codes(seed + 1, sizes, -4, 4, torch.int32)] if both else [],
            "number": draw(st.integers(-5, 5)),
            "accepts": draw(st.sampled_from(sorted(set(ACCEPTED.values())))),
        }

    return draw_case()


COMPARE_INT = Operator(
    name="cortado::compare_int",
    summary="comparisons of whole numbers: truth values as 0 and 1",
    arguments="Tensor self, Tensor[] other, int number, int accepts",
    reference=reference,
    shape=lambda call: call.shape("self"),
    kernel=kernel,
    tensors=("self", "other"),
    places=frozenset({Place.C}),
    constraints="equal shapes, or one number; C bundle only: a .pte takes real numbers",
    samples=samples,
)

COMPARED_IDS_PATTERN = Pattern(aten=(COMPARED_IDS,), match=match, lower=lower)
