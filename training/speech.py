"""Has Debian's synthesizers (espeak-ng, flite, festival) say words, and keeps the clips in build/training/speech.npz.

Only for training: no recording of flite's and festival's speakers ships, and none of their clips.
"""

from __future__ import annotations

import io
import itertools
import subprocess
import tempfile
import wave
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np

import common
from cortado.models.zoo.sounds import LABELS, RATE

CLIPS = common.BUILD / "speech.npz"
KEYWORDS = LABELS[:10]
# fmt: off
OTHERS = (
    "bed", "bird", "cat", "dog", "eight", "five", "four", "happy", "house", "marvin", "nine", "one", "seven", "sheila",
    "six", "three", "tree", "two", "wow", "zero", "backward", "forward", "follow", "learn", "visual", "light", "music",
    "window", "table", "water",
)
ACCENTS = (
    "en-us", "en-us", "en-us", "en-gb", "en-gb-x-rp", "en-gb-scotland", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-029",
)
# fmt: on
# Variants of espeak-ng that nobody would take for a person.
ROBOTS = ("robo", "whisper", "Demonic", "UniRobot", "anikaRobot", "fast", "Mr serious", "Storm", "croak", "Tweaky")


class Synthesizer(Enum):
    ESPEAK = "espeak-ng"
    FLITE = "flite"
    FESTIVAL = "festival"


FLITE_PITCH = {"slt": 170, "kal16": 105, "awb": 120, "rms": 95}
FESTIVAL_VOICES = {"kal": "voice_kal_diphone", "ked": "voice_ked_diphone", "slt": "voice_cmu_us_slt_arctic_hts"}
# Diphone voices follow a line of pitch that a program may set; the statistical one has its own.
FESTIVAL_PITCH = (
    "(set! int_lr_params '((target_f0_mean {mean}) (target_f0_std {spread}) (model_f0_mean 170) (model_f0_std 34)))"
)


@dataclass(frozen=True)
class Utterance:
    """One word in one voice. The same speaker may stand behind voices of two synthesizers (kal, slt)."""

    synthesizer: Synthesizer
    voice: str
    word: str

    @property
    def speaker(self) -> str:
        return self.voice.removesuffix("16")


def espeak_variants() -> list[str]:
    listed = subprocess.run(["espeak-ng", "--voices=variant"], capture_output=True, text=True, check=True).stdout
    files = [line.split("!v/")[1].split("  ")[0].strip() for line in listed.splitlines() if "!v/" in line]
    return sorted(name for name in files if not name.startswith(ROBOTS))


def trimmed(data: bytes) -> np.ndarray:
    """A .wav at 16 kHz, of one loudness, without the silence around the word."""
    with wave.open(io.BytesIO(data)) as file:
        rate = file.getframerate()
    # A synthesizer that writes to a pipe doesn't know the length it will have: read to the end.
    raw = data[data.index(b"data") + 8 :]
    signal = np.frombuffer(raw[: len(raw) & ~1], "<i2").astype(np.float64)
    if rate != RATE and len(signal):
        count = round(len(signal) * RATE / rate)
        signal = np.fft.irfft(np.fft.rfft(signal)[: count // 2 + 1], count) * count / len(signal)
    loud = np.flatnonzero(np.abs(signal) > 0.02 * np.abs(signal).max(initial=1.0))
    if not len(loud):
        return np.zeros(0, np.int16)
    signal = signal[max(0, loud[0] - 400) : loud[-1] + 800]
    return (signal * (16000 / np.abs(signal).max())).astype(np.int16)


def say(utterance: Utterance, rng: np.random.Generator) -> list[str]:
    """The command that writes the word to its standard output, with a rate and a pitch of its own."""
    if utterance.synthesizer is Synthesizer.ESPEAK:
        voice = f"{rng.choice(ACCENTS)}+{utterance.voice}"
        rate, pitch = rng.integers(110, 200), rng.integers(20, 85)
        return ["espeak-ng", "-v", voice, "-s", str(rate), "-p", str(pitch), "--stdout", utterance.word]
    mean = FLITE_PITCH[utterance.voice] * rng.uniform(0.8, 1.25)
    features = {
        "duration_stretch": rng.uniform(0.75, 1.35),
        "int_f0_target_mean": mean,
        "int_f0_target_stddev": rng.uniform(8, 30),
    }
    settings = [text for key, value in features.items() for text in ("--setf", f"{key}={value:.2f}")]
    return ["flite", "-voice", utterance.voice, *settings, "-t", utterance.word, "-o", "/dev/stdout"]


def said(command: list[str]) -> np.ndarray:
    return trimmed(subprocess.run(command, capture_output=True, check=True).stdout)


def festival(voice: str, words: list[str], rng: np.random.Generator) -> list[np.ndarray]:
    """All words of one voice by one process: festival takes a second to start."""
    with tempfile.TemporaryDirectory() as folder:
        lines = [f"({FESTIVAL_VOICES[voice]})"]
        for number, word in enumerate(words):
            lines.append(f"(Parameter.set 'Duration_Stretch {rng.uniform(0.75, 1.4):.2f})")
            if voice != "slt":
                lines.append(FESTIVAL_PITCH.format(mean=int(rng.uniform(80, 150)), spread=int(rng.uniform(8, 25))))
            target = f'"{folder}/{number}.wav"'
            lines.append(f'(utt.save.wave (utt.synth (Utterance Text "{word}")) {target} \'riff)')
        script = Path(folder) / "words.scm"
        script.write_text("\n".join(lines))
        subprocess.run(["festival", "-b", str(script)], check=True, capture_output=True)
        return [trimmed((Path(folder) / f"{number}.wav").read_bytes()) for number in range(len(words))]


def utterances(synthesizer: Synthesizer, voices: list[str], keyword: int, other: int) -> list[Utterance]:
    """Every word in every voice, keywords and others so many times."""
    words = [word for group, times in ((KEYWORDS, keyword), (OTHERS, other)) for word in group for _ in range(times)]
    return [Utterance(synthesizer, voice, word) for voice in voices for word in words]


def main() -> None:
    rng = np.random.default_rng(0)
    piped = utterances(Synthesizer.ESPEAK, espeak_variants(), keyword=5, other=1)
    piped += utterances(Synthesizer.FLITE, list(FLITE_PITCH), keyword=24, other=8)
    commands = [say(utterance, rng) for utterance in piped]
    with ThreadPoolExecutor(2) as pool:
        clips = list(pool.map(said, commands))
    rest = utterances(Synthesizer.FESTIVAL, list(FESTIVAL_VOICES), keyword=24, other=8)
    for voice, group in itertools.groupby(rest, lambda utterance: utterance.voice):
        clips += festival(voice, [utterance.word for utterance in group], rng)
    spoken = [*piped, *rest]
    kept = [number for number, clip in enumerate(clips) if 2000 < len(clip) <= RATE]
    audio = np.stack([np.pad(clips[number], (0, RATE - len(clips[number]))) for number in kept])
    common.BUILD.mkdir(parents=True, exist_ok=True)
    np.savez(
        CLIPS,
        audio=audio,
        length=np.array([len(clips[number]) for number in kept]),
        synthesizer=np.array([spoken[number].synthesizer.value for number in kept]),
        speaker=np.array([spoken[number].speaker for number in kept]),
        word=np.array([spoken[number].word for number in kept]),
    )
    print(f"{len(kept):,} of {len(clips):,} clips kept, the others too long or silent")


if __name__ == "__main__":
    main()
