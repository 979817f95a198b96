"""constant-channels: rewrites a channel that holds one code, whatever the input, so that every kernel takes it."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from cortado.base.element import Element, element_of
from cortado.base.numerics import ChannelQParams
from cortado.ir.facts import QPARAMS, dtype
from cortado.ir.graph import add_constant, constant_value, remove_unused_constants
from cortado.ir.op import operator_of
from cortado.ops import reach
from cortado.ops.conv.convolution import finish
from cortado.passes.base import LoweredPass

Tensor = torch.Tensor
# A factor of 1/4: it is exact on multiples of 4, and its shift is to the right, as fast kernels require.
QUARTER_MULTIPLIER, QUARTER_SHIFT, QUARTERS = 1 << 30, -1, 4


class ConstantChannels(LoweredPass):
    """Rewrites such a channel to weights 0, factor 1/4, and a bias of four times the code: bit-exact. A filter of zeros
    has a factor of 0 or a 30-bit bias, and one such channel would keep its layer off the fast kernels."""

    name: ClassVar[str] = "constant-channels"

    def run(self, module: GraphModule) -> bool:
        layers = [node for node in module.graph.nodes if is_weighted(node)]
        changed = [_write_constants(self.program, layer) for layer in layers]
        if any(changed):
            remove_unused_constants(self.program)
        return any(changed)


def is_weighted(node: Node) -> bool:
    """Whether a node is a layer with a requantization factor for each channel."""
    return node.op == "call_function" and _weight_axis(node) is not None


def _write_constants(program: ExportedProgram, layer: Node) -> bool:
    given, codes = known_arguments(program, layer), constant_codes(program, layer)
    fixed = codes.fixed
    bias = torch.zeros_like(codes.code) if given["bias"] is None else given["bias"].to(torch.int64)
    weight = given["weight"]
    mask = fixed if channel_axis(layer) == 3 else fixed[:, None, None, None]
    if division(layer, weight, given["bias"]) > 0:
        return False  # 64-bit sums take the portable kernel anyway, and the others' divisor would change
    wanted = {
        "weight": weight.masked_fill(mask, 0),
        "bias": torch.where(fixed, QUARTERS * (codes.code - given["output_offset"]), bias).to(torch.int32),
        "requantize_multipliers": given["requantize_multipliers"].masked_fill(fixed, QUARTER_MULTIPLIER),
        "requantize_shifts": given["requantize_shifts"].masked_fill(fixed, QUARTER_SHIFT),
    }
    before = {**given, "bias": bias.to(torch.int32)}
    changed = [name for name, data in wanted.items() if not torch.equal(data, before[name])]
    for name in changed:
        replace_constant(program, layer, name, wanted[name], "even")
    return bool(changed)


# ---- facts about a layer's channels ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChannelCodes:
    """The code that each channel holds everywhere, and whether it holds one (`fixed`)."""

    fixed: Tensor
    code: Tensor


def constant_codes(program: ExportedProgram, layer: Node) -> ChannelCodes:
    """Returns the channels whose code is constant: those whose smallest and largest possible sums, padding included,
    give the same code."""
    given, element = known_arguments(program, layer), _element(layer)
    weight, offset = given["weight"].to(torch.int64), given["input_offset"]
    extremes = torch.stack([weight * (code + offset) for code in element.codes] + [torch.zeros_like(weight)])
    taps = tuple(axis for axis in range(4) if axis != channel_axis(layer))
    factors = given["requantize_multipliers"], given["requantize_shifts"]
    bounds = given["activation_min"], given["activation_max"]

    def codes(sums: Tensor) -> Tensor:
        if element.affine:
            return finish(sums, given["bias"], *factors, given["output_offset"], *bounds)
        return reach.finish(sums, _by_channel(layer, weight), given["bias"], factors, bounds)

    low, high = (codes(part.sum(taps)).to(torch.int64) for part in (extremes.amin(0), extremes.amax(0)))
    return ChannelCodes(low == high, low)


def division(layer: Node, weight: Tensor, bias: Tensor | None) -> int:
    """Returns the number of bits by which a layer with these weights shifts its sums right before requantization."""
    return 0 if _element(layer).affine else reach.sum_shift(_by_channel(layer, weight), bias)


def _by_channel(layer: Node, weight: Tensor) -> Tensor:
    """Returns the weights with output channels first."""
    return weight.movedim(channel_axis(layer), 0)


def _element(layer: Node) -> Element:
    source: Any = layer.kwargs["input"]
    return element_of(dtype(source))


def channel_axis(layer: Node) -> int:
    """Returns the axis of a layer's weights that holds its output channels."""
    axis = _weight_axis(layer)
    assert axis is not None
    return axis


def _weight_axis(layer: Node) -> int | None:
    operator = operator_of(layer.target)
    return None if operator is None else operator.weight_axis


# ---- constants of a call ---------------------------------------------------------------------------------------------


def known_value(program: ExportedProgram, value: Any) -> Any:
    found = constant_value(program, value)
    return value if found is None else found


def known_arguments(program: ExportedProgram, node: Node) -> dict[str, Any]:
    return {name: known_value(program, value) for name, value in node.kwargs.items()}


def replace_constant(program: ExportedProgram, node: Node, name: str, data: Tensor, word: str) -> None:
    """Replaces the data of one operand of one call; `word` is appended to the old constant's name."""
    before: Any = node.kwargs[name]
    new = add_constant(program, f"{before.name if isinstance(before, Node) else node.name}_{word}", data)
    known = QPARAMS.of(before) if isinstance(before, Node) else None
    if known is not None and not isinstance(known, ChannelQParams):
        QPARAMS.note(new, known)
    node.update_kwarg(name, new)
