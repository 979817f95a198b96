"""Rounding of weights to 4 bits with error feedback: the error of one weight is compensated by the next ones of its
channel.

The goal is to change a layer's sums, not its weights, as little as possible. Given the inputs of the layer on
calibration data (its columns: one for each product of the sum), the sums change by the weight changes times the
columns, so the squared error is a quadratic form in their second moments. Weights are rounded column by column, the
most important first; the error of each is distributed over the columns not yet rounded by the inverse of these moments,
which is the optimal compensation (Frantar et al., GPTQ, 2022).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from cortado.base.numerics import Tensor
from cortado.ir.graph import TO_NCHW
from cortado.ops.conv import int4

FEW = 64  # the weight, in rows, of the prior that steadies moments of few rows
ROWS = 2048  # rows from which moments are computed, at most
PIECE = 1024  # columns in a block: errors are distributed within it


@dataclass(frozen=True)
class Columns:
    """The inputs of a layer, one column for each product: their means and second moments."""

    mean: Tensor  # [products]
    moments: Tensor  # [products, products]

    @staticmethod
    def of(rows: Sequence[Tensor]) -> "Columns":
        """Computes the columns from `rows`, [positions, products] of each sample; of many rows, an evenly spaced
        subset."""
        together = torch.cat(list(rows)).to(torch.float64)
        some = together[:: max(1, -(-len(together) // ROWS))]
        counted = len(some) + FEW
        moments = some.T @ some
        usual = float(moments.diagonal().mean()) / max(len(some), 1) + 1.0
        moments.diagonal().add_(FEW * usual)
        return Columns(together.mean(0), moments / counted)

    @staticmethod
    def unknown(products: int) -> "Columns":
        return Columns(torch.zeros(products, dtype=torch.float64), torch.eye(products, dtype=torch.float64))

    @property
    def importance(self) -> Tensor:
        return self.moments.diagonal()


def windows(
    image: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """Returns the windows of an image [n, h, w, c] as [positions, products], in the order of the kernel's weights."""
    channels = image.shape[3]
    sizes = (tuple(one) for one in (kernel, dilation, padding, stride))
    found = torch.nn.Unfold(*sizes)(image.permute(TO_NCHW))
    by_tap = found.reshape(len(found), channels, -1, found.shape[2]).permute(0, 3, 2, 1)
    return by_tap.reshape(-1, by_tap.shape[2] * channels)


def rounded(weight: Tensor, factors: Tensor, columns: Columns) -> Tensor:
    """Rounds weights [channels, products] to q with factor * q near them; one of `factors` for each channel, or for
    each product."""
    every = factors.to(torch.float64).expand(weight.shape)
    found = torch.zeros_like(weight, dtype=torch.int64)
    for start in range(0, weight.shape[1], PIECE):
        piece = slice(start, start + PIECE)
        found[:, piece] = _piece(weight[:, piece].to(torch.float64), every[:, piece], columns.moments[piece, piece])
    return found


def _piece(weight: Tensor, factors: Tensor, moments: Tensor) -> Tensor:
    order = moments.diagonal().argsort(descending=True, stable=True)
    left, scales = weight[:, order].clone(), factors[:, order]
    share = torch.linalg.cholesky(torch.linalg.inv(moments[order][:, order]), upper=True)
    codes = torch.zeros_like(left)
    for place in range(left.shape[1]):
        codes[:, place] = (left[:, place] / scales[:, place]).round().clamp(-int4.LARGEST, int4.LARGEST)
        error = (left[:, place] - codes[:, place] * scales[:, place]) / share[place, place]
        left[:, place + 1 :] -= error[:, None] * share[place, place + 1 :]
    found = torch.zeros_like(weight, dtype=torch.int64)
    found[:, order] = codes.to(torch.int64)
    return found


def factors_of(weight: Tensor, columns: Columns, run: int) -> Tensor:
    """Returns the factors for int8 codes [channels, products] that lose least if each weight is rounded alone: one for
    each channel or, with `run`, one for each product."""
    flat = weight.to(torch.int64)
    if run == 0:
        return int4.chosen_factors(flat, columns.importance, int4.ROW_FACTORS)[:, None]
    runs, shares = int4.padded_runs(flat), int4.padded_runs(columns.importance[None])
    every = shares.expand(len(flat), -1, -1).reshape(-1, run)
    chosen = int4.chosen_factors(runs.reshape(-1, run), every, int4.FACTORS)
    return chosen.reshape(len(flat), -1).repeat_interleave(run, dim=1)[:, : flat.shape[1]]
