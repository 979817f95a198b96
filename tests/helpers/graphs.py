"""A graph between two passes: as text, and run in the real numbers that its codes stand for."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.node import map_arg

from cortado.base.numerics import ChannelQParams, QParams
from cortado.ir.facts import CLAMP, QPARAMS, VALUE, qparams
from cortado.ir.graph import constant_value, outputs, user_inputs

MOST_NUMBERS = 12  # of a constant that is written out
INT8 = ("quant_min", "quant_max", "dtype")  # the same in every graph, and not written

_quantized = torch.ops.quantized_decomposed
QUANTIZE = (_quantized.quantize_per_tensor.default, _quantized.quantize_per_channel.default)
DEQUANTIZE = (_quantized.dequantize_per_tensor.default, _quantized.dequantize_per_channel.default)
BACK = dict(zip(QUANTIZE, DEQUANTIZE, strict=True))


def graph_text(program: ExportedProgram, unread: bool) -> str:
    """A line for each node: type, shape, quantization, clamp, and the call or the numbers; those of constants that
    nothing reads if asked to."""
    nodes = program.graph_module.graph.nodes
    lines = [_line(program, node) for node in nodes if unread or node.users or node.op != "placeholder"]
    return "".join(f"{line}\n" for line in lines).replace("_default", "").replace(".default", "")


def _line(program: ExportedProgram, node: Node) -> str:
    if node.op == "output":
        return f"return {', '.join(str(value) for value in outputs(program))}"
    value: Any = VALUE.must(node)  # a tensor, or one for each result
    kinds = [
        f"{one.dtype}{list(one.shape)}".removeprefix("torch.")
        for one in (value if isinstance(value, tuple) else [value])
    ]
    parts = [f"{node.name}: {', '.join(kinds)}", *_quantization(node)]
    return f"{' '.join(parts)} = {_right_side(program, node)}" + ("" if node.users else "  # read by nothing")


def _quantization(node: Node) -> list[str]:
    known, clamp = QPARAMS.of(node), CLAMP.of(node)
    found = []
    if isinstance(known, QParams):
        found.append(f"scale={known.scale:.9g} zero={known.zero_point}")
    elif isinstance(known, ChannelQParams):
        found.append(f"scales={[float(f'{scale:.9g}') for scale in known.scales]} axis={known.axis}")
    return found + ([] if clamp is None else [f"clamp={clamp[0]:g}..{clamp[1]:g}"])


def _right_side(program: ExportedProgram, node: Node) -> str:
    if node.op == "placeholder":
        data = constant_value(program, node)
        if data is None:
            return "input"
        return f"constant {data.tolist()}" if data.numel() <= MOST_NUMBERS else "constant"
    args = node.args[:-3] if node.target in (*QUANTIZE, *DEQUANTIZE) else node.args
    arguments = [*map(str, args), *(f"{name}={value}" for name, value in node.kwargs.items() if name not in INT8)]
    return f"{node.target}({', '.join(arguments)})"


def run_real(program: ExportedProgram, inputs: Sequence[Tensor]) -> list[Tensor]:
    """What a graph of level QUANTIZED gives if every tensor holds the real numbers that its codes stand for.

    A node with qparams rounds to them, with a clamp clamps before that: this is what such a graph means.
    """
    given = dict(zip((node.name for node in user_inputs(program)), inputs, strict=True))
    values: dict[Node, Any] = {}
    for node in program.graph_module.graph.nodes:
        if node.op == "placeholder":
            values[node] = given[node.name] if node.name in given else _real_constant(program, node)
        elif node.op == "call_function":
            values[node] = _real_call(node, values)
    return [values[node] for node in outputs(program)]


def _real_constant(program: ExportedProgram, node: Node) -> Tensor | None:
    data, known = constant_value(program, node), QPARAMS.of(node)
    return data if data is None or known is None else known.dequantize(data)


def _real_call(node: Node, values: dict[Node, Any]) -> Any:
    if node.target in DEQUANTIZE:
        return values[node.all_input_nodes[0]]
    args: Any = map_arg(node.args, lambda operand: values[operand])
    kwargs: Any = map_arg(node.kwargs, lambda operand: values[operand])
    result = node.target(*args, **kwargs)  # type: ignore[operator]
    if node.target in QUANTIZE:  # and back, with the same parameters
        return BACK[node.target](result, *args[1:], **kwargs)
    clamp, scale = CLAMP.of(node), qparams(node)
    result = result if clamp is None else result.clamp(*clamp)
    return result if scale is None else scale.dequantize(_codes(result, scale))


def _codes(value: Tensor, scale: QParams) -> Tensor:
    codes: Tensor = QUANTIZE[0](value, scale.scale, scale.zero_point, -128, 127, torch.int8)
    return codes
