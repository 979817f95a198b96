"""LSTM, GRU and RNN layers whose weights have 4 bits: two of them are a byte of the C bundle.

The weights of a call are codes as those of the layers with 8 bits, so what it computes is what they compute. Within a
run of a row they are factor * q, |q| <= 7: with `run` 0 all factors are 1. The kernels are those of 8 bits, with a
function for their gates that unpacks as it multiplies (gates_narrow_s8.c).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cortado.base.element import INT8
from cortado.base.numerics import Tensor
from cortado.ir.op import Operator
from cortado.ops.conv.int4 import RUN, drawn
from cortado.ops.recurrent import gru, lstm, rnn


def _reference(whole: Operator) -> Callable[..., Any]:
    def reference(*, run: int, **arguments: Any) -> Tensor:
        """The weights say it all."""
        found: Tensor = whole.reference(**arguments)
        return found

    return reference


def _samples(draw_case: Callable[[Any], dict[str, Any]]) -> Callable[[], Any]:
    def samples() -> Any:
        from hypothesis import strategies as st

        from cortado.ir import sampling

        @st.composite
        def narrow_case(draw: Any) -> dict[str, Any]:
            case, run = draw_case(draw), draw(st.sampled_from([0, RUN]))
            sizes = {name: tuple(case[name].shape) for name in ("weight_x", "weight_h")}
            weights = {name: drawn(draw(sampling.SEEDS), size, run) for name, size in sizes.items()}
            return {**case, **weights, "run": run}

        return narrow_case()

    return samples


def _narrow(whole: Operator, draw_case: Callable[[Any], dict[str, Any]]) -> Operator:
    return replace(
        whole,
        name=whole.name.replace("::", "::narrow_"),
        summary=f"{whole.summary}, with 4-bit weights (--weights int4)",
        arguments=f"{whole.arguments}, int run",
        reference=_reference(whole),
        element=INT8,
        also=tuple(replace(result, element=INT8) for result in whole.also),
        samples=_samples(draw_case),
    )


NARROW_GRU = _narrow(gru.GRU, gru.draw_case)
NARROW_LSTM = _narrow(lstm.LSTM, lstm.draw_case)
NARROW_RNN = _narrow(rnn.RNN, rnn.draw_case)
NARROW_OF = {gru.GRU.name: NARROW_GRU, lstm.LSTM.name: NARROW_LSTM, rnn.RNN.name: NARROW_RNN}
