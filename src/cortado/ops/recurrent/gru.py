"""A GRU layer in one direction. Its state h16 has steps of 2^(cell_bits - 15), where cell_bits is 0 unless a given
initial state exceeds 1; h, its 8-bit codes, is the output and the state operand of the next step.

    r, z = sigmoid(sat16(X + H));   n = tanh(sat16(X_n + ((r * sat16(H_n) + 2^13) >> 14)))
    n' = (n + 2^(cell_bits - 1)) >> cell_bits, or n if cell_bits is 0
    h16 = (n' * 32768 + z * (h16 - n') + 2^14) >> 15;   h = clamp(requant(h16) + out_zero_point)

X and H, sigmoid and tanh: layer.py. The state's path of the new gate, H_n, has steps of 2^-11.
"""

from typing import Any

import torch
from torch.fx import Node

from cortado.base.numerics import Tensor
from cortado.ir import sampling
from cortado.ir.op import Lowering, Pattern
from cortado.ir.sampling import CaseDraw
from cortado.ops.recurrent import layer as recurrent
from cortado.ops.recurrent.forms import GRU_LAYER
from cortado.ops.recurrent.layer import SIGMOID_UNIT, TANH_UNIT, GatePath, saturate, sigmoid, tanh

GATES = 3  # reset, update, new


def reference(**arguments: Any) -> Tensor:
    start, units, bits = arguments["start"], arguments["weight_h"].shape[1], arguments["cell_bits"]
    state = torch.zeros(arguments["input"].shape[0], units, dtype=torch.int64)
    if start:
        factor = (arguments[f"start_{name}"] for name in ("zero_point", "multiplier", "shift"))
        state = saturate(recurrent.rescaled(start[0], *factor))

    def cell(x: Tensor, h: Tensor) -> Tensor:
        nonlocal state
        *_, x_n = x.chunk(GATES, 1)
        *_, h_n = h.chunk(GATES, 1)
        reset, update, _ = sigmoid(saturate(x + h)).chunk(GATES, 1)
        new = tanh(saturate(x_n + ((reset * saturate(h_n) + (1 << 13)) >> 14)))
        new = (new + (1 << (bits - 1))) >> bits if bits > 0 else new
        state = ((new << 15) + update * (state - new) + (1 << 14)) >> 15
        return recurrent.output_codes(state, arguments)

    return recurrent.run(arguments["input"], arguments, recurrent.output_codes(state, arguments), cell)


def lower(lowering: Lowering) -> Node:
    rows, units = recurrent.shape_of(lowering)
    of_input, of_state = recurrent.biases(lowering)
    inside = torch.arange(rows) >= 2 * units  # rows of the new gate, whose bias the reset gate scales
    start = recurrent.start_q(lowering)
    bits = recurrent.start_bits(start[0]) if start else 0
    step = 2.0 ** (bits - 15)
    return lowering.call(
        GRU,
        input=lowering.node("input"),
        **recurrent.path_constants(
            lowering,
            GatePath.INPUT,
            lowering.q("input"),
            of_input + torch.where(inside, 0.0, of_state),
            recurrent.unit_rows((SIGMOID_UNIT, SIGMOID_UNIT, TANH_UNIT), units),
        ),
        **recurrent.path_constants(
            lowering,
            GatePath.STATE,
            lowering.out,
            torch.where(inside, of_state, 0.0),
            recurrent.unit_rows((SIGMOID_UNIT,) * GATES, units),
        ),
        start=lowering.bound.nodes("start"),
        **recurrent.start_factor(lowering, start[0] if start else None, step),
        reverse=lowering.bound["reverse"],
        last=False,
        **recurrent.out_factor(step, lowering.out),
        cell_bits=bits,
        run=None,
    )


KERNELS = recurrent.kernels(recurrent.LayerKind("gru", GATES, 2, lambda call: {"cell_bits": call["cell_bits"]}))


def draw_case(draw: CaseDraw) -> dict[str, Any]:
    multipliers, shifts = sampling.fixed_points(draw.seed(), 1, -8, -5)
    factor = {"out_multiplier": int(multipliers[0]), "out_shift": int(shifts[0])}
    layer = recurrent.draw_layer(draw, GATES, states=1)
    bits = draw.pick([0, 0, 1, 4, recurrent.MOST_CELL_BITS])
    return {**layer, **factor, "start_shift": layer["start_shift"] + 4, "cell_bits": bits}


GRU = recurrent.layer_operator(
    name="cortado::gru",
    summary="a GRU layer over all its steps, in one direction",
    parameters="int cell_bits",
    reference=reference,
    kernel=KERNELS,
    draw_case=draw_case,
)

GRU_PATTERN = Pattern(aten=(GRU_LAYER,), match=recurrent.match, lower=lower, keeps_bits=True)
