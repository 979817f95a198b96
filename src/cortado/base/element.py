"""Element types: the bits of one value of a tensor, the numbers that they hold, their types in C, NumPy and torch.

Torch is imported only where its type is needed: an artifact can be read and fed without it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Element:
    """The type of one value of a tensor."""

    name: str  # the name in NumPy, torch and the report
    bits: int
    low: int  # the lowest and the highest number it holds; 0 for floating point
    high: int
    c_type: str
    real: bool  # represents a real number, by a scale or as floating point; unlike ids, counters and truth values

    @property
    def bytes(self) -> int:
        return -(-self.bits // 8)

    @property
    def steps(self) -> int:
        """The number of steps from the lowest code to the highest."""
        return self.high - self.low

    @property
    def codes(self) -> tuple[int, int]:
        """The lowest and the highest number."""
        return self.low, self.high

    @property
    def affine(self) -> bool:
        """Whether its scale has a zero point. With eight bits no codes can be wasted on a one-sided range; wider ones
        are symmetric, with zero point 0."""
        return self.bits <= 8

    @property
    def symmetric(self) -> bool:
        """Whether it holds codes around zero point 0, which are wide enough for sums of products to need their own
        arithmetic. A kernel that is called by itself sees them without a scale."""
        return 8 < self.bits <= 16 and not self.floating

    @property
    def computed(self) -> bool:
        """Whether kernels compute with it, in a C type of its own; other elements are only passed through as bytes."""
        return self.c_type in (f"{self.name}_t", "float")

    @property
    def floating(self) -> bool:
        return self.name.startswith("float")

    @property
    def coded(self) -> bool:
        """Whether its numbers are codes: real numbers by a scale."""
        return self.real and not self.floating

    @property
    def unscaled(self) -> "Element":
        """The same element for integers without a scale."""
        return self if self.floating else replace(self, real=False)

    @property
    def packed(self) -> bool:
        """Whether several values share a byte in storage. Tensors hold such codes as int8, one per byte."""
        return self.bits < 8

    @property
    def numpy_dtype(self) -> "np.dtype[Any]":
        return np.dtype("int8" if self.packed else self.name)

    @property
    def torch_dtype(self) -> "torch.dtype":
        import torch

        found: torch.dtype = getattr(torch, "int8" if self.packed else self.name)
        return found

    def clamped(self, value: int) -> int:
        return max(self.low, min(self.high, value))

    def holds(self, value: int) -> bool:
        return self.low <= value <= self.high


def _integer(bits: int, *, real: bool = False) -> Element:
    return Element(f"int{bits}", bits, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, f"int{bits}_t", real=real)


def _float(bits: int, c_type: str) -> Element:
    return Element(f"float{bits}", bits, 0, 0, c_type, real=True)


_BYTES = "uint8_t"  # the C type of elements that no kernel computes with

INT4 = replace(_integer(4, real=True), c_type=_BYTES)  # for weights only
INT8 = _integer(8, real=True)
INT16 = _integer(16, real=True)
INT32 = _integer(32)
INT64 = replace(_integer(64), c_type=_BYTES)
UINT8 = Element("uint8", 8, 0, 255, "uint8_t", real=False)
BOOL = Element("bool", 8, 0, 1, _BYTES, real=False)
FLOAT16 = _float(16, _BYTES)
FLOAT32 = _float(32, "float")
FLOAT64 = _float(64, _BYTES)
# The elements of real numbers as codes: unless another is asked for, and where 8 bits keep too little.
CODES = USUAL, WIDE = INT8, INT16

_KNOWN = {one.name: one for one in (INT4, INT8, INT16, INT32, INT64, UINT8, BOOL, FLOAT16, FLOAT32, FLOAT64)}


def element_of(dtype: Any) -> Element:
    """Returns the element of a dtype of NumPy or torch, or of its name; integers of 8 and 16 bits count as codes (for
    others see `unscaled`). A dtype that nothing computes with, such as complex numbers, has its size in bytes."""
    name = str(dtype).removeprefix("torch.")
    if name in _KNOWN:
        return _KNOWN[name]
    size = np.dtype(dtype).itemsize if isinstance(dtype, str) else int(dtype.itemsize)
    return Element(name, 8 * size, 0, 0, _BYTES, real=False)


def arithmetic(elements: Iterable[str], *, int4_weights: bool = False) -> str:
    """Returns the elements of a network's real numbers in words: `int8 and int16, with int4 weights`."""
    *others, last = sorted(set(elements), key=lambda name: element_of(name).bits) or ["integers"]
    names = f"{', '.join(others)} and {last}" if others else last
    return names + (", with int4 weights" if int4_weights else "")
