"""Models quantized by PT2E: their quantize and dequantize calls are read, and their scales are kept.

Constants become the real numbers of their codes, and `Grid` remembers the codes; each activation keeps one quantize
with one dequantize. Parameters of tensors that still lack them are derived in `scales`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from cortado.base.element import element_of
from cortado.base.errors import CortadoError
from cortado.base.numerics import QParams
from cortado.ir.graph import add_call, bind, computed_call, describe, sole_user, source_line
from cortado.ops.conv.batch_norm import BATCH_NORM_REWRITE, DECOMPOSED_REWRITE
from cortado.ops.elementwise.pointwise import is_clamp
from cortado.ops.float_graph import add_constant, constant_data, is_constant
from cortado.ops.io.quantize import qparams_of as parameters_of
from cortado.ops.meaning import DEQUANTIZES, QUANTIZES, CallKind, means

Tensor = torch.Tensor
aten = torch.ops.aten
_quantized = torch.ops.quantized_decomposed

QUANTIZE = _quantized.quantize_per_tensor.default
DEQUANTIZE = _quantized.dequantize_per_tensor.default
QUANTIZE_CHANNEL = _quantized.quantize_per_channel.default
DEQUANTIZE_CHANNEL = _quantized.dequantize_per_channel.default
_CODES = (torch.int8, torch.int16, torch.int32)  # for constants: weights, and biases of any width
_WEIGHTED = (
    "conv1d",
    "conv2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "convolution",
    "linear",
    "addmm",
    "mm",
    "matmul",
)
_NORMS = (*BATCH_NORM_REWRITE.aten, *DECOMPOSED_REWRITE.aten)

ACTIVATIONS = (
    "int8 with one scale and zero point per tensor (QuantizationSpec with dtype=torch.int8, per_tensor_affine), or "
    "int16 with zero point 0"
)
FLOAT_INSTEAD = ", or give the float model, which Cortado quantizes itself"
AGAIN = f"change that in the quantizer{FLOAT_INSTEAD}"


@dataclass(frozen=True)
class Grid:
    """The codes of a constant: value = (code - zero_point) * scale, with one scale or one for each index of an axis."""

    scales: Tensor
    axis: int | None
    zero_points: Tensor
    quant_min: int
    quant_max: int
    dtype: torch.dtype
    values: Tensor


@dataclass(frozen=True)
class _Parameters:
    """The parameters of one quantize or dequantize call."""

    scale: float
    zero_point: int
    quant_min: int
    quant_max: int
    dtype: torch.dtype


def is_quantized(module: GraphModule) -> bool:
    """Whether a graph has quantize or dequantize calls of PT2E."""
    graphs = [part.graph for part in module.modules() if isinstance(part, GraphModule)]
    return any(_is_pt2e(node.target) for graph in graphs for node in graph.nodes)


def _is_pt2e(target: Any) -> bool:
    return isinstance(target, OpOverload) and target.namespace == "quantized_decomposed"


def read(module: GraphModule) -> tuple[Grid, ...]:
    """Checks every quantize and dequantize and normalizes them; returns the grids of the constants."""
    graph = module.graph
    for node in [node for node in graph.nodes if _is_pt2e(node.target)]:
        _check_known(node)
    grids = [_fold_constant(node) for node in _calls(module, *DEQUANTIZES) if _is_codes(node)]
    graph.eliminate_dead_code()
    for node in _calls(module, *QUANTIZES):
        _read_activation(node)
    for node in _calls(module, *DEQUANTIZES):
        if not means(bind(node)["input"], CallKind.QUANTIZE):
            raise CortadoError(
                f"{_name(node)} reads codes that no quantize call made, expected real numbers as the model's inputs; "
                "give the model as convert_pt2e returns it, with a quantize call before this one"
            )
    _check_layers(module, grids)
    module.recompile()
    return tuple(grids)


def _calls(module: GraphModule, *kinds: CallKind) -> list[Node]:
    return [node for node in module.graph.nodes if means(node, *kinds)]


def _name(node: Node) -> str:
    """Describes a call to the user: PT2E's own calls at the model's border have no line, so a neighbour is named."""
    near = [node, *node.all_input_nodes, *node.users]
    near += [reader for user in node.users for reader in user.users]
    shown = next((one for one in near if source_line(one) is not None), node)
    return describe(node) if shown is node else f"{node.target} next to {describe(shown)}"


def _check_known(node: Node) -> None:
    text = str(node.target)
    parameters = [bind(node).get(name) for name in ("scale", "scales", "zero_point", "zero_points")]
    if "choose_qparams" in text or any(_constant(value) is None for value in parameters if value is not None):
        raise CortadoError(
            f"{_name(node)} chooses a new scale for every input (dynamic quantization), expected constant scales; "
            f"quantize with is_dynamic=False and calibrate{FLOAT_INSTEAD}"
        )
    if not means(node, *QUANTIZES, *DEQUANTIZES):
        raise CortadoError(
            f"{_name(node)} is not a call that a quantized model can have, expected quantize and dequantize per "
            f"tensor, or per channel for weights; {AGAIN}"
        )


# ---- constants -----------------------------------------------------------------------------------------------


def _is_codes(node: Node) -> bool:
    """Whether a dequantize reads a constant: integers, or a quantize of real numbers."""
    source: Node = bind(node)["input"]
    return is_constant(source) or (means(source, *QUANTIZES, *DEQUANTIZES) and is_constant(bind(source)["input"]))


def _fold_constant(node: Node) -> Grid:
    source: Node = bind(node)["input"]
    codes = constant_data(source) if is_constant(source) else _run(source, constant_data(bind(source)["input"]))
    bound = bind(node)
    if codes.dtype not in _CODES:
        raise CortadoError(
            f"{_name(node)}: a constant is quantized to {_dtype(codes.dtype)}, expected int8 for weights and int32 for "
            f"biases; {AGAIN}"
        )
    values = _run(node, codes).to(torch.float32).contiguous()  # channels_last is a layout in memory only
    channels = means(node, CallKind.DEQUANTIZE_CHANNELS)
    scales, zero_points = (bound["scales"], bound["zero_points"]) if channels else (bound["scale"], bound["zero_point"])
    with node.graph.inserting_before(node):
        node.replace_all_uses_with(add_constant(node, "values", values))
    return Grid(
        scales=_tensor(scales).to(torch.float64).reshape(-1),
        axis=int(bound["axis"]) if channels else None,
        zero_points=torch.zeros(1) if zero_points is None else _tensor(zero_points).reshape(-1),
        quant_min=int(_tensor(bound["quant_min"])),
        quant_max=int(_tensor(bound["quant_max"])),
        dtype=codes.dtype,
        values=values,
    )


def _constant(value: Any) -> Tensor | None:
    """Returns the value of a number, a constant, or a node computed from constants only; None if it depends on the
    model's inputs."""
    if not isinstance(value, Node):
        return torch.as_tensor(value)
    if is_constant(value):
        return constant_data(value)
    known = {one: _constant(one) for one in value.all_input_nodes}
    if value.op != "call_function" or any(data is None for data in known.values()):
        return None
    result: Tensor = computed_call(value, known.get)
    return result


def _tensor(value: Any) -> Tensor:
    data = _constant(value)
    assert data is not None  # `_check_known` has seen it
    return data


def _run(node: Node, data: Tensor) -> Tensor:
    """Folds a quantize or dequantize of constant data."""
    rest = {name: value for name, value in bind(node).values.items() if name != "input"}
    target: Any = node.target
    result: Tensor = target(data, **{n: _tensor(v) if isinstance(v, Node) else v for n, v in rest.items()})
    return result


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# ---- activations ---------------------------------------------------------------------------------------------


def _read_activation(node: Node) -> None:
    """Normalizes a quantize and its dequantizes to one of each, with numbers as parameters."""
    parameters = _parameters(node)
    for user in list(node.users):
        if not means(user, CallKind.DEQUANTIZE):
            raise CortadoError(
                f"{_name(node)}: its codes are read by {describe(user)}, expected a dequantize after every quantize; "
                "give the model as convert_pt2e returns it"
            )
        if _parameters(user) != parameters:
            raise CortadoError(
                f"{_name(node)}: the dequantize after it has different parameters: found {_parameters(user)}, expected "
                f"{parameters}; give the model as convert_pt2e returns it"
            )
    qparams = QParams(parameters.scale, parameters.zero_point, element_of(parameters.dtype))
    source: Node = bind(node)["input"]
    with node.graph.inserting_before(node):
        quantized, pair = add_pair(node, source, qparams)
    for user in list(node.users):
        user.replace_all_uses_with(pair)
        node.graph.erase_node(user)
    node.graph.erase_node(node)
    if (parameters.quant_min, parameters.quant_max) != qparams.element.codes:
        _clamp_codes(quantized, pair, parameters)


def _parameters(node: Node) -> _Parameters:
    bound = bind(node)
    dtype = bound["dtype"]
    if means(node, CallKind.QUANTIZE_CHANNELS, CallKind.DEQUANTIZE_CHANNELS):
        raise CortadoError(
            f"{_name(node)}: an activation has a scale for each channel, expected {ACTIVATIONS}; {AGAIN}"
        )
    names = ("scale", "zero_point", "quant_min", "quant_max")
    scale, zero_point, low, high = (_tensor(bound[name]).item() for name in names)
    if dtype != torch.int8 and (dtype != torch.int16 or zero_point):
        shifted = f" with zero point {zero_point:.0f}" if dtype == torch.int16 else ""
        raise CortadoError(
            f"{_name(node)}: an activation is quantized to {_dtype(dtype)}{shifted}, expected {ACTIVATIONS}; {AGAIN}"
        )
    return _Parameters(float(scale), int(zero_point), int(low), int(high), dtype)


def add_pair(like: Node, source: Node, qparams: QParams) -> tuple[Node, Node]:
    """Adds a quantize of a tensor and its dequantize, at the current insertion point."""
    kind = qparams.element
    parameters = (qparams.scale, qparams.zero_point, *kind.codes, kind.torch_dtype)
    quantized = add_call(like, QUANTIZE, source, *parameters)
    return quantized, add_call(like, DEQUANTIZE, quantized, *parameters)


def is_quantize(node: Node) -> bool:
    """Whether a node is a quantize, in the form that `read` leaves."""
    return means(node, CallKind.QUANTIZE)


def is_dequantize(node: Node) -> bool:
    """Whether a node is a dequantize, in the form that `read` leaves."""
    return means(node, CallKind.DEQUANTIZE)


def qparams_of(node: Node) -> QParams:
    """Returns the qparams of a quantize or dequantize in the form that `read` leaves."""
    return parameters_of(bind(node))


def _clamp_codes(quantized: Node, pair: Node, parameters: _Parameters) -> None:
    """Replaces a code range narrower than the element's by a clamp of the values before, where a kernel can carry
    it."""
    scale, zero_point, element = parameters.scale, parameters.zero_point, element_of(parameters.dtype)
    low = (parameters.quant_min - zero_point) * scale if parameters.quant_min > element.low else None
    high = (parameters.quant_max - zero_point) * scale if parameters.quant_max < element.high else None
    source: Node = bind(quantized)["input"]
    before = is_clamp(source) if source.op == "call_function" else None
    if before is not None and (low is None or before[0] >= low) and (high is None or before[1] <= high):
        return
    if before is None and source.op == "call_function" and sole_user(source) is quantized:
        with quantized.graph.inserting_before(quantized):
            quantized.replace_input_with(source, add_call(quantized, aten.clamp.default, source, low, high))
        return
    readers = list(pair.users)
    with pair.graph.inserting_before(pair.next):
        clamp = add_call(pair, aten.clamp.default, pair, low, high)
        _, last = add_pair(pair, clamp, qparams_of(pair))
    for reader in readers:
        reader.replace_input_with(pair, last)


# ---- layers --------------------------------------------------------------------------------------------------


def _check_layers(module: GraphModule, grids: Sequence[Grid]) -> None:
    """Checks that weights are quantized, and stay unchanged."""
    made = {grid.values.data_ptr() for grid in grids}
    for node in module.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        if _is_layer(node):
            _check_layer(node, made)
        if node.target in _NORMS:
            _check_norm(node)


def _is_layer(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._opname in _WEIGHTED


def _check_layer(node: Node, made: set[int]) -> None:
    bound = bind(node)
    factors = ("mat1", "mat2") if "mat1" in bound.values else ("self", "mat2", "other")  # `self` of addmm is its bias
    names = ("weight",) if "weight" in bound.values else factors
    for weight in [operand for name in names if name in bound.values for operand in bound.nodes(name)]:
        if is_constant(weight) and constant_data(weight).data_ptr() not in made:
            raise CortadoError(
                f"{describe(node)}: its weights ('{weight.target}') are not quantized, expected int8 with one scale "
                f"per output channel; have the quantizer annotate this call{FLOAT_INSTEAD}"
            )


def _check_norm(node: Node) -> None:
    source: Node = node.all_input_nodes[0]
    if _is_layer(source):
        raise CortadoError(
            f"{describe(node)} follows {describe(source)} without a quantize between them, so folding it would change "
            "quantized weights; fold it before quantizing (prepare_pt2e does in evaluation mode), or annotate both"
        )
