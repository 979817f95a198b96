"""out = a where mask is not 0, b elsewhere: whole numbers, of which one or both may be a single number for all."""

import math
from typing import Any

import torch
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.base.numerics import INT32_MAX, INT32_MIN, Tensor
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row, Words
from cortado.ir.graph import Bound, shape
from cortado.ir.op import Call, Kernel, Lowering, Operator, Pattern, Place, Plain, Quantization, Role
from cortado.ops.calculate_int import refused_shapes, steps_of, words
from cortado.ops.where import condition_codes


def reference(*, mask: Tensor, self: Tensor, other: Tensor) -> Tensor:
    return torch.where(mask != 0, self, other).contiguous()


# ---- from the float graph ------------------------------------------------------------------------------------

_LIBRARY = torch.library.Library("cortado", "FRAGMENT")
_LIBRARY.define("chosen_ids(Tensor mask, Tensor self, Tensor other) -> Tensor")


def _chosen(mask: Tensor, self: Tensor, other: Tensor) -> Tensor:
    return torch.where(mask != 0, self.to(torch.int64), other.to(torch.int64))


_LIBRARY.impl("chosen_ids", _chosen, "CompositeExplicitAutograd")
_LIBRARY.impl("chosen_ids", lambda mask, self, other: torch.empty_like(mask, dtype=torch.int64), "Meta")
CHOSEN_IDS = torch.ops.cortado.chosen_ids.default


def match(bound: Bound) -> Quantization | Reject:
    refused = refused_shapes(shape(bound["self"]), shape(bound["other"]), out=shape(bound["mask"]))
    return refused or Quantization({"mask": Role.ACTIVATION}, Plain())


def lower(lowering: Lowering) -> Node:
    given = {name: words(lowering, name) for name in ("self", "other")}
    return lowering.call(WHERE_INT, mask=condition_codes(lowering), **given)


def kernel(call: Call, core: Core) -> Kernel:
    out = call.shape("mask")
    first, second = steps_of(call.shape("self"), call.shape("other"), out=out)
    arguments = (Row(0), Words(Row(1)), Words(Row(2)), Words(Operand.OUT), math.prod(out), first, second)
    return Kernel(call=CCall("cortado_where_s32", arguments), sources=("calculate_s32.c",))


def samples() -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        seed = draw(sampling.SEEDS)
        sizes = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
        given = {
            name: sampling.codes(seed + number, draw(st.sampled_from([sizes, (1,)])), INT32_MIN, INT32_MAX, torch.int32)
            for number, name in enumerate(("self", "other"), start=1)
        }
        return {"mask": sampling.codes(seed, sizes, 0, 1), **given}

    return draw_case()


WHERE_INT = Operator(
    name="cortado::where_int",
    summary="one of two tensors of whole numbers, or numbers, element by element, by a computed condition",
    arguments="Tensor mask, Tensor self, Tensor other",
    reference=reference,
    shape=lambda call: call.shape("mask"),
    kernel=kernel,
    dtype=torch.int32,
    tensors=("mask", "self", "other"),
    places=frozenset({Place.C}),
    constraints="equal shapes, or one number; C bundle only: a .pte takes real numbers",
    samples=samples,
)

CHOSEN_IDS_PATTERN = Pattern(aten=(CHOSEN_IDS,), match=match, lower=lower)
