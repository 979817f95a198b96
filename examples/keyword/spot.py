"""Words in a stream of sound: one frame of 20 ms after the other goes to a Cortex-M4, and a word comes out.

python examples/keyword/spot.py build/keyword [yes left stop]
"""

import sys

import torch
from torch import Tensor

import cortado
from cortado.models import zoo
from cortado.models.zoo import sound
from cortado.models.zoo.mfcc import RATE, mfcc

FRAMES_PER_SECOND = 50
SMOOTHED = 8  # outputs that are averaged: a word stays in the window for longer than that
SURE = 0.5


def listened(words: list[str]) -> Tensor:
    """(frames, 10): a second of silence before, between and behind the words."""
    quiet = 1e-4 * torch.randn(RATE, generator=torch.Generator().manual_seed(0))
    pieces = [quiet, *(piece for word in words for piece in (torch.from_numpy(sound.load(word)), quiet))]
    return mfcc(torch.cat(pieces)[None])[0, 0]


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


def main(folder: str, words: list[str]) -> None:
    network = zoo.get("kws_stream")
    labels = network.labels or ()
    compiled = cortado.compile(
        network.build(),
        network.example_inputs(),
        target="cortex-m4",
        calibration=network.own_calibration(),
        name="kws_stream",
        options=cortado.Options(stream=2),
        labels=labels,
    )
    compiled.save(folder)
    report = compiled.report
    print(f"{report.memory.arena_bytes:,} bytes of RAM, {report.stream.state_bytes:,} of them kept between frames")

    frames = listened(words)
    streamed = compiled.stream(frames)
    for number, word in recognised(torch.from_numpy(streamed.outputs), labels):
        print(f"{(streamed.ends[number] + 1) / FRAMES_PER_SECOND:5.2f} s: {word}")
    each = streamed.instructions / len(frames)
    print(f"{len(frames)} frames, {each:,.0f} instructions each (exact, on average)")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or ["yes", "left", "stop"])
