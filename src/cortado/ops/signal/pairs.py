"""Complex numbers as pairs of float32 tensors: every aten call on them as calls on their real and imaginary parts.

Fourier transforms are products with constant matrices: one of length n = a * b is transforms of lengths a and b with a
rotation of each number in between, so 512 points take 512 * (16 + 32) complex products and no matrix is larger than 32
x 32.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cortado.base.errors import Refused

aten = torch.ops.aten
Tensor = torch.Tensor
_Part = Tensor | float
_DIRECT = 16  # points from which on a transform is done in two steps, if it can be


@dataclass(frozen=True)
class Pair:
    """Real and imaginary parts, with the same shape if both are tensors."""

    real: Any
    imag: Any

    @classmethod
    def of(cls, value: Any) -> "Pair":
        """Returns a pair; a real tensor or a number becomes one."""
        if isinstance(value, Pair):
            return value
        return cls(value.real, value.imag) if isinstance(value, complex) else cls(value, 0.0)

    def __add__(self, other: "Pair") -> "Pair":
        return Pair(self.real + other.real, self.imag + other.imag)

    def __mul__(self, other: "Pair") -> "Pair":
        return Pair(self.real * other.real - self.imag * other.imag, self.real * other.imag + self.imag * other.real)

    def scaled(self, factor: _Part) -> "Pair":
        """Returns the product with real numbers."""
        return Pair(self.real * factor, self.imag * factor)

    @property
    def conjugate(self) -> "Pair":
        return Pair(self.real, -self.imag)

    @property
    def power(self) -> Tensor:
        found: Tensor = self.real * self.real + self.imag * self.imag
        return found

    @property
    def shape(self) -> torch.Size:
        size: torch.Size = self.real.shape
        return size

    def each(self, function: Callable[[Tensor], Tensor]) -> "Pair":
        """Applies a function that moves or sums numbers to both parts."""
        return Pair(function(self.real), function(self.imag))


def _whole(pair: Pair) -> Pair:
    """Returns both parts as tensors; a part that is a number takes the shape of the other."""
    real, imag = pair.real, pair.imag
    if not isinstance(real, Tensor):
        return Pair(torch.full_like(imag, real), imag)
    return pair if isinstance(imag, Tensor) else Pair(real, torch.full_like(real, imag))


# ---- arithmetic ----------------------------------------------------------------------------------------------


def _add(self: Any, other: Any, *, alpha: float = 1) -> Pair:
    return _whole(Pair.of(self) + (Pair.of(other) if alpha == 1 else Pair.of(other).scaled(alpha)))


def _subtract(self: Any, other: Any, *, alpha: float = 1) -> Pair:
    first, second = Pair.of(self), Pair.of(other).scaled(alpha) if alpha != 1 else Pair.of(other)
    return _whole(Pair(first.real - second.real, first.imag - second.imag))


def _multiply(self: Any, other: Any) -> Pair:
    for one, factor in ((self, other), (other, self)):
        if not isinstance(factor, Pair | complex):
            return _whole(Pair.of(one).scaled(factor))
    return _whole(Pair.of(self) * Pair.of(other))


def _divide(self: Any, other: Any) -> Pair:
    """Divides, scaled by the larger part of the divisor, so that its square can't overflow."""
    first, second = Pair.of(self), Pair.of(other)
    if not isinstance(other, Pair | complex):
        return _whole(Pair(first.real / other, first.imag / other))
    if isinstance(other, complex):
        return _whole(first * Pair.of(1 / other))
    size = torch.maximum(second.real.abs(), second.imag.abs())
    part = Pair(second.real / size, second.imag / size)
    made, power = first * part.conjugate, part.power * size
    return _whole(Pair(made.real / power, made.imag / power))


def _power(self: Any, exponent: Any) -> Pair:
    """Computes a power: products for small integer exponents, a logarithm and an exponential function for others."""
    base = Pair.of(self)
    if isinstance(exponent, int | float) and float(exponent).is_integer() and 0 < exponent <= 8:
        found = base
        for _ in range(int(exponent) - 1):
            found = found * base
        return found
    return exponential(_logarithm(base) * Pair.of(exponent))


def exponential(self: Pair) -> Pair:
    return polar(torch.exp(self.real), self.imag)


def _logarithm(self: Pair) -> Pair:
    return Pair(torch.log(magnitude(self)), angle(self))


def _root(self: Pair) -> Pair:
    size = magnitude(self)
    real, imag = (torch.sqrt((size + sign * self.real).clamp(min=0) * 0.5) for sign in (1, -1))
    return Pair(real, torch.where(self.imag < 0, -imag, imag))


def magnitude(self: Pair) -> Tensor:
    """Computes the magnitude, scaled by the larger part, so that no square overflows or vanishes."""
    first, second = self.real.abs(), self.imag.abs()
    large, small = torch.maximum(first, second), torch.minimum(first, second)
    part = torch.where(large > 0, small / large, large)
    return large * torch.sqrt(1.0 + part * part)


def angle(self: Pair) -> Tensor:
    return torch.atan2(self.imag, self.real)


def polar(abs: Tensor, angle: Tensor) -> Pair:
    return Pair(abs * torch.cos(angle), abs * torch.sin(angle))


def _sign(self: Pair) -> Pair:
    size = magnitude(self)
    return self.each(lambda part: torch.where(size > 0, part / size, size))


def _sine(self: Pair) -> Pair:
    return Pair(torch.sin(self.real) * torch.cosh(self.imag), torch.cos(self.real) * torch.sinh(self.imag))


def _cosine(self: Pair) -> Pair:
    return Pair(torch.cos(self.real) * torch.cosh(self.imag), -torch.sin(self.real) * torch.sinh(self.imag))


def _product(function: Callable[[Any, Any], Tensor]) -> Callable[[Any, Any], Pair]:
    """Returns a matrix product in which one side can be real."""

    def product(self: Any, other: Any) -> Pair:
        if not isinstance(other, Pair):
            return Pair(function(self.real, other), function(self.imag, other))
        if not isinstance(self, Pair):
            return Pair(function(self, other.real), function(self, other.imag))
        first, second = function(self.real, other.real), function(self.imag, other.imag)
        return Pair(first - second, function(self.real, other.imag) + function(self.imag, other.real))

    return product


def _equal(self: Any, other: Any) -> Tensor:
    first, second = Pair.of(self), Pair.of(other)
    return (first.real == second.real) & (first.imag == second.imag)


def _where(mask: Tensor, self: Any, other: Any) -> Pair:
    first, second = _whole(Pair.of(self)), _whole(Pair.of(other))
    parts = ((first.real, second.real), (first.imag, second.imag))
    return Pair(*(torch.where(mask, one, two) for one, two in parts))


def _converted(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Converts types: between complex types nothing changes, a real number gets the imaginary part 0, and a complex one
    loses it."""
    kinds = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.dtype)]
    if kinds and not kinds[0].is_complex:
        return self.real.to(kinds[0])
    return self if isinstance(self, Pair) else Pair(self.to(torch.float32), torch.zeros_like(self, dtype=torch.float32))


# ---- Fourier transforms --------------------------------------------------------------------------------------


def _turns(points: int, rows: Sequence[int], columns: Sequence[int], sign: int) -> Pair:
    """Returns exp(sign * 2 pi i * row * column / points), as constants."""
    whole = np.outer(np.asarray(rows), np.asarray(columns)) % points
    angles = sign * 2 * np.pi * whole / points
    return Pair(*(torch.from_numpy(one(angles).astype(np.float32)) for one in (np.cos, np.sin)))


def _factor(points: int) -> int:
    """Returns the largest factor up to the square root; 1 if a length is not split."""
    if points <= _DIRECT:
        return 1
    return max(one for one in range(1, math.isqrt(points) + 1) if points % one == 0)


def _rows_times(rows: Tensor, matrix: Tensor) -> Tensor:
    """Multiplies the last dimension by a matrix, as one layer over all rows; torch.matmul would copy the matrix for
    each part of a transposed operand."""
    return torch.mm(rows.reshape(-1, rows.shape[-1]), matrix).reshape(*rows.shape[:-1], -1)


def _direct(parts: Pair | Tensor, matrix: Pair, *, only_real: bool = False) -> Any:
    """Multiplies the last dimension by a matrix: both parts side by side, so that it is one layer."""
    if isinstance(parts, Tensor):
        count = matrix.real.shape[1]
        both = _rows_times(parts, torch.cat([matrix.real, matrix.imag], 1))
        return Pair(both[..., :count], both[..., count:])
    joined = torch.cat([parts.real, parts.imag], -1)
    real = torch.cat([matrix.real, -matrix.imag], 0)
    if only_real:
        return _rows_times(joined, real)
    both = _rows_times(joined, torch.cat([real, torch.cat([matrix.imag, matrix.real], 0)], 1))
    count = matrix.real.shape[1]
    return Pair(both[..., :count], both[..., count:])


def _transform(parts: Pair | Tensor, sign: int, bins: int, *, only_real: bool = False) -> Any:
    """Returns the first `bins` of the transform along the last dimension, rounded up to a multiple of a factor."""
    points = parts.shape[-1]
    first = _factor(points)
    if first == 1:
        return _direct(parts, _turns(points, range(points), range(bins), sign), only_real=only_real)
    second = points // first
    lead = tuple(parts.shape[:-1])

    def split(part: Tensor) -> Tensor:
        return part.reshape(*lead, first, second).transpose(-1, -2)

    columns = split(parts) if isinstance(parts, Tensor) else parts.each(split)
    made = _transform(columns, sign, first)
    turned = made * _turns(points, range(second), range(first), sign)
    rows = turned.each(lambda part: part.transpose(-1, -2))
    found = _transform(rows, sign, -(-bins // first), only_real=only_real)

    def joined(part: Tensor) -> Tensor:
        return part.transpose(-1, -2).reshape(*lead, -1)

    return joined(found) if only_real else found.each(joined)


def _along_last(function: Callable[[Any], Any], value: Any, dim: int) -> Any:
    """Applies a function of the last dimension along another one."""

    def moved(part: Tensor) -> Tensor:
        return part.transpose(dim, -1)

    given = value.each(moved) if isinstance(value, Pair) else moved(value)
    found = function(given)
    return found.each(moved) if isinstance(found, Pair) else moved(found)


def _scale(sizes: Sequence[int], normalization: int) -> float:
    count = math.prod(sizes)
    return (1.0, count**-0.5, 1.0 / count)[normalization]


def _normalized(value: Any, sizes: Sequence[int], normalization: int) -> Any:
    factor = _scale(sizes, normalization)
    if factor == 1.0:
        return value
    return value.scaled(factor) if isinstance(value, Pair) else value * factor


def fft_of_complex(self: Pair, dim: Sequence[int], normalization: int, forward: bool) -> Pair:
    found, sign = self, -1 if forward else 1
    for one in dim:
        found = _along_last(lambda part: _transform(part, sign, part.shape[-1]), found, one)
    normalized: Pair = _normalized(found, [self.shape[one] for one in dim], normalization)
    return normalized


def fft_of_real(self: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Pair:
    *others, last = dim
    bins = self.shape[last] // 2 + 1 if onesided else self.shape[last]

    def of_rows(part: Tensor) -> Pair:
        found: Pair = _transform(part, -1, bins)
        return found.each(lambda one: one[..., :bins])

    found = _along_last(of_rows, self, last)
    for one in reversed(others):
        found = _along_last(lambda part: _transform(part, -1, part.shape[-1]), found, one)
    normalized: Pair = _normalized(found, [self.shape[one] for one in dim], normalization)
    return normalized


def fft_to_real(self: Pair, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    """Transforms half a spectrum, whose other half is its conjugate, to real numbers."""
    *others, last = dim
    found = self
    for one in others:
        found = _along_last(lambda part: _transform(part, 1, part.shape[-1]), found, one)

    def of_rows(half: Pair) -> Tensor:
        bins = last_dim_size // 2 + 1
        other = half.each(lambda part: part[..., 1 : last_dim_size - bins + 1].flip(-1)).conjugate
        parts = ((half.real, other.real), (half.imag, other.imag))
        whole = Pair(*(torch.cat([one[..., :bins], two], -1) for one, two in parts))
        made: Tensor = _transform(whole, 1, last_dim_size, only_real=True)
        return made

    made = _along_last(of_rows, found, last)
    sizes = [*(self.shape[one] for one in others), last_dim_size]
    normalized: Tensor = _normalized(made, sizes, normalization)
    return normalized


# ---- frames of a signal --------------------------------------------------------------------------------------


def _window(window: Tensor | None, length: int, points: int) -> Tensor:
    """Returns a window centered in a frame."""
    if window is None:
        window = torch.ones(length)
    left = (points - length) // 2
    return torch.nn.functional.pad(window, (left, points - length - left))


def spectra(
    self: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """Computes torch.stft of signals that are already padded."""
    if align_to_window:
        raise Refused("stft aligns frames to the window; leave align_to_window out")
    frames = self.unfold(-1, n_fft, hop_length or n_fft // 4) * _window(window, win_length or n_fft, n_fft)
    found = fft_of_real(frames, [-1], int(normalized), onesided is not False)
    turned = found.each(lambda part: part.transpose(-1, -2))
    return turned if return_complex else torch.stack([turned.real, turned.imag], -1)


def _overlapped(frames: Tensor, hop: int) -> Tensor:
    """Overlap-adds frames [..., frame, position], each `hop` after the one before."""
    count, points = frames.shape[-2:]
    parts = -(-points // hop)
    padded = torch.nn.functional.pad(frames, (0, parts * hop - points))
    split = padded.reshape(*frames.shape[:-2], count, parts, hop)
    moved = [torch.nn.functional.pad(split[..., at, :], (0, 0, at, parts - 1 - at)) for at in range(parts)]
    total = moved[0]
    for one in moved[1:]:
        total = total + one
    return total.reshape(*frames.shape[:-2], -1)[..., : (count - 1) * hop + points]


def signal_of(
    self: Pair,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """Computes torch.istft: frames from their spectra, windowed, overlap-added, and divided by the overlap-added
    squared window."""
    hop, wide = hop_length or n_fft // 4, _window(window, win_length or n_fft, n_fft)
    turned = self.each(lambda part: part.transpose(-1, -2))
    whole = self.shape[-2] == n_fft and (onesided is False or return_complex)
    form = 1 if normalized else 2
    made: Any = fft_of_complex(turned, [-1], form, False) if whole else fft_to_real(turned, [-1], form, n_fft)
    made = made.real if whole and not return_complex else made
    count = self.shape[-1]
    total = _overlapped((wide * wide).expand(count, n_fft), hop)
    start = n_fft // 2 if center else 0
    end = (count - 1) * hop + n_fft if not center else (count - 1) * hop + n_fft - n_fft // 2
    end = end if length is None else min(start + length, (count - 1) * hop + n_fft)

    def of_part(part: Tensor) -> Tensor:
        found = _overlapped(part * wide, hop)[..., start:end] / total[start:end]
        return found if length is None else torch.nn.functional.pad(found, (0, length - (end - start)))

    return made.each(of_part) if isinstance(made, Pair) else of_part(made)


# ---- the table -----------------------------------------------------------------------------------------------


def _half(name: str) -> Callable[[Any], Any]:
    return lambda self: getattr(Pair.of(self), name)


FORMS: dict[Any, Callable[..., Any]] = {
    aten.complex.default: lambda real, imag: Pair(*torch.broadcast_tensors(real, imag)),
    aten.polar.default: polar,
    aten.view_as_complex.default: lambda self: Pair(self[..., 0], self[..., 1]),
    aten.view_as_real.default: lambda self: torch.stack([self.real, self.imag], -1),
    aten.real.default: _half("real"),
    aten.imag.default: _half("imag"),
    aten.abs.default: magnitude,
    aten.angle.default: angle,
    aten._conj.default: _half("conjugate"),
    aten._conj_physical.default: _half("conjugate"),
    aten.conj_physical.default: _half("conjugate"),
    aten.resolve_conj.default: lambda self: self,
    aten.resolve_neg.default: lambda self: self,
    aten.add.Tensor: _add,
    aten.add.Scalar: _add,
    aten.sub.Tensor: _subtract,
    aten.sub.Scalar: _subtract,
    aten.rsub.Tensor: lambda self, other, *, alpha=1: _subtract(other, self, alpha=alpha),
    aten.rsub.Scalar: lambda self, other, alpha=1: _subtract(other, self, alpha=alpha),
    aten.mul.Tensor: _multiply,
    aten.mul.Scalar: _multiply,
    aten.div.Tensor: _divide,
    aten.div.Scalar: _divide,
    aten.reciprocal.default: lambda self: _divide(1.0, self),
    aten.square.default: lambda self: self * self,
    aten.pow.Tensor_Scalar: _power,
    aten.pow.Tensor_Tensor: _power,
    aten.pow.Scalar: lambda self, exponent: exponential(Pair.of(complex(torch.tensor(self).log())) * exponent),
    aten.exp.default: exponential,
    aten.log.default: _logarithm,
    aten.sqrt.default: _root,
    aten.sgn.default: _sign,
    aten.sin.default: _sine,
    aten.cos.default: _cosine,
    aten.mm.default: _product(torch.mm),
    aten.bmm.default: _product(torch.bmm),
    aten.eq.Tensor: _equal,
    aten.eq.Scalar: _equal,
    aten.ne.Tensor: lambda self, other: torch.logical_not(_equal(self, other)),
    aten.where.self: _where,
    aten.to.dtype: _converted,
    aten._to_copy.default: _converted,
    aten.stft.default: spectra,
    aten.istft.default: signal_of,
    aten._fft_c2c.default: fft_of_complex,
    aten._fft_r2c.default: fft_of_real,
    aten._fft_c2r.default: fft_to_real,
}
# Transforms that also take a real spectrum: they then have complex numbers in between only.
HALF_SPECTRA: frozenset[Any] = frozenset(
    (aten.fft_irfft.default, aten.fft_irfft2.default, aten.fft_irfftn.default)
    + (aten.fft_hfft.default, aten.fft_hfft2.default, aten.fft_hfftn.default)
)
# Calls that move or sum numbers, and so do the same to each part.
EACH: frozenset[Any] = frozenset(
    (
        *(aten.neg.default, aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim),
        *(aten.cumsum.default, aten.roll.default, aten.flip.default, aten.cat.default, aten.stack.default),
        *(aten.clone.default, aten.alias.default, aten.contiguous.default, aten.detach.default, aten.repeat.default),
        *(aten.index_select.default, aten.gather.default, aten.index.Tensor, aten.constant_pad_nd.default),
        *(aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.squeeze.default),
        *(aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default, aten.transpose.int, aten.permute.default),
        *(aten.t.default, aten.expand.default, aten.slice.Tensor, aten.select.int, aten.split.Tensor),
        *(aten.split_with_sizes.default, aten.unbind.int, aten.chunk.default, aten.unfold.default),
        *(aten.diagonal.default, aten._unsafe_view.default, aten.movedim.int),
    )
)
