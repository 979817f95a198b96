"""out = out_zp - round(((max - x) * slope + log(sum of exp)) / 2^fraction_bits), over the last dimension.

The exponentials and their sum are softmax's. The logarithm is computed bit by bit: squaring a number in [1, 2) yields
the next bit of its base-2 logarithm. Softmax followed by a table of logarithms would not do: all small probabilities
have the same code there.

With a mask: the logarithm of softmax over those values of the last dimension that the mask keeps; -128 elsewhere.
Masked values count neither for the largest value nor for the sum. Their logarithm is minus infinity: readers of the
result (a maximum, its position, exp) know which positions these are, and the lowest code is stored there.
"""

import math
from dataclasses import replace
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import INT8, INT16, element_of
from cortado.base.errors import CortadoError, Reject
from cortado.base.numerics import Fixed, QParams, Tensor, clamp_int8, requant
from cortado.base.target import Core
from cortado.ir.c_call import Number, Operand, Row
from cortado.ir.graph import Bound, describe, shape
from cortado.ir.kernel import ONE_ROW, Field, Rows
from cortado.ir.kernel_table import SPAN, KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern
from cortado.ir.roles import Activation, OutZeroPoint, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.schemas import Functions
from cortado.ir.work import Marks, Work, loops
from cortado.ops.softmax import softmax
from cortado.ops.softmax.masked_softmax import draw_rows, hidden, kept_work, mask_codes, roles

# ---- log softmax -----------------------------------------------------------------------------------------

aten = torch.ops.aten
LARGEST = 2**29  # of each of the two terms that are added
FRACTION_BITS = 22  # at most: more would make no difference in 8 bits
FEWEST_FRACTION_BITS = 8


def reference(
    *,
    input: Tensor,
    kept: list[Tensor],
    input_multiplier: int,
    input_shift: int,
    diff_min: int,
    slope: int,
    log_multiplier: int,
    log_shift: int,
    fraction_bits: int,
    output_zero_point: OutZeroPoint,
) -> Tensor:
    """Returns the logarithm of softmax over each row, or over the values of it that are kept."""
    keeps = (kept[0] != 0).repeat(len(input) // len(kept[0]), 1) if kept else torch.ones_like(input, dtype=torch.bool)
    factor = (input_multiplier, input_shift)
    if element_of(input.dtype).symmetric:
        down = softmax.below_largest(input.to(torch.int64), keeps)
        bits = softmax.bits_of(input.shape[-1])
        powers = torch.where(keeps, softmax.powers(down, *factor, bits), 0)
        total = powers.sum(-1, keepdim=True).clamp(min=1 << bits)  # for rows without kept values
        fixed = (requant(down, *factor) << (softmax.LOG_BITS - softmax.FRACTION)) + softmax.log2(total, bits)
        found = ((fixed * log_multiplier + (1 << (fraction_bits - 1))) >> fraction_bits).clamp(max=-INT16.low)
        return torch.where(keeps, -found, INT16.low).to(torch.int16).contiguous()
    down, _, total = softmax.sum_of_exponentials(input, *factor, diff_min, ~keeps if kept else None)
    fixed = down * slope + requant(softmax.log2(total), log_multiplier, log_shift)
    rounded = (fixed + (1 << (fraction_bits - 1))) >> fraction_bits
    return torch.where(keeps, clamp_int8(output_zero_point - rounded), INT8.low).to(torch.int8).contiguous()


def match(bound: Bound) -> Quantization | Reject:
    kind = Activation(bound.element)
    return softmax.match_over(bound, Quantization({"self": kind}, kind))


def output_factors(in_scale: float, out_scale: float, length: int) -> dict[str, int] | None:
    """Returns slope and logarithm in steps of the output, with as many fractional bits as fit; None if too few fit."""
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
        **log_factor.arguments("log"),
        "fraction_bits": bits,
    }


def arguments_for(lowering: Lowering, qparams: QParams, length: int) -> dict[str, int]:
    """Returns the numeric arguments of a call over rows of this length."""
    out = lowering.out
    given = {**softmax.input_factor(qparams.scale, qparams.element), "output_zero_point": out.zero_point}
    if not qparams.element.affine:
        return {**given, **_wide_factors(out.scale)}
    factors = output_factors(qparams.scale, out.scale, length)
    if factors is None:
        raise CortadoError(
            f"{describe(lowering.bound.node)}: an output scale of {out.scale:g} is too small for an input scale of "
            f"{qparams.scale:g}; use calibration inputs of the size the model will see"
        )
    return {**given, **factors}


MULTIPLIER_BITS = 24  # for int16 codes, next to a sum of 36
MOST_RIGHT = 62


def _wide_factors(out_scale: float) -> dict[str, int]:
    """Returns ln(2) / out_scale, as the factor of a number with 20 fractional bits; the powers have the same slope."""
    mantissa, exponent = math.frexp(math.log(2) / out_scale * 2.0**-softmax.LOG_BITS)
    right = min(max(MULTIPLIER_BITS - exponent, 1), MOST_RIGHT)
    multiplier = min(round(math.ldexp(mantissa, exponent + right)), 2**MULTIPLIER_BITS - 1)
    return {"slope": 0, "log_multiplier": multiplier, "log_shift": 0, "fraction_bits": right}


def lower(lowering: Lowering) -> Node:
    q, length = lowering.q("self"), shape(lowering.node("self"))[lowering.bound["dim"]]
    return softmax.over_last(lowering, LOG_SOFTMAX, kept=[], **arguments_for(lowering, q, length))


def _fields(call: Call) -> dict[str, Field]:
    return {"exp_table": softmax.exp_table(call)}


def _sizes(call: Call) -> dict[str, int]:
    *outer, length = call.shape("input")
    return {"rows": math.prod(outer), "length": length, "kept_rows": call.shapes("kept")[0][0] if call["kept"] else 0}


def _wide_fields(call: Call) -> dict[str, Field]:
    factors: dict[str, Field] = {"out_multiplier": call["log_multiplier"], "out_right": call["fraction_bits"]}
    numbers = softmax.wide_fields(call)
    table = numbers.pop("powers")
    return {**_sizes(call), **numbers, **factors, "powers": table}


def _wide_kept_work(call: Call) -> Work:
    terms = "calls rows outputs outputs*marked outputs*marked*right"
    return replace(loops(terms, rows=_sizes(call)["rows"], right=call["input_shift"] < 0), marks=Marks(1))


def _is_kept(call: Call) -> bool:
    return bool(call["kept"])


_KEPT = KernelRow(
    "kept_log_softmax_s8",  # log_softmax over the kept values of a row, which are gathered and scattered back
    INT8,
    fits=_is_kept,
    arguments=(Operand.LAYER, Row(0), Row(1), Operand.OUT),
    struct="cortado_kept_log_softmax_t",
    fields=lambda call: {**_sizes(call), **_fields(call)},
    work=lambda call: kept_work(call.shape("input")[0]),
)
_WIDE = KernelRow(
    "log_softmax_s16",
    (INT16, INT8),
    struct="cortado_log_softmax_s16_t",
    fields=_wide_fields,
    work=lambda call: loops("calls spans outputs outputs*right", right=call["input_shift"] < 0),
)
_BYTES = KernelRow(
    "log_softmax_s8",
    INT8,
    struct="cortado_log_softmax_t",
    fields=_fields,
    work=softmax.row_work,
    arguments=(*SPAN, Number(0)),
    numbers=softmax.length_of,
)
KERNELS = KernelTable(
    (
        _KEPT,
        replace(_BYTES, symbol="log_softmax_s8__mve", cores=(Core.MVE,)),
        _BYTES,
        replace(
            _WIDE,
            symbol="kept_log_softmax_s16",
            fits=_is_kept,
            arguments=_KEPT.arguments,
            work=_wide_kept_work,
        ),
        _WIDE,
    )
)


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws all input scales, and output scales that calibration on such inputs could find; for int16 from codes that
    saturate to codes that vanish. Masks of any density; some hide whole rows."""
    kind, kept = draw.element(), list[Tensor]()
    if draw.flag():
        given, mask = draw_rows(draw, kind)
        kept = [(~mask).to(torch.int8)]
    else:
        given = softmax.draw_input(draw, 1024, 2500, element=kind)
    if not kind.affine:
        factors = _wide_factors(2.0 ** draw.pick([draw.real(-16, -4), draw.real(-40, 20)]))
        return {**given, "kept": kept, **factors, "output_zero_point": 0}
    length = given["input"].shape[-1] if not kept else max(given["input"].shape[-1], 2)
    in_scale = given["input_multiplier"] * 2.0 ** (given["input_shift"] - 31 - 26)
    ratio = draw.real(0.25, 40.0)
    known = output_factors(in_scale, max(in_scale / ratio, math.log(max(length, 2)) / INT8.steps), length)
    assert known is not None
    return {**given, "kept": kept, **known, "output_zero_point": draw.zero_point()}


LOG_SOFTMAX = Operator(
    name="cortado::log_softmax",
    summary="logarithm of softmax over the last dimension, over all values or those that a mask keeps",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    element=ElementOf(("input",)),
    rows=lambda call: None if call["kept"] else Rows((ONE_ROW,), pixelwise=True),
    tensors=("input", "kept"),
    constraints="masked values may be read only by calls that handle minus infinity",
    no_pte="no kernel of the runtime can tell logarithms of small probabilities apart",
    samples=samples,
)

LOG_SOFTMAX_PATTERN = Pattern(aten=(aten.log_softmax.int, aten._log_softmax.default), match=match, lower=lower)


# ---- kept log softmax ------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define("log_softmax_kept(Tensor input, Tensor kept) -> Tensor")


def _in_float(input: Tensor, kept: Tensor) -> Tensor:
    """Computes the logarithm of softmax over the last dimension; 0 where nothing reads it, so that ranges and products
    contain no infinity."""
    return torch.where(kept != 0, torch.log_softmax(torch.where(kept != 0, input, -math.inf), -1), 0.0)


_LIBRARY.impl("log_softmax_kept", _in_float, "CompositeExplicitAutograd")
_LIBRARY.impl("log_softmax_kept", lambda input, kept: torch.empty_like(input), "Meta")

LOG_SOFTMAX_KEPT: OpOverload = torch.ops.cortado.log_softmax_kept.default


def kept_log_softmax_match(bound: Bound) -> Quantization:
    return Quantization(roles(bound, "kept"), Activation(bound.element))


def kept_log_softmax_lower(lowering: Lowering) -> Node:
    source = lowering.node("input")
    sizes = shape(source)
    kept, q = mask_codes(lowering, "kept", sizes), lowering.q("input")
    rows = lowering.view(source, (math.prod(sizes[:-1]), sizes[-1]))
    mask = lowering.view(kept, (math.prod(shape(kept)) // sizes[-1], sizes[-1]))
    numbers = arguments_for(lowering, q, max(sizes[-1], 2))
    return lowering.view(lowering.call(LOG_SOFTMAX, input=rows, kept=[mask], **numbers), sizes)


KEPT_LOG_SOFTMAX_PATTERN = Pattern(
    aten=(LOG_SOFTMAX_KEPT,), match=kept_log_softmax_match, lower=kept_log_softmax_lower, hidden=hidden
)
