"""LSTM, GRU and RNN layers in float32, in one direction over all their steps.

    LSTM  i, f, o = sigmoid(X + H);  g = tanh(X + H);  c = f * c + i * g;  h = o * tanh(c)
    GRU   r, z = sigmoid(X + H);  n = tanh(X + r * H);  h = (h - n) * z + n
    RNN   h = tanh(X + H), or max(X + H, 0)

X and H are linear layers of the step's input and of the state before it (conv/float32.py): a row for each unit of each
gate. Every operation is rounded to float32 by itself, in the order above, so the bits are those of the same layer
written out step by step (float32_forms.py). With weights of int8, both matrices are codes with a scale per row.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from cortado.base import float32
from cortado.base.element import FLOAT32, INT8
from cortado.base.errors import Reject
from cortado.base.numerics import Tensor
from cortado.base.target import Core
from cortado.ir.c_call import Callee, Operand, Row
from cortado.ir.graph import Bound, taken_from
from cortado.ir.kernel import Called, Field, Kernel, NestedDescriptor
from cortado.ir.kernel_table import EVERY_CORE, All, KernelRow, KernelTable
from cortado.ir.op import Call, Lowering, Operator, Pattern, Result
from cortado.ir.roles import Plain, Quantization
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Calls, Marks, Quantities, Work
from cortado.ops.conv import kernels as dense
from cortado.ops.conv.float32 import FLOAT_CONV2D, quantized, saves
from cortado.ops.conv.kernels import ConvForm
from cortado.ops.elementwise.float32_function import FLOAT_FUNCTION
from cortado.ops.floats import NO_BOUNDS, FloatArray, quiet, stored
from cortado.ops.recurrent import layer as recurrent
from cortado.ops.recurrent.forms import GRU_LAYER, LSTM_CELLS, LSTM_LAYER, RNN_LAYER
from cortado.ops.recurrent.kinds import CELLS, STATES, WRITTEN, cells_shape
from cortado.ops.recurrent.layer import LayerKind

PATHS = ("x", "h")  # of the input, of the state
FLOAT_BYTES = 4

# ---- what it computes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FloatPath:
    """One of the two linear layers whose sums are added in front of a gate."""

    weight: Tensor
    bias: Tensor
    scale: Tensor | None

    @staticmethod
    def of(arguments: Mapping[str, Any], end: str) -> "FloatPath":
        return FloatPath(*(arguments[f"{part}_{end}"] for part in ("weight", "bias", "scale")))

    def __call__(self, x: FloatArray) -> FloatArray:
        start = self.bias.numpy() if self.scale is None else 0.0
        sums = float32.dot(x[..., None, :], self._rows, start=start)
        return sums if self.scale is None else float32.canonical(sums * self.scale.numpy() + self.bias.numpy())

    @cached_property
    def _rows(self) -> FloatArray:
        return self.weight.numpy().astype(np.float32)


_Step = Callable[[FloatArray, FloatArray, Sequence[FloatArray]], Sequence[FloatArray]]  # X, H, states -> states


def _split(sums: FloatArray, gates: int) -> list[FloatArray]:
    return np.split(sums, gates, -1)


def _lstm_step(x: FloatArray, h: FloatArray, states: Sequence[FloatArray]) -> Sequence[FloatArray]:
    let_in, forget, new, out = _split(x + h, 4)
    cells = float32.sigmoid(forget) * states[1] + float32.sigmoid(let_in) * float32.tanh(new)
    return float32.sigmoid(out) * float32.tanh(cells), cells


def _gru_step(x: FloatArray, h: FloatArray, states: Sequence[FloatArray]) -> Sequence[FloatArray]:
    (reset, update, new), (old_reset, old_update, old_new) = _split(x, 3), _split(h, 3)
    share = float32.sigmoid(update + old_update)
    fresh = float32.tanh(new + float32.sigmoid(reset + old_reset) * old_new)
    return ((states[0] - fresh) * share + fresh,)


def _tanh_step(x: FloatArray, h: FloatArray, states: Sequence[FloatArray]) -> Sequence[FloatArray]:
    return (float32.tanh(x + h),)


def _relu_step(x: FloatArray, h: FloatArray, states: Sequence[FloatArray]) -> Sequence[FloatArray]:
    sums = x + h
    return (np.where(sums < 0, np.float32(0), sums),)


def _states(step: _Step, count: int, arguments: Mapping[str, Any]) -> list[Tensor]:
    """Returns the sequences of all states, [batch, steps, units] each; only the last of h if `last` is set, and of c if
    `last_cells` is."""
    before, path = FloatPath.of(arguments, "x")(arguments["input"].numpy()), FloatPath.of(arguments, "h")
    batch, steps = before.shape[:2]
    zeros = np.zeros((batch, arguments["weight_h"].shape[1]), np.float32)
    states: Sequence[FloatArray] = [one.numpy() for one in arguments["start"]] or [zeros] * count
    seen: dict[int, Sequence[FloatArray]] = {}
    for at in reversed(range(steps)) if arguments["reverse"] else range(steps):
        states = seen[at] = step(before[:, at], path(states[0]), states)
    found = []
    for number, name in enumerate(("last", "last_cells")[:count]):
        taken = range(steps)[recurrent.final(arguments, steps)] if arguments[name] else range(steps)
        found.append(stored(np.stack([seen[at][number] for at in taken], 1)))
    return found


@quiet
def lstm_reference(**arguments: Any) -> tuple[Tensor, Tensor]:
    states, cells = _states(_lstm_step, 2, arguments)
    return states, cells


@quiet
def gru_reference(**arguments: Any) -> Tensor:
    return _states(_gru_step, 1, arguments)[0]


@quiet
def rnn_reference(**arguments: Any) -> Tensor:
    return _states(_relu_step if arguments["relu"] else _tanh_step, 1, arguments)[0]


ARGUMENTS = (
    "Tensor input, Tensor weight_x, Tensor bias_x, Tensor? scale_x, Tensor weight_h, Tensor bias_h, Tensor? scale_h, "
    "Tensor[] start, bool reverse, bool last"
)

# ---- from the float graph ------------------------------------------------------------------------------------


def match(bound: Bound) -> Quantization | Reject:
    found = recurrent.match(bound)
    return found if isinstance(found, Reject) else Quantization({}, Plain())


def _arguments(lowering: Lowering) -> dict[str, Any]:
    """Adds the constants of a layer and returns its arguments."""
    weights = [lowering.data(f"weight_{name}") for name in ("ih", "hh")]
    given = [one.to(torch.float32) for one in weights if one is not None]
    codes = lowering.codes and saves(given)
    found: dict[str, Any] = {}
    for end, weight, bias in zip(PATHS, given, recurrent.biases(lowering), strict=True):
        data, scale = quantized(weight) if codes else (weight, None)
        found |= {
            f"weight_{end}": lowering.constant(f"weight_{end}", data),
            f"bias_{end}": lowering.constant(f"bias_{end}", bias.to(torch.float32)),
            f"scale_{end}": None if scale is None else lowering.constant(f"scale_{end}", scale),
        }
    reverse, start = lowering.bound["reverse"], lowering.bound.nodes("start")
    return {"input": lowering.node("input"), **found, "start": start, "reverse": reverse, "last": False}


def lower_gru(lowering: Lowering) -> Node:
    return lowering.call(FLOAT_GRU, **_arguments(lowering))


def lower_rnn(lowering: Lowering) -> Node:
    return lowering.call(FLOAT_RNN, **_arguments(lowering), relu=bool(lowering.bound["relu"]))


def lower_cells(lowering: Lowering) -> Node:
    """Lowers the cells, which come first in the float graph: the layer that follows is another result of the same
    call."""
    return lowering.part(lowering.call(FLOAT_LSTM, **_arguments(lowering), last_cells=False), CELLS)


def lower_layer(lowering: Lowering) -> Node:
    call = taken_from(lowering.node("cells"))
    assert call is not None
    return lowering.part(call, STATES)


# ---- the C kernel --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FloatKind:
    """A kind of layer: its gates, and how often its kernel calls functions for all units of a step."""

    name: str
    gates: int
    functions: Mapping[str, int]  # for each unit
    states: int = 1

    def kept(self, call: Call) -> int:
        """Returns how many rows of units scratch has beside sums: cells, and states that are no output."""
        return (self.states > 1) + (not call.gives(STATES))


_LSTM = FloatKind("lstm", 4, {"sigmoid": 3, "tanh": 2}, states=2)
_GRU = FloatKind("gru", 3, {"sigmoid": 2, "tanh": 1})
_RNN = FloatKind("rnn", 1, {"tanh": 1})

# The kernels for all sums of a path, the linear layers that they call, and the cores that have them, for weights of
# float32 and of codes.
_GATES: tuple[tuple[str, tuple[Core, ...]], ...] = (
    ("f32__mve", (Core.MVE,)),
    ("f32__dsp", (Core.DSP,)),
    ("f32", EVERY_CORE),
    ("codes_f32__mve", (Core.MVE,)),
    ("codes_f32__dsp", (Core.DSP,)),
    ("codes_f32", EVERY_CORE),
)


def _path_call(call: Call, end: str) -> Call:
    """Returns one path as the call of a linear layer over two pixels: kernels of single ones are others."""
    weight: Tensor = call[f"weight_{end}"]
    rows, inputs = weight.shape
    low, high = NO_BOUNDS
    arguments = {
        "input": (1, 1, 2, inputs),
        "weight": weight.reshape(rows, 1, 1, inputs),
        "bias": call[f"bias_{end}"],
        "scale": call[f"scale_{end}"],
        **{name: [size, size] for name, size in (("stride", 1), ("padding", 0), ("dilation", 1))},
        "activation_min": low,
        "activation_max": high,
    }
    return Call(FLOAT_CONV2D, arguments, (1, 1, 2, rows), FLOAT32, {"input": FLOAT32})


def _fits(gates: str, core: Core, call: Call) -> bool:
    """Whether linear layers of a core take both paths; the portable ones take any."""
    if (call["scale_x"] is not None) != gates.startswith("codes"):
        return False
    paths = [_path_call(call, end) for end in PATHS]
    return "__" not in gates or all(
        dense.symbol_of(path, core, ConvForm.PIXELS) == f"conv1x1_{gates}" for path in paths
    )


def _paths(call: Call, core: Core) -> list[Kernel]:
    return [dense.kernel(_path_call(call, end), core, ConvForm.PIXELS) for end in PATHS]


def _together(core: Core, call: Call) -> int:
    """Returns how many steps have their sums of the input computed at once: as many as kernels gain by."""
    return min(1 if core is Core.PORTABLE else 2, call.shape("input")[1])


def _fields(kind: FloatKind, core: Core, call: Call) -> dict[str, Field]:
    batch, steps, inputs = call.shape("input")
    paths = _paths(call, core)
    return {
        "in_c": inputs,
        "units": call.shape("weight_h")[1],
        "steps": steps,
        "sequences": batch,
        "reverse": int(call["reverse"]),
        "last_only": int(call["last"]),
        "gives_cells": int(kind.states > 1 and call.gives(CELLS) and not call["last_cells"]),
        "has_cells": int(kind.states > 1),
        "no_states": int(not call.gives(STATES)),
        "relu": int(call.arguments.get("relu", False)),
        "sums": len(call["weight_h"]),
        "together": _together(core, call),
        "path": tuple(NestedDescriptor(str(one.struct), one.fields) for one in paths),
    }


def _scratch(kind: FloatKind, core: Core, call: Call) -> int:
    sums, units = call.shape("weight_h")
    return FLOAT_BYTES * ((_together(core, call) + 1) * sums + kind.kept(call) * units)


def _work(kind: FloatKind, call: Call) -> Work:
    batch, steps, _ = call.shape("input")
    units = call.shape("weight_h")[1]

    def quantities(calls: Calls) -> Quantities:
        every = calls.calls * batch * steps
        return {"all_steps": every, "all_units": every * units, "relu": float(call.arguments.get("relu", False))}

    terms = ("calls", "all_steps", "all_units", *(("all_units*relu",) if kind is _RNN else ()))
    return Work(terms, quantities, marks=Marks(0))


_LARGE = 0.25  # the share of a gate's sums for which tanh takes its longer path


def _seen(kernel: Kernel, calls: float, values: float, span: int = 1, marked: float | None = None) -> Called:
    """Returns a called kernel that runs `calls` times, over `span` pixels each, and gives `values` in a call of the
    layer. `marked` is the share of its inputs that take more work; None: that of the layer's input."""
    own = kernel.work
    assert own is not None

    def quantities(given: Calls) -> Quantities:
        counted, outputs = calls * given.calls, FLOAT_BYTES * values * given.calls
        inner = replace(given, calls=counted, span=span, spans=counted * span, outputs=outputs)
        inner = inner if marked is None else replace(inner, marked=marked)
        return {**inner.quantities, **own.quantities(inner)}

    return Called(replace(kernel, work=replace(own, quantities=quantities)), 1, 1)


def _called(kind: FloatKind, core: Core, call: Call) -> tuple[Called, ...]:
    """Returns the linear layers of both paths, the first over several steps at once, and functions of all units."""
    batch, steps, _ = call.shape("input")
    sums, units = call.shape("weight_h")
    every, together = batch * steps, _together(core, call)
    of_input, of_state = _paths(call, core)
    functions = {} if call.arguments.get("relu") else kind.functions
    states = 1.0 if call["start"] else 1 - 1 / steps  # the first ones are zeros
    return (
        _seen(of_input, every / together, every * sums, together),
        _seen(of_state, every, every * sums, marked=states if functions else states / 2),
        *(
            _seen(_function(name), every * count, every * count * units, marked=_LARGE)
            for name, count in functions.items()
        ),
    )


def _function(name: str) -> Kernel:
    assert FLOAT_FUNCTION.kernel is not None
    arguments = {"input": (1, 1), "function": name, "low": NO_BOUNDS[0], "high": NO_BOUNDS[1]}
    call = Call(FLOAT_FUNCTION, arguments, (1, 1), FLOAT32, {"input": FLOAT32})
    return FLOAT_FUNCTION.kernel(call, Core.PORTABLE)


def _kernels(kind: FloatKind) -> KernelTable:
    """Returns the kernels of one kind of layer: the same function, with functions of its own for the gates' sums."""
    written = {"written": WRITTEN} if kind.states > 1 else {}
    forms = LayerKind(kind.name, kind.gates, FLOAT_BYTES, lambda call: {}, kind.states, **written).forms()
    return KernelTable(
        tuple(
            KernelRow(
                f"{kind.name}_f32",
                FLOAT32,
                weights=INT8 if gates.startswith("codes") else FLOAT32,
                cores=cores,
                fits=All((form, partial(_fits, gates, core))),
                arguments=(Operand.LAYER, Row(0), *behind, Callee(f"cortado_gates_{gates}")),
                struct="cortado_recurrent_f32_t",
                fields=partial(_fields, kind, core),
                scratch=partial(_scratch, kind, core),
                scratch_check="recurrent_f32_scratch",
                work=partial(_work, kind),
                called=partial(_called, kind, core),
            )
            for form, behind in forms
            for gates, cores in _GATES
            for core in (cores[0],)
        )
    )


# ---- samples -------------------------------------------------------------------------------------------------


def _samples(kind: FloatKind, draw: CaseDraw) -> dict[str, Any]:
    """Draws layers with exact weights or codes, small numbers mostly, as others saturate all gates."""
    batch, steps, inputs, units = draw.pick([1, 1, 2]), draw.whole(1, 6), draw.channels(), draw.channels()
    codes, given, reverse, last = draw.flag(), draw.flag(), draw.flag(), draw.flag()
    found: dict[str, Any] = {"input": draw.numbers((batch, steps, inputs)), "reverse": reverse, "last": last}
    found["start"] = [draw.numbers((batch, units)) for _ in range(kind.states if given else 0)]
    for end, width in zip(PATHS, (inputs, units), strict=True):
        size = (kind.gates * units, width)
        found |= {
            f"weight_{end}": draw.codes(size, INT8) if codes else draw.numbers(size),
            f"bias_{end}": draw.numbers(size[:1]),
            f"scale_{end}": draw.numbers(size[:1]) / 256 / math.sqrt(width) if codes else None,
        }
    return found


def _operator(kind: FloatKind, more: str = "", **record: Any) -> Operator:
    return Operator(
        name=f"cortado::float_{kind.name}",
        parameters=f"{ARGUMENTS}{more}",
        shape=recurrent.output_shape,
        kernel=_kernels(kind),
        macs=recurrent.macs,
        element=FLOAT32,
        tensors=("input", "start"),
        last_steps=("last", "last_cells") if "last_cells" in more else ("last",),
        constraints="constant weights, float32 or int8 with a scale per row; no projection",
        **record,
    )


def _with_flag(kind: FloatKind, name: str, draw: CaseDraw) -> dict[str, Any]:
    return {**_samples(kind, draw), name: draw.flag()}


FLOAT_LSTM = _operator(
    _LSTM,
    ", bool last_cells",
    summary="an LSTM layer in float32 over all its steps, in one direction",
    reference=lstm_reference,
    extra_results=(Result(CELLS, cells_shape, FLOAT32),),
    samples=partial(_with_flag, _LSTM, "last_cells"),
)
FLOAT_GRU = _operator(
    _GRU,
    summary="a GRU layer in float32 over all its steps, in one direction",
    reference=gru_reference,
    samples=partial(_samples, _GRU),
)
FLOAT_RNN = _operator(
    _RNN,
    ", bool relu",
    summary="an RNN layer (tanh or relu) in float32 over all its steps, in one direction",
    reference=rnn_reference,
    samples=partial(_with_flag, _RNN, "relu"),
)

FLOAT_LSTM_PATTERN = Pattern(aten=(LSTM_LAYER,), match=match, lower=lower_layer, floating=True)
FLOAT_CELLS_PATTERN = Pattern(aten=(LSTM_CELLS,), match=match, lower=lower_cells, floating=True)
FLOAT_GRU_PATTERN = Pattern(aten=(GRU_LAYER,), match=match, lower=lower_gru, floating=True)
FLOAT_RNN_PATTERN = Pattern(aten=(RNN_LAYER,), match=match, lower=lower_rnn, floating=True)
