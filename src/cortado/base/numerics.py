"""Exact integer arithmetic: quantization parameters, multiplier and shift, rounding. No floats after calibration."""

import math
from dataclasses import dataclass
from typing import Any

import torch

from cortado.base.element import INT8, Element
from cortado.base.errors import CortadoError

Tensor = torch.Tensor


@dataclass(frozen=True)
class QParams:
    """Per-tensor parameters: value = (q - zero_point) * scale, where q is a number of `element`."""

    scale: float
    zero_point: int
    element: Element

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0.0):
            raise CortadoError(f"a quantization scale must be finite and above zero, found {self.scale}")
        name, codes = self.element.name, list(self.element.codes)
        if not self.element.holds(self.zero_point):
            raise CortadoError(f"an {name} zero point must lie in {codes}, found {self.zero_point}")
        if self.zero_point and not self.element.affine:
            raise CortadoError(f"{name} is symmetric: its zero point must be 0, found {self.zero_point}")

    def quantize(self, value: float) -> int:
        """Returns the code nearest to a real number (ties to even, as in quantize_per_tensor)."""
        return self.element.clamped(round(value / self.scale) + self.zero_point)

    @property
    def range(self) -> tuple[float, float]:
        """The real values of the smallest and the largest code."""
        low, high = ((code - self.zero_point) * self.scale for code in self.element.codes)
        return low, high

    def dequantize(self, codes: Tensor) -> Tensor:
        return (codes.to(torch.float32) - self.zero_point) * torch.tensor(self.scale, dtype=torch.float32)


@dataclass(frozen=True)
class ChannelQParams:
    """Per-channel parameters: value = q * scale[channel], symmetric, along `axis`, for convolution and linear
    weights."""

    scales: tuple[float, ...]
    axis: int

    def dequantize(self, codes: Tensor) -> Tensor:
        sizes = [1] * codes.dim()
        sizes[self.axis] = -1
        return codes.to(torch.float32) * torch.tensor(self.scales, dtype=torch.float32).reshape(sizes)


LEAST_SHIFT = -31  # of a factor: a smaller one has no effect in 32 bits


@dataclass(frozen=True)
class Fixed:
    """A positive real factor as a Q31 multiplier and a shift (left if positive)."""

    multiplier: int
    shift: int

    @staticmethod
    def of(factor: float) -> "Fixed":
        if not (math.isfinite(factor) and factor >= 0.0):
            raise CortadoError(f"a rescaling factor must be finite and not negative, found {factor}")
        if factor == 0.0:
            return Fixed(0, 0)
        mantissa, exponent = math.frexp(factor)
        multiplier = round(mantissa * 2**31)
        if multiplier == 2**31:
            multiplier, exponent = multiplier // 2, exponent + 1
        if exponent < LEAST_SHIFT:
            return Fixed(0, 0)
        if exponent > 30:
            raise CortadoError(f"a rescaling factor of {factor:g} is too large for a 32-bit accumulator")
        return Fixed(multiplier, exponent)

    def arguments(self, name: str) -> dict[str, int]:
        """Returns the factor as arguments of a call: NAME_multiplier and NAME_shift."""
        return {f"{name}_multiplier": self.multiplier, f"{name}_shift": self.shift}


def requant(acc: Tensor, multiplier: Tensor | int, shift: Tensor | int) -> Tensor:
    """Returns acc * factor: a doubling high multiply rounded half up, then a division by 2^n rounded half away from
    zero."""
    acc = acc.to(torch.int64)
    shift = torch.as_tensor(shift, dtype=torch.int64)
    left, right = shift.clamp(min=0), (-shift).clamp(min=0)
    high = ((acc << left) * multiplier + (1 << 30)) >> 31
    return divide_by_power_of_two(high, right)


def divide_by_power_of_two(value: Tensor, exponent: Tensor) -> Tensor:
    """Returns value / 2^exponent rounded to nearest, ties away from zero: adds half of the divisor (one less for
    negative values) and shifts."""
    half = (torch.ones_like(exponent) << exponent) >> 1
    below = (value >> 63) & half.clamp(max=1)  # 1 for negative values, else 0; also 0 without a division
    return (value + half - below) >> exponent


def divide_round_away(total: Tensor, count: Tensor) -> Tensor:
    """Returns total / count rounded to nearest, ties away from zero (count > 0)."""
    half = torch.div(count, 2, rounding_mode="floor")
    return torch.div(torch.where(total >= 0, total + half, total - half), count, rounding_mode="trunc")


def clamp_int8(value: Tensor, low: int = INT8.low, high: int = INT8.high) -> Tensor:
    return value.clamp(low, high).to(torch.int8)


def int_list(value: Any) -> list[int]:
    """Converts a schema's int[] to a plain list."""
    return [int(v) for v in value]
