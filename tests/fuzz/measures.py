"""Sums of products, distances, spreads, running sums, values picked from constant places, copies under aten's names."""

import math

import torch
from torch.nn import functional

from fuzz.choices import MOST_ELEMENTS, MOST_RANK, any_shape, at_least, aten, image, pair, rank, same, unary
from fuzz.recipe import Block, Shape, Tensor


def several(shape: Shape) -> bool:
    """A spread of a single value has no meaning."""
    return len(shape) >= 1 and shape[-1] >= 2


def squares_fit(shape: Shape) -> bool:
    return len(shape) == 1 and shape[0] ** 2 <= MOST_ELEMENTS


def unfolds(shape: Shape) -> bool:
    return several(shape) and len(shape) < MOST_RANK and 2 * math.prod(shape) <= MOST_ELEMENTS


def each_to_each(a: Shape, b: Shape) -> bool:
    return a == b and len(a) in (2, 3) and math.prod(a) * a[-2] <= MOST_ELEMENTS


def backwards(x: Tensor, sizes: Shape) -> Tensor:
    """Places along the last dimension, from its end."""
    return torch.arange(sizes[-1]).flip(0).expand(sizes)


def gram(x: Tensor) -> Tensor:
    return 0.1 * (x @ x.mT)


def masked(x: Tensor) -> Tensor:
    """A softmax over the values up to the row's own place."""
    ahead = torch.ones(x.shape[-2:], dtype=torch.bool).triu(1)
    return x.masked_fill(ahead, -math.inf).softmax(-1)


def both(pairs: tuple[Tensor, Tensor]) -> Tensor:
    return pairs[0] + pairs[1]


def loudness(x: Tensor) -> Tensor:
    """Of as many bins as a row has values, above a floor that int8 can't hide."""
    return torch.log(torch.fft.rfft(x, 64).abs()[..., : x.shape[-1]] + 0.5)


def positive(x: Tensor) -> Tensor:
    return x.abs() + 0.5


def short(shape: Shape) -> bool:
    return several(shape) and shape[-1] <= 33


def powers(x: Tensor) -> Tensor:
    padded = functional.pad(x, (0, 64 - x.shape[-1]))
    return 0.1 * aten._fft_r2c.default(padded, [x.dim() - 1], 1, True).abs().square()[..., : x.shape[-1]]


def transformed(x: Tensor) -> Tensor:
    """Frames of all values in a row, as many of them as there are."""
    row = functional.pad(x.reshape(1, -1), (0, 64))
    return torch.log1p(torch.stft(row, 32, 16, window=torch.ones(32), center=False, return_complex=True).abs())


MEASURES: dict[str, Block] = {
    "cosine_similarity": pair(lambda a, b: functional.cosine_similarity(a, b, -1)[..., None], same),
    "pairwise_distance": pair(lambda a, b: functional.pairwise_distance(a, b)[..., None], same),
    "cdist": pair(torch.cdist, each_to_each),
    "var": unary(lambda x: x - 0.1 * aten.var.default(x), several),
    "var_dim": unary(lambda x: aten.var.dim(x, [-1], True, True), several),
    "var_correction": unary(lambda x: aten.var.correction(x, [-1], correction=0, keepdim=True), several),
    "std": unary(lambda x: x - aten.std.default(x), several),
    "std_dim": unary(lambda x: aten.std.dim(x, [-1], True, True), several),
    "std_correction": unary(lambda x: aten.std.correction(x, [-1], correction=0, keepdim=True), several),
    "var_mean": unary(lambda x: x - both(aten.var_mean.default(x)), several),
    "var_mean_dim": unary(lambda x: both(aten.var_mean.dim(x, [-1], True, True)), several),
    "var_mean_correction": unary(lambda x: both(aten.var_mean.correction(x, [-1], keepdim=True)), several),
    "std_mean": unary(lambda x: x - both(aten.std_mean.default(x)), several),
    "std_mean_dim": unary(lambda x: both(aten.std_mean.dim(x, [-1], True, True)), several),
    "std_mean_correction": unary(lambda x: both(aten.std_mean.correction(x, [-1], keepdim=True)), several),
    "rfft": unary(loudness, short),
    "r2c": unary(powers, short),
    "stft": unary(transformed, lambda s: 16 <= math.prod(s) <= MOST_ELEMENTS // 2),
    "cumsum": unary(lambda x: aten.cumsum.default(x, -1) / x.shape[-1], any_shape),
    "einsum": unary(lambda x: 0.2 * torch.einsum("ij,kj->ik", x, x), rank(2)),
    "baddbmm": unary(lambda x: torch.baddbmm(gram(x), x, x.mT, alpha=0.1), rank(3)),
    "addbmm": unary(lambda x: torch.addbmm(gram(x[0]), x, x.mT, alpha=0.1), rank(3)),
    "mv": unary(lambda x: 0.2 * aten.mv.default(x, x[0]), rank(2)),
    "addmv": unary(lambda x: torch.addmv(x[:, 0], x, x[0], alpha=0.2), rank(2)),
    "dot": unary(lambda x: 0.1 * x * aten.dot.default(x, x), rank(1)),
    "vdot": unary(lambda x: 0.1 * x * aten.vdot.default(x, x), rank(1)),
    "inner": unary(lambda x: 0.2 * aten.inner.default(x, x), rank(2)),
    "outer": unary(lambda x: aten.outer.default(x, x), squares_fit),
    "ger": unary(lambda x: aten.ger.default(x, x), squares_fit),
    "lerp": pair(lambda a, b: torch.lerp(a, b, 0.3), same),
    "lerp_tensor": pair(lambda a, b: torch.lerp(a, b, a.sigmoid()), same),
    "gather": unary(lambda x: torch.gather(x, -1, backwards(x, tuple(x.shape)))),
    "take_along_dim": unary(lambda x: torch.take_along_dim(x, backwards(x, tuple(x.shape)), -1)),
    "take": unary(lambda x: torch.take(x, backwards(x, (2, x.numel())))),
    "unfold": unary(lambda x: x.unfold(-1, 2, 1), unfolds),
    "unfold_copy": unary(lambda x: aten.unfold_copy.default(x, -1, 2, 1), unfolds),
    "diagonal": unary(lambda x: aten.diagonal.default(x, 0, -2, -1), at_least(2)),
    "diagonal_copy": unary(lambda x: aten.diagonal_copy.default(x, 0, -2, -1), at_least(2)),
    "linalg_diagonal": unary(lambda x: aten.linalg_diagonal.default(x), at_least(2)),
    "rot90": unary(lambda x: torch.rot90(x, 1, (-2, -1)), at_least(2)),
    "im2col": unary(
        lambda x: functional.unfold(x, 2, padding=1),
        lambda s: image(s) and 4 * s[0] * s[1] * (s[2] + 1) * (s[3] + 1) <= MOST_ELEMENTS,
    ),
    "triu": unary(torch.triu, at_least(2)),
    "tril": unary(lambda x: torch.tril(x, 1), at_least(2)),
    "local_response_norm": unary(lambda x: functional.local_response_norm(x, 3, alpha=0.5), image),
    "masked_softmax": unary(masked, at_least(2)),
    "permute_copy": unary(lambda x: torch.permute_copy(x, tuple(reversed(range(x.dim()))))),
    "t_copy": unary(torch.t_copy, rank(1, 2)),
    "transpose_copy": unary(lambda x: aten.transpose_copy.int(x, 0, -1)),
    "unsqueeze_copy": unary(lambda x: aten.unsqueeze_copy.default(x, 0), lambda s: len(s) < MOST_RANK),
    "squeeze_copy": unary(lambda x: aten.squeeze_copy.default(x.unsqueeze(0))),
    "squeeze_copy_dim": unary(lambda x: aten.squeeze_copy.dim(x.unsqueeze(0), 0)),
    "squeeze_copy_dims": unary(lambda x: aten.squeeze_copy.dims(x.unsqueeze(0), [0])),
    "slice_copy": unary(lambda x: aten.slice_copy.Tensor(x, 0, 0, max(1, x.shape[0] - 1))),
    "select_copy": unary(lambda x: aten.select_copy.int(x, 0, 0), at_least(2)),
    "detach_copy": unary(lambda x: aten.detach_copy.default(x)),
    "alias_copy": unary(lambda x: aten.alias_copy.default(x)),
    "as_strided": unary(lambda x: x.contiguous().as_strided((x.shape[0],), (x.stride(0),)), at_least(2)),
    "as_strided_copy": unary(lambda x: aten.as_strided_copy.default(x.contiguous(), (2,), (1,)), several),
    "split": unary(lambda x: 0.5 * sum(aten.split.Tensor(torch.cat([x, x]), x.shape[0]))),
    "float_power": unary(lambda x: 0.1 * aten.float_power.Tensor_Tensor(positive(x), x.tanh()).float()),
    "float_power_scalar": unary(lambda x: 0.1 * aten.float_power.Tensor_Scalar(positive(x), 1.5).float()),
    "float_power_base": unary(lambda x: aten.float_power.Scalar(1.5, x.tanh()).float()),
    "isnan": unary(lambda x: torch.where(aten.isnan.default(x), 1.0, x)),
    "isinf": unary(lambda x: torch.where(aten.isinf.default(x), 1.0, x)),
    "isfinite": unary(lambda x: torch.where(aten.isfinite.default(x), x, 1.0)),
}
