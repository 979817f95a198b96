"""Shared parts of float32 operators: reference arithmetic, bounds, and quantization of calls that need none."""

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch

from cortado.base import float32
from cortado.base.numerics import Tensor
from cortado.ir.graph import Bound
from cortado.ir.roles import Plain, Quantization
from cortado.ir.sampling import CaseDraw

FloatArray = np.ndarray[Any, np.dtype[Any]]
_F = TypeVar("_F", bound=Callable[..., Any])
NO_BOUNDS = (-math.inf, math.inf)
MEAN, ANGLE, POWER, COMPARISON = 13, 14, 15, 16  # after the numbers of How; accepted relations are added


def quiet(function: _F) -> _F:
    """Suppresses NumPy's warnings about infinities and NaN: these results are defined."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return called  # type: ignore[return-value]


def stored(values: FloatArray) -> Tensor:
    """Returns results as they are stored: float32, with every NaN in its canonical form."""
    return torch.from_numpy(np.ascontiguousarray(float32.canonical(values)))


def bounded(values: FloatArray, low: float, high: float) -> Tensor:
    """Clamps results to two bounds; NaN stays NaN."""
    least, most = np.float32(low), np.float32(high)
    found = np.where(values < least, least, values)
    return stored(np.where(found > most, most, found))


def as_it_is(bound: Bound) -> Quantization:
    """Takes a call with operands of any kind: float32 has no scale."""
    return Quantization({}, Plain())


def draw_bounds(draw: CaseDraw) -> dict[str, float]:
    """Draws no bounds, those of a relu, or both."""
    low, high = draw.pick([NO_BOUNDS, NO_BOUNDS, (0.0, math.inf), (-1.0, 6.0)])
    return {"activation_min": low, "activation_max": high}
