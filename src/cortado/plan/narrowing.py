"""int4 weights: which layers of a lowered graph can have them, what each loses by it, and the graph with them.

Convolutions and linear layers, recurrent layers, tables of embeddings. Their int8 codes are rounded to factor * q,
|q| <= 7 (ops/conv/int4): with one factor for an output channel, which then becomes part of the channel's multiplier, or
with one for every `run` products. Factors are those of the least squared error, each input channel counted by the mean
square of what calibration data have there; biases make up for what the rounding does to the mean of a channel.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from cortado.base.element import INT8, INT32
from cortado.base.errors import CortadoError
from cortado.base.numerics import Fixed
from cortado.frontend.quantize.judgement import FloatRun, drawn_runs
from cortado.ir.graph import TO_NCHW, TO_NHWC, add_constant, remove_unused_constants
from cortado.ir.op import Operator
from cortado.ir.passes import Level, run_pass
from cortado.ir.schemas import overload
from cortado.ops.conv import int4
from cortado.ops.conv.conv2d import CONV2D, NARROW_CONV2D
from cortado.ops.conv.convolution import sum_bounds
from cortado.ops.move import embedding
from cortado.ops.move.embedding import EMBEDDING
from cortado.ops.recurrent import gru, lstm, rnn
from cortado.ops.recurrent.layer import LARGEST_SUM
from cortado.passes import PIPELINE, CortexMPass
from cortado.plan.lowered import LoweredCall, LoweredGraph, Ref, reference_of
from cortado.plan.pricing import references

Tensor = torch.Tensor
Values = Mapping[str, Any]
SAMPLES = 8  # calibration inputs, at most
WORK = 8_000_000  # values that are computed for them, at most, beyond the first
FEW = 64  # values of a channel, below which its own mean square says little


@dataclass(frozen=True)
class NarrowLayer:
    """A layer with int4 weights: the operator that it becomes, the constants of its call that are others, by argument,
    and the arguments that it has beside them."""

    call: str
    module: str
    operator: Operator
    constants: Mapping[str, Tensor]
    arguments: Mapping[str, int]
    saved: int  # bytes of flash that its weights take less
    noise: float = 0.0  # power at the outputs, beside theirs, if no other layer had int4 weights

    @property
    def run(self) -> int:
        return self.arguments["run"]


@dataclass(frozen=True)
class WideWeights:
    """A layer whose weights stay int8, and why."""

    call: str
    module: str
    why: str


@dataclass(frozen=True)
class ObservedLayer:
    """A graph and its values on a few calibration inputs."""

    graph: LoweredGraph
    values: Sequence[Values]
    correct: bool = True  # biases make up for rounding
    run: int = 0
    wide: list[WideWeights] = field(default_factory=list)

    def layers(self) -> list[NarrowLayer]:
        """All that can have int4 weights; the others are noted in `wide`."""
        found = []
        for call in self.graph.calls:
            why = _refused(self.graph, call)
            layer = self._narrowed(call) if why is None else None
            if layer is not None:
                found.append(layer)
            elif why != NO_WEIGHTS:
                self.wide.append(WideWeights(call.name, call.module, why or NO_ROOM))
        return found

    def with_noise(self, layers: Sequence[NarrowLayer]) -> list[NarrowLayer]:
        return [replace(layer, noise=self._noise(layer)) for layer in layers]

    def _narrowed(self, call: LoweredCall) -> NarrowLayer | None:
        """None where it would save nothing, or its sums would not fit."""
        found = _NARROWED[call.operator](self, call)
        return found if found is not None and found.saved > 0 else None

    def _noise(self, layer: NarrowLayer) -> float:
        """Returns the noise of each output, its share of the output's own power; of them all the sum."""
        graph, total = with_layers(self.graph, [layer]), 0.0
        for values in self.values:
            changed = _run_again(graph, values, layer.call)
            for name in graph.outputs:
                before, now = (one[name].to(torch.float64) for one in (values, changed))
                power = float((before**2).sum())
                total += float(((now - before) ** 2).sum()) / power if power > 0 else 0.0
        return total / len(self.values)


# ---- what each kind of layer becomes ---------------------------------------------------------------------------------


def _convolution(observed: ObservedLayer, call: LoweredCall) -> NarrowLayer | None:
    constants, arguments, run = observed.graph.constants, call.arguments, observed.run
    weight, bias = (None if one is None else constants[one.name] for one in (arguments["weight"], arguments["bias"]))
    assert weight is not None
    source, offset = arguments["input"].name, arguments["input_offset"]
    inputs = [values[source].to(torch.float64) + offset for values in observed.values]
    columns = _importance(inputs).repeat(weight.shape[1] * weight.shape[2])
    codes, factors = _codes(weight.reshape(len(weight), -1), columns, run)
    near = (codes * factors).reshape(weight.shape)
    moved = _mean_change(call, near - weight, inputs) if observed.correct else torch.zeros(len(weight))
    start = torch.round((0 if bias is None else bias.to(torch.float64)) - moved)
    changed: dict[str, Tensor] = {"weight": near.to(torch.int8)}
    if run == 0:
        per_channel = factors.reshape(-1)
        changed = {"weight": codes.reshape(weight.shape).to(torch.int8)}
        start = torch.round(start / per_channel)
        changed |= _rescaled(constants, call, ("requantize_multipliers", "requantize_shifts"), per_channel)
    if bias is not None or bool(start.any()):
        changed["bias"] = start.to(torch.int32)
    shifts = changed.get("requantize_shifts", constants[arguments["requantize_shifts"].name])
    if not _sums_fit(changed["weight"], changed.get("bias"), offset, shifts):
        return None
    saved = weight.numel() - packed_bytes(tuple(weight.shape), run)
    return NarrowLayer(call.name, call.module, NARROW_CONV2D, changed, {"run": run}, saved)


def _recurrent(observed: ObservedLayer, call: LoweredCall) -> NarrowLayer | None:
    """Both paths of its gates, of the input and of the state before, which is what the layer gives."""
    values, source = observed.graph.values, call.arguments["input"].name
    zero = values[source].qparams
    assert zero is not None  # codes of 8 bits
    state = call.results[0] if call.results else call.name
    changed: dict[str, Tensor] = {}
    saved = 0
    for path, name, point in (("x", source, zero.zero_point), ("h", state, call.arguments["out_zero_point"])):
        inputs = [known[name].to(torch.float64) - point for known in observed.values] if name else []
        found = _path(observed, call, path, point, inputs)
        if found is None:
            return None
        changed |= found
        rows, products = found[f"weight_{path}"].shape
        saved += rows * (products - packed_bytes((1, 1, 1, products), observed.run))
    return NarrowLayer(call.name, call.module, _RECURRENT[call.operator], changed, {"run": observed.run}, saved)


def _path(
    observed: ObservedLayer, call: LoweredCall, path: str, point: int, inputs: Sequence[Tensor]
) -> dict[str, Tensor] | None:
    """Weights, biases (which hold the zero point), multipliers and shifts; None where sums would not fit."""
    known = observed.graph.constants
    weight, bias, shift = (known[call.arguments[f"{part}_{path}"].name] for part in ("weight", "bias", "shift"))
    counts = _importance(inputs) if inputs else torch.ones(weight.shape[1], dtype=torch.float64)
    codes, factors = _codes(weight, counts, observed.run)
    near = codes * factors
    means = torch.stack([x.reshape(-1, x.shape[-1]).mean(0) for x in inputs]).mean(0) if inputs else 0 * counts
    moved = (near - weight).to(torch.float64) @ means if observed.correct else torch.zeros(len(weight))
    start = bias.to(torch.float64) + point * weight.sum(1, dtype=torch.int64) - moved
    changed = {"weight": near}
    if observed.run == 0:
        changed, start = {"weight": codes}, start / factors[:, 0]
        names = (f"multiplier_{path}", f"shift_{path}")
        rescaled = _rescaled(known, call, names, factors[:, 0])
        changed |= {name.removesuffix(f"_{path}"): data for name, data in rescaled.items()}
    changed["weight"] = changed["weight"].to(torch.int8)
    changed["bias"] = (torch.round(start) - point * changed["weight"].sum(1, dtype=torch.int64)).to(torch.int32)
    if not _sums_fit(changed["weight"], changed["bias"], 0, changed.get("shift", shift), LARGEST_SUM - 1):
        return None
    return {f"{name}_{path}": data for name, data in changed.items()}


def _table(observed: ObservedLayer, call: LoweredCall) -> NarrowLayer | None:
    weight = observed.graph.constants[call.arguments["weight"].name]
    known = observed.graph.values[call.name].qparams
    assert known is not None  # codes of 8 bits
    table = embedding.narrowed(weight, known.zero_point, observed.run)
    arguments = {"zero_point": known.zero_point, "run": observed.run}
    count, width = weight.shape
    saved = count * (width // 2 - math.ceil(width / (observed.run or width)))
    return NarrowLayer(call.name, call.module, EMBEDDING, {"weight": table}, arguments, saved)


_RECURRENT = {one.name: one for one in (gru.GRU, lstm.LSTM, rnn.RNN)}
_NARROWED: dict[str, Callable[[ObservedLayer, LoweredCall], NarrowLayer | None]] = {
    CONV2D.name: _convolution,
    **dict.fromkeys(_RECURRENT, _recurrent),
    EMBEDDING.name: _table,
}
NO_WEIGHTS = ""
NO_ROOM = "int4 would save nothing, or its sums would not fit 32 bits"


def _refused(graph: LoweredGraph, call: LoweredCall) -> str | None:
    """Why a call has no int4 weights; NO_WEIGHTS: it has none at all."""
    names = [ref for name in call.arguments if name.startswith("weight") for ref in call.refs(name)]
    weights = [name for name in names if name in graph.constants]
    if not weights:
        return NO_WEIGHTS
    if call.operator not in _NARROWED:
        return f"{call.operator} takes int8 weights"
    if graph.element(call.name).bits != INT8.bits:
        return f"its tensors are {graph.element(call.name).name}, which meets int8 weights"
    sizes = graph.constants[weights[0]].shape
    if len(sizes) == 4 and sizes[3] != graph.values[call.arguments["input"].name].shape[3]:
        return "a grouped or depthwise convolution has few weights"
    return None


def packed_bytes(sizes: tuple[int, ...], run: int) -> int:
    """Bytes of weights of these sizes: half a byte each, and half a byte for the factor of each run."""
    products = sizes[1] * sizes[2] * sizes[3]
    factors = -(-products // run) if run else 0
    return sizes[0] * ((products + factors + 1) // 2)


def _importance(inputs: Sequence[Tensor]) -> Tensor:
    """How much each input channel counts: its mean square, but where few values were seen rather that of all."""
    seen = sum(x[..., 0].numel() for x in inputs)
    squares = torch.stack([(x**2).reshape(-1, x.shape[-1]).mean(dim=0) for x in inputs]).mean(dim=0)
    found: Tensor = (seen * squares + FEW * (squares.mean() + 1.0)) / (seen + FEW)
    return found


def _codes(weight: Tensor, columns: Tensor, run: int) -> tuple[Tensor, Tensor]:
    """q of [channels, products], and factors that go with it: of each channel, or of each product. `columns`: how much
    each product counts."""
    flat = weight.to(torch.int64)
    if run == 0:
        factors = int4.chosen_factors(flat, columns, int4.ROW_FACTORS)[:, None]
        return int4.rounded(flat, factors), factors
    runs, shares = int4.padded_runs(flat), int4.padded_runs(columns[None])
    rows = runs.reshape(-1, run)
    chosen = int4.chosen_factors(rows, shares.expand(len(flat), -1, -1).reshape(-1, run), int4.FACTORS)
    factors = chosen.reshape(len(flat), -1).repeat_interleave(run, dim=1)[:, : flat.shape[1]]
    return int4.rounded(flat, factors), factors


def _mean_change(call: LoweredCall, change: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """The mean change of each output channel's sum through other weights."""
    given, weights = call.arguments, change.to(torch.float64).permute(TO_NCHW)
    sums = [
        torch.conv2d(x.permute(TO_NCHW), weights, None, given["stride"], given["padding"], given["dilation"])
        for x in inputs
    ]
    return torch.stack([one.permute(TO_NHWC).mean(dim=(0, 1, 2)) for one in sums]).mean(dim=0)


def _rescaled(
    constants: Mapping[str, Tensor], call: LoweredCall, names: tuple[str, str], factors: Tensor
) -> dict[str, Tensor]:
    """Multipliers and shifts of channels whose codes stand for `factors` times as much."""
    multipliers, shifts = (constants[call.arguments[name].name] for name in names)
    known = zip(multipliers.tolist(), shifts.tolist(), factors.tolist(), strict=True)
    fixed = [Fixed.of(multiplier * factor * 2.0 ** (shift - 31)) for multiplier, shift, factor in known]
    found = [[one.multiplier for one in fixed], [one.shift for one in fixed]]
    return {name: torch.tensor(data, dtype=torch.int32) for name, data in zip(names, found, strict=True)}


def _sums_fit(weight: Tensor, bias: Tensor | None, offset: int, shifts: Tensor, most: int = INT32.high) -> bool:
    low, high = sum_bounds(weight, bias, offset, INT8)
    room = most >> shifts.clamp(min=0).to(torch.int64)
    return bool((torch.maximum(high, -low) <= room).all())


# ---- on calibration data ---------------------------------------------------------------------------------------------


def observe(graph: LoweredGraph, runs: Sequence[FloatRun], *, run: int, correct: bool) -> ObservedLayer:
    """The graph's values on some of these calibration inputs; of a model with state they are steps."""
    size = sum(int(torch.Size(value.shape).numel()) for value in graph.values.values())
    some = drawn_runs([one.begins for one in runs], min(SAMPLES, 1 + WORK // max(size, 1)))
    return ObservedLayer(graph, list(references(graph, [runs[place] for place in some])), correct, run)


def _run_again(graph: LoweredGraph, known: Values, changed: str) -> Values:
    """Values that depend on one call, computed again; the others are known."""
    values, others = dict(known) | dict(graph.constants), {changed}
    for call in graph.calls:
        if call.name == changed or not others.isdisjoint(call.refs(*call.arguments)):
            made = reference_of(call, values)
            values.update(made)
            others.update(name for name, value in made.items() if not torch.equal(value, known[name]))
    return values


# ---- the graph with int4 weights -------------------------------------------------------------------------------------


def _constant_name(layer: NarrowLayer, argument: str) -> str:
    return f"{layer.call}_{argument}_int4"


def with_layers(graph: LoweredGraph, layers: Sequence[NarrowLayer]) -> LoweredGraph:
    known = {layer.call: layer for layer in layers}
    constants = {_constant_name(layer, name): data for layer in layers for name, data in layer.constants.items()}

    def changed(call: LoweredCall) -> LoweredCall:
        layer = known.get(call.name)
        if layer is None:
            return call
        others = {name: Ref(_constant_name(layer, name)) for name in layer.constants}
        arguments = {**call.arguments, **others, **layer.arguments}
        return replace(call, operator=layer.operator.name, arguments=arguments)

    return replace(graph, constants={**graph.constants, **constants}, calls=tuple(map(changed, graph.calls)))


class Int4Weights(CortexMPass):
    """The layers that are chosen for it get int4 weights: each becomes the operator that reads them, with its
    constants."""

    name = "int4-weights"
    level_before = Level.LOWERED
    level_after = Level.LOWERED

    def __init__(self, program: ExportedProgram, layers: Sequence[NarrowLayer]) -> None:
        self._program, self._layers = program, {layer.call: layer for layer in layers}

    def run(self, module: GraphModule) -> bool:
        for node in [node for node in module.graph.nodes if node.name in self._layers]:
            layer = self._layers[node.name]
            others = {
                name: add_constant(self._program, _constant_name(layer, name), data)
                for name, data in layer.constants.items()
            }
            node.target = overload(layer.operator)
            node.kwargs = {**node.kwargs, **others, **layer.arguments}
        remove_unused_constants(self._program)
        return bool(self._layers)


def apply_layers(program: ExportedProgram, layers: Sequence[NarrowLayer], intermediates: Path | None = None) -> None:
    """The same to a lowered program, in place: as one more pass, behind those of the pipeline."""
    run_pass(program, Int4Weights(program, layers), len(PIPELINE) + 1, intermediates)


def chosen_layers(
    graph: LoweredGraph, layers: Sequence[NarrowLayer], flash: Callable[[LoweredGraph], int], limit: int
) -> list[NarrowLayer]:
    """Chooses as many layers as it takes to fit `limit` bytes of flash, those first that cost the least noise for a
    byte."""
    left = sorted(layers, key=lambda layer: (layer.noise / layer.saved, layer.call))
    chosen: list[NarrowLayer] = []
    total = before = flash(graph)
    while total > limit:
        if not left:
            raise CortadoError(
                f"--weights auto: with int4 weights in all {len(chosen)} layers that can have them the model needs "
                f"{total:,} bytes of flash ({before:,} with int8 weights), expected at most {limit:,}. What would "
                "help: fewer channels or layers"
            )
        missing = total - limit
        while left and missing > 0:
            missing -= left[0].saved
            chosen.append(left.pop(0))
        total = flash(with_layers(graph, chosen))
    return chosen
