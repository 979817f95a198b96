"""Weights of 4 bits: how int8 codes become such, and what of them is stored.

A code of 4 bits lies in [-7, 7]: it is factor * q of an int8 code. `RUN` products of an output channel, in the order
kernel_h, kernel_w, in_c, have a factor of their own, or all of them have one, which is then part of the multiplier.
"""

from dataclasses import dataclass

import numpy as np
import torch

from cortado.base.arrays import ArrayType
from cortado.base.element import weight_limit
from cortado.base.errors import CortadoError
from cortado.base.numerics import Tensor
from cortado.ops._narrow_packing import LEAST, RUN

LARGEST = weight_limit(4)
FACTORS = range(LEAST, LEAST + 16)
ROW_FACTORS = range(1, max(FACTORS) + 1)  # of a whole row: it is not stored, or has a byte of its own


def rounded(codes: Tensor, factor: Tensor | int) -> Tensor:
    """The q of each code, to nearest, ties away from zero."""
    half = torch.div(factor if isinstance(factor, Tensor) else torch.tensor(factor), 2, rounding_mode="floor")
    found = torch.sign(codes) * torch.div(codes.abs() + half, factor, rounding_mode="floor")
    return found.clamp(-LARGEST, LARGEST)


def chosen_factors(codes: Tensor, weights: Tensor, factors: range) -> Tensor:
    """For each row of int8 codes the factor with the least squared error; `weights` say how much each column counts."""
    wide, best, least = codes.to(torch.int64), torch.zeros(len(codes), dtype=torch.int64), None
    for factor in factors:
        error = (((wide - factor * rounded(wide, factor)) ** 2).to(torch.float64) * weights).sum(1)
        better = error < least if least is not None else torch.ones_like(error, dtype=torch.bool)
        best = torch.where(better, factor, best)
        least = error if least is None else torch.minimum(error, least)
    return best


def padded_runs(flat: Tensor) -> Tensor:
    """[channels, products] as [channels, runs, RUN], with zeros behind the last."""
    short = -flat.shape[1] % RUN
    return torch.nn.functional.pad(flat, (0, short)).reshape(len(flat), -1, RUN)


def drawn(seed: int, sizes: tuple[int, ...], run: int) -> Tensor:
    """Weights of 4 bits, for samples of operators: [channels, ...]."""
    from cortado.ir import sampling

    codes = sampling.codes(seed, sizes, -LARGEST, LARGEST)
    if run == 0:
        return codes
    flat = codes.reshape(sizes[0], -1)
    runs = -(-flat.shape[1] // run)
    factors = sampling.codes(seed + 1, (sizes[0], runs), min(FACTORS), max(FACTORS))
    repeated = factors.repeat_interleave(run, dim=1)[:, : flat.shape[1]]
    return (flat * repeated).to(torch.int8).reshape(sizes)


@dataclass(frozen=True)
class StoredWeights:
    """What is stored of a call's weights: q as [channels, products], and the factors of runs as [channels, runs]."""

    codes: ArrayType
    factors: ArrayType | None

    @staticmethod
    def of(weight: ArrayType, run: int) -> "StoredWeights":
        flat = weight.reshape(len(weight), -1).astype(np.int64)
        if run == 0:
            if np.any(np.abs(flat) > LARGEST):
                raise CortadoError(f"a weight of 4 bits is {int(np.abs(flat).max())}, expected {LARGEST} at most")
            return StoredWeights(flat.astype(np.int8), None)
        runs = padded_runs(torch.from_numpy(flat)).numpy()
        fits = np.stack([np.all((runs % f == 0) & (np.abs(runs) <= LARGEST * f), axis=2) for f in FACTORS])
        if not np.all(fits.any(axis=0)):
            raise CortadoError(f"{RUN} weights of 4 bits have no factor of {FACTORS[0]} to {FACTORS[-1]} in common")
        factors = fits.argmax(axis=0) + LEAST
        codes = (runs // factors[:, :, None]).reshape(len(flat), -1)[:, : flat.shape[1]]
        return StoredWeights(codes.astype(np.int8), factors.astype(np.uint8))
