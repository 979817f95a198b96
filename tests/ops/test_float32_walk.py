"""A walk over torch.nn and its functions in float32: each near eager torch on fresh data, and on the host the bits of
the reference; those that are refused say why."""

import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from cortado.api import prepare
from cortado.base.errors import CortadoError
from cortado.options import Options
from helpers.single import decibels

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")
FLOAT = Options(activations="float32", weights="float32", artifacts="c")  # type: ignore[arg-type]
LEAST = 100.0  # decibels
Built = Callable[[], nn.Module]
Called = Callable[..., Any]
Shape = tuple[int, ...]
LINE, ROW, IMAGE, VOLUME = (2, 9), (2, 4, 12), (1, 4, 6, 8), (1, 2, 4, 5, 6)


class Calls(nn.Module):
    """A function as a model; its results, or parts of them, are the outputs."""

    def __init__(self, called: Called) -> None:
        super().__init__()
        self.called = called

    def forward(self, *given: Tensor) -> Any:
        return tuple(one for one in pytree.tree_leaves(self.called(*given)) if isinstance(one, Tensor))


ACTIVATIONS = (
    "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid Mish PReLU RReLU ReLU "
    "ReLU6 SELU SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink"
)
MODULES: Mapping[str, tuple[Built, tuple[Shape, ...]]] = {
    **{name: (getattr(nn, name), ((2, 8),)) for name in ACTIVATIONS.split()},
    "Softmax": (lambda: nn.Softmax(1), (LINE,)),
    "Softmin": (lambda: nn.Softmin(1), (LINE,)),
    "LogSoftmax": (lambda: nn.LogSoftmax(1), (LINE,)),
    "Softmax2d": (nn.Softmax2d, (IMAGE,)),
    "Threshold": (lambda: nn.Threshold(0.1, -2.0), (LINE,)),
    "Linear": (lambda: nn.Linear(9, 5), (LINE,)),
    "Bilinear": (lambda: nn.Bilinear(9, 4, 3), (LINE, (2, 4))),
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3, 2, 1, 2), (ROW,)),
    "Conv2d": (lambda: nn.Conv2d(4, 6, (3, 2), (1, 2), (1, 0), groups=2), (IMAGE,)),
    "Conv3d": (lambda: nn.Conv3d(2, 4, 3, padding=1), (VOLUME,)),
    "Conv2d same": (lambda: nn.Conv2d(4, 3, (3, 4), padding="same", padding_mode="reflect"), (IMAGE,)),
    "Conv2d circular": (lambda: nn.Conv2d(4, 3, 3, padding=1, padding_mode="circular"), (IMAGE,)),
    "Conv2d depthwise": (lambda: nn.Conv2d(4, 8, 3, groups=4), (IMAGE,)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 3, 3, 2, 1), (ROW,)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2), (IMAGE,)),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(2, 3, 2, 2), (VOLUME,)),
    "AvgPool1d": (lambda: nn.AvgPool1d(3, 2, 1), (ROW,)),
    "AvgPool2d": (lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), (IMAGE,)),
    "AvgPool3d": (lambda: nn.AvgPool3d(2), (VOLUME,)),
    "MaxPool1d": (lambda: nn.MaxPool1d(3, 2, 1), (ROW,)),
    "MaxPool2d": (lambda: nn.MaxPool2d(3, 2, 1, return_indices=True), (IMAGE,)),
    "MaxPool3d": (lambda: nn.MaxPool3d(2), (VOLUME,)),
    "LPPool1d": (lambda: nn.LPPool1d(2, 3), (ROW,)),
    "LPPool2d": (lambda: nn.LPPool2d(2, 2), (IMAGE,)),
    "AdaptiveAvgPool1d": (lambda: nn.AdaptiveAvgPool1d(5), (ROW,)),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d((3, 4)), (IMAGE,)),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d((3, 4)), (IMAGE,)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(4), (ROW,)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), (IMAGE,)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (IMAGE,)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4), (IMAGE,)),
    "LayerNorm": (lambda: nn.LayerNorm(9), (LINE,)),
    "RMSNorm": (lambda: nn.RMSNorm(9), (LINE,)),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), (IMAGE,)),
    "CrossMapLRN": (lambda: nn.LocalResponseNorm(3, 1e-2, 0.5, 2.0), (IMAGE,)),
    "LSTM": (lambda: nn.LSTM(12, 5, 2, bidirectional=True, batch_first=True), ((1, 4, 12),)),
    "LSTM projected": (lambda: nn.LSTM(12, 5, proj_size=3, batch_first=True), ((1, 4, 12),)),
    "GRU": (lambda: nn.GRU(12, 5, batch_first=True), ((1, 4, 12),)),
    "RNN": (lambda: nn.RNN(12, 5, nonlinearity="relu"), ((4, 1, 12),)),
    "LSTMCell": (lambda: nn.LSTMCell(9, 5), (LINE,)),
    "GRUCell": (lambda: nn.GRUCell(9, 5), (LINE,)),
    "RNNCell": (lambda: nn.RNNCell(9, 5), (LINE,)),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(12, 3, 16, batch_first=True), (ROW,)),
    "TransformerDecoderLayer": (lambda: nn.TransformerDecoderLayer(12, 3, 16, batch_first=True), (ROW, (2, 3, 12))),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), (IMAGE,)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (IMAGE,)),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), (IMAGE,)),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), (IMAGE,)),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d((1, 2, 1, 0)), (IMAGE,)),
    "ReplicationPad1d": (lambda: nn.ReplicationPad1d(2), (ROW,)),
    "ReplicationPad3d": (lambda: nn.ReplicationPad3d(1), (VOLUME,)),
    "CircularPad2d": (lambda: nn.CircularPad2d(1), (IMAGE,)),
    "ConstantPad1d": (lambda: nn.ConstantPad1d((1, 2), 3.5), (ROW,)),
    "Fold": (lambda: nn.Fold((4, 5), (2, 2)), ((1, 12, 12),)),
    "Unfold": (lambda: nn.Unfold((2, 3)), (IMAGE,)),
    "Flatten": (nn.Flatten, (IMAGE,)),
    "CosineSimilarity": (nn.CosineSimilarity, (LINE, LINE)),
    "PairwiseDistance": (nn.PairwiseDistance, (LINE, LINE)),
    "MSELoss": (nn.MSELoss, (LINE, LINE)),
    "SmoothL1Loss": (nn.SmoothL1Loss, (LINE, LINE)),
    "HuberLoss": (nn.HuberLoss, (LINE, LINE)),
    "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean", log_target=True), (LINE, LINE)),
    "BCEWithLogitsLoss": (nn.BCEWithLogitsLoss, (LINE, LINE)),
}
FUNCTIONS: Mapping[str, tuple[Called, tuple[Shape, ...]]] = {
    "conv2d, computed weights": (lambda x, w: F.conv2d(x, w, padding=1), (IMAGE, (3, 4, 3, 3))),
    "conv1d, computed weights": (lambda x, w: F.conv1d(x, w, stride=2, groups=2), (ROW, (6, 2, 3))),
    "conv3d, computed weights": (F.conv3d, (VOLUME, (3, 2, 2, 2, 2))),
    "conv_transpose1d, computed weights": (lambda x, w: F.conv_transpose1d(x, w, padding=1), (ROW, (4, 3, 3))),
    "conv_transpose3d, computed weights": (F.conv_transpose3d, (VOLUME, (2, 3, 2, 2, 2))),
    "conv_transpose2d, computed weights": (lambda x, w: F.conv_transpose2d(x, w, stride=2), (IMAGE, (4, 3, 2, 2))),
    "linear, computed weights": (F.linear, (LINE, (5, 9), (5,))),
    "max_unpool2d": (lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), (2, 2)), (IMAGE,)),
    "fractional sizes": (lambda x: F.interpolate(x, size=(7, 11), mode="bilinear", align_corners=True), (IMAGE,)),
    "interpolate area": (lambda x: F.interpolate(x, size=(3, 4), mode="area"), (IMAGE,)),
    "interpolate trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), (VOLUME,)),
    "interpolate nearest-exact": (lambda x: F.interpolate(x, size=(9, 5), mode="nearest-exact"), (IMAGE,)),
    "interpolate, antialiased": (lambda x: F.interpolate(x, (3, 4), mode="bilinear", antialias=True), (IMAGE,)),
    "other names": (
        lambda a, b: torch.multiply(torch.subtract(a, 0.5), torch.negative(torch.true_divide(a, b))),
        (LINE,) * 2,
    ),
    "fmin": (lambda a, b: torch.fmin(torch.log(a), torch.fmax(a, b)), (LINE, LINE)),
    "copies": (lambda x: torch.squeeze_copy(x.unsqueeze(0)) + torch.copysign(x, -1.0), (LINE,)),
    "divide, rounded": (lambda x: torch.divide(x, 0.5, rounding_mode="floor") + torch.sgn(x), (LINE,)),
    "grid_sample": (lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False), (IMAGE, (1, 3, 4, 2))),
    "affine_grid": (lambda t: F.affine_grid(t, [1, 2, 4, 5], align_corners=False), ((1, 2, 3),)),
    "attention, causal": (lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True), (ROW, ROW)),
    "normalize": (lambda x: F.normalize(x, p=1.5, dim=-1), (ROW,)),
    "gumbel-free softmax": (lambda x: F.softmax(x / 0.5, -1), (ROW,)),
    "hardtanh": (lambda x: F.hardtanh(x, -0.3, 0.6), (LINE,)),
    "one_hot": (lambda x: F.one_hot(x.argmax(1), 9).float() @ x.T, (LINE,)),
    "triplet": (F.triplet_margin_loss, (LINE, LINE, LINE)),
    "cross entropy": (lambda x, y: F.cross_entropy(x, y.softmax(1)), (LINE, LINE)),
    "cummax": (lambda x: torch.cummax(x, 1), (LINE,)),
    "cummin": (lambda x: torch.cummin(x, 0), (LINE,)),
    "cumprod": (lambda x: x.cumprod(1), (LINE,)),
    "logcumsumexp": (lambda x: torch.logcumsumexp(20 * x, 1), (LINE,)),
    "diff": (lambda x: torch.diff(x, 2), (LINE,)),
    "trapezoid": (lambda x: torch.trapezoid(x, dx=0.1), (LINE,)),
    "cumulative_trapezoid": (lambda x: torch.cumulative_trapezoid(x, dx=0.1), (LINE,)),
    "median": (lambda x: x.median(1), (LINE,)),
    "mode of signs": (lambda x: x.sign().sum(1), (LINE,)),
    "kthvalue": (lambda x: x.kthvalue(3, 1), (LINE,)),
    "sort": (lambda x: x.sort(1, descending=True), (LINE,)),
    "topk": (lambda x: x.topk(3, 1, largest=False), (LINE,)),
    "argsort": (lambda x: x.argsort(1), (LINE,)),
    "aminmax": (lambda x: torch.aminmax(x, dim=1), (LINE,)),
    "quantile": (lambda x: torch.quantile(x, 0.3, 1), (LINE,)),
    "std_mean": (lambda x: torch.std_mean(x, 1), (LINE,)),
    "var_mean": (lambda x: torch.var_mean(x, (0, 2), correction=0), (ROW,)),
    "histogram-free count": (lambda x: (x > 0).sum(1), (LINE,)),
    "bucketize": (lambda x: torch.bucketize(x, torch.tensor([-0.5, 0.0, 0.5])), (LINE,)),
    "searchsorted": (lambda x: torch.searchsorted(torch.tensor([-0.5, 0.0, 0.5]), x), (LINE,)),
    "cdist": (torch.cdist, (LINE, (3, 9))),
    "pdist": (F.pdist, ((4, 9),)),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b), (ROW, (2, 3, 12))),
    "tensordot": (lambda a, b: torch.tensordot(a, b, 1), (LINE, (9, 4))),
    "kron": (torch.kron, ((2, 3), (3, 2))),
    "outer": (torch.outer, ((4,), (5,))),
    "cross": (lambda a, b: torch.linalg.cross(a, b), ((2, 3), (2, 3))),
    "matrix_power": (lambda x: torch.linalg.matrix_power(x, 3), ((4, 4),)),
    "multi_dot": (lambda a, b, c: torch.linalg.multi_dot([a, b, c]), (LINE, (9, 4), (4, 3))),
    "matrix_norm": (lambda x: torch.linalg.matrix_norm(x), (ROW,)),
    "vecdot": (lambda a, b: torch.linalg.vecdot(a, b), (LINE, LINE)),
    "trace": (torch.trace, ((4, 4),)),
    "tril": (lambda x: x.tril(1) + x.triu(-1), ((4, 5),)),
    "diagonal": (lambda x: torch.diag_embed(torch.diagonal(x)), ((4, 4),)),
    "addmm": (lambda a, b, c: torch.addmm(a, b, c, beta=0.5, alpha=2), ((2, 4), LINE, (9, 4))),
    "baddbmm": (torch.baddbmm, ((2, 4, 3), ROW, (2, 12, 3))),
    "lerp": (lambda a, b: torch.lerp(a, b, 0.3), (LINE, LINE)),
    "addcdiv": (lambda a, b: torch.addcdiv(a, b, b.abs() + 1, value=0.3), (LINE, LINE)),
    "hypot": (torch.hypot, (LINE, LINE)),
    "logaddexp": (torch.logaddexp, (LINE, LINE)),
    "logaddexp2": (torch.logaddexp2, (LINE, LINE)),
    "xlogy": (lambda a, b: torch.xlogy(a, b.abs() + 0.1), (LINE, LINE)),
    "copysign": (torch.copysign, (LINE, LINE)),
    "fmod": (lambda a, b: torch.fmod(a, b.abs() + 0.2), (LINE, LINE)),
    "remainder": (lambda a, b: torch.remainder(a, b.abs() + 0.2), (LINE, LINE)),
    "floor_divide": (lambda a: torch.floor_divide(a, 0.4), (LINE,)),
    "heaviside": (torch.heaviside, (LINE, LINE)),
    "sinc": (torch.sinc, (LINE,)),
    "logit": (lambda x: torch.logit(x.sigmoid()), (LINE,)),
    "deg2rad": (torch.deg2rad, (LINE,)),
    "nan_to_num": (lambda x: torch.nan_to_num(torch.log(x), 0.5), (LINE,)),
    "clamp by tensors": (lambda a, b: torch.clamp(a, b, b + 0.5), (LINE, LINE)),
    "gather": (lambda x: x.gather(1, x.argsort(1)), (LINE,)),
    "scatter_add": (lambda x: torch.zeros(2, 9).scatter_add(1, x.argsort(1), x), (LINE,)),
    "index_add": (lambda x: torch.zeros(3, 9).index_add(0, torch.tensor([2, 0]), x), (LINE,)),
    "index_select": (lambda x: x.index_select(1, torch.tensor([8, 0, 3])), (LINE,)),
    "take_along_dim": (lambda x: torch.take_along_dim(x, x.argmin(1, keepdim=True), 1), (LINE,)),
    "masked_fill": (lambda x: x.masked_fill(x > 0.3, 7.0), (LINE,)),
    "where": (lambda a, b: torch.where(a > b, a, b * 2), (LINE, LINE)),
    "roll": (lambda x: x.roll((1, 2), (0, 1)), (LINE,)),
    "flip": (lambda x: x.flip(0, 1), (LINE,)),
    "rot90": (lambda x: torch.rot90(x, 1, (2, 3)), (IMAGE,)),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), (LINE,)),
    "tile": (lambda x: x.tile(2, 3), (LINE,)),
    "stack": (lambda a, b: torch.stack([a, b], 1), (LINE, LINE)),
    "meshgrid": (lambda a, b: torch.meshgrid(a, b, indexing="ij"), ((4,), (5,))),
    "unfold": (lambda x: x.unfold(1, 4, 2), (LINE,)),
    "as_strided": (lambda x: x.as_strided((3, 4), (2, 1)), ((12,),)),
    "rfft": (lambda x: torch.view_as_real(torch.fft.rfft(x)), (ROW,)),
    "stft": (lambda x: torch.stft(x, 8, 4, window=torch.hann_window(8), return_complex=True).abs(), ((1, 32),)),
    "angle": (lambda a, b: torch.complex(a, b).angle(), (LINE, LINE)),
    "isfinite": (lambda x: torch.isfinite(torch.log(x)), (LINE,)),
    "isposinf": (lambda x: torch.isposinf(1 / torch.relu(x)), (LINE,)),
    "isneginf": (lambda x: torch.isneginf(torch.log(torch.relu(x))), (LINE,)),
    "signbit": (lambda x: torch.signbit(torch.cat([x, x * 0], 1)), (LINE,)),
    "isclose": (lambda a, b: torch.isclose(a, b, 0.1, 0.5), (LINE, LINE)),
    "isclose, NaN too": (lambda x: torch.isclose(torch.log(x), torch.log(x), equal_nan=True), (LINE,)),
    "isin": (lambda x: torch.isin(x, x[0, ::2], invert=True), (LINE,)),
    "isin a number": (lambda x: torch.isin(torch.sign(x), 1), (LINE,)),
    "bucketize, computed": (lambda a, b: torch.bucketize(a, b.sort().values, right=True), (LINE, (7,))),
    "searchsorted, rows": (lambda a, b: torch.searchsorted(b.sort(1).values, a), (LINE, (2, 7))),
    "nanmean": (lambda x: torch.nanmean(torch.log(x + 1), 1), (LINE,)),
    "margin_ranking_loss": (lambda a, b: F.margin_ranking_loss(a, b, a.sign(), 0.2), (LINE, LINE)),
    "hinge_embedding_loss": (lambda a, b: F.hinge_embedding_loss(a, b.sign()), (LINE, LINE)),
    "float_power": (lambda x: torch.float_power(x.abs(), 1.7).float(), (LINE,)),
    "float_power of tensors": (lambda a, b: torch.float_power(a.abs(), b).to(torch.float32), (LINE, LINE)),
    "float_power of a number": (lambda x: torch.float_power(2.5, x).float() + 1, (LINE,)),
    "irfft of real": (lambda x: torch.fft.irfft(x, 20), (LINE,)),
    "irfft2 of real": (lambda x: torch.fft.irfft2(x, norm="ortho"), (ROW,)),
    "hfft of real": (lambda x: torch.fft.hfft(x), (LINE,)),
    "vander": (lambda x: torch.vander(x, 4), ((5,),)),
    "vander, increasing": (lambda x: torch.vander(x, increasing=True), ((5,),)),
    "histc": (lambda x: torch.histc(x, 8, -1, 2), ((60,),)),
    "histc, of the data": (lambda x: torch.histc(x, 5) + torch.histc(x[:1] * 0, 5), ((60,),)),
    "mode": (lambda x: torch.mode(torch.round(x), 1), ((4, 15),)),
    "mode, kept": (lambda x: torch.mode(torch.round(x), 0, keepdim=True).values, ((15, 4),)),
    "nextafter": (
        lambda a, b: torch.cat(
            [
                torch.nextafter(a, b) - a,
                torch.nextafter(a * 0, b) * 2.0**125 * 2.0**20,
                torch.nextafter(a * 2.0**-126, b) * 2.0**120,
                torch.nextafter(a * math.inf, b),
                torch.nextafter(a, a),
            ],
            1,
        ),
        (LINE, LINE),
    ),
    "polar": (lambda a, b: torch.view_as_real(torch.polar(a.abs(), b)), (LINE, LINE)),
}
UNKNOWN = ("erfinv", "lgamma", "digamma", "i0")
REFUSED: Mapping[str, tuple[Called, tuple[Shape, ...], str]] = {
    "inverse": (torch.linalg.inv, ((4, 4),), "linalg_inv"),
    "det": (torch.linalg.det, ((4, 4),), "linalg_det"),
    **{name: (getattr(torch, name), (LINE,), f"{name}.default.*no float32 operator") for name in UNKNOWN},
    "hash_tensor": (lambda x: torch.hash_tensor(x), (LINE,), "hash_tensor"),
    "uint64": (lambda x: x.abs().to(torch.uint64), (LINE,), "uint64"),
    "float_power, kept": (lambda x: torch.float_power(x, 2) + 1, (LINE,), "float64"),
    "pseudoinverse": (torch.linalg.pinv, ((4, 4),), "linalg_pinv"),
    "rank": (torch.linalg.matrix_rank, ((4, 4),), "linalg_|aten"),
    "nonzero": (lambda x: x.nonzero(), (LINE,), "shape depends on values"),
    "rand": (lambda x: x + torch.rand_like(x), (LINE,), "different outputs each time"),
}
SAMPLE = ("CELU", "Conv3d", "LSTM projected", "Bilinear", "Fold")
SAMPLED = (
    "conv2d, computed weights",
    "max_unpool2d",
    "cummax",
    "logcumsumexp",
    "quantile",
    "scatter_add",
    "rfft",
    "isclose",
    "isin",
    "searchsorted, rows",
    "float_power",
    "other names",
    "fmin",
    "copies",
    "irfft of real",
    "histc",
    "mode",
    "nextafter",
)


def _marked(names: Mapping[str, Any], sample: tuple[str, ...]) -> list[Any]:
    assert set(sample) <= set(names)
    return [pytest.param(name, marks=() if name in sample else pytest.mark.slow) for name in names]


def _drawn(seed: int, shapes: tuple[Shape, ...]) -> tuple[Tensor, ...]:
    rng = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(shape, generator=rng) for shape in shapes)


def _check(model: nn.Module, shapes: tuple[Shape, ...]) -> None:
    """Compares all outputs with those of the module itself, integers and truth values exactly."""
    compiled = prepare(model.eval(), _drawn(0, shapes), options=FLOAT).compile("cortex-m4", FLOAT)
    given = _drawn(1, shapes)
    found = compiled.run(*given, on="host")
    assert found.bit_exact
    with torch.no_grad():
        wanted = [one for one in pytree.tree_leaves(model(*given)) if isinstance(one, Tensor)]
    for want, output in zip(wanted, found.outputs, strict=True):
        got = torch.as_tensor(output).reshape(want.shape)
        if want.is_floating_point():
            assert decibels(want, got) > LEAST
        else:
            assert torch.equal(want.to(torch.int64), got.to(torch.int64))


@pytest.mark.host
@pytest.mark.parametrize("name", _marked(MODULES, SAMPLE))
def test_a_module_follows_eager_torch(name: str) -> None:
    torch.manual_seed(zlib.crc32(name.encode()))
    build, shapes = MODULES[name]
    _check(build(), shapes)


@pytest.mark.host
@pytest.mark.parametrize("name", _marked(FUNCTIONS, SAMPLED))
def test_a_function_follows_eager_torch(name: str) -> None:
    called, shapes = FUNCTIONS[name]
    _check(Calls(called), shapes)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why(name: str) -> None:
    called, shapes, words = REFUSED[name]
    with pytest.raises(CortadoError, match=words):
        prepare(Calls(called), _drawn(0, shapes), options=FLOAT).compile("cortex-m4", FLOAT)
