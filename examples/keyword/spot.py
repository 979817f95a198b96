"""Words in sound: 20 ms of samples after the other go to a microcontroller, and a word comes out.

python examples/keyword/spot.py build/keyword [yes left stop]
"""

import sys
import tempfile
import wave
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import cortado
from cortado.models import zoo
from cortado.models.zoo import sounds
from cortado.models.zoo.sounds import RATE, cosines, filters

WINDOW, HOP, POINTS = 640, 320, 1024  # samples of a frame, from one to the next, and of its FFT
NO_DECISION = -1
# A word stays in the window for longer than 12 outputs, and is gone after a second, which is 50 of them. By this rule
# all words are heard wherever hops begin (cortado evaluate --phases all); the mean of 8 at 0.5 lost one in 21 of 320.
DECIDE = "smooth=12,threshold=0.42,holdoff=50,ignore=silence:unknown"
CHIPS = {"nrf52840": "cortex-m4", "stm32u575": "cortex-m33"}
LOUDNESS = (1.0, 0.3, 0.1)  # of the recordings that ranges are chosen from


class Spotter(nn.Module):
    """The zoo's network behind the features that it was trained on (cortado.models.zoo.sounds): a second of int16
    samples to the probabilities of words."""

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
        return scores.softmax(1)


def quiet(samples: int) -> np.ndarray:
    return 1e-4 * np.random.default_rng(0).normal(size=samples)


def as_samples(signal: np.ndarray) -> np.ndarray:
    """What a converter of 16 bits gives."""
    return np.clip(np.round(signal * 32768), -32768, 32767).astype(np.int16)


def calibration() -> list[tuple[Tensor]]:
    """Every recording at several loudnesses, and silence."""
    spoken = [loud * sounds.load(word) for word in sounds.words() for loud in LOUDNESS]
    return [(torch.from_numpy(as_samples(one))[None],) for one in (*spoken, quiet(RATE))]


def listened(words: list[str]) -> np.ndarray:
    """A second of silence before, between and behind the words."""
    pieces = [quiet(RATE), *(piece for word in words for piece in (sounds.load(word), quiet(RATE)))]
    return as_samples(np.concatenate(pieces))


def record(folder: str, samples: np.ndarray, words: list[str]) -> None:
    """The same as a .wav file, and when each word is said, for `cortado evaluate --stream`; and as C for firmware/."""
    with wave.open(f"{Path(folder)}.wav", "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.astype("<i2").tobytes())
    lines = "\n".join(f"    {', '.join(map(str, row))}," for row in np.split(samples, range(16, len(samples), 16)))
    Path(f"{Path(folder)}.recording.c").write_text(
        "#include <stdint.h>\n\nextern const int16_t recording[];\nextern const uint32_t recording_samples;\n\n"
        f"const uint32_t recording_samples = {len(samples)}u;\nconst int16_t recording[] = {{\n{lines}\n}};\n"
    )
    rows = [f"{1 + 2 * number},{2 + 2 * number},{word}" for number, word in enumerate(words)]
    Path(f"{Path(folder)}.csv").write_text("\n".join(["start,end,class", *rows, ""]))


def options(chip: str | None = None) -> cortado.Options:
    return cortado.Options(stream=1, artifacts="c", decide=DECIDE, chip=chip)


def budget(model: cortado.Model, chip: str) -> str:
    """What the largest push takes of a chip: its instructions are exact, their cycles a model's at zero wait states."""
    compiled = model.compile(target=CHIPS[chip], options=options(chip))
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
    compiled = model.compile("cortex-m4", options())
    compiled.save(folder)

    samples = listened(words)
    record(folder, samples, words)
    streamed = compiled.stream(samples)
    for end, decision in zip(streamed.ends, streamed.decisions, strict=True):
        if decision != NO_DECISION:
            print(f"{(end + 1) * HOP / RATE:5.2f} s: {labels[decision]}")
    for chip in CHIPS:
        print(budget(model, chip))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or ["yes", "left", "stop"])
