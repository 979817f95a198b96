"""Shared parts of LSTM, GRU and RNN layers: gates, their two functions, states and the descriptor of a layer.

A gate's row j sums two paths, each in its own scale: X[j] = requant(bias_x[j] + sum(x * Wx[j])) of the input, and
likewise H[j] of the previous state, in steps of 2^-11 before a sigmoid and of 2^-12 before a tanh. Their sum is
saturated to 16 bits once. One table serves both functions, since tanh(v / 4096) = 2 * sigmoid(v / 2048) - 1:

    T[k] = min(65535, floor(65536 / (1 + exp(-(k - 256) / 16)) + 0.5)), k = 0 .. 512
    u = v + 32768;  k = u >> 7;  r = T[k] * 128 + (u & 127) * (T[k + 1] - T[k])
    sigmoid(v) = min(32767, (r + 128) >> 8)     tanh(v) = min(32767, (r - 2^22 + 64) >> 7)     with 15 fractional bits

With a `run` the weights have 4 bits (--weights int4), two of them in a byte of the C bundle; in the graph they are
8-bit codes, so a layer computes the same. They are factor * q, |q| <= 7, with one factor for each run of a row; if
`run` is 0, all factors are 1. The kernels are those for 8 bits, with a function for their gates that unpacks as it
multiplies (gates_narrow_s8.c).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import torch

from cortado.base.element import INT4, INT8, INT16, element_of
from cortado.base.errors import CortadoError, Reject
from cortado.base.numerics import Fixed, QParams, Tensor, clamp_int8, requant
from cortado.base.target import Core
from cortado.ir import sampling
from cortado.ir.c_call import Absent, Argument, Callee, Operand, Row, Written
from cortado.ir.facts import USER_INPUT, qparams
from cortado.ir.graph import Bound, describe
from cortado.ir.kernel import Array, Field
from cortado.ir.kernel_table import EVERY_CORE, All, KernelRow, KernelTable
from cortado.ir.op import Call, ElementOf, Int4Form, Lowering, Operator
from cortado.ir.roles import Activation, ObservedWith, Quantization, Role, Weight
from cortado.ir.sampling import CaseDraw
from cortado.ir.work import Calls, Quantities, Work, nested
from cortado.ops.conv import packing
from cortado.ops.conv.convolution import sum_bounds
from cortado.ops.conv.int4 import CHUNK, NARROW_ROWS, RUN, StoredWeights, drawn, pack_narrow_gates
from cortado.ops.loops import VECTOR
from cortado.ops.recurrent import int16_layer as wide

# ---- recurrent work --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LayerSize:
    """The dimensions of a layer."""

    sequences: int
    steps: int
    inputs: int
    units: int


_UNITS = {"calls*sequences": "units starts*units", "all_steps": "units units*gives_cells units*curved"}
_GROUPS = {
    Core.MVE: "path_vectors",
    Core.DSP: "path_fours path_eights path_some path_odd path_lasts",
    Core.SMALL: "path_products path_twos path_fours path_lasts",
    Core.LONG: "path_products path_twos path_fours path_lasts",
    Core.PORTABLE: "path_products",
}


_NARROW = {
    Core.MVE: "path_vectors path_chunks",
    Core.DSP: "path_fours path_odd path_lasts path_chunks",
}
_NARROW_PAIRS = "path_products path_twos path_sixteens path_chunks"


def recurrent_work(
    core: Core,
    layer: LayerSize,
    *,
    together: int,
    starts: bool,
    more: Mapping[str, int],
    run: int | None,
    vector: int = VECTOR,
) -> Work:
    """Counts groups of units whose gates are computed together, in each step; the products of both paths of a gate,
    input and state, each a call of one function: twos, fours, pairs of fours, vectors, whether there are fours, whether
    some products are left over, and how many."""
    paths = (layer.inputs, layer.units)
    fours, lasts = [products // 4 for products in paths], [products % 4 for products in paths]
    sizes = {
        "sequences": layer.sequences,
        "units": layer.units,
        "starts": starts,
        "gives_cells": more.get("gives_cells", 0),
        "curved": 1 - more.get("relu", 0),
        "path_products": sum(paths),
        "path_twos": sum(math.ceil(products / 2) for products in paths),
        "path_fours": sum(fours),
        "path_eights": sum(math.ceil(four / 2) for four in fours),
        "path_vectors": sum(math.ceil(products / vector) for products in paths),
        "path_some": sum(four > 0 for four in fours),
        "path_odd": sum(last > 0 for last in lasts),
        "path_lasts": sum(lasts),
        "path_sixteens": sum(math.ceil(products / 16) for products in paths),
        "path_chunks": sum(math.ceil(products / (run or CHUNK)) for products in paths),
    }
    groups = math.ceil(layer.units / together)
    inner = _GROUPS[core] if run is None else _NARROW.get(core, _NARROW_PAIRS)

    def quantities(calls: Calls) -> Quantities:
        steps = calls.calls * layer.sequences * layer.steps
        return {**sizes, "all_steps": steps, "unit_groups": steps * groups}

    return Work(nested({**_UNITS, "unit_groups": f"curved {inner}"}), quantities)


# ---- recurrent -------------------------------------------------------------------------------------------

SIGMOID_UNIT, TANH_UNIT = 2.0**-11, 2.0**-12
LARGEST = 2**15 - 1
LARGEST_SUM = 2**30  # of either path, shifted left: kernels double it, and add the two
MOST_CELL_BITS = 15
BIAS_BITS = 28  # of a bias in steps of its path: it shares 32 bits with the sum of products
LARGEST_START_SHIFT = 22  # 255 steps of an initial state, shifted left, fit 31 bits

# ---- what it computes ----------------------------------------------------------------------------------------


@cache
def sigmoid_table() -> Tensor:
    values = [math.floor(65536 / (1 + math.exp(-(k - 256) / 16)) + 0.5) for k in range(513)]
    return torch.tensor([min(65535, value) for value in values], dtype=torch.int64)


def _interpolated(value: Tensor) -> Tensor:
    """Returns sigmoid(value / 2048) with 23 fractional bits."""
    above = value + 32768
    entries, index = sigmoid_table(), above >> 7
    return entries[index] * 128 + (above & 127) * (entries[index + 1] - entries[index])


def sigmoid(value: Tensor) -> Tensor:
    return ((_interpolated(value) + 128) >> 8).clamp(max=LARGEST)


def tanh(value: Tensor) -> Tensor:
    return ((_interpolated(value) - (1 << 22) + 64) >> 7).clamp(max=LARGEST)


def saturate(value: Tensor) -> Tensor:
    return value.clamp(-LARGEST - 1, LARGEST)


@dataclass(frozen=True)
class Path:
    """One of the two sums of a gate, for all rows of all gates."""

    weight: Tensor
    bias: Tensor
    multiplier: Tensor
    shift: Tensor

    @staticmethod
    def of(arguments: Mapping[str, Any], name: str) -> "Path":
        return Path(*(arguments[f"{part}_{name}"] for part in ("weight", "bias", "multiplier", "shift")))

    def __call__(self, codes: Tensor) -> Tensor:
        """Computes the sums in float64, which holds every sum of a layer of this size exactly."""
        sums = (codes.to(torch.float64) @ self._columns).to(torch.int64) + self.bias
        if element_of(codes.dtype).symmetric:
            return wide.path(sums, self.weight, self.bias, (self._factors, self.shift))
        return requant(sums, self._factors, self.shift)

    @cached_property
    def _columns(self) -> Tensor:
        return self.weight.to(torch.float64).T

    @cached_property
    def _factors(self) -> Tensor:
        return self.multiplier.to(torch.int64)


Cell = Callable[[Tensor, Tensor], Tensor]


def run(input: Tensor, arguments: Mapping[str, Any], state: Tensor, cell: Cell) -> Tensor:
    """Returns [batch, steps, units], the results of `cell(X, H)` step by step; only the last step if `last` is set."""
    before, path = Path.of(arguments, "x")(input), Path.of(arguments, "h")
    steps = range(input.shape[1])
    rows: dict[int, Tensor] = {}
    for step in reversed(steps) if arguments["reverse"] else steps:
        state = rows[step] = cell(before[:, step], path(state))
    return torch.stack([rows[step] for step in given_steps(arguments, len(steps))], 1).contiguous()


def given_steps(arguments: Mapping[str, Any], count: int) -> range:
    """Returns the steps whose state a layer returns."""
    return range(count)[final(arguments, count)] if arguments["last"] else range(count)


def final(arguments: Mapping[str, Any], count: int) -> slice:
    """Returns the step that is computed last."""
    return slice(0, 1) if arguments["reverse"] else slice(count - 1, count)


def rescaled(codes: Tensor, zero_point: int, multiplier: int, shift: int) -> Tensor:
    if element_of(codes.dtype).symmetric:
        return wide.codes(codes, multiplier, shift)
    return requant(codes.to(torch.int64) - zero_point, multiplier, shift)


def output_codes(value: Tensor, arguments: Mapping[str, Any]) -> Tensor:
    factor = arguments["out_multiplier"], arguments["out_shift"]
    if wide.is_wide(arguments):
        return wide.codes(value, *factor)
    return clamp_int8(requant(value, *factor) + arguments["out_zero_point"])


def started(start: Sequence[Tensor], arguments: Mapping[str, Any], units: int) -> Tensor:
    """Returns the state's codes before the first step, for layers whose state has the output's scale."""
    zero = arguments["out_zero_point"]
    if not start:
        return torch.full((arguments["input"].shape[0], units), zero, dtype=arguments["input"].dtype)
    factor = (arguments[f"start_{name}"] for name in ("zero_point", "multiplier", "shift"))
    found = rescaled(start[0], *factor)
    return found if wide.is_wide(arguments) else clamp_int8(found + zero)


def output_shape(call: Call) -> tuple[int, ...]:
    batch, steps, _ = call.shape("input")
    return batch, 1 if call["last"] else steps, call.shape("weight_h")[1]


def macs(call: Call) -> int:
    batch, steps, _ = call.shape("input")
    return batch * steps * (math.prod(call.shape("weight_x")) + math.prod(call.shape("weight_h")))


CONSTRAINTS = "constant weights, no projection"
NO_PTE = (
    "the runtime has no such operator, and a sequence unrolled into int8 operators takes 17 calls per step and lacks "
    "the precision of 16-bit states"
)
ARGUMENTS = (
    "Tensor input, Tensor weight_x, Tensor bias_x, Tensor multiplier_x, Tensor shift_x, Tensor weight_h, "
    "Tensor bias_h, Tensor multiplier_h, Tensor shift_h, Tensor[] start, int start_zero_point, int start_multiplier, "
    "int start_shift, bool reverse, bool last, int out_multiplier, int out_shift, int out_zero_point, int? run"
)

# ---- from the float graph ------------------------------------------------------------------------------------


def match(bound: Bound) -> Quantization | Reject:
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        operand = bound[name]
        if operand is not None and (USER_INPUT.known(operand) or operand.op not in ("get_attr", "placeholder")):
            return Reject(f"needs a constant {name}, got '{operand.name}', which depends on the input")
    kind = bound.element
    roles: dict[str, Role] = {
        "input": Activation(kind),
        "weight_ih": Weight(INT4),
        "weight_hh": Weight(INT4),
        "start": Activation(kind),
    }
    return Quantization(roles, ObservedWith("start", kind))


def match_with_cells(bound: Bound) -> Quantization | Reject:
    """Matches an LSTM, which also gets its own cells as an operand: their range determines how they are stored."""
    found = match(bound)
    if isinstance(found, Reject):
        return found
    return Quantization({**found.inputs, "cells": Activation(bound.element)}, found.output)


def match_cells(bound: Bound) -> Quantization | Reject:
    found = match(bound)
    return found if isinstance(found, Reject) else Quantization(found.inputs, Activation(bound.element))


def biases(lowering: Lowering) -> tuple[Tensor, Tensor]:
    """Returns the biases of the input's path and of the state's, zeros if there are none."""
    rows = shape_of(lowering)[0]
    given = (lowering.data(name) if lowering.bound[name] is not None else None for name in ("bias_ih", "bias_hh"))
    of_input, of_state = (torch.zeros(rows) if bias is None else bias for bias in given)
    return of_input.to(torch.float64), of_state.to(torch.float64)


def shape_of(lowering: Lowering) -> tuple[int, int]:
    """Returns the number of rows of all gates, and of units."""
    weight = lowering.data("weight_hh")
    assert weight is not None
    rows, units = weight.shape
    return rows, units


class GatePath(Enum):
    """The two paths whose sums a gate adds, by the names of their weights."""

    INPUT = "weight_ih"
    STATE = "weight_hh"


def path_constants(lowering: Lowering, path: GatePath, codes: QParams, bias: Tensor, unit: Tensor) -> dict[str, Any]:
    """Returns weight, bias, multiplier and shift of one path; `unit` is the step of every row's gate.

    A row whose bias would not fit next to its products gets a larger scale: compared with that bias its weights are
    negligible.
    """
    data, scales = lowering.data(path.value), lowering.weight_scales(path.value)
    assert data is not None
    wanted = torch.maximum(scales, bias.abs() / (codes.scale * 2**BIAS_BITS))
    weight = torch.round(data.to(torch.float64) * (scales / wanted)[:, None]).to(torch.int8)
    steps = codes.scale * wanted
    sums = torch.round(bias / steps).to(torch.int64) - codes.zero_point * weight.sum(1, dtype=torch.int64)
    end = "x" if path is GatePath.INPUT else "h"
    if codes.element.symmetric:
        factors = wide.path_factors(weight, sums, steps / unit)
        return _constants(lowering, end, (weight, sums.to(torch.int32), *factors))
    fixed = [Fixed.of(float(factor)) for factor in steps / unit]
    shift = torch.tensor([factor.shift for factor in fixed], dtype=torch.int32)
    low, high = sum_bounds(weight, sums, 0, codes.element)
    reach = torch.maximum(high, -low).to(torch.float64)
    worst = int((reach * 2.0 ** shift.clamp(min=0)).argmax())
    if float(reach[worst]) * 2.0 ** max(int(shift[worst]), 0) >= LARGEST_SUM:
        raise CortadoError(
            f"{describe(lowering.bound.node)}: the sum before a gate may reach {float(reach[worst] * steps[worst]):g}, "
            "which doesn't fit 32 bits; check the calibration data and the weights"
        )
    multiplier = torch.tensor([factor.multiplier for factor in fixed], dtype=torch.int32)
    return _constants(lowering, end, (weight, sums.to(torch.int32), multiplier, shift))


def _constants(lowering: Lowering, end: str, parts: Sequence[Tensor]) -> dict[str, Any]:
    names = [f"{part}_{end}" for part in ("weight", "bias", "multiplier", "shift")]
    return {name: lowering.constant(name, tensor) for name, tensor in zip(names, parts, strict=True)}


def start_factor(lowering: Lowering, start: QParams | None, step: float, name: str = "start") -> dict[str, int]:
    """Returns the factor from the codes of an initial state to the kernel's own steps; zeros if there is none."""
    if start is None:
        return {f"{name}_zero_point": 0, f"{name}_multiplier": 0, f"{name}_shift": 0}
    if start.element.symmetric:
        found = wide.factor(start.scale / step)
        return {f"{name}_zero_point": 0, f"{name}_multiplier": found["multiplier"], f"{name}_shift": found["shift"]}
    fixed = Fixed.of(start.scale / step)
    if fixed.shift > LARGEST_START_SHIFT:
        raise CortadoError(
            f"{describe(lowering.bound.node)}: its initial state has a scale of {start.scale:g}, far beyond that of "
            "the layer's own states; check the calibration data"
        )
    return {f"{name}_zero_point": start.zero_point, **fixed.arguments(name)}


def out_factor(step: float, out: QParams) -> dict[str, int]:
    if out.element.symmetric:
        found = wide.factor(step / out.scale)
        return {"out_multiplier": found["multiplier"], "out_shift": found["shift"], "out_zero_point": 0}
    fixed = Fixed.of(step / out.scale)
    return {"out_multiplier": fixed.multiplier, "out_shift": fixed.shift, "out_zero_point": out.zero_point}


def unit_rows(units: Sequence[float], count: int) -> Tensor:
    """Returns the step of every row: `count` rows for each gate."""
    return torch.tensor(units, dtype=torch.float64).repeat_interleave(count)


def start_q(lowering: Lowering) -> list[QParams]:
    found = [qparams(node) for node in lowering.bound.nodes("start")]
    return [known for known in found if known is not None]


def start_bits(start: QParams) -> int:
    """Returns by how many bits a given initial state exceeds 1; an excess of up to one step is ignored."""
    return min(max(math.ceil(math.log2(max(wide.seen(start) - start.scale, 1.0))), 0), MOST_CELL_BITS)


# ---- the C kernel --------------------------------------------------------------------------------------------


def _stream(path: Path, gates: int, core: Core, run: int | None, vector: int = VECTOR) -> Array:
    """Orders rows as the kernels read them: a few units at a time, gate after gate; `vector` codes fill a vector."""
    together, units = _together(core, run), len(path.bias) // gates
    blocks = -(-units // together)

    def ordered(data: Tensor) -> np.ndarray[Any, Any]:
        by_gate = data.numpy().reshape(gates, units, -1)
        padded = np.pad(by_gate, ((0, 0), (0, blocks * together - units), (0, 0)))
        moved = padded.reshape(gates, blocks, together, -1).transpose(1, 0, 2, 3)
        return moved.reshape(blocks * gates * together, -1)

    weights, *tables = (ordered(data) for data in (path.weight, path.bias, path.multiplier, path.shift))
    bias, multiplier, shift = (table[:, 0] for table in tables)
    if run is not None:
        stored = StoredWeights.of(weights, run)
        stream = pack_narrow_gates(stored.codes, stored.factors, bias, multiplier, shift, core)
    elif core is Core.MVE:
        stream = packing.pack_gates_mve(weights, bias, multiplier, shift, vector)
    else:
        stream = packing.pack_gates(weights, bias, multiplier, shift, core)
    return Array(stream, packed=tuple(path.weight.shape))


def _together(core: Core, run: int | None) -> int:
    """Returns how many units have their gates computed together."""
    return NARROW_ROWS if run is not None else packing.group_channels(core)


CellArguments = tuple[Argument, ...]


@dataclass(frozen=True)
class LayerKind:
    """The differences between the kernels of LSTM, GRU and RNN layers: members that only one kind has, the states that
    it can be given, and where it writes, depending on which results are read."""

    name: str
    gates: int
    state_bytes: int
    more: Callable[[Call], Mapping[str, int]]
    states: int = 1
    # Where it writes, by the results that nothing reads; None: a second result, in the row after the operands.
    written: Sequence[tuple[tuple[str, ...], tuple[Argument | None, ...]]] = (((), (Operand.OUT,)),)

    def forms(self) -> Iterator[tuple[Callable[[Call], bool], CellArguments]]:
        """Yields predicates for calls, with the arguments after the input: the states, and where results are
        written."""
        for given in (False, True):
            before = tuple(Row(1 + index) if given else Absent() for index in range(self.states))
            for unread, written in self.written:
                moved = tuple(Written(Row(1 + given * self.states)) if one is None else one for one in written)
                yield partial(_is_form, given, frozenset(unread)), (*before, *moved, Operand.SCRATCH)

    def scratch(self, call: Call) -> int:
        """Returns the bytes of scratch: the states, and two rows that alternate if the output doesn't hold all of them,
        else one row for a given initial state."""
        aside = call["last"] or not call.gives(call.operator.results[0])
        return call.out_shape[2] * (self.state_bytes + (2 if aside else 1 if call["start"] else 0))


def _is_form(given: bool, unread: frozenset[str], call: Call) -> bool:
    return bool(call["start"]) == given and call.unread == unread


def _fields(kind: LayerKind, core: Core, call: Call) -> dict[str, Field]:
    batch, steps, inputs = call.shape("input")
    run = call["run"]
    return {
        "in_c": inputs,
        "units": call.out_shape[2],
        "steps": steps,
        "sequences": batch,
        "last_only": int(call["last"]),
        "out_offset": call["out_zero_point"],
        "starts": int(bool(call["start"])),
        **kind.more(call),
        "together": _together(core, run),
        "zero": Array(np.full(call.out_shape[2], call["out_zero_point"], dtype=np.int8)),
        "weights_x": _stream(Path.of(call.arguments, "x"), kind.gates, core, run),
        "weights_h": _stream(Path.of(call.arguments, "h"), kind.gates, core, run),
    }


def _wide_fields(kind: LayerKind, call: Call) -> dict[str, Field]:
    """Returns the descriptor of a layer of int16 codes with vector instructions."""
    streams = {
        f"weights_{end}": _stream(Path.of(call.arguments, end), kind.gates, Core.MVE, None, wide.VECTOR)
        for end in wide.ENDS
    }
    return {**wide.fields(kind.more, kind.name == "gru", call), **streams, **dict.fromkeys(wide.FACTORS)}


def _wide_work(kind: LayerKind, call: Call) -> Work:
    batch, steps, inputs = call.shape("input")
    return recurrent_work(
        Core.MVE,
        LayerSize(batch, steps, inputs, call.out_shape[2]),
        together=_together(Core.MVE, None),
        starts=bool(call["start"]),
        more=kind.more(call),
        run=None,
        vector=wide.VECTOR,
    )


def _work(kind: LayerKind, core: Core, call: Call) -> Work:
    batch, steps, inputs = call.shape("input")
    run = call["run"]
    return recurrent_work(
        core,
        LayerSize(batch, steps, inputs, call.out_shape[2]),
        together=_together(core, run),
        starts=bool(call["start"]),
        more=kind.more(call),
        run=run,
    )


def _runs(length: int | None, call: Call) -> bool:
    run = call["run"]
    return run is None if length is None else run is not None and (run > 0) == (length > 0)


_HAS_RUNS = {length: partial(_runs, length) for length in (None, 0, RUN)}


# Cores, how they compute whole steps, and with which function for their gates; the first entry that takes a layer is
# used. The run length is given for weights of 4 bits, None for others.
_GATES: tuple[tuple[int | None, str, tuple[Core, ...], str], ...] = (
    (None, "__mve", (Core.MVE,), ""),  # whole steps with vector instructions
    (None, "", (Core.DSP,), "gates_s8__dsp"),
    (None, "", (Core.LONG,), "gates_s8__scalar"),
    (None, "", (Core.SMALL,), "gates_s8__scalar"),
    (None, "", EVERY_CORE, "gates_s8"),
    *(
        (run, "", cores, f"gates_{name}_s8{isa}")
        for run, name in ((0, "narrow"), (RUN, "runs"))
        for cores, isa in (((Core.MVE,), "__mve"), ((Core.DSP,), "__dsp"), (EVERY_CORE, ""))
    ),
)


def kernels(kind: LayerKind) -> KernelTable:
    """Returns the kernels of one kind of layer over all its steps."""

    def rows(form: Callable[[Call], bool], behind: CellArguments) -> Iterator[KernelRow]:
        for run, isa, cores, gates in _GATES:
            yield KernelRow(
                f"{kind.name}_s8{isa}",
                INT8,
                weights=INT8 if run is None else INT4,
                cores=cores,
                fits=All((form, _HAS_RUNS[run])),
                arguments=(Operand.LAYER, Row(0), *behind, *((Callee(f"cortado_{gates}"),) if gates else ())),
                struct="cortado_recurrent_t",
                fields=partial(_fields, kind, cores[0]),
                scratch=kind.scratch,
                scratch_check=f"{kind.name}_s8_scratch",
                work=partial(_work, kind, cores[0]),
            )
        portable = KernelRow(
            f"{kind.name}_s16",
            INT16,
            fits=form,
            arguments=(Operand.LAYER, Row(0), *behind),
            struct="cortado_recurrent_s16_t",
            fields=partial(wide.fields, kind.more, kind.name == "gru"),
            scratch=lambda call: 6 * call.out_shape[2],
            scratch_check="recurrent_s16_scratch",
            work=partial(wide.work, kind.gates),
        )
        yield replace(
            portable,
            symbol=f"{kind.name}_s16__mve",
            cores=(Core.MVE,),
            fits=All((form, wide.fits_vectors)),
            fields=partial(_wide_fields, kind),
            work=partial(_wide_work, kind),
        )
        yield portable

    return KernelTable(tuple(row for form, behind in kind.forms() for row in rows(form, behind)))


# ---- samples -------------------------------------------------------------------------------------------------


def draw_layer(draw: CaseDraw, gates: int, states: int) -> dict[str, Any]:
    """Draws the arguments that all three kinds take: sums that saturate gates, and sums that don't."""
    seed = draw.seed()
    batch, steps = draw.pick([1, 1, 2]), draw.whole(1, 6)
    inputs, units = draw.channels(), draw.channels()
    start = [sampling.codes(seed + 7 + i, (batch, units)) for i in range(states if draw.flag() else 0)]
    arguments: dict[str, Any] = {"input": sampling.codes(seed, (batch, steps, inputs)), "start": start}
    for index, (name, width) in enumerate((("x", inputs), ("h", units))):
        rows = gates * units
        multiplier, shift = sampling.fixed_points(seed + index, rows, -9, draw.pick([-3, -3, 1]))
        arguments |= {
            f"weight_{name}": sampling.codes(seed + 3 + index, (rows, width), *sampling.WEIGHTS),
            f"bias_{name}": sampling.codes(seed + 5 + index, (rows,), -(2**15), 2**15, torch.int32),
            f"multiplier_{name}": multiplier,
            f"shift_{name}": shift,
        }
    factors, shifts = sampling.fixed_points(seed + 11, 1, -8, 4)
    return arguments | {
        "start_zero_point": draw.zero_point(),
        "start_multiplier": int(factors[0]),
        "start_shift": int(shifts[0]),
        "reverse": draw.flag(),
        "last": draw.flag(),
        "out_zero_point": draw.zero_point(),
    }


def samples_of(draw_case: Callable[[CaseDraw], dict[str, Any]]) -> Callable[[CaseDraw], dict[str, Any]]:
    """Draws samples of int8 codes, similar ones of int16 codes, and samples with weights of 4 bits."""

    def samples(draw: CaseDraw) -> dict[str, Any]:
        case, kind = {**draw_case(draw), "run": None}, draw.element(INT4)
        if not kind.packed:
            return wide.as_wide(case, draw.seed()) if kind.symmetric else case
        run = draw.pick([0, RUN])
        sizes = {name: tuple(case[name].shape) for name in ("weight_x", "weight_h")}
        return {**case, **{name: drawn(draw.seed(), one, run) for name, one in sizes.items()}, "run": run}

    return samples


def layer_operator(parameters: str, draw_case: Callable[[CaseDraw], dict[str, Any]], **record: Any) -> Operator:
    """Makes the operator of one kind of layer: the shared parameters, followed by its own `parameters`."""
    return Operator(
        parameters=f"{ARGUMENTS}, {parameters}",
        shape=output_shape,
        macs=macs,
        element=ElementOf(("input",)),
        tensors=("input", "start"),
        int4=Int4Form.GATES,
        last_steps=("last", "last_cells") if "last_cells" in parameters else ("last",),
        constraints=CONSTRAINTS,
        no_pte=NO_PTE,
        samples=samples_of(draw_case),
        **record,
    )
