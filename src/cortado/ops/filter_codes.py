"""Filters as calls of the float graph, and their codes. The state of a filter are integers of 32 bits on the device; in
the float graph the same words hold the bits of its real numbers: both begin with zeros."""

import math

import torch
from torch._ops import OpOverload
from torch.fx import Node

from cortado.base.element import INT16
from cortado.base.errors import CortadoError
from cortado.base.numerics import Fixed, QParams
from cortado.ir.domain import DomainRule
from cortado.ir.facts import CLAMP, qparams
from cortado.ir.functions import Functions
from cortado.ir.graph import Bound, describe, taken_from
from cortado.ir.op import Lowering, Pattern
from cortado.ir.roles import Activation, Plain, Quantization
from cortado.ops._sections import LIFT, SectionIntegers, in_integers, pole_size
from cortado.ops.filter import COEFFICIENTS, FILTER, SOUND, STATE, WORDS

Tensor = torch.Tensor

# ---- in the float graph --------------------------------------------------------------------------------------

_LIBRARY = Functions(portable=False)  # sample by sample: the runtime has no loops
_LIBRARY.define("filter_state(Tensor signal, Tensor before, float[] sections) -> Tensor")
_LIBRARY.define("filter_of(Tensor signal, Tensor? before, Tensor? after, float[] sections) -> Tensor")


def by_section(sections: list[float]) -> list[tuple[float, ...]]:
    return [tuple(sections[at : at + COEFFICIENTS]) for at in range(0, len(sections), COEFFICIENTS)]


def filtered(signal: Tensor, before: Tensor | None, sections: list[float]) -> tuple[Tensor, Tensor]:
    """The output, and as real numbers what is left: two for each section."""
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
    """A filter's signal and output are int16, whatever the network's are; a layer behind it rounds them if it has
    to."""
    return Quantization({"signal": Activation(INT16)}, Activation(INT16))


def lower_state(lowering: Lowering) -> Node:
    """The state comes first: the output is the same call's other result."""
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
    """For both results; `sound` carries the clamp behind the filter."""
    bound, scale = lowering.bound, lowering.q("signal").scale
    found = _integers(bound)
    factor = scale / (found.gain * 2**LIFT * out.scale)
    if found.error * factor > 1:
        raise CortadoError(
            f"{describe(bound.node)}: rounding in 32 bits may move the filter's output by {found.error * factor:.1f} "
            f"of its steps of {out.scale:g}, expected at most 1; filter a signal of a lower sample rate, or scale it "
            "so that the output is no smaller than the input"
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


STATE_PATTERN = Pattern(aten=(FILTER_STATE,), match=match_state, lower=lower_state, elements=(INT16,))
FILTER_PATTERN = Pattern(aten=(FILTER_OF,), match=match, lower=lower, elements=(INT16,), fuses_clamp=True)
FILTER_DOMAIN = DomainRule(aten=(FILTER_OF,), real=lambda making, bound: bound.node)
