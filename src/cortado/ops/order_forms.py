"""What stands at a place in sorted order: median, kthvalue, quantile; by topk, from the end that is nearer."""

import math

import torch

from cortado.ir.op import Decomposition

aten = torch.ops.aten
Tensor = torch.Tensor


def _in_order(self: Tensor, low: int, high: int, dim: int) -> list[tuple[Tensor, Tensor]]:
    """The values at two places of a dimension in ascending order, counted from 0, and where they are."""
    size = self.shape[dim]
    near = high < size - low
    found = torch.topk(self, high + 1 if near else size - low, dim=dim, largest=not near)
    places = (low, high) if near else (size - 1 - low, size - 1 - high)
    return [(found[0].narrow(dim, place, 1), found[1].narrow(dim, place, 1)) for place in places]


def _at(self: Tensor, place: int, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    (values, positions), _ = _in_order(self, place, place, dim)
    return (values, positions) if keepdim else (values.squeeze(dim), positions.squeeze(dim))


def kth_value(self: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return _at(self, k - 1, dim, keepdim)


def median_along(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The median, of an even number of values the lower of the two in the middle, as in torch; and its position."""
    return _at(self, (self.shape[dim] - 1) // 2, dim, keepdim)


def median_of_all(self: Tensor) -> Tensor:
    return median_along(self.reshape(-1), 0)[0]


def quantile(
    self: Tensor, q: float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-th quantile, interpolated where its place lies between two of the sorted values."""
    ranks = len(self.shape)
    source = self.reshape(-1) if dim is None else self
    axis = -1 if dim is None else dim
    place = q * (source.shape[axis] - 1)
    if interpolation == "nearest":
        place = float(round(place))
    low, high = math.floor(place), math.ceil(place)
    weight = {"linear": place - low, "nearest": 0.0, "lower": 0.0, "higher": 1.0, "midpoint": 0.5}[interpolation]
    (below, _), (above, _) = _in_order(source, low, high, axis)
    result = below if low == high or weight == 0.0 else above if weight == 1.0 else torch.lerp(below, above, weight)
    if keepdim:
        return result.reshape([1] * ranks) if dim is None else result
    return result.squeeze(axis)


MEDIAN = Decomposition(aten=(aten.median.default, aten.nanmedian.default), function=median_of_all)
MEDIAN_ALONG = Decomposition(aten=(aten.median.dim, aten.nanmedian.dim), function=median_along)
KTH_VALUE = Decomposition(aten=(aten.kthvalue.default,), function=kth_value)
QUANTILE = Decomposition(aten=(aten.quantile.scalar, aten.nanquantile.scalar), function=quantile)
