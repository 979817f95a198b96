"""Which tensors an output loses its signal to: each rounded alone, with all others in float."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from cortado.base.numerics import QParams
from cortado.frontend.quantize.bias import attribute
from cortado.frontend.quantize.judgement import FloatRun, decibels, drawn_runs
from cortado.frontend.quantize.prequantized import (
    DEQUANTIZE_CHANNEL,
    QUANTIZE_CHANNEL,
    is_dequantize,
    is_quantize,
    qparams_of,
)
from cortado.frontend.rewrite.state import holders
from cortado.ir.facts import STATE, VALUE
from cortado.ir.graph import describe, is_call
from cortado.ops.float_graph import is_constant

Tensor = torch.Tensor
WORK = 40_000_000  # values that are computed to find out, at most
SAMPLES, STEPS = 2, 32  # that are run for each tensor, of a model without and with state
NAMED = 3  # tensors, at most
WITHIN = 10.0  # dB of the worst, that a tensor must be to be named
FEW_STEPS = 4.0  # of its scale, that a tensor's usual value is below where it is lost
SATURATED = 0.002  # of a tensor's values
PROBABILITIES = 256  # that int8 can tell from zero where all are alike


@dataclass(frozen=True)
class Culprit:
    """A tensor, and what an output keeps where it alone is rounded."""

    tensor: str
    kept: float
    remedy: str

    def __str__(self) -> str:
        return f"{self.tensor} ({max(self.kept, 0):.0f} dB alone): {self.remedy}"


class Alone:
    """Runs a quantized graph in float, but for one rounding that is asked for."""

    def __init__(self, converted: GraphModule) -> None:
        self._nodes = list(converted.graph.nodes)
        self._last = {read: node for node in self._nodes for read in node.all_input_nodes}
        self._roundings = {node for node in self._nodes if _quantizes(node) or _dequantizes(node)}
        self._constants = {node: attribute(converted, node) for node in self._nodes if node.op == "get_attr"}
        self.places = [node for node in self._nodes if _quantizes(node) and not _is_bias(node)]
        self.initial = [STATE.must(node).initial for node in holders(converted.graph)]
        self.size = sum(value.numel() for node in self._nodes if isinstance(value := VALUE.of(node), Tensor))
        self.seen: dict[Node, Tensor] = {}  # by the call that would quantize it: a tensor in float

    def run(self, inputs: Sequence[Any], rounded: Node | None) -> list[Any]:
        """All that the graph returns."""
        values, given = dict(self._constants), iter(inputs)
        for node in self._nodes:
            if node.op == "output":
                break
            if node.op == "placeholder":
                values[node] = next(given)
            elif node.op != "get_attr":
                values[node] = self._result(node, values, rounded)
            for read in node.all_input_nodes:
                if self._last[read] is node and read not in self._constants:
                    del values[read]
        return [values[node] for node in pytree.tree_leaves(self._nodes[-1].args)]

    def _result(self, node: Node, values: Mapping[Node, Any], rounded: Node | None) -> Any:
        if node in self._roundings and node is not rounded:
            value = values[node.all_input_nodes[0]]
            if value.is_floating_point():
                self.seen.update({node: value} if rounded is None else {})
                return value
        args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
        return node.target(*args, **kwargs)  # type: ignore[operator]


def culprits(converted: GraphModule, runs: Sequence[FloatRun], output: int) -> list[Culprit]:
    """Those that an output loses most to, the worst first."""
    model = Alone(converted)
    runs = [runs[place] for place in drawn_runs([run.begins for run in runs], STEPS if model.initial else SAMPLES)]
    most = max(8, WORK // max(model.size * len(runs), 1))
    with torch.no_grad():
        _outputs(model, runs, output, None)
        kept = {place: decibels(_outputs(model, runs, output, place)) for place in model.places[:most]}
    found = sorted((place for place in kept if math.isfinite(kept[place]) or kept[place] < 0), key=lambda p: kept[p])
    worst = [place for place in found if kept[place] <= kept[found[0]] + WITHIN][:NAMED]
    return [Culprit(_name(place), kept[place], remedy(place, model.seen.get(place))) for place in worst]


def _outputs(model: Alone, runs: Sequence[FloatRun], output: int, rounded: Node | None) -> list[tuple[Tensor, Tensor]]:
    """Returns the outputs of each sample or step, beside the float model's."""
    state, pairs = model.initial, []
    for run in runs:
        state = model.initial if run.begins else state
        found = model.run([*run.inputs, *state], rounded)
        state = found[len(found) - len(state) :]
        pairs.append((run.outputs[output], found[output]))
    return pairs


def _quantizes(node: Node) -> bool:
    return is_quantize(node) or is_call(node, QUANTIZE_CHANNEL)


def _dequantizes(node: Node) -> bool:
    return is_dequantize(node) or is_call(node, DEQUANTIZE_CHANNEL)


def _is_bias(node: Node) -> bool:
    """A constant in 32 bits."""
    return torch.int32 in node.args


def _name(place: Node) -> str:
    source = place.all_input_nodes[0]
    if source.op == "placeholder":
        return f"input '{source.name}'"
    if is_call(place, QUANTIZE_CHANNEL):
        return f"the weights of {describe(next(iter(next(iter(place.users)).users)))}"
    return describe(source)


# ---- what to do ------------------------------------------------------------------------------------------------------


def remedy(place: Node, values: Tensor | None) -> str:
    """Suggests a remedy for a tensor that an output loses to, and what it held in float."""
    if is_call(place, QUANTIZE_CHANNEL):
        return "a few of a channel's weights are far larger than the others; train with quantization (prepare_qat)"
    if values is None or not is_quantize(place):
        return "`cortado validate --per-layer` shows more"
    qparams, finite = qparams_of(place), values[torch.isfinite(values)]
    low, high = qparams.range
    if not finite.numel():
        return "none of its values is finite; take a number of the size of others instead of infinity"
    usual, largest = float(finite.abs().median()), float(finite.abs().max())
    saturated = _saturated(finite, qparams)
    source = place.all_input_nodes[0]
    if saturated > SATURATED:
        return (
            f"{saturated:.1%} of its values saturate beyond {low:.4g} to {high:.4g}; give more calibration samples, or "
            "--calibration-method minmax"
        )
    if source.op == "placeholder":
        return (
            f"half of its values are below {usual:.3g} and a step of its int8 codes is {qparams.scale:.3g}; give it in "
            "another form: the logarithm or the root of powers and spectra, a difference from its mean, parts of "
            "different size as inputs of their own"
        )
    if "softmax" in str(source.target) and values.shape[-1] > PROBABILITIES:
        return f"{values.shape[-1]} probabilities share 256 codes; return the scores before the softmax"
    if largest < FEW_STEPS * 8 * qparams.scale and not is_constant(source):
        return (
            f"its values are below {largest:.3g} in the range of {low:.4g} to {high:.4g} that it "
            "shares with larger ones; keep them apart (outputs of their own instead of torch.cat)"
        )
    return (
        f"half of its values are below {usual:.3g} in a range of {low:.4g} to {high:.4g}; normalize before it, take a "
        "logarithm or a root, or train with quantization (prepare_qat)"
    )


def _saturated(values: Tensor, qparams: QParams) -> float:
    low, high = qparams.range
    half = qparams.scale / 2
    return float(((values < low - half) | (values > high + half)).double().mean()) if values.numel() else 0.0
