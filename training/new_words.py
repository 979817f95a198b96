"""Has espeak-ng say words that the keyword networks never heard, for examples/teach: features as they take them.

Voices are those that no training heard; a voice is a variant with one accent. Each clip is heard in noise of 10 to 30
decibels, as the test set is.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cortado.models.zoo.sounds import RATE, mfcc
from keywords import SCALE, TEST_DECIBELS, heard
from speech import ACCENTS, OTHERS, espeak_variants, said

OUT = Path(__file__).parent.parent / "examples" / "teach" / "words.npz"
NEW = ("coffee", "garden", "lucy", "morning", "radio", "seventeen")
UNSEEN = (
    *("paper", "monkey", "river", "silver", "button", "camera", "purple", "candle", "sugar", "engine", "pencil"),
    *("winter", "orange", "market", "ladder", "basket"),
)
VOICES, TIMES = 6, 7  # that say new words, and how often
UNSEEN_VOICES, OTHER_VOICES = 10, 6


def spoken(rng: np.random.Generator) -> list[tuple[str, str, str, list[str]]]:
    """Group, voice, word and the command that says it."""
    variants = espeak_variants()
    held_out = np.random.default_rng(0).permutation(np.unique(variants))[: len(variants) // 5]  # as keywords.py does
    found = []
    for number, voice in enumerate(held_out):
        accent = str(rng.choice(ACCENTS))
        groups: list[tuple[str, tuple[str, ...], int]] = [("new", NEW, TIMES)] * (number < VOICES)
        groups += [("unseen", UNSEEN, 1)] * (number < UNSEEN_VOICES)
        groups += [("other", OTHERS, 1)] * (number >= len(held_out) - OTHER_VOICES)
        for group, words, times in groups:
            for word in words * times:
                rate, pitch = str(rng.integers(110, 200)), str(rng.integers(20, 85))
                command = ["espeak-ng", "-v", f"{accent}+{voice}", "-s", rate, "-p", pitch, "--stdout", word]
                found.append((group, str(voice), word, command))
    return found


def features(clips: list[np.ndarray]) -> Tensor:
    audio = torch.from_numpy(np.stack([np.pad(one, (0, RATE - len(one))) for one in clips])).float() / 32768
    length = torch.tensor([float(len(one)) for one in clips])
    generator = torch.Generator().manual_seed(3)
    babble = audio[torch.randperm(len(audio), generator=generator)[:300]]
    parts = zip(audio.split(240), length.split(240), strict=True)
    return torch.cat([mfcc(heard(part, size, babble, TEST_DECIBELS, generator)) for part, size in parts])


def main() -> None:
    jobs = spoken(np.random.default_rng(11))
    with ThreadPoolExecutor(2) as pool:
        clips = list(pool.map(said, [command for *_, command in jobs]))
    kept = [number for number, clip in enumerate(clips) if 2000 < len(clip) <= RATE]
    found = features([clips[number] for number in kept])
    groups, voices, words = (np.array([jobs[number][part] for number in kept]) for part in range(3))
    codes = (found / SCALE).round().clamp(-128, 127).to(torch.int8).numpy()
    np.savez_compressed(OUT, codes=codes, scale=np.float32(SCALE), group=groups, voice=voices, word=words)
    print(f"{len(kept)} of {len(jobs)} clips kept, {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
