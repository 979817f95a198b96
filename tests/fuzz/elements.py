"""Random networks around what the general ones never draw: real tensors of 16 bits and some of 16 among others of 8,
all of them in float32 and some of them, weights of 4 bits, inputs of bytes, samples and ids, filters, rows of more than
1,023 values, calls that few models have.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cortado.options import Activations, Options, Weights
from cortado.plan.lowered import run_reference
from fuzz.layers import RECURRENT
from fuzz.network import eager
from fuzz.oracles import (
    Choices,
    Data,
    Found,
    Kind,
    ModuleCase,
    check_accuracy,
    check_capture,
    decibels,
    flat,
    rms,
)
from fuzz.recipe import Call
from helpers.filters import in_window, lowpass
from helpers.single import EVERY_VALUE

Made = Callable[[Random, tuple[int, ...]], nn.Module]  # of a shape [1, C, H, W]
JUMPS = {"sign", "rounded", "choice", "choice of two", "unpooled"}
WIDE_DB = 30.0  # that 16 bits keep at least, of what the model gives
JUMPING_DB = 25.0  # behind something that jumps, where the last bit may decide
STARTS = (
    *("numbers", "bytes", "signed bytes", "samples", "spectrum of samples", "spectrum of bytes", "filtered samples"),
    "ids",
)
IDS, KNOWN = 12, 40  # of a sentence, and all there are
ALL, SOME, NONE = "16 bits", "some of 16 bits", "8 bits"  # of the real tensors
FLOAT, FLOATS = "float32", "some in float32"
FLOAT_DB, SHARP_DB = 100.0, 80.0  # that float32 keeps at least, and behind a factor of 8 and an exponential
WEIGHTS = {"8-bit weights": 0, "4-bit weights": 0, "4-bit weights in groups": 32}
SAMPLES, FILTERED, FRAME, HOP = 512, 64, 64, 32
BLOCK_LIMIT = 6
MOST_VALUES = 4096


# ---- blocks of [1, C, H, W] ----------------------------------------------------------------------------------------


def _window(draw: Random, shape: tuple[int, ...]) -> nn.Module:
    size = draw.choice((1, 3, 5))
    return nn.Conv2d(shape[1], draw.choice((4, 6, 8, 16)), size, stride=draw.choice((1, 1, 2)), padding=size // 2)


def _depthwise(draw: Random, shape: tuple[int, ...]) -> nn.Module:
    return nn.Conv2d(shape[1], shape[1], 3, padding=1, groups=shape[1])


def _grouped(draw: Random, shape: tuple[int, ...]) -> nn.Module:
    groups = 2 if shape[1] % 2 == 0 else 1
    return nn.Conv2d(shape[1], 8, 3, padding=1, groups=groups, dilation=1)


def _across(draw: Random, shape: tuple[int, ...]) -> nn.Module:
    return nn.Linear(shape[3], draw.randint(2, 12))


class _Rows(nn.Module):
    """A recurrent layer over the rows of every channel, one channel after the other."""

    def __init__(self, kind: str, width: int, units: int) -> None:
        super().__init__()
        self.layer = RECURRENT[kind](width, units, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x.flatten(1, 2))[0]
        return found.reshape(*x.shape[:3], -1)


def _recurrent(draw: Random, shape: tuple[int, ...]) -> nn.Module:
    return _Rows(draw.choice(list(RECURRENT)), shape[3], draw.choice((4, 7, 12)))


def _plain(function: Callable[[Tensor], Tensor]) -> Made:
    return lambda draw, shape: Call(function)


def _attention(x: Tensor) -> Tensor:
    rows = x.flatten(2)
    return (torch.softmax(rows @ rows.mT / rows.shape[-1] ** 0.5, -1) @ rows).reshape(x.shape)


WIDE: Mapping[str, Made] = {
    "window": _window,
    "depthwise": _depthwise,
    "grouped": _grouped,
    "linear": _across,
    "recurrent": _recurrent,
    "sum": _plain(lambda x: x + x.flip(3)),
    "difference": _plain(lambda x: torch.sub(x, x.flip(2), alpha=0.5)),
    "product": _plain(lambda x: x * x.flip(3)),
    "quotient": _plain(lambda x: x / (2 + x.flip(3).square())),
    "smaller": _plain(lambda x: torch.minimum(x, x.roll(1, 3))),
    "larger": _plain(lambda x: torch.maximum(x, x.roll(1, 2))),
    "tanh": _plain(torch.tanh),
    "sigmoid": _plain(torch.sigmoid),
    "exponential": _plain(lambda x: torch.exp(x.clamp(max=2.0))),
    "sign": _plain(lambda x: torch.sign(x) + x),
    "rounded": _plain(lambda x: torch.floor(x) + x),
    "relu": _plain(torch.relu),
    "largest of four": _plain(lambda x: F.max_pool2d(x, 2, ceil_mode=True)),
    "mean of four": _plain(lambda x: F.avg_pool2d(x, 2, ceil_mode=True)),
    "choice": _plain(lambda x: torch.where(x > 0.1, x, 0.5 * x.flip(3))),
    "choice of two": _plain(lambda x: torch.where(x > x.flip(3), x, 0.5 * x.flip(2))),
    "attention": _plain(_attention),
    "softmax": _plain(lambda x: torch.softmax(x, 3)),
    "mean of all": _plain(lambda x: x.mean((2, 3), keepdim=True) + x),
    "joined": _plain(lambda x: torch.cat([x, x.flip(2)], 1)),
    "turned": _plain(lambda x: x.permute(0, 1, 3, 2)),
    "part": _plain(lambda x: x[:, :, : max(1, x.shape[2] - 1)]),
    "padded": _plain(lambda x: F.pad(x, (1, 0, 0, 1))),
    "batch norm": lambda draw, shape: nn.BatchNorm2d(shape[1]),
}


def _volume(draw: Random, shape: tuple[int, ...]) -> nn.Module:
    layer = nn.Conv3d(1, draw.choice((1, 2)), 3, padding="same")
    return nn.Sequential(Call(lambda x: x.unsqueeze(1)), layer, Call(lambda y: y.flatten(1, 2)))


def _unpooled(x: Tensor) -> Tensor:
    values, places = F.max_pool2d(F.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2)), 2, return_indices=True)
    return F.max_unpool2d(values, places, (2, 2))


def _largest_of_volume(x: Tensor) -> Tensor:
    padded = F.pad(x, (0, x.shape[3] % 2, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
    return F.max_pool3d(padded.unsqueeze(1), 2, return_indices=True)[0].squeeze(1)


RARE: Mapping[str, Made] = {
    "volume": _volume,
    "unpooled": _plain(_unpooled),
    "largest of a volume": _plain(_largest_of_volume),
    "mean of a volume": _plain(lambda x: F.adaptive_avg_pool3d(x.unsqueeze(1), (1, 2, 2)).squeeze(1)),
    "median": _plain(lambda x: x - x.nanmedian()),
    "median of a row": _plain(lambda x: x - x.nanmedian(3, keepdim=True).values),
    "quantile": _plain(lambda x: x - x.nanquantile(0.25, 3, keepdim=True)),
    "x log y": _plain(lambda x: torch.special.xlogy(x, x.square() + 0.5)),
}


# ---- a network -----------------------------------------------------------------------------------------------------


class Elements(nn.Module):
    """An input of some kind, blocks, and an end; what was drawn stands in `drawn`."""

    window: Tensor

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = Random(seed)
        torch.manual_seed(seed)
        self.precision, self.start = draw.choice((ALL, ALL, ALL, SOME, NONE, NONE)), draw.choice(STARTS)
        if Random(f"float32 {seed}").random() < 0.35:
            self.precision = FLOAT if seed % 2 else FLOATS
        self.wide = self.precision == ALL
        self.weights = draw.choice(list(WEIGHTS)) if self.precision == NONE else "8-bit weights"
        self.factor, self.offset = draw.choice((1.0, 1 / 64, 1 / 255)), draw.choice((0, 0, 128))
        self.register_buffer("window", torch.hann_window(FRAME))
        self.table = nn.Embedding(KNOWN, draw.choice((6, 16, 40)))
        self.filter = in_window(lowpass(draw.choice((0.02, 0.08, 0.2))))
        self.emphasized = "spectrum" in self.start and draw.random() < 0.5
        self.channels, self.side = draw.randint(1, 4), draw.randint(5, 12)
        self.drawn = [self.start, self.precision, self.weights, *(["pre-emphasis"] if self.emphasized else [])]
        self.blocks = nn.ModuleList()
        x = self._begin(*self.batches(1, 0)[0])
        known = {**WIDE, **RARE}
        for _ in range(draw.randint(2, BLOCK_LIMIT)):
            name = draw.choice(list(RARE)) if draw.random() < 0.3 else draw.choice(list(known))
            block = known[name](draw, tuple(x.shape))
            made = block(x)
            if 0 < made.numel() <= MOST_VALUES and made.shape[2] > 1 and made.shape[3] > 1:
                self.blocks.append(block)
                self.drawn.append(name)
                x = made
        self.end = draw.choice(("as it is", "scores", "long row", "truth", "best"))
        self.drawn.append(f"ends in: {self.end}")
        count = draw.randint(1030, 1300) if self.end == "long row" else draw.randint(2, 8)
        self.last = nn.Linear(x[0].numel(), count)
        self.chosen = tuple(rf"blocks\.{place}(\..*)?" for place in range(len(self.blocks)) if draw.random() < 0.5)
        if draw.random() < 0.3:
            self._thin(draw)

    def _thin(self, draw: Random) -> None:
        """Filters and columns of zeros, as pruning leaves them behind."""
        self.drawn.append("thinned")
        with torch.no_grad():
            for layer in [one for one in self.blocks if isinstance(one, nn.Conv2d)]:
                axis = draw.randrange(2)
                count = layer.weight.shape[axis]
                layer.weight.index_fill_(axis, torch.tensor(draw.sample(range(count), (count + 1) // 2)), 0.0)

    def batches(self, count: int, seed: int, scale: float = 1.0) -> list[tuple[Tensor, ...]]:
        rng = torch.Generator().manual_seed(seed)
        samples = FILTERED if self.start == "filtered samples" else SAMPLES
        shape = (1, samples) if "samples" in self.start or "spectrum" in self.start else self._picture
        if self.start == "numbers":
            return [(scale * torch.randn(shape, generator=rng),) for _ in range(count)]
        if self.start == "ids":
            return [(torch.randint(0, KNOWN, (1, IDS), generator=rng),) for _ in range(count)]
        kind = {"bytes": torch.uint8, "spectrum of bytes": torch.uint8, "signed bytes": torch.int8}.get(
            self.start, torch.int16
        )
        limits = torch.iinfo(kind)
        return [(torch.randint(limits.min, limits.max + 1, shape, generator=rng).to(kind),) for _ in range(count)]

    @property
    def smooth(self) -> bool:
        """Whether 16 bits keep much."""
        return self.wide and self.steady

    @property
    def steady(self) -> bool:
        """Whether a small error stays one all the way: nothing jumps, no factor of 8 stands before an exponential."""
        return self.end in ("as it is", "scores") and not JUMPS.intersection(self.drawn)

    @property
    def _picture(self) -> tuple[int, ...]:
        return (1, self.channels, self.side, self.side)

    def _begin(self, x: Tensor) -> Tensor:
        if self.start == "numbers":
            return x
        if self.start == "ids":
            return self.table(x).unsqueeze(1)
        if "bytes" in self.start and "spectrum" not in self.start:
            return (x.float() - self.offset) * self.factor if self.start == "bytes" else x.float() * self.factor
        sound = (x.float() - 128) / 128 if self.start == "spectrum of bytes" else x.float() / 32768
        if self.start == "samples":
            return sound.reshape(1, 2, 16, 16)
        if self.start == "filtered samples":
            return self.filter(sound).reshape(1, 1, 8, 8)
        sound = sound[:, 1:] - 0.9 * sound[:, :-1] if self.emphasized else sound
        spectrum = torch.stft(sound, FRAME, HOP, window=self.window, center=False, return_complex=True)
        return torch.log(spectrum.abs().square() + 1e-3).unsqueeze(1)

    def forward(self, x: Tensor) -> Tensor:
        x = self._begin(x)
        for block in self.blocks:
            x = block(x)
        if self.end == "as it is":
            return x
        scores = self.last(x.flatten(1))
        if self.end == "long row":
            return torch.softmax(8 * scores, 1)
        if self.end == "truth":
            return scores > 0.05
        return scores.argmax(1) if self.end == "best" else scores


# ---- checked -------------------------------------------------------------------------------------------------------


def element_case(seed: int, name: str) -> ModuleCase:
    module = Elements(seed).eval()
    data = Data(module.batches(3, seed), [*module.batches(1, -1), *module.batches(1, -2, scale=4.0)])
    return ModuleCase(module, data, Choices.draw(seed), name, options_of(module))


def options_of(module: Elements) -> Options:
    if module.wide:
        return replace(EVERY_VALUE, activations=Activations.INT16)
    if module.precision == SOME:
        return replace(EVERY_VALUE, int16=module.chosen)
    if module.precision == FLOAT:
        return replace(EVERY_VALUE, activations=Activations.FLOAT32, weights=Weights.FLOAT32)
    if module.precision == FLOATS:
        return replace(EVERY_VALUE, float32=module.chosen)
    if module.weights == "8-bit weights":
        return EVERY_VALUE
    return replace(EVERY_VALUE, weights=Weights.INT4, weight_group=WEIGHTS[module.weights] or None)


def check_values(case: ModuleCase) -> float:
    """In decibels. float32 keeps all but the order of its sums; a comparison may fall to the other side. 16 bits keep
    much, unless something jumps: then it is as near to torch as PT2E's graph is, as it is with 8 bits. With weights
    of 4 bits it may be as far from torch as the model is whose weights are rounded so."""
    module: Elements = case.network  # type: ignore[assignment]
    if module.precision == FLOAT:
        return _check_float(case, module)
    if module.weights != "8-bit weights":
        return check_accuracy(case, rounded(module)) if module.steady else wide_decibels(case)
    if not module.wide:
        return check_accuracy(case)
    kept = wide_decibels(case)
    if kept >= (WIDE_DB if module.smooth else JUMPING_DB):
        return kept
    if module.smooth:
        raise Found(Kind.ACCURACY, f"{kept:.1f} dB in 16 bits, expected {WIDE_DB}")
    return check_accuracy(case)


def _check_float(case: ModuleCase, module: Elements) -> float:
    kept = wide_decibels(case)
    least = FLOAT_DB if module.steady else SHARP_DB
    judged = module.end not in ("truth", "best") and not JUMPS.intersection(module.drawn)
    if judged and kept < least:
        raise Found(Kind.ACCURACY, f"{kept:.1f} dB in float32, expected {least}")
    return kept


def rounded(module: nn.Module) -> nn.Module:
    """The same with weights of 15 values for each output channel."""
    found = copy.deepcopy(module)
    for layer in found.modules():
        weights = isinstance(layer, nn.Conv2d | nn.Conv3d | nn.Linear | nn.RNNBase | nn.Embedding)
        for name, weight in layer.named_parameters(recurse=False) if weights else ():
            if name.startswith("weight"):
                scale = weight.data.abs().amax(list(range(1, weight.dim())), keepdim=True).clamp(min=1e-12) / 7
                weight.data = (weight.data / scale).round() * scale
    return found


def wide_decibels(case: ModuleCase) -> float:
    truth = [eager(case.network, batch) for batch in case.batches]
    check_capture(case, truth)
    found = [run_reference(case.graph, batch)[case.graph.outputs[0]] for batch in case.batches]
    want = flat(sample[0] for sample in truth)
    return decibels(rms(want), rms(flat(found) - want))
