"""Words in sound: 20 ms of samples after the other go to a microcontroller, and a word comes out.

python examples/keyword/spot.py build/keyword [yes left stop]
"""

import sys
import tempfile

import numpy as np
import torch
from torch import Tensor, nn

import cortado
from cortado.models import zoo
from cortado.models.zoo import sound
from cortado.models.zoo.mfcc import RATE, cosines, filters

WINDOW, HOP, POINTS = 640, 320, 1024  # samples of a frame, from one to the next, and of its FFT
SMOOTHED = 8  # outputs that are averaged: a word stays in the window for longer than that
SURE = 0.5
CHIPS = {"nrf52840": "cortex-m4", "stm32u575": "cortex-m33"}
LOUDNESS = (1.0, 0.3, 0.1)  # of the recordings that ranges are chosen from


class Spotter(nn.Module):
    """The zoo's network behind the features that it was trained on (cortado.models.zoo.mfcc): a second of int16 samples
    to the scores of words."""

    window: Tensor
    mel: Tensor

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("window", torch.hann_window(WINDOW))
        self.register_buffer("mel", filters())
        bands, coefficients = cosines().shape
        self.cosines = nn.Linear(bands, coefficients, bias=False)
        self.cosines.weight = nn.Parameter(cosines().T.contiguous())

    def features(self, samples: Tensor) -> Tensor:
        frames = (samples.float() / 32768).unfold(1, WINDOW, HOP) * self.window
        energy = torch.fft.rfft(frames, POINTS).abs() @ self.mel
        found: Tensor = self.cosines(torch.log(energy + 1e-3) + 3.0)[:, None]
        return found

    def forward(self, samples: Tensor) -> Tensor:
        scores: Tensor = self.network(self.features(samples))
        return scores


def quiet(samples: int) -> np.ndarray:
    return 1e-4 * np.random.default_rng(0).normal(size=samples)


def as_samples(signal: np.ndarray) -> np.ndarray:
    """What a converter of 16 bits gives."""
    return np.clip(np.round(signal * 32768), -32768, 32767).astype(np.int16)


def calibration() -> list[tuple[Tensor]]:
    """Every recording at several loudnesses, and silence."""
    spoken = [loud * sound.load(word) for word in sound.words() for loud in LOUDNESS]
    return [(torch.from_numpy(as_samples(one))[None],) for one in (*spoken, quiet(RATE))]


def listened(words: list[str]) -> np.ndarray:
    """A second of silence before, between and behind the words."""
    pieces = [quiet(RATE), *(piece for word in words for piece in (sound.load(word), quiet(RATE)))]
    return as_samples(np.concatenate(pieces))


def recognised(scores: Tensor, labels: tuple[str, ...]) -> list[tuple[int, str]]:
    """Outputs at which a word is first believed, until it is no more."""
    chances = scores.softmax(1).unfold(0, SMOOTHED, 1).mean(2)
    found, last = [], ""
    for number, chance in enumerate(chances, start=SMOOTHED - 1):
        best = int(chance.argmax())
        word = labels[best] if chance[best] > SURE and labels[best] not in ("silence", "unknown") else ""
        if word and word != last:
            found.append((number, word))
        last = word
    return found


def budget(model: cortado.Model, chip: str) -> str:
    """What the largest push takes of a chip: its instructions are exact, their cycles a model's at zero wait states."""
    compiled = model.compile(target=CHIPS[chip], options=cortado.Options(stream=1, artifacts="c", chip=chip))
    with tempfile.TemporaryDirectory() as folder:
        artifact = compiled.save(f"{folder}/spotter")
        window = [artifact.example()]
        largest = max(artifact.run(window, check_stores=True).result.pushes)
        spent = artifact.run(window, timed=True).result.work.total
    report = compiled.report
    cycles = largest * spent.cycles.typical / spent.instructions
    flash = report.flash.weights_bytes + report.flash.code_bytes
    return (
        f"{chip} at {report.chip.clock_hz // 1_000_000} MHz: {1000 * cycles / report.chip.clock_hz:.1f} ms of every "
        f"{1000 * HOP // RATE} ({largest:,} instructions), {report.memory.arena_bytes:,} bytes of RAM, {flash:,} of "
        "flash"
    )


def main(folder: str, words: list[str]) -> None:
    network = zoo.get("kws_stream")
    labels = network.labels or ()
    recordings = calibration()
    spotter = Spotter(network.build()).eval()
    model = cortado.prepare(spotter, recordings[0], recordings, name="spotter", labels=labels)
    compiled = model.compile("cortex-m4", cortado.Options(stream=1, artifacts="c"))
    compiled.save(folder)

    streamed = compiled.stream(listened(words))
    for number, word in recognised(torch.from_numpy(streamed.outputs), labels):
        print(f"{(streamed.ends[number] + 1) * HOP / RATE:5.2f} s: {word}")
    for chip in CHIPS:
        print(budget(model, chip))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or ["yes", "left", "stop"])
