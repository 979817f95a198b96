"""Softmax of int16 codes over those values of the last dimension that a mask keeps; 0 elsewhere.

The arithmetic is wide_softmax's, the masks are masked_softmax's: a constant one (a bit for each value), or computed
ones (0 and 1 as codes). A row of which nothing is kept has the code `nothing` everywhere or, if that is WHOLE, is the
softmax of all its scores; a second mask may leave some of it, as there.

out = -(y + log2(sum of 2^-y)) * factor: the logarithm of softmax of int16 codes, over the last dimension.

y, with 16 fractional bits, and the powers are wide_softmax's; the logarithm of their sum has 20, found bit by bit as in
log_softmax. Over all of a row, or over what a computed mask keeps of it: the lowest code stands where it does not.
"""

import math
from typing import Any

import numpy as np
import torch

from cortado.base.element import INT16
from cortado.base.numerics import Fixed, Tensor, requant
from cortado.base.target import Core
from cortado.ir.c_call import Absent, CCall, Operand, Row
from cortado.ir.kernel import ONE_ROW, Array, Kernel, Rows
from cortado.ir.op import Call, Operator, Place
from cortado.ir.work import Calls, Quantities, Work, loops
from cortado.ops.softmax import int16_softmax, softmax

# ---- wide masked softmax ---------------------------------------------------------------------------------

WHOLE = INT16.high + 1  # no code: a row of which nothing is kept is the softmax of all of it


def reference(
    *,
    input: Tensor,
    kept: list[Tensor],
    mask: Tensor | None,
    nothing: int,
    zeros: bool,
    input_multiplier: int,
    input_shift: int,
) -> Tensor:
    keeps, *weaker = ((one != 0).repeat(len(input) // len(one), 1) for one in (kept if mask is None else [~mask]))

    def over(codes: Tensor, these: Tensor) -> Tensor:
        return int16_softmax.over_kept(codes, these, input_multiplier, input_shift)

    everything = torch.ones_like(keeps)
    rest = over(input, everything) if nothing == WHOLE else torch.full_like(input, nothing)
    for left in weaker:
        found = over(input if nothing == WHOLE else torch.zeros_like(input), left)
        rest = torch.where(left.any(-1, keepdim=True), found, torch.zeros_like(rest) if zeros else rest)
    return torch.where(keeps.any(-1, keepdim=True), over(input, keeps), rest).contiguous()


def kernel(call: Call, core: Core) -> Kernel:
    count, length = call.shape("input")
    common = {
        "rows": count,
        "length": length,
        "zeros": int(call["zeros"]),
        "nothing": call["nothing"],
        "multiplier": call["input_multiplier"],
        "shift": call["input_shift"],
        "bits": int16_softmax.bits_of(length),
        "powers": Array(int16_softmax.POWERS),
    }
    if call["kept"]:
        kept_rows, *weaker_rows = (sizes[0] for sizes in call.shapes("kept"))
        masks = (Row(1), Row(2) if weaker_rows else Absent())
        return Kernel(
            call=CCall("cortado_kept_softmax_s16", (Operand.LAYER, Row(0), *masks, Operand.OUT)),
            struct="cortado_masked_softmax_s16_t",
            fields={**common, "kept_rows": kept_rows, "weaker_rows": sum(weaker_rows), "mask": None},
            work=_computed(count, call),
        )
    mask = call.array("mask")
    bits = Array(np.packbits(mask.astype(np.uint8), axis=1, bitorder="little").reshape(-1))
    return Kernel(
        call=CCall("cortado_masked_softmax_s16", (Operand.LAYER, Row(0), Operand.OUT, Operand.N)),
        struct="cortado_masked_softmax_s16_t",
        fields={**common, "kept_rows": mask.shape[0], "weaker_rows": 0, "mask": bits},
        work=_constant(mask == 0, call),
    )


def _constant(keeps: np.ndarray[Any, Any], call: Call) -> Work:
    """Rows of which something is kept, those of which all is read because nothing is, those that are filled."""
    some, whole, length = keeps.any(1), call["nothing"] == WHOLE, keeps.shape[1]
    read = np.where(some, keeps.sum(1), length * whole)
    return loops(
        "calls spans spans*read spans*kept spans*kept*right spans*filled uncut",
        lowest=0,
        read=length * (read > 0).mean(),
        kept=read.mean(),
        right=call["input_shift"] < 0,
        filled=length * (read == 0).mean(),
    )


def _computed(rows: int, call: Call) -> Work:
    """A mask that keeps nothing leaves it to the weaker one, or to all of the row, or the row is filled."""
    otherwise = call["nothing"] == WHOLE or len(call["kept"]) > 1

    def quantities(calls: Calls) -> Quantities:
        kept = calls.marked or float(otherwise)
        return {"rows": rows, "kept": kept, "right": call["input_shift"] < 0, "filled": kept == 0}

    terms = "calls rows outputs outputs*kept outputs*kept*right outputs*filled uncut"
    return Work(tuple(terms.split()), quantities, lowest=0, mask=1)


def draw_rows(draw: Any) -> tuple[dict[str, Any], Tensor]:
    """Rows of codes, and a mask of any density that starts over behind some row."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    lengths = st.one_of(sampling.CHANNELS, st.sampled_from([100, 257, 1500]))
    rows, scale = draw(st.integers(1, 9)), Fixed.of(2.0 ** draw(st.floats(-16, 13.9)))
    codes = sampling.values(draw, (rows, draw(lengths)), element=INT16)
    period = draw(st.sampled_from([count for count in range(1, rows + 1) if rows % count == 0]))
    rng = sampling.generator(draw(sampling.SEEDS))
    mask = torch.rand(period, codes.shape[1], generator=rng) < draw(st.sampled_from([0.0, 0.1, 0.5, 0.95, 1.0]))
    return {"input": codes, "input_multiplier": scale.multiplier, "input_shift": scale.shift}, mask


def samples() -> Any:
    """Constant and computed masks of any density, of some rows nothing left."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        drawn, mask = draw_rows(draw)
        computed, seed = draw(st.sampled_from([0, 1, 2])), draw(sampling.SEEDS)
        first = (~mask).to(torch.int8)
        return {
            **drawn,
            "kept": [first, first | sampling.codes(seed, tuple(mask.shape), 0, 1)][:computed],
            "mask": None if computed else mask,
            "nothing": draw(st.one_of(st.integers(0, INT16.high), st.just(WHOLE))),
            "zeros": draw(st.booleans()),
        }

    return draw_case()


WIDE_MASKED_SOFTMAX = Operator(
    name="cortado::wide_masked_softmax",
    summary="softmax of int16 codes over what a mask keeps, constant or computed",
    arguments=(
        "Tensor input, Tensor[] kept, Tensor? mask, int nothing, bool zeros, int input_multiplier, int input_shift"
    ),
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=kernel,
    rows=lambda call: None if call["kept"] else Rows((ONE_ROW,), pixelwise=True),
    element=INT16,
    tensors=("input", "kept"),
    places=frozenset({Place.C}),
    constraints="as masked_softmax; C bundle only: ExecuTorch's operators take int8",
    samples=samples,
)


# ---- wide log softmax ------------------------------------------------------------------------------------

MULTIPLIER_BITS = 24  # beside a sum of 36
MOST_RIGHT = 62


def wide_log_softmax_reference(
    *, input: Tensor, kept: list[Tensor], input_multiplier: int, input_shift: int, multiplier: int, right: int
) -> Tensor:
    x = input.to(torch.int64)
    keeps = (kept[0] != 0).repeat(len(x) // len(kept[0]), 1) if kept else torch.ones_like(x, dtype=torch.bool)
    below = int16_softmax.below_largest(x, keeps)
    bits = int16_softmax.bits_of(x.shape[-1])
    powers = torch.where(keeps, int16_softmax.powers(below, input_multiplier, input_shift, bits), 0)
    total = powers.sum(-1, keepdim=True).clamp(min=1 << bits)  # of a row of which nothing is kept
    y = requant(below, input_multiplier, input_shift)
    fixed = (y << (softmax.LOG_BITS - int16_softmax.FRACTION)) + softmax.log2(total, bits)
    found = -((fixed * multiplier + (1 << (right - 1))) >> right).clamp(max=-INT16.low)
    return torch.where(keeps, found, INT16.low).to(torch.int16).contiguous()


def factor(out_scale: float) -> dict[str, int]:
    """ln(2) / out_scale, of a number with 20 fractional bits."""
    mantissa, exponent = math.frexp(math.log(2) / out_scale * 2.0**-softmax.LOG_BITS)
    right = min(max(MULTIPLIER_BITS - exponent, 1), MOST_RIGHT)
    multiplier = min(round(math.ldexp(mantissa, exponent + right)), 2**MULTIPLIER_BITS - 1)
    return {"multiplier": multiplier, "right": right}


def wide_log_softmax_kernel(call: Call, core: Core) -> Kernel:
    *outer, length = call.shape("input")
    fields = {
        "rows": math.prod(outer),
        "length": length,
        "kept_rows": call.shapes("kept")[0][0] if call["kept"] else 0,
        "multiplier": call["input_multiplier"],
        "shift": call["input_shift"],
        "bits": int16_softmax.bits_of(length),
        "out_multiplier": call["multiplier"],
        "out_right": call["right"],
        "powers": Array(int16_softmax.POWERS),
    }
    if call["kept"]:
        made = CCall("cortado_kept_log_softmax_s16", (Operand.LAYER, Row(0), Row(1), Operand.OUT))
        terms = "calls rows outputs outputs*marked outputs*marked*right"
        work = loops(terms, mask=1, rows=math.prod(outer), right=call["input_shift"] < 0)
    else:
        made = CCall("cortado_log_softmax_s16", (Operand.LAYER, Row(0), Operand.OUT, Operand.N))
        work = loops("calls spans outputs outputs*right", right=call["input_shift"] < 0)
    return Kernel(call=made, struct="cortado_log_softmax_s16_t", fields=fields, work=work)


def wide_log_softmax_samples() -> Any:
    """Output scales from codes that saturate to codes that vanish."""
    from hypothesis import strategies as st

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        drawn, mask = draw_rows(draw)
        kept = [(~mask).to(torch.int8)] if draw(st.booleans()) else []
        return {**drawn, "kept": kept, **factor(2.0 ** draw(st.one_of(st.floats(-16, -4), st.floats(-40, 20))))}

    return draw_case()


WIDE_LOG_SOFTMAX = Operator(
    name="cortado::wide_log_softmax",
    summary="logarithm of softmax of int16 codes, over all or over what a mask keeps",
    arguments="Tensor input, Tensor[] kept, int input_multiplier, int input_shift, int multiplier, int right",
    reference=wide_log_softmax_reference,
    shape=lambda call: call.shape("input"),
    kernel=wide_log_softmax_kernel,
    rows=lambda call: None if call["kept"] else Rows((ONE_ROW,), pixelwise=True),
    element=INT16,
    tensors=("input", "kept"),
    places=frozenset({Place.C}),
    constraints="C bundle only: ExecuTorch's operators take int8",
    samples=wide_log_softmax_samples,
)
