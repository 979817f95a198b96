"""Shared parts of float32 operators: arithmetic of their references, bounds, which call a pattern takes."""

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch

from cortado.base import float32
from cortado.base.numerics import Tensor
from cortado.ir.graph import Bound
from cortado.ir.op import Call
from cortado.ir.roles import Plain, Quantization
from cortado.ir.sampling import CaseDraw

FloatArray = np.ndarray[Any, np.dtype[Any]]
_F = TypeVar("_F", bound=Callable[..., Any])
NO_BOUNDS = (-math.inf, math.inf)
MEAN, ANGLE, POWER, COMPARISON = 13, 14, 15, 16  # beside the numbers of How; what a comparison accepts is added


def quiet(function: _F) -> _F:
    """Lets NumPy make infinities and NaN without a warning: they are defined."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return called  # type: ignore[return-value]


def stored(values: FloatArray) -> Tensor:
    """Results as they are stored: float32, of all NaN the canonical one."""
    return torch.from_numpy(np.ascontiguousarray(float32.canonical(values)))


def bounded(values: FloatArray, low: float, high: float) -> Tensor:
    """Results between two bounds; NaN stays what it is."""
    least, most = np.float32(low), np.float32(high)
    found = np.where(values < least, least, values)
    return stored(np.where(found > most, most, found))


def bounds_of(call: Call) -> dict[str, float]:
    """The members of a descriptor for the bounds of its results."""
    return {"act_min": float(call["activation_min"]), "act_max": float(call["activation_max"])}


def as_it_is(bound: Bound) -> Quantization:
    """Takes a call whatever its operands are: float32 has no scale."""
    return Quantization({}, Plain())


def draw_bounds(draw: CaseDraw) -> dict[str, float]:
    """No bounds, those of a relu, or both."""
    low, high = draw.pick([NO_BOUNDS, NO_BOUNDS, (0.0, math.inf), (-1.0, 6.0)])
    return {"activation_min": low, "activation_max": high}
