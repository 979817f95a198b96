"""Draws of operators' arguments: legal shapes and parameters for every generic test.

An operator's `samples` takes a `CaseDraw`, the only part that needs hypothesis; the compiler doesn't.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from cortado.base.element import CODES, INT8, INT16, INT32, UINT8, USUAL, Element

Tensor = torch.Tensor
Choice = TypeVar("Choice")

# Sizes at and around the tiles of the kernels: 1, 2, 3, 4 +- 1, 8 +- 1, 16 +- 1, 32 + 1.
CHANNELS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 24, 31, 32, 33)
WEIGHTS = (-INT8.high, INT8.high)
_ODD = torch.tensor([0.0, -0.0, 1.0, -1.0, 1e-40, -3e-39, 3.4e38, -3.4e38, math.inf, -math.inf, math.nan])


class CaseDraw:
    """The choices for one test case, made by hypothesis, which shrinks failures to the simplest."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        from hypothesis import strategies

        self._draw, self._known = draw, strategies

    def pick(self, choices: Sequence[Choice]) -> Choice:
        found: Choice = self._draw(self._known.sampled_from(choices))
        return found

    def whole(self, low: int, high: int) -> int:
        return int(self._draw(self._known.integers(low, high)))

    def real(self, low: float, high: float) -> float:
        return float(self._draw(self._known.floats(low, high)))

    def flag(self) -> bool:
        return bool(self._draw(self._known.booleans()))

    def permutation(self, given: list[int]) -> list[int]:
        return list(self._draw(self._known.permutations(given)))

    def seed(self) -> int:
        return self.whole(0, 2**32 - 1)

    def channels(self) -> int:
        return self.pick(CHANNELS)

    def sizes(self, most: int, fewest: int, longest: int) -> tuple[int, ...]:
        """Draws between `fewest` and `longest` dimensions, each from 1 to `most`."""
        return tuple(self._draw(self._known.lists(self._known.integers(1, most), min_size=fewest, max_size=longest)))

    def rows(self, most: int = 4) -> tuple[int, ...]:
        """Draws any shape whose last dimension is at or around the tile sizes of the kernels."""
        return (*self.sizes(most, 0, 3), self.channels())

    def element(self, *others: Element) -> Element:
        """Draws an element of codes, most often int8, or one of `others`."""
        return self.pick([USUAL, *CODES, *others])

    def zero_point(self, element: Element = INT8) -> int:
        if not element.affine:
            return 0
        return self.pick([self.pick([element.low, -1, 0, 1, element.high]), self.whole(*element.codes)])

    def bounds(self, element: Element = INT8) -> tuple[int, int]:
        """Draws clamp bounds: none, relu-like ones, or any."""
        low = self.pick([element.low, element.low, -5, 0])
        high = self.pick([element.high, element.high, 3, 100])
        return (low, high) if low <= high else element.codes

    def codes(self, shape: tuple[int, ...], element: Element | None = None) -> Tensor:
        """Draws values of an element; any by default, most often int8."""
        kind = element or self.pick([INT8, INT8, INT8, INT16, INT32, UINT8])
        return codes(self.seed(), shape, kind.low, kind.high, kind.torch_dtype)

    def numbers(self, shape: tuple[int, ...]) -> Tensor:
        """Draws float32: every third draw with another magnitude, every fourth with denormals, infinities and NaN."""
        seed = self.seed()
        rng = generator(seed)
        size = int(torch.randint(-20, 20, (), generator=rng)) if seed % 3 == 0 else 0
        found = torch.randn(shape, generator=rng) * 2.0**size
        if seed % 4 == 0:
            odd = _ODD[torch.randint(0, len(_ODD), shape, generator=rng)]
            found = torch.where(torch.rand(shape, generator=rng) < 0.3, odd, found)
        return found


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def codes(
    seed: int, shape: tuple[int, ...], low: int = INT8.low, high: int = INT8.high, dtype: torch.dtype = torch.int8
) -> Tensor:
    """Returns uniform integers; every fourth seed gives extremes only."""
    if seed % 4 == 0:
        picks = torch.tensor([low, high, 0, -1, 1], dtype=torch.int64).clamp(low, high)
        return picks[torch.randint(0, len(picks), shape, generator=generator(seed))].to(dtype)
    return torch.randint(low, high + 1, shape, generator=generator(seed), dtype=torch.int64).to(dtype)


def fixed_points(seed: int, count: int, low: int = -14, high: int = 1) -> tuple[Tensor, Tensor]:
    """Returns multipliers and shifts of `count` random factors, normalised as Fixed.of makes them; some channels are
    0."""
    rng = generator(seed)
    multipliers = torch.randint(2**30, 2**31, (count,), generator=rng, dtype=torch.int64)
    shifts = torch.randint(low, high + 1, (count,), generator=rng, dtype=torch.int64)
    return multipliers.to(torch.int32), shifts.to(torch.int32)
