"""out = out_zp - round(((max - x) * slope + log(sum of exp)) / 2^fraction_bits), over the last dimension.

The exponentials and their sum are softmax's. Their logarithm is found bit by bit: squaring a number in [1, 2) shows the
next bit of its base-2 logarithm. Softmax followed by a table of logarithms would not do: all small probabilities are
the same code there.

out = the logarithm of softmax over those values of the last dimension that a mask keeps; -128 elsewhere.

What is hidden takes no part in the largest value and the sum. Its logarithm is minus infinity: whatever reads the
result knows which places these are (a maximum, its position, exp), and the lowest code stands there.
"""

import math
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import INT8
from cortado.base.errors import CortadoError, Reject
from cortado.base.numerics import Fixed, QParams, Tensor, clamp_int8, requant
from cortado.base.target import Core
from cortado.ir.c_call import CCall, Operand, Row
from cortado.ir.functions import Functions
from cortado.ir.graph import Bound, describe, shape
from cortado.ir.kernel import ONE_ROW, Array, Kernel, Rows
from cortado.ir.op import Call, Lowering, Operator, Pattern, Place
from cortado.ir.roles import Activation, Quantization
from cortado.ops import reach
from cortado.ops.softmax import int16_masked_softmax, int16_softmax, softmax
from cortado.ops.softmax.masked_softmax import draw_rows, kept_work, mask_codes, roles

# ---- log softmax -----------------------------------------------------------------------------------------

aten = torch.ops.aten
LARGEST = 2**29  # of each of the two terms that are added
FRACTION_BITS = 22  # at most: more would not be seen in 8 bits
FEWEST_FRACTION_BITS = 8


def reference(
    *,
    input: Tensor,
    input_multiplier: int,
    input_shift: int,
    diff_min: int,
    slope: int,
    log_multiplier: int,
    log_shift: int,
    fraction_bits: int,
    output_zero_point: int,
) -> Tensor:
    below, _, total = softmax.sum_of_exponentials(input, input_multiplier, input_shift, diff_min)
    fixed = below * slope + requant(softmax.log2(total), log_multiplier, log_shift)
    rounded = (fixed + (1 << (fraction_bits - 1))) >> fraction_bits
    return clamp_int8(output_zero_point - rounded).contiguous()


def match(bound: Bound) -> Quantization | Reject:
    kind = Activation(bound.element)
    return softmax.match_over(bound, Quantization({"self": kind}, kind))


def output_factors(in_scale: float, out_scale: float, length: int) -> dict[str, int] | None:
    """Slope and logarithm in steps of the output, with as many fractional bits as fit."""
    per_step, per_bit = in_scale / out_scale, math.log(2) / out_scale
    if length == 1:  # the logarithm of 1, whatever the value and however small the scale that calibration found
        per_step = per_bit = 1.0
    largest = max(INT8.steps * per_step, math.log2(max(length, 2)) * per_bit)
    bits = min(FRACTION_BITS, math.floor(math.log2(LARGEST / largest)))
    if bits < FEWEST_FRACTION_BITS:
        return None
    log_factor = Fixed.of(per_bit * 2.0 ** (bits - softmax.LOG_BITS))
    return {
        "slope": round(per_step * 2**bits),
        "log_multiplier": log_factor.multiplier,
        "log_shift": log_factor.shift,
        "fraction_bits": bits,
    }


def arguments_for(lowering: Lowering, qparams: QParams, length: int) -> dict[str, int]:
    """The numbers of a call over rows of this length."""
    out = lowering.out
    factors = output_factors(qparams.scale, out.scale, length)
    if factors is None:
        raise CortadoError(
            f"{describe(lowering.bound.node)}: an output scale of {out.scale:g} is too small for an input scale of "
            f"{qparams.scale:g}; use calibration inputs of the size the model will see"
        )
    return {**softmax.input_factor(qparams.scale), **factors, "output_zero_point": out.zero_point}


def lower(lowering: Lowering) -> Node:
    q, length = lowering.q("self"), shape(lowering.node("self"))[lowering.bound["dim"]]
    if reach.is_wide(q.element):
        numbers = {**int16_softmax.factor(q.scale), **int16_masked_softmax.factor(lowering.out.scale)}
        return softmax.over_last(lowering, int16_masked_softmax.WIDE_LOG_SOFTMAX, kept=[], **numbers)
    return softmax.over_last(lowering, LOG_SOFTMAX, **arguments_for(lowering, q, length))


def fields(call: Call) -> dict[str, int | Array]:
    """The numbers of a descriptor."""
    return {
        "diff_min": call["diff_min"],
        "slope": call["slope"],
        "log_multiplier": call["log_multiplier"],
        "log_shift": call["log_shift"],
        "fraction_bits": call["fraction_bits"],
        "out_zero": call["output_zero_point"],
        "act_min": INT8.low,
        "act_max": INT8.high,
        "exp_table": softmax.exp_table(call),
    }


def kernel(call: Call, core: Core) -> Kernel:
    return Kernel(
        call=CCall("cortado_log_softmax_s8", (Operand.LAYER, Row(0), Operand.OUT, Operand.N, call.shape("input")[-1])),
        struct="cortado_log_softmax_t",
        fields=fields(call),
        work=softmax.row_work(call),
    )


def samples() -> Any:
    """Input scales from one to the next, output scales that the calibration of such inputs could give."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        given = softmax.draw_input(draw, 1024, 2500)
        length = given["input"].shape[-1]
        in_scale = given["input_multiplier"] * 2.0 ** (given["input_shift"] - 31 - 26)
        ratio = draw(st.floats(0.25, 40.0))
        factors = output_factors(in_scale, max(in_scale / ratio, math.log(max(length, 2)) / INT8.steps), length)
        assert factors is not None
        return {**given, **factors, "output_zero_point": draw(sampling.ZERO_POINTS)}

    return draw_case()


LOG_SOFTMAX = Operator(
    name="cortado::log_softmax",
    summary="logarithm of softmax over the last dimension",
    arguments=(
        "Tensor input, int input_multiplier, int input_shift, int diff_min, int slope, int log_multiplier, "
        "int log_shift, int fraction_bits, int output_zero_point"
    ),
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=kernel,
    element=INT8,
    rows=lambda call: Rows((ONE_ROW,), pixelwise=True),
    places=frozenset({Place.C}),
    constraints="C bundle only: no kernel of the runtime keeps the logarithms of small probabilities apart",
    samples=samples,
)

LOG_SOFTMAX_PATTERN = Pattern(aten=(aten.log_softmax.int, aten._log_softmax.default), match=match, lower=lower)


# ---- kept log softmax ------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define("log_softmax_kept(Tensor input, Tensor kept) -> Tensor")


def _in_float(input: Tensor, kept: Tensor) -> Tensor:
    """Over the last dimension; 0 where nobody reads it, so that ranges and products see no infinity."""
    return torch.where(kept != 0, torch.log_softmax(torch.where(kept != 0, input, -math.inf), -1), 0.0)


_LIBRARY.impl("log_softmax_kept", _in_float, "CompositeExplicitAutograd")
_LIBRARY.impl("log_softmax_kept", lambda input, kept: torch.empty_like(input), "Meta")

LOG_SOFTMAX_KEPT: OpOverload = torch.ops.cortado.log_softmax_kept.default


def kept_log_softmax_reference(*, input: Tensor, kept: Tensor, **numbers: int) -> Tensor:
    keeps = (kept != 0).repeat(len(input) // len(kept), 1)
    found = torch.full_like(input, INT8.low)
    for row, values, keep in zip(found, input, keeps, strict=True):
        if bool(keep.any()):
            row[keep] = reference(input=values[keep].reshape(1, -1), **numbers)[0]
    return found


def kept_log_softmax_match(bound: Bound) -> Quantization:
    return Quantization(roles(bound, "kept"), Activation(bound.element))


def kept_log_softmax_lower(lowering: Lowering) -> Node:
    source = lowering.node("input")
    sizes = shape(source)
    kept, q = mask_codes(lowering, "kept", sizes), lowering.q("input")
    rows = lowering.view(source, (math.prod(sizes[:-1]), sizes[-1]))
    mask = lowering.view(kept, (math.prod(shape(kept)) // sizes[-1], sizes[-1]))
    if reach.is_wide(q.element):
        numbers = {**int16_softmax.factor(q.scale), **int16_masked_softmax.factor(lowering.out.scale)}
        wide = lowering.call(int16_masked_softmax.WIDE_LOG_SOFTMAX, input=rows, kept=[mask], **numbers)
        return lowering.view(wide, sizes)
    result = lowering.call(
        KEPT_LOG_SOFTMAX,
        input=rows,
        kept=mask,
        **arguments_for(lowering, q, max(sizes[-1], 2)),
    )
    return lowering.view(result, sizes)


def kept_log_softmax_kernel(call: Call, core: Core) -> Kernel:
    """Gathers the kept values of a row, takes log_softmax, and puts them back to their places."""
    rows, length = call.shape("input")
    return Kernel(
        call=CCall("cortado_kept_log_softmax_s8", (Operand.LAYER, Row(0), Row(1), Operand.OUT)),
        struct="cortado_kept_log_softmax_t",
        fields={
            "rows": rows,
            "length": length,
            "kept_rows": call.shape("kept")[0],
            **fields(call),
        },
        work=kept_work(rows),
    )


def kept_log_softmax_samples() -> Any:
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
        factors = output_factors(in_scale, out_scale, max(length, 2))
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
    reference=kept_log_softmax_reference,
    shape=lambda call: call.shape("input"),
    kernel=kept_log_softmax_kernel,
    element=INT8,
    tensors=("input", "kept"),
    places=frozenset({Place.C}),
    constraints="what is hidden is read by what has a meaning for minus infinity alone; C bundle only, as log_softmax",
    samples=kept_log_softmax_samples,
)

KEPT_LOG_SOFTMAX_PATTERN = Pattern(aten=(LOG_SOFTMAX_KEPT,), match=kept_log_softmax_match, lower=kept_log_softmax_lower)
