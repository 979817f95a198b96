"""QuantizeLinear and DequantizeLinear as the calls that PT2E makes: the scales of a quantized file are kept.

uint8 codes become int8 ones with a zero point lower by 128, which stand for the same numbers.
"""

import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed

from cortado.onnx.node import Built, Node, Quantizing, of, onnx_operator

Tensor = torch.Tensor
_calls = torch.ops.quantized_decomposed
_INT8 = (-128, 127)
_INT32 = (-(2**31), 2**31 - 1)


def _parameters(node: Node, codes: torch.dtype) -> tuple[Tensor, Tensor]:
    """Scales and zero points of int8 codes."""
    scales = node.constant(1).to(torch.float32).reshape(-1)
    points = node.constant(2).reshape(-1).to(torch.int64) if node.has(2) else torch.zeros_like(scales).to(torch.int64)
    if codes == torch.uint8:
        points = points - 128
    elif codes not in (torch.int8, torch.int32):
        node.refuse(f"codes of {str(codes).removeprefix('torch.')}", "int8 or uint8 (int32 for biases)")
    if node.integer("block_size", 0):
        node.refuse("a scale for each block", "one for a tensor, or for each channel")
    return scales, points


def _codes(node: Node) -> torch.dtype:
    """The type of a QuantizeLinear's output."""
    return node.value(2).dtype if node.has(2) else torch.uint8


@onnx_operator("QuantizeLinear", limits="int8 or uint8, constant scales; per tensor")
def quantize(node: Node) -> Built:
    scales, points = _parameters(node, _codes(node))
    if scales.numel() != 1:
        if node.value(0).data is None:
            node.refuse("an activation with a scale for each channel", "one scale")
        axis = node.axis(node.integer("axis", 1))
        return of(Quantizing(lambda x: _calls.quantize_per_channel(x, scales, points, axis, *_INT8, torch.int8)))
    scale, point = float(scales), int(points)
    return of(Quantizing(lambda x: _calls.quantize_per_tensor(x, scale, point, *_INT8, torch.int8)))


@onnx_operator(
    "DequantizeLinear",
    limits="int8 or uint8 (int32 for biases), constant scales and zero points; per tensor, of weights per channel",
)
def dequantize(node: Node) -> Built:
    given = node.value(0)
    if given.data is None and not node.has(2):
        node.refuse("no zero point", "one, whose type says whether codes are int8 or uint8")
    kind, (low, high) = (torch.int32, _INT32) if given.dtype == torch.int32 else (torch.int8, _INT8)
    scales, points = _parameters(node, node.value(2).dtype if node.has(2) else given.dtype)
    if scales.numel() == 1:
        scale, point = float(scales), int(points)
        return of(Quantizing(lambda x: _calls.dequantize_per_tensor(_signed(x), scale, point, low, high, kind)))
    axis = node.axis(node.integer("axis", 1))
    return of(Quantizing(lambda x: _calls.dequantize_per_channel(_signed(x), scales, points, axis, low, high, kind)))


def _signed(codes: Tensor) -> Tensor:
    return (codes.to(torch.int16) - 128).to(torch.int8) if codes.dtype == torch.uint8 else codes
