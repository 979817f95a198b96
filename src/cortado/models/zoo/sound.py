"""One second of sound at 16 kHz: a recording that comes with Cortado, or a .wav file."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

from cortado.base.errors import CortadoError
from cortado.models.zoo._trained import load_clips
from cortado.models.zoo.mfcc import RATE


def words() -> tuple[str, ...]:
    """Returns what is said in the recordings that come with Cortado."""
    return tuple(load_clips())


def load(name: str) -> np.ndarray:
    """(RATE,) in [-1, 1): the recording of a word, or the loudest second of a file."""
    clips = load_clips()
    if name in clips:
        samples = clips[name]
    elif Path(name).suffix == ".wav":
        samples = _loudest_second(_read_wav(Path(name)))
    else:
        raise CortadoError(f"no recording is called {name!r}; expected a .wav file, or one of {', '.join(clips)}")
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
