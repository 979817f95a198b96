"""Element types: how many bits one value of a tensor has, which numbers they hold, its type in C, NumPy and torch.

Torch is asked for only where somebody wants its type: an artifact is read and fed without it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Element:
    """One value of a tensor."""

    name: str  # as NumPy, torch and the report call it
    bits: int
    low: int  # the smallest and the largest number it holds; of floating point, 0
    high: int
    c_type: str
    real: bool  # stands for a real number, by a scale or as floating point; ids, counters and truth values do not

    @property
    def bytes(self) -> int:
        return -(-self.bits // 8)

    @property
    def steps(self) -> int:
        """The number of steps from the smallest code to the largest."""
        return self.high - self.low

    @property
    def codes(self) -> tuple[int, int]:
        """The smallest and the largest number."""
        return self.low, self.high

    @property
    def affine(self) -> bool:
        """Whether a zero point goes with its scale. Eight bits can't leave half of their codes unused; wider ones are
        symmetric, of zero point 0."""
        return self.bits <= 8

    @property
    def computed(self) -> bool:
        """Whether C has a type for it, with which kernels compute; others pass through as bytes."""
        return self.c_type in (f"{self.name}_t", "float")

    @property
    def floating(self) -> bool:
        return self.name.startswith("float")

    @property
    def coded(self) -> bool:
        """Whether its numbers stand for real ones by a scale."""
        return self.real and not self.floating

    @property
    def unscaled(self) -> "Element":
        """The same bits where they hold integers that have no scale."""
        return self if self.floating else replace(self, real=False)

    @property
    def packed(self) -> bool:
        """Whether several values share a byte where they are stored. Tensors hold such codes as int8, a byte each."""
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


_BYTES = "uint8_t"  # in C, of what no kernel computes with: it can only pass through

INT4 = replace(_integer(4, real=True), c_type=_BYTES)  # of weights alone
INT8 = _integer(8, real=True)
INT16 = _integer(16, real=True)
INT32 = _integer(32)
INT64 = replace(_integer(64), c_type=_BYTES)
UINT8 = Element("uint8", 8, 0, 255, "uint8_t", real=False)
BOOL = Element("bool", 8, 0, 1, _BYTES, real=False)
FLOAT16 = _float(16, _BYTES)
FLOAT32 = _float(32, "float")
FLOAT64 = _float(64, _BYTES)

_KNOWN = {one.name: one for one in (INT4, INT8, INT16, INT32, INT64, UINT8, BOOL, FLOAT16, FLOAT32, FLOAT64)}


def element_of(dtype: Any) -> Element:
    """Returns the element of a type of NumPy's or torch's, or of its name; integers of 8 and 16 bits as codes
    (`unscaled`: not so). One that nothing computes with, as complex numbers, has its bytes."""
    name = str(dtype).removeprefix("torch.")
    if name in _KNOWN:
        return _KNOWN[name]
    size = np.dtype(dtype).itemsize if isinstance(dtype, str) else int(dtype.itemsize)
    return Element(name, 8 * size, 0, 0, _BYTES, real=False)


def arithmetic(elements: Iterable[str], *, int4_weights: bool = False) -> str:
    """The elements of a network's real numbers in words: `int8 and int16, with int4 weights`."""
    *others, last = sorted(set(elements), key=lambda name: element_of(name).bits) or ["integers"]
    names = f"{', '.join(others)} and {last}" if others else last
    return names + (", with int4 weights" if int4_weights else "")
