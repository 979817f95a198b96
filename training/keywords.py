"""Trains a keyword spotter of the zoo on the synthesized speech of speech.py; nobody who is heard in a test was.

Every clip is heard about six times, each time at another speed, place and throat, in other noise; the microphone
changes with every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import common
from cortado.models.zoo.sounds import LABELS, RATE, DsCnn, KwsGru, KwsStream, cosines, filters, mfcc
from speech import CLIPS, KEYWORDS, Synthesizer

BATCH = 64
POOL, PART, SILENT = 400, 128, 10  # parts that are heard once; rows of each, and those of them that are noise alone
SILENCE, UNKNOWN = LABELS.index("silence"), LABELS.index("unknown")
HELD_OUT_SPEAKERS = ("slt", "ked")
TEST_DECIBELS = (10.0, 30.0)
SCALE = 1 / 32
SHIPPED_GROUP = "unseen espeak-ng voices"
TEST_SEED = 7


@dataclass(frozen=True)
class Recipe:
    create: Callable[[], nn.Module]
    epochs: int


RECIPES = {
    "ds_cnn": Recipe(DsCnn, epochs=30),
    "kws_stream": Recipe(KwsStream, epochs=60),
    "kws_gru": Recipe(KwsGru, epochs=60),
}


@dataclass(frozen=True)
class Speech:
    """Clips along the first dimension."""

    audio: Tensor
    length: Tensor
    labels: Tensor
    words: np.ndarray

    def take(self, rows: Tensor) -> Speech:
        return Speech(self.audio[rows], self.length[rows], self.labels[rows], self.words[rows.numpy()])

    def waves(self) -> Tensor:
        return self.audio.float() / 32768


@dataclass(frozen=True)
class Data:
    train: Speech
    weights: Tensor
    """How often each clip is drawn: the few recorded speakers more often than the many synthetic ones."""
    tests: dict[str, Speech]


def load() -> Data:
    with np.load(CLIPS, allow_pickle=False) as stored:
        synthesizer, speaker, words = stored["synthesizer"], stored["speaker"], stored["word"]
        audio, length = torch.from_numpy(stored["audio"]), torch.from_numpy(stored["length"]).float()
    labels = torch.tensor([LABELS.index(word) if word in KEYWORDS else UNKNOWN for word in words])
    every = Speech(audio, length, labels, words)
    espeak = synthesizer == Synthesizer.ESPEAK.value
    variants = np.unique(speaker[espeak])
    held_out = np.random.default_rng(0).permutation(variants)[: len(variants) // 5]
    groups = {
        SHIPPED_GROUP: espeak & np.isin(speaker, held_out),
        "unseen recorded speakers": ~espeak & np.isin(speaker, HELD_OUT_SPEAKERS),
    }
    training = torch.from_numpy(np.flatnonzero(~np.logical_or.reduce(list(groups.values()))))
    weights = torch.where(labels == UNKNOWN, 0.7, 1.0) * torch.where(torch.from_numpy(espeak), 1.0, 2.5)
    tests = {name: every.take(torch.from_numpy(np.flatnonzero(mine))) for name, mine in groups.items()}
    return Data(every.take(training), weights[training], tests)


# ---- one second of sound -----------------------------------------------------------------------------------------


def noise(count: int, kind: int, babble: Tensor, generator: torch.Generator) -> Tensor:
    """Of unit power: white, pink, brown, or six people who talk at once."""
    if kind == 3:
        chosen = torch.randint(len(babble), (count, 6), generator=generator)
        sound = babble[chosen].sum(1).roll(int(torch.randint(RATE, (1,), generator=generator)), 1)
    else:
        hertz = torch.arange(RATE // 2 + 1).clamp(min=20.0)
        spectrum = torch.fft.rfft(torch.randn(count, RATE, generator=generator))
        sound = torch.fft.irfft(spectrum / hertz ** (kind / 2), RATE)
    return sound / sound.square().mean(1, keepdim=True).sqrt().clamp(min=1e-6)


def placed(waves: Tensor, length: Tensor, generator: torch.Generator) -> Tensor:
    """Each word somewhere in its second."""
    start = (torch.rand(len(waves), generator=generator) * (RATE - length).clamp(min=1)).long()
    return waves.gather(1, (torch.arange(RATE) - start[:, None]) % RATE)


def at_speed(waves: Tensor, length: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    """Faster and higher, or slower and lower."""
    size = int(RATE / factor)
    resampled = F.interpolate(waves[:, None], size=size, mode="linear")[:, 0, :RATE]
    return F.pad(resampled, (0, RATE - resampled.shape[1])), (length / factor).clamp(max=RATE)


def heard(
    waves: Tensor, length: Tensor, babble: Tensor, decibels: tuple[float, float], generator: torch.Generator
) -> Tensor:
    """Words in noise, near and far; a word of length 0 is silence, which is noise alone."""
    count = len(waves)

    def vary(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, generator=generator)

    waves = placed(waves, length, generator)
    level = waves.square().mean(1).sqrt() / 10 ** (vary(*decibels) / 20)
    level = torch.where(length == 0, 10 ** vary(-4.0, -1.0), level)
    kinds = torch.randint(4, (count,), generator=generator)
    added = torch.empty(count, RATE)
    for kind in range(4):
        mine = kinds == kind
        added[mine] = noise(int(mine.sum()), kind, babble, generator)
    return ((waves + added * level[:, None]) * 10 ** vary(-1.0, 0.0)[:, None]).clamp(-1, 1)


def with_silence(speech: Speech, silent: int) -> tuple[Tensor, Tensor, Tensor]:
    """Waves, lengths and labels, with so many rows of nothing behind them."""
    waves = F.pad(speech.waves(), (0, 0, 0, silent))
    return waves, F.pad(speech.length, (0, silent)), F.pad(speech.labels, (0, silent), value=SILENCE)


# ---- training and testing ------------------------------------------------------------------------------------------


def pool(data: Data, babble: Tensor) -> tuple[Tensor, Tensor]:
    """Features and labels of the training clips, each time heard anew."""
    throats = [filters(warp) for warp in torch.linspace(0.8, 1.25, 13).tolist()]
    found = []
    for part in range(POOL):
        generator = torch.Generator().manual_seed(part)
        rows = torch.multinomial(data.weights, PART - SILENT, generator=generator)
        waves, length, labels = with_silence(data.train.take(rows), SILENT)
        waves, length = at_speed(waves, length, 0.85 + 0.3 * float(torch.rand(1, generator=generator)))
        waves = heard(waves, length, babble, (3.0, 35.0), generator)
        found.append((mfcc(waves, throats[part * 5 % len(throats)]), labels))
    features, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
    return features, labels


def task(data: Data, babble: Tensor) -> common.Task:
    features, labels = pool(data, babble)

    def batch(_: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        rows = torch.randint(len(features), (BATCH,), generator=generator)
        # A microphone's own colour: a random walk over the bands.
        tilt = torch.cumsum(0.15 * torch.randn(BATCH, 40, generator=generator), 1)
        tilt += 0.3 * torch.randn(BATCH, 1, generator=generator)
        inputs = features[rows] + (tilt @ cosines())[:, None, None]
        gap = int(torch.randint(43, (1,), generator=generator))
        inputs[:, :, gap : gap + 6] = inputs[:, :, gap : gap + 6].mean(2, keepdim=True)
        return inputs, labels[rows]

    loss = torch.nn.CrossEntropyLoss(label_smoothing=0.05)
    return common.Task(batch, loss, len(data.train.labels), BATCH)


def test_waves(speech: Speech, babble: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """A group's words in noise, and a twelfth as many seconds of silence."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(speech.labels), generator=generator)
    found = []
    for part in rows.split(240):
        waves, length, labels = with_silence(speech.take(part), len(part) // 12)
        found.append((heard(waves, length, babble, TEST_DECIBELS, generator), labels))
    waves, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
    order = torch.randperm(len(labels), generator=generator)
    return waves[order], labels[order]


def test_features(speech: Speech, babble: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    waves, labels = test_waves(speech, babble, seed)
    return torch.cat([mfcc(part) for part in waves.split(240)]), labels


def babble_of(data: Data) -> tuple[Tensor, Tensor]:
    """Some of the training clips, and their waves: those who talk in the background."""
    some = torch.randperm(len(data.train.labels), generator=torch.Generator().manual_seed(0))[:600]
    return some, data.train.take(some).waves()


def test_set() -> tuple[Tensor, Tensor]:
    """What unseen voices of espeak-ng say."""
    data = load()
    return test_features(data.tests[SHIPPED_GROUP], babble_of(data)[1], seed=TEST_SEED)


def ship_clips(speech: Speech) -> None:
    """One clip of espeak-ng for each keyword, and of one other word, in the middle of its second."""
    chosen = []
    for word in (*KEYWORDS, "house"):
        rows = np.flatnonzero(speech.words == word)
        chosen.append(rows[math.floor(len(rows) / 2)])
    clips = speech.take(torch.tensor(chosen))
    shift = ((RATE - clips.length) / 2).long()
    audio = clips.audio.gather(1, (torch.arange(RATE) - shift[:, None]) % RATE)
    common.write("clips", {"audio": audio.numpy(), "words": clips.words})


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("network", choices=RECIPES)
    options = parser.parse_args()
    recipe = RECIPES[options.network]
    data = load()
    some, babble = babble_of(data)
    torch.manual_seed(0)
    model, learned = recipe.create(), task(data, babble)
    steps = learned.steps(options.epochs or recipe.epochs)
    common.train(options.network, model, learned, steps=steps, rate=4e-3, fresh=options.fresh)
    common.round_to_half(model)

    tested = {name: test_features(speech, babble, seed=TEST_SEED) for name, speech in data.tests.items()}
    for name, (features, labels) in tested.items():
        right = common.outputs(model, features).argmax(1) == labels
        keywords = right[labels < len(KEYWORDS)].float().mean()
        print(f"{name}: {right.float().mean():.3f} of {len(labels)} right, {keywords:.3f} of the keywords")
        print("  " + ", ".join(f"{LABELS[i]} {right[labels == i].float().mean():.2f}" for i in range(len(LABELS))))

    features, labels = tested[SHIPPED_GROUP]
    right = common.outputs(model, features).argmax(1) == labels
    calibration, _ = test_features(data.train.take(some[:240]), babble, seed=8)
    common.ship_samples("keywords", calibration, features, labels, scale=SCALE, offset=0.0)
    ship_clips(data.tests[SHIPPED_GROUP])
    common.finish_classifier(options.network, model, right)


if __name__ == "__main__":
    main()
