"""QuantizeLinear and DequantizeLinear as PT2E's calls: the scales of a quantized file are kept.

Unsigned codes become signed ones with a zero point lower by 128 or 32768, which represent the same numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed

from cortado.onnx.node import Built, Node, Quantizing, of, onnx_operator

Tensor = torch.Tensor
_calls = torch.ops.quantized_decomposed


@dataclass(frozen=True)
class _Grid:
    """Scales and zero points of signed codes, and the range of codes in use if it is smaller than the type's."""

    scales: Tensor
    points: Tensor
    dtype: torch.dtype
    used: tuple[int, int] | None = None

    @property
    def codes(self) -> tuple[int, int]:
        limits = torch.iinfo(self.dtype)
        return self.used or (limits.min, limits.max)


_SIGNED = {torch.uint8: (torch.int8, 128), torch.uint16: (torch.int16, 32768)}
_KINDS = (torch.int8, torch.int16, torch.int32)


def _grid(node: Node, codes: torch.dtype) -> _Grid:
    dtype, lower = _SIGNED.get(codes, (codes, 0))
    if dtype not in _KINDS:
        node.refuse(f"codes of {str(codes).removeprefix('torch.')}", "int8, uint8, int16 or uint16 (int32 for biases)")
    if node.integer("block_size", 0):
        node.refuse("a scale for each block", "one for the tensor, or one per channel")
    scales = node.constant(1).to(torch.float32).reshape(-1)
    points = node.constant(2).reshape(-1).to(torch.int64) if node.has(2) else torch.zeros_like(scales).to(torch.int64)
    if scales.shape != points.shape:
        node.refuse(f"{scales.numel()} scales and {points.numel()} zero points", "as many of each")
    if not bool((scales.isfinite() & (scales > 0)).all()) or not scales.numel():
        node.refuse("a scale that is not a number above 0", "finite scales above 0")
    return _Grid(scales, points - lower, dtype)


def _even(grid: _Grid) -> _Grid:
    """Returns an int16 grid of the same range without a zero point, which kernels lack. On one side it uses fewer
    codes, as the grid with a zero point does: ending at 0 is a relu."""
    if grid.dtype != torch.int16 or grid.points.numel() != 1 or not int(grid.points):
        return grid
    (low, high), point = grid.codes, int(grid.points)
    reach = max(point - low, high - point)
    used = -((point - low) * high // reach), (high - point) * high // reach
    return _Grid((grid.scales.double() * reach / high).float(), torch.zeros_like(grid.points), grid.dtype, used)


def _codes(node: Node) -> torch.dtype:
    """Returns the dtype of a QuantizeLinear's output."""
    return node.value(2).dtype if node.has(2) else torch.uint8


@onnx_operator(
    "QuantizeLinear", limits="int8, uint8, int16 or uint16; constant scales; per tensor", domains=("", "com.microsoft")
)
def quantize(node: Node) -> Built:
    grid = _even(_grid(node, _codes(node)))
    limits, dtype = grid.codes, grid.dtype
    if grid.scales.numel() != 1:
        if node.value(0).data is None:
            node.refuse("an activation with a scale per channel", "one scale")
        axis = node.axis(node.integer("axis", 1))
        scales, points = grid.scales, grid.points
        return of(Quantizing(lambda x: _calls.quantize_per_channel(x, scales, points, axis, *limits, dtype)))
    scale, point = float(grid.scales), int(grid.points)
    return of(Quantizing(lambda x: _calls.quantize_per_tensor(x, scale, point, *limits, dtype)))


@onnx_operator(
    "DequantizeLinear",
    limits="int8, uint8, int16 or uint16 (int32 for biases), constant scales and zero points; per tensor, of weights "
    "per channel",
    domains=("", "com.microsoft"),
)
def dequantize(node: Node) -> Built:
    given = node.value(0)
    if given.data is None and not node.has(2):
        node.refuse("no zero point", "a zero point, whose type says whether codes are signed")
    grid = _grid(node, node.value(2).dtype if node.has(2) else given.dtype)
    axis = None if grid.scales.numel() == 1 else node.axis(node.integer("axis", 1))
    if given.data is None:
        real = _dequantizing(_even(grid), axis)
        return of(Quantizing(real if given.dtype not in _SIGNED else lambda x: real(_signed(x))))
    codes, grid = _constant_codes(_signed(given.data), grid, axis)
    call = _dequantizing(grid, axis)
    return Built(Quantizing(lambda: call(codes)), ())


def _dequantizing(grid: _Grid, axis: int | None) -> Callable[[Tensor], Tensor]:
    limits, dtype = grid.codes, grid.dtype
    if axis is None:
        scale, point = float(grid.scales), int(grid.points)
        return lambda x: _calls.dequantize_per_tensor(x, scale, point, *limits, dtype)
    scales, points = grid.scales, grid.points
    return lambda x: _calls.dequantize_per_channel(x, scales, points, axis, *limits, dtype)


def _constant_codes(codes: Tensor, grid: _Grid, axis: int | None) -> tuple[Tensor, _Grid]:
    """Returns a constant's codes without zero points, as kernels require for weights: unchanged values if these fit
    int8, else rounded to an int8 grid of the same range."""
    if not bool(grid.points.any()) and grid.dtype != torch.int16:
        return codes, grid
    sizes = [-1 if dim == axis else 1 for dim in range(codes.dim())]
    offsets = codes.to(torch.int64) - (grid.points.reshape(sizes) if axis is not None else grid.points.reshape(()))
    least, most = (-(2**31), 2**31 - 1) if grid.dtype == torch.int32 else (-127, 127)
    dtype, zeros = torch.int32 if grid.dtype == torch.int32 else torch.int8, torch.zeros_like(grid.points)
    if not codes.numel() or (least <= int(offsets.min()) and int(offsets.max()) <= most):
        return offsets.to(dtype), _Grid(grid.scales, zeros, dtype)
    others = [dim for dim in range(codes.dim()) if dim != axis]
    reach = offsets.abs().amax(others).reshape(-1) if others else offsets.abs()
    factor = (reach.double() / most).clamp(min=1.0)
    rounded = torch.round(offsets / (factor.reshape(sizes) if axis is not None else factor.reshape(())))
    return rounded.to(dtype), _Grid((grid.scales * factor).float(), zeros, dtype)


def _signed(codes: Tensor) -> Tensor:
    if codes.dtype not in _SIGNED:
        return codes
    dtype, lower = _SIGNED[codes.dtype]
    return (codes.to(torch.int32) - lower).to(dtype)
