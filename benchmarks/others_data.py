"""Data for the trained models of others: speech that espeak-ng synthesizes, noise that is drawn, and what the models'
packages hold.

Speech is Debian's espeak-ng (`apt install espeak-ng`): each speaker is one of its voice variants in one of the accents
of English, with a pitch and a speed of its own. Noise is white, pink, brown, or a hum with overtones.
"""

import io
import subprocess
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

RATE = 16_000
Wave = npt.NDArray[np.float64]
SENTENCES = (
    "the ferry leaves at seven and comes back after dark",
    "she keeps the spare key below the blue flower pot",
    "nobody had told him that the bridge was closed",
    "two eggs, a spoon of sugar and half a glass of milk",
    "our neighbour plays the trumpet when it rains",
    "please turn off the heating in the small room",
    "the old map shows a path along the river",
    "he counted the steps and forgot the number again",
    "a yellow bus stopped in front of the museum",
    "what did you think of the film we saw on friday",
    "the engine makes a strange noise in third gear",
    "they painted every window of the house green",
    "winter came early and the lake froze in a night",
    "my brother works in a factory that makes pencils",
    "the last train was late, so we walked all the way",
    "give me the red thread and the longest needle",
)
ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp", "en-029", "en-gb-x-gbcwmd")
VARIANTS = (
    *("adam", "Alex", "Alicia", "Andrea", "Andy", "Annie", "antonio", "aunty", "belinda", "benjamin"),
    *("boris", "caleb", "david", "Denis", "Diogo", "ed", "edward", "Gene", "gustave", "Henrique"),
)


@dataclass(frozen=True)
class Speaker:
    """A voice of espeak-ng; pitch from 0 to 99, speed in words a minute."""

    variant: str
    accent: str
    pitch: int
    speed: int

    def says(self, sentence: str) -> Wave:
        return _spoken(self, sentence)


def speakers(count: int) -> list[Speaker]:
    rng = np.random.default_rng(42)
    return [
        Speaker(
            VARIANTS[number], ACCENTS[number % len(ACCENTS)], int(rng.integers(25, 75)), int(rng.integers(130, 200))
        )
        for number in range(count)
    ]


@cache
def _spoken(speaker: Speaker, sentence: str) -> Wave:
    """16 kHz, its largest value 1."""
    voice = f"{speaker.accent}+{speaker.variant}"
    command = ["espeak-ng", "-v", voice, "-p", str(speaker.pitch), "-s", str(speaker.speed), "--stdout", sentence]
    made = subprocess.run(command, check=True, capture_output=True).stdout
    with wave.open(io.BytesIO(made)) as file:
        rate, raw = file.getframerate(), file.readframes(len(made))
    found = resampled(np.frombuffer(raw, dtype="<i2").astype(np.float64), rate)
    return found / np.abs(found).max()


def resampled(sound: Wave, rate: int) -> Wave:
    """At 16 kHz, all above half of it cut off."""
    size = len(sound) * RATE // rate
    return np.fft.irfft(np.fft.rfft(sound)[: size // 2 + 1], size) * size / len(sound)


def noise(rng: np.random.Generator, size: int) -> Wave:
    """White, pink, brown or a hum; its power is 1."""
    slope = rng.choice([0.0, 0.5, 1.0, -1.0])
    if slope >= 0:
        spectrum = np.fft.rfft(rng.standard_normal(size))
        found = np.fft.irfft(spectrum / np.maximum(np.arange(len(spectrum)), 8.0) ** slope, size)
    else:
        at, tone = np.arange(size) / RATE, rng.uniform(45, 130)
        waves = [rng.random() / k * np.sin(2 * np.pi * (k * tone * at + rng.random())) for k in range(1, 12)]
        found = np.sum(waves, axis=0) + 0.02 * rng.standard_normal(size)
    return found / np.sqrt(np.square(found).mean())


def conversation(rng: np.random.Generator, voices: Sequence[Speaker], size: int) -> Wave:
    """Sentences of drawn speakers and loudness with pauses between them, in noise of a drawn level."""
    parts, length = list[Wave](), 0
    while length < size:
        pause = np.zeros(int(RATE * rng.uniform(0.2, 1.5)))
        voice = voices[int(rng.integers(len(voices)))].says(SENTENCES[int(rng.integers(len(SENTENCES)))])
        parts += [pause, voice * 10 ** rng.uniform(-1.5, -0.1)]
        length += len(pause) + len(voice)
    start = rng.integers(length - size + 1)
    loud = 10 ** rng.uniform(-4, -2)
    return np.clip(np.concatenate(parts)[start : start + size] + loud * noise(rng, size), -1, 1)


# ---- as the models read it -------------------------------------------------------------------------------------------


def chunks(sequences: int, steps: int, size: int) -> Wave:
    """[sequences * steps, size]: conversations, in the second half of other speakers than in the first."""
    rng, voices, found = np.random.default_rng(3), speakers(20), []
    for number in range(sequences):
        some = voices[:10] if number < sequences // 2 else voices[10:]
        found.append(conversation(rng, some, steps * size).reshape(steps, size))
    return np.round(np.concatenate(found) * 32767) / 32768


def spoken_pieces(each: int, size: int) -> Wave:
    """[20 * each, size]: pieces that 20 speakers say one after the other, in noise, all of the same mean power."""
    rng, found = np.random.default_rng(5), []
    for voice in speakers(20):
        for place in rng.permutation(len(SENTENCES))[:each]:
            whole = np.tile(voice.says(SENTENCES[place]), 2)
            start = rng.integers(len(whole) - size + 1) if len(whole) > size else 0
            piece = np.resize(whole, start + size)[start:]
            piece = piece / np.sqrt(np.square(piece).mean()) + 10 ** rng.uniform(-2.5, -1) * noise(rng, size)
            found.append(piece * 10**-1.5)
    return np.stack(found)


def disturbed(count: int, size: int) -> Wave:
    """[count, size]: speech in noise of drawn level, some clipped, some with pieces cut out."""
    rng, voices, found = np.random.default_rng(9), speakers(20), []
    for number in range(count):
        some = voices[:10] if number < count // 2 else voices[10:]
        clean = conversation(rng, some, size)
        worse = clean + 10 ** rng.uniform(-3.5, -1) * noise(rng, size)
        if rng.random() < 0.3:
            worse = np.clip(worse * rng.uniform(2, 20), -0.9, 0.9)
        if rng.random() < 0.3:
            worse = worse * np.repeat(rng.random(size // 800 + 1) > 0.15, 800)[:size]
        found.append(np.clip(worse, -1, 1))
    return np.stack(found)


def mel_power(sound: Wave, points: int, bands: int) -> Wave:
    """[frames, bands]: librosa's melspectrogram with hops of 160 samples, ends padded with zeros."""
    padded = np.pad(sound, points // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, points)[::160]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(points) / points)
    return np.square(np.abs(np.fft.rfft(frames * window))) @ mel_weights(points, bands).T


def mel_weights(points: int, bands: int) -> Wave:
    """[bands, bins]: Slaney's triangles of equal area, linear below 1 kHz and logarithmic above."""
    step = np.log(6.4) / 27
    tops = np.linspace(0, 15 + np.log(RATE / 2 / 1000) / step, bands + 2)
    edges = np.where(tops < 15, tops * 200 / 3, 1000 * np.exp(step * (tops - 15)))
    bins = np.arange(points // 2 + 1) * RATE / points
    up = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    down = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    return np.maximum(0, np.minimum(up, down)) * (2 / (edges[2:] - edges[:-2]))[:, None]


# ---- lines of text ---------------------------------------------------------------------------------------------------

FONTS = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSerif", "DejaVuSerif-Italic", "DejaVuSansMono", "DejaVuSans-Oblique")


def lines_of_text(count: int, height: int, width: int) -> Wave:
    """[count, height, width] from 0 to 1: lines in Debian's fonts, every other upside down, with noise, contrast and
    light of their own."""
    rng, found = np.random.default_rng(11), []
    for number in range(count):
        words = SENTENCES[int(rng.integers(len(SENTENCES)))].split()
        start = rng.integers(len(words))
        text = " ".join(words[start : start + 3]).title() + str(rng.integers(1000))
        font = f"/usr/share/fonts/truetype/dejavu/{FONTS[int(rng.integers(len(FONTS)))]}.ttf"
        command = ["convert", "-background", "white", "-fill", "black", "-font", font, "-pointsize", "40"]
        made = subprocess.run(
            [*command, f"label:{text}", "-resize", f"{width}x{height}!", "-depth", "8", "gray:-"],
            check=True,
            capture_output=True,
        ).stdout
        line = np.frombuffer(made, dtype=np.uint8).reshape(height, width) / 255
        line = line if rng.random() < 0.7 else 1 - line
        line = line[::-1, ::-1] if number % 2 else line
        dark = rng.uniform(0, 0.4)
        line = dark + (rng.uniform(0.6, 1) - dark) * line + rng.uniform(0, 0.08) * rng.standard_normal(line.shape)
        found.append(np.clip(line, 0, 1))
    return np.stack(found)
