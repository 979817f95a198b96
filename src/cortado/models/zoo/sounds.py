"""DS-CNN, MLPerf Tiny's keyword spotting network: 49 frames of 10 MFCC features in, 12 keyword scores out.

MLPerf Tiny's anomaly detection network: a spectrogram window that it can't rebuild is an unusual sound.

MFCC front end of ds_cnn: one second of sound at 16 kHz as 49 frames of 10 mel-frequency cepstral coefficients.

Keyword spotting with a recurrent layer: a GRU reads the 49 frames of a second, and its last state is classified.

Keyword spotting as sound arrives: every layer looks back in time only, so that each new frame costs a row of each.

A second is 49 frames of 10 MFCC features, as for ds_cnn; no convolution is padded in time. Compiled with
`--stream` one frame of 20 ms goes in, and the scores of the second that ends there come out.

One second of sound at 16 kHz: a recording that comes with Cortado, or a .wav file.
"""

from __future__ import annotations

import math
import wave
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from cortado.base.errors import CortadoError
from cortado.models.zoo._definition import Definition
from cortado.models.zoo._trained import load_clips

# ---- deep autoencoder ------------------------------------------------------------------------------------

# 5 frames of 128 mel bands, squeezed through 8 numbers and unfolded again.
WIDTHS = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)


class DeepAutoencoder(nn.Module):
    """Linear layers, all but the last with batch norm and ReLU."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(WIDTHS[:-1]):
            layers += [nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(*WIDTHS[-2:]))

    def forward(self, x: Tensor) -> Tensor:
        rebuilt: Tensor = self.layers(x)
        return rebuilt


DEEP_AUTOENCODER = Definition(create=DeepAutoencoder, input_shape=(1, 640))


# ---- mfcc ------------------------------------------------------------------------------------------------

RATE = 16_000
FRAMES, COEFFICIENTS = 49, 10
_WINDOW, _STRIDE, _FFT = 640, 320, 1024
_BANDS, _LOW, _HIGH = 40, 20.0, 4000.0
_FLOOR, _MIDDLE = 1e-3, -3.0  # of the bands' loudness: what is silence, what becomes 0


def _mel(hertz: Tensor) -> Tensor:
    return 1127 * torch.log1p(hertz / 700)


def filters(warp: float = 1.0) -> Tensor:
    """(513, 40): triangles on the mel scale. `warp` moves all frequencies, as a shorter or longer throat would."""
    low, high = _mel(torch.tensor([_LOW, _HIGH], dtype=torch.float64))
    edges = low + (high - low) * torch.arange(_BANDS + 2, dtype=torch.float64) / (_BANDS + 1)
    at = _mel(torch.arange(_FFT // 2 + 1, dtype=torch.float64) * (RATE / _FFT) * warp)[:, None]
    rising = (at - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - at) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0).float()


def cosines() -> Tensor:
    """(40, 10): from the loudness of the bands to the coefficients."""
    angle = math.pi / _BANDS * (torch.arange(_BANDS)[:, None] + 0.5) * torch.arange(COEFFICIENTS)
    found = torch.cos(angle) * math.sqrt(2 / _BANDS) / 10
    found[:, 0] /= math.sqrt(2)
    return found


def mfcc(sound: Tensor, bands: Tensor | None = None) -> Tensor:
    """(n, 16000) in [-1, 1) to (n, 1, 49, 10), about unit size; `bands` are those of `filters`, warped or not."""
    frames = sound.unfold(1, _WINDOW, _STRIDE) * torch.hann_window(_WINDOW)
    energy = torch.fft.rfft(frames, _FFT).abs() @ (filters() if bands is None else bands)
    loudness = torch.log(energy + _FLOOR) - _MIDDLE
    return (loudness @ cosines())[:, None]


# ---- ds cnn ----------------------------------------------------------------------------------------------

WIDTH = 64
LABELS = ("down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes", "silence", "unknown")


def _separable() -> list[nn.Module]:
    """A depthwise 3x3, then a pointwise convolution, each with batch norm and ReLU."""
    return [
        nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH, bias=False),
        nn.BatchNorm2d(WIDTH),
        nn.ReLU(),
        nn.Conv2d(WIDTH, WIDTH, 1, bias=False),
        nn.BatchNorm2d(WIDTH),
        nn.ReLU(),
    ]


class DsCnn(nn.Module):
    """A 10x4 stem over time and features, four separable blocks, a pool over (almost) everything."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, WIDTH, (10, 4), stride=2, padding=(5, 1), bias=False),
            nn.BatchNorm2d(WIDTH),
            nn.ReLU(),
            nn.Dropout(0.2),
        )
        self.blocks = nn.Sequential(*[layer for _ in range(4) for layer in _separable()])
        self.dropout = nn.Dropout(0.4)
        # The features are 25 rows high here: the last one is outside the pool, as in the original.
        self.pool = nn.AvgPool2d((24, 5))
        self.classifier = nn.Linear(WIDTH, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        x = self.dropout(self.blocks(self.stem(x)))
        scores: Tensor = self.classifier(self.pool(x).flatten(1))
        return scores


DS_CNN = Definition(create=DsCnn, input_shape=(1, 1, 49, 10), labels=LABELS, hear=mfcc)


# ---- kws gru ---------------------------------------------------------------------------------------------

UNITS = 48


class KwsGru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(COEFFICIENTS, UNITS, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(UNITS, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.gru(x.squeeze(1))
        scores: Tensor = self.classifier(self.dropout(states[:, -1]))
        return scores


KWS_GRU = Definition(create=KwsGru, input_shape=(1, 1, FRAMES, COEFFICIENTS), labels=LABELS, hear=mfcc)


# ---- kws stream ------------------------------------------------------------------------------------------

STREAM_WIDTH, BLOCKS = 48, 4
STEM, TAPS = 4, 5  # frames that the first layer sees, and that each block does
KEPT = FRAMES - (STEM - 1) - BLOCKS * (TAPS - 1)  # rows that are left for the average


def _norm_relu() -> list[nn.Module]:
    return [nn.BatchNorm2d(STREAM_WIDTH), nn.ReLU()]


class KwsStream(nn.Module):
    """One pixel wide: the features of a frame are seen by the first layer at once."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, STREAM_WIDTH, (STEM, COEFFICIENTS), bias=False), *_norm_relu())
        self.blocks = nn.Sequential(
            *[
                layer
                for _ in range(BLOCKS)
                for layer in (
                    nn.Conv2d(STREAM_WIDTH, STREAM_WIDTH, (TAPS, 1), groups=STREAM_WIDTH, bias=False),
                    *_norm_relu(),
                    nn.Conv2d(STREAM_WIDTH, STREAM_WIDTH, 1, bias=False),
                    *_norm_relu(),
                )
            ]
        )
        self.pool = nn.AvgPool2d((KEPT, 1))
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(STREAM_WIDTH, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.blocks(self.stem(x)))
        scores: Tensor = self.classifier(self.dropout(x.flatten(1)))
        return scores


KWS_STREAM = Definition(create=KwsStream, input_shape=(1, 1, FRAMES, COEFFICIENTS), labels=LABELS, hear=mfcc)


# ---- sound -----------------------------------------------------------------------------------------------


def words() -> tuple[str, ...]:
    """Words of the recordings that come with Cortado."""
    return tuple(load_clips())


def load(name: str) -> np.ndarray:
    """(RATE,) in [-1, 1): the recording of a word, or the loudest second of a file."""
    clips = load_clips()
    if name in clips:
        samples = clips[name]
    elif Path(name).suffix == ".wav":
        samples = _loudest_second(_read_wav(Path(name)))
    else:
        raise CortadoError(f"there is no recording called {name!r}; expected a .wav file, or one of {', '.join(clips)}")
    return samples.astype(np.float32) / 32768


def _read_wav(path: Path) -> np.ndarray:
    try:
        with wave.open(str(path)) as file:
            found = (file.getnchannels(), 8 * file.getsampwidth(), file.getframerate())
            data = file.readframes(file.getnframes())
    except Exception as error:  # a damaged file raises whatever struct and wave do, some of it without a word
        raise CortadoError(f"{path} can't be read as a .wav file: {str(error) or 'it is damaged'}") from error
    if found != (1, 16, RATE):
        raise CortadoError(
            f"{path} has {found[0]} channels of {found[1]} bits at {found[2]} Hz; expected 1 of 16 bits at {RATE} Hz "
            f"(as `sox IN -r {RATE} -c 1 -b 16 OUT.wav` makes it)"
        )
    if not data:
        raise CortadoError(f"{path} holds no sound")
    return np.frombuffer(data[: len(data) & ~1], "<i2")


def _loudest_second(sound: np.ndarray) -> np.ndarray:
    """A word is somewhere in a longer recording; a shorter one gets silence on both sides."""
    missing = max(0, RATE - len(sound))
    sound = np.pad(sound, (missing // 2, missing - missing // 2))
    energy = np.concatenate([[0], np.cumsum(sound.astype(np.int64) ** 2)])
    start = int(np.argmax(energy[RATE:] - energy[:-RATE]))
    return sound[start : start + RATE]
