"""Building blocks for operators' samples: legal shapes and parameters for every generic test to draw from.

hypothesis is imported here only, and ops/ import this module late, so that the compiler itself doesn't need it.
"""

import math
from typing import Any

import torch
from hypothesis import strategies as st

from cortado.base.element import INT8, INT16, INT32, UINT8, Element

Tensor = torch.Tensor

SEEDS = st.integers(0, 2**32 - 1)
# Sizes at and around the tiles of the kernels: 1, 2, 3, 4 +- 1, 8 +- 1, 16 +- 1, 32 + 1.
CHANNELS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 24, 31, 32, 33])
WEIGHTS = (-INT8.high, INT8.high)
ZERO_POINTS = st.one_of(st.sampled_from([INT8.low, -1, 0, 1, INT8.high]), st.integers(*INT8.codes))


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def codes(
    seed: int, shape: tuple[int, ...], low: int = INT8.low, high: int = INT8.high, dtype: torch.dtype = torch.int8
) -> Tensor:
    """Uniform integers; every fourth draw only extremes."""
    if seed % 4 == 0:
        picks = torch.tensor([low, high, 0, -1, 1], dtype=torch.int64).clamp(low, high)
        return picks[torch.randint(0, len(picks), shape, generator=generator(seed))].to(dtype)
    return torch.randint(low, high + 1, shape, generator=generator(seed), dtype=torch.int64).to(dtype)


def values(draw: Any, shape: tuple[int, ...], *, element: Element | None = None) -> Tensor:
    """Draws values of any element that is moved; most often int8."""
    kind = element or draw(st.sampled_from([INT8, INT8, INT8, INT16, INT32, UINT8]))
    return codes(draw(SEEDS), shape, kind.low, kind.high, kind.torch_dtype)


_ODD = torch.tensor([0.0, -0.0, 1.0, -1.0, 1e-40, -3e-39, 3.4e38, -3.4e38, math.inf, -math.inf, math.nan])


def numbers(draw: Any, shape: tuple[int, ...]) -> Tensor:
    """float32, every third draw of another magnitude, every fourth with denormals, infinities and NaN among them."""
    seed = draw(SEEDS)
    rng = generator(seed)
    size = int(torch.randint(-20, 20, (), generator=rng)) if seed % 3 == 0 else 0
    found = torch.randn(shape, generator=rng) * 2.0**size
    if seed % 4 == 0:
        odd = _ODD[torch.randint(0, len(_ODD), shape, generator=rng)]
        found = torch.where(torch.rand(shape, generator=rng) < 0.3, odd, found)
    return found


def fixed_points(seed: int, count: int, low: int = -14, high: int = 1) -> tuple[Tensor, Tensor]:
    """Multipliers and shifts of `count` random factors, normalised as Fixed.of makes them; some channels are 0."""
    rng = generator(seed)
    multipliers = torch.randint(2**30, 2**31, (count,), generator=rng, dtype=torch.int64)
    shifts = torch.randint(low, high + 1, (count,), generator=rng, dtype=torch.int64)
    return multipliers.to(torch.int32), shifts.to(torch.int32)


@st.composite
def activation_bounds(draw: Any, element: Element = INT8) -> tuple[int, int]:
    """No clamp, a relu-like one, or any."""
    low = draw(st.sampled_from([element.low, element.low, -5, 0]))
    high = draw(st.sampled_from([element.high, element.high, 3, 100]))
    return (low, high) if low <= high else element.codes
