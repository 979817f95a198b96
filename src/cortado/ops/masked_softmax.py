"""out = softmax over those values of the last dimension that a mask keeps; -128, the code of 0, elsewhere.

What the mask hides takes no part in anything: not in the largest value, not in the sum, not in the range of the scores.
The arithmetic is softmax's. The mask is constant (a bit for each value) or computed (0 and 1 as codes); it holds a row
for each of the first rows, and starts over behind its last one.

A row of which nothing is kept has the code `nothing` everywhere: 0 if the model has -inf there, equal parts if it has
a number so large that float32 sees nothing of the scores beside it. For any smaller number `nothing` is WHOLE: the row
is the softmax of all its scores, `rounded` as float32 rounds them beside the number.
"""

import math
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.errors import CortadoError
from cortado.base.numerics import INT8_MAX, INT8_MIN, QParams, Tensor
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Function, Operand, Row
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, describe, shape
from cortado.ir.op import ONE_ROW, Array, Call, Kernel, Lowering, Operator, Pattern, Place, Quantization, Role, Rows
from cortado.ops import softmax
from cortado.ops.activation import UNIT_INTERVAL, all_codes
from cortado.ops.truth import truth_codes

WHOLE = 128  # no code: a row of which nothing is kept is the softmax of all of it

# ---- in the float graph --------------------------------------------------------------------------------------

_LIBRARY = torch.library.Library("cortado", "FRAGMENT")
_LIBRARY.define("softmax_kept(Tensor input, Tensor kept, float factor, float fill, bool added, bool zeros) -> Tensor")


def _in_float(input: Tensor, kept: Tensor, factor: float, fill: float, added: bool, zeros: bool) -> Tensor:
    """Over the last dimension, `fill` in the place of what is not kept, or added to it; with `zeros`, a row of which
    nothing is kept is 0."""
    keeps, scores = kept != 0, input * factor
    found = torch.softmax(torch.where(keeps, scores, scores + fill if added else fill), -1)
    return torch.where(keeps.any(-1, keepdim=True), found, 0.0) if zeros else found


_LIBRARY.impl("softmax_kept", _in_float, "CompositeExplicitAutograd")
_LIBRARY.impl("softmax_kept", lambda input, *others: torch.empty_like(input), "Meta")

SOFTMAX_KEPT: OpOverload = torch.ops.cortado.softmax_kept.default
"""`kept` is a constant of truth values, or computed: real numbers 0 and 1 once truth values are."""


# ---- what it computes ----------------------------------------------------------------------------------------


def reference(
    *,
    input: Tensor,
    kept: list[Tensor],
    mask: Tensor | None,
    nothing: int,
    rounded: list[int],
    input_multiplier: int,
    input_shift: int,
    diff_min: int,
) -> Tensor:
    keeps = kept[0] != 0 if kept else ~(torch.zeros(1, input.shape[1], dtype=torch.bool) if mask is None else mask)
    keeps = keeps.repeat(len(input) // len(keeps), 1)

    def over(codes: Tensor, masked: Tensor | None) -> Tensor:
        return softmax.reference(
            input=codes,
            dim=-1,
            input_zero_point=0,
            output_zero_point=UNIT_INTERVAL.zero_point,
            input_multiplier=input_multiplier,
            input_shift=input_shift,
            diff_min=diff_min,
            masked=masked,
        )

    codes = torch.tensor(rounded, dtype=torch.int8)[input.long() - INT8_MIN] if rounded else input
    rest = over(codes, None) if nothing == WHOLE else torch.tensor(nothing, dtype=torch.int8)
    return torch.where(keeps.any(-1, keepdim=True), over(input, ~keeps), rest).contiguous()


# ---- from the float graph ------------------------------------------------------------------------------------

NEGLIGIBLE = math.log(2 * 256)  # e to the minus this is half a step of the output


def is_constant_mask(bound: Bound) -> bool:
    """Whether what is kept is a constant; a computed mask holds real numbers by the time it is quantized."""
    return dtype(bound["kept"]) == torch.bool


def roles(bound: Bound) -> dict[str, Role]:
    names = ("input",) if is_constant_mask(bound) else ("input", "kept")
    return dict.fromkeys(names, Role.ACTIVATION)


def match(bound: Bound) -> Quantization:
    return Quantization(roles(bound), UNIT_INTERVAL)


def lower(lowering: Lowering) -> Node:
    bound, source = lowering.bound, lowering.node("input")
    sizes = shape(source)
    rows, length = math.prod(sizes[:-1]), sizes[-1]
    given = mask_operands(lowering, rows, length)
    constant = given["mask"]
    q = lowering.q("input")
    _check_hidden(bound, q)
    full = constant is None or bool(constant.all(-1).any())
    row_of_nothing = _nothing(bound, q, length) if full else {"nothing": INT8_MIN, "rounded": []}
    result = lowering.call(
        MASKED_SOFTMAX,
        input=lowering.view(source, (rows, length)),
        kept=given["kept"],
        mask=None if constant is None else lowering.constant("mask", constant),
        **row_of_nothing,
        **softmax.input_factor(q.scale * bound["factor"]),
    )
    return lowering.view(result, sizes)


def mask_operands(lowering: Lowering, rows: int, length: int) -> dict[str, Any]:
    """The arguments `kept` and `mask` of a call over `rows` of this length; the mask as data."""
    if not is_constant_mask(lowering.bound):
        kept = truth_codes(lowering, "kept")
        return {"kept": [lowering.view(kept, (math.prod(shape(kept)) // length, length))], "mask": None}
    data = lowering.data("kept")
    assert data is not None
    sizes = shape(lowering.node("input"))
    return {"kept": [], "mask": shortest(~data.expand(sizes).reshape(rows, length))}


def _check_hidden(bound: Bound, q: QParams) -> None:
    """What is not kept must not count beside the smallest score that may be all that is kept."""
    least, most = _reach(bound, q)
    hidden = bound["fill"] + (most if bound["added"] else 0.0)
    if hidden > least - NEGLIGIBLE:
        what = f"adds {bound['fill']:g} to" if bound["added"] else f"puts {bound['fill']:g} among"
        raise CortadoError(
            f"{describe(bound.node)}: the mask {what} scores from {least:.4g} to {most:.4g}, so what is masked would "
            "still count; expected a mask that leaves nothing of it: use -inf"
        )


def _reach(bound: Bound, q: QParams) -> tuple[float, float]:
    least, most = ((code - q.zero_point) * q.scale * bound["factor"] for code in (INT8_MIN, INT8_MAX))
    return least, most


def _nothing(bound: Bound, q: QParams, length: int) -> dict[str, Any]:
    """What a row of which nothing is kept is: softmax(scores + fill) in float32, or of `fill` alone."""
    fill = float(bound["fill"])
    if bound["zeros"] or math.isinf(fill):
        return {"nothing": INT8_MIN, "rounded": []}
    step = q.scale * bound["factor"]
    scores = np.array([code - q.zero_point for code in range(INT8_MIN, INT8_MAX + 1)]) * step
    with np.errstate(over="ignore"):
        seen = (np.float32(fill) + scores.astype(np.float32)).astype(np.float64) - float(np.float32(fill))
    if not bound["added"] or np.ptp(seen) == 0 or not np.isfinite(seen).all():
        equal = min(round(1 / (length * UNIT_INTERVAL.scale)) + UNIT_INTERVAL.zero_point, INT8_MAX)
        return {"nothing": equal, "rounded": []}
    codes = np.clip(np.rint(seen / step) + q.zero_point, INT8_MIN, INT8_MAX).astype(int).tolist()
    return {"nothing": WHOLE, "rounded": [] if codes == all_codes().tolist() else codes}


def shortest(mask: Tensor) -> Tensor:
    """The first rows of a mask that only repeats them."""
    rows = len(mask)
    periods = (period for period in range(1, rows) if rows % period == 0)
    return next((mask[:period] for period in periods if torch.equal(mask[period:], mask[:-period])), mask)


# ---- the C kernel --------------------------------------------------------------------------------------------


def packed(mask: np.ndarray[Any, np.dtype[Any]]) -> Array:
    """A bit for each value, 1 where it is masked, from the lowest of a byte on; every row starts with a byte."""
    return Array(np.packbits(mask.astype(np.uint8), axis=1, bitorder="little").reshape(-1))


def kernel(call: Call, core: Core) -> Kernel:
    """What is kept of a row is brought together, goes through the core's own softmax, and back to its places."""
    rows, own = softmax.by_table(core)
    count, length = call.shape("input")
    common = {
        "length": length,
        "nothing": call["nothing"],
        "diff_min": call["diff_min"],
        "rounded": Array(np.array(call["rounded"], dtype=np.int8)) if call["rounded"] else None,
        "exp_table": softmax.exp_table(call),
    }
    if call["kept"]:
        (kept_rows, _), *_ = call.shapes("kept")
        return Kernel(
            call=CCall("cortado_kept_softmax_s8", (Operand.LAYER, Row(0), Row(1), Operand.OUT, Function(rows))),
            sources=("masked_softmax_s8.c", *own),
            struct="cortado_kept_softmax_t",
            fields={"rows": count, "kept_rows": kept_rows, **common},
        )
    mask = call.array("mask")
    return Kernel(
        call=CCall("cortado_masked_softmax_s8", (Operand.LAYER, Row(0), Operand.OUT, Operand.N, Function(rows))),
        sources=("masked_softmax_s8.c", *own),
        struct="cortado_masked_softmax_t",
        fields={"mask_rows": mask.shape[0], "mask": packed(mask), **common},
    )


def rows(call: Call) -> Rows | None:
    """A constant mask starts over with the tensor, so any span of rows of it can be made; of a computed one, all."""
    return None if call["kept"] else Rows((ONE_ROW,), pixelwise=True)


def draw_rows(draw: Any) -> tuple[dict[str, Any], Tensor]:
    """Rows of codes for a softmax, and a mask of any density that starts over behind some row."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    drawn = softmax.draw_input(draw, 1024, 2500)
    codes = drawn["input"].reshape(-1, drawn["input"].shape[-1])
    period = draw(st.sampled_from([rows for rows in range(1, len(codes) + 1) if len(codes) % rows == 0]))
    rng = sampling.generator(draw(sampling.SEEDS))
    mask = torch.rand(period, codes.shape[1], generator=rng) < draw(st.sampled_from([0.0, 0.1, 0.5, 0.95, 1.0]))
    return {**drawn, "input": codes}, mask


def samples() -> Any:
    """Constant and computed masks of any density, of some rows nothing left."""
    from hypothesis import strategies as st

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        drawn, mask = draw_rows(draw)
        computed = draw(st.booleans())
        coarse = draw(st.sampled_from([0, 0, 16, 100]))
        return {
            **drawn,
            "kept": [mask.to(torch.int8)] if computed else [],
            "mask": None if computed else mask,
            "nothing": draw(st.one_of(st.integers(INT8_MIN, INT8_MAX), st.just(WHOLE))),
            "rounded": [max(code // coarse * coarse, INT8_MIN) for code in range(-128, 128)] if coarse else [],
        }

    return draw_case()


MASKED_SOFTMAX = Operator(
    name="cortado::masked_softmax",
    summary="softmax over what a mask keeps: a constant one, as in causal attention, or a computed one",
    arguments=(
        "Tensor input, Tensor[] kept, Tensor? mask, int nothing, int[] rounded, int input_multiplier, int input_shift, "
        "int diff_min"
    ),
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=kernel,
    rows=rows,
    tensors=("input", "kept"),
    places=frozenset({Place.C}),
    constraints=(
        "a row of which nothing is kept is 0 behind -inf, and what float32 makes of it behind finite numbers; C bundle "
        "only: the runtime's softmax has no mask, and a number that is added to the scores takes their range"
    ),
    samples=samples,
)

MASKED_SOFTMAX_PATTERN = Pattern(aten=(SOFTMAX_KEPT,), match=match, lower=lower)
