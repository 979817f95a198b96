"""out = softmax over those values of the last dimension that a constant mask leaves; -128, the code of 0, elsewhere.

What is masked takes no part in anything: not in the largest value, not in the sum, not in the range of the scores. The
arithmetic is softmax's. The mask holds a row for each of the first rows, and starts over behind its last one.
"""

import math
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.errors import CortadoError
from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Function, Operand, Row
from cortado.ir.graph import Bound, describe, shape
from cortado.ir.op import (
    ONE_ROW,
    Array,
    Call,
    Kernel,
    Lowering,
    Operator,
    Pattern,
    Place,
    Quantization,
    Role,
    Rows,
)
from cortado.ir.work import loops
from cortado.ops import softmax
from cortado.ops.activation import UNIT_INTERVAL

# ---- in the float graph --------------------------------------------------------------------------------------

_LIBRARY = torch.library.Library("cortado", "FRAGMENT")
_LIBRARY.define("softmax_masked(Tensor input, Tensor mask, float factor, float fill, bool added) -> Tensor")


def _in_float(input: Tensor, mask: Tensor, factor: float, fill: float, added: bool) -> Tensor:
    """Over the last dimension, as the model has it: `fill` in the place of what is masked, or added to it."""
    scores = input * factor
    return torch.softmax(torch.where(mask, scores + fill if added else torch.full_like(scores, fill), scores), -1)


_LIBRARY.impl("softmax_masked", _in_float, "CompositeExplicitAutograd")
_LIBRARY.impl("softmax_masked", lambda input, *others: torch.empty_like(input), "Meta")

SOFTMAX_MASKED: OpOverload = torch.ops.cortado.softmax_masked.default


# ---- what it computes ----------------------------------------------------------------------------------------


def reference(*, input: Tensor, mask: Tensor, input_multiplier: int, input_shift: int, diff_min: int) -> Tensor:
    return softmax.reference(
        input=input,
        dim=-1,
        input_zero_point=0,
        output_zero_point=UNIT_INTERVAL.zero_point,
        input_multiplier=input_multiplier,
        input_shift=input_shift,
        diff_min=diff_min,
        masked=mask.repeat(len(input) // len(mask), 1),
    )


# ---- from aten -----------------------------------------------------------------------------------------------

NEGLIGIBLE = math.log(2 * 256)  # e to the minus this is half a step of the output


def match(bound: Bound) -> Quantization:
    return Quantization({"input": Role.ACTIVATION}, UNIT_INTERVAL)


def lower(lowering: Lowering) -> Node:
    bound, source, q = lowering.bound, lowering.node("input"), lowering.q("input")
    mask = lowering.data("mask")
    assert mask is not None
    span = 255 * q.scale * bound["factor"]
    if bound["added"] and bound["fill"] + span > -NEGLIGIBLE:
        raise CortadoError(
            f"{describe(bound.node)}: the mask adds {bound['fill']:g} to scores that reach over {span:.4g}, so what is "
            "masked would still count; expected a mask that leaves nothing of it: add -inf"
        )
    sizes = shape(source)
    rows, length = math.prod(sizes[:-1]), sizes[-1]
    result = lowering.call(
        MASKED_SOFTMAX,
        input=lowering.view(source, (rows, length)),
        mask=lowering.constant("mask", shortest(mask.expand(sizes).reshape(rows, length))),
        **softmax.input_factor(q.scale * bound["factor"]),
    )
    return lowering.view(result, sizes)


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
    """What is left of a row is brought together, goes through the core's own softmax, and back to its places."""
    rows, own = softmax.by_table(core)
    mask = call.array("mask")
    return Kernel(
        call=CCall("cortado_masked_softmax_s8", (Operand.LAYER, Row(0), Operand.OUT, Operand.N, Function(rows))),
        sources=("masked_softmax_s8.c", *own),
        struct="cortado_masked_softmax_t",
        fields={
            "length": mask.shape[1],
            "mask_rows": mask.shape[0],
            "diff_min": call["diff_min"],
            "mask": packed(mask),
            "exp_table": softmax.exp_table(call),
        },
        work=loops(
            "calls spans spans*length spans*kept spans*kept/16", length=mask.shape[1], kept=(mask == 0).sum(1).mean()
        ),
    )


def draw_rows(draw: Any) -> tuple[dict[str, Any], Tensor, torch.Generator]:
    """Rows of codes for a softmax, a mask of any density that starts over behind some row, and what it was drawn by."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    drawn = softmax.draw_input(draw, 1024, 2500)
    codes = drawn["input"].reshape(-1, drawn["input"].shape[-1])
    period = draw(st.sampled_from([rows for rows in range(1, len(codes) + 1) if len(codes) % rows == 0]))
    rng = sampling.generator(draw(sampling.SEEDS))
    mask = torch.rand(period, codes.shape[1], generator=rng) < draw(st.sampled_from([0.0, 0.1, 0.5, 0.95, 1.0]))
    return {**drawn, "input": codes}, mask, rng


def samples() -> Any:
    """Masks of any density, each row with something left."""
    from hypothesis import strategies as st

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        drawn, mask, rng = draw_rows(draw)
        mask[torch.arange(len(mask)), torch.randint(mask.shape[1], (len(mask),), generator=rng)] = False
        return {**drawn, "mask": mask}

    return draw_case()


MASKED_SOFTMAX = Operator(
    name="cortado::masked_softmax",
    summary="softmax over what a constant mask leaves, as in causal attention",
    arguments="Tensor input, Tensor mask, int input_multiplier, int input_shift, int diff_min",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=kernel,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True),
    places=frozenset({Place.C}),
    constraints=(
        "a constant mask that leaves something of every row; C bundle only: the runtime's softmax has no mask, and a "
        "number that is added to the scores takes their range"
    ),
    samples=samples,
)

MASKED_SOFTMAX_PATTERN = Pattern(aten=(SOFTMAX_MASKED,), match=match, lower=lower)
