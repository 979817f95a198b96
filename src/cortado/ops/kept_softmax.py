"""out = softmax over those values of a row that a computed mask keeps; -128, the code of 0, elsewhere.

What the mask hides takes no part in the largest value and the sum. Where it keeps nothing of a row, every code is
`nothing`: 0 if the model has -inf there, equal parts if it has finite numbers. The arithmetic is softmax's. The mask
holds 0 and 1, a row for each of the first rows, and starts over behind its last one.
"""

import math
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.errors import CortadoError
from cortado.base.numerics import INT8_MAX, INT8_MIN, QParams, Tensor
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Function, Operand, Row
from cortado.ir.graph import Bound, describe, shape
from cortado.ir.op import Call, Kernel, Lowering, Operator, Pattern, Place, Quantization, Role
from cortado.ir.work import loops
from cortado.ops import softmax
from cortado.ops.activation import UNIT_INTERVAL
from cortado.ops.masked_softmax import NEGLIGIBLE, draw_rows
from cortado.ops.truth import truth_codes

# ---- in the float graph --------------------------------------------------------------------------------------

_LIBRARY = torch.library.Library("cortado", "FRAGMENT")
_LIBRARY.define("softmax_kept(Tensor input, Tensor kept, float factor, float fill, bool added) -> Tensor")


def _in_float(input: Tensor, kept: Tensor, factor: float, fill: float, added: bool) -> Tensor:
    """Over the last dimension, `fill` in the place of what is not kept, or added to it."""
    keeps, scores = kept != 0, input * factor
    found = torch.softmax(torch.where(keeps, scores, scores + fill if added else fill), -1)
    return found if math.isfinite(fill) else torch.where(keeps.any(-1, keepdim=True), found, 0.0)


_LIBRARY.impl("softmax_kept", _in_float, "CompositeExplicitAutograd")
_LIBRARY.impl("softmax_kept", lambda input, *others: torch.empty_like(input), "Meta")

SOFTMAX_KEPT: OpOverload = torch.ops.cortado.softmax_kept.default


# ---- what it computes ----------------------------------------------------------------------------------------


def reference(
    *, input: Tensor, kept: Tensor, nothing: int, input_multiplier: int, input_shift: int, diff_min: int
) -> Tensor:
    keeps = (kept != 0).repeat(len(input) // len(kept), 1)
    found = softmax.reference(
        input=input,
        dim=-1,
        input_zero_point=0,
        output_zero_point=UNIT_INTERVAL.zero_point,
        input_multiplier=input_multiplier,
        input_shift=input_shift,
        diff_min=diff_min,
        masked=~keeps,
    )
    return torch.where(keeps.any(-1, keepdim=True), found, nothing).to(torch.int8).contiguous()


# ---- from the float graph ------------------------------------------------------------------------------------


def match(bound: Bound) -> Quantization:
    return Quantization({"input": Role.ACTIVATION, "kept": Role.ACTIVATION}, UNIT_INTERVAL)


def lower(lowering: Lowering) -> Node:
    bound, source = lowering.bound, lowering.node("input")
    _check_hidden(bound, lowering.q("input"))
    sizes, kept = shape(source), truth_codes(lowering, "kept")
    length = sizes[-1]
    equal = min(round(1 / (length * UNIT_INTERVAL.scale)) + UNIT_INTERVAL.zero_point, INT8_MAX)
    result = lowering.call(
        KEPT_SOFTMAX,
        input=lowering.view(source, (math.prod(sizes[:-1]), length)),
        kept=lowering.view(kept, (math.prod(shape(kept)) // length, length)),
        nothing=equal if math.isfinite(bound["fill"]) else INT8_MIN,
        **softmax.input_factor(lowering.q("input").scale * bound["factor"]),
    )
    return lowering.view(result, sizes)


def _check_hidden(bound: Bound, q: QParams) -> None:
    """What is not kept must not count beside the smallest score that may be all that is kept."""
    least, most = ((code - q.zero_point) * q.scale * bound["factor"] for code in (INT8_MIN, INT8_MAX))
    hidden = bound["fill"] + (most if bound["added"] else 0.0)
    if hidden > least - NEGLIGIBLE:
        what = f"adds {bound['fill']:g} to" if bound["added"] else f"puts {bound['fill']:g} among"
        raise CortadoError(
            f"{describe(bound.node)}: the mask {what} scores from {least:.4g} to {most:.4g}, so what is masked would "
            "still count; expected a mask that leaves nothing of it: use -inf"
        )


# ---- the C kernel --------------------------------------------------------------------------------------------


def kernel(call: Call, core: Core) -> Kernel:
    """What is kept of a row is brought together, goes through the core's own softmax, and back to its places."""
    rows, own = softmax.by_table(core)
    count, length = call.shape("input")
    return Kernel(
        call=CCall("cortado_kept_softmax_s8", (Operand.LAYER, Row(0), Row(1), Operand.OUT, Function(rows))),
        sources=("kept_softmax_s8.c", *own),
        struct="cortado_kept_softmax_t",
        fields={
            "rows": count,
            "length": length,
            "kept_rows": call.shape("kept")[0],
            "nothing": call["nothing"],
            "diff_min": call["diff_min"],
            "exp_table": softmax.exp_table(call),
        },
        work=loops("calls rows outputs outputs*marked", mask=1, rows=count),
    )


def samples() -> Any:
    """Masks of any density, of some rows nothing left."""
    from hypothesis import strategies as st

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        drawn, kept, _ = draw_rows(draw)
        return {**drawn, "kept": kept.to(torch.int8), "nothing": draw(st.integers(INT8_MIN, INT8_MAX))}

    return draw_case()


KEPT_SOFTMAX = Operator(
    name="cortado::kept_softmax",
    summary="softmax over what a computed mask keeps, as in attention to a cache that fills up",
    arguments="Tensor input, Tensor kept, int nothing, int input_multiplier, int input_shift, int diff_min",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=kernel,
    tensors=("input", "kept"),
    places=frozenset({Place.C}),
    constraints=(
        "a computed mask; a row of which nothing is kept is 0 behind -inf, equal parts behind finite numbers; C bundle "
        "only: the runtime's softmax has no mask, and a number that is added to the scores takes their range"
    ),
    samples=samples,
)

KEPT_SOFTMAX_PATTERN = Pattern(aten=(SOFTMAX_KEPT,), match=match, lower=lower)
