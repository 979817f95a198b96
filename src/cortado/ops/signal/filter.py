"""out = clamp(requant(y)): 16-bit samples through a cascade of second-order sections, channel by channel.

u = sample << 13 is the input of the first section, y of each that of the next. With coefficients of 30 fractional bits,

    v = b0 * u + b1 * u1 + b2 * u2 - a1 * y1 - a2 * y2 + rest,  exact in 64 bits
    y = clamp(v >> 30, -2^29, 2^29 - 1);  rest = v mod 2^30;  u2, u1, y2, y1 = u1, u, y1, y

The bits that the shift drops are carried to the next sum, so the mean of all errors is 0: a filter with slow poles has
no dead band, and the total rounding error has a bound that is known when the filter is compiled. These five words of
each section are the state.

Filters as calls of the float graph, and their codes. On the device the state of a filter consists of 32-bit integers;
in the float graph the same words hold the bits of its real numbers: both begin with zeros.
"""

import math
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import INT16, INT32
from cortado.base.errors import CortadoError
from cortado.base.numerics import Fixed, QParams, Tensor, requant
from cortado.ir import sampling
from cortado.ir.c_call import Absent, Argument, Operand, Row, Written
from cortado.ir.domain import DomainRule
from cortado.ir.facts import CLAMP, qparams
from cortado.ir.graph import Bound, describe, taken_from
from cortado.ir.kernel import Array, Field
from cortado.ir.kernel_table import KernelRow, KernelTable
from cortado.ir.op import Call, Lowering, Operator, Pattern, Result, SignalReader
from cortado.ir.roles import Activation, High, Low, Multiplier, Plain, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.schemas import Functions
from cortado.ir.work import Work, loops
from cortado.ops.signal.sections import COEFFICIENT_BITS, LARGEST, LIFT, SectionIntegers, in_integers, pole_size

# ---- filter ----------------------------------------------------------------------------------------------

WORDS = 5  # of the state of a section: u1, u2, y1, y2, rest
COEFFICIENTS = 5  # of a section: b0, b1, b2, a1, a2
SOUND, STATE = "out", "state"  # its results
_REST = (1 << COEFFICIENT_BITS) - 1


# ---- what it computes ----------------------------------------------------------------------------------------


def _through(samples: list[int], sections: list[list[int]], words: list[list[int]]) -> list[int]:
    """Returns the output of the last section; updates `words` in place."""
    found = []
    for sample in samples:
        u = sample << LIFT
        for (b0, b1, b2, a1, a2), kept in zip(sections, words, strict=True):
            u1, u2, y1, y2, rest = kept
            v = b0 * u + b1 * u1 + b2 * u2 - a1 * y1 - a2 * y2 + rest
            y = max(-LARGEST - 1, min(v >> COEFFICIENT_BITS, LARGEST))
            kept[:] = u, u1, y, y1, v & _REST
            u = y
        found.append(u)
    return found


def reference(
    *,
    input: Tensor,
    state: list[Tensor],
    coefficients: Tensor,
    multiplier: Multiplier,
    shift: int,
    activation_min: Low,
    activation_max: High,
) -> tuple[Tensor, Tensor]:
    channels, sections = input.shape[0], coefficients.tolist()
    words = state[0].tolist() if state else [[[0] * WORDS for _ in sections] for _ in range(channels)]
    sums = [_through(*one) for one in zip(input.tolist(), [sections] * channels, words, strict=True)]
    codes = requant(torch.tensor(sums, dtype=torch.int64), multiplier, shift)
    codes = codes.clamp(activation_min, activation_max).to(torch.int16)
    return codes.contiguous(), torch.tensor(words, dtype=torch.int32)


def state_shape(call: Call) -> tuple[int, ...]:
    return call.shape("input")[0], call.shape("coefficients")[0], WORDS


# ---- the C kernel --------------------------------------------------------------------------------------------


def _words(call: Call) -> int:
    """Returns the number of sections in all channels."""
    return call.shape("input")[0] * call.shape("coefficients")[0]


def _fields(call: Call) -> dict[str, Field]:
    channels, samples = call.shape("input")
    return {
        "channels": channels,
        "samples": samples,
        "sections": call.shape("coefficients")[0],
        "out_multiplier": call["multiplier"],
        "out_shift": call["shift"],
        "coefficients": Array(call.array("coefficients").astype(np.int32)),
    }


def _work(call: Call) -> Work:
    words, samples = _words(call), call.shape("input")[1]
    terms = "calls calls*words calls*outs calls*steps"
    return loops(terms, words=words, outs=math.prod(call.shape("input")), steps=words * samples)


def _row(given: bool, heard: bool, kept: bool) -> KernelRow:
    """Returns a row for a filter with or without an initial state, whose output, final state, or both are read."""
    after: Argument = (Written(Row(1 + given)) if heard else Operand.OUT) if kept else Operand.SCRATCH
    before: Argument = Row(1) if given else Absent()
    return KernelRow(
        "filter_s16",
        (INT16, INT32),
        INT16 if heard else INT32,
        fits=lambda call: (bool(call["state"]), call.gives(SOUND), call.gives(STATE)) == (given, heard, kept),
        arguments=(Operand.LAYER, Row(0), before, Operand.OUT if heard else Absent(), after),
        struct="cortado_filter_t",
        fields=_fields,
        scratch=None if kept else lambda call: 4 * _words(call) * WORDS,
        work=_work,
    )


KERNELS = KernelTable(
    tuple(
        _row(given, heard, kept)
        for given in (False, True)
        for heard, kept in ((True, True), (True, False), (False, True))
    )
)


# ---- samples -------------------------------------------------------------------------------------------------


def samples(draw: CaseDraw) -> dict[str, Any]:
    """Draws stable filters, and unstable ones, whose sums saturate."""
    channels, count, sections = (draw.whole(1, most) for most in (3, 24, 3))
    seed = draw.seed()
    whole = (INT32.low, INT32.high, torch.int32)
    coefficients = sampling.codes(seed, (sections, COEFFICIENTS), *whole)
    words = sampling.codes(seed + 1, (channels, sections, WORDS), -LARGEST - 1, LARGEST, torch.int32)
    words[..., -1] &= _REST
    return {
        "input": sampling.codes(seed + 2, (channels, count), INT16.low, INT16.high, torch.int16),
        "state": [words] if draw.flag() else [],
        "coefficients": coefficients >> draw.whole(0, 4),
        "shift": draw.whole(-16, 1),
    }


FILTER = Operator(
    name="cortado::filter",
    summary="16-bit samples filtered by a cascade of second-order sections with 32-bit states",
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=KERNELS,
    element=INT16,
    extra_results=(Result(STATE, state_shape, INT32),),
    tensors=("input", "state"),
    macs=lambda call: COEFFICIENTS * call.shape("coefficients")[0] * call.shape("input")[0] * call.shape("input")[1],
    constraints="stable poles",
    no_pte="the runtime has no integer operator for it",
    samples=samples,
)


# ---- filter codes ----------------------------------------------------------------------------------------

# ---- in the float graph --------------------------------------------------------------------------------------

_LIBRARY = Functions(portable=False)  # sample by sample: the runtime has no loops
_LIBRARY.define("filter_state(Tensor signal, Tensor before, float[] sections) -> Tensor")
_LIBRARY.define("filter_of(Tensor signal, Tensor? before, Tensor? after, float[] sections) -> Tensor")


def by_section(sections: list[float]) -> list[tuple[float, ...]]:
    return [tuple(sections[at : at + COEFFICIENTS]) for at in range(0, len(sections), COEFFICIENTS)]


def filtered(signal: Tensor, before: Tensor | None, sections: list[float]) -> tuple[Tensor, Tensor]:
    """Returns the output, and the final state as real numbers: two for each section."""
    found = by_section(sections)
    kept = torch.zeros(len(signal), len(found), 2, dtype=torch.float64)
    if before is not None:
        kept = before[..., : WORDS - 1].flatten().clone().view(torch.float64).reshape(kept.shape)
    results = []
    for row, states in zip(signal.to(torch.float64).tolist(), kept.tolist(), strict=True):
        made = []
        for sample in row:
            value = sample
            for (b0, b1, b2, a1, a2), state in zip(found, states, strict=True):
                y = b0 * value + state[0]
                state[0], state[1] = b1 * value - a1 * y + state[1], b2 * value - a2 * y
                value = y
            made.append(value)
        results.append((made, states))
    outputs = torch.tensor([made for made, _ in results], dtype=torch.float64).to(signal.dtype)
    return outputs, torch.tensor([states for _, states in results], dtype=torch.float64)


def _state(signal: Tensor, before: Tensor, sections: list[float]) -> Tensor:
    _, left = filtered(signal, before, sections)
    return torch.nn.functional.pad(left.view(torch.int32), (0, 1))


_LIBRARY.impl("filter_state", _state, "CompositeExplicitAutograd")
_LIBRARY.impl("filter_state", lambda signal, before, sections: torch.empty_like(before), "Meta")
_LIBRARY.impl(
    "filter_of",
    lambda signal, before, after, sections: filtered(signal, before, sections)[0],
    "CompositeExplicitAutograd",
)
_LIBRARY.impl("filter_of", lambda signal, before, after, sections: torch.empty_like(signal), "Meta")

FILTER_STATE: OpOverload = torch.ops.cortado.filter_state.default
FILTER_OF: OpOverload = torch.ops.cortado.filter_of.default

# ---- from the float graph to codes ---------------------------------------------------------------------------


def match_state(bound: Bound) -> Quantization:
    return Quantization({"signal": Activation(INT16)}, Plain())


def match(bound: Bound) -> Quantization:
    """Quantizes a filter's signal and output to int16, whatever the network's element; a layer after it requantizes if
    necessary."""
    return Quantization({"signal": Activation(INT16)}, Activation(INT16))


def lower_state(lowering: Lowering) -> Node:
    """Lowers the state, which comes first: the output is another result of the same call."""
    outputs = [user for user in lowering.bound.node.users if user.target == FILTER_OF]
    out = qparams(outputs[0])
    assert out is not None
    return lowering.part(_call(lowering, outputs[0], out), STATE)


def lower(lowering: Lowering) -> Node:
    after = lowering.bound["after"]
    call = _call(lowering, lowering.bound.node, lowering.out) if after is None else taken_from(lowering.node("after"))
    assert call is not None
    return lowering.part(call, SOUND)


def _call(lowering: Lowering, sound: Node, out: QParams) -> Node:
    """Adds the call for both results; `sound` is the node with the clamp that follows the filter."""
    bound, scale = lowering.bound, lowering.q("signal").scale
    found = _integers(bound)
    factor = scale / (found.gain * 2**LIFT * out.scale)
    if found.error * factor > 1:
        raise CortadoError(
            f"{describe(bound.node)}: rounding in 32 bits may change the filter's output by {found.error * factor:.1f} "
            f"steps of {out.scale:g}, expected at most 1; filter a signal of a lower sample rate, or scale it so that "
            "the output is no smaller than the input"
        )
    fixed = Fixed.of(factor)
    low, high = CLAMP.of(sound) or (-math.inf, math.inf)
    return lowering.call(
        FILTER,
        input=lowering.node("signal"),
        state=[] if bound["before"] is None else [lowering.node("before")],
        coefficients=lowering.constant("coefficients", torch.from_numpy(found.coefficients).to(torch.int32)),
        multiplier=fixed.multiplier,
        shift=fixed.shift,
        activation_min=INT16.low if math.isinf(low) else out.quantize(low),
        activation_max=INT16.high if math.isinf(high) else out.quantize(high),
    )


def _integers(bound: Bound) -> SectionIntegers:
    sections = [(b0, b1, b2, a1, a2) for b0, b1, b2, a1, a2 in by_section(list(bound["sections"]))]
    found = in_integers(sections)
    if found is None:
        raise CortadoError(
            f"{describe(bound.node)}: a pole of the filter is {1 - pole_size(sections):.2g} away from the unit circle, "
            "expected 1e-5 or more; its cutoff is too low for this sample rate: decimate the signal first"
        )
    return found


STATE_PATTERN = Pattern(aten=(FILTER_STATE,), match=match_state, lower=lower_state)
FILTER_PATTERN = Pattern(
    aten=(FILTER_OF,),
    match=match,
    lower=lower,
    fuses_clamp=True,
    reader=SignalReader("signal", state="before", filters=True),
)
FILTER_DOMAIN = DomainRule(aten=(FILTER_OF,), real=lambda making, bound: bound.node)
