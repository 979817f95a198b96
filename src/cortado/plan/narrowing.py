"""int4 weights: which layers of a lowered graph can have them, what each loses by it, and the graph with them.

A layer's int8 codes are rounded to factor * q, |q| <= 7 (ops/_narrow): with one factor for an output channel, which
then becomes part of the channel's multiplier, or with one for every `run` products. Factors are those of the least
squared error, each input channel counted by the mean square of what calibration data have there; biases make up for
what the rounding does to the mean of a channel.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.export import ExportedProgram

from cortado.base.element import INT8, INT32
from cortado.base.errors import CortadoError
from cortado.base.numerics import Fixed
from cortado.ir.graph import TO_NCHW, TO_NHWC, add_constant, remove_unused_constants, sync_outputs
from cortado.ir.schemas import overload
from cortado.ops import _narrow
from cortado.ops._convolution import sum_bounds
from cortado.ops.conv2d import CONV2D
from cortado.ops.narrow_conv2d import NARROW_CONV2D
from cortado.plan.lowered import LoweredCall, LoweredGraph, Ref, after, reference_of, run_reference

Tensor = torch.Tensor
Values = Mapping[str, Any]
SAMPLES = 8  # calibration inputs, at most
WORK = 8_000_000  # values that are computed for them, at most, beyond the first
FEW = 64  # values of a channel, below which its own mean square says little
CHANNEL_FACTORS = range(1, max(_narrow.FACTORS) + 1)  # of a whole channel: they are not stored


@dataclass(frozen=True)
class NarrowLayer:
    """A layer with int4 weights: the constants of its call that are others, by argument."""

    call: str
    module: str
    run: int
    constants: Mapping[str, Tensor]
    saved: int  # bytes of flash that its weights take less
    noise: float = 0.0  # power at the outputs, beside theirs, if no other layer had int4 weights


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
        constants, arguments = self.graph.constants, call.arguments
        weight, bias = (
            None if one is None else constants[one.name] for one in (arguments["weight"], arguments["bias"])
        )
        assert weight is not None
        source, offset = arguments["input"].name, arguments["input_offset"]
        inputs = [values[source].to(torch.float64) + offset for values in self.values]
        codes, factors = _codes(weight, _importance(inputs), self.run)
        near = (codes * factors).reshape(weight.shape)
        moved = _mean_change(call, near - weight, inputs) if self.correct else torch.zeros(len(weight))
        start = torch.round((0 if bias is None else bias.to(torch.float64)) - moved)
        changed: dict[str, Tensor] = {"weight": near.to(torch.int8)}
        if self.run == 0:
            per_channel = factors.reshape(-1)
            changed = {"weight": codes.reshape(weight.shape).to(torch.int8)}
            start = torch.round(start / per_channel)
            changed |= _rescaled(constants, arguments, per_channel)
        if bias is not None or bool(start.any()):
            changed["bias"] = start.to(torch.int32)
        shifts = changed.get("requantize_shifts", constants[arguments["requantize_shifts"].name])
        saved = weight.numel() - packed_bytes(tuple(weight.shape), self.run)
        if saved <= 0 or not _sums_fit(changed, offset, shifts):
            return None
        return NarrowLayer(call.name, call.module, self.run, changed, saved)

    def _noise(self, layer: NarrowLayer) -> float:
        """Of each output, its share of the output's own power; of them all the sum."""
        graph, total = with_layers(self.graph, [layer]), 0.0
        for values in self.values:
            changed = _run_again(graph, values, layer.call)
            for name in graph.outputs:
                before, now = (one[name].to(torch.float64) for one in (values, changed))
                power = float((before**2).sum())
                total += float(((now - before) ** 2).sum()) / power if power > 0 else 0.0
        return total / len(self.values)


NO_WEIGHTS = ""
NO_ROOM = "int4 would save nothing, or its sums would not fit 32 bits"


def _refused(graph: LoweredGraph, call: LoweredCall) -> str | None:
    """Why a call has no int4 weights; NO_WEIGHTS: it has none at all."""
    weights = [name for name in call.arguments if name.startswith("weight")]
    if call.operator != CONV2D.name:
        constant = any(ref in graph.constants for name in weights for ref in call.refs(name))
        return f"{call.operator} takes int8 weights" if constant else NO_WEIGHTS
    weight, source = (call.arguments[name].name for name in ("weight", "input"))
    if weight not in graph.constants:
        return NO_WEIGHTS
    if graph.element(source).bits != INT8.bits:
        return f"its tensors are {graph.element(source).name}, which meets int8 weights"
    if graph.constants[weight].shape[3] != graph.values[source].shape[3]:
        return "a grouped or depthwise convolution has few weights"
    return None


def packed_bytes(sizes: tuple[int, ...], run: int) -> int:
    """What weights of these sizes take: half a byte each, and half a byte for the factor of each run."""
    products = sizes[1] * sizes[2] * sizes[3]
    factors = -(-products // run) if run else 0
    return sizes[0] * ((products + factors + 1) // 2)


def _importance(inputs: Sequence[Tensor]) -> Tensor:
    """How much each input channel counts: its mean square, but where few values were seen rather that of all."""
    seen = sum(x[..., 0].numel() for x in inputs)
    squares = torch.stack([(x**2).mean(dim=(0, 1, 2)) for x in inputs]).mean(dim=0)
    found: Tensor = (seen * squares + FEW * (squares.mean() + 1.0)) / (seen + FEW)
    return found


def _codes(weight: Tensor, counts: Tensor, run: int) -> tuple[Tensor, Tensor]:
    """q as [channels, products], and factors that go with it: of each channel, or of each product."""
    flat = weight.reshape(len(weight), -1).to(torch.int64)
    columns = counts.repeat(weight.shape[1] * weight.shape[2])
    if run == 0:
        factors = _narrow.chosen_factors(flat, columns, CHANNEL_FACTORS)[:, None]
        return _narrow.rounded(flat, factors), factors
    runs, shares = _narrow.padded_runs(flat), _narrow.padded_runs(columns[None])
    rows = runs.reshape(-1, run)
    chosen = _narrow.chosen_factors(rows, shares.expand(len(flat), -1, -1).reshape(-1, run), _narrow.FACTORS)
    factors = chosen.reshape(len(flat), -1).repeat_interleave(run, dim=1)[:, : flat.shape[1]]
    return _narrow.rounded(flat, factors), factors


def _mean_change(call: LoweredCall, change: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """What other weights add to the sums of each output channel, on the mean."""
    given, weights = call.arguments, change.to(torch.float64).permute(TO_NCHW)
    sums = [
        torch.conv2d(x.permute(TO_NCHW), weights, None, given["stride"], given["padding"], given["dilation"])
        for x in inputs
    ]
    return torch.stack([one.permute(TO_NHWC).mean(dim=(0, 1, 2)) for one in sums]).mean(dim=0)


def _rescaled(constants: Mapping[str, Tensor], arguments: Mapping[str, Any], factors: Tensor) -> dict[str, Tensor]:
    """Multipliers and shifts of channels whose codes stand for so many times as much."""
    multipliers, shifts = (constants[arguments[f"requantize_{name}"].name] for name in ("multipliers", "shifts"))
    known = zip(multipliers.tolist(), shifts.tolist(), factors.tolist(), strict=True)
    fixed = [Fixed.of(multiplier * factor * 2.0 ** (shift - 31)) for multiplier, shift, factor in known]
    return {
        "requantize_multipliers": torch.tensor([one.multiplier for one in fixed], dtype=torch.int32),
        "requantize_shifts": torch.tensor([one.shift for one in fixed], dtype=torch.int32),
    }


def _sums_fit(changed: Mapping[str, Tensor], offset: int, shifts: Tensor) -> bool:
    low, high = sum_bounds(changed["weight"], changed.get("bias"), offset)
    room = INT32.high >> shifts.clamp(min=0).to(torch.int64)
    return bool((torch.maximum(high, -low) <= room).all())


# ---- on calibration data ---------------------------------------------------------------------------------------------


def observe(graph: LoweredGraph, samples: Sequence[Sequence[Tensor]], *, run: int, correct: bool) -> ObservedLayer:
    """The graph's values on the first of these calibration inputs; of a model with state they are steps."""
    size = sum(int(torch.Size(value.shape).numel()) for value in graph.values.values())
    found: list[Values] = [run_reference(graph, samples[0])]
    for sample in samples[1 : 1 + min(SAMPLES - 1, WORK // max(size, 1))]:
        found.append(run_reference(graph, sample, after(graph, found[-1])))
    return ObservedLayer(graph, found, correct, run)


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
        arguments = {**call.arguments, **others, "run": layer.run}
        return replace(call, operator=NARROW_CONV2D.name, arguments=arguments)

    return replace(graph, constants={**graph.constants, **constants}, calls=tuple(map(changed, graph.calls)))


def apply_layers(program: ExportedProgram, layers: Sequence[NarrowLayer]) -> None:
    """The same to a lowered program, in place."""
    module, known = program.graph_module, {layer.call: layer for layer in layers}
    for node in [node for node in module.graph.nodes if node.name in known]:
        layer = known[node.name]
        others = {
            name: add_constant(program, _constant_name(layer, name), data) for name, data in layer.constants.items()
        }
        node.target = overload(NARROW_CONV2D)
        node.kwargs = {**node.kwargs, **others, "run": layer.run}
    remove_unused_constants(program)
    sync_outputs(program)
    module.graph.lint()
    module.recompile()


def chosen_layers(
    graph: LoweredGraph, layers: Sequence[NarrowLayer], flash: Callable[[LoweredGraph], int], limit: int
) -> list[NarrowLayer]:
    """As many as it takes to fit `limit` bytes of flash, those first that cost the least noise for a byte."""
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
