"""out = the logarithm of softmax over those values of the last dimension that a mask keeps; -128 elsewhere.

What is hidden takes no part in the largest value and the sum. Its logarithm is minus infinity: whatever reads the
result knows which places these are (a maximum, its position, exp), and the lowest code stands there.
"""

import math
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import INT8
from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.facts import wanted_element
from cortado.ir.functions import Functions
from cortado.ir.graph import Bound, shape
from cortado.ir.kernel import Kernel
from cortado.ir.op import Call, Lowering, Operator, Pattern, Place
from cortado.ir.roles import Activation, Quantization
from cortado.ops import _wide, log_softmax, wide_log_softmax, wide_softmax
from cortado.ops.masked_softmax import draw_rows, kept_work, mask_codes, roles

_LIBRARY = Functions()
_LIBRARY.define("log_softmax_kept(Tensor input, Tensor kept) -> Tensor")


def _in_float(input: Tensor, kept: Tensor) -> Tensor:
    """Over the last dimension; 0 where nobody reads it, so that ranges and products see no infinity."""
    return torch.where(kept != 0, torch.log_softmax(torch.where(kept != 0, input, -math.inf), -1), 0.0)


_LIBRARY.impl("log_softmax_kept", _in_float, "CompositeExplicitAutograd")
_LIBRARY.impl("log_softmax_kept", lambda input, kept: torch.empty_like(input), "Meta")

LOG_SOFTMAX_KEPT: OpOverload = torch.ops.cortado.log_softmax_kept.default


def reference(*, input: Tensor, kept: Tensor, **numbers: int) -> Tensor:
    keeps = (kept != 0).repeat(len(input) // len(kept), 1)
    found = torch.full_like(input, INT8.low)
    for row, values, keep in zip(found, input, keeps, strict=True):
        if bool(keep.any()):
            row[keep] = log_softmax.reference(input=values[keep].reshape(1, -1), **numbers)[0]
    return found


def match(bound: Bound) -> Quantization:
    return Quantization(roles(bound, "kept"), Activation(wanted_element(bound.node)))


def lower(lowering: Lowering) -> Node:
    source = lowering.node("input")
    sizes = shape(source)
    kept, q = mask_codes(lowering, "kept", sizes), lowering.q("input")
    rows = lowering.view(source, (math.prod(sizes[:-1]), sizes[-1]))
    mask = lowering.view(kept, (math.prod(shape(kept)) // sizes[-1], sizes[-1]))
    if _wide.is_wide(q.element):
        numbers = {**wide_softmax.factor(q.scale), **wide_log_softmax.factor(lowering.out.scale)}
        wide = lowering.call(wide_log_softmax.WIDE_LOG_SOFTMAX, input=rows, kept=[mask], **numbers)
        return lowering.view(wide, sizes)
    result = lowering.call(
        KEPT_LOG_SOFTMAX,
        input=rows,
        kept=mask,
        **log_softmax.arguments_for(lowering, q, max(sizes[-1], 2)),
    )
    return lowering.view(result, sizes)


def kernel(call: Call, core: Core) -> Kernel:
    """What is kept of a row is brought together, goes through log_softmax, and back to its places."""
    rows, length = call.shape("input")
    return Kernel(
        call=CCall("cortado_kept_log_softmax_s8", (Operand.LAYER, Row(0), Row(1), Operand.OUT)),
        sources=("kept_log_softmax_s8.c", "log_softmax_s8.c"),
        struct="cortado_kept_log_softmax_t",
        fields={
            "rows": rows,
            "length": length,
            "kept_rows": call.shape("kept")[0],
            **log_softmax.fields(call),
        },
        work=kept_work(rows),
    )


def samples() -> Any:
    """Masks of any density, of some rows nothing left."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        drawn, mask = draw_rows(draw)
        length = drawn["input"].shape[-1]
        in_scale = drawn["input_multiplier"] * 2.0 ** (drawn["input_shift"] - 31 - 26)
        ratio = draw(st.floats(0.25, 40.0))
        out_scale = max(in_scale / ratio, math.log(max(length, 2)) / 255)
        factors = log_softmax.output_factors(in_scale, out_scale, max(length, 2))
        assert factors is not None
        zero_point = draw(sampling.ZERO_POINTS)
        return {**drawn, "kept": (~mask).to(torch.int8), **factors, "output_zero_point": zero_point}

    return draw_case()


KEPT_LOG_SOFTMAX = Operator(
    name="cortado::kept_log_softmax",
    summary="logarithm of softmax over what a mask keeps",
    arguments=(
        "Tensor input, Tensor kept, int input_multiplier, int input_shift, int diff_min, int slope, "
        "int log_multiplier, int log_shift, int fraction_bits, int output_zero_point"
    ),
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=kernel,
    tensors=("input", "kept"),
    places=frozenset({Place.C}),
    constraints="what is hidden is read by what has a meaning for minus infinity alone; C bundle only, as log_softmax",
    samples=samples,
)

KEPT_LOG_SOFTMAX_PATTERN = Pattern(aten=(LOG_SOFTMAX_KEPT,), match=match, lower=lower, elements=_wide.REALS)
