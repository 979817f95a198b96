"""int4 weights: which layers of a lowered graph can have them, what each loses by it, and the graph with them.

These are convolutions and linear layers, recurrent layers, embedding tables. Their int8 codes are rounded to factor *
q, |q| <= 7 (ops/conv/int4), with one factor for each output channel, which is folded into the channel's multiplier, or
with one for every `run` products. Factors minimize the squared error, weighted by the mean square of each product's
input on calibration data; then the codes are rounded with error feedback. Layers are processed in
order: each is fitted to the outputs of the earlier layers with their int4 weights, and its biases correct the remaining
shift of each channel's mean.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from cortado.base.element import INT4, INT32, Element
from cortado.base.errors import CortadoError
from cortado.base.numerics import Fixed, Tensor
from cortado.frontend.precision.judgement import FloatRun, drawn_runs
from cortado.ir.graph import TO_NCHW, add_constant, remove_unused_constants
from cortado.ir.op import Int4Form, operator_of, registry
from cortado.ir.passes import Level, run_pass
from cortado.ir.schemas import overload
from cortado.ops.conv import int4
from cortado.ops.conv.convolution import sum_bounds
from cortado.ops.move import embedding
from cortado.ops.recurrent.layer import LARGEST_SUM
from cortado.passes import PIPELINE, CortexMPass
from cortado.plan.lowered import LoweredCall, LoweredGraph, Ref, reference_of
from cortado.plan.pricing import references

# ---- rounding with error feedback: the error of one weight is compensated by the next ones of its channel ------------

FEW = 64  # the weight, in rows, of the prior that steadies moments of few rows
ROWS = 2048  # rows from which moments are computed, at most
PIECE = 1024  # columns in a block: errors are distributed within it


@dataclass(frozen=True)
class Columns:
    """The inputs of a layer, one column for each product: their means and second moments."""

    mean: Tensor  # [products]
    moments: Tensor  # [products, products]

    @staticmethod
    def of(rows: Sequence[Tensor]) -> "Columns":
        """Computes the columns from `rows`, [positions, products] of each sample; of many rows, an evenly spaced
        subset."""
        together = torch.cat(list(rows)).to(torch.float64)
        some = together[:: max(1, -(-len(together) // ROWS))]
        counted = len(some) + FEW
        moments = some.T @ some
        usual = float(moments.diagonal().mean()) / max(len(some), 1) + 1.0
        moments.diagonal().add_(FEW * usual)
        return Columns(together.mean(0), moments / counted)

    @staticmethod
    def unknown(products: int) -> "Columns":
        return Columns(torch.zeros(products, dtype=torch.float64), torch.eye(products, dtype=torch.float64))

    @property
    def importance(self) -> Tensor:
        return self.moments.diagonal()


def windows(
    image: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """Returns the windows of an image [n, h, w, c] as [positions, products], in the order of the kernel's weights."""
    channels = image.shape[3]
    sizes = (tuple(one) for one in (kernel, dilation, padding, stride))
    found = torch.nn.Unfold(*sizes)(image.permute(TO_NCHW))
    by_tap = found.reshape(len(found), channels, -1, found.shape[2]).permute(0, 3, 2, 1)
    return by_tap.reshape(-1, by_tap.shape[2] * channels)


def rounded(weight: Tensor, factors: Tensor, columns: Columns) -> Tensor:
    """Rounds weights [channels, products] to q with factor * q near them; one of `factors` for each channel, or for
    each product."""
    every = factors.to(torch.float64).expand(weight.shape)
    found = torch.zeros_like(weight, dtype=torch.int64)
    for start in range(0, weight.shape[1], PIECE):
        piece = slice(start, start + PIECE)
        found[:, piece] = _piece(weight[:, piece].to(torch.float64), every[:, piece], columns.moments[piece, piece])
    return found


def _piece(weight: Tensor, factors: Tensor, moments: Tensor) -> Tensor:
    order = moments.diagonal().argsort(descending=True, stable=True)
    left, scales = weight[:, order].clone(), factors[:, order]
    share = torch.linalg.cholesky(torch.linalg.inv(moments[order][:, order]), upper=True)
    codes = torch.zeros_like(left)
    for place in range(left.shape[1]):
        codes[:, place] = (left[:, place] / scales[:, place]).round().clamp(-int4.LARGEST, int4.LARGEST)
        error = (left[:, place] - codes[:, place] * scales[:, place]) / share[place, place]
        left[:, place + 1 :] -= error[:, None] * share[place, place + 1 :]
    found = torch.zeros_like(weight, dtype=torch.int64)
    found[:, order] = codes.to(torch.int64)
    return found


def factors_of(weight: Tensor, columns: Columns, run: int) -> Tensor:
    """Returns the factors for int8 codes [channels, products] that lose least if each weight is rounded alone: one for
    each channel or, with `run`, one for each product."""
    flat = weight.to(torch.int64)
    if run == 0:
        return int4.chosen_factors(flat, columns.importance, int4.ROW_FACTORS)[:, None]
    runs, shares = int4.padded_runs(flat), int4.padded_runs(columns.importance[None])
    every = shares.expand(len(flat), -1, -1).reshape(-1, run)
    chosen = int4.chosen_factors(runs.reshape(-1, run), every, int4.FACTORS)
    return chosen.reshape(len(flat), -1).repeat_interleave(run, dim=1)[:, : flat.shape[1]]


# ---- layers ----------------------------------------------------------------------------------------------------------

Values = Mapping[str, Any]
SAMPLES = 64  # calibration inputs, at most
WORK = 4_000_000  # values computed for them, at most, beyond the first input
NOISE_SAMPLES = 8  # inputs on which the noise of each layer alone is measured


@dataclass(frozen=True)
class NarrowLayer:
    """A layer with int4 weights: the constants of its call that change, by argument, and the arguments that are
    added."""

    call: str
    module: str
    constants: Mapping[str, Tensor]
    arguments: Mapping[str, int]
    saved: int  # bytes of flash that its weights save
    noise: float = 0.0  # noise at the outputs relative to their power, if only this layer has int4 weights

    @property
    def run(self) -> int:
        return self.arguments["run"]


@dataclass(frozen=True)
class WideWeights:
    """A layer whose weights stay int8, and the reason."""

    call: str
    module: str
    why: str


@dataclass(frozen=True)
class LayerInputs:
    """A graph's values for one calibration input: with int8 weights, and with int4 weights in the layers processed so
    far."""

    wide: Values
    narrow: dict[str, Any]

    @staticmethod
    def of(values: Values) -> "LayerInputs":
        return LayerInputs(values, dict(values))


@dataclass(frozen=True)
class ObservedCodes:
    """A graph and its values on calibration inputs."""

    graph: LoweredGraph
    values: Sequence[Values]
    correct: bool = True  # whether biases correct for rounding
    run: int = 0
    wide: dict[str, WideWeights] = field(default_factory=dict)

    def layers(self, taken: Collection[str] | None = None) -> list[NarrowLayer]:
        """Returns all layers that can have int4 weights and notes the others in `wide`; each is fitted to the outputs
        of the earlier layers with int4 weights, or of those among them that are `taken`."""
        found, samples = [], [LayerInputs.of(values) for values in self.values]
        changed: set[str] = set()
        for call in self.graph.calls:
            why = _refused(self.graph, call)
            layer = self._narrowed(call, samples) if why is None else None
            if layer is not None:
                found.append(layer)
            elif why != NO_WEIGHTS:
                self.wide[call.name] = WideWeights(call.name, call.module, why or NO_ROOM)
            used = layer if taken is None or call.name in taken else None
            if used is not None or not changed.isdisjoint(call.refs(*call.arguments)):
                changed.update(_run_on(call, used, samples))
        return found

    def with_noise(self, layers: Sequence[NarrowLayer]) -> list[NarrowLayer]:
        return [replace(layer, noise=self._noise(layer)) for layer in layers]

    def _narrowed(self, call: LoweredCall, samples: Sequence[LayerInputs]) -> NarrowLayer | None:
        """Returns the layer with int4 weights; None if that saves nothing or its sums don't fit."""
        form = registry().operators[call.operator].int4
        found = None if form is None else _NARROWED[form](self, call, samples)
        return found if found is not None and found.saved > 0 else None

    def _noise(self, layer: NarrowLayer) -> float:
        """Returns the noise of the outputs, each relative to its own power, summed over all."""
        graph, total = with_layers(self.graph, [layer]), 0.0
        for values in self.values[:NOISE_SAMPLES]:
            changed = _run_again(graph, values, layer.call)
            for name in graph.outputs:
                before, now = (one[name].to(torch.float64) for one in (values, changed))
                power = float((before**2).sum())
                total += float(((now - before) ** 2).sum()) / power if power > 0 else 0.0
        return total / len(self.values[:NOISE_SAMPLES])


def _run_on(call: LoweredCall, layer: NarrowLayer | None, samples: Sequence[LayerInputs]) -> set[str]:
    """Runs a call, or its int4 layer, on the outputs of the earlier layers; returns the names of its results."""
    made: dict[str, Any] = {}
    for sample in samples:
        constants = {} if layer is None else _constants_of(layer)
        made = reference_of(call if layer is None else _with_layer(call, layer), {**sample.narrow, **constants})
        sample.narrow.update(made)
    return set(made)


# ---- what each kind of layer becomes ---------------------------------------------------------------------------------


def _convolution(observed: ObservedCodes, call: LoweredCall, samples: Sequence[LayerInputs]) -> NarrowLayer | None:
    constants, arguments, run = observed.graph.constants, call.arguments, observed.run
    weight, bias = (None if one is None else constants[one.name] for one in (arguments["weight"], arguments["bias"]))
    assert weight is not None
    source, offset = arguments["input"].name, arguments["input_offset"]

    def columns(values: Sequence[Values]) -> Columns:
        inputs = [one[source].to(torch.float64) + offset for one in values]
        places = (arguments["stride"], arguments["padding"], arguments["dilation"])
        return Columns.of([windows(one, tuple(weight.shape[1:3]), *places) for one in inputs])

    before, now = columns([one.wide for one in samples]), columns([one.narrow for one in samples])
    flat = weight.reshape(len(weight), -1)
    codes, factors = _codes(flat, now, run)
    near = (codes * factors).reshape(weight.shape)
    start = torch.zeros(len(weight)) if bias is None else bias.to(torch.float64)
    start = torch.round(start - _moved(flat, codes * factors, before, now) if observed.correct else start)
    changed: dict[str, Tensor] = {"weight": near.to(torch.int8)}
    if run == 0:
        per_channel = factors.reshape(-1)
        changed = {"weight": codes.reshape(weight.shape).to(torch.int8)}
        start = torch.round(start / per_channel)
        changed |= _rescaled(constants, call, ("requantize_multipliers", "requantize_shifts"), per_channel)
    if bias is not None or bool(start.any()):
        changed["bias"] = start.to(torch.int32)
    shifts = changed.get("requantize_shifts", constants[arguments["requantize_shifts"].name])
    element = observed.graph.element(source)
    if not _sums_fit(changed["weight"], changed.get("bias"), offset, shifts, element):
        return None
    saved = weight.numel() - packed_bytes(tuple(weight.shape), run)
    return NarrowLayer(call.name, call.module, changed, {"run": run}, saved)


def _moved(weight: Tensor, near: Tensor, before: Columns, now: Columns) -> Tensor:
    """Returns the mean change of each channel's sum, due to other weights and to other inputs."""
    return near.to(torch.float64) @ now.mean - weight.to(torch.float64) @ before.mean


def _recurrent(observed: ObservedCodes, call: LoweredCall, samples: Sequence[LayerInputs]) -> NarrowLayer | None:
    """Narrows both paths of a recurrent layer's gates: from the input, and from the previous state, which is the
    layer's output."""
    values, source = observed.graph.values, call.arguments["input"].name
    zero = values[source].qparams
    assert zero is not None  # codes of 8 bits
    state = call.results[0] if call.results else call.name
    changed: dict[str, Tensor] = {}
    saved = 0
    for path, name, point in (("x", source, zero.zero_point), ("h", state, call.arguments["out_zero_point"])):
        both = [
            [known[name].to(torch.float64) - point for known in side] if name else []
            for side in ([one.wide for one in samples], [one.narrow for one in samples])
        ]
        found = _path(observed, call, path, point, both)
        if found is None:
            return None
        changed |= found
        rows, products = found[f"weight_{path}"].shape
        saved += rows * (products - packed_bytes((1, 1, 1, products), observed.run))
    return NarrowLayer(call.name, call.module, changed, {"run": observed.run}, saved)


def _path(
    observed: ObservedCodes, call: LoweredCall, path: str, point: int, inputs: Sequence[Sequence[Tensor]]
) -> dict[str, Tensor] | None:
    """Returns weights, biases (with the zero point folded in), multipliers and shifts of one path; None if the sums
    don't fit. `inputs`: with int8 weights in the earlier layers, and with int4 weights."""
    known = observed.graph.constants
    weight, bias, shift = (known[call.arguments[f"{part}_{path}"].name] for part in ("weight", "bias", "shift"))
    before, now = (
        Columns.of([x.reshape(-1, x.shape[-1]) for x in side]) if side else Columns.unknown(weight.shape[1])
        for side in inputs
    )
    codes, factors = _codes(weight, now, observed.run)
    near = codes * factors
    moved = _moved(weight, near, before, now) if observed.correct else torch.zeros(len(weight))
    start = bias.to(torch.float64) + point * weight.sum(1, dtype=torch.int64) - moved
    changed = {"weight": near}
    if observed.run == 0:
        changed, start = {"weight": codes}, start / factors[:, 0]
        names = (f"multiplier_{path}", f"shift_{path}")
        rescaled = _rescaled(known, call, names, factors[:, 0])
        changed |= {name.removesuffix(f"_{path}"): data for name, data in rescaled.items()}
    changed["weight"] = changed["weight"].to(torch.int8)
    changed["bias"] = (torch.round(start) - point * changed["weight"].sum(1, dtype=torch.int64)).to(torch.int32)
    element, shifts = observed.graph.element(call.arguments["input"].name), changed.get("shift", shift)
    if not _sums_fit(changed["weight"], changed["bias"], 0, shifts, element, LARGEST_SUM - 1):
        return None
    return {f"{name}_{path}": data for name, data in changed.items()}


def _table(observed: ObservedCodes, call: LoweredCall, samples: Sequence[LayerInputs]) -> NarrowLayer | None:
    weight = observed.graph.constants[call.arguments["weight"].name]
    known = observed.graph.values[call.name].qparams
    assert known is not None  # codes of 8 bits
    table = embedding.narrowed(weight, known.zero_point, observed.run)
    arguments = {"zero_point": known.zero_point, "run": observed.run}
    count, width = weight.shape
    saved = count * (width // 2 - math.ceil(width / (observed.run or width)))
    return NarrowLayer(call.name, call.module, {"weight": table}, arguments, saved)


_NARROWED: dict[Int4Form, Callable[[ObservedCodes, LoweredCall, Sequence[LayerInputs]], NarrowLayer | None]] = {
    Int4Form.CHANNELS: _convolution,
    Int4Form.GATES: _recurrent,
    Int4Form.TABLE: _table,
}
NO_WEIGHTS = ""
NO_ROOM = "int4 would save nothing, or its sums would not fit 32 bits"


def _refused(graph: LoweredGraph, call: LoweredCall) -> str | None:
    """Returns why a call can't have int4 weights; NO_WEIGHTS if it has no weights at all."""
    names = [ref for name in call.arguments if name.startswith("weight") for ref in call.refs(name)]
    weights = [name for name in names if name in graph.constants]
    if not weights:
        return NO_WEIGHTS
    operator, element = registry().operators[call.operator], graph.element(call.name)
    if operator.int4 is None:
        return f"{call.operator} takes int8 weights"
    kernels = operator.kernel
    if kernels is None or element.name not in kernels.meeting(INT4):
        return f"its tensors are {element.name}, which needs int8 weights"
    sizes = graph.constants[weights[0]].shape
    if len(sizes) == 4 and sizes[3] != graph.values[call.arguments["input"].name].shape[3]:
        return "a grouped or depthwise convolution has only few weights"
    return None


def packed_bytes(sizes: tuple[int, ...], run: int) -> int:
    """Returns the bytes of packed weights: half a byte each, and half a byte for the factor of each run."""
    products = sizes[1] * sizes[2] * sizes[3]
    factors = -(-products // run) if run else 0
    return sizes[0] * ((products + factors + 1) // 2)


def _codes(weight: Tensor, columns: Columns, run: int) -> tuple[Tensor, Tensor]:
    """Returns q for int8 codes [channels, products] and its factors: one for each channel, or for each product."""
    factors = factors_of(weight, columns, run)
    return rounded(weight, factors, columns), factors


def _rescaled(
    constants: Mapping[str, Tensor], call: LoweredCall, names: tuple[str, str], factors: Tensor
) -> dict[str, Tensor]:
    """Returns the multipliers and shifts of channels, scaled by `factors`."""
    multipliers, shifts = (constants[call.arguments[name].name] for name in names)
    known = zip(multipliers.tolist(), shifts.tolist(), factors.tolist(), strict=True)
    fixed = [Fixed.of(multiplier * factor * 2.0 ** (shift - 31)) for multiplier, shift, factor in known]
    found = [[one.multiplier for one in fixed], [one.shift for one in fixed]]
    return {name: torch.tensor(data, dtype=torch.int32) for name, data in zip(names, found, strict=True)}


def _sums_fit(
    weight: Tensor, bias: Tensor | None, offset: int, shifts: Tensor, element: Element, most: int = INT32.high
) -> bool:
    low, high = sum_bounds(weight, bias, offset, element)
    room = most >> shifts.clamp(min=0).to(torch.int64)
    return bool((torch.maximum(high, -low) <= room).all())


# ---- on calibration data ---------------------------------------------------------------------------------------------


def observe(graph: LoweredGraph, runs: Sequence[FloatRun], *, run: int, correct: bool) -> ObservedCodes:
    """Computes the graph's values on some of these calibration inputs; for a model with state they are steps."""
    size = sum(int(torch.Size(value.shape).numel()) for value in graph.values.values())
    some = drawn_runs([one.begins for one in runs], min(SAMPLES, 1 + WORK // max(size, 1)))
    return ObservedCodes(graph, list(references(graph, [runs[place] for place in some])), correct, run)


def _run_again(graph: LoweredGraph, known: Values, changed: str) -> Values:
    """Recomputes the values that depend on one changed call; the others are known."""
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
    constants = {name: data for layer in layers for name, data in _constants_of(layer).items()}
    calls = tuple(_with_layer(call, known[call.name]) if call.name in known else call for call in graph.calls)
    return replace(graph, constants={**graph.constants, **constants}, calls=calls)


def _constants_of(layer: NarrowLayer) -> dict[str, Tensor]:
    return {_constant_name(layer, name): data for name, data in layer.constants.items()}


def _with_layer(call: LoweredCall, layer: NarrowLayer) -> LoweredCall:
    others = {name: Ref(_constant_name(layer, name)) for name in layer.constants}
    return replace(call, arguments={**call.arguments, **others, **layer.arguments})


class Int4Weights(CortexMPass):
    """Gives the chosen layers int4 weights, by replacing the constants of their calls."""

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
            operator = operator_of(node.target)
            assert operator is not None
            node.target = overload(operator, layer.arguments)
            node.kwargs = {**node.kwargs, **others, **layer.arguments}
        remove_unused_constants(self._program)
        return bool(self._layers)


def apply_layers(program: ExportedProgram, layers: Sequence[NarrowLayer], intermediates: Path | None = None) -> None:
    """Gives the layers of a lowered program int4 weights in place, as one more pass after those of the pipeline."""
    run_pass(program, Int4Weights(program, layers), len(PIPELINE) + 1, intermediates)


def chosen_layers(
    graph: LoweredGraph, layers: Sequence[NarrowLayer], flash: Callable[[LoweredGraph], int], limit: int
) -> list[NarrowLayer]:
    """Chooses layers, those with the least noise per saved byte first, until the model fits `limit` bytes of flash."""
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
