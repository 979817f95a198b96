"""Networks as users have them, with masks, states, two directions, two inputs: the same bits everywhere."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from cortado.api import Model, prepare
from cortado.base.target import from_target_string
from cortado.options import Options
from helpers.cores import FOUR
from helpers.noise import beside_pt2e, integer_outputs
from helpers.single import decibels, lower_on, randn

Tensor = torch.Tensor
Shapes = tuple[tuple[int, ...], ...]

SAMPLES = 6
LENGTH, WIDTH, HEADS = 12, 16, 2


class UNet(nn.Module):
    """Two levels, bilinear on the way up."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.bottom = nn.Conv2d(16, 16, 3, padding=1)
        self.up, self.top, self.last = (
            nn.Conv2d(32, 8, 3, padding=1),
            nn.Conv2d(16, 8, 3, padding=1),
            nn.Conv2d(8, 1, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        a = F.relu(self.first(x))
        b = F.relu(self.second(F.max_pool2d(a, 2)))
        c = F.relu(self.bottom(F.max_pool2d(b, 2)))
        c = F.interpolate(c, scale_factor=2, mode="bilinear", align_corners=False)
        d = F.relu(self.up(torch.cat([b, c], 1)))
        d = F.interpolate(d, size=a.shape[2:], mode="bilinear", align_corners=True)
        return torch.sigmoid(self.last(F.relu(self.top(torch.cat([a, d], 1)))))


class Siamese(nn.Module):
    """Two images through one network, and how alike they are."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * 25, 24),
        )

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cosine_similarity(self.body(x), self.body(y))


class CausalBlock(nn.Module):
    """A layer of a language model, its mask in one of three spellings."""

    ahead: Tensor
    minus: Tensor

    def __init__(self, spelling: str) -> None:
        super().__init__()
        self.spelling = spelling
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.register_buffer("ahead", torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1))
        self.register_buffer("minus", torch.full((LENGTH, LENGTH), -math.inf).triu(1))

    def attention(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.spelling == "causal":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        masked = scores + self.minus if self.spelling == "added" else scores.masked_fill(self.ahead, -1e9)
        return masked.softmax(-1) @ v

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(self.norms[0](x)).chunk(3, -1)
        q, k, v = (part.reshape(1, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts)
        x = x + self.out(self.attention(q, k, v).transpose(1, 2).reshape(x.shape))
        result: Tensor = x + self.mlp(self.norms[1](x))
        return result


class Transformer(nn.Module):
    def __init__(self, spelling: str) -> None:
        super().__init__()
        self.blocks = nn.Sequential(CausalBlock(spelling), CausalBlock(spelling))
        self.head = nn.Linear(WIDTH, 20)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.blocks(x))
        return result


class Encoder(nn.Module):
    """torch's own layers and mask."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x, mask=self.mask)
        return result


class Decoder(nn.Module):
    """Causal attention to itself, and attention to another sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 2 * WIDTH, batch_first=True)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        result: Tensor = self.layer(x, memory, tgt_mask=mask, tgt_is_causal=True)
        return result


class VoiceActivity(nn.Module):
    """A frame of sound, convolutions, and an LSTM whose state the caller keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(1, 16, 16, stride=8), nn.ReLU(), nn.Conv1d(16, 24, 3, stride=2, padding=1), nn.ReLU()
        )
        self.lstm, self.head = nn.LSTM(24, 24, batch_first=True), nn.Conv1d(24, 1, 1)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, (h, c) = self.lstm(self.front(x).transpose(1, 2), (h, c))
        return torch.sigmoid(self.head(F.relu(y).transpose(1, 2))).mean(2), h, c


class Crnn(nn.Module):
    """Convolutions over an image of text or sound, and a recurrent layer in both directions."""

    def __init__(self, kind: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d((2, 1)),
        )  # fmt: skip
        self.recurrent = kind(12 * 4, 16, bidirectional=True, batch_first=True)
        self.head = nn.Linear(32, 11)

    def forward(self, x: Tensor) -> Tensor:
        features = self.front(x)
        steps = features.permute(0, 3, 1, 2).flatten(2)
        return F.log_softmax(self.head(self.recurrent(steps)[0]), -1)


class Denoiser(nn.Module):
    """After RNNoise: whether there is a voice, and a gain for each band, of every frame."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.voice = nn.Linear(20, 16), nn.GRU(16, 16, batch_first=True)
        self.noise, self.gain = nn.GRU(36, 24, batch_first=True), nn.GRU(60, 32, batch_first=True)
        self.speaks, self.bands = nn.Linear(16, 1), nn.Linear(32, 18)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        voice = self.voice(torch.tanh(self.into(x)))[0]
        noise = self.noise(torch.cat([voice, x], 2))[0]
        gain = self.gain(torch.cat([voice, noise, x], 2))[0]
        return torch.sigmoid(self.bands(gain)), torch.sigmoid(self.speaks(voice))


class FrameDenoiser(Denoiser):
    """The same, a frame a call: what its layers remember are buffers."""

    heard: Tensor
    hushed: Tensor
    gained: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name, width in (("heard", 16), ("hushed", 24), ("gained", 32)):
            self.register_buffer(name, torch.zeros(1, 1, width))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        voice, self.heard = self.voice(torch.tanh(self.into(x)), self.heard)
        noise, self.hushed = self.noise(torch.cat([voice, x], 2), self.hushed)
        gain, self.gained = self.gain(torch.cat([voice, noise, x], 2), self.gained)
        return torch.sigmoid(self.bands(gain)), torch.sigmoid(self.speaks(voice))


class Classifier(nn.Module):
    """Two layers of LSTM over the samples of a sensor; what the last one ends with."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent, self.head = nn.LSTM(6, 20, num_layers=2, batch_first=True), nn.Linear(20, 5)

    def forward(self, x: Tensor) -> Tensor:
        _, (hidden, _) = self.recurrent(x)
        result: Tensor = self.head(hidden[-1])
        return result


SEQUENCE = ((1, LENGTH, WIDTH),)
FRAMES = 30
# How it is made, the shapes of its inputs, and decibels beside the model itself.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], Shapes, float]] = {
    "u-net": (UNet, ((1, 1, 16, 16),), 33),
    "siamese": (Siamese, ((1, 1, 16, 16), (1, 1, 16, 16)), 33),
    "transformer": (lambda: Transformer("causal"), SEQUENCE, 28),
    "transformer, mask added": (lambda: Transformer("added"), SEQUENCE, 28),
    "transformer, mask filled": (lambda: Transformer("filled"), SEQUENCE, 28),
    "encoder": (Encoder, SEQUENCE, 30),
    "decoder": (Decoder, (*SEQUENCE, (1, 9, WIDTH)), 30),
    "voice activity": (VoiceActivity, ((1, 1, 256), (1, 1, 24), (1, 1, 24)), 30),
    "denoiser": (Denoiser, ((1, FRAMES, 20),), 30),
    "classifier, lstm": (Classifier, ((1, 20, 6),), 28),
    "crnn, lstm": (lambda: Crnn(nn.LSTM), ((1, 1, 16, 32),), 30),
    "crnn, gru": (lambda: Crnn(nn.GRU), ((1, 1, 16, 32),), 30),
}
SPELLINGS = ("causal", "added", "filled")
STATE = 0.1  # how large the states of a recurrent layer are
ON_BOARDS = {
    "transformer": FOUR[0],
    "siamese": FOUR[0],
    "voice activity": FOUR[1],
    "denoiser": FOUR[3],
    "classifier, lstm": FOUR[2],
    "crnn, gru": FOUR[0],
    "crnn, lstm": FOUR[1],
    "u-net": FOUR[2],
}
MORE = {"siamese": 40, "voice activity": 24, "classifier, lstm": 24}  # samples, where an output has few values


def network(name: str, samples: int = SAMPLES) -> tuple[nn.Module, list[tuple[Tensor, ...]]]:
    torch.manual_seed(0)
    make, shapes, _ = NETWORKS[name]
    scales = (1.0, STATE, STATE) if name == "voice activity" else (1.0,) * len(shapes)
    inputs = [
        tuple(
            randn(*size, seed=7 * number + place, scale=scale)
            for place, (size, scale) in enumerate(zip(shapes, scales, strict=True))
        )
        for number in range(samples)
    ]
    return make().eval(), inputs


def as_arrays(inputs: list[tuple[Tensor, ...]]) -> list[list[Any]]:
    return [[x.numpy() for x in sample] for sample in inputs]


def prepared(name: str) -> tuple[Model, nn.Module, list[tuple[Tensor, ...]]]:
    model, inputs = network(name)
    return prepare(model, inputs[0], inputs, name="net"), model, inputs


@pytest.mark.cases(3)
@pytest.mark.host
@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_bits_here_and_close_to_the_model_itself(name: str, tmp_path: Path) -> None:
    ready, model, inputs = prepared(name)
    artifact = ready.compile(from_target_string("cortex-m4")).save(tmp_path / "net")
    assert artifact.run(as_arrays(inputs[:3]), "host").bit_exact
    _, more = network(name, MORE.get(name, SAMPLES))
    assert min(beside_pt2e(model, ready.quantized, artifact, more)) > NETWORKS[name][2]


@pytest.mark.slow
@pytest.mark.host
@pytest.mark.qemu
def test_frame_by_frame_is_the_whole_sequence(tmp_path: Path) -> None:
    """What a layer remembers between calls is what it remembers within one."""
    whole, _ = network("denoiser")
    torch.manual_seed(0)
    model = FrameDenoiser().eval()
    frames: list[tuple[Tensor, ...]] = [(randn(1, 1, 20, seed=frame),) for frame in range(3 * FRAMES)]
    ready = prepare(model, frames[0], frames, name="net", options=Options(sequence=FRAMES))
    artifact = ready.compile(from_target_string("cortex-m4")).save(tmp_path / "net")
    first = frames[:FRAMES]
    for place in ("host", None):
        assert artifact.run(as_arrays(first), place).bit_exact
    beside_pt2e(model, ready.quantized, artifact, first)
    with torch.no_grad():
        wanted = whole(torch.cat([frame for (frame,) in first], 1))
    for one, found in zip(wanted, zip(*integer_outputs(artifact, first), strict=True), strict=True):
        assert decibels(one, torch.cat(found, 1)) > 30


@pytest.mark.cases(2)
@pytest.mark.qemu
@pytest.mark.parametrize(
    ("name", "target"),
    [
        *ON_BOARDS.items(),
        *(pytest.param("transformer", target, marks=pytest.mark.slow) for target in FOUR[1:]),
    ],
)
def test_the_same_bits_on_boards(name: str, target: str, tmp_path: Path) -> None:
    ready, _, inputs = prepared(name)
    artifact = ready.compile(from_target_string(target)).save(tmp_path / "net")
    assert artifact.run(as_arrays(inputs[:1]), check_stores=True).bit_exact


@pytest.mark.slow
def test_the_spelling_of_a_mask_makes_no_difference() -> None:
    """The same codes, not only nearly the same numbers."""
    found = []
    _, inputs = network("transformer")
    for spelling in SPELLINGS:
        torch.manual_seed(0)
        lowered = lower_on(Transformer(spelling), inputs)
        assert lowered.kernels.count("masked_softmax") == 2
        found.append([lowered.outputs(*sample)[0] for sample in inputs])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))
