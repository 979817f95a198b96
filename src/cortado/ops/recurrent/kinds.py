"""An LSTM layer in one direction. Its cells c have 16 bits in steps of 2^(cell_bits - 15); h, its 8-bit codes, is the
output and the state operand of the next step.

    i, f, o = sigmoid(sat16(X + H));   g = tanh(sat16(X + H))
    c = sat16((f * c + ig + 2^14) >> 15),   ig = (i * g + 2^(cell_bits - 1)) >> cell_bits, or i * g if cell_bits is 0
    v = sat16(c << (cell_bits - 3)), or (c + 2^(2 - cell_bits)) >> (3 - cell_bits): the cells with 12 fractional bits
    h = clamp(requant(o * tanh(v)) + out_zero_point)

X and H, sigmoid and tanh: layer.py. The cells are a secondary output, as codes with their own parameters.

A GRU layer in one direction. Its state h16 has steps of 2^(cell_bits - 15), where cell_bits is 0 unless a given
initial state exceeds 1; h, its 8-bit codes, is the output and the state operand of the next step.

    r, z = sigmoid(sat16(X + H));   n = tanh(sat16(X_n + ((r * sat16(H_n) + 2^13) >> 14)))
    n' = (n + 2^(cell_bits - 1)) >> cell_bits, or n if cell_bits is 0
    h16 = (n' * 32768 + z * (h16 - n') + 2^14) >> 15;   h = clamp(requant(h16) + out_zero_point)

X and H, sigmoid and tanh: layer.py. The state's path of the new gate, H_n, has steps of 2^-11.

An RNN layer in one direction; h, its 8-bit codes, is the output and the state operand of the next step.

    tanh:  h = clamp(requant(tanh(sat16(X + H))) + out_zero_point)
    relu:  h = clamp(((max(X + H, 0) + 128) >> 8) + out_zero_point), X and H in steps of the output / 256

X and H, and tanh: layer.py.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from cortado.base.numerics import Fixed, QParams, Tensor, clamp_int8, requant
from cortado.ir import sampling
from cortado.ir.c_call import Absent, Operand
from cortado.ir.facts import qparams
from cortado.ir.graph import taken_from
from cortado.ir.op import Call, ElementOf, Lowering, Pattern, Result
from cortado.ir.sampling import CaseDraw
from cortado.ops.reach import once, to_codes
from cortado.ops.recurrent import int16_layer as wide
from cortado.ops.recurrent import layer as recurrent
from cortado.ops.recurrent.forms import GRU_LAYER, LSTM_CELLS, LSTM_LAYER, RNN_LAYER
from cortado.ops.recurrent.int16_layer import is_wide
from cortado.ops.recurrent.layer import SIGMOID_UNIT, TANH_UNIT, GatePath, saturate, sigmoid, tanh

GATES = 4  # input, forget, new, output
HIDDEN_STEP = 2.0**-30  # of o * tanh(c)
STATES, CELLS = "out", "cells"  # its results


def _tanh_of_cells(cells: Tensor, bits: int) -> Tensor:
    return tanh(saturate(cells << (bits - 3)) if bits >= 3 else (cells + (1 << (2 - bits))) >> (3 - bits))


def reference(**arguments: Any) -> tuple[Tensor, Tensor]:
    start, bits = arguments["start"], arguments["cell_bits"]
    hidden = recurrent.started(start, arguments, arguments["weight_h"].shape[1])
    cells = torch.zeros(hidden.shape, dtype=torch.int64)
    if start:
        scaling = (arguments[f"cell_{name}"] for name in ("zero_point", "multiplier", "shift"))
        cells = saturate(recurrent.rescaled(start[1], *scaling))
    seen: list[Tensor] = []

    def cell(x: Tensor, h: Tensor) -> Tensor:
        nonlocal cells
        sums = saturate(x + h)
        i, f, _, o = sigmoid(sums).chunk(GATES, 1)
        product = i * tanh(sums.chunk(GATES, 1)[2])
        product = (product + (1 << (bits - 1))) >> bits if bits > 0 else product
        cells = saturate((f * cells + product + (1 << 14)) >> 15)
        seen.append(cells)
        return recurrent.output_codes(o * _tanh_of_cells(cells, bits), arguments)

    states = recurrent.run(arguments["input"], arguments, hidden, cell)
    given = torch.stack(seen[-1:] if arguments["last_cells"] else seen[::-1] if arguments["reverse"] else seen, 1)
    numbers = arguments["given_multiplier"], arguments["given_shift"]
    if wide.is_wide(arguments):
        return states, wide.codes(given, *numbers)
    return states, clamp_int8(requant(given, *numbers) + arguments["given_zero_point"]).contiguous()


def cells_shape(call: Call) -> tuple[int, ...]:
    batch, steps, _ = call.shape("input")
    return batch, 1 if call["last_cells"] else steps, call.shape("weight_h")[1]


# ---- from the float graph ------------------------------------------------------------------------------------


def cell_bits(cells: QParams, start: Sequence[QParams]) -> int:
    """Returns the cells' format: it holds twice the range that calibration saw, and all given cells."""
    wanted = math.ceil(math.log2(2 * wide.seen(cells)))
    return min(max(wanted, *map(recurrent.start_bits, start[1:]), 0), recurrent.MOST_CELL_BITS)


def lower_cells(lowering: Lowering) -> Node:
    """Lowers the cells, which come first in the float graph: the layer that follows is another result of the same
    call."""
    layers = [user for user in lowering.bound.node.users if user.target == LSTM_LAYER]
    hidden = qparams(layers[0]) if layers else wide.unread(lowering)
    assert hidden is not None
    return lowering.part(_call(lowering, hidden, lowering.out), CELLS)


def lower_layer(lowering: Lowering) -> Node:
    call = taken_from(lowering.node("cells"))
    if call is None:  # the cells were not lowered: a .pte that keeps them in float won't have this either
        call = _call(lowering, lowering.out, lowering.q("cells"))
    return lowering.part(call, STATES)


def _call(lowering: Lowering, hidden: QParams, cells: QParams) -> Node:
    _, units = recurrent.shape_of(lowering)
    of_input, of_state = recurrent.biases(lowering)
    unit = recurrent.unit_rows((SIGMOID_UNIT, SIGMOID_UNIT, TANH_UNIT, SIGMOID_UNIT), units)
    start = recurrent.start_q(lowering)
    bits = cell_bits(cells, start)
    step = 2.0 ** (bits - 15)
    given = Fixed(*once(step / cells.scale)) if cells.element.symmetric else Fixed.of(step / cells.scale)
    return lowering.call(
        LSTM,
        input=lowering.node("input"),
        **recurrent.path_constants(lowering, GatePath.INPUT, lowering.q("input"), of_input + of_state, unit),
        **recurrent.path_constants(lowering, GatePath.STATE, hidden, 0 * of_state, unit),
        start=lowering.bound.nodes("start"),
        **recurrent.start_factor(lowering, start[0] if start else None, hidden.scale),
        reverse=lowering.bound["reverse"],
        last=False,
        **recurrent.out_factor(HIDDEN_STEP, hidden),
        **recurrent.start_factor(lowering, start[1] if start else None, step, "cell"),
        cell_bits=bits,
        last_cells=False,
        **given.arguments("given"),
        given_zero_point=cells.zero_point,
        run=None,
    )


# ---- the C kernel --------------------------------------------------------------------------------------------


def _more(call: Call) -> dict[str, int]:
    return {
        "cell_zero": call["cell_zero_point"],
        "cell_multiplier": call["cell_multiplier"],
        "cell_shift": call["cell_shift"],
        "cell_bits": call["cell_bits"],
        "gives_cells": int(call.gives(CELLS) and not call["last_cells"]),
        "no_states": int(not call.gives(STATES)),
        "given_multiplier": call["given_multiplier"],
        "given_shift": call["given_shift"],
        "given_offset": call["given_zero_point"],
    }


# The first result that is read goes to the output, a second one (None) to the row after the operands.
WRITTEN = (((), (Operand.OUT, None)), ((CELLS,), (Operand.OUT, Absent())), ((STATES,), (Absent(), Operand.OUT)))
KERNELS = recurrent.kernels(recurrent.LayerKind("lstm", GATES, 2, _more, states=2, written=WRITTEN))


def draw_case(draw: CaseDraw) -> dict[str, Any]:
    multipliers, shifts = sampling.fixed_points(draw.seed(), 3, -8, -5)
    return {
        **recurrent.draw_layer(draw, GATES, states=2),
        "out_multiplier": int(multipliers[0]),
        "out_shift": int(shifts[0]) - 15,
        "cell_zero_point": draw.zero_point(),
        "cell_multiplier": int(multipliers[1]),
        "cell_shift": int(shifts[1]) + 14,
        "cell_bits": draw.whole(0, recurrent.MOST_CELL_BITS),
        "last_cells": draw.flag(),
        "given_multiplier": int(multipliers[2]),
        "given_shift": int(shifts[2]),
        "given_zero_point": draw.zero_point(),
    }


LSTM = recurrent.layer_operator(
    name="cortado::lstm",
    summary="an LSTM layer over all its steps, in one direction",
    parameters=(
        "int cell_zero_point, int cell_multiplier, int cell_shift, int cell_bits, "
        "bool last_cells, int given_multiplier, int given_shift, int given_zero_point"
    ),
    reference=reference,
    extra_results=(Result(CELLS, cells_shape, ElementOf(("input",))),),
    kernel=KERNELS,
    draw_case=draw_case,
)

LSTM_PATTERN = Pattern(aten=(LSTM_LAYER,), match=recurrent.match_with_cells, lower=lower_layer, keeps_bits=True)
CELLS_PATTERN = Pattern(aten=(LSTM_CELLS,), match=recurrent.match_cells, lower=lower_cells, keeps_bits=True)


# ---- GRU --------------------------------------------------------------------------------------------

GRU_GATES = 3  # reset, update, new


def gru_reference(**arguments: Any) -> Tensor:
    start, units, bits = arguments["start"], arguments["weight_h"].shape[1], arguments["cell_bits"]
    state = torch.zeros(arguments["input"].shape[0], units, dtype=torch.int64)
    if start:
        factor = (arguments[f"start_{name}"] for name in ("zero_point", "multiplier", "shift"))
        state = saturate(recurrent.rescaled(start[0], *factor))

    def cell(x: Tensor, h: Tensor) -> Tensor:
        nonlocal state
        *_, x_n = x.chunk(GRU_GATES, 1)
        *_, h_n = h.chunk(GRU_GATES, 1)
        reset, update, _ = sigmoid(saturate(x + h)).chunk(GRU_GATES, 1)
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
            recurrent.unit_rows((SIGMOID_UNIT,) * GRU_GATES, units),
        ),
        start=lowering.bound.nodes("start"),
        **recurrent.start_factor(lowering, start[0] if start else None, step),
        reverse=lowering.bound["reverse"],
        last=False,
        **recurrent.out_factor(step, lowering.out),
        cell_bits=bits,
        run=None,
    )


GRU_KERNELS = recurrent.kernels(recurrent.LayerKind("gru", GRU_GATES, 2, lambda call: {"cell_bits": call["cell_bits"]}))


def gru_draw_case(draw: CaseDraw) -> dict[str, Any]:
    multipliers, shifts = sampling.fixed_points(draw.seed(), 1, -8, -5)
    factor = {"out_multiplier": int(multipliers[0]), "out_shift": int(shifts[0])}
    layer = recurrent.draw_layer(draw, GRU_GATES, states=1)
    bits = draw.pick([0, 0, 1, 4, recurrent.MOST_CELL_BITS])
    return {**layer, **factor, "start_shift": layer["start_shift"] + 4, "cell_bits": bits}


GRU = recurrent.layer_operator(
    name="cortado::gru",
    summary="a GRU layer over all its steps, in one direction",
    parameters="int cell_bits",
    reference=gru_reference,
    kernel=GRU_KERNELS,
    draw_case=gru_draw_case,
)

GRU_PATTERN = Pattern(aten=(GRU_LAYER,), match=recurrent.match, lower=lower, keeps_bits=True)


# ---- RNN --------------------------------------------------------------------------------------------

TANH_STEP = 2.0**-15
RELU_BITS = 8


def rnn_reference(**arguments: Any) -> Tensor:
    def cell(x: Tensor, h: Tensor) -> Tensor:
        if not arguments["relu"]:
            return recurrent.output_codes(tanh(saturate(x + h)), arguments)
        rounded = ((x + h).clamp(min=0) + (1 << (RELU_BITS - 1))) >> RELU_BITS
        if is_wide(arguments):
            return to_codes(rounded)
        return clamp_int8(rounded + arguments["out_zero_point"])

    state = recurrent.started(arguments["start"], arguments, arguments["weight_h"].shape[1])
    return recurrent.run(arguments["input"], arguments, state, cell)


def rnn_lower(lowering: Lowering) -> Node:
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


RNN_KERNELS = recurrent.kernels(recurrent.LayerKind("rnn", 1, 0, lambda call: {"relu": int(call["relu"])}))


def rnn_draw_case(draw: CaseDraw) -> dict[str, Any]:
    multipliers, shifts = sampling.fixed_points(draw.seed(), 1, -8, -5)
    factor = {"out_multiplier": int(multipliers[0]), "out_shift": int(shifts[0])}
    return {**recurrent.draw_layer(draw, 1, states=1), **factor, "relu": draw.flag()}


RNN = recurrent.layer_operator(
    name="cortado::rnn",
    summary="an RNN layer (tanh or relu) over all its steps, in one direction",
    parameters="bool relu",
    reference=rnn_reference,
    kernel=RNN_KERNELS,
    draw_case=rnn_draw_case,
)

RNN_PATTERN = Pattern(aten=(RNN_LAYER,), match=recurrent.match, lower=rnn_lower, reads_itself=True, keeps_bits=True)
