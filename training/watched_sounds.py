"""Has espeak-ng say keywords, other words and words of other languages, and makes music up, for benchmarks/learning.py:
what `--watch` is to tell apart, as features that ds_cnn takes.

Keywords to calibrate with are of voices of the training, those to test with of voices that no training heard.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from cortado.models.zoo.sounds import RATE
from keywords import SCALE
from new_words import UNSEEN, features
from speech import ACCENTS, KEYWORDS, espeak_variants, said

OUT = Path(__file__).parent.parent / "benchmarks" / "watched_sounds.npz"
CALIBRATION, EACH = 400, 120
FOREIGN = {
    "de": ("Brot", "Freitag", "Schlüssel", "zwanzig", "Wohnung", "langsam"),
    "fr": ("fromage", "lundi", "jardin", "lumière", "voiture", "demain"),
    "it": ("finestra", "sabato", "giallo", "piccolo", "strada", "acqua"),
    "pl": ("chleb", "okno", "dziękuję", "wieczór", "zielony", "szkoła"),
}
NOTES = 220.0 * 2 ** (np.array([0, 2, 4, 7, 9, 12, 14, 16]) / 12)  # hertz


def music(rng: np.random.Generator) -> np.ndarray:
    """A second of plucked notes over a chord, each of eight overtones."""
    time = np.arange(RATE) / RATE
    sound = np.zeros(RATE)
    starts = np.sort(rng.uniform(0.0, 0.8, rng.integers(3, 7)))
    for start, hertz in [*((float(one), float(rng.choice(NOTES))) for one in starts), (0.0, float(NOTES[0] / 2))]:
        after = time - start
        decay = np.where(after >= 0, np.exp(-after.clip(min=0) * rng.uniform(1.5, 6.0)), 0.0)
        for number in range(1, 9):
            sound += decay * np.sin(2 * np.pi * hertz * number * time) / number**1.3
    return (sound * (16000 / np.abs(sound).max())).astype(np.int16)


def command(rng: np.random.Generator, voice: str, word: str) -> list[str]:
    rate, pitch = str(rng.integers(110, 200)), str(rng.integers(20, 85))
    return ["espeak-ng", "-v", voice, "-s", rate, "-p", pitch, "--stdout", word]


def main() -> None:
    rng, variants = np.random.default_rng(17), espeak_variants()
    shuffled = np.random.default_rng(0).permutation(np.unique(variants))  # as keywords.py does
    unheard, heard = shuffled[: len(variants) // 5], shuffled[len(variants) // 5 :]
    jobs: list[tuple[str, str, list[str]]] = []
    for group, voices, count in (("calibration", heard, CALIBRATION), ("keywords", unheard, EACH)):
        for number in range(count):
            word, voice = KEYWORDS[number % len(KEYWORDS)], f"{rng.choice(ACCENTS)}+{rng.choice(voices)}"
            jobs.append((group, word, command(rng, voice, word)))
    for number in range(EACH):
        word = UNSEEN[number % len(UNSEEN)]
        jobs.append(("unseen words", word, command(rng, f"{rng.choice(ACCENTS)}+{rng.choice(unheard)}", word)))
        language = list(FOREIGN)[number % len(FOREIGN)]
        word = str(rng.choice(FOREIGN[language]))
        jobs.append(("foreign words", word, command(rng, f"{language}+{rng.choice(unheard)}", word)))
    with ThreadPoolExecutor(2) as pool:
        clips = list(pool.map(said, [one for *_, one in jobs]))
    kept = [number for number, clip in enumerate(clips) if 2000 < len(clip) <= RATE]
    clips = [*(clips[number] for number in kept), *(music(rng) for _ in range(EACH))]
    groups = np.array([*(jobs[number][0] for number in kept), *["music"] * EACH])
    words = np.array([*(jobs[number][1] for number in kept), *["music"] * EACH])
    codes = (features(clips) / SCALE).round().clamp(-128, 127).to(torch.int8).numpy()
    np.savez_compressed(OUT, codes=codes, scale=np.float32(SCALE), group=groups, word=words)
    print(f"{len(kept)} of {len(jobs)} clips kept, {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
