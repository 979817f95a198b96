"""Functions and norms without a float32 operator of their own, in terms of calls that have one."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from cortado.base.numerics import Tensor
from cortado.ir.facts import dtype
from cortado.ir.graph import Bound, add_call
from cortado.ir.op import Rewrite
from cortado.ops.elementwise.functions import divided
from cortado.ops.float_graph import decomposed
from cortado.ops.integer.written_out import bucket, is_among

aten = torch.ops.aten
_Dims = Sequence[int] | int | None

# ---- functions -----------------------------------------------------------------------------------------------


def sinh(self: Tensor) -> Tensor:
    """Computes sinh from exp(x) - 1, which is exact near 0; where that is large, the second term is negligible."""
    size = torch.expm1(self.abs())
    half = torch.where(size > 1e9, size * 0.5, (size + size / (size + 1.0)) * 0.5)
    return torch.where(self < 0, -half, half)


def cosh(self: Tensor) -> Tensor:
    size = torch.exp(self.abs())
    return size * 0.5 + 0.5 / size


def asinh(self: Tensor) -> Tensor:
    size = self.abs()
    found = torch.log1p(size + size * size / (torch.sqrt(size * size + 1.0) + 1.0))
    return torch.where(self < 0, -found, found)


def acosh(self: Tensor) -> Tensor:
    above = self - 1.0
    return torch.log1p(above + torch.sqrt(above * 2.0 + above * above))


def atanh(self: Tensor) -> Tensor:
    size = self.abs()
    found = torch.log1p(size * 2.0 / (1.0 - size)) * 0.5
    return torch.where(self < 0, -found, found)


def remainder(self: Tensor | float, other: Any) -> Tensor:
    return self - torch.floor(self / other) * other


def fmod(self: Tensor, other: Tensor | float) -> Tensor:
    return self - torch.trunc(self / other) * other


def lerp(self: Tensor, end: Tensor, weight: Tensor | float) -> Tensor:
    """Computes from the nearer end, as torch does; torch's own decomposition also copies the memory layout."""
    way = end - self
    if isinstance(weight, Tensor):
        return torch.where(weight.abs() < 0.5, self + weight * way, end - way * (1.0 - weight))
    return self + way * weight if abs(weight) < 0.5 else end - way * (1.0 - weight)


def nan_to_num(
    self: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    limits = torch.finfo(torch.float32)
    high, low = limits.max if posinf is None else posinf, limits.min if neginf is None else neginf
    plain = torch.where(self != self, torch.full((1,), nan or 0.0), self)
    plain = torch.where(plain > limits.max, torch.full((1,), high), plain)
    return torch.where(plain < limits.min, torch.full((1,), low), plain)


def bounded(self: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    above = self if min is None else torch.maximum(self, min)
    return above if max is None else torch.minimum(above, max)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    first, second = ((one * one).sum(dim) for one in (x1, x2))
    return (x1 * x2).sum(dim) / (torch.sqrt(first).clamp(min=eps) * torch.sqrt(second).clamp(min=eps))


def _length(apart: Tensor, p: float) -> Tensor:
    if p == math.inf:
        return apart.amax(-1)
    if p == 2.0:
        return torch.sqrt((apart * apart).sum(-1))
    return apart.sum(-1) if p == 1.0 else apart.pow(p).sum(-1).pow(1.0 / p)


def distances(x1: Tensor, x2: Tensor, p: float = 2.0, **_: Any) -> Tensor:
    return _length((x1.unsqueeze(-2) - x2.unsqueeze(-3)).abs(), p)


def angle(self: Tensor) -> Tensor:
    """Returns the angle of a real number: 0 or pi."""
    return torch.where(self < 0, torch.full((1,), math.pi), torch.where(self != self, self, torch.zeros((1,))))


def pair_distances(self: Tensor, p: float = 2.0) -> Tensor:
    rows, columns = torch.triu_indices(self.shape[0], self.shape[0], 1, device="cpu").unbind(0)
    return _length((self.index_select(0, rows) - self.index_select(0, columns)).abs(), p)


def rrelu(self: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, **_: Any) -> Tensor:
    """Computes rrelu in evaluation mode: one slope, the middle of its range."""
    return NotImplemented if training else torch.nn.functional.leaky_relu(self, (lower + upper) / 2)


def round_decimals(self: Tensor, *, decimals: int) -> Tensor:
    factor = 10.0 ** abs(decimals)
    return torch.round(self * factor) / factor if decimals >= 0 else torch.round(self / factor) * factor


def of_numbers(chosen: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Returns a minimum or maximum that picks the number if the other operand is NaN."""

    def called(self: Tensor, other: Tensor) -> Tensor:
        return torch.where(torch.isnan(self), other, torch.where(torch.isnan(other), self, chosen(self, other)))

    return called


def copy_sign(self: Tensor, other: Tensor) -> Tensor:
    """Copies signs, those of zeros included: the reciprocal of -0 is below 0."""
    return self.abs() * torch.where((other < 0) | (torch.reciprocal(other) < 0), -1.0, 1.0)


_LARGEST, _SMALLEST = torch.finfo(torch.float32).max, 2.0**-149


def next_after(self: Tensor, other: Tensor) -> Tensor:
    """Returns the float32 number next to each number, towards another. A little more than half a unit in the last
    place, 2^-24 of the number, rounds to the neighbour; numbers near the smallest ones are scaled up for it."""
    size = self.abs()
    away = torch.where(self < 0, other < self, other > self) | (size == 0)
    small = size < 2.0**-100
    up, down = torch.where(small, 2.0**30, 1.0), torch.where(small, 2.0**-30, 1.0)
    step = torch.where(size < 2.0**-125, _SMALLEST * 2.0**30, size * up * (2.0**-24 * (1 + 2.0**-23)))
    found = torch.where(away, size * up + step, size * up - step) * down
    found = torch.where((size == math.inf) & ~away, _LARGEST, found)
    found = torch.where((self < 0) | ((self == 0) & (other < 0)), -found, found)
    return torch.where((self == other) | (other != other), other, found)


def powers(x: Tensor, columns: int | None, increasing: bool) -> Tensor:
    """Returns the Vandermonde matrix: powers from 0 on, running products, in either order."""
    count = x.shape[0] if columns is None else columns
    found = [torch.ones_like(x)]
    while len(found) < count:
        found.append(found[-1] * x)
    return torch.stack(found[:count] if increasing else found[:count][::-1], -1) if count else NotImplemented


_FUNCTIONS: dict[Any, Any] = {
    aten.nextafter.default: next_after,
    aten.vander.default: lambda x, N=None, increasing=False: powers(x, N, increasing),  # noqa: N803, torch's name
    aten.copysign.Tensor: copy_sign,
    aten.round.decimals: round_decimals,
    aten.remainder.Scalar_Tensor: remainder,
    aten.lerp.Scalar: lerp,
    aten.lerp.Tensor: lerp,
    aten.fmin.default: of_numbers(torch.minimum),
    aten.fmax.default: of_numbers(torch.maximum),
    aten.copysign.Scalar: lambda self, other: self.abs() * math.copysign(1.0, other),
    aten.rrelu.default: rrelu,
    aten.angle.default: angle,
    aten.square.default: lambda self: self * self,
    aten.sinh.default: sinh,
    aten.cosh.default: cosh,
    aten.asinh.default: asinh,
    aten.acosh.default: acosh,
    aten.atanh.default: atanh,
    aten.erfc.default: lambda self: 1.0 - torch.erf(self),
    aten.frac.default: lambda self: self - torch.trunc(self),
    aten.hypot.default: lambda self, other: torch.sqrt(self * self + other * other),
    aten.remainder.Tensor: remainder,
    aten.remainder.Scalar: remainder,
    aten.fmod.Tensor: fmod,
    aten.fmod.Scalar: fmod,
    aten.floor_divide.default: lambda self, other: torch.floor(self / other),
    aten.div.Tensor_mode: divided,
    aten.div.Scalar_mode: divided,
    aten.nan_to_num.default: nan_to_num,
    aten.clamp.Tensor: bounded,
    aten.cosine_similarity.default: cosine_similarity,
    aten.cdist.default: distances,
    aten._cdist_forward.default: distances,
    aten._pdist_forward.default: pair_distances,
}

# ---- norms ---------------------------------------------------------------------------------------------------


def _moments(self: Tensor, dim: _Dims, correction: float) -> tuple[Tensor, Tensor]:
    """Returns variance and mean over dimensions, which are kept."""
    dims = list(range(self.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = dims or list(range(self.dim()))
    mean = self.mean(dims, keepdim=True)
    apart = self - mean
    count = 1
    for one in dims:
        count *= self.shape[one]
    return (apart * apart).sum(dims, keepdim=True) / max(count - correction, 0.0), mean


def _without(found: Tensor, self: Tensor, dim: _Dims, keepdim: bool) -> Tensor:
    if keepdim:
        return found
    dims = list(range(self.dim())) if not dim and dim != 0 else [dim] if isinstance(dim, int) else list(dim or ())
    kept = [size for at, size in enumerate(self.shape) if at not in [one % self.dim() for one in dims]]
    return found.reshape(kept)


def variance(self: Tensor, dim: _Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    found, _ = _moments(self, dim, 1.0 if correction is None else correction)
    return _without(found, self, dim, keepdim)


def variance_and_mean(
    self: Tensor, dim: _Dims = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    found, mean = _moments(self, dim, 1.0 if correction is None else correction)
    return _without(found, self, dim, keepdim), _without(mean, self, dim, keepdim)


def unbiased_variance(self: Tensor, dim: _Dims = None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    return variance(self, dim, correction=float(unbiased), keepdim=keepdim)


def deviation(self: Tensor, dim: _Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    return torch.sqrt(variance(self, dim, correction=correction, keepdim=keepdim))


def unbiased_deviation(self: Tensor, dim: _Dims = None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    return torch.sqrt(unbiased_variance(self, dim, unbiased, keepdim))


def normalized(x: Tensor, dims: Sequence[int], eps: float) -> Tensor:
    found, mean = _moments(x, dims, 0.0)
    return (x - mean) * torch.rsqrt(found + eps)


def scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float, **_: Any
) -> Tensor:
    dims = [input.dim() - 1 - at for at in range(len(normalized_shape))]
    return scaled(normalized(input, sorted(dims), eps), weight, bias)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    dims = sorted(input.dim() - 1 - at for at in range(len(normalized_shape)))
    mean = (input * input).mean(dims, keepdim=True)
    return scaled(input * torch.rsqrt(mean + (torch.finfo(torch.float32).eps if eps is None else eps)), weight, None)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None, eps: float, **_: Any
) -> Tensor:
    n, channels, *rest = input.shape
    groups = input.reshape(n, num_groups, -1)
    found = normalized(groups, [2], eps).reshape(input.shape)
    one = (channels, *[1] * len(rest))
    return scaled(found, None if weight is None else weight.reshape(one), None if bias is None else bias.reshape(one))


def instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, **_: Any) -> Tensor:
    return group_norm(input, input.shape[1], weight, bias, eps)


_NORMS: dict[Any, Any] = {
    aten.var.default: lambda self, unbiased=True: unbiased_variance(self, None, unbiased),
    aten.var.dim: unbiased_variance,
    aten.var.correction: variance,
    aten.var_mean.correction: variance_and_mean,
    aten.std.default: lambda self, unbiased=True: unbiased_deviation(self, None, unbiased),
    aten.std.dim: unbiased_deviation,
    aten.std.correction: deviation,
    aten.layer_norm.default: layer_norm,
    aten.rms_norm.default: rms_norm,
    aten.group_norm.default: group_norm,
    aten.instance_norm.default: instance_norm,
}

# ---- running values -------------------------------------------------------------------------------------------------


def _extremes(is_beyond: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, int], tuple[Tensor, Tensor]]:
    """Returns cummax or cummin: the running extremes and their positions, the last one among equals."""

    def found(self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        if self.dim() == 0:
            return NotImplemented
        parts = self.unbind(dim)
        best, place = parts[0], torch.zeros(parts[0].shape)
        values, places = [best], [place]
        for at, one in enumerate(parts[1:], start=1):
            taken = is_beyond(one, best)
            best, place = torch.where(taken, one, best), torch.where(taken, torch.full_like(place, at), place)
            values.append(best)
            places.append(place)
        return torch.stack(values, dim), torch.stack(places, dim).to(torch.int64)

    return found


def running_logsumexp(self: Tensor, dim: int) -> Tensor:
    """Computes step by step, so that a value that is small next to a later one keeps its digits."""
    if self.dim() == 0:
        return NotImplemented
    found = list(self.unbind(dim))
    for at in range(1, len(found)):
        found[at] = torch.logaddexp(found[at - 1], found[at])
    return torch.stack(found, dim)


_RUNNING: dict[Any, Callable[..., Any]] = {
    aten.cummax.default: _extremes(torch.ge),
    aten.cummin.default: _extremes(torch.le),
    aten.logcumsumexp.default: running_logsumexp,
}

# ---- counts -----------------------------------------------------------------------------------------------------


def histogram(self: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts numbers in bins of equal width; the last one includes its upper end. Without limits, those of the data."""
    flat = self.reshape(-1)
    low, high = torch.full((1,), float(min)), torch.full((1,), float(max))
    if min == max:
        low, high = flat.amin(0, keepdim=True), flat.amax(0, keepdim=True)
        one = torch.where(low == high, 1.0, 0.0)  # a single value is in the middle of a range of 2
        low, high = low - one, high + one
    place = torch.floor((flat - low) * bins / (high - low))
    place = torch.where(flat == high, torch.full_like(place, bins - 1), place)
    inside = ((flat >= low) & (flat <= high)).to(torch.float32)
    chosen = place.unsqueeze(0) == torch.arange(bins).to(torch.float32).unsqueeze(1)
    return (chosen.to(torch.float32) * inside).sum(1)


def most_frequent(self: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Returns the smallest of the most frequent numbers, and its last position."""
    if self.dim() == 0:
        return NotImplemented
    lines = self.movedim(dim, -1)
    counts = (lines.unsqueeze(-1) == lines.unsqueeze(-2)).to(torch.float32).sum(-1)
    often = counts == counts.amax(-1, keepdim=True)
    value = torch.where(often, lines, torch.full((1,), math.inf)).amin(-1, keepdim=True)
    places = torch.arange(lines.shape[-1]).to(torch.float32)
    place = torch.where(lines == value, places, torch.full((1,), -1.0)).amax(-1, keepdim=True)
    found = (one.movedim(-1, dim) for one in (value, place.to(torch.int64)))
    values, positions = (one if keepdim else one.squeeze(dim) for one in found)
    return values, positions


_COUNTS: dict[Any, Any] = {aten.histc.default: histogram, aten.mode.default: most_frequent}

# ---- questions --------------------------------------------------------------------------------------------------


def is_close(self: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    size = (self - other).abs()
    found = (self == other) | ((size <= atol + (other * rtol).abs()) & (size < math.inf))
    return found | ((self != self) & (other != other)) if equal_nan else found


def has_sign(self: Tensor) -> Tensor:
    """Tells negative numbers, and -0, whose reciprocal is negative."""
    return (self < 0) | (torch.reciprocal(self) < 0)


def is_one_of(elements: Tensor, test_element: float, invert: bool = False, **_: Any) -> Tensor:
    return elements != test_element if invert else elements == test_element


_QUESTIONS: dict[Any, Any] = {
    aten.isfinite.default: lambda self: self.abs() < math.inf,
    aten.isposinf.default: lambda self: self == math.inf,
    aten.isneginf.default: lambda self: self == -math.inf,
    aten.signbit.default: has_sign,
    aten.isclose.default: is_close,
    aten.isin.Tensor_Tensor: is_among,
    aten.isin.Tensor_Scalar: is_one_of,
}

# ---- places among others ------------------------------------------------------------------------------------------


def place(
    sorted_sequence: Tensor, self: Tensor, right: bool = False, side: str | None = None, sorter: Any = None, **_: Any
) -> Tensor:
    """Counts the values of a row below each number of this row; `right`: also those that equal it."""
    if sorter is not None:
        return NotImplemented
    return bucket(self, sorted_sequence, right=right or side == "right")


_PLACES: dict[Any, Any] = {aten.bucketize.Tensor: bucket, aten.searchsorted.Tensor: place}

# ---- means and losses ------------------------------------------------------------------------------------------------


def mean_of_numbers(self: Tensor, dim: _Dims = None, keepdim: bool = False, **_: Any) -> Tensor:
    dims = list(range(self.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    number = self == self
    return torch.where(number, self, 0.0).sum(dims, keepdim) / number.to(torch.float32).sum(dims, keepdim)


def _reduced(losses: Tensor, reduction: int) -> Tensor:
    return [losses, losses.mean(), losses.sum()][reduction]


def ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1) -> Tensor:
    return _reduced(torch.clamp(target * (input2 - input1) + margin, min=0.0), reduction)


def hinge_loss(self: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    apart = torch.where(target == 1, 0.0, torch.clamp(margin - self, min=0.0))
    return _reduced(apart + torch.where(target == -1, 0.0, self), reduction)


_LOSSES: dict[Any, Any] = {
    aten.nanmean.default: mean_of_numbers,
    aten.margin_ranking_loss.default: ranking_loss,
    aten.hinge_embedding_loss.default: hinge_loss,
}


# ---- powers of doubles -----------------------------------------------------------------------------------------------


def _is_made_float32(bound: Bound) -> bool:
    """Whether all that reads a result makes it float32; one that stays float64 has no operator."""
    readers = [user for user in bound.node.users if user.users]  # what only checks has none
    return all(user.target in _CONVERSIONS and dtype(user) == torch.float32 for user in readers)


_CONVERSIONS = aten.to.dtype, aten._to_copy.default
_POWERS: dict[Any, Any] = {
    aten.float_power.Tensor_Scalar: aten.pow.Tensor_Scalar,
    aten.float_power.Tensor_Tensor: aten.pow.Tensor_Tensor,
    aten.float_power.Scalar: aten.pow.Scalar,
}


def float_power(bound: Bound) -> Node | None:
    power = _POWERS[bound.node.target]
    return add_call(bound.node, power, bound["self"], bound["exponent"]) if _is_made_float32(bound) else None


FLOAT_POWER_REWRITE = Rewrite(aten=tuple(_POWERS), rewrite=float_power, any_element=True)
FORMS = decomposed(_FUNCTIONS | _NORMS | _RUNNING | _COUNTS | _QUESTIONS | _PLACES | _LOSSES)


# ---- truth values --------------------------------------------------------------------------------------------


def is_nan(bound: Bound) -> Node:
    """Rewrites isnan: only NaN is not equal to itself; codes have none."""
    return add_call(bound.node, aten.ne.Tensor, bound["self"], bound["self"])


def is_infinite(bound: Bound) -> Node:
    size = add_call(bound.node, aten.abs.default, bound["self"])
    return add_call(bound.node, aten.eq.Scalar, size, math.inf)


def is_finite(bound: Bound) -> Node:
    """Rewrites isfinite: the size of a number is less than infinity, that of NaN is not."""
    size = add_call(bound.node, aten.abs.default, bound["self"])
    return add_call(bound.node, aten.lt.Scalar, size, math.inf)


FINITE_REWRITE = Rewrite(aten=(aten.isfinite.default,), rewrite=is_finite, any_element=True)
NAN_REWRITE = Rewrite(aten=(aten.isnan.default,), rewrite=is_nan, any_element=True)
INFINITE_REWRITE = Rewrite(aten=(aten.isinf.default,), rewrite=is_infinite, any_element=True)
