"""out = softmax over those values of the last dimension that a mask keeps; -128, the code of 0, elsewhere.

Masked values count for nothing: not for the largest value, not for the sum, not for the range of the scores. The
arithmetic is softmax's. The mask is constant (a bit for each value) or computed (0 and 1 as codes); if it has fewer
rows than the scores, it repeats.

A row without kept values has the code `nothing` everywhere: 0 if the model has -inf there, equal shares if it has a
number so large that float32 absorbs the scores added to it. For any smaller number `nothing` is WHOLE: the row is the
softmax of all its scores, `rounded` as float32 rounds them when they are added to that number.

Computed masks that are added to one another hide a position once or several times: in a row that the first one hides
whole, the values that a second, weaker mask keeps remain, because they are hidden least; if that one keeps nothing
either, the row is as above, or 0 with `zeros`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import INT8, INT16, Element, element_of
from cortado.base.errors import CortadoError
from cortado.base.numerics import QParams, Tensor
from cortado.base.target import Core
from cortado.ir import sampling
from cortado.ir.c_call import Absent, Callee, Operand, Row
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, describe, shape
from cortado.ir.kernel import ONE_ROW, Array, Field, Rows
from cortado.ir.kernel_table import SPAN, KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Lowering, Operator, Pattern
from cortado.ir.roles import Activation, Mask, Quantization, Role
from cortado.ir.sampling import CaseDraw
from cortado.ir.schemas import Functions
from cortado.ir.work import Calls, Marks, Quantities, Work, loops
from cortado.ops.elementwise.activation import all_codes
from cortado.ops.float_graph import constant_data, is_constant
from cortado.ops.integer.truth import truth_codes
from cortado.ops.softmax import softmax


def whole(element: Element) -> int:
    """Returns a value that is not a code: a row without kept values is then the softmax of all of it."""
    return element.high + 1


def reference(
    *,
    input: Tensor,
    kept: list[Tensor],
    mask: Tensor | None,
    nothing: int,
    zeros: bool,
    rounded: list[int],
    input_multiplier: int,
    input_shift: int,
    diff_min: int,
) -> Tensor:
    keeps, *weaker = ((one != 0).repeat(len(input) // len(one), 1) for one in (kept if mask is None else [~mask]))
    element = element_of(input.dtype)
    zero = softmax.unit_of(element).zero_point

    def over(codes: Tensor, masked: Tensor | None) -> Tensor:
        return softmax.reference(
            input=codes,
            dim=-1,
            input_zero_point=0,
            output_zero_point=zero,
            input_multiplier=input_multiplier,
            input_shift=input_shift,
            diff_min=diff_min,
            masked=masked,
        )

    codes = torch.tensor(rounded, dtype=torch.int8)[input.long() - INT8.low] if rounded else input
    every = nothing == whole(element)
    rest = over(codes, None) if every else torch.tensor(nothing, dtype=input.dtype)
    for left in weaker:
        found = over(codes if every else torch.zeros_like(input), ~left)
        rest = torch.where(left.any(-1, keepdim=True), found, zero if zeros else rest)
    return torch.where(keeps.any(-1, keepdim=True), over(input, ~keeps), rest).to(input.dtype).contiguous()


# ---- in the float graph --------------------------------------------------------------------------------------

_LIBRARY = Functions()
_LIBRARY.define(
    "softmax_kept(Tensor input, Tensor kept, Tensor? weaker, float factor, float fill, bool added, bool zeros) "
    "-> Tensor"
)


def _in_float(
    input: Tensor, kept: Tensor, weaker: Tensor | None, factor: float, fill: float, added: bool, zeros: bool
) -> Tensor:
    """Computes softmax over the last dimension, with `fill` in place of values that are not kept, or added to them. In
    a row without kept values, those remain that `weaker` keeps; with `zeros`, a row without those either is 0."""
    keeps, scores = kept != 0, input * factor
    hidden = scores + fill if added else torch.full_like(scores, fill)
    some = keeps.any(-1, keepdim=True)
    if weaker is not None:
        rest = (weaker != 0).any(-1, keepdim=True)
        hidden = torch.where((weaker != 0) | (~rest & (not zeros)), hidden, -math.inf)
        some = some | rest
    found = torch.softmax(torch.where(keeps, scores, hidden), -1)
    return torch.where(some, found, 0.0) if zeros else found


_LIBRARY.impl("softmax_kept", _in_float, "CompositeExplicitAutograd")
_LIBRARY.impl("softmax_kept", lambda input, *others: torch.empty_like(input), "Meta")

SOFTMAX_KEPT: OpOverload = torch.ops.cortado.softmax_kept.default
"""`kept` is a constant of truth values, or computed: real numbers 0 and 1 after truth values are converted."""


# ---- what it computes ----------------------------------------------------------------------------------------


# ---- from the float graph ------------------------------------------------------------------------------------

NEGLIGIBLE = {INT8: math.log(2 * 256), INT16: math.log(2 * 32768)}  # e to the minus this is half a step of the output
FINEST = 2.0**-6  # of float32 next to a mask's number: for int16 codes coarser rounding is not modelled


def is_constant_mask(mask: Node) -> bool:
    """Whether a mask is a constant; a computed one holds real numbers by the time it is quantized."""
    return dtype(mask) == torch.bool


def hidden(bound: Bound) -> Tensor | None:
    """Returns which values a constant mask hides; None if it is computed, or a weaker one stands in for it."""
    if not is_constant(bound["kept"]) or bound.get("weaker") is not None:
        return None
    hides = ~constant_data(bound["kept"]).expand(shape(bound.node))
    # The scores of a fully hidden row are read, unless its result is zeros.
    return hides if bound.get("zeros", True) else hides & ~hides.all(-1, keepdim=True)


def roles(bound: Bound, *names: str) -> dict[str, Role]:
    """Returns the roles of the scores and of those masks that are computed."""
    computed = [name for name in names if bound[name] is not None and not is_constant_mask(bound[name])]
    return {"input": Activation(bound.element), **dict.fromkeys(computed, Mask())}


def match(bound: Bound) -> Quantization:
    return Quantization(roles(bound, "kept", "weaker"), softmax.unit_of(bound.element))


def lower(lowering: Lowering) -> Node:
    bound, source = lowering.bound, lowering.node("input")
    sizes = shape(source)
    rows, length = math.prod(sizes[:-1]), sizes[-1]
    given = mask_operands(lowering, rows, length)
    constant = given["mask"]
    q = lowering.q("input")
    _check_hidden(bound, q)
    full = constant is None or bool(constant.all(-1).any())
    result = lowering.call(
        MASKED_SOFTMAX,
        input=lowering.view(source, (rows, length)),
        kept=given["kept"],
        mask=None if constant is None else lowering.constant("mask", constant),
        zeros=bool(bound["zeros"]),
        **(_nothing(bound, q, length) if full else _code(softmax.unit_of(q.element).zero_point)),
        **softmax.input_factor(q.scale * bound["factor"], q.element),
    )
    return lowering.view(result, sizes)


def _code(nothing: int, rounded: Sequence[int] = ()) -> dict[str, Any]:
    return {"nothing": nothing, "rounded": list(rounded)}


def mask_operands(lowering: Lowering, rows: int, length: int) -> dict[str, Any]:
    """Returns the arguments `kept` and `mask` of a call over `rows` of this length; the mask as data."""
    bound, sizes = lowering.bound, shape(lowering.node("input"))
    names = [name for name in ("kept", "weaker") if bound.get(name) is not None]
    if names == ["kept"] and is_constant_mask(bound["kept"]):
        data = lowering.data("kept")
        assert data is not None
        return {"kept": [], "mask": shortest(~data.expand(sizes).reshape(rows, length))}
    kept = [mask_codes(lowering, name, sizes) for name in names]
    return {"kept": [lowering.view(one, (math.prod(shape(one)) // length, length)) for one in kept], "mask": None}


def mask_codes(lowering: Lowering, name: str, sizes: tuple[int, ...]) -> Node:
    """Returns a mask as codes 0 and 1."""
    if not is_constant_mask(lowering.bound[name]):
        return truth_codes(lowering, name)
    data = lowering.data(name)
    assert data is not None
    rows = data.expand(*sizes[len(sizes) - data.dim() :]).reshape(-1, sizes[-1])
    return lowering.constant(name, shortest(rows).to(torch.int8))


def _check_hidden(bound: Bound, q: QParams) -> None:
    """Checks that masked values are negligible next to the smallest score that could be the only one kept."""
    least, most = _reach(bound, q)
    hidden = bound["fill"] + (most if bound["added"] else 0.0)
    if hidden > least - NEGLIGIBLE[q.element]:
        what = f"adds {bound['fill']:g} to" if bound["added"] else f"puts {bound['fill']:g} among"
        raise CortadoError(
            f"{describe(bound.node)}: the mask {what} scores from {least:.4g} to {most:.4g}, so masked values would "
            "still count; expected a mask that removes them entirely: use -inf"
        )


def _reach(bound: Bound, q: QParams) -> tuple[float, float]:
    least, most = ((code - q.zero_point) * q.scale * bound["factor"] for code in q.element.codes)
    return least, most


def _nothing(bound: Bound, q: QParams, length: int) -> dict[str, Any]:
    """Returns the result for a fully masked row: softmax(scores + fill) in float32, or of `fill` alone."""
    fill, unit = float(bound["fill"]), softmax.unit_of(q.element)
    if (bound["zeros"] and bound["weaker"] is None) or math.isinf(fill):
        return _code(unit.zero_point)
    equal = _code(min(round(1 / (length * unit.scale)) + unit.zero_point, q.element.high))
    if not q.element.affine:
        return _code(whole(q.element)) if bound["added"] and _is_seen(bound, q) else equal
    step = q.scale * bound["factor"]
    scores = np.array([code - q.zero_point for code in range(INT8.low, INT8.high + 1)]) * step
    with np.errstate(over="ignore"):
        seen = (np.float32(fill) + scores.astype(np.float32)).astype(np.float64) - float(np.float32(fill))
    if not bound["added"] or np.ptp(seen) == 0 or not np.isfinite(seen).all():
        return equal
    codes = np.clip(np.rint(seen / step) + q.zero_point, INT8.low, INT8.high).astype(int).tolist()
    return _code(whole(INT8), [] if codes == all_codes().tolist() else codes)


def _is_seen(bound: Bound, q: QParams) -> bool:
    """Whether scores survive in float32 when a mask's number is added; refuses numbers with which only some of their
    bits do."""
    fill = float(bound["fill"])
    apart, step = float(np.spacing(np.float32(abs(fill)))), max(map(abs, _reach(bound, q)))
    if FINEST < apart <= 2 * step:
        raise CortadoError(
            f"{describe(bound.node)}: the mask adds {fill:g} to scores up to {step:.4g}, which float32 rounds to "
            f"multiples of {apart:g} in a row that is hidden entirely, and int16 codes do not: use -inf, or a number "
            "above -1e5"
        )
    return apart <= 2 * step


def shortest(mask: Tensor) -> Tensor:
    """Returns the first rows of a mask that only repeats them."""
    rows = len(mask)
    periods = (period for period in range(1, rows) if rows % period == 0)
    return next((mask[:period] for period in periods if torch.equal(mask[period:], mask[:-period])), mask)


# ---- the C kernel --------------------------------------------------------------------------------------------


def packed(mask: np.ndarray[Any, np.dtype[Any]]) -> Array:
    """Packs a bit for each value, 1 where it is masked, lowest bit first; every row starts at a byte."""
    return Array(np.packbits(mask.astype(np.uint8), axis=1, bitorder="little").reshape(-1))


def kept_work(rows: int) -> Work:
    """Returns the work of passes over every row, and over the values of it that a computed mask, the second operand,
    keeps."""
    return replace(loops("calls rows outputs outputs*marked", rows=rows), marks=Marks(1))


def _masks(count: int) -> Callable[[Call], bool]:
    """Returns a predicate for calls with this number of computed masks; with none the mask is constant."""
    return lambda call: len(call["kept"]) == count


def _mask_rows(call: Call) -> dict[str, int]:
    kept_rows, *weaker_rows = (sizes[0] for sizes in call.shapes("kept"))
    return {"rows": call.shape("input")[0], "kept_rows": kept_rows, "weaker_rows": sum(weaker_rows)}


def _common(call: Call) -> dict[str, Field]:
    return {
        "length": call.shape("input")[1],
        "nothing": call["nothing"],
        "diff_min": call["diff_min"],
        "rounded": Array(np.array(call["rounded"], dtype=np.int8)) if call["rounded"] else None,
        "exp_table": softmax.exp_table(call),
    }


def _kept_fields(call: Call) -> dict[str, Field]:
    return {**_mask_rows(call), "zeros": int(call["zeros"]), **_common(call)}


def _masked_fields(call: Call) -> dict[str, Field]:
    return {"mask_rows": call.shape("mask")[0], "mask": packed(call.array("mask")), **_common(call)}


def _masked_work(call: Call) -> Work:
    kept = (call.array("mask") == 0).sum(1).mean()
    return loops("calls spans spans*length spans*kept spans*kept/16", length=call.shape("input")[1], kept=kept)


def _wide_fields(call: Call) -> dict[str, Field]:
    count, length = call.shape("input")
    given = {"rows": count, "length": length, "zeros": int(call["zeros"]), "nothing": call["nothing"]}
    if call["mask"] is None:
        sizes = _mask_rows(call)
        mask: dict[str, Field] = {**{name: sizes[name] for name in ("kept_rows", "weaker_rows")}, "mask": None}
    else:
        mask = {"kept_rows": call.shape("mask")[0], "weaker_rows": 0, "mask": packed(call.array("mask"))}
    return {**given, **softmax.wide_fields(call), **mask}


def _wide_masked_work(call: Call) -> Work:
    """Counts rows with kept values, rows that are read whole because they have none, and rows that are filled."""
    keeps, every = call.array("mask") == 0, call["nothing"] == whole(INT16)
    some, length = keeps.any(1), keeps.shape[1]
    read = np.where(some, keeps.sum(1), length * every)
    return loops(
        "calls spans spans*read spans*kept spans*kept*right spans*filled uncut",
        lowest=0,
        read=length * (read > 0).mean(),
        kept=read.mean(),
        right=call["input_shift"] < 0,
        filled=length * (read == 0).mean(),
    )


def _wide_kept_work(call: Call) -> Work:
    """Counts the same for computed masks: a row without kept values uses the weaker mask or the whole row, or is
    filled."""
    otherwise = call["nothing"] == whole(INT16) or len(call["kept"]) > 1

    def quantities(calls: Calls) -> Quantities:
        kept, rows = calls.marked or float(otherwise), call.shape("input")[0]
        return {"rows": rows, "kept": kept, "right": call["input_shift"] < 0, "filled": kept == 0}

    terms = "calls rows outputs outputs*kept outputs*kept*right outputs*filled uncut"
    return Work(tuple(terms.split()), quantities, lowest=0, marks=Marks(1))


_CONSTANT, _ONE, _TWO = map(_masks, range(3))


def _rows_of(symbol: str, cores: tuple[Core, ...]) -> tuple[KernelRow, ...]:
    """Returns the rows that gather the kept values of a row, apply the core's own softmax, and scatter the results
    back."""
    given = Callee(f"cortado_{symbol}")
    computed = KernelRow(
        "kept_softmax_s8",
        INT8,
        cores=cores,
        fits=_ONE,
        arguments=(Operand.LAYER, Row(0), Row(1), Operand.OUT, given),
        struct="cortado_kept_softmax_t",
        fields=_kept_fields,
        work=lambda call: kept_work(call.shape("input")[0]),
    )
    two = (Operand.LAYER, Row(0), Row(1), Row(2), Operand.OUT, given)
    constant = replace(
        computed,
        symbol="masked_softmax_s8",
        fits=_CONSTANT,
        arguments=(*SPAN, given),
        struct="cortado_masked_softmax_t",
        fields=_masked_fields,
        work=_masked_work,
    )
    return computed, replace(computed, symbol="weaker_softmax_s8", fits=_TWO, arguments=two), constant


_WIDE = KernelRow(
    "masked_softmax_s16",
    (INT16, INT8),
    fits=_CONSTANT,
    struct="cortado_masked_softmax_s16_t",
    fields=_wide_fields,
    work=_wide_masked_work,
)
KERNELS = KernelTable(
    (
        *(row for symbol, cores in softmax.BY_TABLE for row in _rows_of(symbol, cores)),
        _WIDE,
        *(
            replace(
                _WIDE,
                symbol="kept_softmax_s16",
                fits=fits,
                arguments=(Operand.LAYER, Row(0), Row(1), second, Operand.OUT),
                work=_wide_kept_work,
            )
            for fits, second in ((_ONE, Absent()), (_TWO, Row(2)))
        ),
    )
)


def rows(call: Call) -> Rows | None:
    """Runs on any span of rows with a constant mask, which repeats with the tensor; with a computed one on the whole
    tensor."""
    return None if call["kept"] else Rows((ONE_ROW,), pixelwise=True)


def draw_rows(draw: CaseDraw, element: Element) -> tuple[dict[str, Any], Tensor]:
    """Draws rows of codes for a softmax, and a mask of any density that repeats after some row."""
    drawn = softmax.draw_input(draw, 1024, 2500, element=element)
    codes = drawn["input"].reshape(-1, drawn["input"].shape[-1])
    if steps := draw.pick([0, 8, 13, 16]):  # square, as in attention; bits of a row can fill its last byte
        codes = draw.codes((draw.whole(1, 3) * steps, steps), element)
    periods = [steps] if steps else [rows for rows in range(1, len(codes) + 1) if len(codes) % rows == 0]
    period = draw.pick(periods)
    rng = sampling.generator(draw.seed())
    mask = torch.rand(period, codes.shape[1], generator=rng) < draw.pick([0.0, 0.1, 0.5, 0.95, 1.0])
    return {**drawn, "input": codes}, mask


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws constant and computed masks of any density; some hide whole rows."""
    kind = draw.element()
    drawn, mask = draw_rows(draw, kind)
    computed = draw.pick([0, 1, 2])
    coarse = draw.pick([0, 0, 16, 100]) if kind.affine else 0
    codes = (INT8.low, INT8.high) if kind.affine else (0, INT16.high)
    return {
        **drawn,
        "kept": [(~mask).to(torch.int8), *_weaker(draw, mask)][:computed],
        "mask": None if computed else mask,
        "nothing": draw.pick([draw.whole(*codes), whole(kind)]),
        "rounded": [max(code // coarse * coarse, INT8.low) for code in range(-128, 128)] if coarse else [],
    }


def _weaker(draw: CaseDraw, mask: Tensor) -> list[Tensor]:
    """Draws a second mask, which keeps some of the values that the first does not."""
    return [(~mask).to(torch.int8) | sampling.codes(draw.seed(), tuple(mask.shape), 0, 1)]


MASKED_SOFTMAX = Operator(
    name="cortado::masked_softmax",
    summary="softmax over the values that a mask keeps: a constant mask, as in causal attention, or a computed one",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    element=ElementOf(("input",)),
    rows=rows,
    tensors=("input", "kept"),
    constraints="a fully masked row gives 0 if masked with -inf, and what float32 gives if masked with a finite number",
    no_pte="the runtime's softmax has no mask, and a number added to the scores would use up their range",
    samples=samples,
)

MASKED_SOFTMAX_PATTERN = Pattern(aten=(SOFTMAX_KEPT,), match=match, lower=lower, hidden=hidden)
