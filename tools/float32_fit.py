"""Fits the polynomials of cortado_f32.h and float32.py: `python tools/float32_fit.py` prints every coefficient.

Each is a weighted least squares fit on Chebyshev points whose weights grow where the error is largest, so it comes
close to the smallest possible maximum. Coefficients are rounded to binary32 one after the other, the lowest power
first, and those that are left are fitted again behind each. (mpmath is here with torch.)
"""

from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np

mpmath.mp.prec = 120
POINTS = 1500
Function = Callable[[mpmath.mpf], mpmath.mpf]


@dataclass(frozen=True)
class Fit:
    """A polynomial of `terms` coefficients for `function` on [low, high], in powers of x or of x * x.

    `weight` is what an error of the polynomial becomes in the result, relative to the result.
    """

    name: str
    function: Function
    weight: Function
    low: float
    high: float
    terms: int
    even: bool = False
    bits: int = 0  # of fixed point, where the coefficients are integers; else binary32
    halved: int = 0  # the same for the lowest power alone; each other has one bit less than the one before

    def fixed(self, power: int) -> int:
        return self.halved - power if self.halved else self.bits


def _lawson(powers: np.ndarray, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns coefficients whose largest weighted error is close to the smallest one there is."""
    scale = np.ones_like(values)
    best, least = np.zeros(powers.shape[1]), np.inf
    for _ in range(200):
        rows = (weights * np.sqrt(scale))[:, None]
        found, *_ = np.linalg.lstsq(powers * rows, values * rows[:, 0], rcond=None)
        error = np.abs(powers @ found - values) * weights
        if error.max() < least:
            best, least = found, error.max()
        scale = scale * (error / error.max() + 1e-3)
        scale /= scale.mean()
    return best


def coefficients(fit: Fit) -> tuple[list[float], float]:
    """Returns the coefficients, lowest power first, and the largest error they give."""
    middle, half = (fit.high + fit.low) / 2, (fit.high - fit.low) / 2
    x = middle + half * np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)
    x = x[np.abs(x) > 1e-4 * fit.high]
    exact = [mpmath.mpf(float(one)) for one in x]
    values = np.array([float(fit.function(one)) for one in exact])
    weights = np.array([float(abs(fit.weight(one))) for one in exact])
    powers = np.vander(x * x if fit.even else x, fit.terms, increasing=True)
    rounded: list[float] = []
    rest = values.copy()
    for k in range(fit.terms):
        first = _lawson(powers[:, k:], rest, weights)[0]
        bits = fit.fixed(k)
        one = round(first * 2**bits) / 2**bits if bits else float(np.float32(first))
        rounded.append(one)
        rest = rest - powers[:, k] * one
    return rounded, float(np.max(np.abs(rest) * weights))


def _ratio(top: Function, bottom: Function) -> Function:
    return lambda x: top(x) / bottom(x)


def _log_tail(x: mpmath.mpf) -> mpmath.mpf:
    return (mpmath.log1p(x) - x + x * x / 2) / x**3


def _power_slope(x: mpmath.mpf) -> mpmath.mpf:
    return (mpmath.log1p(x) / mpmath.log(2) / x - 1 / mpmath.log(2)) / x


EIGHTH = float(mpmath.pi / 4) + 1e-6
ROOT = float(mpmath.sqrt(2))
FITS = (
    Fit("exp", lambda x: (mpmath.expm1(x) - x) / x**2, lambda x: x * x / mpmath.expm1(x), -0.51, 0.51, 6),
    Fit("exp2", lambda x: (mpmath.mpf(2) ** x - 1) / x, lambda x: x, -0.5, 0.5, 6),
    Fit("log", _log_tail, lambda x: x**3 / mpmath.log1p(x), ROOT / 2 - 1, ROOT - 1, 8),
    Fit("tanh", lambda x: (mpmath.tanh(x) / x - 1) / x**2, lambda x: x**3 / mpmath.tanh(x), 0, 0.625, 5, even=True),
    Fit("erf", lambda x: mpmath.erf(x) / x - 1, lambda x: x / mpmath.erf(x), 0, 0.875, 7, even=True),
    Fit("erf_far", lambda x: -mpmath.log(mpmath.erfc(x)), mpmath.erfc, 0.875, 4, 7),
    Fit("sin", lambda x: (mpmath.sin(x) / x - 1) / x**2, lambda x: x**3 / mpmath.sin(x), 0, EIGHTH, 3, even=True),
    Fit("cos", lambda x: (mpmath.cos(x) - 1 + x * x / 2) / x**4, lambda x: x**4, 0, EIGHTH, 3, even=True),
    Fit("tan", lambda x: (mpmath.tan(x) / x - 1) / x**2, lambda x: x**3 / mpmath.tan(x), 0, EIGHTH, 7, even=True),
    Fit("atan", lambda x: (mpmath.atan(x) / x - 1) / x**2, lambda x: x**3 / mpmath.atan(x), 0, 1, 9, even=True),
    Fit("asin", lambda x: (mpmath.asin(x) / x - 1) / x**2, lambda x: x**3 / mpmath.asin(x), 0, 0.5, 5, even=True),
    Fit("pow_log", _power_slope, lambda x: x, -0.0308, 0.0308, 5, bits=31),
    Fit("pow_log_usual", lambda x: mpmath.log1p(x) / mpmath.log(2) / x, lambda x: x, -0.0308, 0.0308, 6, halved=30),
    Fit("pow_exp", lambda x: mpmath.mpf(2) ** (x + 0.5), lambda x: mpmath.mpf(1), -0.5, 0.5, 7, bits=30),
)


def main() -> None:
    for fit in FITS:
        found, error = coefficients(fit)
        bits = [fit.fixed(k) for k in range(fit.terms)]
        shown = [str(round(one * 2**b)) if b else f"{one:.9g}" for one, b in zip(found, bits, strict=True)]
        print(f"{fit.name:8} error 2^{np.log2(error):.1f}: {', '.join(shown)}")


if __name__ == "__main__":
    main()
