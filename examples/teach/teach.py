"""Three new words, taught to a keyword spotter on an emulated board with five utterances each.

python examples/teach/teach.py build/teach [several|one] [host|board]
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import cortado
from cortado.learning import Prototypes, prototypes
from cortado.models import zoo
from cortado.models.zoo.sounds import DsCnn

NETWORK = zoo.get("ds_cnn")
REST = (10, 11)  # silence, unknown
KNOWN, WORDS, UTTERANCES = 12, 3, 5
THRESHOLD = 0.006  # of the cosine beyond that with the nearest unknown words
EPISODES = 2  # of other words and voices
FIGURES = (
    "closed set: nearest of the three",
    "closed set: offline",
    "new words found",
    "new words found, offline at the same false alarms",
    "unknown words rejected",
    "old words right",
    "old words right, before",
)


class Spotter(nn.Module):
    """The network's scores, and features for new words: mean and maximum over its third block."""

    def __init__(self, network: DsCnn) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        early = self.network.blocks[:18](self.network.stem(x))
        part = early[:, :, :24]
        features = torch.cat([part.mean((2, 3)), part.amax((2, 3))], 1)
        return self.network.classifier(self.network.pool(self.network.blocks[18:](early)).flatten(1)), features


class Features(nn.Module):
    """The features alone."""

    def __init__(self, spotter: Spotter) -> None:
        super().__init__()
        self.spotter = spotter

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.spotter(x)[1]
        return found


class Words:
    """Words by espeak-ng (training/new_words.py): new ones, unseen ones, and others of no class."""

    def __init__(self) -> None:
        with np.load(Path(__file__).parent / "words.npz", allow_pickle=False) as stored:
            self.x = torch.from_numpy(stored["codes"].astype(np.float32) * stored["scale"])
            self.group, self.voice, self.word = stored["group"], stored["voice"], stored["word"]

    def rows(self, group: str) -> np.ndarray:
        return np.flatnonzero(self.group == group)

    def episode(self, number: int, voices: str) -> tuple[list[int], list[int], list[int], list[int]]:
        """Rows that teach with their classes, and rows that test: the same voices' other utterances, for one voice
        alone; with several also those of a voice that taught nothing."""
        rng, new = np.random.default_rng(number), self.rows("new")
        words = rng.choice(np.unique(self.word[new]), WORDS, replace=False)
        order = rng.permutation(np.unique(self.voice[new]))
        teachers = order[:UTTERANCES] if voices == "several" else order[:1]
        taught: list[int] = []
        labels: list[int] = []
        asked: list[int] = []
        wanted: list[int] = []
        for label, word in enumerate(words):
            mine = [new[(self.word[new] == word) & (self.voice[new] == voice)] for voice in teachers]
            chosen = [int(one[0]) for one in mine] if voices == "several" else mine[0][:UTTERANCES].tolist()
            rest = [int(row) for one in mine for row in one if row not in chosen]
            if voices == "several":
                rest += new[(self.word[new] == word) & (self.voice[new] == order[-1])].tolist()
            taught, labels = taught + chosen, labels + [label] * len(chosen)
            asked, wanted = asked + rest, wanted + [label] * len(rest)
        return taught, labels, asked, wanted


def offline(features: Tensor, labels: Tensor, weights: Tensor | None, classes: int) -> nn.Linear:
    """A linear layer trained on a computer, with the same utterances."""
    torch.manual_seed(0)
    layer = nn.Linear(features.shape[1], classes)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    for _ in range(300):
        optimizer.zero_grad()
        functional.cross_entropy(layer(features), labels, weight=weights).backward()
        optimizer.step()
    return layer.requires_grad_(False)


def calls_of(x: Tensor, taught: list[int], labels: list[int], asked: list[Tensor]) -> list[tuple[Any, ...]]:
    """What a user does: empties the words, teaches them, and speaks."""
    found: list[tuple[Any, ...]] = [("forget", torch.tensor([one], dtype=torch.int32)) for one in range(WORDS)]
    for row, label in zip(taught, labels, strict=True):
        found.append(("learn", x[row : row + 1], torch.tensor([label], dtype=torch.int32)))
    return found + [("forward", one[None]) for one in asked]


@dataclass(frozen=True)
class Lesson:
    """What one episode teaches and asks, and what the network itself sees in it."""

    taught: list[int]
    labels: list[int]
    asked: Tensor  # new words, then words that nobody taught, then keywords
    wanted: np.ndarray  # of the new words
    strange: int
    known: np.ndarray  # the labels of the keywords

    def parts(self) -> list[np.ndarray]:
        """Rows of new, strange and old words."""
        new = len(self.wanted)
        return np.split(np.arange(len(self.asked)), [new, new + self.strange])


def lessons(data: Words, voices: str, episodes: int) -> list[Lesson]:
    old, old_labels = NETWORK.test_set()
    words = (old_labels < 10).nonzero().flatten()[::2]
    unseen = data.x[data.rows("unseen")]
    found = []
    for number in range(episodes):
        taught, labels, asked, wanted = data.episode(number, voices)
        every = torch.cat([data.x[asked], unseen, old[words]])
        found.append(Lesson(taught, labels, every, np.array(wanted), len(unseen), old_labels[words].numpy()))
    return found


def typical_sounds(data: Words) -> tuple[Tensor, Tensor]:
    """What says how large features are, and all examples of no class."""
    others = data.x[data.rows("other")]
    calibration = torch.cat([one for (one,) in NETWORK.calibration(100)])
    return torch.cat([calibration[:50], others[::4]]), torch.cat([calibration, others])


def spotter(data: Words, typical: Tensor) -> tuple[Prototypes, Prototypes]:
    """The network with its own words that can be taught new ones, and one that tells taught words apart alone."""
    network = NETWORK.build()
    assert isinstance(network, DsCnn)
    others, seeing = data.x[data.rows("other")], Spotter(network)
    taught = prototypes(seeing, WORDS, samples=typical, others=others, rest=REST, threshold=THRESHOLD)
    return taught, prototypes(Features(seeing), WORDS, samples=typical)


def answers_of(
    taught: Prototypes, name: str, typical: Tensor, calls: list[tuple[Any, ...]], on: str, folder: str | None
) -> Iterator[int]:
    """Compiles a model that is taught, makes the calls on the device, and returns what it answers to each `forward`."""
    methods = taught.methods(typical[:1])
    compiled = cortado.compile_methods(taught, methods, "cortex-m4", taught.calls(typical[::2]), name, taught.options())
    if folder is not None:
        compiled.save(folder)
    done = compiled.run(calls, on=None if on == "board" else on)
    print(f"{compiled}\n{done}")
    return iter([int(one[0][0]) for one in done.outputs if one])


def figures_of(taught: Prototypes, data: Words, lesson: Lesson, right: np.ndarray, background: Tensor) -> list[float]:
    """The device's answers beside what a linear layer does that a computer trains with the same utterances."""
    with torch.no_grad():
        scores, features = taught.seen(lesson.asked)
        own = taught.seen(data.x[lesson.taught])[1]
    assert scores is not None
    new, strange, known = lesson.parts()
    calm = scores.argmax(1).numpy() >= 10
    closed = offline(own, torch.tensor(lesson.labels), None, WORDS)
    every = torch.cat([own, background])
    classes = torch.tensor([*lesson.labels, *[WORDS] * len(background)])
    each = torch.bincount(classes).float().reciprocal() * len(every) / (WORDS + 1)
    each[WORDS] *= WORDS
    layer = offline(every, classes, each, WORDS + 1)(features)
    margin = (layer[:, :WORDS] - layer[:, WORDS:]).numpy()
    passed = float((right[strange] >= KNOWN).mean())
    limit = np.quantile(np.where(calm[strange], margin[strange].max(1), -99.0), 1.0 - passed)
    chosen = (margin[new].argmax(1) == lesson.wanted) & (margin[new].max(1) > limit) & calm[new]
    return [
        (closed(features[new]).argmax(1).numpy() == lesson.wanted).mean(),
        (right[new] == lesson.wanted + KNOWN).mean(),
        chosen.mean(),
        1.0 - passed,
        (right[known] == lesson.known).mean(),
        (scores[known].argmax(1).numpy() == lesson.known).mean(),
    ]


def measure(folder: str, voices: str, on: str, episodes: int = EPISODES) -> dict[str, float]:
    """Teaches the compiled spotter on the emulated board (or "host"), and returns the means over the episodes."""
    data = Words()
    typical, background = typical_sounds(data)
    taught, apart = spotter(data, typical)
    given = lessons(data, voices, episodes)
    calls = [call for one in given for call in calls_of(data.x, one.taught, one.labels, [*one.asked])]
    answers = answers_of(taught, "teach", typical, calls, on, folder)
    new = [one.asked[: len(one.wanted)] for one in given]
    calls = [call for one, x in zip(given, new, strict=True) for call in calls_of(data.x, one.taught, one.labels, [*x])]
    nearest = answers_of(apart, "apart", typical, calls, on, None)
    with torch.no_grad():
        unlike = taught.seen(background)[1]
    rows = []
    for one in given:
        said, near = np.array([*islice(answers, len(one.asked))]), np.array([*islice(nearest, len(one.wanted))])
        rows.append([float((near == one.wanted).mean()), *figures_of(taught, data, one, said, unlike)])
    return dict(zip(FIGURES, np.mean(rows, axis=0).tolist(), strict=True))


def main(folder: str, voices: str = "several", on: str = "board") -> None:
    for name, value in measure(folder, voices, on).items():
        print(f"{name:52} {value:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
