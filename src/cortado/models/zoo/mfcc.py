"""MFCC front end of ds_cnn: one second of sound at 16 kHz as 49 frames of 10 mel-frequency cepstral coefficients."""

import math

import torch
from torch import Tensor

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
