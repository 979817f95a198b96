"""An RNN layer in one direction; h, its 8-bit codes, is the output and the state operand of the next step.

    tanh:  h = clamp(requant(tanh(sat16(X + H))) + out_zero_point)
    relu:  h = clamp(((max(X + H, 0) + 128) >> 8) + out_zero_point), X and H in steps of the output / 256

X and H, and tanh: layer.py.
"""

from typing import Any

import torch
from torch.fx import Node

from cortado.base.numerics import Tensor, clamp_int8
from cortado.ir import sampling
from cortado.ir.op import Lowering, Pattern
from cortado.ir.sampling import CaseDraw
from cortado.ops.reach import to_codes
from cortado.ops.recurrent import layer as recurrent
from cortado.ops.recurrent.forms import RNN_LAYER
from cortado.ops.recurrent.int16_layer import is_wide
from cortado.ops.recurrent.layer import TANH_UNIT, GatePath, saturate, tanh

TANH_STEP = 2.0**-15
RELU_BITS = 8


def reference(**arguments: Any) -> Tensor:
    def cell(x: Tensor, h: Tensor) -> Tensor:
        if not arguments["relu"]:
            return recurrent.output_codes(tanh(saturate(x + h)), arguments)
        rounded = ((x + h).clamp(min=0) + (1 << (RELU_BITS - 1))) >> RELU_BITS
        if is_wide(arguments):
            return to_codes(rounded)
        return clamp_int8(rounded + arguments["out_zero_point"])

    state = recurrent.started(arguments["start"], arguments, arguments["weight_h"].shape[1])
    return recurrent.run(arguments["input"], arguments, state, cell)


def lower(lowering: Lowering) -> Node:
    rows, _ = recurrent.shape_of(lowering)
    of_input, of_state = recurrent.biases(lowering)
    relu = bool(lowering.bound["relu"])
    unit = recurrent.unit_rows((lowering.out.scale * 2.0**-RELU_BITS if relu else TANH_UNIT,), rows)
    start = recurrent.start_q(lowering)
    return lowering.call(
        RNN,
        input=lowering.node("input"),
        **recurrent.path_constants(lowering, GatePath.INPUT, lowering.q("input"), of_input + of_state, unit),
        **recurrent.path_constants(lowering, GatePath.STATE, lowering.out, torch.zeros_like(of_state), unit),
        start=lowering.bound.nodes("start"),
        **recurrent.start_factor(lowering, start[0] if start else None, lowering.out.scale),
        reverse=lowering.bound["reverse"],
        last=False,
        **recurrent.out_factor(TANH_STEP, lowering.out),
        relu=relu,
        run=None,
    )


KERNELS = recurrent.kernels(recurrent.LayerKind("rnn", 1, 0, lambda call: {"relu": int(call["relu"])}))


def draw_case(draw: CaseDraw) -> dict[str, Any]:
    multipliers, shifts = sampling.fixed_points(draw.seed(), 1, -8, -5)
    factor = {"out_multiplier": int(multipliers[0]), "out_shift": int(shifts[0])}
    return {**recurrent.draw_layer(draw, 1, states=1), **factor, "relu": draw.flag()}


RNN = recurrent.layer_operator(
    name="cortado::rnn",
    summary="an RNN layer (tanh or relu) over all its steps, in one direction",
    parameters="bool relu",
    reference=reference,
    kernel=KERNELS,
    draw_case=draw_case,
)

RNN_PATTERN = Pattern(aten=(RNN_LAYER,), match=recurrent.match, lower=lower, reads_itself=True, keeps_bits=True)
