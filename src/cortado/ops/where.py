"""out = a where mask is not 0, b elsewhere: codes of one scale and zero point, those of the output.

One of the two may be a number: its code. The condition holds truth values as 0 and 1 (compare.py); a selection that is
a function of one tensor is a table instead.
"""

from typing import Any

import torch
from torch.fx import Node

from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.graph import Bound, shape
from cortado.ir.op import (
    ONE_ROW,
    Call,
    Joined,
    Kernel,
    Lowering,
    Operator,
    Pattern,
    Place,
    Quantization,
    Role,
    Rows,
)
from cortado.ops.truth import truth_codes


def reference(*, mask: Tensor, self: list[Tensor], other: list[Tensor], number: int) -> Tensor:
    constant = torch.tensor(number, dtype=torch.int8)
    first, second = self[0] if self else constant, other[0] if other else constant
    return torch.where(mask != 0, first, second).contiguous()


# ---- from the float graph ------------------------------------------------------------------------------------

_LIBRARY = torch.library.Library("cortado", "FRAGMENT")
_LIBRARY.define("chosen(Tensor mask, Tensor self, Tensor other) -> Tensor")
_LIBRARY.impl("chosen", lambda mask, self, other: torch.where(mask != 0, self, other), "CompositeExplicitAutograd")
_LIBRARY.impl("chosen", lambda mask, self, other: torch.empty_like(mask), "Meta")
CHOSEN = torch.ops.cortado.chosen.default


def match(bound: Bound) -> Quantization | Reject:
    roles = {name: Role.ACTIVATION for name in ("mask", "self", "other")}
    return Quantization(roles, Joined(besides=("mask",)))


def condition_codes(lowering: Lowering) -> Node:
    """The condition as codes that are 0 where it does not hold; a constant has a scale of its own."""
    data = lowering.data("mask")
    if data is None:
        return truth_codes(lowering, "mask")
    return lowering.constant("mask", (data != lowering.q("mask").zero_point).to(torch.int8))


def lower(lowering: Lowering) -> Node:
    out, numbers, tensors = shape(lowering.bound.node), [0], dict[str, list[Node]]()
    for name in ("self", "other"):
        data = lowering.data(name)
        single = data is not None and data.numel() == 1
        if data is not None and single:
            numbers = [int(data)]
        tensors[name] = [] if single else [lowering.view(lowering.node(name), out)]
    mask = lowering.view(condition_codes(lowering), out)
    return lowering.call(WHERE, mask=mask, self=tensors["self"], other=tensors["other"], number=numbers[0])


# ---- the C kernel --------------------------------------------------------------------------------------------


def kernel(call: Call, core: Core) -> Kernel:
    if call["self"] and call["other"]:
        arguments: tuple[Any, ...] = (Row(0), Row(1), Row(2), Operand.OUT, Operand.N)
        return Kernel(call=CCall("cortado_where_s8", arguments), sources=("where_s8.c",))
    taken = 0 if call["self"] else 1
    arguments = (Row(0), Row(1), Operand.OUT, Operand.N, call["number"], taken)
    return Kernel(call=CCall("cortado_where_number_s8", arguments), sources=("where_s8.c",))


def rows(call: Call) -> Rows:
    return Rows((ONE_ROW,) * (1 + len(call["self"]) + len(call["other"])), pixelwise=True, elementwise=True)


def samples() -> Any:
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        seed, given = draw(sampling.SEEDS), draw(st.sampled_from([(1, 1), (1, 1), (1, 0), (0, 1)]))
        sizes = (*draw(st.lists(st.integers(1, 4), max_size=3)), draw(sampling.CHANNELS))
        return {
            "mask": sampling.codes(seed, sizes, 0, 1),
            "self": [sampling.codes(seed + 1, sizes)] * given[0],
            "other": [sampling.codes(seed + 2, sizes)] * given[1],
            "number": draw(st.integers(-128, 127)),
        }

    return draw_case()


WHERE = Operator(
    name="cortado::where",
    summary="one of two tensors, or a number, element by element, by a computed condition",
    arguments="Tensor mask, Tensor[] self, Tensor[] other, int number",
    reference=reference,
    shape=lambda call: call.shape("mask"),
    kernel=kernel,
    rows=rows,
    tensors=("mask", "self", "other"),
    relayout=lambda arguments, perm: arguments,
    places=frozenset({Place.C}),
    constraints="equal shapes, or a number; C bundle only: ExecuTorch has no int8 kernel",
    samples=samples,
)

CHOSEN_PATTERN = Pattern(aten=(CHOSEN,), match=match, lower=lower)
