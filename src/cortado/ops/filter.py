"""out = clamp(requant(y)): 16-bit samples through a cascade of second-order sections, channel by channel.

u = sample << 13 goes into the first section, y of each into the next. With coefficients of 30 fractional bits,

    v = b0 * u + b1 * u1 + b2 * u2 - a1 * y1 - a2 * y2 + rest,  exact in 64 bits
    y = clamp(v >> 30, -2^29, 2^29 - 1);  rest = v mod 2^30;  u2, u1, y2, y1 = u1, u, y1, y

What is cut off goes into the next sum, so the mean of all errors is 0: a filter of slow poles has no dead band, and
what rounding ever adds has a bound that is known when the filter is compiled. Those five words of each section are the
state.
"""

from typing import Any

import numpy as np
import torch

from cortado.base.element import INT16, INT32
from cortado.base.numerics import Tensor, requant
from cortado.base.target import Core
from cortado.ir.c_call import Absent, Argument, CCall, Operand, Row, Written
from cortado.ir.kernel import Array, Kernel
from cortado.ir.op import Call, Operator, Place, Result
from cortado.ir.work import loops
from cortado.ops._sections import COEFFICIENT_BITS, LARGEST, LIFT

WORDS = 5  # of the state of a section: u1, u2, y1, y2, rest
COEFFICIENTS = 5  # of a section: b0, b1, b2, a1, a2
SOUND, STATE = "out", "state"  # its results
_REST = (1 << COEFFICIENT_BITS) - 1


# ---- what it computes ----------------------------------------------------------------------------------------


def _through(samples: list[int], sections: list[list[int]], words: list[list[int]]) -> list[int]:
    """What comes out of the last section; `words` are changed."""
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


def reference(*, input: Tensor, state: list[Tensor], coefficients: Tensor, **arguments: Any) -> tuple[Tensor, Tensor]:
    channels, sections = input.shape[0], coefficients.tolist()
    words = state[0].tolist() if state else [[[0] * WORDS for _ in sections] for _ in range(channels)]
    sums = [_through(*one) for one in zip(input.tolist(), [sections] * channels, words, strict=True)]
    codes = requant(torch.tensor(sums, dtype=torch.int64), arguments["multiplier"], arguments["shift"])
    codes = codes.clamp(arguments["activation_min"], arguments["activation_max"]).to(torch.int16)
    return codes.contiguous(), torch.tensor(words, dtype=torch.int32)


def state_shape(call: Call) -> tuple[int, ...]:
    return call.shape("input")[0], call.shape("coefficients")[0], WORDS


# ---- the C kernel --------------------------------------------------------------------------------------------


def kernel(call: Call, core: Core) -> Kernel:
    (channels, samples), sections = call.shape("input"), call.shape("coefficients")[0]
    given, kept, heard = bool(call["state"]), call.gives(STATE), call.gives(SOUND)
    before: Argument = Row(1) if given else Absent()
    out: Argument = Operand.OUT if heard else Absent()
    after: Argument = (Written(Row(1 + given)) if heard else Operand.OUT) if kept else Operand.SCRATCH
    scratch = 0 if kept else 4 * channels * sections * WORDS
    return Kernel(
        call=CCall("cortado_filter_s16", (Operand.LAYER, Row(0), before, out, after)),
        sources=("filter_s16.c", "cortado_scratch.c"),
        struct="cortado_filter_t",
        fields={
            "channels": channels,
            "samples": samples,
            "sections": sections,
            "out_multiplier": call["multiplier"],
            "out_shift": call["shift"],
            "act_min": call["activation_min"],
            "act_max": call["activation_max"],
            "coefficients": Array(call.array("coefficients").astype(np.int32)),
        },
        scratch=scratch,
        scratch_check=CCall("cortado_filter_s16_scratch", (Operand.LAYER,)) if scratch else None,
        work=loops(
            "calls calls*words calls*outs calls*steps",
            words=channels * sections,
            outs=channels * samples,
            steps=channels * samples * sections,
        ),
    )


# ---- samples -------------------------------------------------------------------------------------------------


def samples() -> Any:
    """Filters that are stable and filters that are not, whose sums saturate."""
    from hypothesis import strategies as st

    from cortado.ir import sampling

    @st.composite
    def draw_case(draw: Any) -> dict[str, Any]:
        channels, count, sections = (draw(st.integers(1, most)) for most in (3, 24, 3))
        seed = draw(sampling.SEEDS)
        whole = (INT32.low, INT32.high, torch.int32)
        coefficients = sampling.codes(seed, (sections, COEFFICIENTS), *whole)
        words = sampling.codes(seed + 1, (channels, sections, WORDS), -LARGEST - 1, LARGEST, torch.int32)
        words[..., -1] &= _REST
        low, high = draw(sampling.activation_bounds(INT16))
        return {
            "input": sampling.codes(seed + 2, (channels, count), INT16.low, INT16.high, torch.int16),
            "state": [words] if draw(st.booleans()) else [],
            "coefficients": coefficients >> draw(st.integers(0, 4)),
            "multiplier": draw(st.integers(2**30, 2**31 - 1)),
            "shift": draw(st.integers(-16, 1)),
            "activation_min": low,
            "activation_max": high,
        }

    return draw_case()


FILTER = Operator(
    name="cortado::filter",
    summary="16-bit samples through a cascade of second-order filter sections, with states of 32 bits",
    arguments=(
        "Tensor input, Tensor[] state, Tensor coefficients, int multiplier, int shift, int activation_min, "
        "int activation_max"
    ),
    reference=reference,
    shape=lambda call: call.shape("input"),
    kernel=kernel,
    element=INT16,
    also=(Result(STATE, state_shape, INT32),),
    tensors=("input", "state"),
    macs=lambda call: COEFFICIENTS * call.shape("coefficients")[0] * call.shape("input")[0] * call.shape("input")[1],
    places=frozenset({Place.C}),
    constraints="stable poles; C bundle only: the runtime has no integer operator for it",
    samples=samples,
)
